//! A block of field lines taken apart (RFC 9112 §5).

use memchr::memchr;

use crate::bytes::{has_line_ends_alone, is_blank, is_field_value};
use crate::fault::FaultKind;
use crate::fields::Fields;
use crate::head::Mended;

/// What is done with lines that only an old grammar allows.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Syntax {
    /// They are faults: requests, and every trailer section.
    Strict,
    /// They are mended where no boundary can move: an upstream's head.
    Mend,
}

/// Adds the lines of `block` to `fields`. The block ends with its empty line, and each line with LF; that each has its CR too was checked when
/// the end was searched for, if it matters.
pub(crate) fn parse(block: &[u8], fields: &mut Fields, syntax: Syntax) -> Result<Mended, FaultKind> {
    let mut mended = Mended::default();
    let base = fields.adopt(block);
    // Where every LF is known to have its CR, one look at the whole block spares one at each value.
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
                // obs-fold. On the first line there is nothing it could go on from (RFC 9112 §2.2).
                if syntax == Syntax::Strict || start == 0 {
                    return Err(FaultKind::Folded);
                }
                mended.folded = true;
                let (at, len) = value_of(line, 0, is_clean)?;
                fields.unfold(base + start + at, base + start + at + len);
            }
            Some(_) => {
                let name_len = fields.lower_token(base + start);
                let colon = colon_of(line, name_len, syntax)?;
                mended.space_before_colon |= colon > name_len;
                let (at, len) = value_of(line, colon + 1, is_clean)?;
                fields.add(base + start, name_len, base + start + at, len);
            }
        }
        start += lf + 1;
    }
    Ok(mended)
}

/// Offset of the colon behind a name of that length.
fn colon_of(line: &[u8], name_len: usize, syntax: Syntax) -> Result<usize, FaultKind> {
    if name_len == 0 {
        return Err(if line.first() == Some(&b'\r') { FaultKind::BareCr } else { FaultKind::BadFieldName });
    }
    let rest = line.get(name_len..).unwrap_or_default();
    let blanks = rest.iter().take_while(|&&b| is_blank(b)).count();
    match rest.get(blanks) {
        Some(b':') if blanks == 0 || syntax == Syntax::Mend => Ok(name_len + blanks),
        // RFC 9112 §5.1: a server MUST reject it with 400.
        Some(b':') => Err(FaultKind::BlankBeforeColon),
        Some(b'\r') => Err(FaultKind::BareCr),
        _ => Err(FaultKind::BadFieldName),
    }
}

/// Offset and length of what stands from `at` on, without the blanks around it.
fn value_of(line: &[u8], at: usize, is_clean: bool) -> Result<(usize, usize), FaultKind> {
    let raw = line.get(at..).unwrap_or_default();
    if !is_clean && !is_field_value(raw) {
        return Err(if raw.contains(&b'\r') { FaultKind::BareCr } else { FaultKind::BadFieldValue });
    }
    let value = raw.trim_ascii_start();
    let start = line.len() - value.len();
    Ok((start, value.trim_ascii_end().len()))
}
