//! `spec/http.md` §5: faults of an upstream in the end of its response. The case table has the faults that are normalized instead.

use http::Method;
use keepwarm_http1::{Limits, ResponseDecoder, ResponseHead};

use crate::trace::{Role, fault};

fn refused(name: &str, responses: &[&[u8]]) {
    for bytes in responses {
        let found = fault(&Role::client(&[Method::GET]), Limits::default(), bytes);
        assert_eq!(found.as_deref(), Some(name), "{}", bytes.escape_ascii());
    }
}

fn refused_fields(name: &str, spellings: &[&[u8]]) {
    for lines in spellings {
        refused(name, &[&[b"HTTP/1.1 200 OK\r\n", *lines, b"\r\n\r\n0\r\n\r\n"].concat()]);
    }
}

fn refused_chunks(name: &str, bodies: &[&[u8]]) {
    for body in bodies {
        refused(name, &[&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *body].concat()]);
    }
}

#[test]
fn two_lengths_and_both_framings() {
    refused_fields(
        "differing_content_lengths",
        &[
            b"Content-Length: 5\r\nContent-Length: 6",
            b"Content-Length: 5, 6",
            b"Content-Length: 5\nContent-Length: 0",
        ],
    );
    refused_fields(
        "both_length_and_chunked",
        &[
            b"Content-Length: 5\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding : chunked\r\nContent-Length: 5",
            b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5",
        ],
    );
    refused_fields(
        "bad_content_length",
        &[
            b"Content-Length: -1",
            b"Content-Length: 5 5",
            b"Content-Length:",
            b"Content-Length: 5\r\n 5",
            b"Content-Length: 0x0",
        ],
    );
}

#[test]
fn transfer_encodings() {
    refused_fields(
        "bad_transfer_encoding",
        &[
            b"Transfer-Encoding: gzip",
            b"Transfer-Encoding: identity",
            b"Transfer-Encoding: chunked, chunked",
            b"Transfer-Encoding: chunked\r\n chunked",
            b"Transfer-Encoding: xchunked",
        ],
    );
    refused_fields("unknown_transfer_coding", &[b"Transfer-Encoding: gzip, chunked"]);
    refused(
        "transfer_encoding_on_http_1_0",
        &[b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    );
}

#[test]
fn chunks() {
    refused_chunks(
        "bad_chunk_size",
        &[
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"x\r\n",
            b"\r\n",
            b"12345678901234567\r\n",
        ],
    );
    refused_chunks("bad_chunk_end", &[b"5\r\nhello!\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n"]);
    refused_chunks("bare_lf", &[b"5\nhello\r\n0\r\n\r\n", b"0\n\n", b"0\r\nA: b\n\r\n"]);
    refused_chunks("folded", &[b"0\r\nA: b\r\n c\r\n\r\n"]);
    refused_chunks("space_before_colon", &[b"0\r\nA : b\r\n\r\n"]);
}

#[test]
fn fields_that_cannot_be_normalized() {
    refused_fields("bad_field_name", &[b"no colon", b": x", b"a b: c", b"a\x0b: c", b"\xff: c"]);
    refused_fields("bad_field_value", &[b"a: b\0", b"a: \x7f", b"a: b\r\n \x01"]);
    refused_fields("bare_cr", &[b"a: b\rc: d", b"a: b\r", b"a\r: b"]);
    refused_fields("folded", &[b" a: b"]);
}

#[test]
fn status_lines() {
    for line in [
        b"HTTP/1.1".as_slice(),
        b"HTTP/1.1 ",
        b"HTTP/1.1 20",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 200OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1\t200 OK",
        b"HTTP/1.1 099 No",
        b"HTTP/1.1 000 No",
        b"HTTP/1.1 +20 OK",
        b"HTTP/1.1 2x0 OK",
        b"HTTP/1.1 200\tOK",
        b"HTTP/1.1 200 O\0K",
        b"HTTP/1.1 200 O\rK",
        b"http/1.1 200 OK",
        b"ICY 200 OK",
        b"HTTP/1 200 OK",
        b" HTTP/1.1 200 OK",
        b"<html>",
        b"",
        b"220 mail.example ESMTP",
        b"\x15\x03\x01\0\x02\x02F",
    ] {
        refused("bad_status_line", &[&[line, b"\r\nContent-Length: 0\r\n\r\n"].concat()]);
    }
    refused("unsupported_version", &[b"HTTP/2.0 200 OK\r\n\r\n", b"HTTP/0.9 200 OK\r\n\r\n"]);
}

#[test]
fn responses_to_nothing() {
    let unasked = Role::client(&[]);
    for bytes in [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".as_slice(),
        b"H",
        b"\r\n",
        b"HTTP/1.1 408 Request Timeout\r\n\r\n",
    ] {
        assert_eq!(fault(&unasked, Limits::default(), bytes).as_deref(), Some("unsolicited"));
    }
    // Bytes after the end, and a second response: to one request, in every cut.
    refused(
        "unsolicited",
        &[
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\n\r\nx",
            b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ],
    );
    let head = Role::client(&[Method::HEAD]);
    let body_on_head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(fault(&head, Limits::default(), body_on_head).as_deref(), Some("unsolicited"));
}

#[test]
fn an_upgrade_without_a_request_for_it() {
    refused(
        "unrequested_upgrade",
        &[b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"],
    );
    // The permission to upgrade is for one request.
    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.begin(&Method::GET);
    decoder.allow_upgrade(Some(b"websocket"));
    decoder.begin(&Method::GET);
    let error = decoder
        .decode(b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n", &mut ResponseHead::default())
        .unwrap_err();
    assert_eq!((error.name(), error.status()), ("unrequested_upgrade", 502));
}

/// RFC 9110 §7.8: a server names the protocol it switches to, and that must have been offered.
#[test]
fn an_upgrade_to_another_protocol() {
    let switch = |offered: &[u8], named: &str| {
        let mut decoder = ResponseDecoder::new(Limits::default());
        decoder.begin(&Method::GET);
        decoder.allow_upgrade(Some(offered));
        let head = format!("HTTP/1.1 101 x\r\n{named}\r\n");
        decoder.decode(head.as_bytes(), &mut ResponseHead::default()).map_err(|fault| fault.name())
    };
    for named in [
        "",
        "Upgrade: other\r\n",
        "Upgrade: \r\n",
        "Upgrade: websocket, other\r\n",
        "Upgrade: websocket/1\r\n",
    ] {
        assert_eq!(switch(b"websocket, echo", named), Err("unrequested_upgrade"), "{named:?}");
    }
    for named in ["Upgrade: WebSocket\r\n", "Upgrade: echo\r\n", "Upgrade: websocket, echo\r\n"] {
        assert!(switch(b"websocket, echo", named).is_ok(), "{named:?}");
    }
}

#[test]
fn truncated_responses() {
    refused("closed_without_response", &[b""]);
    refused(
        "truncated",
        &[
            b"H",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        ],
    );
    refused("closed_without_response", &[b"HTTP/1.1 100 Continue\r\n\r\n"]);
    refused_chunks("truncated", &[b"", b"5\r\nhello\r\n", b"0\r\n", b"0\r\nA: b\r\n"]);
}
