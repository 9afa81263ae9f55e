//! Error pages of the operator's own: for Keepwarm's errors, and on request for those of apps.

use std::fs;
use std::path::Path;
use std::time::Duration;

use keepwarm_tests::{Response, Server, get};

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
error_pages = { 404 = "@DIR@/errors/404.html", 4xx = "@DIR@/errors/4xx.html", 503 = "@DIR@/errors/503.json" }
[[listen.main.route]]
path = "/files/*"
files = "@DIR@/site"
error_pages = { 404 = "@DIR@/errors/files.txt" }
headers = { set = { X-Route = "1" } }
[[listen.main.route]]
path = "/get"
method = "GET"
respond = 200
[[listen.main.route]]
path = "/fixed"
respond = { status = 404, body = "as configured" }
[[listen.main.route]]
path = "/app/*"
app = "app"
max_body = 10
[[listen.main.route]]
path = "/hidden/*"
app = "app"
intercept_errors = true
[app.app]
entry = "failing_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
workers = 1
"#;

const APP: &str = r#"
from urllib.parse import parse_qsl

def application(environ, start_response):
    query = dict(parse_qsl(environ["QUERY_STRING"]))
    body = query.pop("body", "of the app").encode()
    headers = [("Content-Type", "text/x-app"), ("Set-Cookie", "a=b"), ("ETag", '"x"'), ("X-App", "1")]
    if "chunked" not in query:
        headers.append(("Content-Length", str(len(body))))
    start_response(query.get("status", "404 Not Found"), headers)
    return [body] * 1 if "chunked" not in query else iter([body[:3], body[3:]])
"#;

fn place(folder: &Path) {
    for directory in ["errors", "site"] {
        fs::create_dir_all(folder.join(directory)).unwrap();
    }
    for (name, text) in [
        ("errors/404.html", "<h1>nothing here"),
        ("errors/4xx.html", "<h1>your mistake"),
        ("errors/503.json", "{\"later\":true}"),
        ("errors/files.txt", "no such file"),
        ("site/a.txt", "a"),
        ("failing_app.py", APP),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

fn start() -> Server {
    Server::start_with(CONFIG, |command| place(command.get_current_dir().expect("a folder")))
}

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    server.ask(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

#[test]
fn keepwarms_errors_have_the_page_for_their_status() {
    let server = start();
    for (method, path, fields, status, text, kind) in [
        ("GET", "/none", "", 404, "<h1>nothing here", "text/html; charset=utf-8"),
        (
            "GET",
            "/none",
            "Accept: text/html, */*;q=0.1\r\n",
            404,
            "<h1>nothing here",
            "text/html; charset=utf-8",
        ),
        ("POST", "/get", "Content-Length: 0\r\n", 405, "<h1>your mistake", "text/html; charset=utf-8"),
        ("GET", "/files/none", "", 404, "no such file", "text/plain; charset=utf-8"),
        (
            "POST",
            "/files/a.txt",
            "Content-Length: 0\r\n",
            405,
            "<h1>your mistake",
            "text/html; charset=utf-8",
        ),
        ("POST", "/app/x", "Content-Length: 11\r\n", 413, "<h1>your mistake", "text/html; charset=utf-8"),
    ] {
        let response = ask(&server, method, path, fields);
        assert_eq!((response.status, response.text().as_str()), (status, text), "{method} {path}");
        assert_eq!(response.field("content-type"), Some(kind), "{method} {path}");
        assert_eq!(response.field("cache-control"), Some("no-store"), "{method} {path}");
        assert_eq!(response.field("content-length"), Some(text.len().to_string().as_str()));
    }
    // What belongs to the status stays, as do the route's headers.
    let response = ask(&server, "POST", "/files/a.txt", "Content-Length: 0\r\n");
    assert_eq!((response.field("allow"), response.field("x-route")), (Some("GET, HEAD"), Some("1")));
    let head = ask(&server, "HEAD", "/none", "");
    assert_eq!((head.status, head.field("content-type")), (404, Some("text/html; charset=utf-8")));
    assert!(head.body.is_empty());
    // Before a request is routed, or even understood.
    let malformed = server.ask("GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n");
    assert_eq!((malformed.status, malformed.text().as_str()), (400, "<h1>your mistake"));
    // A fixed response is one that is configured already, and an app's is the app's.
    assert_eq!(server.ask(get("/fixed")).text(), "as configured");
    assert_eq!(server.ask(get("/app/x")).text(), "of the app");
}

#[test]
fn a_client_that_prefers_json_gets_no_html() {
    let server = start();
    let response = ask(&server, "GET", "/none", "Accept: application/json\r\n");
    assert_eq!((response.status, response.field("content-type")), (404, Some("application/json")));
    assert_eq!(response.json()["reason"], "no_route");
    let response = ask(&server, "GET", "/hidden/x", "Accept: application/json\r\n");
    assert_eq!((response.status, response.text().as_str()), (404, "of the app"));
    let response = ask(&server, "GET", "/hidden/x?status=503+Later", "Accept: application/json\r\n");
    assert_eq!((response.status, response.text().as_str()), (503, "{\"later\":true}"), "the page is JSON");
}

#[test]
fn errors_of_an_app_are_replaced_on_request() {
    let server = start();
    let mut client = server.client();
    for (query, status, text) in [
        ("", 404, "<h1>nothing here"),
        ("?chunked=1", 404, "<h1>nothing here"),
        ("?status=410+Gone", 410, "<h1>your mistake"),
        ("?status=500+Failed", 500, "of the app"),
        ("?status=200+OK", 200, "of the app"),
        ("?status=302+Found", 302, "of the app"),
        ("?status=503+Later", 503, "{\"later\":true}"),
    ] {
        let response = client.ask(get(&format!("/hidden/x{query}")));
        assert_eq!((response.status, response.text().as_str()), (status, text), "{query}");
        let replaced = text != "of the app";
        assert_eq!(response.field("etag").is_none(), replaced, "{query}");
        assert_eq!(response.all("content-type").len(), 1, "{query}");
        assert_eq!(response.field("content-type") == Some("text/x-app"), !replaced, "{query}");
        assert_eq!((response.field("set-cookie"), response.field("x-app")), (Some("a=b"), Some("1")));
        assert_eq!(response.field("content-length"), Some(text.len().to_string().as_str()), "{query}");
    }
    // Longer than what is read ahead: all of it is dropped, and the connection is kept.
    let long = format!("/hidden/x?body={}", "x".repeat(6000));
    assert_eq!(client.ask(get(&long)).text(), "<h1>nothing here");
    let head = client.ask("HEAD /hidden/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (404, Some("16")));
    client.expect_kept("/get");
    // HTTP/1.0 has no other framing than the length.
    let old = server.ask("GET /hidden/x?chunked=1 HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!((old.status, old.text().as_str()), (404, "<h1>nothing here"));
}

#[test]
fn a_reload_reads_the_pages_again_and_a_missing_one_is_an_error() {
    let server = start();
    fs::write(server.folder().join("errors/404.html"), "new").unwrap();
    assert_eq!(server.ask(get("/none")).text(), "<h1>nothing here");
    server.reload();
    assert_eq!(server.ask(get("/none")).text(), "new");

    let server = Server::spawn(&CONFIG.replace("errors/4xx.html", "errors/gone.html"), |command| {
        place(command.get_current_dir().expect("a folder"));
    });
    assert!(!server.wait_for_exit(Duration::from_secs(20)).success());
    let log = server.log();
    assert!(log.contains("`listen.main.error_pages` cannot be read: No such file or directory"), "{log}");
    assert!(log.contains("keepwarm.toml:4:"), "{log}");
}
