//! Compression of responses, decoded by other people's programs: curl (with zlib, libbrotli and libzstd), gzip and zstd.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::origin::Origin;
use keepwarm_tests::tools::{run, run_ok};
use keepwarm_tests::{Framing, Response, Server, admin, get};

const BOUND: Duration = Duration::from_secs(30);
const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// The listener compresses; some routes do not, or otherwise.
const CONFIG: &str = r#"
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
compress = true
[[listen.main.route]]
path = "/plain/*"
compress = false
files = "@DIR@/site"
[[listen.main.route]]
path = "/files/*"
files = "@DIR@/site"
[[listen.main.route]]
path = "/fixed"
respond = { status = 200, content_type = "text/plain", body = "@FIXED@" }
[[listen.main.route]]
path = "/gzip-only"
compress = { codings = ["gzip"], min_size = "10KiB", types = ["text/plain"], level = "small" }
respond = { status = 200, content_type = "text/plain", body = "@FIXED@" }
[[listen.main.route]]
path = "/denied"
deny = ["127.0.0.1"]
respond = 200
[[listen.main.route]]
app = "app"
[app.app]
entry = "compress_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

fn fixed() -> String {
    "All work and no play. ".repeat(500)
}

fn page() -> String {
    (0..2000).map(|number| format!("<li>item {number}</li>\n")).collect()
}

fn start() -> Server {
    let config = CONFIG.replace("@FIXED@", &fixed());
    Server::start_with(&config, |command| {
        let site = command.get_current_dir().expect("a folder").join("site");
        fs::create_dir_all(&site).unwrap();
        fs::write(site.join("page.html"), page()).unwrap();
        fs::write(site.join("short.html"), "short").unwrap();
        fs::write(site.join("once.css"), page()).unwrap();
        fs::write(site.join("once.css.br"), "compressed before").unwrap();
        fs::write(site.join("noise.png"), page()).unwrap();
        fs::write(site.join("large.txt"), page().repeat(60)).unwrap();
    })
    .warm("/say")
}

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    server.ask(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n"))
}

fn ask_gzip(server: &Server, path: &str) -> Response {
    ask(server, "GET", path, "Accept-Encoding: gzip\r\n")
}

fn curl(server: &Server, coding: &str, path: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sSN", "--compressed", "-H", &format!("Accept-Encoding: {coding}"), &server.url(path)]);
    command
}

/// What `gzip -dc` makes of it, and whether that is a whole message.
fn gunzip(server: &Server, bytes: &[u8]) -> (String, bool) {
    let file = server.folder().join("response.gz");
    fs::write(&file, bytes).unwrap();
    let output = run(Command::new("gzip").arg("-dc").stdin(Stdio::null()).arg(&file), BOUND);
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

fn body_of(count: usize) -> String {
    let line = "<li class=item>0123456789abcdef";
    let mut body: String = (0..=count / line.len()).map(|number| format!("{line} {number}</li>\n")).collect();
    body.truncate(count);
    body
}

#[test]
fn every_coding_is_decoded_by_others() {
    let server = start();
    for coding in CODINGS {
        for (path, expected) in [
            ("/say?bytes=5000&length=0", body_of(5000)),
            ("/say?bytes=70000", body_of(70_000)),
            ("/say?bytes=70000&parts=1000", body_of(70_000)),
            ("/say?bytes=3000&parts=3000", body_of(3000)),
            ("/say?bytes=300000&parts=5&length=0", body_of(300_000)),
            ("/files/page.html", page()),
            ("/files/large.txt", page().repeat(60)),
            ("/fixed", fixed()),
        ] {
            let response = ask(&server, "GET", path, &format!("Accept-Encoding: {coding}\r\n"));
            assert_eq!(response.field("content-encoding"), Some(coding), "{path}");
            assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{path}");
            assert_eq!(response.field("accept-ranges"), None, "{path}");
            assert!(matches!(response.framing, Framing::Chunked), "{path}");
            assert!(response.body.len() < expected.len() / 2 + 64, "{path}: {} bytes", response.body.len());
            assert_eq!(run_ok(&mut curl(&server, coding, path), BOUND), expected, "{coding} {path}");
        }
    }
    for coding in CODINGS {
        let named = |name: &str| format!("{name}{{coding=\"{coding}\"}}");
        admin::wait_for_metric(&server, &named("keepwarm_compressed_responses_total"), 16.0);
    }
    let metrics = admin::metrics(&server);
    for coding in CODINGS {
        let of = |name: &str| metrics[&format!("{name}{{coding=\"{coding}\"}}")];
        assert!(
            of("keepwarm_compression_input_bytes_total")
                > 4.0 * of("keepwarm_compression_output_bytes_total")
        );
    }
    assert_eq!(metrics["keepwarm_compression_skipped_total"], 0.0);
}

#[test]
fn what_the_client_or_the_response_forbids_is_sent_as_it_is() {
    let server = start();
    let gzip = "Accept-Encoding: gzip\r\n";
    for (path, fields, encoding, vary) in [
        ("/say", "", None, Some("Accept-Encoding")),
        ("/say", "Accept-Encoding: gzip;q=0, identity\r\n", None, Some("Accept-Encoding")),
        ("/say", "Accept-Encoding: gzip;q=0.5, identity\r\n", None, Some("Accept-Encoding")),
        ("/say", "Accept-Encoding: gzip\r\nCache-Control: no-transform\r\n", None, Some("Accept-Encoding")),
        ("/say", "Accept-Encoding: gzip;q=0.5, br;q=0.7\r\n", Some("br"), Some("Accept-Encoding")),
        ("/say?header=Content-Type:image/png", gzip, None, None),
        ("/say?header=Cache-Control:public,no-transform", gzip, None, None),
        ("/say?header=Content-Encoding:zstd", gzip, Some("zstd"), None),
        ("/say?header=Content-Encoding:identity", gzip, None, None),
        ("/say?header=Content-MD5:abc", gzip, None, None),
        ("/say?header=Vary:accept-encoding", gzip, Some("gzip"), Some("accept-encoding")),
        ("/say?bytes=1023&length=0", gzip, None, Some("Accept-Encoding")),
        ("/say?bytes=1024&length=0", gzip, Some("gzip"), Some("Accept-Encoding")),
        (
            "/say?bytes=100&length=0",
            "Accept-Encoding: gzip, identity;q=0\r\n",
            Some("gzip"),
            Some("Accept-Encoding"),
        ),
        ("/say?status=206&header=Content-Range:bytes 0-4999/9000", gzip, None, Some("Accept-Encoding")),
        ("/say?status=404", gzip, Some("gzip"), Some("Accept-Encoding")),
        ("/files/short.html", gzip, None, Some("Accept-Encoding")),
        ("/files/noise.png", gzip, None, None),
        ("/plain/page.html", gzip, None, None),
        ("/gzip-only", "Accept-Encoding: br, zstd\r\n", None, Some("Accept-Encoding")),
        ("/gzip-only", "Accept-Encoding: br, zstd, gzip;q=0.1\r\n", Some("gzip"), Some("Accept-Encoding")),
    ] {
        let response = ask(&server, "GET", &path.replace(' ', "%20"), fields);
        assert_eq!(response.field("content-encoding"), encoding, "{path} {fields}");
        assert_eq!(response.field("vary"), vary, "{path} {fields}");
    }
}

/// A file that was compressed beforehand is sent as it is, with its length and its own strong tag.
#[test]
fn files_are_compressed_only_where_there_is_no_variant() {
    let server = start();
    let response = ask(&server, "GET", "/files/once.css", "Accept-Encoding: gzip, br, zstd\r\n");
    assert_eq!(response.field("content-encoding"), Some("br"));
    assert_eq!(
        (response.field("content-length"), response.text().as_str()),
        (Some("17"), "compressed before")
    );
    assert_eq!(response.field("vary"), Some("Accept-Encoding"));
    assert!(response.field("etag").is_some_and(|tag| tag.starts_with('"')));
    let response = ask_gzip(&server, "/files/once.css");
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert_eq!(gunzip(&server, &response.body), (page(), true));
}

#[test]
fn head_has_the_head_of_get() {
    let server = start();
    for path in ["/say?bytes=5000&length=0", "/files/page.html", "/fixed", "/tagged", "/files/noise.png"] {
        let (head, get) = (ask(&server, "HEAD", path, "Accept-Encoding: gzip\r\n"), ask_gzip(&server, path));
        for name in ["content-encoding", "vary", "etag", "content-length", "content-type"] {
            assert_eq!(head.field(name), get.field(name), "{path} {name}");
        }
        assert!(head.body.is_empty(), "{path}");
    }
}

#[test]
fn http_1_0_is_never_compressed() {
    let server = start();
    for fields in ["", "Connection: keep-alive\r\n"] {
        let response = server
            .ask(format!("GET /fixed HTTP/1.0\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n{fields}\r\n"));
        assert_eq!(response.field("content-encoding"), None);
        assert_eq!(response.field("content-length"), Some(fixed().len().to_string().as_str()));
        assert_eq!(response.text(), fixed());
    }
}

/// caddy#5849, jetty#14137
#[test]
fn tags_are_weak_and_lead_back() {
    let server = start();
    for path in ["/tagged", "/files/page.html"] {
        let plain = ask(&server, "GET", path, "");
        let strong = plain.field("etag").expect("a tag").to_owned();
        assert!(strong.starts_with('"'), "{strong}");
        let coded = ask_gzip(&server, path);
        let weak = coded.field("etag").expect("a tag").to_owned();
        assert_eq!(weak, format!("W/{};gzip\"", strong.trim_end_matches('"')));
        for (held, fields) in
            [(&weak, "Accept-Encoding: gzip\r\n"), (&strong, "Accept-Encoding: gzip\r\n"), (&strong, "")]
        {
            let response = ask(&server, "GET", path, &format!("{fields}If-None-Match: {held}\r\n"));
            assert_eq!(response.status, 304, "{path} {held}");
            assert_eq!(response.field("etag"), Some(held.as_str()), "the tag of what the client has");
            assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{path}");
            assert_eq!(response.field("content-encoding"), None, "{path}");
        }
        let other = ask(&server, "GET", path, "If-None-Match: W/\"other;gzip\"\r\n");
        assert_eq!(other.status, 200);
    }
    let seen = ask(&server, "GET", "/tagged", "If-Match: W/\"v1;br\"\r\n");
    assert_eq!(seen.field("x-seen"), Some("\"v1\""), "a condition of an update finds the app's tag");
    let seen = ask(&server, "GET", "/tagged", "If-None-Match: W/\"own\"\r\n");
    assert_eq!(seen.field("x-seen"), Some("W/\"own\""), "a weak tag of the app stays as it is");
}

#[test]
fn ranges_are_of_the_file_as_it_is() {
    let server = start();
    for range in ["bytes=0-9", "bytes=0-9,20-29"] {
        let response =
            ask(&server, "GET", "/files/page.html", &format!("Accept-Encoding: gzip\r\nRange: {range}\r\n"));
        assert_eq!(response.status, 206, "{range}");
        assert_eq!(response.field("content-encoding"), None);
        assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{range}");
        assert!(response.field("etag").is_some_and(|tag| tag.starts_with('"')));
    }
    let tag = ask_gzip(&server, "/files/page.html").field("etag").expect("a tag").to_owned();
    let fields = format!("Accept-Encoding: gzip\r\nRange: bytes=0-9\r\nIf-Range: {tag}\r\n");
    let response = ask(&server, "GET", "/files/page.html", &fields);
    assert_eq!(response.status, 200, "no part fits to a compressed beginning");
}

/// caddy#7235
#[test]
fn error_pages_are_compressed_right() {
    let server = start();
    for (path, status) in [("/denied", 403), ("/files/none", 404)] {
        let fields = "Accept: text/html\r\nAccept-Encoding: gzip, identity;q=0\r\n";
        let response = ask(&server, "GET", path, fields);
        assert_eq!(response.status, status);
        assert_eq!(response.field("content-encoding"), Some("gzip"), "{path}");
        let (text, whole) = gunzip(&server, &response.body);
        assert!(whole && text.contains("<html") && text.contains("</html>"), "{path}: {text}");
    }
}

/// caddy#6293, kamal-proxy#46
#[test]
fn events_and_their_head_arrive_at_once() {
    let server = start();
    for coding in CODINGS {
        let mut client = server.client();
        client.send(format!("GET /silent HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: {coding}\r\n\r\n"));
        let (status, fields) = client.head("GET");
        assert_eq!(status, 200);
        let encoding = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
        assert_eq!(encoding.map(|(_, value)| value.as_str()), Some(coding));
        drop(client);
    }
    for coding in CODINGS {
        let mut events = Events::of(curl(&server, coding, "/events"));
        for number in 0..3 {
            ask(&server, "GET", "/next", "");
            assert_eq!(events.line(), format!("data: {number}"), "{coding}");
            assert_eq!(events.line(), "");
        }
        ask(&server, "GET", "/next", "");
        events.expect_success();
    }
}

#[test]
fn a_body_of_known_length_that_pauses_is_shown_so_far() {
    let server = start();
    for coding in CODINGS {
        let mut events = Events::of(curl(&server, coding, "/known"));
        assert_eq!(events.line(), "a".repeat(999), "{coding}");
        ask(&server, "GET", "/next", "");
        assert_eq!(events.line(), "b".repeat(999), "{coding}");
        ask(&server, "GET", "/next", "");
        events.expect_success();
    }
}

/// curl, and its output line by line.
struct Events {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Events {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("curl");
        let reader = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            reader.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    #[track_caller]
    fn line(&mut self) -> String {
        self.lines.recv_timeout(BOUND).expect("a line")
    }

    #[track_caller]
    fn expect_success(&mut self) {
        assert!(self.lines.recv_timeout(BOUND).is_err(), "no further line");
        assert!(self.child.wait().expect("curl ends").success());
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cut stays a cut: neither the framing nor the coding looks complete.
#[test]
fn a_response_that_breaks_off_never_looks_whole() {
    let server = start();
    for path in
        ["/say?bytes=200000&parts=4&cut=2", "/say?bytes=5000&parts=4&cut=3", "/say?bytes=5000&length=1"]
    {
        for coding in CODINGS {
            let output = run(&mut curl(&server, coding, path), BOUND);
            assert!(!output.status.success(), "{coding} {path}");
        }
        let mut client = server.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n\r\n"));
        let (bytes, _) = client.read_to_end();
        assert!(!bytes.ends_with(b"0\r\n\r\n"), "{path}: the end of a chunked body");
    }
    // More than was stated is not sent, and what was stated is whole.
    let response = ask_gzip(&server, "/say?bytes=5000&length=-1000");
    let (text, whole) = gunzip(&server, &response.body);
    assert!(whole && text == body_of(5000)[..4000], "{text}");
}

#[test]
fn apps_of_every_kind_are_compressed() {
    for (name, config, path) in [
        ("wsgi", keepwarm_tests::WSGI, "/big?bytes=150000"),
        ("asgi", keepwarm_tests::ASGI, "/pong"),
        ("rack", keepwarm_tests::RACK, "/pong"),
        ("php", keepwarm_tests::PHP, "/pong"),
    ] {
        let compress = "compress = { types = [\"*/*\"], min_size = \"0B\" }";
        let bind = "bind = \"127.0.0.1:0\"";
        let server = Server::start(&config.replacen(bind, &format!("{bind}\n{compress}"), 1)).warm("/pong");
        let plain = ask(&server, "GET", path, "").text();
        assert!(plain == "pong" || plain.len() == 150_000, "{name}: {plain}");
        for coding in CODINGS {
            assert_eq!(run_ok(&mut curl(&server, coding, path), BOUND), plain, "{name} {coding}");
            let response = ask(&server, "GET", path, &format!("Accept-Encoding: {coding}\r\n"));
            assert_eq!(response.field("content-encoding"), Some(coding), "{name}");
            assert!(response.body.len() < 10_000, "{name}");
        }
    }
}

const UPSTREAM: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
compress = true
[[listen.main.route]]
upstream = "origin"
[upstream.origin]
url = "http://@ORIGIN@"
"#;

#[test]
fn responses_of_upstreams_are_compressed() {
    let body: &'static str = Box::leak(page().into_boxed_str());
    let origin = Origin::start(move |request, stream| {
        use std::io::Write;
        let encoded = if request.target() == "/coded" { "Content-Encoding: x-own\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{encoded}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
        keepwarm_tests::origin::After::Keep
    });
    let server = Server::start(&UPSTREAM.replace("@ORIGIN@", &origin.address().to_string()));
    for coding in CODINGS {
        assert_eq!(run_ok(&mut curl(&server, coding, "/"), BOUND), body, "{coding}");
    }
    let response = ask_gzip(&server, "/coded");
    assert_eq!(response.field("content-encoding"), Some("x-own"), "never twice");
    assert_eq!(response.text(), body);
}

/// BREACH: a page that sets a cookie over TLS, which a trusted proxy has ended here.
#[test]
fn cookies_over_tls_are_compressed_on_request_only() {
    let trusted = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let path = "/say?header=Set-Cookie:session=1";
    let fields = "Accept-Encoding: gzip\r\nX-Forwarded-For: 192.0.2.1\r\n";
    for (compress, proto, encoding) in [
        ("true", "https", None),
        ("true", "http", Some("gzip")),
        ("{ set_cookie = true }", "https", Some("gzip")),
    ] {
        let config =
            CONFIG.replace("@FIXED@", "x").replace("compress = true", &format!("compress = {compress}"));
        let server = Server::start_with(&format!("{trusted}{config}"), |command| {
            let folder: &Path = command.get_current_dir().expect("a folder");
            fs::create_dir_all(folder.join("site")).unwrap();
        });
        let response = ask(&server, "GET", path, &format!("{fields}X-Forwarded-Proto: {proto}\r\n"));
        assert_eq!(response.field("content-encoding"), encoding, "{compress} {proto}");
    }
}

#[test]
fn at_the_limit_of_memory_responses_are_sent_as_they_are() {
    let config =
        format!("[server.limits]\ncompression_memory = \"1MiB\"\n{}", CONFIG.replace("@FIXED@", &fixed()));
    let server = Server::start_with(&config, |command| {
        fs::create_dir_all(command.get_current_dir().expect("a folder").join("site")).unwrap();
    });
    // brotli needs more than that in any case, gzip less.
    let response = ask(&server, "GET", "/fixed", "Accept-Encoding: br\r\n");
    assert_eq!((response.field("content-encoding"), response.text()), (None, fixed()));
    assert_eq!(response.field("vary"), Some("Accept-Encoding"));
    assert_eq!(ask_gzip(&server, "/fixed").field("content-encoding"), Some("gzip"));
    // Streams hold theirs until nothing is left.
    let mut streams = Vec::new();
    loop {
        let mut client = server.client();
        client.send(get("/events").replace("\r\n\r\n", "\r\nAccept-Encoding: gzip\r\n\r\n"));
        let (_, fields) = client.head("GET");
        streams.push(client);
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-encoding")) {
            break;
        }
        assert!(streams.len() < 10, "no limit");
    }
    admin::wait_for_metric(&server, "keepwarm_compression_skipped_total", 2.0);
    drop(streams);
    admin::wait_for_metric(&server, "keepwarm_compressed_responses_total{coding=\"gzip\"}", 3.0);
    assert_eq!(ask_gzip(&server, "/fixed").field("content-encoding"), Some("gzip"), "there is room again");
}

/// One large response that is compressed does not hold up others of its thread.
#[test]
fn small_requests_are_served_beside_large_compressed_ones() {
    let config = format!("[server]\nthreads = 1\n{}", CONFIG.replace("@FIXED@", &fixed()));
    let server = Server::start_with(&config, |command| {
        let site = command.get_current_dir().expect("a folder").join("site");
        fs::create_dir_all(&site).unwrap();
        fs::write(site.join("large.txt"), page().repeat(100)).unwrap();
    });
    let large = Events::of(curl(&server, "gzip", "/files/large.txt"));
    let begun = large.lines.recv_timeout(BOUND).expect("a line");
    assert_eq!(begun, "<li>item 0</li>");
    let mut lines = 1;
    for _ in 0..20 {
        assert_eq!(ask(&server, "GET", "/denied", "").status, 403);
    }
    let mut large = large;
    while lines < 200_000 {
        large.line();
        lines += 1;
    }
    large.expect_success();
}
