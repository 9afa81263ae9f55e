//! Error pages that an app makes, and error pages under compression.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use flate2::read::GzDecoder;
use keepwarm_tests::http2::Http2;
use keepwarm_tests::{Response, Server, get};

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
error_pages = { 4xx = { app = "pages", path = "/page?kind=client" }, 500 = { app = "pages", path = "/same" }, 501 = { app = "pages", path = "/broken" }, 502 = { app = "pages", path = "/dies" }, 503 = { app = "pages", path = "/huge" } }
[[listen.main.route]]
path = "/files/*"
files = "@DIR@"
headers = { set = { X-Route = "1" } }
[[listen.main.route]]
path = "/get"
method = "GET"
respond = 200
[[listen.main.route]]
path = "/small"
app = "pages"
max_body = 3
[[listen.main.route]]
path = "/status/*"
app = "pages"
intercept_errors = true
[[listen.main.route]]
path = "/packed/*"
files = "@DIR@"
compress = { min_size = 1 }
error_pages = { 404 = "@DIR@/404.html" }
[[listen.main.route]]
path = "/packed-app/*"
files = "@DIR@"
compress = { min_size = 1 }
[app.pages]
entry = "pages:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
workers = 1
"#;

const PAGES: &str = r#"
import os

NAMES = ["X_ERROR_STATUS", "X_ERROR_REASON", "X_ORIGINAL_URI", "X_ORIGINAL_METHOD"]

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/status/"):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"].read(length)
        headers = [("Content-Type", "text/x-app"), ("Set-Cookie", "app=1"), ("ETag", '"x"'), ("Retry-After", "7")]
        start_response(path[8:] + " As asked", headers)
        return [b"of the app"]
    if path == "/dies":
        os._exit(3)
    if path == "/broken":
        start_response("404 Not Found", [])
        return [b"no page"]
    if path == "/huge":
        start_response("200 OK", [])
        return [b"x" * (1 << 20), b"x"]
    status = "500 Failed" if path == "/same" else "200 OK"
    headers = [("Content-Type", "text/html"), ("Set-Cookie", "page=1"), ("ETag", '"page"'), ("Cache-Control", "public")]
    start_response(status, headers)
    seen = [environ.get("HTTP_" + name, "-") for name in NAMES]
    told = [environ["REQUEST_METHOD"], environ.get("CONTENT_LENGTH") or "0", environ["QUERY_STRING"]]
    return ["|".join(seen + told).encode()]
"#;

fn start() -> Server {
    Server::start_with(CONFIG, |command| {
        let folder: &Path = command.get_current_dir().expect("a folder");
        fs::write(folder.join("pages.py"), PAGES).expect("a file");
        fs::write(folder.join("404.html"), "nothing here ".repeat(100)).expect("a file");
    })
}

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    server.ask(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

#[test]
fn an_app_makes_the_page_and_the_status_stays() {
    let server = start();
    for (method, path, fields, status, text) in [
        ("GET", "/none?a=%20", "", 404, "404|no_route|/none?a=%20|GET|GET|0|kind=client"),
        ("GET", "/./x/../none", "", 404, "404|no_route|/none|GET|GET|0|kind=client"),
        ("POST", "/get", "Content-Length: 0\r\n", 405, "405|method_not_allowed|/get|POST|GET|0|kind=client"),
        ("GET", "/files/none", "", 404, "404|no_file|/files/none|GET|GET|0|kind=client"),
        // A client's own of these names are dropped.
        (
            "GET",
            "/none",
            "X-Error-Status: 200\r\nx_error_reason: forged\r\nX-Original-URI: /forged\r\n",
            404,
            "404|no_route|/none|GET|GET|0|kind=client",
        ),
        // A program gets what the app makes of its `Accept`.
        ("GET", "/none", "Accept: application/json\r\n", 404, "404|no_route|/none|GET|GET|0|kind=client"),
        ("GET", "/status/404", "", 404, "404|-|/status/404|GET|GET|0|kind=client"),
        ("GET", "/status/500", "", 500, "500|-|/status/500|GET|GET|0|"),
    ] {
        let response = ask(&server, method, path, fields);
        assert_eq!((response.status, response.text().as_str()), (status, text), "{method} {path}");
        assert_eq!(response.field("content-type"), Some("text/html"), "{path}");
        assert_eq!(response.all("cache-control"), ["no-store"], "{path}");
        assert!(response.field("etag").is_none(), "{path}");
    }
    let response = ask(&server, "POST", "/files/a", "Content-Length: 0\r\n");
    assert_eq!((response.field("allow"), response.field("x-route")), (Some("GET, HEAD"), Some("1")));
    // What the app says about the error stays, and cookies add up.
    let response = ask(&server, "GET", "/status/429", "");
    assert_eq!((response.status, response.field("retry-after")), (429, Some("7")));
    let mut cookies = response.all("set-cookie");
    cookies.sort_unstable();
    assert_eq!(cookies, ["app=1", "page=1"]);
    // HEAD has the head of GET.
    let head = ask(&server, "HEAD", "/none", "");
    assert_eq!((head.status, head.field("content-type")), (404, Some("text/html")));
    assert!(head.body.is_empty());
    // No app is asked about a request that is not understood.
    let malformed = server.ask("GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n");
    assert_eq!(malformed.status, 400);
    assert!(malformed.text().contains("Request id"), "{}", malformed.text());
}

#[test]
fn an_app_that_fails_leads_to_no_other_page() {
    let server = start();
    for (status, cause) in [(501, "404"), (502, "502"), (503, "TooLarge")] {
        let response = ask(&server, "GET", &format!("/status/{status}"), "");
        assert_eq!(response.status, status);
        assert_eq!(response.field("retry-after"), Some("7"), "{status}");
        if status != 502 {
            assert!(response.text().contains("Request id"), "{status}: {}", response.text());
            server.wait_for_log(&format!("cause={cause}"), Duration::from_secs(10));
        }
    }
    // The connection and the app go on.
    assert_eq!(ask(&server, "GET", "/none", "").status, 404);
}

#[test]
fn bodies_are_read_and_the_connection_is_kept() {
    let server = start();
    let mut client = server.client();
    client.send("POST /status/404 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde");
    let response = client.response("POST");
    assert_eq!(
        (response.status, response.text().as_str()),
        (404, "404|-|/status/404|POST|GET|0|kind=client")
    );
    // A body that nobody has read is not the next request.
    client.send(
        "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nGET /get HTTP/1.1\r\nHost: a\r\n\r\n.",
    );
    assert_eq!(client.response("POST").text(), "404|no_route|/none|POST|GET|0|kind=client");
    client.send(get("/none"));
    assert_eq!(client.response("GET").status, 404);
    let large = server.ask("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd");
    assert_eq!((large.status, large.says_close()), (413, true));
    assert!(large.text().starts_with("413|body_too_large|/small|POST|GET|0|"), "{}", large.text());
}

#[test]
fn it_is_the_same_over_http2() {
    let server = start();
    let mut client = Http2::connect(server.address());
    client.request(1, "/none", &[]);
    assert_eq!(client.response(1), (404, b"404|no_route|/none|GET|GET|0|kind=client".to_vec()));
    client.request(3, "/status/500", &[]);
    assert_eq!(client.response(3), (500, b"500|-|/status/500|GET|GET|0|".to_vec()));
}

#[test]
fn pages_are_compressed_as_the_route_says() {
    let server = start();
    let plain = "nothing here ".repeat(100);
    for (path, text) in [
        ("/packed/none", plain.as_str()),
        ("/packed-app/none", "404|no_file|/packed-app/none|GET|GET|0|kind=client"),
    ] {
        let response = ask(&server, "GET", path, "Accept-Encoding: gzip\r\n");
        assert_eq!(response.status, 404, "{path}");
        assert_eq!(response.field("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{path}");
        let mut unpacked = String::new();
        GzDecoder::new(response.body.as_slice()).read_to_string(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, text);
        let head = ask(&server, "HEAD", path, "Accept-Encoding: gzip\r\n");
        assert_eq!(head.field("content-encoding"), response.field("content-encoding"), "{path}");
        let unpacked = ask(&server, "GET", path, "");
        assert_eq!((unpacked.field("content-encoding"), unpacked.text().as_str()), (None, text), "{path}");
    }
}

/// The client leaves while its page is made: the app's request ends, and the server keeps running.
#[test]
fn a_client_that_leaves_leaves_nothing() {
    let server = start();
    let mut gone = std::net::TcpStream::connect(server.address()).expect("a connection");
    gone.write_all(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    drop(gone);
    assert_eq!(ask(&server, "GET", "/none", "").status, 404);
}
