//! Requests, read as strictly as RFC 9112 asks.

use super::Flaw;

/// The longest head that is read.
const LONGEST: usize = 32 * 1024;

/// A request's head.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    /// `HTTP/1.0`.
    pub(super) old: bool,
    fields: Vec<(String, String)>,
    pub(super) body: Body,
}

/// How the body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Length(u64),
    Chunked,
}

/// The state of the bytes read so far.
pub(super) enum Parsed {
    /// The beginning of a request.
    Part,
    /// A whole head, and its length.
    Whole(Request, usize),
    /// No request that can be read: the status to respond with.
    Refused(u16),
}

impl Request {
    /// The value of the first field of this name.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a list in `Connection` has this option.
    pub(super) fn connection(&self, option: &str, flaw: Flaw) -> bool {
        let same = |part: &str| match flaw == Flaw::CloseInSmallLettersOnly && option == "close" {
            true => part == option,
            false => part.eq_ignore_ascii_case(option),
        };
        self.fields
            .iter()
            .filter(|(name, _)| name == "connection")
            .flat_map(|(_, value)| value.split(','))
            .any(|part| same(part.trim()))
    }

    /// The path, from either form of target.
    pub(super) fn path(&self) -> &str {
        let path = match self.target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => &self.target,
        };
        path.split('?').next().unwrap_or(path)
    }
}

/// Reads a head, if it is whole.
pub(super) fn parse(bytes: &[u8], flaw: Flaw) -> Parsed {
    // One empty line before a request is forgiven (RFC 9112 §2.2).
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let mut lines = Vec::new();
    let mut at = skipped;
    let end = loop {
        let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') else {
            return if bytes.len() > LONGEST { Parsed::Refused(431) } else { Parsed::Part };
        };
        let line = &bytes[at..at + length];
        at += length + 1;
        let line = match line.strip_suffix(b"\r") {
            Some(line) => line,
            None if flaw == Flaw::BareLf => line,
            None => return Parsed::Refused(400),
        };
        if line.is_empty() {
            break at;
        }
        let Ok(line) = std::str::from_utf8(line) else { return Parsed::Refused(400) };
        lines.push(line.to_owned());
    };
    match read(&lines, flaw) {
        Ok(request) => Parsed::Whole(request, end),
        Err(status) => Parsed::Refused(status),
    }
}

fn read(lines: &[String], flaw: Flaw) -> Result<Request, u16> {
    let (first, rest) = lines.split_first().ok_or(400_u16)?;
    let parts: Vec<&str> = first.split(' ').collect();
    let &[method, target, version] = parts.as_slice() else { return Err(400) };
    let old = match version.strip_prefix("HTTP/") {
        Some("1.0") => true,
        Some(minor) if minor.len() == 3 && minor.starts_with("1.") => false,
        Some(other) if other.len() == 3 && other.as_bytes()[1] == b'.' => return Err(505),
        _ => return Err(400),
    };
    let absolute = target.starts_with("http://") || target.starts_with("https://");
    let known = target.starts_with('/') || absolute || target == "*" && method == "OPTIONS";
    if !is_token(method) || !known || target.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(400);
    }
    let fields = fields(rest, flaw)?;
    let hosts: Vec<&str> = all(&fields, "host").collect();
    let valid = |host: &str| !host.contains([' ', '/', '@', ',', '\t']);
    match hosts.as_slice() {
        [] if !old || flaw == Flaw::WantsHostOf10 => return Err(400),
        [] => {}
        &[host] if valid(host) => {}
        _ => return Err(400),
    }
    let body = framing(&fields, old, flaw)?;
    Ok(Request { method: method.to_owned(), target: target.to_owned(), old, fields, body })
}

fn fields(lines: &[String], flaw: Flaw) -> Result<Vec<(String, String)>, u16> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            match fields.last_mut() {
                Some((_, value)) if flaw == Flaw::Folding => {
                    value.push(' ');
                    value.push_str(line.trim());
                    continue;
                }
                _ => return Err(400),
            }
        }
        let (name, value) = line.split_once(':').ok_or(400_u16)?;
        let name = if flaw == Flaw::BlankBeforeColon { name.trim_end() } else { name };
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) || value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
            return Err(400);
        }
        fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    Ok(fields)
}

fn framing(fields: &[(String, String)], old: bool, flaw: Flaw) -> Result<Body, u16> {
    let mut lengths: Vec<&str> =
        all(fields, "content-length").flat_map(|value| value.split(',')).map(str::trim).collect();
    lengths.dedup();
    let codings: Vec<&str> =
        all(fields, "transfer-encoding").flat_map(|value| value.split(',')).map(str::trim).collect();
    if !codings.is_empty() {
        if !lengths.is_empty() && flaw != Flaw::BothLengths || old {
            return Err(400);
        }
        return match codings.as_slice() {
            [one] if one.eq_ignore_ascii_case("chunked") => match (flaw, lengths.first()) {
                (Flaw::BothLengths, Some(length)) => length.parse().map(Body::Length).map_err(|_| 400),
                (Flaw::IgnoresChunked, _) => Ok(Body::None),
                _ => Ok(Body::Chunked),
            },
            [.., last] if last.eq_ignore_ascii_case("chunked") => Err(501),
            _ => Err(400),
        };
    }
    match lengths.as_slice() {
        [] => Ok(Body::None),
        [one, rest @ ..] => {
            let digits = !one.is_empty() && one.len() < 20 && one.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || !rest.is_empty() && flaw != Flaw::TwoLengths {
                return Err(400);
            }
            one.parse().map(Body::Length).map_err(|_| 400)
        }
    }
}

fn all<'a>(fields: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn is_token(text: &str) -> bool {
    let other = |byte| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || other(byte))
}

/// A line that says how long a chunk is (RFC 9112 §7.1).
pub(super) fn chunk_size(line: &str, flaw: Flaw) -> Option<u64> {
    let size = line.split(';').next().unwrap_or_default().trim_end_matches([' ', '\t']);
    let size = match flaw == Flaw::LaxChunkSize {
        true => size.trim_start_matches('+').trim_start_matches("0x"),
        false => size,
    };
    let hex = !size.is_empty() && size.len() <= 16 && size.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| u64::from_str_radix(size, 16).ok()).flatten()
}
