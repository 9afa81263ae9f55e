//! Encoders of heads, chunks and trailers.
//!
//! Everything is appended to the caller's buffer, and nothing is allocated but by its growth. Names and values are written as they are: they come
//! from a decoder or were checked with [`scan_app_fields`](crate::scan_app_fields).

use http::{Method, StatusCode};

use crate::bytes::{is_field_value, is_token};
use crate::head::RequestBody;
use crate::hop_by_hop::trailer_allowed;
use crate::plan::{ConnectionHeader, Plan, ResponseFraming};

/// The end of a chunk, after its data.
pub const CHUNK_TAIL: &[u8] = b"\r\n";

/// The last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the head of a final response: the status line, always of HTTP/1.1 (RFC 9110 §6.2), the fields less those that frame or steer the
/// connection, then ours by the plan, then the empty line.
///
/// `fields` keep their order and their case. `Upgrade` is kept only with 101 and 426, `Trailer` when trailers may follow. `date` is written
/// if given: give it when the fields have none.
pub fn encode_response_head<'a>(
    out: &mut Vec<u8>,
    status: u16,
    plan: &Plan,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    date: Option<&[u8; 29]>,
) {
    status_line(out, status);
    // RFC 9110 §15.5.22: 426 MUST name the protocol, and a switch names its own.
    let keeps_upgrade = matches!(status, 101 | 426);
    for (name, value) in fields {
        let ours = match name.len() {
            7 if name.eq_ignore_ascii_case(b"upgrade") => !keeps_upgrade,
            7 if name.eq_ignore_ascii_case(b"trailer") => !plan.trailers,
            _ => steers_connection(name),
        };
        if !ours {
            field(out, name, value);
        }
    }
    match plan.framing {
        ResponseFraming::Length(length) => content_length(out, length),
        ResponseFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        ResponseFraming::None | ResponseFraming::UntilClose => {}
    }
    let option = match plan.connection {
        ConnectionHeader::None => None,
        ConnectionHeader::Close => Some(b"close".as_slice()),
        ConnectionHeader::KeepAlive => Some(b"keep-alive".as_slice()),
        ConnectionHeader::Upgrade => Some(b"upgrade".as_slice()),
    };
    connection(out, [option, (status == 426).then_some(b"upgrade")]);
    if let Some(seconds) = plan.keep_alive_timeout {
        out.extend_from_slice(b"Keep-Alive: timeout=");
        decimal(out, seconds.into());
        out.extend_from_slice(b"\r\n");
    }
    if let Some(date) = date {
        field(out, b"Date", date);
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes a 1xx response, never 101: no framing, no `Connection`.
pub fn encode_informational<'a>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) {
    debug_assert!((100..200).contains(&status) && status != 101, "{status} is not informational");
    status_line(out, status);
    for (name, value) in fields {
        if !steers_connection(name) && !is(name, "upgrade") && !is(name, "trailer") {
            field(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes `100 Continue`.
pub fn encode_continue(out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// Writes a chunk's size and line end. The data follows, then [`CHUNK_TAIL`]. A size of zero would end the body: send [`LAST_CHUNK`] for that, and
/// nothing for an empty piece.
pub fn encode_chunk_head(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len > 0, "an empty chunk is the last one");
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        let nibble = (len >> (digit * 4) & 0xf) as u8;
        out.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the last chunk and a trailer section; names not allowed in one are left out ([`trailer_allowed`]).
pub fn encode_trailers<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in fields {
        let is_allowed = match name.iter().any(u8::is_ascii_uppercase) {
            true => trailer_allowed(&name.to_ascii_lowercase()),
            false => trailer_allowed(name),
        };
        if is_allowed {
            field(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Connection-related fields of a request that we send.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct RequestOptions<'a> {
    /// If false, `Connection: close`.
    pub keep_alive: bool,
    /// `Expect: 100-continue`; left out when there is no body (RFC 9110 §10.1.1).
    pub expect_continue: bool,
    /// `TE: trailers`: trailers are accepted and forwarded.
    pub te_trailers: bool,
    /// `Upgrade`, with these protocols.
    pub upgrade: Option<&'a [u8]>,
}

/// Writes a request's head: the line, `Host`, the fields less those that frame, expect or steer the connection, ours, the empty line. The caller leaves out fields
/// that end at this hop because `Connection` names them ([`HopByHop`](crate::HopByHop)).
pub fn encode_request_head<'a>(
    out: &mut Vec<u8>,
    method: &Method,
    target: &[u8],
    authority: &[u8],
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    framing: RequestBody,
    options: RequestOptions<'_>,
) {
    debug_assert!(!target.is_empty() && !target.iter().any(|&b| b <= b' ' || b == 0x7f), "not a target");
    for part in [method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"] {
        out.extend_from_slice(part);
    }
    // RFC 9110 §7.2: first, and on every request.
    field(out, b"Host", authority);
    for (name, value) in fields {
        let ours = match name.len() {
            4 => is(name, "host"),
            6 => is(name, "expect"),
            7 => is(name, "upgrade") || (is(name, "trailer") && framing != RequestBody::Chunked),
            14 => is(name, "content-length") || is(name, "http2-settings"),
            _ => steers_connection(name),
        };
        if !ours {
            field(out, name, value);
        }
    }
    request_framing(out, method, framing);
    if options.expect_continue && framing != RequestBody::None {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    request_connection(out, options);
    out.extend_from_slice(b"\r\n");
}

fn request_framing(out: &mut Vec<u8>, method: &Method, framing: RequestBody) {
    match framing {
        RequestBody::Length(length) => content_length(out, length),
        RequestBody::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        // RFC 9110 §8.6: methods that define a meaning for content announce its absence.
        RequestBody::None if matches!(*method, Method::POST | Method::PUT | Method::PATCH) => {
            content_length(out, 0);
        }
        RequestBody::None => {}
    }
}

fn request_connection(out: &mut Vec<u8>, options: RequestOptions<'_>) {
    if options.te_trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    if let Some(protocols) = options.upgrade {
        field(out, b"Upgrade", protocols);
    }
    // RFC 9110 §7.6.1: TE and Upgrade are named in Connection.
    let close = (!options.keep_alive).then_some(b"close".as_slice());
    let te = options.te_trailers.then_some(b"TE".as_slice());
    connection(out, [close, te, options.upgrade.map(|_| b"upgrade".as_slice())]);
}

/// `Connection` with these members; no field if there are none.
fn connection<const N: usize>(out: &mut Vec<u8>, members: [Option<&[u8]>; N]) {
    let mut before: &[u8] = b"Connection: ";
    for member in members.into_iter().flatten() {
        out.extend_from_slice(before);
        out.extend_from_slice(member);
        before = b", ";
    }
    if before == b", " {
        out.extend_from_slice(b"\r\n");
    }
}

/// The fields that Keepwarm alone writes, besides `Upgrade` and `Trailer`, which it writes conditionally. By length first: that alone passes nearly every other field.
fn steers_connection(name: &[u8]) -> bool {
    match name.len() {
        2 => is(name, "te"),
        10 => is(name, "connection") || is(name, "keep-alive"),
        14 => is(name, "content-length"),
        16 => is(name, "proxy-connection"),
        17 => is(name, "transfer-encoding"),
        _ => false,
    }
}

fn is(name: &[u8], lower: &str) -> bool {
    name.eq_ignore_ascii_case(lower.as_bytes())
}

fn status_line(out: &mut Vec<u8>, status: u16) {
    debug_assert!((100..=999).contains(&status), "{status} is not a status");
    let digit = |place: u16| b'0' + (status / place % 10) as u8;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(100), digit(10), digit(1), b' ']);
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    out.extend_from_slice(reason.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(is_token(name) && is_field_value(value), "an unchecked field: {:?}", name.escape_ascii());
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

fn decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests;
