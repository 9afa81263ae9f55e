//! Files: routes that end in a directory, files before an app, files that an app names.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::tools::run_ok;
use keepwarm_tests::{Server, get};

/// A directory to serve, and a secret beside it.
const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/assets/*"
files = "@DIR@/site"
headers = { set = { Cache-Control = "max-age=60" } }
[[listen.main.route]]
path = "/favicon.ico"
files = "@DIR@/site"
[[listen.main.route]]
app = "app"
try_files = "@DIR@/site"
send_files = { "/protected/" = "@DIR@/vault", "/protected/inner/" = "@DIR@/site" }
[app.app]
entry = "handing_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

const BIG: usize = 3_000_001;

fn big(at: usize) -> u8 {
    (at % 251) as u8
}

fn site(folder: &Path) {
    let site = folder.join("site");
    fs::create_dir_all(site.join("docs")).unwrap();
    fs::create_dir_all(site.join("bare")).unwrap();
    fs::create_dir_all(site.join(".well-known")).unwrap();
    fs::create_dir_all(folder.join("vault")).unwrap();
    for (name, text) in [
        ("site/a.txt", "0123456789"),
        ("site/favicon.ico", "icon"),
        ("site/style.CSS", "p{}"),
        ("site/a b&c.html", "<p>"),
        ("site/empty", ""),
        ("site/docs/index.html", "<h1>docs"),
        ("site/docs/x.js", "1"),
        ("site/index.html", "<h1>home"),
        ("site/config.php", "<?php $password = 'secret';"),
        ("site/.env", "PASSWORD=secret"),
        ("site/.well-known/x", "known"),
        ("secret", "secret"),
        ("vault/a.zip", "zip-bytes"),
        ("vault/d.txt", "0123456789"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(site.join("big"), (0..BIG).map(big).collect::<Vec<u8>>()).unwrap();
    symlink("../secret", site.join("out")).unwrap();
    symlink("a.txt", site.join("in.txt")).unwrap();
    symlink("../secret", folder.join("vault/out")).unwrap();
}

fn start() -> Server {
    Server::start_with(CONFIG, |command| site(command.get_current_dir().expect("a folder")))
}

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> keepwarm_tests::Response {
    server.ask(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

#[test]
fn served_and_hidden_files_of_a_folder() {
    let server = start();
    for (path, status, body, kind) in [
        ("/assets/a.txt", 200, "0123456789", "text/plain; charset=utf-8"),
        ("/assets/in.txt", 200, "0123456789", "text/plain; charset=utf-8"),
        ("/assets/style.CSS", 200, "p{}", "text/css; charset=utf-8"),
        ("/assets/a%20b%26c.html", 200, "<p>", "text/html; charset=utf-8"),
        ("/assets/empty", 200, "", "application/octet-stream"),
        ("/assets/", 200, "<h1>home", "text/html; charset=utf-8"),
        ("/assets/docs/", 200, "<h1>docs", "text/html; charset=utf-8"),
        ("/assets/docs/../a.txt", 200, "0123456789", "text/plain; charset=utf-8"),
        ("/assets/.well-known/x", 200, "known", "application/octet-stream"),
        ("/favicon.ico", 200, "icon", "image/vnd.microsoft.icon"),
    ] {
        let response = server.ask(get(path));
        assert_eq!((response.status, response.text().as_str()), (status, body), "{path}");
        assert_eq!(response.field("content-type"), Some(kind), "{path}");
        assert_eq!(response.field("accept-ranges"), Some("bytes"), "{path}");
        assert_eq!(response.field("content-length"), Some(body.len().to_string().as_str()), "{path}");
    }
    for path in [
        "/assets/gone",
        "/assets/out",
        "/assets/.env",
        "/assets/%2eenv",
        "/assets/config.php",
        "/assets/CONFIG.PHP",
        "/assets/a.txt/",
        "/assets/a.txt/x",
        "/assets//a.txt",
        "/assets/bare/",
        "/assets/bare",
        "/assets/..%2f..%2fsecret",
        "/assets/docs%2fx.js",
        "/assets/%5c..%5csecret",
        "/assets/docs/index.html/",
    ] {
        let response = server.ask(get(path));
        assert_eq!(response.status, 404, "{path}");
        assert!(!response.text().contains("secret"), "{path}");
    }
    // Above the prefix nothing belongs to the directory: the app serves it.
    assert_eq!(server.ask(get("/assets/../out")).text(), "app GET /out");
}

#[test]
fn only_reading_is_served() {
    let server = start();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let response = ask(&server, method, "/assets/a.txt", "Content-Length: 0\r\n");
        assert_eq!((response.status, response.field("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let head = ask(&server, "HEAD", "/assets/a.txt", "");
    let whole = ask(&server, "GET", "/assets/a.txt", "");
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    for name in ["etag", "last-modified", "content-type", "cache-control"] {
        assert!(head.field(name).is_some() && head.field(name) == whole.field(name), "{name}");
    }
}

#[test]
fn a_folder_without_its_slash_is_redirected() {
    let server = start();
    let response = server.ask(get("/assets/docs?a=b"));
    assert_eq!((response.status, response.field("location")), (301, Some("/assets/docs/?a=b")));
    // A path that looks like another host's address is not one.
    let response = server.ask(get("//assets/docs"));
    assert_ne!(response.field("location"), Some("//assets/docs/"));
}

#[test]
fn conditions_are_kept() {
    let server = start();
    let plain = server.ask(get("/assets/a.txt"));
    let tag = plain.field("etag").expect("a tag").to_owned();
    let date = plain.field("last-modified").expect("a date").to_owned();
    for (fields, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: \"x\", W/{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        (format!("If-Modified-Since: {date}\r\n"), 304),
        ("If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n".to_owned(), 200),
        (format!("If-Match: {tag}\r\n"), 200),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        ("If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n".to_owned(), 412),
    ] {
        let response = ask(&server, "GET", "/assets/a.txt", &fields);
        assert_eq!(response.status, status, "{fields}");
        if status == 304 {
            assert_eq!(response.field("etag"), Some(tag.as_str()));
            assert_eq!(response.field("cache-control"), Some("max-age=60"), "the route's fields too");
            assert!(response.body.is_empty() && response.field("content-length").is_none());
        }
    }
    fs::write(server.folder().join("site/a.txt"), "changed").unwrap();
    let response = ask(&server, "GET", "/assets/a.txt", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((response.status, response.text().as_str()), (200, "changed"));
    assert_ne!(response.field("etag"), Some(tag.as_str()));
}

/// As asset pipelines lay them out.
#[test]
fn precompressed_files_are_sent_to_clients_that_accept_them() {
    let server = start();
    let site = server.folder().join("site");
    for (name, text) in [
        ("app.css", "plain css"),
        ("app.css.gz", "gzipped css"),
        ("app.css.br", "brotli css"),
        ("app.css.zst", "zstd css"),
        ("only.js", "plain js"),
        ("only.js.br", "brotli js"),
        ("photo.png", "plain png"),
        ("photo.png.gz", "gzipped png"),
    ] {
        fs::write(site.join(name), text).expect("a file");
    }
    // Forgotten when the file was changed.
    fs::write(site.join("old.css.gz"), "old").expect("a file");
    let past = std::time::SystemTime::now() - Duration::from_secs(100);
    fs::File::options()
        .write(true)
        .open(site.join("old.css.gz"))
        .and_then(|file| file.set_modified(past))
        .expect("older");
    fs::write(site.join("old.css"), "new").expect("a file");
    let browser = "gzip, deflate, br, zstd";
    for (path, accepts, body, coding) in [
        ("app.css", browser, "brotli css", Some("br")),
        ("app.css", "gzip", "gzipped css", Some("gzip")),
        ("app.css", "gzip, zstd", "zstd css", Some("zstd")),
        ("app.css", "gzip, zstd, br;q=0.5", "zstd css", Some("zstd")),
        ("app.css", "gzip;q=0.9, br;q=0.5", "gzipped css", Some("gzip")),
        ("app.css", "identity, gzip;q=0.9", "plain css", None),
        ("app.css", "gzip;q=0, br;q=0", "plain css", None),
        ("app.css", "identity", "plain css", None),
        ("only.js", "br", "brotli js", Some("br")),
        ("only.js", browser, "plain js", None),
        ("photo.png", browser, "plain png", None),
        ("old.css", browser, "new", None),
        ("app.css.gz", browser, "gzipped css", None),
    ] {
        let asked =
            ask(&server, "GET", &format!("/assets/{path}"), &format!("Accept-Encoding: {accepts}\r\n"));
        assert_eq!((asked.status, asked.text().as_str()), (200, body), "{path} {accepts}");
        assert_eq!(asked.field("content-encoding"), coding, "{path} {accepts}");
        // caddy#7251
        assert_eq!(asked.field("content-length"), Some(body.len().to_string().as_str()), "{path} {accepts}");
        let varies = path == "app.css" || coding.is_some();
        assert_eq!(asked.field("vary"), varies.then_some("Accept-Encoding"), "{path} {accepts}");
        assert_eq!(asked.field("cache-control"), Some("max-age=60"));
    }
    // Each has validators of its own, and its type is the file's.
    let gzip = ask(&server, "HEAD", "/assets/app.css", "Accept-Encoding: gzip\r\n");
    assert_eq!(
        (gzip.field("content-length"), gzip.field("content-type")),
        (Some("11"), Some("text/css; charset=utf-8"))
    );
    let etag = gzip.field("etag").expect("a validator").to_owned();
    assert_ne!(ask(&server, "HEAD", "/assets/app.css", "").field("etag"), Some(etag.as_str()));
    let again = ask(
        &server,
        "GET",
        "/assets/app.css",
        &format!("Accept-Encoding: gzip\r\nIf-None-Match: {etag}\r\n"),
    );
    assert_eq!((again.status, again.field("vary")), (304, Some("Accept-Encoding")));
    let plain = ask(&server, "GET", "/assets/app.css", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((plain.status, plain.text().as_str()), (200, "plain css"));
    let part = ask(&server, "GET", "/assets/app.css", "Accept-Encoding: gzip\r\nRange: bytes=0-3\r\n");
    assert_eq!(
        (part.status, part.text().as_str(), part.field("content-encoding")),
        (206, "gzip", Some("gzip"))
    );
}

#[test]
fn ranges_are_sent() {
    let server = start();
    for (range, status, content_range, body) in [
        ("bytes=0-3", 206, Some("bytes 0-3/10"), "0123"),
        ("bytes=-2", 206, Some("bytes 8-9/10"), "89"),
        ("bytes=8-", 206, Some("bytes 8-9/10"), "89"),
        ("bytes=8-100", 206, Some("bytes 8-9/10"), "89"),
        ("bytes=0-9", 206, Some("bytes 0-9/10"), "0123456789"),
        ("bytes=4-2", 200, None, "0123456789"),
        ("lines=1-2", 200, None, "0123456789"),
        ("bytes=0-5,2-7", 200, None, "0123456789"),
    ] {
        let response = ask(&server, "GET", "/assets/a.txt", &format!("Range: {range}\r\n"));
        assert_eq!(
            (response.status, response.field("content-range"), response.text().as_str()),
            (status, content_range, body),
            "{range}"
        );
    }
    let response = ask(&server, "GET", "/assets/a.txt", "Range: bytes=10-\r\n");
    assert_eq!((response.status, response.field("content-range")), (416, Some("bytes */10")));
    let response = ask(&server, "HEAD", "/assets/a.txt", "Range: bytes=0-3\r\n");
    assert_eq!((response.status, response.field("content-length")), (200, Some("10")), "HEAD has no ranges");
}

#[test]
fn several_ranges_are_one_message_of_parts() {
    let server = start();
    let response = ask(&server, "GET", "/assets/a.txt", "Range: bytes=0-1,-2\r\n");
    assert_eq!(response.status, 206);
    let kind = response.field("content-type").expect("a type").to_owned();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("parts");
    let part = |range: &str, bytes: &str| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes {range}/10\r\n\r\n{bytes}\r\n"
        )
    };
    let expected = format!("{}{}--{boundary}--\r\n", part("0-1", "01"), part("8-9", "89"));
    assert_eq!(response.text(), expected);
    assert_eq!(response.field("content-range"), None);
}

#[test]
fn a_range_of_another_state_is_the_whole_file() {
    let server = start();
    let tag = server.ask(get("/assets/a.txt")).field("etag").expect("a tag").to_owned();
    let ranged = |if_range: &str| {
        let fields = format!("Range: bytes=0-1\r\nIf-Range: {if_range}\r\n");
        ask(&server, "GET", "/assets/a.txt", &fields).status
    };
    assert_eq!(ranged(&tag), 206);
    assert_eq!(ranged("\"other\""), 200);
    assert_eq!(ranged(&format!("W/{tag}")), 200);
    assert_eq!(ranged("Sat, 01 Jan 2000 00:00:00 GMT"), 200);
}

#[test]
fn a_large_file_comes_whole_and_on_a_kept_connection() {
    let server = start();
    let mut client = server.client();
    for _ in 0..2 {
        let response = client.ask(get("/assets/big"));
        assert_eq!(response.body.len(), BIG);
        assert!(response.body.iter().enumerate().all(|(at, &byte)| byte == big(at)));
    }
    let response = client.ask("GET /assets/big HTTP/1.1\r\nHost: a\r\nRange: bytes=1000000-2999999\r\n\r\n");
    assert_eq!((response.status, response.body.len()), (206, 2_000_000));
    assert!(response.body.iter().enumerate().all(|(at, &byte)| byte == big(1_000_000 + at)));
}

/// A reader that pauses, a client that leaves in the middle: neither keeps other clients from files.
#[test]
fn slow_and_lost_readers_delay_no_other() {
    let server = start();
    let mut slow = server.client();
    rustix::net::sockopt::set_socket_recv_buffer_size(slow.stream(), 32_768).expect("SO_RCVBUF");
    slow.send(get("/assets/big"));
    assert_eq!(slow.head("GET").0, 200);
    let mut lost = server.client();
    lost.send(get("/assets/big"));
    lost.head("GET");
    lost.reset();
    assert_eq!(server.ask(get("/assets/a.txt")).status, 200);
    assert_eq!(slow.read_exact(BIG).len(), BIG);
    slow.expect_kept("/assets/a.txt");
}

#[test]
fn curl_resumes_a_download() {
    let server = start();
    let file = server.folder().join("part");
    fs::write(&file, (0..1_000_000).map(big).collect::<Vec<u8>>()).unwrap();
    let mut curl = Command::new("curl");
    curl.args(["-sSf", "-C", "-", "-o"]).arg(&file).arg(server.url("/assets/big"));
    run_ok(&mut curl, Duration::from_secs(20));
    let got = fs::read(&file).unwrap();
    assert!(got.len() == BIG && got.iter().enumerate().all(|(at, &byte)| byte == big(at)));
}

#[test]
fn a_file_of_the_folder_comes_before_the_app_and_nothing_else_does() {
    let server = start();
    for (method, path, text) in [
        ("GET", "/a.txt", "0123456789"),
        ("GET", "/", "<h1>home"),
        ("GET", "/docs/x.js", "1"),
        ("POST", "/a.txt", "app POST /a.txt"),
        ("GET", "/gone", "app GET /gone"),
        ("GET", "/bare/", "app GET /bare/"),
        ("GET", "/out", "app GET /out"),
        ("GET", "/.env", "app GET /.env"),
        ("GET", "/config.php", "app GET /config.php"),
        ("GET", "/..%2fsecret", "app GET /../secret"),
    ] {
        let response =
            ask(&server, method, path, if method == "POST" { "Content-Length: 0\r\n" } else { "" });
        assert_eq!((response.status, response.text().as_str()), (200, text), "{method} {path}");
    }
}

#[test]
fn a_file_that_may_not_be_read_is_forbidden() {
    // Root may read everything; then only that it gets a response at all is looked at.
    let server = start();
    let file = server.folder().join("site/closed.txt");
    fs::write(&file, "closed").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o0)).unwrap();
    let status = server.ask(get("/assets/closed.txt")).status;
    assert!(status == if rustix::process::geteuid().is_root() { 200 } else { 403 }, "{status}");
}

#[test]
fn an_app_names_a_file_and_keepwarm_sends_it() {
    let server = start();
    let hand = |query: &str, fields: &str| ask(&server, "GET", &format!("/hand?{query}"), fields);
    let response =
        hand("X-Accel-Redirect=/protected/a.zip&Content-Disposition=attachment&Set-Cookie=a%3Db", "");
    assert_eq!((response.status, response.text().as_str()), (200, "zip-bytes"));
    assert_eq!(response.field("content-type"), Some("application/zip"));
    assert_eq!(response.field("content-disposition"), Some("attachment"));
    assert_eq!(response.field("set-cookie"), Some("a=b"));
    assert_eq!(response.field("x-accel-redirect"), None, "its own path is nobody's business");
    let names = |response: &keepwarm_tests::Response| -> Vec<String> {
        let theirs = ["content-disposition", "content-type", "set-cookie"];
        let names = response.fields.iter().map(|(name, _)| name.clone());
        names.filter(|name| theirs.contains(&name.to_ascii_lowercase().as_str())).collect()
    };
    assert_eq!(
        names(&response),
        ["Content-Disposition", "Set-Cookie", "content-type"],
        "as the app wrote them"
    );
    let typed = hand("X-Accel-Redirect=/protected/a.zip&Content-Type=text/x&set-Cookie=a", "");
    assert_eq!(names(&typed), ["set-Cookie", "Content-Type"], "as the app wrote them");

    let file = server.folder().join("vault/d.txt");
    let by_path = format!("X-Sendfile={}&Content-Type=text/x", file.display());
    let response = hand(&by_path, "Range: bytes=2-3\r\n");
    assert_eq!((response.status, response.text().as_str()), (206, "23"));
    assert_eq!(response.field("content-type"), Some("text/x"), "the app's word goes first");
    let tag = response.field("etag").expect("a tag").to_owned();
    assert_eq!(hand(&by_path, &format!("If-None-Match: {tag}\r\n")).status, 304);

    assert_eq!(hand("X-Accel-Redirect=/protected/inner/a.txt?x", "").text(), "0123456789");
    let response =
        hand("status=404+Not+Found&X-Accel-Redirect=/protected/inner/a.txt", "Range: bytes=0-1\r\n");
    assert_eq!(
        (response.status, response.text().as_str()),
        (404, "0123456789"),
        "another status has no ranges"
    );
}

#[test]
fn an_app_can_name_files_in_declared_folders_only() {
    let server = start();
    let secret = server.folder().join("secret");
    let vault = server.folder().join("vault");
    for query in [
        "X-Accel-Redirect=/etc/passwd".to_owned(),
        "X-Accel-Redirect=/protected/../secret".to_owned(),
        "X-Accel-Redirect=/protected/%252e%252e/secret".to_owned(),
        "X-Accel-Redirect=/protected/out".to_owned(),
        "X-Accel-Redirect=/protected/".to_owned(),
        "X-Accel-Redirect=/protected".to_owned(),
        "X-Accel-Redirect=/protected/gone".to_owned(),
        "X-Sendfile=/etc/passwd".to_owned(),
        format!("X-Sendfile={}", secret.display()),
        format!("X-Sendfile={}/../secret", vault.display()),
        format!("X-Sendfile={}/out", vault.display()),
        format!("X-Sendfile={}x/a.zip", vault.display()),
        "X-Sendfile=a.zip".to_owned(),
    ] {
        let response = server.ask(get(&format!("/hand?{query}")));
        assert_eq!(response.status, 502, "{query}");
        assert!(!response.text().contains("secret") && !response.text().contains("root:"), "{query}");
        server.wait_for_log("the app named a file that cannot be sent", Duration::from_secs(10));
    }
    // The client's own fields have no effect.
    let response =
        ask(&server, "GET", "/x", "X-Accel-Redirect: /protected/a.zip\r\nX-Sendfile: /etc/passwd\r\n");
    assert_eq!(response.text(), "app GET /x");
}

#[test]
fn without_declared_folders_the_fields_are_passed_on() {
    let config = CONFIG
        .lines()
        .filter(|line| !line.starts_with("send_files"))
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    let server = Server::start_with(&config, |command| site(command.get_current_dir().expect("a folder")));
    let response = server.ask(get("/hand?X-Accel-Redirect=/protected/a.zip"));
    assert_eq!((response.status, response.text().as_str()), (200, "not it!"));
    assert_eq!(response.field("x-accel-redirect"), Some("/protected/a.zip"));
}

#[test]
fn a_missing_folder_is_reported_before_anything_starts() {
    let server = Server::spawn(&CONFIG.replace("@DIR@/site", "@DIR@/none"), |_| {});
    assert!(!server.wait_for_exit(Duration::from_secs(20)).success());
    let log = server.log();
    assert!(log.contains("`listen.main.route[1].files` does not exist"), "{log}");
}
