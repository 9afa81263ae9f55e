//! Debian's Chromium on the Symfony, the Sinatra and the Starlette application of `examples/`, over TLS with HTTP/2, from an authority it trusts.
//! `tests/apps/browser` drives it, and prints what the page saw.

use std::process::Command;
use std::time::Duration;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::{Server, admin, apps, python, tools};
use serde_json::{Value, json};

/// The limit on what a browser and an app may take to start, on a machine that runs the other tests too.
const BOUND: Duration = Duration::from_secs(180);
const HOST: &str = "shop.example";
/// A browser without HTTP/2.
const HTTP1: &[&str] = &["--disable-http2"];

const CONFIG: &str = r#"
[server]
threads = 1
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
compress = true
tls = { cert = "@DIR@/shop.pem", key = "@DIR@/shop.key" }
[[listen.main.route]]
path = "/limited/*"
strip_prefix = true
max_body = "1MiB"
app = "shop"
"#;

const CHAT: &str = r#"
entry = "chat.asgi:application"
directory = "@EXAMPLES@/asgi-starlette"
interpreter = "@PYTHON@"
workers = 1
"#;

fn starlette() -> Server {
    start(&format!("{CONFIG}[[listen.main.route]]\napp = \"shop\"\n[app.shop]\n{CHAT}"))
}

fn sinatra() -> Server {
    start(&format!(
        "{CONFIG}[[listen.main.route]]\napp = \"shop\"\n\
         [app.shop]\nentry = \"config.ru\"\ndirectory = \"@EXAMPLES@/sinatra\"\nworkers = 1\nthreads = 4\n"
    ))
}

/// PHP has no WebSockets: an app beside it has them, on the same site.
fn symfony() -> Server {
    start(&format!(
        "{CONFIG}[[listen.main.route]]\npath = \"/echo\"\napp = \"chat\"\n[[listen.main.route]]\napp = \"shop\"\n[app.chat]\n{CHAT}\
         [app.shop]\nentry = \"public/index.php\"\ndirectory = \"@EXAMPLES@/symfony\"\nworkers = 2\n\
         env = {{ APP_ENV = \"prod\", APP_CACHE_DIR = \"@DIR@/cache\" }}\n"
    ))
}

fn start(config: &str) -> Server {
    Server::start_with(config, |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        let authority = Authority::default();
        authority.identity(&[HOST]).write(folder, "shop");
        std::fs::write(folder.join("ca.pem"), authority.pem()).expect("written");
    })
}

/// What the page saw.
#[track_caller]
fn visit(server: &Server, scenario: &str, options: &[&str]) -> Value {
    let seen = tools::run_ok(
        Command::new(python())
            .arg(apps().join("browser/visit.py"))
            .args([scenario, &format!("https://{HOST}:{}", server.address().port())])
            .arg(server.folder().join("ca.pem"))
            .arg(server.folder().join("browser"))
            .args(options),
        BOUND,
    );
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(*seen.get("error").unwrap_or(&Value::Null), Value::Null, "{seen:#}");
    seen
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

macro_rules! from_each_example {
    ($($name:ident)*) => {
        mod symfony { $(#[test] fn $name() { super::$name(&super::symfony()); })* }
        mod sinatra { $(#[test] fn $name() { super::$name(&super::sinatra()); })* }
        mod starlette { $(#[test] fn $name() { super::$name(&super::starlette()); })* }
    };
}

from_each_example! {
    two_hundred_pictures_arrive_over_one_connection
    a_websocket_echoes_over_http_1
    a_websocket_echoes_over_extended_connect
    events_arrive_one_by_one_through_compression
    an_upload_reports_its_progress
    a_refused_upload_shows_its_error_page
    a_refused_upload_shows_its_error_page_over_http_1
}

fn two_hundred_pictures_arrive_over_one_connection(server: &Server) {
    let seen = visit(server, "gallery", &[]);
    assert_eq!([&seen["pictures"], &seen["shown"], &seen["names"]], [200; 3], "{seen:#}");
    assert_eq!(list(&seen["statuses"]), vec![json!(200); 200], "{seen:#}");
    assert_eq!(seen["page"], "h2");
    assert_eq!(list(&seen["protocols"]), vec![json!("h2"); 200], "{seen:#}");
    assert_eq!(seen["connections"], 1, "{seen:#}");
}

fn echoes(server: &Server, options: &[&str], record: &str) {
    let seen = visit(server, "echo", options);
    assert_eq!(seen["seen"], json!([true, true, true, true]), "text, empty, large and binary: {seen:#}");
    assert_eq!((&seen["code"], &seen["wasClean"]), (&json!(1000), &json!(true)), "{seen:#}");
    server.wait_for_log(record, BOUND);
}

fn a_websocket_echoes_over_http_1(server: &Server) {
    echoes(server, HTTP1, "\"GET /echo HTTP/1.1\" 101");
    assert_eq!(admin::metrics(server)["keepwarm_http2_connections_total{listener=\"main\"}"], 0.0);
}

/// The access log has the request that extended CONNECT stands for, and its version; there is no other way to a WebSocket over HTTP/2 (RFC 8441).
fn a_websocket_echoes_over_extended_connect(server: &Server) {
    echoes(server, &[], "\"GET /echo HTTP/2.0\" 200");
}

fn events_arrive_one_by_one_through_compression(server: &Server) {
    let seen = visit(server, "news", &[]);
    assert_eq!(seen["counts"], json!([2, 3, 4, 5, 6]), "each before the next was published: {seen:#}");
    let events = ["welcome", "piece 1", "piece 2", "piece 3", "piece 4", "piece 5"];
    assert_eq!(seen["arrived"], json!(events));
    assert_eq!(seen["codings"], json!(["zstd"]), "{seen:#}");
}

fn an_upload_reports_its_progress(server: &Server) {
    let seen = visit(server, "upload", &[]);
    assert_eq!(seen["status"], 200, "{seen:#}");
    assert_eq!(seen["response"], json!({ "size": seen["size"], "sha256": seen["sha256"] }), "{seen:#}");
    let progress: Vec<u64> =
        list(&seen["progress"]).iter().map(|each| each[0].as_u64().expect("a number")).collect();
    assert!(progress.len() > 2 && progress.is_sorted(), "{seen:#}");
    assert_eq!(progress.last().copied(), seen["size"].as_u64(), "{seen:#}");
}

fn a_refused_upload_shows_its_error_page(server: &Server) {
    refused(server, &[], "h2", "\"POST /limited/upload HTTP/2.0\" 413");
}

fn a_refused_upload_shows_its_error_page_over_http_1(server: &Server) {
    refused(server, HTTP1, "http/1.1", "\"POST /limited/upload HTTP/1.1\" 413");
}

fn refused(server: &Server, options: &[&str], protocol: &str, record: &str) {
    let seen = visit(server, "refused", options);
    assert!(seen["url"].as_str().is_some_and(|url| url.ends_with("/limited/upload")), "{seen:#}");
    assert_eq!(seen["status"], 413, "{seen:#}");
    assert_eq!(seen["protocols"], json!([protocol]), "{seen:#}");
    let text = seen["text"].as_str().expect("a text");
    assert!(text.contains("larger than the limit of 1 MiB"), "{seen:#}");
    server.wait_for_log(record, BOUND);
}
