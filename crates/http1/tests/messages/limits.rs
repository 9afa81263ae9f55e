//! The h1 rows of `spec/http.md` §8: at the limit passes, one over is refused, whatever the cut and before the rest has arrived.

use http::Method;
use keepwarm_http1::{Event, Limits, RequestDecoder, RequestHead};

use crate::trace::{Role, fault, trace};

const SMALL: Limits = Limits {
    request_line: 20,
    header_block: 64,
    fields: 3,
    trailer_block: 32,
    trailer_fields: 2,
    chunk_extensions: 8,
    raw_targets: false,
};

fn request(bytes: &[u8]) -> Option<String> {
    fault(&Role::SERVER, SMALL, bytes)
}

#[test]
fn request_line() {
    assert_eq!(request(b"GET /2345678 HTTP/1.0\r\n\r\n").as_deref(), Some("request_line_too_long"));
    assert_eq!(request(b"GET /234567 HTTP/1.0\r\n\r\n"), None);
    assert_eq!(request(b"GET /23456789012345678901234567890").as_deref(), Some("request_line_too_long"));
    // Size is reported before other faults of the line.
    assert_eq!(request(b"GET /2345678 HTTP/1.0\n\n").as_deref(), Some("request_line_too_long"));
    assert_eq!(request(b"GET /234567 HTTP/1.0\n\n").as_deref(), Some("bare_lf"));
    // The empty line before it does not count.
    assert_eq!(request(b"\r\nGET /234567 HTTP/1.0\r\n\r\n"), None);
}

#[test]
fn methods() {
    let with = |len: usize, rest: &str| ["M".repeat(len).as_bytes(), rest.as_bytes()].concat();
    let rest = " / HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(request_of_default(&with(Limits::METHOD, rest)), None);
    assert_eq!(request_of_default(&with(Limits::METHOD + 1, rest)).as_deref(), Some("method_too_long"));
    // However long it is: the line is above its limit for that.
    let small = |bytes: &[u8]| fault(&Role::SERVER, Limits { request_line: 64, ..SMALL }, bytes);
    assert_eq!(small(&with(100, rest)).as_deref(), Some("method_too_long"));
    assert_eq!(small(&with(100, "")).as_deref(), Some("method_too_long"));
    assert_eq!(
        small(&with(Limits::METHOD, &format!(" /{rest:>60}"))).as_deref(),
        Some("request_line_too_long")
    );
}

#[test]
fn targets_with_unencoded_bytes() {
    let lenient = Limits { raw_targets: true, ..Limits::default() };
    for target in ["/\u{e9}", "/?q=\u{2603}", "http://h/\u{e9}"] {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(request_of_default(bytes.as_bytes()).as_deref(), Some("bad_target"), "{target}");
        assert_eq!(fault(&Role::SERVER, lenient, bytes.as_bytes()), None, "{target}");
    }
    assert_eq!(
        fault(&Role::SERVER, lenient, b"GET /\x7f HTTP/1.1\r\nHost: h\r\n\r\n").as_deref(),
        Some("bad_target")
    );
}

fn request_of_default(bytes: &[u8]) -> Option<String> {
    fault(&Role::SERVER, Limits::default(), bytes)
}

#[test]
fn header_block() {
    let with = |len: usize| [b"GET / HTTP/1.0\r\nA: ".as_slice(), &vec![b'x'; len - 7], b"\r\n\r\n"].concat();
    assert_eq!(request(&with(64)), None);
    assert_eq!(request(&with(65)).as_deref(), Some("header_block_too_large"));
    assert_eq!(request(&with(66)).as_deref(), Some("header_block_too_large"));
    let endless = [b"GET / HTTP/1.0\r\nA: ".as_slice(), &[b'x'; 100]].concat();
    assert_eq!(request(&endless).as_deref(), Some("header_block_too_large"));
}

#[test]
fn fields() {
    assert_eq!(request(b"GET / HTTP/1.0\r\nA: 1\r\nA: 2\r\nA: 3\r\n\r\n"), None);
    assert_eq!(
        request(b"GET / HTTP/1.0\r\nA: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\n").as_deref(),
        Some("too_many_fields")
    );
}

#[test]
fn trailers() {
    let with = |trailers: &[u8]| {
        let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n".as_slice();
        request(&[head, trailers].concat())
    };
    assert_eq!(with(b"A: 1\r\nB: 2\r\n\r\n"), None);
    assert_eq!(with(b"A: 1\r\nB: 2\r\nC: 3\r\n\r\n").as_deref(), Some("too_many_trailers"));
    assert_eq!(with(b"A: 3456789012345678901234567\r\n\r\n"), None);
    assert_eq!(with(b"A: 34567890123456789012345678\r\n\r\n").as_deref(), Some("trailers_too_large"));
    assert_eq!(with(b"A: 345678901234567890123456789012345678901").as_deref(), Some("trailers_too_large"));
}

#[test]
fn chunk_extensions_count_over_the_whole_message() {
    let with = |body: &[u8]| {
        let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice();
        request(&[head, body].concat())
    };
    assert_eq!(with(b"1;a=b\r\nx\r\n1;a=b\r\nx\r\n0\r\n\r\n"), None);
    assert_eq!(
        with(b"1;a=b\r\nx\r\n1;a=b\r\nx\r\n0;a\r\n\r\n").as_deref(),
        Some("chunk_extensions_too_large")
    );
    assert_eq!(with(b"1;aaaaaaaaaaaaaaaaaaaaaaa").as_deref(), Some("chunk_extensions_too_large"));
    assert_eq!(with(b"1                        ").as_deref(), Some("chunk_extensions_too_large"));
}

#[test]
fn limits_of_one_message_are_not_those_of_the_connection() {
    let one =
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nA: 1\r\n\r\n";
    let many = one.repeat(20);
    let lines = trace(&Role::SERVER, SMALL, many.chunks(7));
    assert_eq!(lines.iter().filter(|line| *line == "end").count(), 20);
}

#[test]
fn responses_have_the_same_limits() {
    let client = Role::client(&[Method::GET]);
    let found = |bytes: &[u8]| fault(&client, SMALL, bytes);
    assert_eq!(found(b"HTTP/1.1 200 2345678901").as_deref(), Some("request_line_too_long"));
    assert_eq!(found(b"HTTP/1.1 200 OK\r\nA:\r\nB:\r\nC:\r\nD:\r\n").as_deref(), Some("too_many_fields"));
    let endless = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &[b'x'; 100]].concat();
    assert_eq!(found(&endless).as_deref(), Some("header_block_too_large"));
}

/// A head of one byte per packet costs a look at each byte, not at all bytes for each: 32 KiB one by one would be half a thousand million looks.
#[test]
fn a_head_that_comes_byte_by_byte_is_searched_once() {
    let head = [b"GET / HTTP/1.1\r\nHost: h\r\nA: ".as_slice(), &vec![b'x'; 32_000], b"\r\n\r\n"].concat();
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut request = RequestHead::default();
    for len in 1..head.len() {
        let decoded = decoder.decode(head.get(..len).unwrap_or_default(), &mut request).unwrap();
        assert_eq!((decoded.consumed, decoded.event), (0, Event::NeedMore));
    }
    assert!(!decoder.is_idle());
    assert_eq!(decoder.decode(&head, &mut request).unwrap().event, Event::Head);
    assert_eq!(request.fields.len(), 2);
}

/// The available rest of a body, whole or not: the result of decoding it, without taking it.
#[test]
fn ends_within_finds_the_end_of_the_body() {
    let bytes: &[u8] = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nA: 1\r\n\r\nGET";
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut head = RequestHead::default();
    assert!(!decoder.ends_within(bytes));
    let mut rest = &bytes[decoder.decode(bytes, &mut head).unwrap().consumed..];
    loop {
        let whole = rest.len() - 3;
        for len in 0..rest.len() {
            assert_eq!(decoder.ends_within(&rest[..len]), len >= whole, "{len} of {whole}");
        }
        let decoded = decoder.decode(rest, &mut head).unwrap();
        rest = &rest[decoded.consumed..];
        if decoded.event == Event::End {
            break;
        }
    }
    assert_eq!(rest, b"GET");
    let faulty = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n0\r\n\r\n";
    let mut decoder = RequestDecoder::new(Limits::default());
    let head_end = decoder.decode(faulty, &mut head).unwrap().consumed;
    assert!(!decoder.ends_within(&faulty[head_end..]));
}

/// The body as seen by a caller with little room, or none: never more data than that, and all of the framing.
#[test]
fn framing_takes_none_of_the_room_for_data() {
    let heads: [&[u8]; 2] = [
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n",
    ];
    let bodies: [&[u8]; 2] =
        [b"3;a=b\r\nabc\r\n4\r\ndefg\r\n0\r\nTrailer: of some length\r\n\r\n", b"abcdefg"];
    for (start, body) in heads.iter().zip(bodies) {
        for room in 1..=8 {
            let (mut decoder, mut head) = (RequestDecoder::new(Limits::default()), RequestHead::default());
            let mut rest = decoder.decode(start, &mut head).map(|_| body).unwrap();
            let mut data = Vec::new();
            for full in (0..).map(|turn| turn % 2 == 1) {
                let decoded = decoder.decode_within(rest, if full { 0 } else { room }, &mut head).unwrap();
                if let Event::Data { start, end } = decoded.event {
                    assert!(!full && end - start <= room);
                    data.extend_from_slice(&rest[start..end]);
                }
                rest = &rest[decoded.consumed..];
                match decoded.event {
                    Event::End => break,
                    Event::NeedMore => assert!(full && data.len() < 7, "all of the body is here"),
                    _ => {}
                }
            }
            assert_eq!((data.as_slice(), rest), (&b"abcdefg"[..], &b""[..]));
        }
    }
}

#[test]
fn storage_is_reused() {
    let mut decoder = RequestDecoder::new(Limits::default());
    let mut head = RequestHead::default();
    let bytes = b"GET /some/path HTTP/1.1\r\nHost: example.org\r\nAccept: text/html\r\nCookie: a=b\r\n\r\n";
    let mut read = || {
        assert_eq!(decoder.decode(bytes, &mut head).unwrap().event, Event::Head);
        assert_eq!(decoder.decode(&[], &mut head).unwrap().event, Event::End);
        head.capacity()
    };
    let first = read();
    assert!((0..100).all(|_| read() == first));
}
