//! The conditions of routes (hosts, paths, methods), and the rules for names and values of headers.

use std::net::Ipv6Addr;

use super::list::{EmptyList, ListOf};
use super::net::a_labels;
use super::parsed_string::ParsedString;
use super::pattern::{Signed, regular_expression};
use super::value_error::ValueError;
use crate::model::{HostPattern, PathPattern};
use crate::nearest::suggestion;

/// `host` of a route.
pub(crate) const HOSTS: ListOf<ParsedString<Signed<HostPattern>>> = ListOf {
    one: ParsedString {
        expected: "a host",
        type_name: "host",
        pattern: None,
        bare: None,
        read: host_pattern,
    },
    expected: "a host without a port such as \"example.com\" or \"*.example.com\", with `!` in front for \"not\", `~` in front of a regular expression; or a list",
    type_name: "host pattern or list of host patterns",
    empty: MATCH_ALL,
};

/// `path` of a route.
pub(crate) const PATHS: ListOf<ParsedString<Signed<PathPattern>>> = ListOf {
    one: ParsedString {
        expected: "a path",
        type_name: "path pattern",
        pattern: Some("^(!?~.+|!?[/*][^?#]*)$"),
        bare: None,
        read: path_pattern,
    },
    expected: "\"/x\" for one path, \"/x/*\" for all paths below it, \"*.php\", with `!` in front for \"not\", `~` in front of a regular expression; or a list",
    type_name: "path pattern or list of path patterns",
    empty: MATCH_ALL,
};

const MATCH_ALL: EmptyList = EmptyList::Rejected(Some("leave it out to match all"));

/// `method` of a route.
pub(crate) const METHODS: ListOf<ParsedString<Signed<String>>> = ListOf {
    one: ParsedString {
        expected: "a method",
        type_name: "method",
        pattern: Some("^!?[A-Z][A-Z0-9-]*$"),
        bare: None,
        read: |text| Signed::read(text, method),
    },
    expected: "a method in upper case, or a list of them; `!` in front negates one",
    type_name: "method or list of methods",
    empty: MATCH_ALL,
};

fn host_pattern(text: &str) -> Result<Signed<HostPattern>, ValueError> {
    Signed::read(text, |text| {
        if let Some(regex) = regular_expression(text) {
            return regex.map(HostPattern::Regex);
        }
        let is_name = |name: &str| !name.contains('*');
        if text == "*" || is_name(text.strip_prefix("*.").unwrap_or(text)) {
            return host(text);
        }
        let holds = |b: u8| b.is_ascii_alphanumeric() || b"-_.*[]:".contains(&b);
        match text.bytes().all(holds) && !text.contains(':') {
            true => Ok(HostPattern::Glob(text.to_ascii_lowercase())),
            false => Err(ValueError::new(format!("is `{text}`, which is not a pattern of host names"))),
        }
    })
}

fn host(text: &str) -> Result<HostPattern, ValueError> {
    let lower = text.to_ascii_lowercase();
    if lower == "*" {
        return Err(ValueError::new("is `*`").help("leave `host` out: the route then matches every host"));
    }
    if let Some((_, rest)) = lower.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or("");
        return Err(ValueError::new(format!("is `{text}`: a host must not have a scheme"))
            .help(format!("write \"{host}\"")));
    }
    if let Some(inner) = lower.strip_prefix('[') {
        let inner = inner.strip_suffix(']').map(str::parse::<Ipv6Addr>);
        return match inner {
            Some(Ok(_)) => Ok(HostPattern::Exact(lower)),
            _ => Err(ValueError::new(format!(
                "is `{text}`: brackets must contain an IPv6 address, with no port after them"
            ))),
        };
    }
    if let Some((host, _)) = lower.split_once(':') {
        let help = format!("a route applies to every port of its listener: write \"{host}\"");
        return Err(ValueError::new(format!("is `{text}`: a host must not have a port")).help(help));
    }
    let (below, name) = match lower.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, lower.as_str()),
    };
    let name = match name.is_ascii() {
        true => name.to_owned(),
        false => a_labels(name)?,
    };
    let label_holds = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if !name.split('.').all(label_holds) {
        return Err(ValueError::new(format!("is `{text}`, which is not a host name")));
    }
    Ok(if below { HostPattern::Suffix(format!(".{name}")) } else { HostPattern::Exact(name) })
}

fn path_pattern(text: &str) -> Result<Signed<PathPattern>, ValueError> {
    Signed::read(text, |text| match regular_expression(text) {
        Some(regex) => regex.map(PathPattern::Regex),
        None => path(text),
    })
}

fn path(text: &str) -> Result<PathPattern, ValueError> {
    if text == "*" {
        return Err(ValueError::new("is `*`").help("write \"/*\", or leave `path` out"));
    }
    if !text.starts_with(['/', '*']) {
        let help = format!("write \"/{text}\"");
        let error = ValueError::new(format!("is `{text}`, which does not begin with a slash"));
        return Err(if text.is_empty() || text.contains("://") { error } else { error.help(help) });
    }
    if let Some(mark) = text.chars().find(|c| matches!(c, '?' | '#')) {
        let (path, _) = text.split_once(mark).unwrap_or((text, ""));
        let error = ValueError::new(format!("is `{text}`: routes match the path only"));
        return Err(error.help(format!("write \"{path}\"")));
    }
    let (body, open) = match text.strip_suffix("/*") {
        Some(body) => (body, true),
        None => (text, false),
    };
    let normal = normalized(body)?;
    if normal != body {
        let shown = if open { format!("{normal}/*") } else { normal.clone() };
        let error =
            ValueError::new(format!("is `{text}`, which no normalized path matches (RFC 3986 §6.2.2)"));
        return Err(error.help(format!("requests are normalized before they are routed: write \"{shown}\"")));
    }
    Ok(match (open, normal.is_empty()) {
        _ if normal.contains('*') => PathPattern::Glob(text.to_owned()),
        (true, true) => PathPattern::Any,
        (true, false) => PathPattern::Prefix(format!("{normal}/")),
        (false, _) => PathPattern::Exact(normal),
    })
}

/// The path in the form in which requests are routed: unreserved octets decoded, other escapes in upper case, bytes
/// that are not allowed in a path escaped, dot segments removed.
fn normalized(path: &str) -> Result<String, ValueError> {
    let mut out = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let (byte, escaped) = match byte {
            b'%' => match (bytes.next().and_then(hex), bytes.next().and_then(hex)) {
                (Some(high), Some(low)) => (high * 16 + low, true),
                _ => {
                    return Err(ValueError::new(format!(
                        "is `{path}`, with a `%` that is not followed by two hex digits"
                    )));
                }
            },
            byte => (byte, false),
        };
        if byte == 0 {
            return Err(ValueError::new("contains a NUL, which is not allowed in requests"));
        }
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        // RFC 3986 §3.3: pchar, and the slash between segments.
        if unreserved || (!escaped && b"/!$&'()*+,;=:@".contains(&byte)) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    // A pattern that begins with `*` has no segments to begin with.
    Ok(if out.starts_with('*') { out } else { without_dots(&out) })
}

/// RFC 3986 §5.2.4 for a path that begins with a slash, or is empty.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            segment => {
                kept.push(segment);
                continue;
            }
        }
        if last {
            kept.push("");
        }
    }
    kept.iter().flat_map(|segment| ["/", segment]).collect()
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Common methods. Others are accepted too, unless they look like a misspelling of one of these.
const COMMON_METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT"];

fn method(text: &str) -> Result<String, ValueError> {
    if matches!(text, "CONNECT" | "TRACE") {
        return Err(ValueError::new(format!(
            "is `{text}`, which is never routed: Keepwarm rejects it with 405"
        )));
    }
    if COMMON_METHODS.contains(&text) {
        return Ok(text.to_owned());
    }
    let help = suggestion(text, COMMON_METHODS);
    let is_method =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-');
    if is_method && help.is_none() {
        return Ok(text.to_owned());
    }
    Err(ValueError::new(format!("is `{text}`")).maybe_help(help))
}

/// The problem of a header name in the configuration, if there is one.
pub(crate) fn field_name_fault(name: &str) -> Option<&'static str> {
    if !field_name_is_valid(name) {
        return Some("is not a header name");
    }
    const FRAMING: [&str; 9] = [
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "date",
    ];
    FRAMING.contains(&name.to_ascii_lowercase().as_str()).then_some("is a header that only Keepwarm sets")
}

/// RFC 9110 §5.6.2: token.
pub(super) fn field_name_is_valid(name: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(is_token)
}

/// RFC 9110 §5.5: no control characters except the tab, no spaces at the ends.
pub(crate) fn field_value_is_valid(value: &str) -> bool {
    value.trim_matches([' ', '\t']) == value && !value.chars().any(|c| c.is_ascii_control() && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_in_their_normal_form() {
        let prefix = |text: &str| PathPattern::Prefix(text.to_owned());
        let exact = |text: &str| PathPattern::Exact(text.to_owned());
        assert_eq!(path("/*").ok(), Some(PathPattern::Any));
        assert_eq!(path("/assets/*").ok(), Some(prefix("/assets/")));
        assert_eq!(path("/").ok(), Some(exact("/")));
        assert_eq!(path("/a//b").ok(), Some(exact("/a//b")));
        assert_eq!(path("/a%2Fb").ok(), Some(exact("/a%2Fb")));
        let glob = |text: &str| PathPattern::Glob(text.to_owned());
        for text in ["/*/x", "/x*", "*.php", "/a/*/b/*", "/x/**", "*/.git/*"] {
            assert_eq!(path(text).ok(), Some(glob(text)), "{text}");
        }
        for wrong in [
            "", "x", "*", "/a?b", "/a/../b", "/a/./b", "/%41", "/a%2fb", "/é", "/%", "/%00", "/*/../x",
            "*/%41",
        ] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dot_segments_are_removed() {
        let cases =
            [("/a/b/../c", "/a/c"), ("/..", "/"), ("/a/.", "/a/"), ("/a/..", "/"), ("", ""), ("/.a", "/.a")];
        for (path, normal) in cases {
            assert_eq!(without_dots(path), normal, "{path}");
        }
    }
}
