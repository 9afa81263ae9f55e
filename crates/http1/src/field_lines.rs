//! Parses a block of field lines (RFC 9112 §5).

use memchr::memchr;

use crate::bytes::{has_line_ends_alone, is_blank, is_field_value};
use crate::fault::FaultKind;
use crate::fields::Fields;
use crate::head::Normalizations;

/// How to treat lines that only an obsolete grammar allows.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Syntax {
    /// As faults: in requests, and in every trailer section.
    Strict,
    /// Normalize them where no boundary can move: in the head of an upstream.
    Lenient,
}

/// Adds the lines of `block` to `fields`. The block ends with its empty line, and each line with LF; their CRs were checked when
/// the end was searched for, if it matters.
pub(crate) fn parse(block: &[u8], fields: &mut Fields, syntax: Syntax) -> Result<Normalizations, FaultKind> {
    let mut normalized = Normalizations::default();
    let base = fields.push_block(block);
    // If every LF is known to have its CR, one pass over the whole block replaces one over each value.
    let is_clean = syntax == Syntax::Strict && has_line_ends_alone(block);
    let mut start = 0;
    while let Some(rest) = block.get(start..)
        && let Some(lf) = memchr(b'\n', rest)
        && let Some(line) = rest.get(..lf)
    {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.first() {
            None => break,
            Some(&blank) if is_blank(blank) => {
                // obs-fold. The first line has no line to continue (RFC 9112 §2.2).
                if syntax == Syntax::Strict || start == 0 {
                    return Err(FaultKind::Folded);
                }
                normalized.folded = true;
                let (at, len) = value_of(line, 0, is_clean)?;
                fields.extend_last(base + start + at, base + start + at + len);
            }
            Some(_) => {
                let name_len = fields.lowercase_token(base + start);
                let colon = colon_of(line, name_len, syntax)?;
                normalized.space_before_colon |= colon > name_len;
                let (at, len) = value_of(line, colon + 1, is_clean)?;
                fields.add(base + start, name_len, base + start + at, len);
            }
        }
        start += lf + 1;
    }
    Ok(normalized)
}

/// Offset of the colon after a name of that length.
fn colon_of(line: &[u8], name_len: usize, syntax: Syntax) -> Result<usize, FaultKind> {
    if name_len == 0 {
        return Err(if line.first() == Some(&b'\r') { FaultKind::BareCr } else { FaultKind::BadFieldName });
    }
    let rest = line.get(name_len..).unwrap_or_default();
    let blanks = rest.iter().take_while(|&&b| is_blank(b)).count();
    match rest.get(blanks) {
        Some(b':') if blanks == 0 || syntax == Syntax::Lenient => Ok(name_len + blanks),
        // RFC 9112 §5.1: a server MUST reject it with 400.
        Some(b':') => Err(FaultKind::SpaceBeforeColon),
        Some(b'\r') => Err(FaultKind::BareCr),
        _ => Err(FaultKind::BadFieldName),
    }
}

/// Offset and length of the value that begins at `at`, without the whitespace around it.
fn value_of(line: &[u8], at: usize, is_clean: bool) -> Result<(usize, usize), FaultKind> {
    let raw = line.get(at..).unwrap_or_default();
    if !is_clean && !is_field_value(raw) {
        return Err(if raw.contains(&b'\r') { FaultKind::BareCr } else { FaultKind::BadFieldValue });
    }
    let value = raw.trim_ascii_start();
    let start = line.len() - value.len();
    Ok((start, value.trim_ascii_end().len()))
}
