//! Normalization of paths (RFC 3986 §6.2.2). Routes match the normal form, which is also forwarded.

mod readings;

use std::fmt;

use memchr::memchr;

use crate::bytes::{hex_value, is_path_mark, is_unreserved};

pub use readings::path_readings;

/// Why a path is refused, with 400.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PathFault {
    /// `%` without two hexadecimal digits after it.
    BadPercent,
    /// `%00`, which ends a string in too many languages.
    Nul,
}

impl PathFault {
    /// Every fault.
    pub const ALL: &'static [PathFault] = &[Self::BadPercent, Self::Nul];

    /// The status to respond with.
    #[must_use]
    pub fn status(self) -> u16 {
        400
    }

    /// A stable name, for counters and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BadPercent => "bad_percent_encoding",
            Self::Nul => "nul_in_path",
        }
    }
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadPercent => "the client sent a path with a % that two hexadecimal digits do not follow",
            Self::Nul => "the client sent a path with %00 in it",
        })
    }
}

impl std::error::Error for PathFault {}

/// The normal form: percent-encoded unreserved bytes decoded, the digits of the others in upper case, dot segments removed, `%2F` and `//` as they
/// were. A path that is normal already, as nearly all are, is returned as it is after one look.
///
/// # Errors
///
/// A percent sign that encodes nothing, or encodes NUL.
pub fn normalize_path<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], PathFault> {
    let scan = scan_path(raw)?;
    if scan.is_normal {
        return Ok(raw);
    }
    scratch.clear();
    scratch.reserve(raw.len());
    decode_unreserved(raw, scratch)?;
    remove_dot_segments(scratch);
    Ok(scratch)
}

/// What one look at a path shows.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct PathScan {
    /// Normalizing would change nothing.
    pub is_normal: bool,
    /// It has separators that applications understand in different ways: see [`path_readings`].
    pub is_ambiguous: bool,
}

/// Every percent-encoded byte decoded, of a path in normal form. A path without any is returned as it is.
pub fn percent_decode<'a>(path: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr(b'%', path).is_none() {
        return path;
    }
    scratch.clear();
    scratch.reserve(path.len());
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        rest = match decode_percent(rest) {
            Some((decoded, after)) => {
                scratch.push(decoded);
                after
            }
            None => {
                scratch.push(*byte);
                tail
            }
        };
    }
    scratch
}

/// Looks at a path as received.
///
/// # Errors
///
/// A percent sign that encodes nothing, or encodes NUL.
pub fn scan_path(raw: &[u8]) -> Result<PathScan, PathFault> {
    let mut scan = PathScan { is_normal: true, is_ambiguous: false };
    let mut rest = raw;
    // Nearly every byte says nothing, and is passed over by one look into a table.
    while let Some(at) = rest.iter().position(|&byte| is_path_mark(byte)) {
        let Some((_, [mark, tail @ ..])) = rest.split_at_checked(at) else { break };
        rest = tail;
        match mark {
            b'/' => match tail {
                [b'/', ..] => scan.is_ambiguous = true,
                [b'.', ..] => scan.is_normal &= !begins_with_dot_segment(tail),
                _ => {}
            },
            b'%' => {
                let [high, low, after @ ..] = tail else { return Err(PathFault::BadPercent) };
                let (Some(high_value), Some(low_value)) = (hex_value(*high), hex_value(*low)) else {
                    return Err(PathFault::BadPercent);
                };
                let byte = high_value << 4 | low_value;
                if byte == 0 {
                    return Err(PathFault::Nul);
                }
                let upper = !high.is_ascii_lowercase() && !low.is_ascii_lowercase();
                scan.is_normal &= upper && !is_unreserved(byte);
                scan.is_ambiguous |= matches!(byte, b'/' | b';' | b'\\');
                rest = after;
            }
            _ => scan.is_ambiguous = true,
        }
    }
    Ok(scan)
}

/// Whether `.` or `..` is the next segment.
fn begins_with_dot_segment(path: &[u8]) -> bool {
    matches!(path, [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..])
}

fn decode_unreserved(raw: &[u8], out: &mut Vec<u8>) -> Result<(), PathFault> {
    let mut rest = raw;
    while let [byte, tail @ ..] = rest {
        if *byte != b'%' {
            out.push(*byte);
            rest = tail;
            continue;
        }
        let (decoded, after) = decode_percent_checked(rest)?;
        if is_unreserved(decoded) {
            out.push(decoded);
        } else {
            out.push(b'%');
            out.extend(tail.iter().take(2).map(u8::to_ascii_uppercase));
        }
        rest = after;
    }
    Ok(())
}

/// RFC 3986 §5.2.4, in place: kept bytes move left, over removed ones.
///
/// ```text
/// /a/b/../c/./d        segments read up to |, written up to ^
/// /a/b/..|/c/./d   ->  /a^         `..` takes the last segment back
/// /a/b/../c/.|/d   ->  /a/c^       `.` writes nothing
/// /a/b/../c/./d|   ->  /a/c/d^
/// ```
fn remove_dot_segments(path: &mut Vec<u8>) {
    if path.first() != Some(&b'/') {
        return;
    }
    let (mut read, mut written) = (0, 0);
    // Invariant: written <= read, and path[read] is the `/` before the next segment.
    while read < path.len() {
        let rest = path.get(read + 1..).unwrap_or_default();
        let segment_len = memchr(b'/', rest).unwrap_or(rest.len());
        let segment = rest.get(..segment_len).unwrap_or_default();
        let next = read + 1 + segment_len;
        let is_last = next >= path.len();
        match segment {
            b"." | b".." => {
                if segment.len() == 2 {
                    written = path.get(..written).and_then(|kept| memchr::memrchr(b'/', kept)).unwrap_or(0);
                }
                // A dot segment at the end leaves its slash.
                if is_last {
                    if let Some(slash) = path.get_mut(written) {
                        *slash = b'/';
                    }
                    written += 1;
                }
            }
            _ => {
                path.copy_within(read..next, written);
                written += next - read;
            }
        }
        read = next;
    }
    path.truncate(written);
}

/// The byte that `%XX` at the start encodes, and the rest after it.
fn decode_percent(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [b'%', high, low, after @ ..] => Some((hex_value(*high)? << 4 | hex_value(*low)?, after)),
        _ => None,
    }
}

fn decode_percent_checked(bytes: &[u8]) -> Result<(u8, &[u8]), PathFault> {
    match decode_percent(bytes).ok_or(PathFault::BadPercent)? {
        (0, _) => Err(PathFault::Nul),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests;
