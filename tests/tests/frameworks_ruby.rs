//! A real Ruby application: the Sinatra one in `examples/`, on Debian's Sinatra and Rack, with Rack's own lint in the stack.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use keepwarm_tests::content::{noise, post, sha256};
use keepwarm_tests::{Client, Failure, Server, get, process};

/// The limit on what a busy machine may take for something that takes milliseconds.
const BOUND: Duration = Duration::from_secs(30);

fn config(more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\nearly_hints = \"always\"\n\
         [app.shop]\nentry = \"config.ru\"\ndirectory = \"@EXAMPLES@/sinatra\"\n{more}\n"
    )
}

fn env(more: &str) -> String {
    format!("env = {{ COUNT_FILE = \"@DIR@/count\", LINT = \"1\"{more} }}")
}

fn shop() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&config(&format!("workers = 2\n{}", env("")))).warm("/"))
}

fn threaded() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&config(&format!("workers = 1\nthreads = 4\n{}", env("")))).warm("/"))
}

fn both() -> [(&'static str, &'static Server); 2] {
    [("processes", shop()), ("threads", threaded())]
}

/// Expecting clients one at a time: at most half of the workers wait for bodies, and the edge responds to the others itself.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn patient(server: &Server) -> Client {
    server.client().patient(BOUND)
}

#[test]
fn pages_json_and_404() {
    for (name, server) in both() {
        let mut client = patient(server);
        let page = client.expect_kept("/");
        assert!(page.field("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{name}");
        assert!(page.text().contains("<h1>Shop</h1>"), "{name}");
        assert_eq!(client.expect_kept("/products").json()[1]["name"], "teapot", "{name}");
        assert_eq!(client.ask(get("/nowhere")).status, 404, "{name}");
        let moved = client.ask(get("/moved"));
        assert_eq!(moved.status, 303, "{name}");
        assert!(moved.field("location").is_some_and(|to| to.ends_with("/")), "{name}");
        let head = client.ask("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.status, head.body.len()), (200, 0), "{name}");
        client.expect_kept("/pong");
    }
}

#[test]
fn a_name_in_a_path_is_decoded_once() {
    let mut client = patient(shop());
    for (path, name) in
        [("/products/a%20b", "a b"), ("/products/100%2525", "100%25"), ("/products/%C3%A9", "é")]
    {
        assert_eq!(client.ask(get(path)).json()["name"], name, "{path}");
    }
}

#[test]
fn forms_of_both_kinds() {
    for (name, server) in both() {
        let mut client = patient(server);
        let seen = client.ask(post(
            "/order",
            "application/x-www-form-urlencoded",
            b"item[]=kettle&item[]=cup&note=%C3%A9+a%26b",
        ));
        let seen = seen.json();
        assert_eq!(seen["item"], serde_json::json!(["kettle", "cup"]), "{name}");
        assert_eq!(seen["note"], "\u{e9} a&b", "{name}");
        let body = "--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\ntwo\r\nlines\r\n--B--\r\n";
        let seen = client.ask(post("/order", "multipart/form-data; boundary=B", body.as_bytes())).json();
        assert_eq!(seen["note"], "two\r\nlines", "{name}");
    }
}

#[test]
fn uploads_arrive_byte_for_byte() {
    let bytes = noise(5 << 20);
    let digest = sha256("upload", &bytes);
    for (name, server) in both() {
        let mut client = patient(server);
        let seen = client.ask(post("/upload", "application/octet-stream", &bytes)).json();
        assert_eq!((&seen["size"], &seen["sha256"]), (&bytes.len().into(), &digest.clone().into()), "{name}");
        client.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in bytes.chunks(99_991) {
            client.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        }
        client.send("0\r\n\r\n");
        assert_eq!(client.response("POST").json()["sha256"], digest.as_str(), "{name}, chunked");
        let head = "--B\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n";
        let body = [head.as_bytes(), &bytes, b"\r\n--B--\r\n"].concat();
        let photo =
            &client.ask(post("/upload", "multipart/form-data; boundary=B", &body)).json()["files"]["photo"];
        assert_eq!(
            (&photo["sha256"], &photo["filename"]),
            (&digest.clone().into(), &"a.bin".into()),
            "{name}, multipart"
        );
        client.expect_kept("/products");
    }
}

#[test]
fn uploads_side_by_side_do_not_mix() {
    for (name, server) in both() {
        std::thread::scope(|scope| {
            for number in 0..6_usize {
                scope.spawn(move || {
                    let bytes = noise(200_000 + number * 1_000);
                    let digest = sha256(&format!("{name}-{number}"), &bytes);
                    let seen =
                        patient(server).ask(post("/upload", "application/octet-stream", &bytes)).json();
                    assert_eq!(seen["sha256"], digest.as_str(), "{name} {number}");
                });
            }
        });
    }
}

#[test]
fn streams_files_and_large_responses() {
    let source = std::fs::read(keepwarm_tests::examples().join("sinatra/shop.rb")).expect("the example");
    for (name, server) in both() {
        let mut client = patient(server);
        assert_eq!(client.ask(get("/stream?parts=3")).text(), "line 0\nline 1\nline 2\n", "{name}");
        assert_eq!(client.ask(get("/big?bytes=3000000")).body.len(), 3_000_000, "{name}");
        assert_eq!(client.ask(get("/source")).body, source, "{name}");
        let range = client.ask("GET /source HTTP/1.1\r\nHost: a\r\nRange: bytes=2-9\r\n\r\n");
        assert_eq!((range.status, range.body.as_slice()), (206, &source[2..10]), "{name}");
        client.expect_kept("/products");
    }
}

#[test]
fn a_stream_leaves_line_by_line() {
    // A pause longer than any bound: the second line would come too late for this test.
    let mut client = patient(shop());
    client.send(get("/stream?parts=2&pause=3600"));
    client.read_through(b"line 0\n");
    client.reset();
}

#[test]
fn cookies_stay_fields_of_their_own() {
    for (name, server) in both() {
        let response = patient(server).ask("GET /cookies HTTP/1.1\r\nHost: a\r\nCookie: a=1; b=2\r\n\r\n");
        assert_eq!(response.json(), serde_json::json!({ "a": "1", "b": "2" }), "{name}");
        let set = response.all("set-cookie");
        assert_eq!(set.len(), 3, "{name}: {set:?}");
        assert!(
            set[0].starts_with("basket=42;")
                && set[1].starts_with("theme=dark;")
                && set[2].starts_with("seen=yes"),
            "{name}"
        );
    }
}

#[test]
fn errors_are_500_and_logged() {
    for (name, server) in both() {
        let mark = server.mark();
        let mut client = patient(server);
        assert_eq!(client.ask(get("/error")).status, 500, "{name}");
        server.wait_for_log_after(mark, "an error on demand", BOUND);
        client.expect_kept("/products");
        let mark = server.mark();
        client.send(get("/error-late"));
        assert!(
            matches!(client.try_response("GET"), Err(Failure::Cut(_) | Failure::Reset(_) | Failure::Closed)),
            "{name}: a whole response"
        );
        server.wait_for_log_after(mark, "an error on demand, late", BOUND);
    }
}

#[test]
fn exit_ends_the_worker_and_not_the_site() {
    // Until the next worker is ready: it boots beside the other tests.
    let config = config(&format!("workers = 1\nqueue_timeout = \"60s\"\n{}", env("")));
    let server = Server::start(&config).warm("/");
    let first = server.ask(get("/whoami")).json()["pid"].clone();
    assert_eq!(patient(&server).ask(get("/exit")).status, 500);
    server.wait_for_log("exited with status 3", BOUND);
    let second = patient(&server).ask(get("/whoami")).json()["pid"].clone();
    assert_ne!(first, second);
}

#[test]
fn a_forced_expectation_gets_its_100_when_the_body_is_read() {
    let _alone = alone();
    for (name, server) in both() {
        // A form, which Sinatra reads before the application's own code; bare bytes; the explicit call.
        for (path, kind) in [
            ("/order", "application/x-www-form-urlencoded"),
            ("/upload", "application/octet-stream"),
            ("/patient", "application/octet-stream"),
        ] {
            let mut client = patient(server);
            client.send(format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: {kind}\r\nContent-Length: 3\r\n\r\n"
            ));
            assert_eq!(client.response("POST").status, 100, "{name} {path}");
            client.send("a=1");
            let response = client.response("POST");
            assert_eq!(response.status, 200, "{name} {path}: {}", response.text());
            client.expect_kept("/products");
        }
    }
}

#[test]
fn a_response_without_reading_needs_no_100() {
    let _alone = alone();
    for (name, server) in both() {
        let mut client = patient(server);
        client.send("POST /early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/octet-stream\r\nContent-Length: 9\r\n\r\n");
        let response = client.response("POST");
        assert_eq!(response.status, 413, "{name}");
        assert!(response.says_close(), "{name}");
    }
}

#[test]
fn an_app_that_responds_100_works_as_it_did_on_unicorn() {
    let _alone = alone();
    for (name, server) in both() {
        let mut client = patient(server);
        client.send("POST /unicorn HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        let interim = client.response("POST");
        assert_eq!((interim.status, interim.fields.len()), (100, 0), "{name}");
        client.send("hello");
        assert_eq!(client.response("POST").text(), "read 5, expect nil\n", "{name}");
        // Without an expectation no interim response is sent.
        assert_eq!(
            client.ask(post("/unicorn", "text/plain", b"hi")).text(),
            "read 2, expect nil\n",
            "{name}"
        );
    }
}

#[test]
fn early_hints() {
    for (name, server) in both() {
        let mut client = patient(server);
        client.send(get("/hints"));
        let hint = client.response("GET");
        assert_eq!(
            (hint.status, hint.field("link")),
            (103, Some("</shop.css>; rel=preload; as=style")),
            "{name}"
        );
        assert_eq!(client.response("GET").status, 200, "{name}");
    }
}

#[test]
fn the_environment_of_the_application() {
    let request = "GET /whoami?x=1 HTTP/1.0\r\nHost: shop.example:81\r\nX-Thing: a\r\nX-Thing: b\r\n\r\n";
    for ((name, server), threads) in both().into_iter().zip([false, true]) {
        let seen = patient(server).ask(request).json();
        let environ = &seen["environ"];
        for (key, value) in [
            ("SERVER_PROTOCOL", "HTTP/1.0"),
            ("SERVER_NAME", "shop.example"),
            ("SERVER_PORT", "81"),
            ("QUERY_STRING", "x=1"),
            ("PATH_INFO", "/whoami"),
            ("rack.url_scheme", "http"),
        ] {
            assert_eq!(environ[key], value, "{name} {key}");
        }
        assert_eq!(environ["rack.multithread"], threads, "{name}");
        assert_eq!(seen["headers"]["HTTP_X_THING"], "a,b", "{name}");
    }
}

#[test]
fn threads_serve_side_by_side_in_one_process() {
    let server = threaded();
    let mut slow = patient(server);
    slow.send(get("/slow?seconds=3600"));
    // One of four is busy for an hour; the others are not.
    for _ in 0..4 {
        assert_eq!(patient(server).ask(get("/products")).status, 200);
    }
    slow.reset();
}

#[test]
fn rack_lint_reports_nothing() {
    for (name, server) in both() {
        let mut client = patient(server);
        for path in ["/", "/products", "/stream", "/source", "/whoami"] {
            assert_eq!(client.ask(get(path)).status, 200, "{name} {path}");
        }
        assert!(!server.log().contains("LintError"), "{name}");
    }
}

#[test]
fn a_reload_loses_no_request() {
    let server = Server::start(&config(&format!("workers = 2\n{}", env("")))).warm("/");
    let sent = 200;
    std::thread::scope(|scope| {
        for part in 0..2 {
            let server = &server;
            scope.spawn(move || {
                let mut client = patient(server);
                for number in 0..sent / 2 {
                    let request = format!("POST /count HTTP/1.1\r\nHost: a\r\nX-Request-Id: id-{part}-{number}\r\nContent-Length: 0\r\n\r\n");
                    assert_eq!(client.ask(request).status, 200);
                }
            });
        }
        let mark = server.mark();
        server.signal(rustix::process::Signal::HUP);
        server.wait_for_log_after(mark, "generation=2", BOUND);
    });
    process::wait_until("every request, once", BOUND, || {
        let lines = std::fs::read_to_string(server.folder().join("count")).unwrap_or_default();
        lines.lines().count() == sent
            && lines.lines().collect::<std::collections::BTreeSet<_>>().len() == sent
    });
}

#[test]
fn a_target_is_served_without_a_file() {
    let folder = keepwarm_tests::examples().join("sinatra");
    let server = Server::run(&["config.ru", "--bind", "127.0.0.1:0", "--workers", "1"], &folder).warm("/");
    assert!(patient(&server).ask(get("/")).text().contains("Shop"));
}

#[test]
fn a_missing_ruby_and_a_broken_app_are_clear() {
    for (more, said) in [
        ("interpreter = \"no-such-ruby\"", "no-such-ruby"),
        ("start_retries = 0\noptions = [\"-e\", \"abort 'not this'\"]", "not this"),
    ] {
        let server = Server::spawn(&config(&format!("workers = 1\n{more}")), |_| {});
        server.wait_for_log(said, BOUND);
    }
    let text = config("workers = 1\nstart_retries = 0").replace("config.ru", "nowhere.ru");
    Server::spawn(&text, |_| {}).wait_for_log("file \"nowhere.ru\" not found in", BOUND);
}

#[test]
fn a_ruby_that_is_too_old_is_reported() {
    let more = "workers = 1\nstart_retries = 0\noptions = [\"-W0\", \"-r@DIR@/old.rb\"]";
    let server = Server::spawn(&config(more), |command| {
        let file = command.get_current_dir().expect("a folder").join("old.rb");
        std::fs::write(file, "RUBY_VERSION = '2.7.8'\n").expect("a file");
    });
    server.wait_for_log("Ruby 2.7.8 is too old: 3.0 or later is needed", BOUND);
}
