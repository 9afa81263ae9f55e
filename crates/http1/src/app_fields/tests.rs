use super::*;

fn scan(fields: &[(&str, &str)]) -> Result<AppFields, BadField> {
    scan_app_fields(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

#[test]
fn sums_up_in_any_case() {
    let found = scan(&[
        ("CONTENT-length", "12"),
        ("Content-Type", "text/plain"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("connection", "Close"),
        ("TRAILER", "x"),
        ("Set-Cookie", "a=\"b\"; c=\u{e9}"),
        ("X-Tab", "a\tb"),
        ("X-Empty", ""),
    ]);
    let expected = AppFields {
        content_length: Some(12),
        close: true,
        has_date: true,
        has_content_type: true,
        is_stream: false,
        announces_trailers: true,
        hop_by_hop: None,
    };
    assert_eq!(found, Ok(expected));
    assert_eq!(scan(&[]), Ok(AppFields::default()));
}

#[test]
fn connection_close_is_honored_without_a_warning() {
    assert_eq!(scan(&[("Connection", "close")]).unwrap().hop_by_hop, None);
    for (name, value, warned) in [
        ("Connection", "keep-alive", "connection"),
        ("Connection", "close, x", "connection"),
        ("Keep-Alive", "timeout=5", "keep-alive"),
        ("Transfer-Encoding", "chunked", "transfer-encoding"),
        ("Proxy-Connection", "close", "proxy-connection"),
        ("TE", "trailers", "te"),
        ("Upgrade", "h2c", "upgrade"),
    ] {
        assert_eq!(scan(&[(name, value)]).unwrap().hop_by_hop, Some(warned), "{name}: {value}");
    }
}

#[test]
fn an_unsendable_field_is_named() {
    for (name, value, reason) in [
        ("", "x", BadFieldReason::Name),
        ("a b", "x", BadFieldReason::Name),
        ("a:", "x", BadFieldReason::Name),
        ("a\r\nb", "x", BadFieldReason::Name),
        ("X-A", "b\r\nSet-Cookie: evil=1", BadFieldReason::Value),
        ("X-A", "b\nc", BadFieldReason::Value),
        ("X-A", "b\rc", BadFieldReason::Value),
        ("X-A", "b\0c", BadFieldReason::Value),
        ("X-A", "\x7f", BadFieldReason::Value),
        ("Content-Length", "-1", BadFieldReason::Length),
        ("Content-Length", "", BadFieldReason::Length),
        ("Content-Length", "1 2", BadFieldReason::Length),
        ("Content-Length", "1, 2", BadFieldReason::Lengths),
    ] {
        let error = scan(&[("X-Good", "y"), (name, value)]).unwrap_err();
        assert_eq!(error.reason, reason, "{name}: {value:?}");
        assert_eq!(error.name, name.escape_default().to_string());
    }
    let twice = scan(&[("Content-Length", "1"), ("content-length", "2")]).unwrap_err();
    assert_eq!(
        twice.to_string(),
        "the response's field \"content-length\" was given twice with different values"
    );
    assert_eq!(scan(&[("Content-Length", "1"), ("content-length", "1")]).unwrap().content_length, Some(1));
    let long = scan(&[("x y".repeat(100).as_str(), "z")]).unwrap_err();
    assert_eq!(long.name.len(), 64);
}

#[test]
fn a_stream_is_known_by_its_media_type() {
    for (value, wanted) in [
        ("text/event-stream", true),
        ("Text/Event-Stream; charset=utf-8", true),
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("application/grpc-web", false),
        ("text/event-streams", false),
        ("text/plain", false),
        ("", false),
    ] {
        assert_eq!(scan(&[("Content-Type", value)]).unwrap().is_stream, wanted, "{value}");
    }
    assert!(!scan(&[("X-Type", "text/event-stream")]).unwrap().is_stream);
}
