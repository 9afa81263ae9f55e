//! A request as a REQUEST frame (`spec/wire.md` §4).

use keepwarm_http1::{HopByHop, RequestBody, Version, percent_decode};
use keepwarm_serve::{FieldNames, Request};
use keepwarm_wire::encode::{EncodeError, RequestWriter};
use keepwarm_wire::frame::{RequestStrings, flags};

/// How a request is encoded for a worker.
pub(super) struct RequestOptions<'b> {
    pub(super) body: InitialBody<'b>,
    pub(super) websocket: bool,
    /// The client waits for `100 Continue`, and the application decides.
    pub(super) expects: bool,
    /// Only fields whose names make CGI-style ones (`spec/http.md` §4, "Names").
    pub(super) cgi_names: bool,
    /// The worker takes the user that the route has authenticated.
    pub(super) user: bool,
}

/// The part of the body that is known when the request is sent.
pub(super) enum InitialBody<'b> {
    /// All of it.
    Whole(&'b [u8]),
    /// It follows in DATA frames; its length where it was measured.
    Follows(Option<u64>),
}

/// Appends the frame; its stream is filled in when a worker takes it.
pub(super) fn encode_request(
    out: &mut Vec<u8>,
    request: &Request,
    options: &RequestOptions<'_>,
) -> Result<(), EncodeError> {
    const LATER: u32 = 1;
    let head = &request.head;
    let mut frame = RequestWriter::begin(out, LATER, content_length(head.body, &options.body));
    encode_fixed(&mut frame, request, options);
    encode_fields(&mut frame, request, options);
    let user = request.notes.routed.user.as_deref().filter(|_| options.user);
    if let Some(user) = user {
        frame.user(user.as_bytes(), request.notes.routed.auth_type.as_bytes());
    }
    let mut bits = 0;
    if let InitialBody::Whole(body) = options.body {
        frame.body(body);
        bits |= flags::END;
    }
    let hints = head.version >= Version::Http11 && request.takes_early_hints();
    for (bit, set) in [
        (flags::WEBSOCKET, options.websocket),
        (flags::EXPECT, options.expects),
        (flags::REPEATS, head.fields.repeats()),
        (flags::EARLY_HINTS, hints),
        (flags::USER, user.is_some()),
        (flags::TRAILERS, head.version >= Version::Http11 && head.fields.has_token("te", "trailers")),
    ] {
        if set {
            bits |= bit;
        }
    }
    frame.finish(bits)
}

/// The length of the body: as declared, or as measured when it was read before it is given.
fn content_length(declared: RequestBody, body: &InitialBody<'_>) -> Option<u64> {
    match (declared, body) {
        (RequestBody::None, _) => Some(0),
        (RequestBody::Length(length), _) => Some(length),
        (RequestBody::Chunked, InitialBody::Whole(bytes)) => Some(bytes.len() as u64),
        (RequestBody::Chunked, InitialBody::Follows(measured)) => *measured,
    }
}

fn encode_fixed(frame: &mut RequestWriter<'_>, request: &Request, options: &RequestOptions<'_>) {
    let head = &request.head;
    let (mut path_scratch, mut mount_scratch) = (Vec::new(), Vec::new());
    let raw_path = request.path();
    let (mount, path) = raw_path.split_at_checked(request.mount()).unwrap_or((b"", raw_path));
    let (peer_address, peer_port) = request.peer().client_text();
    let believed = request.notes.forwarded.as_ref().map(|forwarded| forwarded.client.to_string());
    let (client_address, client_port) = match &believed {
        Some(address) => (address.as_str(), "0"),
        None => (peer_address, peer_port),
    };
    let (server_name, server_port) = match options.cgi_names {
        true => named_server(request),
        false => listening_server(request),
    };
    frame.fixed(&RequestStrings {
        method: head.method.as_str().as_bytes(),
        protocol: match head.version {
            // Environments of CGI have the name that nginx and Apache gave it; ASGI has its own.
            _ if request.is_http2() && options.cgi_names => b"HTTP/2.0",
            _ if request.is_http2() => b"HTTP/2",
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
        },
        scheme: request.scheme().as_str().as_bytes(),
        path: percent_decode(path, &mut path_scratch),
        raw_path,
        query: head.query().unwrap_or_default(),
        script_name: percent_decode(mount, &mut mount_scratch),
        server_name,
        server_port,
        client_address: client_address.as_bytes(),
        client_port: client_port.as_bytes(),
    });
}

/// RFC 3875 §4.1.14, §4.1.15: as the client calls it; what is not said, from the connection.
fn named_server(request: &Request) -> (&[u8], &[u8]) {
    let (name, port) = split_authority(request.head.authority());
    let (address, local_port) = request.peer().local_text();
    let default_port = match request.scheme() {
        keepwarm_net::Scheme::Http => "80",
        keepwarm_net::Scheme::Https => "443",
    };
    match (name.is_empty(), address.is_empty()) {
        (true, false) => (address.as_bytes(), local_port.as_bytes()),
        (true, true) => (b"localhost", if port.is_empty() { default_port.as_bytes() } else { port }),
        (false, _) => (name, if port.is_empty() { default_port.as_bytes() } else { port }),
    }
}

/// ASGI, `server`: where it listens; the path of a Unix socket, without a port.
fn listening_server(request: &Request) -> (&[u8], &[u8]) {
    match &request.peer().socket {
        Some(path) => (path.as_bytes(), b""),
        None => {
            let (address, port) = request.peer().local_text();
            (address.as_bytes(), port.as_bytes())
        }
    }
}

fn encode_fields(frame: &mut RequestWriter<'_>, request: &Request, options: &RequestOptions<'_>) {
    let head = &request.head;
    let hop_by_hop = HopByHop::of(&head.fields);
    let names = if options.cgi_names { FieldNames::Cgi } else { FieldNames::Http };
    let mut has_length = false;
    for (name, value) in head.fields.iter() {
        let (kept, value) = match name {
            b"host" | b"expect" | b"transfer-encoding" => (false, value),
            // RFC 9110 §8.6: a single value in place of repeated ones, which no framework reads as a number.
            b"content-length" => (!std::mem::replace(&mut has_length, true), first_of_list(value)),
            _ => (!hop_by_hop.removes(name), value),
        };
        if kept && !request.drops_field(name, names) {
            frame.field(name, value);
        }
    }
    for (name, value) in request.extra_fields.iter() {
        frame.field(name, value);
    }
    if !head.authority().is_empty() || head.fields.first("host").is_some() {
        frame.field(b"host", head.authority());
    }
    // A chunked body that was read before has a length now, and the application may rely on it.
    if let (RequestBody::Chunked, Some(length)) = (head.body, content_length(head.body, &options.body)) {
        frame.field(b"content-length", length.to_string().as_bytes());
    }
}

fn first_of_list(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

/// `host:port`, `[v6]:port` or either without a port.
pub(super) fn split_authority(authority: &[u8]) -> (&[u8], &[u8]) {
    let colon = memchr_last(b':', authority);
    let bracket = memchr_last(b']', authority);
    match (colon, bracket) {
        (Some(colon), bracket) if bracket.is_none_or(|bracket| bracket < colon) => {
            (authority.get(..colon).unwrap_or_default(), authority.get(colon + 1..).unwrap_or_default())
        }
        _ => (authority, b""),
    }
}

fn memchr_last(byte: u8, bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|candidate| *candidate == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_split_at_its_port() {
        for (authority, name, port) in [
            ("shop.example:8080", "shop.example", "8080"),
            ("shop.example", "shop.example", ""),
            ("[::1]:80", "[::1]", "80"),
            ("[::1]", "[::1]", ""),
            ("", "", ""),
        ] {
            assert_eq!(
                split_authority(authority.as_bytes()),
                (name.as_bytes(), port.as_bytes()),
                "{authority}"
            );
        }
    }
}
