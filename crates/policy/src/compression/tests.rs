use super::*;

fn accept(lines: &[&str]) -> AcceptEncoding {
    AcceptEncoding::parse(lines.iter().map(|line| line.as_bytes()))
}

/// RFC 9110 §12.5.3, its examples first.
#[test]
fn the_coding_that_the_client_wants_most_is_chosen() {
    use Coding::{Brotli, Gzip, Zstd};
    for (lines, expected) in [
        (&["compress, gzip"] as &[&str], Some(Gzip)),
        (&[""], None),
        (&["*"], Some(Zstd)),
        (&["compress;q=0.5, gzip;q=1.0"], Some(Gzip)),
        (&["gzip;q=1.0, identity; q=0.5, *;q=0"], Some(Gzip)),
        (&[], None),
        (&["gzip, deflate, br, zstd"], Some(Zstd)),
        (&["gzip, deflate, br"], Some(Brotli)),
        (&["gzip", "br"], Some(Brotli)),
        (&["gzip;q=0.9, br;q=0.8"], Some(Gzip)),
        (&["gzip;q=0.001, br;q=0"], Some(Gzip)),
        (&["GZip ; Q=0.5"], Some(Gzip)),
        (&["x-gzip"], Some(Gzip)),
        (&["zstd;q=0, *"], Some(Brotli)),
        (&["*;q=0"], None),
        (&["*;q=0, br"], Some(Brotli)),
        (&["identity, gzip;q=0.5"], None),
        (&["identity, gzip"], Some(Gzip)),
        (&["identity;q=0, gzip;q=0.1"], Some(Gzip)),
        (&["identity;q=0"], None),
        (&["*;q=0.5, gzip;q=0.1"], Some(Zstd)),
        (&["deflate, compress"], None),
        (&["gzip;q=0.000"], None),
        (&["gzip;q=0."], None),
        (&["gzip;q="], Some(Gzip)),
        (&["gzip;q=2"], Some(Gzip)),
        (&["gzip;level=9;q=0"], None),
        (&[", ,gzip,,"], Some(Gzip)),
    ] {
        assert_eq!(accept(lines).best(&Coding::ALL), expected, "{lines:?}");
    }
    assert_eq!(accept(&["gzip, br"]).best(&[Gzip, Brotli]), Some(Gzip), "the order of the server");
    assert_eq!(accept(&["br"]).best(&[Gzip]), None);
}

#[test]
fn a_client_refuses_identity_only_in_so_many_words() {
    for (line, refuses) in [
        ("identity;q=0", true),
        ("gzip, identity;q=0.0", true),
        ("*;q=0", true),
        ("*;q=0, identity;q=0.1", false),
        ("gzip", false),
        ("", false),
        ("*", false),
    ] {
        assert_eq!(accept(&[line]).refuses_identity(), refuses, "{line}");
    }
}

fn decided(
    status: u16,
    length: Option<u64>,
    accept_line: &str,
    fields: &[(&str, &str)],
) -> (Option<Coding>, bool) {
    decided_for(
        status,
        length,
        RequestTraits { accept: accept(&[accept_line]), ..RequestTraits::default() },
        fields,
    )
}

fn decided_for(
    status: u16,
    length: Option<u64>,
    request: RequestTraits,
    fields: &[(&str, &str)],
) -> (Option<Coding>, bool) {
    let traits = ResponseTraits::of(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let CompressionDecision { coding, varies } =
        CompressionRules::default().decide(status, length, &request, &traits);
    (coding, varies)
}

const HTML: (&str, &str) = ("Content-Type", "text/html; charset=utf-8");

#[test]
fn a_response_is_compressed_unless_something_forbids_it() {
    let gzip = Some(Coding::Gzip);
    for (status, length, fields, expected) in [
        (200, None, &[HTML] as &[_], (gzip, true)),
        (200, Some(1024), &[HTML], (gzip, true)),
        (200, Some(1023), &[HTML], (None, true)),
        (200, Some(0), &[HTML], (None, true)),
        (404, Some(5000), &[HTML], (gzip, true)),
        (500, None, &[HTML], (gzip, true)),
        (200, None, &[], (None, false)),
        (200, None, &[("content-type", "image/png")], (None, false)),
        (200, None, &[("CONTENT-TYPE", "Text/Event-Stream")], (gzip, true)),
        (200, None, &[("content-type", "application/problem+json")], (gzip, true)),
        (204, None, &[HTML], (None, false)),
        (205, None, &[HTML], (None, false)),
        (206, None, &[HTML, ("content-range", "bytes 0-1/2")], (None, true)),
        (206, None, &[("content-type", "image/png")], (None, false)),
        (206, None, &[("content-type", "multipart/byteranges; boundary=x")], (None, true)),
        (304, None, &[], (None, true)),
        (304, None, &[("content-type", "image/png")], (None, false)),
        (200, None, &[HTML, ("content-encoding", "br")], (None, false)),
        (200, None, &[HTML, ("content-encoding", "identity")], (None, false)),
        (200, None, &[HTML, ("cache-control", "max-age=5, No-Transform")], (None, false)),
        (200, None, &[HTML, ("cache-control", "no-cache")], (gzip, true)),
        (200, None, &[HTML, ("content-md5", "Q2h1Y2sgSW50ZWdyaXR5IQ==")], (None, false)),
        (200, None, &[HTML, ("repr-digest", "sha-256=:AA==:")], (None, false)),
        (200, None, &[HTML, ("content-digest", "sha-256=:AA==:")], (None, false)),
        (200, None, &[HTML, ("digest", "sha-256=AA==")], (None, false)),
        (200, None, &[HTML, ("set-cookie", "a=b")], (gzip, true)),
    ] {
        assert_eq!(decided(status, length, "gzip", fields), expected, "{status} {length:?} {fields:?}");
    }
}

#[test]
fn a_client_that_takes_nothing_else_gets_short_responses_compressed() {
    assert_eq!(decided(200, Some(10), "gzip, identity;q=0", &[HTML]).0, Some(Coding::Gzip));
    assert_eq!(decided(200, Some(0), "gzip, identity;q=0", &[HTML]).0, None);
    assert_eq!(decided(200, Some(10), "identity;q=0", &[HTML]).0, None);
}

#[test]
fn cookies_over_tls_are_not_compressed_unless_allowed() {
    let cookie = ("set-cookie", "session=1");
    let secure = RequestTraits { accept: accept(&["gzip"]), is_secure: true, ..RequestTraits::default() };
    assert_eq!(decided_for(200, None, secure, &[HTML, cookie]), (None, false));
    assert_eq!(decided_for(200, None, secure, &[HTML]), (Some(Coding::Gzip), true));
    let rules = CompressionRules { set_cookie: true, ..CompressionRules::default() };
    let traits =
        ResponseTraits::of([HTML, cookie].iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    assert_eq!(rules.decide(200, None, &secure, &traits).coding, Some(Coding::Gzip));
}

#[test]
fn what_the_request_forbids_still_varies() {
    let request = RequestTraits { accept: accept(&["gzip"]), ..RequestTraits::default() };
    for request in [
        RequestTraits { is_http10: true, ..request },
        RequestTraits { no_transform: true, ..request },
        RequestTraits { accept: AcceptEncoding::default(), ..request },
    ] {
        assert_eq!(decided_for(200, None, request, &[HTML]), (None, true), "{request:?}");
    }
}

#[test]
fn types_are_matched_without_their_parameters() {
    let types = MediaTypes::new(["text/*", "*+json", "application/*+xml", "Application/Wasm"]).unwrap();
    for (content_type, expected) in [
        ("text/css", true),
        ("TEXT/plain ; charset=utf-8", true),
        ("text/", false),
        ("application/ld+json", true),
        ("+json", false),
        ("application/atom+xml", true),
        ("image/svg+xml", false),
        ("application/+xml", false),
        ("application/wasm", true),
        ("application/wasm2", false),
        ("", false),
    ] {
        assert_eq!(types.matches(content_type.as_bytes()), expected, "{content_type}");
    }
    for invalid in
        ["", "text", "/", "text/", "/css", "*", "*json", "te xt/css", "text/css;q=1", "text/*css", "*/css"]
    {
        assert_eq!(MediaTypes::new([invalid]), Err(InvalidMediaType), "{invalid}");
    }
    assert_eq!(MediaTypes::new(["*/*"]).map(|types| types.matches(b"image/png")), Ok(true));
    assert_eq!(MediaTypes::new(MediaTypes::usual().iter().copied()), Ok(MediaTypes::default()));
}

#[test]
fn a_tag_of_a_compressed_response_leads_back_to_the_apps() {
    assert_eq!(coded_etag(b"\"abc\"", Coding::Gzip).as_deref(), Some(&b"W/\"abc;gzip\""[..]));
    assert_eq!(coded_etag(b"\"\"", Coding::Brotli).as_deref(), Some(&b"W/\";br\""[..]));
    for unchanged in [&b"W/\"abc\""[..], b"abc", b"", b"\"abc"] {
        assert_eq!(coded_etag(unchanged, Coding::Zstd), None);
    }
    assert_eq!(coded_etag(b"\"", Coding::Zstd), None);
}

#[test]
fn lists_of_tags_are_restored_in_place() {
    for (list, expected) in [
        ("W/\"abc;gzip\"", "\"abc\""),
        ("W/\"abc;gzip\", \"x\", W/\"y;zstd\"", "\"abc\", \"x\", \"y\""),
        ("\"x,y\" , W/\"a,b;br\"", "\"x,y\" , \"a,b\""),
        ("W/\";br\"", "\"\""),
        ("W/\"a;gzip;br\"", "\"a;gzip\""),
        ("\"abc;gzip\"", "\"abc;gzip\""),
        ("W/\"abc;deflate\"", "W/\"abc;deflate\""),
        ("W/\"abc\"", "W/\"abc\""),
        ("*", "*"),
        ("", ""),
        ("W/\"abc;gzip", "W/\"abc;gzip"),
        ("\"x\"W/\"abc;gzip\"tail", "\"x\"\"abc\"tail"),
    ] {
        let mut bytes = list.as_bytes().to_vec();
        let length = restore_etags(&mut bytes);
        bytes.truncate(length);
        assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{list}");
        assert_eq!(has_coded_etag(list.as_bytes()), list != expected, "{list}");
    }
    let list = b"\"x\", W/\"abc;br\"";
    assert_eq!(is_coded_etag_of(list, b"\"abc\""), Some(&b"W/\"abc;br\""[..]));
    assert_eq!(is_coded_etag_of(list, b"\"x\""), None);
    assert_eq!(is_coded_etag_of(list, b"W/\"abc\""), None);
}
