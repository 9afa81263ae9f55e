use super::*;

#[test]
fn standard_and_listed_names() {
    let mut fields = Fields::new();
    fields.push(b"Connection", b"close, X-Secret");
    fields.push(b"connection", b" x-other ,,");
    let hop = HopByHop::of(&fields);
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
        "x-secret",
        "x-other",
        "close",
        "proxy-authorization",
        "proxy-authenticate",
        "http2-settings",
    ] {
        assert!(hop.removes(name.as_bytes()), "{name}");
    }
    for name in ["accept", "x-secre", "x-secret2", "trailer", "content-type"] {
        assert!(!hop.removes(name.as_bytes()), "{name}");
    }
}

/// "Abusing HTTP hop-by-hop request headers": a client makes a proxy drop a field that a later hop relies on.
#[test]
fn connection_cannot_remove_protected_fields() {
    let protected = [
        "host",
        "content-length",
        "authorization",
        "cookie",
        "set-cookie",
        "www-authenticate",
        "forwarded",
        "via",
        "x-real-ip",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-anything",
        "trailer",
    ];
    for name in protected {
        let mut fields = Fields::new();
        fields.push(b"connection", [b"close, ", name.to_uppercase().as_bytes()].concat().as_slice());
        assert!(!HopByHop::of(&fields).removes(name.as_bytes()), "{name}");
    }
}

#[test]
fn without_connection_only_standard_names_are_removed() {
    let fields = Fields::new();
    assert!(HopByHop::of(&fields).removes(b"te"));
    assert!(!HopByHop::of(&fields).removes(b"x-secret"));
}

#[test]
fn names_that_would_alias_in_cgi() {
    for name in ["accept", "x-a1", "0"] {
        assert!(cgi_safe_name(name.as_bytes()), "{name}");
    }
    for name in ["", "proxy", "x_a", "x.a", "x a", "x!a", "content_length", "x\u{e9}", "x~", "x'"] {
        assert!(!cgi_safe_name(name.as_bytes()), "{name}");
    }
    assert!(cgi_safe_name(b"proxy-authorization"));
}

#[test]
fn trailers() {
    for name in [
        "grpc-status",
        "grpc-message",
        "server-timing",
        "x-checksum",
        "etag",
        "digest",
        "authentication-info",
    ] {
        assert!(trailer_allowed(name.as_bytes()), "{name}");
    }
    for name in [
        // frame
        "content-length",
        "transfer-encoding",
        "trailer",
        "te",
        "connection",
        "keep-alive",
        "upgrade",
        // route
        "host",
        "location",
        // authenticate
        "authorization",
        "proxy-authorization",
        "www-authenticate",
        "proxy-authenticate",
        // cookies
        "cookie",
        "set-cookie",
        // forwarding data
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-real-ip",
        "via",
        // modify the request, or how the content is read
        "expect",
        "range",
        "if-match",
        "if-none-match",
        "content-encoding",
        "content-type",
        "content-range",
        "cache-control",
        "x-http-method-override",
    ] {
        assert!(!trailer_allowed(name.as_bytes()), "{name}");
    }
}

#[test]
fn usual_options_do_not_hide_names_in_another_line() {
    let mut fields = Fields::new();
    fields.push(b"connection", b"Keep-Alive");
    assert!(!HopByHop::of(&fields).removes(b"x-secret"));
    fields.push(b"connection", b"x-secret");
    assert!(HopByHop::of(&fields).removes(b"x-secret"));
}
