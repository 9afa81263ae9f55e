//! The case table, requests.

use http::Method;
use keepwarm_http1::{
    Limits, ListenerKind, RequestBody, RequestOptions, encode_chunk_head, encode_request_head,
    encode_trailers,
};

use crate::cases::{Case, check};
use crate::trace::{Role, trace};

#[test]
fn every_request_of_the_table() {
    let next = b"PUT /next HTTP/1.1\r\nHost: n\r\nContent-Length: 2\r\n\r\nno";
    let next_means = trace(&Role::SERVER, Limits::default(), [next.as_slice()]);
    for case in table() {
        let role = case.role.clone();
        let same_listener = matches!(role, Role::Server(ListenerKind::Origin));
        check(&case, same_listener.then_some((next.as_slice(), next_means.as_slice())));
    }
}

const KEEP: RequestOptions<'static> =
    RequestOptions { keep_alive: true, expect_continue: false, te_trailers: false, upgrade: None };

fn fields<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn server(
    name: &'static str,
    bytes: &'static [u8],
    means: &'static [&'static str],
    encode: Option<fn(&mut Vec<u8>)>,
) -> Case {
    Case { name, role: Role::SERVER, bytes, means, encode }
}

fn table() -> Vec<Case> {
    [framings(), versions_and_connections(), targets(), syntax()].into_iter().flatten().collect()
}

fn framings() -> Vec<Case> {
    vec![
        server(
            "no body",
            b"GET /a/b?c=d HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n",
            &["head: GET /a/b?c=d 1.1 @example.org none", "  host: example.org", "  accept: */*", "end"],
            Some(|out| {
                let accept = [("Accept", "*/*")];
                encode_request_head(
                    out,
                    &Method::GET,
                    b"/a/b?c=d",
                    b"example.org",
                    fields(&accept),
                    RequestBody::None,
                    KEEP,
                );
            }),
        ),
        server(
            "length",
            b"POST /f HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
            &["head: POST /f 1.1 @h 5", "  host: h", "  content-length: 5", "data: hello", "end"],
            Some(|out| {
                // The caller's fields about framing are not written.
                let stale = [("content-length", "99"), ("Transfer-Encoding", "chunked"), ("host", "other")];
                encode_request_head(
                    out,
                    &Method::POST,
                    b"/f",
                    b"h",
                    fields(&stale),
                    RequestBody::Length(5),
                    KEEP,
                );
                out.extend_from_slice(b"hello");
            }),
        ),
        server(
            "length zero is no body",
            b"POST /f HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
            &["head: POST /f 1.1 @h none empty", "  host: h", "  content-length: 0", "end"],
            Some(|out| {
                encode_request_head(out, &Method::POST, b"/f", b"h", fields(&[]), RequestBody::None, KEEP);
            }),
        ),
        server(
            "the same length twice, in two lines and in a list",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 2,2 , 2\r\n\r\nab",
            &[
                "head: POST / 1.1 @h 2",
                "  host: h",
                "  content-length: 2",
                "  content-length: 2,2 , 2",
                "data: ab",
                "end",
            ],
            None,
        ),
        server(
            "chunks with every legal extension, and trailers",
            b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ChunkEd\r\n\r\n\
              5\r\nhello\r\n00B ; a ; b=c;d = \"e;\\\"\t=\" ;f\r\n, worldwide\r\n000;x\r\nX-Sum: 1\r\nHost: evil\r\nx-sum:2 \r\n\r\n",
            &[
                "head: POST /c 1.1 @h chunked",
                "  host: h",
                "  transfer-encoding: ChunkEd",
                "data: hello, worldwide",
                "trailers",
                "  x-sum: 1",
                "  x-sum: 2",
                "end",
            ],
            None,
        ),
        server(
            "empty members of Transfer-Encoding are ignored",
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\nTransfer-Encoding: , chunked ,\r\n\r\n0\r\n\r\n",
            &["head: POST / 1.1 @h chunked", "  host: h", "  transfer-encoding: ", "  transfer-encoding: , chunked ,", "end"],
            None,
        ),
        server(
            "chunks as we write them",
            b"PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
              10\r\n0123456789abcdef\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n",
            &[
                "head: PUT /c 1.1 @h chunked",
                "  host: h",
                "  transfer-encoding: chunked",
                "data: 0123456789abcdef!",
                "trailers",
                "  x-sum: 1",
                "end",
            ],
            Some(|out| {
                encode_request_head(out, &Method::PUT, b"/c", b"h", fields(&[]), RequestBody::Chunked, KEEP);
                for data in [b"0123456789abcdef".as_slice(), b"!"] {
                    encode_chunk_head(out, data.len());
                    out.extend_from_slice(data);
                    out.extend_from_slice(keepwarm_http1::CHUNK_TAIL);
                }
                encode_trailers(out, fields(&[("X-Sum", "1"), ("Content-Length", "5"), ("Authorization", "x")]));
            }),
        ),
        server(
            "only refused trailers are no trailers",
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\n",
            &["head: POST / 1.1 @h chunked", "  host: h", "  transfer-encoding: chunked", "end"],
            None,
        ),
        server(
            "a body on GET",
            b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n\n",
            &["head: GET / 1.1 @h 1", "  host: h", "  content-length: 1", "data: \\n", "end"],
            None,
        ),
    ]
}

fn versions_and_connections() -> Vec<Case> {
    vec![
        server(
            "1.0 without Host, as HAProxy checks",
            b"OPTIONS / HTTP/1.0\r\n\r\n",
            &["head: OPTIONS / 1.0 @ none", "end"],
            None,
        ),
        server(
            "1.0 keep-alive, as ab -k",
            b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: h\r\n\r\n",
            &["head: GET / 1.0 @h none keep-alive", "  connection: Keep-Alive", "  host: h", "end"],
            None,
        ),
        server(
            "1.9 counts as 1.1",
            b"GET / HTTP/1.9\r\nHost: h\r\nConnection: foo,, CLOSE ,bar\r\nConnection: keep-alive\r\n\r\n",
            &[
                "head: GET / 1.1 @h none close keep-alive",
                "  host: h",
                "  connection: foo,, CLOSE ,bar",
                "  connection: keep-alive",
                "end",
            ],
            None,
        ),
        server(
            "a token that only contains close is not close",
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: closed, x-close\r\n\r\n",
            &["head: GET / 1.1 @h none", "  host: h", "  connection: closed, x-close", "end"],
            None,
        ),
        server(
            "an expectation that counts",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\nx",
            &[
                "head: POST / 1.1 @h 1 continue",
                "  host: h",
                "  content-length: 1",
                "  expect: 100-Continue",
                "data: x",
                "end",
            ],
            None,
        ),
        server(
            "an expectation as we write it, with all our options",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\nTE: trailers\r\n\
              Upgrade: websocket\r\nConnection: close, TE, upgrade\r\n\r\nx",
            &[
                "head: POST / 1.1 @h 1 close continue upgrade",
                "  host: h",
                "  content-length: 1",
                "  expect: 100-continue",
                "  te: trailers",
                "  upgrade: websocket",
                "  connection: close, TE, upgrade",
                "data: x",
                "end",
            ],
            Some(|out| {
                let options = RequestOptions {
                    keep_alive: false,
                    expect_continue: true,
                    te_trailers: true,
                    upgrade: Some(b"websocket"),
                };
                let dropped =
                    [("Expect", "x"), ("te", "gzip"), ("upgrade", "h2c"), ("keep-alive", "timeout=9")];
                encode_request_head(
                    out,
                    &Method::POST,
                    b"/",
                    b"h",
                    fields(&dropped),
                    RequestBody::Length(1),
                    options,
                );
                out.extend_from_slice(b"x");
            }),
        ),
        server(
            "an expectation without a body is ignored",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
            &[
                "head: POST / 1.1 @h none empty",
                "  host: h",
                "  content-length: 0",
                "  expect: 100-continue",
                "end",
            ],
            None,
        ),
        server(
            "any expectation of 1.0 is ignored",
            b"POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue, coffee\r\n\r\nx",
            &[
                "head: POST / 1.0 @ 1",
                "  content-length: 1",
                "  expect: 100-continue, coffee",
                "data: x",
                "end",
            ],
            None,
        ),
        server(
            "another expectation: 417",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue, coffee\r\n\r\nx",
            &[
                "head: POST / 1.1 @h 1 continue 417",
                "  host: h",
                "  content-length: 1",
                "  expect: 100-continue, coffee",
                "data: x",
                "end",
            ],
            None,
        ),
        server(
            "upgrade",
            b"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
            &[
                "head: GET /ws 1.1 @h none keep-alive upgrade",
                "  host: h",
                "  connection: keep-alive, Upgrade",
                "  upgrade: websocket",
                "end",
            ],
            None,
        ),
        server(
            "upgrade is ignored on 1.0",
            b"GET /ws HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            &["head: GET /ws 1.0 @ none", "  connection: upgrade", "  upgrade: websocket", "end"],
            None,
        ),
        server(
            "upgrade to h2c alone is none",
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\n\r\n",
            &[
                "head: GET / 1.1 @h none",
                "  host: h",
                "  connection: upgrade, http2-settings",
                "  upgrade: h2c",
                "end",
            ],
            None,
        ),
        server(
            "upgrade without Connection is none",
            b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n",
            &["head: GET / 1.1 @h none", "  host: h", "  upgrade: websocket", "end"],
            None,
        ),
    ]
}

fn targets() -> Vec<Case> {
    let proxy = Role::Server(ListenerKind::ForwardProxy);
    vec![
        server(
            "absolute form replaces Host",
            b"GET HTTP://Real.example:80/p?q HTTP/1.1\r\nHost: other\r\n\r\n",
            &["head: GET /p?q 1.1 @Real.example:80 none", "  host: other", "end"],
            None,
        ),
        server(
            "absolute form without a path",
            b"GET https://r?q HTTP/1.1\r\nHost:\r\n\r\n",
            &["head: GET /?q 1.1 @r none", "  host: ", "end"],
            None,
        ),
        server(
            "asterisk",
            b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
            &["head: OPTIONS * 1.1 @h none server-wide", "  host: h", "end"],
            None,
        ),
        server(
            "absolute OPTIONS without a path asks about the server",
            b"OPTIONS http://r HTTP/1.1\r\nHost: h\r\n\r\n",
            &["head: OPTIONS * 1.1 @r none server-wide", "  host: h", "end"],
            None,
        ),
        server(
            "CONNECT on an ordinary listener: 405",
            b"CONNECT r:443 HTTP/1.1\r\nHost: r:443\r\n\r\n",
            &["head: CONNECT  1.1 @r:443 none 405", "  host: r:443", "end"],
            None,
        ),
        server(
            "TRACE: 405",
            b"TRACE / HTTP/1.1\r\nHost: h\r\n\r\n",
            &["head: TRACE / 1.1 @h none 405", "  host: h", "end"],
            None,
        ),
        Case {
            name: "CONNECT on a forward proxy",
            role: proxy,
            bytes: b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n",
            means: &["head: CONNECT  1.1 @[::1]:443 none", "  host: [::1]:443", "end"],
            encode: None,
        },
        server(
            "a path as it is, with bytes browsers send raw",
            b"GET //a/../%2f|^{}\"`[]\\?a=%zz&{\"b\":1} HTTP/1.1\r\nHost: h\r\n\r\n",
            &["head: GET //a/../%2f|^{}\\\"`[]\\\\?a=%zz&{\\\"b\\\":1} 1.1 @h none", "  host: h", "end"],
            None,
        ),
        server(
            "an empty query, and a question mark in it",
            b"GET /?? HTTP/1.1\r\nHost: h\r\n\r\n",
            &["head: GET /?? 1.1 @h none", "  host: h", "end"],
            None,
        ),
        server(
            "hosts: IPv6 and a port",
            b"GET / HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\n\r\n",
            &["head: GET / 1.1 @[2001:db8::1]:8080 none", "  host: [2001:db8::1]:8080", "end"],
            None,
        ),
        server(
            "hosts: underscores, percent, an empty port",
            b"GET / HTTP/1.1\r\nHost: a_b.%41~!$&'()*+,;=:\r\n\r\n",
            &["head: GET / 1.1 @a_b.%41~!$&\\'()*+,;=: none", "  host: a_b.%41~!$&\\'()*+,;=:", "end"],
            None,
        ),
    ]
}

fn syntax() -> Vec<Case> {
    vec![
        server(
            "one empty line before a request",
            b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            &["head: GET / 1.1 @h none", "  host: h", "end"],
            None,
        ),
        server("an empty line and no request", b"\r\n", &[], None),
        server("nothing", b"", &[], None),
        server(
            "blanks around values, empty values, bytes over 0x7f",
            b"X!#$%&'*+-.^_`|~0 / HTTP/1.1\r\nHOST: \t h\t \r\nX-Empty:\r\nx-TAB: a\tb \xff\x80\r\n\r\n",
            &[
                "head: X!#$%&'*+-.^_`|~0 / 1.1 @h none",
                "  host: h",
                "  x-empty: ",
                "  x-tab: a\\tb \\xff\\x80",
                "end",
            ],
            None,
        ),
        server(
            "methods keep their case",
            b"get / HTTP/1.1\r\nHost: h\r\n\r\n",
            &["head: get / 1.1 @h none", "  host: h", "end"],
            None,
        ),
    ]
}
