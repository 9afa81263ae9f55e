//! Heads and trailers, between our fields and the `http` crate's.

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version, header, response};
use keepwarm_http1::{Fields, Limits, RequestBody, ResponseBody, ResponseHead, trailer_allowed, trim};

use crate::client::ServerFault;
use crate::{CallHead, Scheme};

/// The head of a request. `None`: HTTP/2 cannot express it.
pub(super) fn request<'f>(
    head: CallHead<'_, impl Iterator<Item = (&'f [u8], &'f [u8])>>,
) -> Option<Request<()>> {
    let CallHead { method, scheme, authority, target, fields, framing, expect, te_trailers, .. } = head;
    let opens_websocket = head.websocket_accept.is_some();
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    if opens_websocket {
        *request.method_mut() = Method::CONNECT;
        request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    }
    *request.uri_mut() = uri(scheme, authority, target)?;
    // Without an authority, the `h2` crate accepts only a request that is not marked as HTTP/2.
    *request.version_mut() = if authority.is_empty() { Version::HTTP_11 } else { Version::HTTP_2 };
    let map = request.headers_mut();
    // RFC 8441 §5: the key has no use.
    let has_no_use = |name: &[u8]| opens_websocket && name.eq_ignore_ascii_case(b"sec-websocket-key");
    for (name, value) in fields.filter(|(name, _)| !is_ours(name, framing) && !has_no_use(name)) {
        map.try_append(HeaderName::from_bytes(name).ok()?, field_value(value)?).ok()?;
    }
    match framing {
        RequestBody::Length(length) => drop(map.insert(header::CONTENT_LENGTH, length.into())),
        // RFC 9110 §8.6: methods that define a meaning for content announce its absence.
        RequestBody::None if matches!(*method, Method::POST | Method::PUT | Method::PATCH) => {
            map.insert(header::CONTENT_LENGTH, 0.into());
        }
        RequestBody::None | RequestBody::Chunked => {}
    }
    if expect && framing != RequestBody::None {
        map.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
    }
    if te_trailers {
        map.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    Some(request)
}

fn uri(scheme: Scheme, authority: &[u8], target: &[u8]) -> Option<Uri> {
    let mut parts = http::uri::Parts::default();
    if !authority.is_empty() {
        parts.authority = Some(Authority::try_from(authority).ok()?);
        parts.scheme = Some(match scheme {
            Scheme::Http => http::uri::Scheme::HTTP,
            Scheme::Https => http::uri::Scheme::HTTPS,
        });
    }
    parts.path_and_query = Some(match PathAndQuery::try_from(target) {
        Ok(target) => target,
        // Browsers send these bytes raw, while RFC 3986 wants them encoded: the same resource.
        Err(_) => PathAndQuery::from_maybe_shared(Bytes::from(encode(target))).ok()?,
    });
    Uri::from_parts(parts).ok()
}

/// Percent-encodes bytes that a path or a query must not contain (RFC 3986 §3.3, §3.4).
fn encode(target: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = Vec::with_capacity(target.len() + 16);
    for &byte in target {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte) {
            encoded.push(byte);
        } else {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            encoded.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}

/// Whether we set that field ourselves, or HTTP/2 expresses it otherwise (RFC 9113 §8.2.2).
fn is_ours(name: &[u8], framing: RequestBody) -> bool {
    let is = |lower: &str| name.eq_ignore_ascii_case(lower.as_bytes());
    match name.len() {
        2 => is("te"),
        4 => is("host"),
        6 => is("expect"),
        7 => is("upgrade") || (is("trailer") && framing != RequestBody::Chunked),
        10 => is("connection") || is("keep-alive"),
        14 => is("content-length") || is("http2-settings"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        _ => false,
    }
}

/// Trailers to send: the permitted ones.
pub fn trailers<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields.filter(|(name, _)| trailer_allowed(&name.to_ascii_lowercase())) {
        if let (Ok(name), Some(value)) = (HeaderName::from_bytes(name), field_value(value)) {
            // Beyond what a map holds (32,768), the decoder that filled `fields` has refused them.
            let _ = map.try_append(name, value);
        }
    }
    map
}

/// A value without the white space at its ends, with which it is malformed (RFC 9113 §8.2.1). `None`: it has bytes that no value has.
#[must_use]
pub fn field_value(value: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(trim(value)).ok()
}

/// The facts of a request that determine the framing of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestInfo {
    pub(super) head: bool,
}

/// Fills in the head of a response. `ended`: nothing follows it.
pub(super) fn fill_response(
    head: &mut ResponseHead,
    parts: &response::Parts,
    request: RequestInfo,
    ended: bool,
) -> Result<(), ServerFault> {
    *head = ResponseHead { fields: std::mem::take(&mut head.fields), ..ResponseHead::default() };
    head.status = parts.status;
    fill(&mut head.fields, &parts.headers, Limits::FIELDS, ("too_many_fields", "headers"))?;
    if parts.status.as_u16() == 101 {
        // RFC 9113 §8.6.
        return Err(fault("unrequested_upgrade", "sent 101, which HTTP/2 does not have"));
    }
    if parts.status.is_informational() {
        return Ok(());
    }
    head.content_length = length(&parts.headers)?;
    let bodiless = request.head || matches!(parts.status.as_u16(), 204 | 304);
    head.body = match head.content_length {
        _ if bodiless => ResponseBody::None,
        Some(length) => ResponseBody::Length(length),
        None if ended => ResponseBody::Length(0),
        None => ResponseBody::Chunked,
    };
    Ok(())
}

/// The server has accepted a WebSocket (RFC 8441 §5): its 2xx, as the 101 that it would be over HTTP/1.1.
pub(super) fn switch(head: &mut ResponseHead, accept: &str) {
    head.status = StatusCode::SWITCHING_PROTOCOLS;
    (head.content_length, head.body) = (None, ResponseBody::None);
    let came = std::mem::take(&mut head.fields);
    // RFC 9110 §8.6: a 1xx has no length.
    let stays = |(name, _): &(&[u8], &[u8])| !matches!(*name, b"content-length" | b"sec-websocket-accept");
    came.iter().filter(stays).for_each(|(name, value)| head.fields.push(name, value));
    head.fields.push(b"upgrade", b"websocket");
    head.fields.push(b"sec-websocket-accept", accept.as_bytes());
}

/// Fills in the trailers of a response: the permitted ones.
pub fn fill_trailers(fields: &mut Fields, map: &HeaderMap) -> Result<(), ServerFault> {
    fill(fields, map, Limits::TRAILER_FIELDS, ("too_many_trailers", "trailers"))?;
    if fields.iter().any(|(name, _)| !trailer_allowed(name)) {
        fields.clear();
        for (name, value) in map.iter().filter(|(name, _)| trailer_allowed(name.as_str().as_bytes())) {
            fields.push(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    Ok(())
}

fn fill(
    fields: &mut Fields,
    map: &HeaderMap,
    most: usize,
    (name, what): (&'static str, &str),
) -> Result<(), ServerFault> {
    if map.len() > most {
        return Err(fault(name, &format!("sent more than {most} {what}")));
    }
    fields.clear();
    for (name, value) in map {
        fields.push(name.as_str().as_bytes(), value.as_bytes());
    }
    Ok(())
}

fn length(map: &HeaderMap) -> Result<Option<u64>, ServerFault> {
    let Some(value) = map.get(header::CONTENT_LENGTH) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|text| text.parse().ok()) {
        Some(length) => Ok(Some(length)),
        None => Err(fault("bad_content_length", "sent a Content-Length that is not a number")),
    }
}

pub(super) fn fault(name: &'static str, sentence: &str) -> ServerFault {
    ServerFault { name, sentence: sentence.to_owned() }
}
