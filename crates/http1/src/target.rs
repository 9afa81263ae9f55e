//! Request lines, request targets and authorities (RFC 9112 §3, RFC 3986 §3.2).

use std::net::Ipv6Addr;
use std::ops::Range;

use http::Method;
use memchr::memchr;

use crate::bytes::{hex_value, is_reg_name, is_target, is_token};
use crate::fault::FaultKind;
use crate::head::{TargetForm, TargetParts, Version};
use crate::limits::Limits;

/// A parsed request line; ranges are of the line.
#[derive(Clone, Debug)]
pub(crate) struct RequestLine {
    pub(crate) method: Method,
    pub(crate) target: Range<usize>,
    pub(crate) version: Version,
    pub(crate) form: TargetForm,
    /// Ranges of the target.
    pub(crate) parts: TargetParts,
}

/// `method SP request-target SP HTTP-version`, exactly (RFC 9112 §3), without its line end.
pub(crate) fn parse_request_line(line: &[u8], raw_target: bool) -> Result<RequestLine, FaultKind> {
    if line.contains(&b'\r') {
        return Err(FaultKind::BareCr);
    }
    let method_end = memchr(b' ', line).ok_or(FaultKind::BadRequestLine)?;
    let (method, rest) = line.split_at(method_end);
    if !is_token(method) {
        return Err(FaultKind::BadMethod);
    }
    if method.len() > Limits::METHOD {
        return Err(FaultKind::MethodTooLong);
    }
    let rest = rest.get(1..).unwrap_or_default();
    let target_len = memchr(b' ', rest).ok_or(if rest.is_empty() {
        FaultKind::BadRequestLine
    } else {
        FaultKind::Http09
    })?;
    if target_len == 0 {
        // Two spaces: RFC 9112 §3 lets a recipient split at any white space; we do not.
        return Err(FaultKind::BadRequestLine);
    }
    let (target, version) = rest.split_at(target_len);
    let version = parse_version(version.get(1..).unwrap_or_default()).map_err(|fault| match fault {
        // RFC 9113 §3.4: the preface's first line.
        FaultKind::UnsupportedVersion if line == b"PRI * HTTP/2.0" => FaultKind::Http2Preface,
        other => other,
    })?;
    let method = Method::from_bytes(method).map_err(|_| FaultKind::BadMethod)?;
    let (form, parts) = parse_target(&method, target, raw_target)?;
    let start = method_end + 1;
    Ok(RequestLine { method, target: start..start + target_len, version, form, parts })
}

/// `HTTP/` DIGIT `.` DIGIT (RFC 9112 §2.3).
pub(crate) fn parse_version(bytes: &[u8]) -> Result<Version, FaultKind> {
    match bytes {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            match (major, minor) {
                (b'1', b'0') => Ok(Version::Http10),
                (b'1', _) => Ok(Version::Http11),
                _ => Err(FaultKind::UnsupportedVersion),
            }
        }
        _ => Err(FaultKind::BadVersion),
    }
}

/// Finds the form of a target and its parts (RFC 9112 §3.2).
pub(crate) fn parse_target(
    method: &Method,
    target: &[u8],
    raw: bool,
) -> Result<(TargetForm, TargetParts), FaultKind> {
    if !is_target(target, raw) {
        return Err(FaultKind::BadTarget);
    }
    if *method == Method::CONNECT {
        // §3.2.3: only authority-form, and the port is not optional.
        let port = port_of(target).ok_or(FaultKind::BadAuthority)?;
        if port.is_empty() || !is_authority(target) {
            return Err(FaultKind::BadAuthority);
        }
        let parts = TargetParts { authority: Some(0..target.len()), ..TargetParts::default() };
        return Ok((TargetForm::Authority, parts));
    }
    match target {
        [b'/', ..] => Ok((TargetForm::Origin, split_path(target, 0))),
        b"*" if *method == Method::OPTIONS => {
            Ok((TargetForm::Asterisk, TargetParts { path: Some(0..1), ..TargetParts::default() }))
        }
        _ => parse_absolute(target).map(|parts| (TargetForm::Absolute, parts)),
    }
}

/// `http[s]://authority[/path][?query]` (RFC 9110 §4.2); user information is a fault (§4.2.4), and so is an empty host.
fn parse_absolute(target: &[u8]) -> Result<TargetParts, FaultKind> {
    let colon = memchr(b':', target).ok_or(FaultKind::BadTarget)?;
    let (scheme, rest) = target.split_at(colon);
    let rest = rest.strip_prefix(b"://").ok_or(FaultKind::BadTarget)?;
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return Err(FaultKind::BadScheme);
    }
    let start = colon + 3;
    let len = rest.iter().position(|&b| b == b'/' || b == b'?').unwrap_or(rest.len());
    let (authority, _) = rest.split_at(len);
    if authority.is_empty() || authority.first() == Some(&b':') || !is_authority(authority) {
        return Err(FaultKind::BadAuthority);
    }
    let parts = split_path(target, start + len);
    Ok(TargetParts { scheme: Some(0..colon), authority: Some(start..start + len), ..parts })
}

/// Path and query of the target from `at` on. An empty path is none.
fn split_path(target: &[u8], at: usize) -> TargetParts {
    let rest = target.get(at..).unwrap_or_default();
    let end = at + memchr(b'?', rest).unwrap_or(rest.len());
    TargetParts {
        path: (end > at).then_some(at..end),
        query: (end < target.len()).then_some(end + 1..target.len()),
        ..TargetParts::default()
    }
}

/// `uri-host [ ":" port ]` (RFC 9110 §7.2). Stricter than the grammar: a port is at most 65535, and a bracket holds an IPv6 address, not a
/// literal of a future version.
pub(crate) fn is_authority(authority: &[u8]) -> bool {
    let Some(port) = port_of(authority) else { return is_host(authority) };
    let host = authority.get(..authority.len() - port.len() - 1).unwrap_or_default();
    is_port(port) && is_host(host)
}

/// The part after the last colon, unless that is inside brackets.
fn port_of(authority: &[u8]) -> Option<&[u8]> {
    let colon = authority.iter().rposition(|&b| b == b':' || b == b']')?;
    match authority.get(colon..)? {
        [b':', port @ ..] => Some(port),
        _ => None,
    }
}

fn is_port(port: &[u8]) -> bool {
    port.len() <= 5
        && port.iter().all(u8::is_ascii_digit)
        && port.iter().fold(0, |value, &b| value * 10 + u32::from(b - b'0')) <= 65_535
}

fn is_host(host: &[u8]) -> bool {
    if host.iter().all(|&b| is_reg_name(b)) {
        return true;
    }
    if let [b'[', literal @ .., b']'] = host {
        return std::str::from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    }
    let mut rest = host;
    loop {
        match rest {
            [] => return true,
            [b'%', high, low, tail @ ..] => match (hex_value(*high), hex_value(*low)) {
                (Some(_), Some(_)) => rest = tail,
                _ => return false,
            },
            [byte, tail @ ..] if is_reg_name(*byte) => rest = tail,
            _ => return false,
        }
    }
}
