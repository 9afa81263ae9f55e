//! Copies of requests for a second target: `mirror`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Client, Server, admin, get};

const LONG: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/api/*"
app = "main"
strip_prefix = true
mirror = { app = "shadow", max_body = "1KiB", all_methods = true }
[[listen.main.route]]
path = "/safe"
app = "main"
mirror = { app = "shadow" }
[[listen.main.route]]
path = "/none"
app = "main"
mirror = { app = "shadow", share = "0%" }
[[listen.main.route]]
path = "/hang"
app = "main"
mirror = { app = "shadow" }
[[listen.main.route]]
path = "/away"
app = "main"
mirror = { upstream = "away" }
[upstream.away]
url = "http://127.0.0.1:1"
[app.main]
entry = "echo_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
env = { LOG = "@DIR@/main", GATE = "@DIR@/gate" }
workers = 1
[app.shadow]
entry = "echo_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
env = { LOG = "@DIR@/shadow", GATE = "@DIR@/gate", SHADOW = "1" }
workers = 1
queue_timeout = "60s"
"#;

/// Writes down what it was asked, a line for each request.
const APP: &str = r#"
import json, os, time

def application(environ, start_response):
    body = environ["wsgi.input"].read()
    names = ["REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REMOTE_ADDR", "HTTP_HOST", "HTTP_X",
             "HTTP_KEEPWARM_MIRROR", "HTTP_X_FORWARDED_FOR", "CONTENT_TYPE"]
    seen = {name: environ.get(name) for name in names}
    seen["body"] = body.decode("latin-1")
    if os.environ.get("SHADOW") and environ["PATH_INFO"] == "/hang":
        while not os.path.exists(os.environ["GATE"]):
            time.sleep(0.01)
    with open(os.environ["LOG"], "a") as log:
        log.write(json.dumps(seen) + "\n")
    status = "500 Failed" if os.environ.get("SHADOW") and environ["PATH_INFO"] == "/fail" else "200 OK"
    start_response(status, [("Content-Type", "text/plain")])
    return [b"shadow" if os.environ.get("SHADOW") else b"main"]
"#;

fn place(folder: &Path) {
    fs::write(folder.join("echo_app.py"), APP).unwrap();
}

fn start() -> Server {
    Server::start_with(CONFIG, |command| place(command.get_current_dir().expect("a folder")))
}

fn lines(server: &Server, app: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(server.folder().join(app)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Waits until the metric of an outcome has this value.
#[track_caller]
fn wait_for(server: &Server, target: &str, outcome: &str, count: usize) {
    let address = admin::address(server);
    let line = format!("keepwarm_mirrored_requests_total{{app=\"{target}\",outcome=\"{outcome}\"}} {count}");
    wait_until(&line, LONG, || {
        let metrics = Client::connect(address).ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text();
        metrics.lines().any(|found| found == line)
    });
}

#[test]
fn a_copy_is_the_request() {
    let server = start();
    let mut client = server.client();
    let request = "POST /api/a%20b?c=d&e HTTP/1.1\r\nHost: shop.example\r\nX: 1\r\nContent-Type: text/x\r\n\
                   Transfer-Encoding: chunked\r\nTE: trailers\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(client.ask(request).text(), "main");
    wait_for(&server, "shadow", "ok", 1);
    let (main, shadow) = (lines(&server, "main"), lines(&server, "shadow"));
    assert_eq!((main.len(), shadow.len()), (1, 1));
    let mut copy = shadow[0].clone();
    assert_eq!(copy["HTTP_KEEPWARM_MIRROR"], "1");
    copy["HTTP_KEEPWARM_MIRROR"] = serde_json::Value::Null;
    assert_eq!(copy, main[0]);
    assert_eq!((&copy["PATH_INFO"], &copy["SCRIPT_NAME"]), (&"/a b".into(), &"/api".into()));
    assert_eq!((&copy["body"], &copy["HTTP_HOST"]), (&"abcde".into(), &"shop.example".into()));
    client.expect_kept("/none");
}

#[test]
fn what_is_not_copied_is_counted() {
    let server = start();
    let mut client = server.client();
    let post = |path: &str, body: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    // Not safe, not chosen, or a copy itself.
    assert_eq!(client.ask(post("/safe", "x")).text(), "main");
    assert_eq!(client.ask(get("/none")).text(), "main");
    assert_eq!(client.ask("GET /safe HTTP/1.1\r\nHost: a\r\nKeepwarm-Mirror: 1\r\n\r\n").text(), "main");
    // Too large: its length says so, or what came.
    assert_eq!(client.ask(post("/api/x", &"x".repeat(1025))).text(), "main");
    let chunk = "x".repeat(1025);
    let chunked = format!(
        "POST /api/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n{chunk}\r\n0\r\n\r\n"
    );
    assert_eq!(client.ask(chunked).text(), "main");
    wait_for(&server, "shadow", "too_large", 2);
    assert_eq!(client.ask(post("/api/x", &"x".repeat(1024))).text(), "main");
    assert_eq!(client.ask("HEAD /safe HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    wait_for(&server, "shadow", "ok", 2);
    assert_eq!(lines(&server, "shadow").len(), 2);
}

/// Its target fails, hangs or is away.
#[test]
fn the_request_itself_never_notices() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.ask(get("/api/fail")).text(), "main");
    wait_for(&server, "shadow", "error", 1);
    assert_eq!(client.ask(get("/away")).text(), "main");
    wait_for(&server, "away", "error", 1);
    // One hangs in the only worker, the others wait for it: none of that is the client's time.
    for _ in 0..70 {
        assert_eq!(client.ask(get("/hang")).text(), "main");
    }
    wait_for(&server, "shadow", "busy", 6);
    fs::write(server.folder().join("gate"), "").unwrap();
    wait_for(&server, "shadow", "ok", 64);
    assert_eq!(lines(&server, "main").len(), 72);
    assert_eq!(lines(&server, "shadow").len(), 65);
}
