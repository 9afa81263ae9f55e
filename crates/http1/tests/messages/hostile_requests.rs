//! Faulty framing and faulty field lines (`spec/http.md` §4), each in several spellings: from the RFCs, from published request-smuggling work (PortSwigger's and Burp's HTTP Request
//! Smuggler's permutations, "HTTP Desync Attacks", "Funky chunks", the http-garbage and smuggler.py corpora), and from CVEs. Each cut in every way.

use keepwarm_http1::Limits;

use crate::trace::{Role, fault};

/// `head` is the request line and `Host`, or all of it when it has its own.
pub(crate) fn refused(name: &str, spellings: &[&[u8]]) {
    for bytes in spellings {
        let found = fault(&Role::SERVER, Limits::default(), bytes);
        assert_eq!(found.as_deref(), Some(name), "{}", bytes.escape_ascii());
    }
}

/// The spellings are field lines, after a good start and before a good body.
fn refused_fields(name: &str, spellings: &[&[u8]]) {
    for lines in spellings {
        let bytes = [b"POST / HTTP/1.1\r\nHost: h\r\n", *lines, b"\r\n\r\n0\r\n\r\n"].concat();
        refused(name, &[&bytes]);
    }
}

/// The spellings are a chunked body.
fn refused_chunks(name: &str, spellings: &[&[u8]]) {
    for body in spellings {
        let bytes = [b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", *body].concat();
        refused(name, &[&bytes]);
    }
}

#[test]
fn length_with_transfer_encoding() {
    refused_fields(
        "both_length_and_chunked",
        &[
            b"Content-Length: 5\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5",
            b"Content-Length: 0\r\nTransfer-Encoding: chunked",
            b"content-length: 5\r\nX: y\r\ntransfer-encoding: chunked",
            b"Content-Length: 5\r\nTransfer-Encoding: identity",
            b"Content-Length: 5\r\nTransfer-Encoding: xchunked",
            b"Content-Length: 5\r\nTransfer-Encoding: gzip, chunked",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: 5",
        ],
    );
}

#[test]
fn differing_lengths() {
    refused_fields(
        "differing_content_lengths",
        &[
            b"Content-Length: 5\r\nContent-Length: 6",
            b"Content-Length: 5, 6",
            b"Content-Length: 5,5,6",
            b"Content-Length: 5\r\nX: y\r\nCONTENT-LENGTH: 0",
            b"Content-Length: 5\r\nContent-Length: 05",
            b"Content-Length: 0, 00",
        ],
    );
}

#[test]
fn malformed_lengths() {
    refused_fields(
        "bad_content_length",
        &[
            b"Content-Length: +5",
            b"Content-Length: -5",
            b"Content-Length: -0",
            b"Content-Length: 5 5",
            b"Content-Length: 1\t0",
            b"Content-Length:",
            b"Content-Length: \t",
            b"Content-Length: 0x5",
            b"Content-Length: 5.0",
            b"Content-Length: 5e1",
            b"Content-Length: 1_000",
            b"Content-Length: five",
            b"Content-Length: \"5\"",
            b"Content-Length: 5;",
            b"Content-Length: ,5",
            b"Content-Length: 5,",
            b"Content-Length: 5,,5",
            b"Content-Length: 00000000000000000005",
            b"Content-Length: 10000000000000000000",
            b"Content-Length: 18446744073709551616",
            b"Content-Length: 99999999999999999999999999999999",
            b"Content-Length: \xd9\xa5",
            b"Content-Length: 5\xa0",
            b"Content-Length: 5\r\nContent-Length:",
        ],
    );
}

#[test]
fn transfer_encoding_not_ending_in_chunked_once() {
    refused_fields(
        "bad_transfer_encoding",
        &[
            b"Transfer-Encoding: identity",
            b"Transfer-Encoding: gzip",
            b"Transfer-Encoding: chunked, gzip",
            b"Transfer-Encoding: chunked, identity",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            b"Transfer-Encoding: chunked, chunked",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked, gzip, chunked",
            b"Transfer-Encoding: xchunked",
            b"Transfer-Encoding: chunkedx",
            b"Transfer-Encoding: chunk",
            b"Transfer-Encoding: chunked;q=1",
            b"Transfer-Encoding: chunked; foo=bar",
            b"Transfer-Encoding: \"chunked\"",
            b"Transfer-Encoding: 'chunked'",
            b"Transfer-Encoding: chunked chunked",
            b"Transfer-Encoding: x chunked",
            b"Transfer-Encoding: \xa0chunked",
            b"Transfer-Encoding: chunked\xa0",
            b"Transfer-Encoding:",
            b"Transfer-Encoding: ,",
            b"Transfer-Encoding: chunked, , identity",
            b"Transfer-Encoding: chunked, ,chunked",
            b"Transfer-Encoding: [chunked]",
            b"Transfer-Encoding: chu/nked",
            b"Transfer-Encoding: ch\xc3\xbcnked",
            b"Transfer-Encoding: chun\xe2\x84\xaaed",
        ],
    );
}

#[test]
fn unknown_coding_before_chunked() {
    refused_fields(
        "unknown_transfer_coding",
        &[
            b"Transfer-Encoding: gzip, chunked",
            b"Transfer-Encoding: identity, chunked",
            b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: deflate;x=1,\tCHUNKED",
            b"Transfer-Encoding: gzip, br, chunked",
        ],
    );
}

#[test]
fn transfer_encoding_on_http_1_0() {
    refused(
        "transfer_encoding_on_http_1_0",
        &[
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST / HTTP/1.0\r\nTransfer-Encoding: identity\r\n\r\n",
        ],
    );
}

#[test]
fn bare_lf() {
    refused(
        "bare_lf",
        &[
            b"GET / HTTP/1.1\nHost: h\n\n",
            b"GET / HTTP/1.1\r\nHost: h\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nA: b\nC: d\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nA: b\n\nGET /x HTTP/1.1\r\n\r\n",
            b"\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nX:\nTransfer-Encoding: chunked\r\n\r\n",
        ],
    );
    refused_chunks(
        "bare_lf",
        &[
            b"5\nhello\r\n0\r\n\r\n",
            b"\n5\r\nhello\r\n0\r\n\r\n",
            b"5;a\nhello\r\n0\r\n\r\n",
            b"5;a=\n\r\nhello\r\n0\r\n\r\n",
            b"5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
            b"5 \n\r\nhello\r\n0\r\n\r\n",
            b"0\n\r\n",
            b"0\r\n\n",
            b"0\r\nA: b\n\r\n",
        ],
    );
}

#[test]
fn bare_cr() {
    refused(
        "bare_cr",
        &[
            b"GET / HTTP/1.1\rHost: h\r\n\r\n",
            b"GET / HTTP/1.1\r\r\nHost: h\r\n\r\n",
            b"GET /\r HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GE\rT / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nA\r: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n\rA: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\rTransfer-Encoding: chunked\r\n\r\n",
            b"\rGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"\r\n\rGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        ],
    );
    refused_chunks(
        "bare_cr",
        &[
            b"5\rhello\r\n0\r\n\r\n",
            b"5\r\rhello\r\n0\r\n\r\n",
            b"5;a\rb\r\nhello\r\n0\r\n\r\n",
            b"5;a=b\r\r\nhello\r\n0\r\n\r\n",
            b"0\rX\r\n\r\n",
            b"0\r\nA: b\rc\r\n\r\n",
            b"0\r\n\r\r\n\r\n",
        ],
    );
    // In a quoted string a CR is a control like any other.
    refused_chunks("bad_chunk_extension", &[b"5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"]);
}

#[test]
fn folded() {
    refused_fields(
        "folded",
        &[
            b"A: b\r\n c",
            b"A: b\r\n\tc",
            b"A: b\r\n ",
            b"Transfer-Encoding:\r\n chunked",
            b"Content-Length: 1\r\n 0",
            b" Transfer-Encoding: chunked",
            b"\tTransfer-Encoding: chunked",
        ],
    );
    refused("folded", &[b"GET / HTTP/1.1\r\n Host: h\r\n\r\n", b"GET / HTTP/1.1\r\n\t\r\nHost: h\r\n\r\n"]);
    refused_chunks("folded", &[b"0\r\nA: b\r\n c\r\n\r\n", b"0\r\n A: b\r\n\r\n"]);
}

#[test]
fn space_before_the_colon() {
    refused_fields(
        "space_before_colon",
        &[b"Transfer-Encoding : chunked", b"Transfer-Encoding\t: chunked", b"Content-Length \t : 5", b"A :b"],
    );
    refused_chunks("space_before_colon", &[b"0\r\nA : b\r\n\r\n"]);
}

#[test]
fn invalid_names() {
    refused_fields(
        "bad_field_name",
        &[
            b": b",
            b":",
            b"no colon",
            b"nocolon",
            b"A b: c",
            b"A(b): c",
            b"A@: c",
            b"\"A\": c",
            b"A/b: c",
            b"[A]: c",
            b"A{: c",
            b"A;: c",
            b"A,B: c",
            b"A=b: c",
            b"A\\: c",
            b"A\0: c",
            b"A\x01: c",
            b"A\x7f: c",
            b"A\xe9: c",
            b"\xef\xbb\xbfTransfer-Encoding: chunked",
            b"Transfer-Encoding\x0b: chunked",
            b"Transfer-Encoding\x00: chunked",
            b"\x0bTransfer-Encoding: chunked",
            b"Transfer\xe2\x80\x90Encoding: chunked",
            b"GET /smuggled HTTP/1.1",
        ],
    );
    refused_chunks("bad_field_name", &[b"0\r\n: b\r\n\r\n", b"0\r\nGET / HTTP/1.1\r\n\r\n"]);
}

#[test]
fn controls_in_values() {
    let controls = (0..=0x1f_u8).chain([0x7f]).filter(|b| !matches!(b, b'\t' | b'\r' | b'\n'));
    for control in controls {
        for line in [
            [b"A: b", [control].as_slice(), b"c"].concat(),
            [b"A:", [control].as_slice()].concat(),
            [b"Transfer-Encoding:", [control].as_slice(), b"chunked"].concat(),
            [b"Transfer-Encoding: chunked", [control].as_slice()].concat(),
            [b"Content-Length: 5", [control].as_slice()].concat(),
        ] {
            refused_fields("bad_field_value", &[&line]);
        }
    }
    refused_chunks("bad_field_value", &[b"0\r\nA: b\0\r\n\r\n"]);
}

#[test]
fn chunk_sizes() {
    refused_chunks(
        "bad_chunk_size",
        &[
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"0X5\r\nhello\r\n0\r\n\r\n",
            b"5h\r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"\t5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"5\t\r\nhello\r\n0\r\n\r\n",
            b"5 5\r\nhello\r\n0\r\n\r\n",
            b"5_0\r\nhello\r\n0\r\n\r\n",
            b"5,\r\nhello\r\n0\r\n\r\n",
            b"5.0\r\nhello\r\n0\r\n\r\n",
            b"\"5\"\r\nhello\r\n0\r\n\r\n",
            b"\r\n5\r\nhello\r\n0\r\n\r\n",
            b";a\r\nhello\r\n0\r\n\r\n",
            b"g\r\n",
            b"\x005\r\nhello\r\n0\r\n\r\n",
            b"5\0\r\nhello\r\n0\r\n\r\n",
            b"\xd9\xa5\r\nhello\r\n0\r\n\r\n",
            b"00000000000000005\r\nhello\r\n0\r\n\r\n",
            b"10000000000000005\r\nhello\r\n0\r\n\r\n",
            b"ffffffffffffffff0\r\n",
            b"5\r\nhello\r\n 0\r\n\r\n",
            b"5\r\nhello\r\n0 \r\n\r\n",
        ],
    );
}

#[test]
fn chunk_data_without_its_end() {
    refused_chunks(
        "bad_chunk_end",
        &[
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello!\r\n0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5\r\nhello\r0\r\n\r\n",
            b"5\r\nhello\r\r\n0\r\n\r\n",
            b"5\r\nhello \r\n0\r\n\r\n",
            b"4\r\nhello\r\n0\r\n\r\n",
            b"2\r\nabc\r\n0\r\n\r\n",
        ],
    );
    // One byte too few: the line end is data, and the next size is not one.
    refused_chunks("bad_chunk_end", &[b"6\r\nhello\r\n0\r\n\r\n", b"7\r\nhello\r\n0\r\n\r\n"]);
}

#[test]
fn chunk_extensions() {
    refused_chunks(
        "bad_chunk_extension",
        &[
            b"5;\r\nhello\r\n0\r\n\r\n",
            b"5; \r\nhello\r\n0\r\n\r\n",
            b"5;;a\r\nhello\r\n0\r\n\r\n",
            b"5;=b\r\nhello\r\n0\r\n\r\n",
            b"5;a=\r\nhello\r\n0\r\n\r\n",
            b"5;a b\r\nhello\r\n0\r\n\r\n",
            b"5;a=b c\r\nhello\r\n0\r\n\r\n",
            b"5;a \r\nhello\r\n0\r\n\r\n",
            b"5;a=b \r\nhello\r\n0\r\n\r\n",
            b"5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
            b"5;a=\"b\r\nhello\r\n0\r\n\r\n",
            b"5;a=\"\\\r\n\"\r\nhello\r\n0\r\n\r\n",
            b"5;a=b\"\r\nhello\r\n0\r\n\r\n",
            b"5;\0\r\nhello\r\n0\r\n\r\n",
            b"5;a=\"\0\"\r\nhello\r\n0\r\n\r\n",
            b"5;a=\"\x7f\"\r\nhello\r\n0\r\n\r\n",
            b"5;\xe9\r\nhello\r\n0\r\n\r\n",
            b"0;\r\n\r\n",
        ],
    );
}

#[test]
fn truncated() {
    refused(
        "truncated",
        &[
            b"G",
            b"\r",
            b"\r\nG",
            b"GET / HTTP/1.1\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\n\r",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhell",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999999999999\r\n\r\nx",
        ],
    );
    refused_chunks(
        "truncated",
        &[b"", b"5", b"5\r\nhello", b"5\r\nhello\r\n", b"0\r\n", b"0\r\n\r", b"ffffffffffffffff\r\nx"],
    );
}
