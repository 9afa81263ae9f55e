//! Normalization of paths, and routes by host, path and method: what a route matched is what the application sees.

use std::sync::OnceLock;

use keepwarm_tests::shared::{asgi, wsgi};
use keepwarm_tests::{Server, get};

/// The requested target, the normalized path that is forwarded, and that path decoded (RFC 3986 §6.2.2).
const NORMALIZED: &[(&str, &str, &str)] = &[
    ("/any/x", "/any/x", "/any/x"),
    ("/any/", "/any/", "/any/"),
    ("/any/%7Euser", "/any/~user", "/any/~user"),
    ("/any/%7euser", "/any/~user", "/any/~user"),
    ("/any/%41%2d%5F%30", "/any/A-_0", "/any/A-_0"),
    ("/%61ny/x", "/any/x", "/any/x"),
    ("/any/./x", "/any/x", "/any/x"),
    ("/any/.", "/any/", "/any/"),
    ("/any/a/..", "/any/", "/any/"),
    ("/any/a/../x", "/any/x", "/any/x"),
    ("/any/a/b/../../x", "/any/x", "/any/x"),
    ("/any/a/%2e%2e/x", "/any/x", "/any/x"),
    ("/any/a/%2E./x", "/any/x", "/any/x"),
    ("/any/%2e/x", "/any/x", "/any/x"),
    ("/../any/x", "/any/x", "/any/x"),
    ("/../../../any/x", "/any/x", "/any/x"),
    ("/any/...", "/any/...", "/any/..."),
    ("/any/.x", "/any/.x", "/any/.x"),
    ("/any/x.", "/any/x.", "/any/x."),
    ("/any/a//x", "/any/a//x", "/any/a//x"),
    ("//any/x", "//any/x", "//any/x"),
    ("/any//", "/any//", "/any//"),
    // An empty segment is a segment: .. takes it and nothing more.
    ("/any/a//../x", "/any/a/x", "/any/a/x"),
    ("/any/a%2Fb", "/any/a%2Fb", "/any/a/b"),
    ("/any/a%2F..%2Fb", "/any/a%2F..%2Fb", "/any/a/../b"),
    ("/any/%2F", "/any/%2F", "/any//"),
    ("/any/a%5Cb", "/any/a%5Cb", "/any/a\\b"),
    // Decoded once, never twice.
    ("/any/%252e%252e/x", "/any/%252e%252e/x", "/any/%2e%2e/x"),
    ("/any/%2541", "/any/%2541", "/any/%41"),
    ("/any/a%20b", "/any/a%20b", "/any/a b"),
    ("/any/a+b", "/any/a+b", "/any/a+b"),
    ("/any/%3Fx", "/any/%3Fx", "/any/?x"),
    ("/any/%23x", "/any/%23x", "/any/#x"),
    ("/any/%C3%A9", "/any/%C3%A9", "/any/\u{e9}"),
    ("/any/a;p=1/../x", "/any/x", "/any/x"),
    ("/any/!$&'()*+,;=:@", "/any/!$&'()*+,;=:@", "/any/!$&'()*+,;=:@"),
    ("/any/x?a/../b", "/any/x", "/any/x"),
];

#[test]
fn paths_are_normalized_once_and_forwarded_so() {
    let mut faults = Vec::new();
    for (asked, raw, decoded) in NORMALIZED {
        let seen = asgi().ask(get(asked)).json();
        if seen["raw_path"] != *raw || seen["path"] != *decoded {
            faults.push(format!("asgi {asked}: {} {}, not {raw} {decoded}", seen["raw_path"], seen["path"]));
        }
        let seen = wsgi().ask(get(asked)).json();
        // PEP 3333: the bytes of the path as latin-1.
        let latin: String = decoded.bytes().map(char::from).collect();
        if seen["PATH_INFO"] != latin.as_str() {
            faults.push(format!("wsgi {asked}: {}, not {latin}", seen["PATH_INFO"]));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn remaining_percent_encodings_are_upper_case() {
    // RFC 3986 §6.2.2.1
    let seen = asgi().ask(get("/any/a%2fb%c3%a9")).json();
    assert_eq!(seen["raw_path"], "/any/a%2Fb%C3%A9");
}

#[test]
fn the_query_is_never_touched() {
    for query in ["", "a=1&b=2", "x=%41%2f..", "a=/../b", "?", "a=%zz", "a=b=c&&;"] {
        let seen = asgi().ask(get(&format!("/echo?{query}"))).json();
        assert_eq!(seen["query_string"], query);
        let seen = wsgi().ask(get(&format!("/echo?{query}"))).json();
        assert_eq!(seen["QUERY_STRING"], query);
    }
}

const ROUTED: &str = r#"
[listen.main]
bind = "127.0.0.1:0"

[[listen.main.route]]
host = "one.example"
respond = { status = 200, body = "host one" }

[[listen.main.route]]
host = "*.below.example"
respond = { status = 200, body = "host below" }

[[listen.main.route]]
path = "/admin/*"
respond = { status = 403, body = "admin" }

[[listen.main.route]]
path = "/exact"
respond = { status = 200, body = "exact" }

[[listen.main.route]]
path = "/get"
method = "GET"
respond = { status = 200, body = "get" }

[[listen.main.route]]
path = "/post"
method = ["POST", "PUT"]
respond = { status = 200, body = "post" }

[[listen.main.route]]
path = "/typed"
respond = { status = 418, body = "{}", content_type = "application/x-teapot", headers = { X-Extra = "1" } }

[[listen.main.route]]
path = "/old/*"
strip_prefix = true
redirect = { to = "https://$host/new$path$query", status = 308 }

[[listen.main.route]]
path = "/w/*"
strip_prefix = true
app = "w"

[[listen.main.route]]
path = "/a/*"
strip_prefix = true
app = "a"

[[listen.main.route]]
path = "/kept/*"
app = "w"

[[listen.main.route]]
path = "/any/*"
app = "a"

[app.w]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1

[app.a]
entry = "asgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

fn routed() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(ROUTED).warm("/w/pong").warm("/a/pong"))
}

/// The text of the response to a path, and its status.
fn at(path: &str) -> (u16, String) {
    let response = routed().ask(get(path));
    (response.status, response.text())
}

#[test]
fn no_spelling_of_a_path_gets_around_a_route() {
    for path in [
        "/admin/",
        "/admin/x",
        "/%61dmin/x",
        "/%61%64%6D%69%6E/x",
        "/./admin/x",
        "/x/../admin/x",
        "/x/%2e%2e/admin/x",
        "/x/%2E%2E/%2e/admin/x",
        "/../admin/x",
        "/admin/../admin/x",
        "/admin//x",
        "http://test.example/admin/x",
        "http://test.example/x/../admin/x",
        "/admin/x?y",
    ] {
        assert_eq!(at(path), (403, "admin".into()), "{path}");
    }
    // A path that does not begin with /admin/ when normalized is not below it, and the forwarded path cannot become so.
    for path in
        ["/admin", "/Admin/x", "//admin/x", "/admin%2Fx", "/xadmin/x", "/x%2F..%2Fadmin/x", "/admin/../x"]
    {
        assert_ne!(at(path).0, 403, "{path}");
    }
}

#[test]
fn an_exact_path_is_only_itself() {
    assert_eq!(at("/exact"), (200, "exact".into()));
    assert_eq!(at("/exact?q"), (200, "exact".into()));
    assert_eq!(at("/%65xact"), (200, "exact".into()));
    for path in ["/exact/", "/exactly", "/exact%2F", "//exact", "/Exact"] {
        assert_eq!(at(path).0, 404, "{path}");
    }
}

#[test]
fn hosts_match_without_case_and_port() {
    let asked = |host: &str| routed().ask(format!("GET /exact HTTP/1.1\r\nHost: {host}\r\n\r\n")).text();
    for host in ["one.example", "ONE.example", "One.Example:8080", "one.example:"] {
        assert_eq!(asked(host), "host one", "{host}");
    }
    for host in ["a.below.example", "a.b.below.example:1", "X.BELOW.EXAMPLE"] {
        assert_eq!(asked(host), "host below", "{host}");
    }
    for host in ["below.example", "xbelow.example", "two.example", "one.example.evil", ""] {
        assert_eq!(asked(host), "exact", "{host:?}");
    }
    // The absolute form's authority is the host.
    assert_eq!(
        routed().ask("GET http://one.example/ HTTP/1.1\r\nHost: two.example\r\n\r\n").text(),
        "host one"
    );
    assert_eq!(
        routed().ask("GET http://two.example/exact HTTP/1.1\r\nHost: one.example\r\n\r\n").text(),
        "exact"
    );
    // A 1.0 request without Host goes where an unknown host goes.
    assert_eq!(routed().ask("GET /exact HTTP/1.0\r\n\r\n").text(), "exact");
}

#[test]
fn methods_match_and_get_brings_head() {
    let status = |method: &str, path: &str| {
        routed().ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).status
    };
    assert_eq!((status("GET", "/get"), status("HEAD", "/get")), (200, 200));
    assert_eq!((status("POST", "/post"), status("PUT", "/post")), (200, 200));
    for (method, path) in [("POST", "/get"), ("GET", "/post"), ("get", "/get"), ("HEAD", "/post")] {
        assert!(matches!(status(method, path), 404 | 405), "{method} {path}");
    }
}

#[test]
fn a_fixed_response_has_its_fields() {
    let response = routed().ask(get("/typed"));
    assert_eq!((response.status, response.text().as_str()), (418, "{}"));
    assert_eq!(response.field("content-type"), Some("application/x-teapot"));
    assert_eq!(response.field("x-extra"), Some("1"));
}

#[test]
fn a_redirect_keeps_path_and_query() {
    for (asked, wanted) in [
        ("/old/a%20b?x=1&y", "https://test.example/new/a%20b?x=1&y"),
        ("/old/", "https://test.example/new/"),
        ("/old/a/../b", "https://test.example/new/b"),
    ] {
        let response = routed().ask(get(asked));
        assert_eq!((response.status, response.field("location")), (308, Some(wanted)));
    }
}

#[test]
fn a_redirect_cannot_be_split_or_led_astray() {
    for asked in ["/old/%0d%0aSet-Cookie:%20x=1", "/old/x?%0d%0aX:1", "/old/%0a"] {
        let response = routed().ask(get(asked));
        assert_eq!(response.status, 308, "{asked}");
        assert!(response.field("set-cookie").is_none() && response.field("x").is_none());
        assert!(
            response.field("location").is_some_and(|to| to.starts_with("https://test.example/new/")),
            "{:?}",
            response.fields
        );
    }
}

#[test]
fn strip_prefix_moves_it_to_the_script_name() {
    let seen = routed().ask(get("/w/any/x%2Fy")).json();
    assert_eq!((&seen["SCRIPT_NAME"], &seen["PATH_INFO"]), (&"/w".into(), &"/any/x/y".into()));
    let seen = routed().ask(get("/%77/any/%7Ex")).json();
    assert_eq!((&seen["SCRIPT_NAME"], &seen["PATH_INFO"]), (&"/w".into(), &"/any/~x".into()));
    // ASGI: `path` is the whole of it, `root_path` its beginning.
    let seen = routed().ask(get("/a/any/x%2Fy")).json();
    assert_eq!(
        (&seen["root_path"], &seen["path"], &seen["raw_path"]),
        (&"/a".into(), &"/a/any/x/y".into(), &"/a/any/x%2Fy".into())
    );
}

#[test]
fn without_strip_prefix_the_path_stays_whole() {
    let seen = routed().ask(get("/kept/any/x")).json();
    assert_eq!((&seen["SCRIPT_NAME"], &seen["PATH_INFO"]), (&"".into(), &"/kept/any/x".into()));
    let seen = routed().ask(get("/any/x")).json();
    assert_eq!((&seen["root_path"], &seen["path"]), (&"".into(), &"/any/x".into()));
}

#[test]
fn requests_without_a_route_are_404() {
    assert_eq!(at("/nobody").0, 404);
    assert_eq!(at("/").0, 404);
}
