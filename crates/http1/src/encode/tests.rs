use super::*;

#[test]
fn chunk_sizes() {
    for len in [1, 9, 10, 15, 16, 255, 256, 4095, 65_536, usize::MAX] {
        let mut out = Vec::new();
        encode_chunk_head(&mut out, len);
        assert_eq!(out, format!("{len:x}\r\n").into_bytes());
    }
}

#[test]
fn switching_and_upgrade_required_name_the_protocol() {
    let plan = |status| {
        let request = crate::RequestFacts {
            version: crate::Version::Http11,
            is_head: false,
            is_connect: false,
            close: false,
            keep_alive: false,
            forward_proxy: false,
        };
        let response = crate::ResponseFacts {
            status,
            length: crate::ResponseLength::Known(0),
            close: false,
            first_on_connection: true,
            idle_timeout_secs: 0,
            trailers: false,
        };
        crate::plan(request, response)
    };
    let upgrade = [(b"Upgrade".as_slice(), b"websocket".as_slice())];
    let mut out = Vec::new();
    encode_response_head(&mut out, 101, &plan(101), upgrade.into_iter(), None);
    let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let mut out = Vec::new();
    let closing = Plan { connection: ConnectionHeader::Close, ..plan(426) };
    encode_response_head(&mut out, 426, &closing, upgrade.into_iter(), None);
    assert!(out.ends_with(b"\r\nConnection: close, upgrade\r\n\r\n"));

    let mut out = Vec::new();
    encode_response_head(&mut out, 426, &plan(426), upgrade.into_iter(), None);
    let expected = "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\nConnection: upgrade\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn requests_without_content_have_a_length_where_it_has_a_meaning() {
    for (method, says) in [
        (Method::GET, false),
        (Method::HEAD, false),
        (Method::DELETE, false),
        (Method::POST, true),
        (Method::PUT, true),
        (Method::PATCH, true),
    ] {
        let mut out = Vec::new();
        let options = RequestOptions { keep_alive: true, expect_continue: true, ..RequestOptions::default() };
        encode_request_head(&mut out, &method, b"/", b"h", [].into_iter(), RequestBody::None, options);
        let length = if says { "Content-Length: 0\r\n" } else { "" };
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{method} / HTTP/1.1\r\nHost: h\r\n{length}\r\n")
        );
    }
}
