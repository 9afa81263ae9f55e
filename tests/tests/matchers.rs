//! Routes that match more than host, path and method; and that no spelling of a request gets around one that guards.

use std::fmt::Write as _;
use std::sync::OnceLock;

use keepwarm_tests::{Server, get};

/// A listener with these routes, each of which responds with its name.
fn server(routes: &[(&str, &str)]) -> Server {
    let mut config =
        "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n[listen.main]\nbind = \"127.0.0.1:0\"\n".to_owned();
    for (name, conditions) in routes {
        let _ = write!(config, "[[listen.main.route]]\n{conditions}\nrespond = {{ body = \"{name}\" }}\n");
    }
    Server::start(&config)
}

fn asked(server: &Server, target: &str, fields: &str) -> String {
    let response = server.ask(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"));
    match response.status {
        200 => response.text(),
        status => status.to_string(),
    }
}

fn of_all_kinds() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        server(&[
            ("header", r#"header = { X-Version = ["2", "!~beta"], Accept = "*json*" }"#),
            ("query", r#"query = { page = "~^[0-9]+$", debug = "!*" }"#),
            ("cookie", r#"cookie = { beta = "1" }"#),
            ("client", r#"client = ["203.0.113.0/24", "!203.0.113.1"]"#),
            ("https", r#"scheme = "https""#),
            ("php", r#"path = ["*.php", "!/vendor/*"]"#),
            ("number", r#"path = "~^/item/[0-9]+$""#),
            ("feed", r#"path = "/blog/*/feed""#),
            ("rest", ""),
        ])
    })
}

#[test]
fn routes_match_all_methods_but_some() {
    let server = server(&[("writes", r#"method = ["!GET", "!OPTIONS"]"#), ("reads", r#"method = "GET""#)]);
    let ask =
        |method: &str| server.ask(format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
    for (method, name) in [("POST", "writes"), ("PURGE", "writes"), ("GET", "reads")] {
        assert_eq!(ask(method).text(), name, "{method}");
    }
    let refused = ask("OPTIONS");
    assert_eq!((refused.status, refused.field("allow")), (405, Some("POST, PUT, PATCH, DELETE, GET, HEAD")));
}

#[test]
fn routes_match_headers_arguments_cookies_clients_and_schemes() {
    let cases = [
        ("/", "", "rest"),
        ("/", "X-Version: 2\r\nAccept: application/json\r\n", "header"),
        ("/", "X-Version: 2\r\n", "rest"),
        ("/", "X-Version: 2\r\nX-Version: 3-beta\r\nAccept: application/json\r\n", "rest"),
        ("/?page=12", "", "query"),
        ("/?%70age=1%32", "", "query"),
        ("/?page=x", "", "rest"),
        ("/?page=12&debug", "", "rest"),
        ("/", "Cookie: a=b; beta=1\r\n", "cookie"),
        ("/", "Cookie: beta=0\r\n", "rest"),
        ("/", "X-Forwarded-For: 203.0.113.9\r\n", "client"),
        ("/", "X-Forwarded-For: 203.0.113.1\r\n", "rest"),
        ("/", "X-Forwarded-Proto: https\r\n", "https"),
        ("/a/b.php", "", "php"),
        ("/vendor/b.php", "", "rest"),
        ("/item/42", "", "number"),
        ("/item/42x", "", "rest"),
        ("/blog/2026/11/feed", "", "feed"),
        ("/blog/feed", "", "rest"),
    ];
    for (target, fields, expected) in cases {
        assert_eq!(asked(of_all_kinds(), target, fields), expected, "{target} {fields:?}");
    }
}

/// caddy#7941: an encoded slash, dot segment or `;` passes no rule that its decoded form would not.
#[test]
fn no_separator_in_disguise_passes_a_guard() {
    let guarded = server(&[
        ("guard", r#"path = "/admin/*""#),
        ("public", r#"path = "/public/*""#),
        ("script", r#"path = "~^/(cgi|bin)/""#),
        ("image", r#"path = ["*.png", "!/private/*"]"#),
        ("rest", ""),
    ]);
    for target in [
        "/admin%2Fx",
        "/admin%2fx",
        "//admin/x",
        "/public/..%2Fadmin/x",
        "/public/..%2f..%2fadmin/x",
        "/public/%2e%2e%2fadmin/x",
        "/public%2F..%2Fadmin%2Fx",
        "/public/..;/admin/x",
        "/public/..;a=b/admin/x",
        "/public/..%3B/admin/x",
        "/admin;a=1/x",
        "/x/..%5Cadmin%5Cx",
        "/x%5C..%5Cadmin%5Cx",
        "/cgi%2Fx",
        "/x/..;/bin/x",
        "/a/..%2Fprivate/x.png",
        // Above the route's own prefix, to whatever the application has there.
        "/public/..%2F..%2Fetc",
    ] {
        assert_eq!(asked(&guarded, target, ""), "400", "{target}");
    }
    // These mean one route, however they are read.
    for (target, expected) in [
        ("/admin/x%2Fy", "guard"),
        ("/admin/x;y", "guard"),
        ("/admin//x", "guard"),
        ("/public/a%2Fb;c//d", "public"),
        // A dot segment takes the segment before it as it stands, and the application gets what is left.
        ("/public/;/../admin;/x", "public"),
        ("/group%2Fproject", "rest"),
        ("/a;v=1/b", "rest"),
        ("/proxy/https://b.example/", "rest"),
        // Decoded once: an application that decodes twice changes the meaning of every URL.
        ("/admin%252Fx", "rest"),
    ] {
        assert_eq!(asked(&guarded, target, ""), expected, "{target}");
    }
    let bare = server(&[("public", r#"path = "/public/*""#)]);
    assert_eq!(asked(&bare, "/public/..%2Fx", ""), "404", "no route takes /x either");
    let refused = guarded.ask(get("/admin%2Fx"));
    assert!(refused.text().contains("more than one way"), "{}", refused.text());
    assert_eq!(guarded.ask(get("/admin/x")).text(), "guard", "the listener still serves");
}

/// With one route for all paths there is nothing to pass by, and a path with an encoded slash is the application's matter.
#[test]
fn a_listener_without_path_rules_takes_every_path() {
    let open = server(&[("all", "")]);
    for target in ["/a%2Fb", "//a", "/a;b", "/..%2F"] {
        assert_eq!(asked(&open, target, ""), "all", "{target}");
    }
}

#[test]
fn a_route_for_the_very_path_was_meant() {
    let exact = server(&[("exact", r#"path = "/a%2Fb""#), ("below", r#"path = "/a/*""#), ("rest", "")]);
    assert_eq!(asked(&exact, "/a%2fb", ""), "exact");
    assert_eq!(asked(&exact, "/a%2Fc", ""), "400");
}

/// Past the number of routes at which an index is built, the first route that matches still wins.
#[test]
fn many_routes_keep_their_order() {
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let conditions: Vec<String> = (0..200)
        .map(|number| match number {
            150 => r#"path = "/p/*""#.to_owned(),
            199 => String::new(),
            _ => format!("host = \"h{}.example\"\npath = \"/p/{number}/*\"", number % 3),
        })
        .collect();
    let routes: Vec<(&str, &str)> = names
        .iter()
        .zip(&conditions)
        .map(|(name, conditions)| (name.as_str(), conditions.as_str()))
        .collect();
    let many = server(&routes);
    let at = |host: &str, path: &str| many.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).text();
    assert_eq!(at("h1.example", "/p/100/x"), "n100");
    assert_eq!(at("h0.example", "/p/100/x"), "n150");
    assert_eq!(at("h1.example", "/p/160/x"), "n150");
    assert_eq!(at("h1.example", "/q"), "n199");
}
