//! Options of served files: headers by name, immutable names, indexes, listings; a file that changes while it is sent.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use keepwarm_tests::{Response, Server, get};

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/list/*"
files = "@DIR@/site"
listing = true
[[listen.main.route]]
path = "/site/*"
files = "@DIR@/site"
index = ["index.htm", "start.html"]
immutable = true
[listen.main.route.file_headers]
"*.html" = { Cache-Control = "no-cache" }
"docs/**" = { X-Docs = ["1", "2"] }
"*.foo" = { Content-Type = "application/x-foo" }
[[listen.main.route]]
path = "/vite/*"
files = "@DIR@/site"
index = []
immutable = "assets/**"
headers = { set = { X-Route = "1" } }
"#;

fn site(folder: &Path) {
    let site = folder.join("site");
    for directory in ["docs/inner", "assets", "start", "empty", ".git"] {
        fs::create_dir_all(site.join(directory)).unwrap();
    }
    for (name, text) in [
        ("a.html", "<p>"),
        ("app-3f2a91bc.js", "1"),
        ("app.js", "1"),
        ("x.foo", "foo"),
        ("docs/b.html", "<p>"),
        ("docs/inner/c.txt", "c"),
        ("assets/any.js", "1"),
        ("start/start.html", "start"),
        ("<b> \"&.txt", "odd"),
        ("config.php", "<?php $secret;"),
        (".env", "secret"),
    ] {
        fs::write(site.join(name), text).unwrap();
    }
    fs::write(folder.join("secret"), "secret").unwrap();
    symlink("../secret", site.join("out")).unwrap();
    symlink("..", site.join("up")).unwrap();
    symlink("docs", site.join("within")).unwrap();
    symlink("gone", site.join("dangling")).unwrap();
}

fn start() -> Server {
    Server::start_with(CONFIG, |command| site(command.get_current_dir().expect("a folder")))
}

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    server.ask(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

const YEAR: &str = "public, max-age=31536000, immutable";

#[test]
fn headers_depend_on_the_name() {
    let server = start();
    for (path, cache, docs, kind) in [
        ("/site/a.html", Some("no-cache"), vec![], "text/html; charset=utf-8"),
        ("/site/docs/b.html", Some("no-cache"), vec!["1", "2"], "text/html; charset=utf-8"),
        ("/site/docs/inner/c.txt", None, vec!["1", "2"], "text/plain; charset=utf-8"),
        ("/site/app-3f2a91bc.js", Some(YEAR), vec![], "text/javascript; charset=utf-8"),
        ("/site/app.js", None, vec![], "text/javascript; charset=utf-8"),
        ("/site/x.foo", None, vec![], "application/x-foo"),
        ("/vite/assets/any.js", Some(YEAR), vec![], "text/javascript; charset=utf-8"),
        ("/vite/app-3f2a91bc.js", None, vec![], "text/javascript; charset=utf-8"),
    ] {
        for method in ["GET", "HEAD"] {
            let response = ask(&server, method, path, "");
            assert_eq!(response.status, 200, "{path}");
            assert_eq!(response.field("cache-control"), cache, "{path}");
            assert_eq!(response.all("x-docs"), docs, "{path}");
            assert_eq!(response.all("content-type"), [kind], "{path}");
        }
    }
    // RFC 9110 §15.4.5: a 304 has the `Cache-Control` of the 200. Parts have it, too.
    let tag = server.ask(get("/site/app-3f2a91bc.js")).field("etag").expect("a tag").to_owned();
    let not_modified = ask(&server, "GET", "/site/app-3f2a91bc.js", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((not_modified.status, not_modified.field("cache-control")), (304, Some(YEAR)));
    let part = ask(&server, "GET", "/site/app-3f2a91bc.js", "Range: bytes=0-0\r\n");
    assert_eq!((part.status, part.field("cache-control")), (206, Some(YEAR)));
    let missing = server.ask(get("/site/app-00000bad.js"));
    assert_eq!(
        (missing.status, missing.field("cache-control")),
        (404, Some("no-store")),
        "an error is not kept"
    );
}

#[test]
fn a_directory_stands_for_its_first_index() {
    let server = start();
    assert_eq!(server.ask(get("/site/start/")).text(), "start");
    assert_eq!(server.ask(get("/site/start")).field("location"), Some("/site/start/"));
    fs::write(server.folder().join("site/start/index.htm"), "first").unwrap();
    assert_eq!(server.ask(get("/site/start/")).text(), "first");
    assert_eq!(server.ask(get("/site/docs/")).status, 404);
    fs::write(server.folder().join("site/start/index.html"), "not an index here").unwrap();
    assert_eq!(server.ask(get("/vite/start/")).status, 404, "no index at all");
}

#[test]
fn a_directory_is_listed_on_request() {
    let server = start();
    let page = server.ask(get("/list/"));
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.field("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert_eq!(page.field("x-content-type-options"), Some("nosniff"));
    let text = page.text();
    assert!(text.contains("<a href=\"./%3Cb%3E%20%22%26.txt\">&lt;b&gt; &quot;&amp;.txt</a>"), "{text}");
    assert!(!text.contains("href=\"../\""), "{text}");
    assert_eq!(server.ask(get("/list/%3Cb%3E%20%22%26.txt")).text(), "odd");

    let json = ask(&server, "GET", "/list/", "Accept: application/json\r\n");
    assert_eq!((json.field("content-type"), json.field("vary")), (Some("application/json"), Some("Accept")));
    let json = json.json();
    let names: Vec<&str> =
        json["entries"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "assets",
            "docs",
            "empty",
            "start",
            "within",
            "<b> \"&.txt",
            "a.html",
            "app-3f2a91bc.js",
            "app.js",
            "x.foo"
        ]
    );
    assert_eq!((&json["entries"][0]["type"], &json["entries"][6]["size"]), (&"directory".into(), &3.into()));

    let inner = server.ask(get("/list/docs/"));
    assert!(inner.text().contains("href=\"../\"") && inner.text().contains("href=\"./inner/\""));
    assert_eq!(server.ask(get("/list/docs")).field("location"), Some("/list/docs/"));
    let head = ask(&server, "HEAD", "/list/docs/", "");
    assert_eq!(head.field("content-length"), Some(inner.body.len().to_string().as_str()));
    assert!(head.body.is_empty());
    assert_eq!(server.ask(get("/list/empty/")).status, 200);
    assert_eq!(ask(&server, "POST", "/list/docs/", "Content-Length: 0\r\n").status, 405);
    for path in ["/list/up/", "/list/.git/", "/list/gone/", "/list/a.html/", "/list/..%2f/", "/site/docs/"] {
        let response = server.ask(get(path));
        assert_eq!(response.status, 404, "{path}");
        assert!(!response.text().contains("secret"), "{path}");
    }
    // The index comes first.
    fs::write(server.folder().join("site/docs/index.html"), "index").unwrap();
    assert_eq!(server.ask(get("/list/docs/")).text(), "index");
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_is_cut_and_never_padded() {
    const LENGTH: usize = 40_000_000;
    let server = start();
    let path = server.folder().join("site/big");
    fs::write(&path, vec![b'x'; LENGTH]).unwrap();
    let mut client = server.client();
    rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 32_768).expect("SO_RCVBUF");
    client.send(get("/site/big"));
    let (status, fields) = client.head("GET");
    let length = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    assert_eq!((status, length.map(|(_, value)| value.as_str())), (200, Some("40000000")));
    fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1_000_000)).unwrap();
    let (rest, _) = client.read_to_end();
    // The kernel clears the rest of the page in which a file ends, also while it is on its way.
    let sure = rest.get(..rest.len().min(1_000_000)).unwrap_or_default();
    assert!(rest.len() < LENGTH && sure.iter().all(|&byte| byte == b'x'), "{}", rest.len());
    server.wait_for_log("a file became shorter while it was sent", Duration::from_secs(10));
    assert_eq!(server.ask(get("/site/big")).body.len(), 1_000_000);
}

/// It is open: its bytes are there until it is closed.
#[test]
fn a_file_that_vanishes_while_it_is_sent_is_sent_whole() {
    const LENGTH: usize = 20_000_000;
    let server = start();
    let path = server.folder().join("site/big");
    fs::write(&path, vec![b'x'; LENGTH]).unwrap();
    let mut client = server.client();
    rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 32_768).expect("SO_RCVBUF");
    client.send(get("/site/big"));
    assert_eq!(client.head("GET").0, 200);
    fs::remove_file(&path).unwrap();
    assert_eq!(client.read_exact(LENGTH).len(), LENGTH);
    assert_eq!(server.ask(get("/site/big")).status, 404);
}

/// Parts that the kernel has, and parts that it has to read: in whatever pieces they leave, the bytes are the file's.
#[test]
fn a_file_that_is_not_in_memory_is_sent_whole() {
    const LENGTH: usize = 5_000_011;
    let server = start();
    let path = server.folder().join("site/cold");
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    let mut client = server.client();
    for (from, to) in [(0, LENGTH), (1, 4_999_999), (65_536, 131_073), (LENGTH - 70_000, LENGTH)] {
        for part in [(0, 0), (1_000_000, 300_000), (4_096, 4_096)] {
            let length = std::num::NonZeroU64::new(part.1);
            rustix::fs::fadvise(&file, part.0, length, rustix::fs::Advice::DontNeed).unwrap();
            let range = format!("Range: bytes={from}-{}\r\n", to - 1);
            let response = client.ask(format!("GET /site/cold HTTP/1.1\r\nHost: a\r\n{range}\r\n"));
            assert_eq!(response.status, 206);
            assert!(response.body == bytes[from..to], "{from}-{to}");
        }
    }
    let several =
        client.ask("GET /site/cold HTTP/1.1\r\nHost: a\r\nRange: bytes=0-99999,200000-399999\r\n\r\n");
    assert_eq!(several.status, 206);
    let body = &several.body;
    assert!(body.windows(200_000).any(|part| part == &bytes[200_000..400_000]));
    client.expect_kept("/site/app.js");
}
