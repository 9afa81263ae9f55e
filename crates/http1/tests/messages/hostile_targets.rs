//! Faulty request lines, targets, hosts and versions (`spec/http.md` §4), and the properties of every fault: a status, a name, a sentence.

use keepwarm_http1::{Fault, FaultKind, Limits, ListenerKind, Peer};

use crate::hostile_requests::refused;
use crate::trace::{Role, fault};

#[test]
fn hosts() {
    refused(
        "no_host",
        &[
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.2\r\nX: y\r\n\r\n",
            b"GET http://h/ HTTP/1.1\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\n\r\n",
            b"CONNECT h:1 HTTP/1.1\r\n\r\n",
        ],
    );
    refused(
        "several_hosts",
        &[
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nHOST: a\r\n\r\n",
            b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost:\r\nHost: a\r\n\r\n",
            b"GET http://h/ HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        ],
    );
    for host in [
        b"a b".as_slice(),
        b"a, b",
        b"a/b",
        b"a?b",
        b"a#b",
        b"user@a",
        b"user:pw@a",
        b"http://a",
        b"a:b",
        b"a:1:2",
        b"a:-1",
        b"a:+80",
        b"a:65536",
        b"a:999999",
        b"[::1",
        b"::1",
        b"[::1]x",
        b"[::1]:x",
        b"[::g]",
        b"[1.2.3.4]",
        b"[]",
        b"[v1.a]",
        b"[fe80::1%25eth0]",
        b"a\\b",
        b"a%zz",
        b"a%4",
        b"a%",
        b"a\xe9",
        b"a\"b",
        b"a<b>",
        b"a|b",
        b"a^b",
        b"a`b",
        b"{a}",
        b"a\tb",
        b"a:80 b",
        b"a]",
        b"a]:80",
    ] {
        refused("bad_host", &[&[b"GET / HTTP/1.1\r\nHost: ", host, b"\r\n\r\n"].concat()]);
        refused("bad_host", &[&[b"GET http://good/ HTTP/1.0\r\nHost: ", host, b"\r\n\r\n"].concat()]);
    }
}

#[test]
fn absolute_targets() {
    let request = |target: &[u8]| [b"GET ", target, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
    for target in [
        b"http://u@h/".as_slice(),
        b"http://u:p@h/",
        b"http://:80/",
        b"http:///p",
        b"http://",
        b"http://?q",
        b"http://h:99999/",
        b"http://h:x/",
        b"http://[::1/",
        b"http://a%zz/",
        b"http://a\\b/",
        b"http://@h/",
        b"http://h:80:80/",
    ] {
        refused("bad_authority", &[&request(target)]);
    }
    for target in [
        b"ftp://h/".as_slice(),
        b"file:///etc/passwd",
        b"gopher://h/",
        b"ws://h/",
        b"httpx://h/",
        b"HTTPS2://h/",
        b"://h/",
    ] {
        refused("bad_scheme", &[&request(target)]);
    }
}

#[test]
fn targets_without_a_valid_form() {
    let request =
        |method: &[u8], target: &[u8]| [method, b" ", target, b" HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
    for target in [
        b"*".as_slice(),
        b"**",
        b"*/",
        b"index.html",
        b"?q",
        b"h:80",
        b"http:/h",
        b"http:h",
        b"/a#b",
        b"/#",
        b"/<script>",
        b"/a\0b",
        b"/\x01",
        b"/\x7f",
        b"/a\tb",
        b"\\",
        b"#",
        b"http",
        b".",
        b"mailto:a@b",
        b"https://h\xe9/",
    ] {
        refused("bad_target", &[&request(b"GET", target)]);
    }
    refused(
        "bad_target",
        &[&request(b"POST", b"*"), &request(b"options", b"*"), &request(b"OPTIONS", b"*?q")],
    );
    for target in [
        b"/".as_slice(),
        b"h",
        b"h:",
        b"http://h:80/",
        b"u@h:80",
        b"h:80/",
        b"*",
        b":80x",
        b"[::1]",
        b"h:65536",
    ] {
        refused("bad_authority", &[&request(b"CONNECT", target)]);
    }
    let proxy = Role::Server(ListenerKind::ForwardProxy);
    let found = fault(&proxy, Limits::default(), &request(b"CONNECT", b"h"));
    assert_eq!(found.as_deref(), Some("bad_authority"));
}

#[test]
fn request_lines() {
    refused(
        "bad_request_line",
        &[
            b"GET\r\n\r\n",
            b"GET \r\n\r\n",
            b"hello\r\n\r\n",
            b"GET/index.html\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET  HTTP/1.1\r\nHost: h\r\n\r\n",
        ],
    );
    refused("bad_target", &[b"GET \t/ HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /\t HTTP/1.1\r\nHost: h\r\n\r\n"]);
    refused(
        "bad_method",
        &[
            b" GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\tGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GE(T / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
            b"G\0T / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"G\xc3\x8bT / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\"GET\" / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"{\"a\": 1}\r\n\r\n",
            b"\0\0\0",
            b"\x80\x2e\x01",
        ],
    );
    refused("tls_on_plain", &[b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"]);
}

#[test]
fn versions() {
    refused(
        "unsupported_version",
        &[
            b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
            b"GET / HTTP/3.0\r\nHost: h\r\n\r\n",
            b"GET / HTTP/0.9\r\nHost: h\r\n\r\n",
            b"GET / HTTP/9.9\r\nHost: h\r\n\r\n",
            b"PRI /x HTTP/2.0\r\n\r\n",
        ],
    );
    refused("http2_preface", &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * HTTP/2.0\r\n"]);
    refused("http_0_9", &[b"GET /\r\n", b"GET /\r\n\r\n", b"GET /index.html\r\n", b"GET http://h/\r\n"]);
    for version in [
        b"HTTP/1".as_slice(),
        b"HTTP/1.",
        b"HTTP/1.10",
        b"HTTP/1.1 ",
        b"HTTP/1.1\t",
        b"HTTP/01.1",
        b"HTTP/1.01",
        b"http/1.1",
        b"Http/1.1",
        b"HTTP/1,1",
        b"HTTP/+1.1",
        b"HTTP/1.x",
        b"HTTP 1.1",
        b" HTTP/1.1",
        b"HTTP/1.1 x",
        b"x HTTP/1.1",
        b"HTTP",
        b"",
        b"FTP/1.1",
        b"HTTPS/1.1",
        b"HTTP/1.1\0",
        b"HTTP//1.1",
        b"ICY/1.1",
        b"HTTP/2",
        b"HTTP/\xd9\xa1.1",
    ] {
        refused("bad_version", &[&[b"GET / ", version, b"\r\nHost: h\r\n\r\n"].concat()]);
    }
}

#[test]
fn empty_lines_before_a_request() {
    refused(
        "extra_empty_line",
        &[
            b"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        ],
    );
}

#[test]
fn statuses_names_and_sentences() {
    let mut names: Vec<_> = FaultKind::ALL
        .iter()
        .map(|&kind| {
            let client = Fault { kind, peer: Peer::Client };
            let expected = match kind {
                FaultKind::RequestLineTooLong => 414,
                FaultKind::HeaderBlockTooLarge | FaultKind::TooManyFields => 431,
                FaultKind::UnknownTransferCoding | FaultKind::MethodTooLong => 501,
                FaultKind::UnsupportedVersion | FaultKind::Http2Preface => 505,
                _ => 400,
            };
            assert_eq!(client.status(), expected, "{kind:?}");
            assert_eq!(Fault { kind, peer: Peer::Upstream }.status(), 502);
            assert!(client.to_string().starts_with("the client "), "{client}");
            assert!(client.name().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
            client.name()
        })
        .collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "names are unique");
}
