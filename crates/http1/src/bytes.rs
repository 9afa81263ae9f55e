//! Classes of bytes, named as in the ABNF of RFC 9110 §5.5, §5.6 and RFC 3986.

const TOKEN: u8 = 1;
const TARGET: u8 = 2;
const REG_NAME: u8 = 4;
const UNRESERVED: u8 = 8;
/// In addition to [`TARGET`], if [`crate::Limits::raw_targets`] allows them: 0x80-0xFF.
const RAW: u8 = 16;
/// What normalization of a path looks at: `/`, `%`, and what some take for an end of a segment.
const PATH_MARK: u8 = 32;

static CLASSES: [u8; 256] = classes();

/// A `tchar` in lower case; 0 for any other byte.
static LOWER_TCHAR: [u8; 256] = lower_tchars();

/// `tchar` (RFC 9110 §5.6.2): what names, methods and tokens are made of.
pub(crate) fn is_tchar(byte: u8) -> bool {
    class(byte) & TOKEN != 0
}

/// A `tchar` in lower case.
#[expect(clippy::indexing_slicing, reason = "a table of 256 entries, indexed by a byte")]
pub(crate) fn lower_tchar(byte: u8) -> Option<u8> {
    match LOWER_TCHAR[byte as usize] {
        0 => None,
        lower => Some(lower),
    }
}

/// Bytes that we allow in a request target: RFC 3986's characters, the ones of ASCII that browsers send raw, and `raw`, 0x80-0xFF. Not `#`, `<`, `>`,
/// whitespace or controls.
pub(crate) fn is_target(bytes: &[u8], raw: bool) -> bool {
    let classes = if raw { TARGET | RAW } else { TARGET };
    bytes.iter().fold(true, |good, &byte| good & (class(byte) & classes != 0))
}

/// `reg-name` (RFC 3986 §3.2.2) less its percent-encoded bytes.
pub(crate) fn is_reg_name(byte: u8) -> bool {
    class(byte) & REG_NAME != 0
}

/// `/`, `%`, `;` or `\`.
pub(crate) fn is_path_mark(byte: u8) -> bool {
    class(byte) & PATH_MARK != 0
}

/// `unreserved` (RFC 3986 §2.3).
pub(crate) fn is_unreserved(byte: u8) -> bool {
    class(byte) & UNRESERVED != 0
}

pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| is_tchar(b))
}

/// `field-content` and the whitespace around it (RFC 9110 §5.5): no control but HTAB. Written without an early exit, so that it compiles
/// to vector instructions.
pub(crate) fn is_field_value(bytes: &[u8]) -> bool {
    !bytes.iter().fold(false, |bad, &b| bad | ((b < 0x20) & (b != b'\t')) | (b == 0x7f))
}

/// Whether the only controls in a block of lines are HTAB and the CR and LF of its line ends, given that a CR precedes every LF: there are
/// then twice as many controls as LF. One pass over all lines is several times cheaper than one per line, because values are short.
pub(crate) fn has_line_ends_alone(block: &[u8]) -> bool {
    // 128 bytes at a time, so that a sum fits a byte, and sixteen of them a vector.
    let (controls, line_feeds) = block.chunks(128).fold((0, 0), |(controls, line_feeds), chunk| {
        let here = chunk.iter().map(|&b| u8::from(((b < 0x20) & (b != b'\t')) | (b == 0x7f))).sum::<u8>();
        let lines = chunk.iter().map(|&b| u8::from(b == b'\n')).sum::<u8>();
        (controls + usize::from(here), line_feeds + usize::from(lines))
    });
    controls == 2 * line_feeds
}

pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Removes optional white space (RFC 9110 §5.6.3) from both ends.
pub fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The members of a comma-separated list (RFC 9110 §5.6.1), trimmed, empty ones included.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim)
}

pub(crate) fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// `1*DIGIT`, at most 19 digits so that no value overflows (`10^19 - 1 < 2^64`). No sign, no whitespace, no list.
pub(crate) fn parse_decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 19 {
        return None;
    }
    bytes.iter().try_fold(0_u64, |value, &b| match b {
        b'0'..=b'9' => Some(value * 10 + u64::from(b - b'0')),
        _ => None,
    })
}

#[expect(clippy::indexing_slicing, reason = "a table of 256 entries, indexed by a byte")]
fn class(byte: u8) -> u8 {
    CLASSES[byte as usize]
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, in bounds by the loop's condition")]
const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        let alnum = b.is_ascii_alphanumeric();
        if alnum
            || matches!(b, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
        {
            table[i] |= TOKEN;
        }
        if b > b' ' && b < 0x7f && !matches!(b, b'#' | b'<' | b'>') {
            table[i] |= TARGET;
        }
        if b >= 0x80 {
            table[i] |= RAW;
        }
        if alnum || matches!(b, b'-' | b'.' | b'_' | b'~') {
            table[i] |= UNRESERVED | REG_NAME;
        }
        if matches!(b, b'!' | b'$' | b'&'..=b',' | b';' | b'=') {
            table[i] |= REG_NAME;
        }
        if matches!(b, b'/' | b'%' | b';' | b'\\') {
            table[i] |= PATH_MARK;
        }
        i += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, in bounds by the loop's condition")]
const fn lower_tchars() -> [u8; 256] {
    let classes = classes();
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        if classes[i] & TOKEN != 0 {
            table[i] = (i as u8).to_ascii_lowercase();
        }
        i += 1;
    }
    table
}
