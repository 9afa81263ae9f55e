//! Values of headers, cookies and query arguments.

use std::borrow::Cow;

use keepwarm_http1::Fields;

use super::{Glob, RegularExpression};

/// A pattern of a value. Case counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValuePattern {
    /// This value.
    Exact(Box<[u8]>),
    /// A value of this form; `*` alone is every value.
    Glob(Glob),
    /// A value in which this matches.
    Regex(RegularExpression),
}

impl ValuePattern {
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => value == &**exact,
            Self::Glob(glob) => glob.matches(value),
            Self::Regex(regex) => regex.matches(value),
        }
    }
}

/// The values of a query argument, decoded as a form is (WHATWG URL, `application/x-www-form-urlencoded`): `+` is a space, and names are decoded too.
/// An argument without `=` has an empty value.
///
/// Some applications separate arguments by `;` as well (HTML 4.01 §B.2.2; Rack 2 does): where there is one, the values of both readings are given.
pub(crate) fn arguments<'q>(query: &'q [u8], name: &'q [u8]) -> impl Iterator<Item = Cow<'q, [u8]>> {
    let pairs = query.split(|&byte| byte == b'&');
    let parts = pairs.clone().filter(|pair| pair.contains(&b';')).flat_map(|pair| pair.split(|&b| b == b';'));
    pairs.chain(parts).filter(|pair| !pair.is_empty()).filter_map(move |pair| {
        let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let (key, value) = pair.split_at_checked(equals)?;
        (*form_decode(key) == *name).then(|| form_decode(value.get(1..).unwrap_or_default()))
    })
}

/// The values of a cookie (RFC 6265 §4.2.1), without the quotes that may be around them. Names are compared byte by byte.
pub(crate) fn cookies<'f>(fields: &'f Fields, name: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
    let pairs = fields.all("cookie").flat_map(|line| line.split(|&byte| byte == b';'));
    pairs.filter_map(move |pair| {
        let pair = pair.trim_ascii();
        let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        let (key, value) = pair.split_at_checked(equals)?;
        (key.trim_ascii() == name).then(|| unquoted(value.get(1..).unwrap_or_default().trim_ascii()))
    })
}

fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inside @ .., b'"'] => inside,
        value => value,
    }
}

fn form_decode(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let hex = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, low, after @ ..]) => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest = after;
                }
                _ => out.push(b'%'),
            },
            (byte, _) => out.push(*byte),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(query: &str, name: &str) -> Vec<String> {
        let values = arguments(query.as_bytes(), name.as_bytes());
        values.map(|value| String::from_utf8_lossy(&value).into_owned()).collect()
    }

    #[test]
    fn arguments_are_decoded_as_forms_are() {
        let cases: [(&str, &[&str]); 14] = [
            ("a=1", &["1"]),
            ("b=0&a=1&a=2", &["1", "2"]),
            ("a", &[""]),
            ("a=", &[""]),
            ("%61=%31%3D", &["1="]),
            ("a=x+y%2Bz", &["x y+z"]),
            ("a=%zz%4", &["%zz%4"]),
            ("aa=1&A=2", &[]),
            ("&&a=1&&", &["1"]),
            ("a=b=c", &["b=c"]),
            ("=a", &[]),
            ("", &[]),
            ("b=1;a=2", &["2"]),
            ("a=1;a=2&a=3", &["1;a=2", "3", "1", "2"]),
        ];
        for (query, expected) in cases {
            assert_eq!(values(query, "a"), expected, "{query}");
        }
    }

    #[test]
    fn cookies_are_split_at_semicolons_in_every_line() {
        let mut fields = Fields::new();
        fields.push(b"cookie", b"a=1; b = \"2\" ;c;a=3=4");
        fields.push(b"x", b"a=9");
        fields.push(b"cookie", b"a=");
        let of = |name: &'static str| -> Vec<&[u8]> { cookies(&fields, name.as_bytes()).collect() };
        assert_eq!(of("a"), [b"1".as_slice(), b"3=4", b""]);
        assert_eq!(of("b"), [b"2".as_slice()]);
        assert_eq!(of("c"), [b"".as_slice()]);
        assert!(of("A").is_empty());
    }
}
