//! The case table's drivers: each case through the decoder whole, byte by byte, at every split into two, and followed by the bytes of a next
//! message; and, if it is in the form we write, out of the encoder.

use keepwarm_http1::Limits;

use crate::trace::{Role, trace, trace_every_cut};

/// One message, its meaning, and the encoder call that writes it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) bytes: &'static [u8],
    /// The trace, line by line.
    pub(crate) means: &'static [&'static str],
    /// Writes the same bytes, if they are in the form we write.
    pub(crate) encode: Option<fn(&mut Vec<u8>)>,
}

/// `next` is a whole message with its trace, or `None` if nothing can follow.
pub(crate) fn check(case: &Case, next: Option<(&[u8], &[String])>) {
    let Case { name, role, bytes, means, encode } = case;
    let found = trace_every_cut(role, Limits::default(), bytes);
    assert_eq!(found, *means, "{name}");
    if let Some((behind, behind_means)) = next {
        check_with_next(case, behind, behind_means);
    }
    if let Some(encode) = encode {
        let mut out = b"before".to_vec();
        encode(&mut out);
        let written = out.strip_prefix(b"before").unwrap_or_default();
        assert_eq!(written.escape_ascii().to_string(), bytes.escape_ascii().to_string(), "{name}: written");
    }
}

/// The same message, and then another.
pub(crate) fn check_with_next(case: &Case, behind: &[u8], behind_means: &[String]) {
    let both = [case.bytes, behind].concat();
    let expected: Vec<&str> =
        case.means.iter().copied().chain(behind_means.iter().map(String::as_str)).collect();
    let limits = Limits::default();
    assert_eq!(trace(&case.role, limits, [both.as_slice()]), expected, "{}: with bytes behind", case.name);
    assert_eq!(
        trace(&case.role, limits, both.chunks(1)),
        expected,
        "{}: with bytes behind, one by one",
        case.name
    );
}
