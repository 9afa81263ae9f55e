//! The case table of responses.

use http::Method;
use keepwarm_http1::{
    CHUNK_TAIL, LAST_CHUNK, Limits, Plan, RequestFacts, ResponseFacts, ResponseLength, Version,
    encode_chunk_head, encode_continue, encode_informational, encode_response_head, encode_trailers, plan,
};

use crate::cases::{Case, check, check_with_next};
use crate::trace::{Role, trace};

#[test]
fn every_response_of_the_table() {
    let next = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
    let next_means = trace(&Role::client(&[Method::GET]), Limits::default(), [next.as_slice()]);
    for Entry { mut case, asked, last } in table() {
        case.role = Role::client(std::slice::from_ref(&asked));
        check(&case, None);
        if !last {
            // With a second request sent, the following bytes are its response.
            case.role = Role::client(&[asked, Method::GET]);
            check_with_next(&case, next, &next_means);
        }
    }
}

#[test]
fn a_tunnel_keeps_its_bytes() {
    let upgrade = Role::Client { asked: vec![Method::GET], upgrade: true };
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\0";
    let means = [
        "informational: 100 1.1 none keeps",
        "head: 101 1.1 none keeps",
        "  upgrade: websocket",
        "  connection: upgrade",
        "end",
        "tunnel: \\x81\\x00",
    ];
    assert_eq!(crate::trace::trace_every_cut(&upgrade, Limits::default(), bytes), means);

    let connect = Role::client(&[Method::CONNECT]);
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(
        crate::trace::fault(&connect, Limits::default(), bytes).as_deref(),
        Some("both_length_and_chunked")
    );
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 bytes";
    let means = ["head: 200 1.1 none keeps", "  content-length: 5", "end", "tunnel: HTTP/1.1 bytes"];
    assert_eq!(crate::trace::trace_every_cut(&connect, Limits::default(), bytes), means);
}

struct Entry {
    case: Case,
    asked: Method,
    /// Nothing can follow it: the close ended it.
    last: bool,
}

fn respond(
    name: &'static str,
    asked: Method,
    bytes: &'static [u8],
    means: &'static [&'static str],
    encode: Option<fn(&mut Vec<u8>)>,
) -> Entry {
    Entry { case: Case { name, role: Role::SERVER, bytes, means, encode }, asked, last: false }
}

fn until_close(name: &'static str, bytes: &'static [u8], means: &'static [&'static str]) -> Entry {
    Entry { last: true, ..respond(name, Method::GET, bytes, means, None) }
}

fn fields<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn planned(version: Version, keep_alive: bool, status: u16, length: ResponseLength, trailers: bool) -> Plan {
    let request = RequestFacts {
        version,
        is_head: false,
        is_connect: false,
        close: false,
        keep_alive,
        forward_proxy: false,
    };
    let response = ResponseFacts {
        status,
        length,
        close: false,
        first_on_connection: keep_alive,
        idle_timeout_secs: 75,
        trailers,
    };
    plan(request, response)
}

fn table() -> Vec<Entry> {
    [framings(), bodiless(), informational(), normalized()].into_iter().flatten().collect()
}

fn framings() -> Vec<Entry> {
    vec![
        respond(
            "length",
            Method::GET,
            b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 4\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\npong",
            &[
                "head: 200 1.1 4 keeps",
                "  x-a: b",
                "  content-length: 4",
                "  date: Sun, 06 Nov 1994 08:49:37 GMT",
                "data: pong",
                "end",
            ],
            Some(|out| {
                let plan = planned(Version::Http11, false, 200, ResponseLength::Known(4), false);
                let app = [
                    ("X-A", "b"),
                    ("content-length", "4"),
                    ("Connection", "close"),
                    ("Keep-Alive", "timeout=1"),
                    ("Transfer-Encoding", "chunked"),
                    ("Proxy-Connection", "close"),
                    ("TE", "x"),
                    ("Upgrade", "x"),
                    ("Trailer", "x"),
                ];
                encode_response_head(out, 200, &plan, fields(&app), Some(b"Sun, 06 Nov 1994 08:49:37 GMT"));
                out.extend_from_slice(b"pong");
            }),
        ),
        respond(
            "to 1.0 with keep-alive",
            Method::GET,
            b"HTTP/1.1 599 \r\nContent-Length: 0\r\nConnection: keep-alive\r\nKeep-Alive: timeout=75\r\n\r\n",
            &[
                "head: 599 1.1 0 keeps",
                "  content-length: 0",
                "  connection: keep-alive",
                "  keep-alive: timeout=75",
                "end",
            ],
            Some(|out| {
                let plan = planned(Version::Http10, true, 599, ResponseLength::Known(0), false);
                encode_response_head(out, 599, &plan, fields(&[]), None);
            }),
        ),
        respond(
            "chunks",
            Method::GET,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1f\r\n0123456789012345678901234567890\r\n0\r\n\r\n",
            &[
                "head: 200 1.1 chunked keeps",
                "  transfer-encoding: chunked",
                "data: 0123456789012345678901234567890",
                "end",
            ],
            Some(|out| {
                let plan = planned(Version::Http11, false, 200, ResponseLength::Unknown, false);
                encode_response_head(out, 200, &plan, fields(&[]), None);
                encode_chunk_head(out, 31);
                out.extend_from_slice(b"0123456789012345678901234567890");
                out.extend_from_slice(CHUNK_TAIL);
                out.extend_from_slice(LAST_CHUNK);
            }),
        ),
        respond(
            "chunks and trailers",
            Method::POST,
            b"HTTP/1.1 200 OK\r\nTrailer: grpc-status\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\ngrpc-status: 0\r\n\r\n",
            &[
                "head: 200 1.1 chunked keeps",
                "  trailer: grpc-status",
                "  transfer-encoding: chunked",
                "data: ab",
                "trailers",
                "  grpc-status: 0",
                "end",
            ],
            Some(|out| {
                let plan = planned(Version::Http11, false, 200, ResponseLength::Known(2), true);
                encode_response_head(out, 200, &plan, fields(&[("Trailer", "grpc-status")]), None);
                encode_chunk_head(out, 2);
                out.extend_from_slice(b"ab\r\n");
                encode_trailers(out, fields(&[("grpc-status", "0"), ("Set-Cookie", "a=b")]));
            }),
        ),
        until_close(
            "until close",
            b"HTTP/1.1 200 OK\r\n\r\n0\r\n\r\n",
            &["head: 200 1.1 until-close", "data: 0\\r\\n\\r\\n", "end by close"],
        ),
        until_close(
            "until close, from 1.0, nothing",
            b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
            &["head: 200 1.0 until-close", "  connection: keep-alive", "end by close"],
        ),
        respond(
            "1.0 with keep-alive",
            Method::GET,
            b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx",
            &["head: 200 1.0 1 keeps", "  connection: Keep-Alive", "  content-length: 1", "data: x", "end"],
            None,
        ),
        respond(
            "1.0 without",
            Method::GET,
            b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
            &["head: 200 1.0 1", "  content-length: 1", "data: x", "end"],
            None,
        ),
        respond(
            "close",
            Method::GET,
            b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx",
            &["head: 200 1.1 1", "  connection: Close", "  content-length: 1", "data: x", "end"],
            None,
        ),
    ]
}

fn bodiless() -> Vec<Entry> {
    vec![
        respond(
            "HEAD, with the length of what GET would give",
            Method::HEAD,
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            &["head: 200 1.1 none keeps", "  content-length: 5", "end"],
            None,
        ),
        respond(
            "HEAD, chunked",
            Method::HEAD,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            &["head: 200 1.1 none keeps", "  transfer-encoding: chunked", "end"],
            None,
        ),
        respond(
            "204 with a length",
            Method::GET,
            b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
            &["head: 204 1.1 none keeps", "  content-length: 5", "end"],
            None,
        ),
        respond(
            "204 as we write it",
            Method::GET,
            b"HTTP/1.1 204 No Content\r\n\r\n",
            &["head: 204 1.1 none keeps", "end"],
            Some(|out| {
                let plan = planned(Version::Http11, false, 204, ResponseLength::Known(0), true);
                encode_response_head(out, 204, &plan, fields(&[("Content-Length", "0")]), None);
            }),
        ),
        respond(
            "304 with a length",
            Method::GET,
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            &["head: 304 1.1 none keeps", "  content-length: 5", "end"],
            Some(|out| {
                let plan = planned(Version::Http11, false, 304, ResponseLength::Upstream(5), false);
                encode_response_head(out, 304, &plan, fields(&[("content-length", "5")]), None);
            }),
        ),
        respond(
            "205",
            Method::POST,
            b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
            &["head: 205 1.1 0 keeps", "  content-length: 0", "end"],
            Some(|out| {
                let plan = planned(Version::Http11, false, 205, ResponseLength::Unknown, false);
                encode_response_head(out, 205, &plan, fields(&[]), None);
            }),
        ),
        respond(
            "CONNECT refused is a response like another",
            Method::CONNECT,
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 1\r\n\r\nx",
            &["head: 403 1.1 1 keeps", "  content-length: 1", "data: x", "end"],
            None,
        ),
    ]
}

fn informational() -> Vec<Entry> {
    vec![
        respond(
            "any number, in order",
            Method::GET,
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            &[
                "informational: 100 1.1 none keeps",
                "informational: 103 1.1 none keeps",
                "  link: </a>",
                "informational: 103 1.1 none keeps",
                "head: 204 1.1 none keeps",
                "end",
            ],
            Some(|out| {
                encode_continue(out);
                encode_informational(
                    out,
                    103,
                    fields(&[("Link", "</a>"), ("Content-Length", "4"), ("Connection", "x"), ("Upgrade", "x")]),
                );
                encode_informational(out, 103, fields(&[]));
                let plan = planned(Version::Http11, false, 204, ResponseLength::Absent, false);
                encode_response_head(out, 204, &plan, fields(&[]), None);
            }),
        ),
        respond(
            "framing fields in a 1xx frame nothing",
            Method::GET,
            b"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            &[
                "informational: 102 1.1 none keeps",
                "  content-length: 5",
                "  transfer-encoding: chunked",
                "head: 204 1.1 none keeps",
                "end",
            ],
            None,
        ),
    ]
}

fn normalized() -> Vec<Entry> {
    vec![
        respond(
            "folded lines",
            Method::GET,
            b"HTTP/1.1 200 OK\r\nA: b \r\n  c\r\n\t\r\n\td\r\nE:\r\n f\r\nContent-Length:\r\n 1\r\n\r\nx",
            &[
                "head: 200 1.1 1 keeps folded",
                "  a: b     c      d",
                "  e: f",
                "  content-length: 1",
                "data: x",
                "end",
            ],
            None,
        ),
        respond(
            "blank before the colon",
            Method::GET,
            b"HTTP/1.1 200 OK\r\nContent-Length \t: 1\r\n\r\nx",
            &["head: 200 1.1 1 keeps blank", "  content-length: 1", "data: x", "end"],
            None,
        ),
        respond(
            "bare LF",
            Method::GET,
            b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
            &["head: 200 1.1 1 keeps lf", "  content-length: 1", "data: x", "end"],
            None,
        ),
        respond(
            "no reason, nor its blank",
            Method::GET,
            b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
            &["head: 200 1.1 1 keeps no-reason", "  content-length: 1", "data: x", "end"],
            None,
        ),
        respond(
            "a reason of any text",
            Method::GET,
            b"HTTP/1.1 200 \tTr\xc3\xa8s: bien \r\nContent-Length: 1\r\n\r\nx",
            &["head: 200 1.1 1 keeps", "  content-length: 1", "data: x", "end"],
            None,
        ),
    ]
}
