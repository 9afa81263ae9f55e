//! Which format a client wants its errors in (RFC 9110 §12.5.1).

/// A format of error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Html,
    Json,
    /// JSON under the media type of RFC 9457, for clients that request it.
    ProblemJson,
}

/// In our order of preference, for a client without one.
const FORMATS: [(Format, &str, &str); 4] = [
    (Format::Text, "text", "plain"),
    (Format::Html, "text", "html"),
    (Format::Json, "application", "json"),
    (Format::ProblemJson, "application", "problem+json"),
];

impl Format {
    /// Our best format by the lines of `Accept`: the highest weight, then the most specific range, then the first in the list.
    /// Text when there is no such field, or when it accepts none of ours (RFC 9110 §12.4.1 lets a server disregard it).
    pub(super) fn accepted<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut best: [Option<Preference>; FORMATS.len()] = [None; FORMATS.len()];
        let ranges = accept.flat_map(|line| line.split(|&b| b == b','));
        for (place, range) in ranges.filter_map(|range| Range::parse(range.trim_ascii())).enumerate() {
            for ((_, kind, subtype), best) in FORMATS.iter().zip(&mut best) {
                let Some(exactness) = range.exactness(kind, subtype) else { continue };
                // The most specific range decides the weight, even if it is lower than that of a wider one.
                if best.is_none_or(|best| best.exactness < exactness) {
                    *best =
                        Some(Preference { weight: range.weight, exactness, earliness: usize::MAX - place });
                }
            }
        }
        let ranked = FORMATS.iter().zip(best).filter_map(|((format, ..), rank)| Some((*format, rank?)));
        let acceptable = ranked.filter(|(_, rank)| rank.weight > 0);
        // max_by_key takes the last of equals, and the first is wanted: hence the reversal.
        acceptable.rev().max_by_key(|(_, rank)| *rank).map_or(Self::Text, |(format, _)| format)
    }

    pub(super) fn content_type(self) -> &'static [u8] {
        match self {
            Self::Text => b"text/plain; charset=utf-8",
            Self::Html => b"text/html; charset=utf-8",
            Self::Json => b"application/json",
            Self::ProblemJson => b"application/problem+json",
        }
    }
}

/// How much a client prefers a format; compared member by member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    /// Thousandths.
    weight: u16,
    exactness: u8,
    earliness: usize,
}

/// A media range and its weight.
struct Range<'a> {
    kind: &'a [u8],
    subtype: &'a [u8],
    weight: u16,
}

impl<'a> Range<'a> {
    fn parse(range: &'a [u8]) -> Option<Self> {
        let mut parts = range.split(|&b| b == b';').map(<[u8]>::trim_ascii);
        let name = parts.next()?;
        let slash = name.iter().position(|&b| b == b'/')?;
        let (kind, subtype) = name.split_at_checked(slash)?;
        let weight = parts.find_map(|parameter| match parameter {
            [b'q' | b'Q', b'=', weight @ ..] => Some(parse_weight(weight)),
            _ => None,
        });
        Some(Self { kind, subtype: subtype.get(1..)?, weight: weight.unwrap_or(1000) })
    }

    fn exactness(&self, kind: &str, subtype: &str) -> Option<u8> {
        let is = |name: &[u8], ours: &str| name.eq_ignore_ascii_case(ours.as_bytes());
        match (self.kind, self.subtype) {
            (b"*", b"*") => Some(0),
            (range, b"*") if is(range, kind) => Some(1),
            (range, exact) if is(range, kind) && is(exact, subtype) => Some(2),
            _ => None,
        }
    }
}

/// `qvalue` (RFC 9110 §12.4.2) in thousandths. One that is malformed counts as none, which is 1.
fn parse_weight(text: &[u8]) -> u16 {
    let digits = match text {
        [b'0'] | [b'0', b'.'] => return 0,
        [b'0', b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return 1000,
    };
    let mut weight = 0;
    for place in 0..3 {
        let digit = digits.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return 1000;
        }
        weight = weight * 10 + u16::from(digit - b'0');
    }
    weight
}
