//! A strict reader of responses, written from RFC 9112 alone: it accepts nothing that a careful client would have to guess about.

use std::time::Instant;

/// How the end of a body was found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// HEAD, 1xx, 204, 304: no body whatever the head says.
    None,
    Length(u64),
    Chunked,
    /// Ended by the end of the connection.
    Close,
}

/// One whole response.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub reason: String,
    /// In order, names as they were sent, values as latin-1.
    pub fields: Vec<(String, String)>,
    pub framing: Framing,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// The sizes of the chunks, for what streams.
    pub chunks: Vec<usize>,
    /// When the read that brought the first byte returned, when the head was whole, and when the body was.
    pub first_byte: Instant,
    pub head_whole: Instant,
    pub whole: Instant,
}

impl Response {
    /// The value of a field that must not be there twice.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.all(name);
        assert!(found.len() < 2, "field {name} more than once: {:?}", self.fields);
        found.first().copied()
    }

    /// Every value of a field, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// Whether the server announced that it closes.
    pub fn says_close(&self) -> bool {
        self.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// A head, taken apart.
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) framing: Framing,
}

/// Parses a head that ends in an empty line; `method` is the request's.
pub(crate) fn head(bytes: &[u8], method: &str) -> Result<Head, String> {
    let text = bytes.strip_suffix(b"\r\n\r\n").ok_or("a head ends in an empty line")?;
    let mut lines = split_lines(text)?.into_iter();
    let line = latin1(lines.next().ok_or("no status line")?);
    let (version, rest) = line.split_once(' ').ok_or_else(|| format!("status line {line:?}"))?;
    // RFC 9110 §6.2: the highest version the server conforms to, whatever the request's.
    if version != "HTTP/1.1" {
        return Err(format!("version {version:?} in the status line"));
    }
    // RFC 9112 §4: the blank after the code stays even when the reason is empty.
    let (code, reason) = rest.split_once(' ').ok_or_else(|| format!("no blank after the code: {line:?}"))?;
    if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("status code {code:?}"));
    }
    let status: u16 = code.parse().map_err(|_| format!("status code {code:?}"))?;
    let fields = lines.map(field).collect::<Result<Vec<_>, _>>()?;
    let framing = framing(status, method, &fields)?;
    Ok(Head { status, reason: reason.to_owned(), fields, framing })
}

/// A chunk's size line (RFC 9112 §7.1), without extensions: none were requested.
pub(crate) fn chunk_size(line: &[u8]) -> Result<usize, String> {
    let text = latin1(line);
    if text.is_empty() || text.len() > 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("chunk size {text:?}"));
    }
    usize::from_str_radix(&text, 16).map_err(|error| format!("chunk size {text:?}: {error}"))
}

/// One field line.
pub(crate) fn field(line: &[u8]) -> Result<(String, String), String> {
    let text = latin1(line);
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("field line without a colon: {text:?}"))?;
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("field name {name:?}"));
    }
    let value = value.trim_matches([' ', '\t']);
    if value.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
        return Err(format!("control in the value of {name}: {value:?}"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn framing(status: u16, method: &str, fields: &[(String, String)]) -> Result<Framing, String> {
    let all = |name: &str| {
        fields
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
            .collect::<Vec<_>>()
    };
    let (lengths, codings) = (all("content-length"), all("transfer-encoding"));
    for single in [
        "content-length",
        "transfer-encoding",
        "connection",
        "date",
        "keep-alive",
        "content-type",
        "location",
        "server",
    ] {
        if all(single).len() > 1 {
            return Err(format!("{single} more than once: {:?}", all(single)));
        }
    }
    if !lengths.is_empty() && !codings.is_empty() {
        return Err("both framings (RFC 9112 §6.2)".into());
    }
    let length = match lengths.first() {
        None => None,
        Some(text)
            if !text.is_empty() && text.len() <= 19 && text.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            Some(text.parse::<u64>().map_err(|error| error.to_string())?)
        }
        Some(text) => return Err(format!("Content-Length {text:?}")),
    };
    if !codings.is_empty() && codings != ["chunked"] {
        return Err(format!("Transfer-Encoding {codings:?}"));
    }
    let bodiless = status < 200 || status == 204;
    if bodiless && (length.is_some() || !codings.is_empty()) {
        return Err(format!("framing fields on a {status} (RFC 9110 §8.6, RFC 9112 §6.1)"));
    }
    Ok(match (length, codings.is_empty()) {
        _ if bodiless || status == 304 || method == "HEAD" => Framing::None,
        (Some(length), _) => Framing::Length(length),
        (None, false) => Framing::Chunked,
        (None, true) => Framing::Close,
    })
}

/// Splits at CRLF; a CR or LF on its own is an error.
fn split_lines(text: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        if rest.get(at..at + 2) != Some(b"\r\n") {
            return Err(format!("a bare CR or LF in the head: {:?}", latin1(text)));
        }
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    Ok(lines)
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(bytes: &str) -> String {
        head(bytes.as_bytes(), "GET").map(|_| ()).expect_err("this head is faulty")
    }

    #[test]
    fn a_plain_head_is_read() {
        let head = head(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nx:\r\n\r\n", "GET").expect("valid");
        assert_eq!((head.status, head.reason.as_str(), head.framing), (200, "OK", Framing::Length(4)));
        assert_eq!(head.fields[1], ("x".to_owned(), String::new()));
    }

    #[test]
    fn faulty_heads_are_refused() {
        for bytes in [
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 200\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 200 OK\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\n b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nDate: a\r\nDate: b\r\n\r\n",
        ] {
            assert!(!fault(bytes).is_empty(), "{bytes:?}");
        }
    }

    #[test]
    fn the_framing_follows_the_request_and_the_status() {
        let framing = |bytes: &str, method| head(bytes.as_bytes(), method).expect("valid").framing;
        assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "HEAD"), Framing::None);
        assert_eq!(framing("HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", "GET"), Framing::None);
        assert_eq!(framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"), Framing::Chunked);
        assert_eq!(framing("HTTP/1.1 200 OK\r\n\r\n", "GET"), Framing::Close);
    }
}
