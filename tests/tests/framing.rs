//! `spec/http.md` §4, every faulty row in several spellings, as transcripts over a real socket. Each faulty request is followed by a sound one,
//! `GET /canary`: it must never get a response, since the end of the faulty one is unknown.

use std::sync::OnceLock;

use keepwarm_tests::shared::{asgi, fastcgi, php, rack, wsgi};
use keepwarm_tests::{ASGI, Client, FASTCGI, Failure, Server, WSGI};

const CANARY: &str = "GET /canary HTTP/1.1\r\nHost: test.example\r\n\r\n";

const FIXED: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/canary"
respond = { status = 299, body = "canary" }
[[listen.main.route]]
respond = { status = 200, body = "pong" }
"#;

fn fixed() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(FIXED))
}

fn apps() -> [(&'static str, &'static Server); 5] {
    [("wsgi", wsgi()), ("rack", rack()), ("asgi", asgi()), ("php", php()), ("fastcgi", fastcgi())]
}

/// Faults of the head: status wanted, and the request.
const HEADS: &[(u16, &str)] = &[
    // Two framings (RFC 9112 §6.3 would let Transfer-Encoding win; we refuse).
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\ncontent-length: 0\r\n\r\n0\r\n\r\n"),
    // Content-Length.
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nhello!"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX: y\r\nCONTENT-LENGTH: 05x\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 2\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ,\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5;\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 00000000000000000005\r\n\r\nhello"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
    // Transfer-Encoding.
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    (
        400,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        400,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    ),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"),
    (400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, "POST / HTTP/1.0\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello"),
    (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x-unknown, chunked\r\n\r\n0\r\n\r\n"),
    (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    (
        501,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n"),
    // Line ends, folding, blanks, names, controls.
    (400, "GET / HTTP/1.1\nHost: a\n\n"),
    (400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\n\nGET /canary HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\nZ: w\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\rZ: w\r\n\r\n"),
    (400, "GET / HTTP/1.1\rHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\n\tfolded\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n \r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nNo Token: x\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nNo(Token): x\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX@Y: x\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nno colon at all\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nN\u{e9}: y\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\x08b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\x1bb\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nX: \x0c\r\n\r\n"),
    // The request line.
    (400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
    (400, "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET / http/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/11.1\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/01.1\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.x\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTPS/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET / XTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET foo HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET ?x HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET \\ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\r\n\r\n"),
    // No version at all: HTTP/0.9.
    (400, "GET /\r\n\r\n"),
    (400, "GET / \r\n\r\n"),
    (400, "GET\r\n\r\n"),
    // Another major version. The preface of HTTP/2 is served: `http2.rs` has both sides of its switch.
    (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    (505, "GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
    (505, "GET / HTTP/3.1\r\nHost: a\r\n\r\n"),
    (505, "GET / HTTP/9.9\r\nHost: a\r\n\r\n"),
    // Host.
    (400, "GET / HTTP/1.1\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nX: y\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
    (400, "GET / HTTP/1.0\r\nHost: a b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a#b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a:-1\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: ::1\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: [::g]\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: a%zz\r\n\r\n"),
    (400, "GET / HTTP/1.1\r\nHost: \u{e9}\r\n\r\n"),
    (400, "GET http://a/ HTTP/1.1\r\n\r\n"),
    // Absolute form.
    (400, "GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET http://user:pass@a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET file:///etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET http://a:x/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET a:/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    // The asterisk, CONNECT, TRACE.
    (400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "POST * HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
    (400, "OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n"),
    (405, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
    // Percent-encoding of the path.
    (400, "GET /% HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /a%0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /a/%u0041 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET http://a/%00 HTTP/1.1\r\nHost: a\r\n\r\n"),
];

/// Faults inside a chunked body: what follows the head.
const CHUNKS: &[&str] = &[
    "+5\r\nhello\r\n0\r\n\r\n",
    "-5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    " 5\r\nhello\r\n0\r\n\r\n",
    "\t5\r\nhello\r\n0\r\n\r\n",
    "5 5\r\nhello\r\n0\r\n\r\n",
    "g\r\nhello\r\n0\r\n\r\n",
    "\r\nhello\r\n0\r\n\r\n",
    ";ext\r\nhello\r\n0\r\n\r\n",
    "5,\r\nhello\r\n0\r\n\r\n",
    "5_0\r\nhello\r\n0\r\n\r\n",
    "00000000000000005\r\nhello\r\n0\r\n\r\n",
    "10000000000000000\r\nhello\r\n0\r\n\r\n",
    "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    // Line ends.
    "5\nhello\r\n0\r\n\r\n",
    "5\rhello\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "5\r\nhello\r0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "5\r\nhello!\r\n0\r\n\r\n",
    "5\r\nhelloXX0\r\n\r\n",
    "5\r\nhello\r\n0\n\n",
    "5\r\nhello\r\n0\r\n\n",
    "5\r\nhello\r\n\r\n0\r\n\r\n",
    // Extensions may not hide a line end.
    "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "5;a\rb\r\nhello\r\n0\r\n\r\n",
    "5;a=\0\r\nhello\r\n0\r\n\r\n",
    "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
    // Trailers are fields.
    "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
    "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
    "5\r\nhello\r\n0\r\nX: y\n\r\n",
    "5\r\nhello\r\n0\r\n folded\r\n\r\n",
    "5\r\nhello\r\n0\r\nX: a\0b\r\n\r\n",
    "5\r\nhello\r\n0\r\n: y\r\n\r\n",
];

/// Odd, but valid.
const SOUND: &[&str] = &[
    "\r\nGET /pong HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /pong HTTP/1.2\r\nHost: a\r\n\r\n",
    "GET /pong HTTP/1.9\r\nHost: a\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost:a\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost:\t a \t\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost:\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: a:8080\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: a:\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: under_score.example\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: a\r\nX: a\tb\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09az: every byte a name may have\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: a\r\nX: \u{e9}\u{20ac}\r\n\r\n",
    "GET /pong HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "GET /pong?a=%zz&b=100% HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://b/pong HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET HTTP://b:80/pong HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /pong HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "POST /pong HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST /pong HTTP/1.1\r\nHost: a\r\nContent-Length: 005\r\n\r\nhello",
    "POST /pong HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "POST /pong HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b;c=\"d\\\"e\"\r\nhello\r\n0;x\r\n\r\n",
    "POST /pong HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 ;a = b\r\nhello\r\n0\r\n\r\n",
    "POST /pong HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000005\r\nhello\r\n000\r\n\r\n",
    "POST /pong HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\nX-Trailer: y\r\n\r\n",
    "POST /pong HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "UNHEARD-OF /pong HTTP/1.1\r\nHost: a\r\n\r\n",
    "get /pong HTTP/1.1\r\nHost: a\r\n\r\n",
    "DELETE /pong HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// The response to a faulty request: the status, a close, and nothing after it.
fn refused(client: &mut Client, status: u16) -> Result<(), String> {
    let response = client.try_response("GET").map_err(|failure| format!("{failure:?}"))?;
    if response.status != status {
        return Err(format!("{} instead of {status}", response.status));
    }
    if !response.says_close() {
        return Err(format!("no Connection: close in {:?}", response.fields));
    }
    match client.try_response("GET") {
        Err(Failure::Closed) => Ok(()),
        other => Err(format!("after the refusal: {other:?}")),
    }
}

#[track_caller]
fn report(faults: &[String], cases: usize) {
    let shown = faults.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {cases} cases fail:\n{shown}", faults.len());
}

/// Each faulty head, whole and with the canary after it.
fn heads(server: &Server) {
    let mut faults = Vec::new();
    for (status, request) in HEADS {
        let mut client = server.client();
        client.send(format!("{request}{CANARY}"));
        if let Err(fault) = refused(&mut client, *status) {
            faults.push(format!("{}: {fault}", request.escape_debug()));
        }
    }
    report(&faults, HEADS.len());
}

#[test]
fn a_fixed_response_refuses_faulty_heads() {
    heads(fixed());
}

#[test]
fn an_app_refuses_faulty_heads() {
    heads(wsgi());
}

#[test]
fn the_refusal_does_not_depend_on_how_the_bytes_are_cut() {
    let mut faults = Vec::new();
    for (status, request) in HEADS {
        let mut client = fixed().client();
        client.send_bytewise(request);
        // A head that is faulty early is refused early; one that only lacks its end is refused when the rest has come.
        let _ = client.try_send(CANARY.as_bytes());
        if let Err(fault) = refused_or_reset(&mut client, *status) {
            faults.push(format!("{}: {fault}", request.escape_debug()));
        }
    }
    report(&faults, HEADS.len());
}

/// As [`refused`]; bytes that arrive after the close may turn its end into a reset, which is not a fault here.
fn refused_or_reset(client: &mut Client, status: u16) -> Result<(), String> {
    let response = client.try_response("GET").map_err(|failure| format!("{failure:?}"))?;
    if response.status != status {
        return Err(format!("{} instead of {status}", response.status));
    }
    match client.try_response("GET") {
        Err(Failure::Closed) => Ok(()),
        Err(Failure::Reset(bytes)) if bytes.is_empty() => Ok(()),
        other => Err(format!("after the refusal: {other:?}")),
    }
}

#[test]
fn faulty_chunks_are_refused_before_the_app_has_responded() {
    for (kind, server) in apps() {
        let mut faults = Vec::new();
        for chunks in CHUNKS {
            let mut client = server.client();
            client.send(format!(
                "POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{CANARY}"
            ));
            if let Err(fault) = refused(&mut client, 400) {
                faults.push(format!("{kind}: {}: {fault}", chunks.escape_debug()));
            }
        }
        report(&faults, CHUNKS.len());
        assert_eq!(server.ask(keepwarm_tests::get("/pong")).text(), "pong", "{kind}: the worker lives");
    }
}

#[test]
fn faulty_chunks_never_let_a_fixed_response_keep_the_connection() {
    let mut faults = Vec::new();
    for chunks in CHUNKS {
        let mut client = fixed().client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{CANARY}"
        ));
        // It may respond before it looks at the body. It must not take anything after the fault for a request.
        for _ in 0..2 {
            match client.try_response("POST") {
                Ok(response) if matches!(response.status, 200 | 400) => {}
                Err(Failure::Closed | Failure::Reset(_)) => break,
                other => {
                    faults.push(format!("{}: {other:?}", chunks.escape_debug()));
                    break;
                }
            }
        }
    }
    report(&faults, CHUNKS.len());
}

#[test]
fn odd_but_sound_requests_are_served_and_kept() {
    for (kind, server) in apps().into_iter().chain([("fixed", fixed())]) {
        let mut faults = Vec::new();
        for request in SOUND {
            for bytewise in [false, true] {
                let mut client = server.client();
                if bytewise {
                    client.send_bytewise(request);
                } else {
                    client.send(request);
                }
                match client.try_response("GET") {
                    Ok(response)
                        if response.status == 200 && response.text() == "pong" && !response.says_close() =>
                    {
                        client.expect_kept("/pong");
                    }
                    // A fixed response does not wait to see how long a chunked body is: it may close (RFC 9112 §9.3).
                    Ok(response)
                        if kind == "fixed" && response.text() == "pong" && request.contains("hunked") =>
                    {
                        client.expect_end();
                    }
                    other => faults.push(format!("{kind}: {}: {other:?}", request.escape_debug())),
                }
            }
        }
        report(&faults, SOUND.len() * 2);
    }
}

#[test]
fn an_empty_element_before_chunked_is_ignored() {
    // RFC 9110 §5.6.1.2: a recipient MUST ignore a reasonable number of empty list elements.
    let response = wsgi()
        .ask("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: , chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(response.status, 200);
    assert_eq!(response.json()["body"], "hello");
}

#[test]
fn bytes_from_0x80_on_pass_unchanged_in_values() {
    let value: Vec<u8> = (0x80..=0xff).collect();
    let mut request = b"GET /echo HTTP/1.1\r\nHost: a\r\nX-High: ".to_vec();
    request.extend(&value);
    request.extend(b"\r\n\r\n");
    let wanted: String = value.iter().map(|&byte| char::from(byte)).collect();
    for server in [wsgi(), rack(), php(), fastcgi()] {
        assert_eq!(server.ask(&request).json()["HTTP_X_HIGH"], wanted.as_str());
    }
    let seen = asgi().ask(&request).json();
    let fields = seen["headers"].as_array().expect("a list").clone();
    assert!(fields.iter().any(|field| field[0] == "x-high" && field[1] == wanted.as_str()), "{seen}");
}

#[test]
fn an_app_gets_one_length_however_often_the_client_sent_it() {
    // RFC 9110 §8.6: repeated values are replaced by one before the field is interpreted. Frameworks read CONTENT_LENGTH as a number.
    for lengths in [
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: 5,5\r\nContent-Length: 5",
    ] {
        let request = format!("POST /echo HTTP/1.1\r\nHost: a\r\n{lengths}\r\n\r\nhello");
        for server in [wsgi(), rack(), php(), fastcgi()] {
            assert_eq!(server.ask(&request).json()["CONTENT_LENGTH"], "5", "{lengths}");
        }
        let seen = asgi().ask(&request).json();
        let fields = seen["headers"].as_array().expect("a list").clone();
        let found: Vec<_> =
            fields.iter().filter(|field| field[0] == "content-length").map(|field| &field[1]).collect();
        assert_eq!(found, ["5"], "{lengths}: {seen}");
    }
}

#[test]
fn a_chunk_of_almost_2_64_bytes_is_too_large() {
    for base in [WSGI, ASGI, FASTCGI] {
        let server = Server::start(&format!("{base}\n[listen.main.limits]\nbody = 1000\n")).warm("/pong");
        for size in ["ffffffffffffffff", "7fffffffffffffff", "8000000000000000", "FFFFFFFF"] {
            let mut client = server.client();
            client.send(format!(
                "POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n"
            ));
            // A body that is only announced may be refused at once; one that has come must be.
            let _ = client.try_send(&[b'x'; 2000]);
            let response = client.response("POST");
            assert!(matches!(response.status, 400 | 413), "{size}: {}", response.status);
            assert!(response.says_close());
            client.expect_end();
        }
    }
}

#[test]
fn trace_is_405_with_allow() {
    for server in [fixed(), wsgi()] {
        let mut client = server.client();
        let response = client.ask("TRACE / HTTP/1.1\r\nHost: a\r\nX-Secret: s\r\n\r\n");
        assert_eq!(response.status, 405);
        // RFC 9110 §15.5.6: MUST.
        assert!(response.field("allow").is_some(), "{:?}", response.fields);
        assert!(!response.text().contains("X-Secret"));
    }
}

#[test]
fn the_edge_responds_to_the_asterisk() {
    for server in [fixed(), wsgi()] {
        for (version, kept) in [("1.1", true), ("1.0", false)] {
            let mut client = server.client();
            let response = client.ask(format!("OPTIONS * HTTP/{version}\r\nHost: a\r\n\r\n"));
            assert_eq!(response.status, 200);
            assert!(response.body.is_empty() && response.field("x-app").is_none(), "{response:?}");
            if kept {
                assert_eq!(client.ask("GET /pong HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
            } else {
                client.expect_eof();
            }
        }
    }
}

#[test]
fn an_absolute_target_replaces_the_host() {
    for server in [wsgi(), rack()] {
        let seen =
            server.ask("GET http://real.example:81/echo HTTP/1.1\r\nHost: other.example\r\n\r\n").json();
        assert_eq!(seen["HTTP_HOST"], "real.example:81");
        assert_eq!((&seen["SERVER_NAME"], &seen["SERVER_PORT"]), (&"real.example".into(), &"81".into()));
        assert_eq!(seen["PATH_INFO"], "/echo");
    }
}

#[test]
fn a_1_0_request_needs_no_host() {
    let response = wsgi().ask("GET /echo HTTP/1.0\r\n\r\n");
    assert_eq!(response.status, 200);
    assert_ne!(response.json()["SERVER_NAME"], "", "never empty (PEP 3333)");
}

#[test]
fn a_fault_after_a_sound_request_does_not_harm_its_response() {
    let mut client = wsgi().client();
    client.send(format!("GET /pong HTTP/1.1\r\nHost: a\r\n\r\nBAD\0LINE\r\n\r\n{CANARY}"));
    assert_eq!(client.response("GET").text(), "pong");
    refused(&mut client, 400).unwrap_or_else(|fault| panic!("{fault}\n{client}"));
}

#[test]
fn a_truncated_head_gets_only_a_close() {
    for part in ["GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut client = fixed().client();
        client.send(part);
        client.half_close();
        // 400 is as right as silence (RFC 9112 §3: an incomplete request is not a request); a 2xx is not.
        match client.try_response("GET") {
            Err(Failure::Closed) => {}
            Ok(response) if response.status == 400 && response.says_close() => client.expect_eof(),
            other => panic!("{other:?}\n{client}"),
        }
    }
}

#[test]
fn a_body_that_breaks_off_is_never_given_to_a_blocking_app_as_whole() {
    for framing in [
        "Content-Length: 10\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ] {
        let mut client = wsgi().client();
        client.send(format!("POST /digest HTTP/1.1\r\nHost: a\r\n{framing}"));
        client.half_close();
        match client.try_response("POST") {
            Err(Failure::Closed | Failure::Reset(_)) => {}
            Ok(response) if response.status == 400 => {}
            other => panic!("{framing:?}: {other:?}\n{client}"),
        }
    }
}
