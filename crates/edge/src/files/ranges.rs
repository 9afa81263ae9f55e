//! Ranges of bytes (RFC 9110 §14).

use std::ops::Range;

/// Parts that are sent at most; a request for more gets the whole file (§14.2 lets a server ignore what looks like an attack).
const MAX_PARTS: usize = 16;

/// The parts of a file that a `Range` field selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RangeRequest {
    /// All of it: there is no `Range`, or one that is not understood, or one that is not worth it.
    Whole,
    /// These parts, none of them empty, in the client's order.
    Parts(Vec<Range<u64>>),
    /// Nothing that is there: 416.
    Nothing,
}

/// Reads a `Range`.
pub(super) fn parse_range(field: Option<&[u8]>, length: u64) -> RangeRequest {
    let Some(specs) = field.and_then(|field| strip_unit(field)) else { return RangeRequest::Whole };
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut any = false;
    for spec in specs.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty()) {
        let Some(part) = parse(spec, length) else { return RangeRequest::Whole };
        any = true;
        if part.is_empty() {
            continue;
        }
        // Overlapping parts only make the response larger than the file.
        let overlaps = parts.iter().any(|other| part.start < other.end && other.start < part.end);
        if overlaps || parts.len() == MAX_PARTS {
            return RangeRequest::Whole;
        }
        parts.push(part);
    }
    match (any, parts.is_empty()) {
        (false, _) => RangeRequest::Whole,
        (true, true) => RangeRequest::Nothing,
        (true, false) => RangeRequest::Parts(parts),
    }
}

/// `bytes=`, in any case (§14.1).
fn strip_unit(field: &[u8]) -> Option<&[u8]> {
    let (unit, specs) = field.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(specs)
}

/// One range; empty when it lies outside the file. `None`: not a range.
fn parse(spec: &[u8], length: u64) -> Option<Range<u64>> {
    let dash = spec.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (spec.get(..dash)?, spec.get(dash + 1..)?);
    Some(match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        // A suffix of the file; a length beyond the file's means all of it.
        (true, false) => length.saturating_sub(number(last)?)..length,
        (false, true) => number(first)?.min(length)..length,
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            first.min(length)..last.saturating_add(1).min(length)
        }
    })
}

/// Digits alone; what is beyond 64 bits is beyond every file.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, &digit| match digit {
        b'0'..=b'9' => Some(sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
        _ => None,
    })
}
