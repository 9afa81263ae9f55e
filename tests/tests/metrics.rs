//! `/metrics`: its counts and labels, in formats that Prometheus' own library reads.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, admin, get, process, python, root};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[server]
trusted_proxies = ["192.0.2.1"]
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/fixed"
respond = 204
[[listen.main.route]]
path = "/authorized"
respond = 204
auth_request = { app = "app", path = "/pong" }
[[listen.main.route]]
path = "/mirrored"
app = "app"
mirror = { app = "app" }
[[listen.main.route]]
host = "shop.example"
path = "/api/*"
app = "app"
[[listen.main.route]]
host = "faulty.example"
app = "faulty"
[[listen.main.route]]
path = "/*"
app = "app"
[acme]
directory = "https://127.0.0.1:1/directory"
storage = "@DIR@/acme"
[listen.secure]
bind = "unix:@DIR@/secure.sock"
tls = { cert = "@DIR@/shop.pem", key = "@DIR@/shop.key", acme = "acme.test", on_demand = "http://127.0.0.1:1/" }
route = [{ respond = 204 }]
[listen.proxied]
bind = "unix:@DIR@/proxied.sock"
proxy_protocol = true
[[listen.proxied.route]]
path = "/*"
respond = 204
[upstream.nobody]
url = "http://127.0.0.1:1"
bind = "unix:@DIR@/nobody.sock"
[app.faulty]
command = ["@PYTHON@", "@APPS@/hostile_server.py"]
workers = 1
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
queue_timeout = "60s"
env = { COUNT_FILE = "@DIR@/count" }
[process.mail]
command = ["sleep", "1000"]
user = "root"
[process.daily]
command = "true"
schedule = "@daily"
user = "root"
"#;

/// Prints a line for each family: kind, name, its samples' label names. Reads strictly.
const PARSE: &str = r#"
import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
read = {"prometheus": parser, "openmetrics": openmetrics}[sys.argv[1]].text_string_to_metric_families
for family in read(sys.stdin.read()):
    labels = sorted({label for sample in family.samples for label in sample.labels})
    print(family.type, family.name, family.unit or "-", ",".join(labels), repr(family.documentation))
"#;

fn start() -> Server {
    let certificate = Authority::default().identity(&["shop.example"]);
    let server = Server::start_with(CONFIG, |command| {
        certificate.write(command.get_current_dir().expect("it has a directory"), "shop");
    });
    // A TLS handshake that fails.
    assert_eq!(admin::ask_unix(&server.folder().join("secure.sock"), "GET", "/").0, 400);
    server.warm("/pong")
}

/// The page as Prometheus' library reads it.
#[track_caller]
fn parsed(text: &str, format: &str) -> Vec<String> {
    let mut child = Command::new(python())
        .args(["-c", PARSE, format])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("python");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("python reads");
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("python writes");
    assert!(child.wait().expect("python ends").success(), "not read as {format}:\n{text}");
    out.lines().map(str::to_owned).collect()
}

#[test]
fn prometheus_own_library_reads_both_formats() {
    let server = start();
    for request in [get("/pong"), get("/fixed"), get("/nowhere"), "GET / HTTP/1.0\r\n\r\n".to_owned()] {
        server.ask(request);
    }
    // Metrics that appear with their first event exist before the two pages are compared.
    for name in [
        r#"keepwarm_requests_total{app="app",route="/*",code="4xx"}"#,
        r#"keepwarm_stalls_total{app="app",kind="close_added"}"#,
    ] {
        admin::wait_for_metric(&server, name, 1.0);
    }
    let older = admin::get(&server, "/metrics", "");
    assert_eq!(older.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let newer = admin::get(&server, "/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    let kind = newer.field("content-type");
    assert_eq!(kind, Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let (older, newer) = (parsed(&older.text(), "prometheus"), parsed(&newer.text(), "openmetrics"));
    assert!(older.len() > 25, "{older:#?}");
    let without_unit = |line: &String| -> String {
        line.split(' ')
            .enumerate()
            .filter(|(place, _)| *place != 2)
            .map(|(_, word)| word)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let names = |lines: &[String]| lines.iter().map(without_unit).collect::<BTreeSet<_>>();
    assert_eq!(names(&older), names(&newer));
    for line in &newer {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, unit) = (words[1], words[2]);
        assert!(name.starts_with("keepwarm_") || name.starts_with("process_"), "{line}");
        assert!(unit == "-" || name.ends_with(unit), "{line}");
        for unit in ["seconds", "bytes"] {
            assert!(!name.ends_with(unit) || words[2] == unit, "{line}");
        }
    }
}

/// The page has every metric, with its kind and its labels, and no other.
#[test]
fn the_page_describes_every_metric() {
    let server = start();
    server.ask("GET /pong HTTP/1.0\r\n\r\n");
    // An unsafe request that was begun is not retried; a safe one is, and dies again.
    let die = "/die?id=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(server.ask(format!("POST {die}")).status, 502);
    server.client().patient(LONG).ask(format!("GET {die}"));
    server.client().patient(LONG).ask("GET /bare-lf HTTP/1.1\r\nHost: faulty.example\r\n\r\n");
    let mut cut = server.client().patient(LONG);
    cut.send("GET /raise-late?bytes=1000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(cut.try_response("GET").is_err());
    server.client().patient(LONG).ask(get("/mirrored"));
    server.client().patient(LONG).ask(get("/authorized"));
    let door = server.folder().join("nobody.sock");
    assert_eq!(admin::ask_unix(&door, "GET", "/").0, 502);
    assert_eq!(admin::ask_unix(&door, "TRACE", "/").0, 405);
    // Of a peer that is not a trusted proxy.
    let proxied = std::os::unix::net::UnixStream::connect(server.folder().join("proxied.sock"));
    let closed = proxied.expect("it listens").read_to_end(&mut Vec::new());
    assert_eq!(closed.expect("a plain end"), 0);
    for name in [
        r#"keepwarm_proxy_headers_rejected_total{listener="proxied",reason="untrusted_peer"}"#,
        r#"keepwarm_upstream_calls_total{upstream="nobody",endpoint="127.0.0.1:1",code="5xx"}"#,
        r#"keepwarm_upstream_refusals_total{upstream="nobody",reason="trace_refused"}"#,
        r#"keepwarm_retries_total{app="app",reason="worker_died"}"#,
        r#"keepwarm_refusals_total{app="app",reason="worker_died"}"#,
        r#"keepwarm_incomplete_responses_total{app="app",reason="app_error"}"#,
        r#"keepwarm_mirrored_requests_total{app="app",outcome="ok"}"#,
        r#"keepwarm_auth_requests_total{app="app",outcome="allowed"}"#,
        r#"keepwarm_stalls_total{app="app",kind="close_added"}"#,
        r#"keepwarm_responses_normalized_total{app="faulty",fault="bare_lf"}"#,
    ] {
        admin::wait_for_metric(&server, name, 1.0);
    }
    let memory = r#"keepwarm_worker_memory_bytes{app="app",worker="1",kind="own"}"#;
    admin::wait_for_metric(&server, memory, 1.0);
    let memory = r#"keepwarm_process_memory_bytes{process="mail",number="1"}"#;
    admin::wait_for_metric(&server, memory, 1.0);
    let text = admin::get(&server, "/metrics", "Accept: application/openmetrics-text\r\n").text();
    let page = std::fs::read_to_string(root().join("docs/operate/metrics.md")).expect("the page");
    let mut described: BTreeSet<String> = BTreeSet::new();
    for line in
        page.lines().filter(|line| line.starts_with("| `keepwarm_") || line.starts_with("| `process_"))
    {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let labels: BTreeSet<&str> = cells[3].split(", ").filter(|label| !label.is_empty()).collect();
        let labels: Vec<&str> = labels.into_iter().map(|label| label.trim_matches('`')).collect();
        described.insert(format!("{} {} {}", cells[1].trim_matches('`'), cells[2], labels.join(",")));
    }
    let seen: BTreeSet<String> = parsed(&text, "openmetrics")
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let suffix = if words[0] == "counter" { "_total" } else { "" };
            let labels: Vec<&str> = words[3].split(',').filter(|label| *label != "le").collect();
            format!("{}{suffix} {} {}", words[1], words[0], labels.join(","))
        })
        .collect();
    assert_eq!(described, seen, "docs/operate/metrics.md against /metrics");
}

#[test]
fn requests_are_counted_by_app_route_and_class() {
    let server = start();
    let mut client = server.client();
    let of = |app: &str, route: &str, code: &str| {
        format!("keepwarm_requests_total{{app=\"{app}\",route=\"{route}\",code=\"{code}\"}}")
    };
    // A request is counted when its response is out, which the client may see first.
    let before = admin::wait_for_metric(&server, &of("app", "/*", "2xx"), 1.0);
    for number in 0..3 {
        // However many paths clients think of, the labels are those of the configuration.
        client.ask(get(&format!("/any/{number}")));
    }
    client.ask(get("/fixed"));
    client.ask(get("/raise"));
    client.ask("GET /api/1 HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    client.ask("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n");
    for (app, route, code, least) in [
        ("app", "/*", "2xx", before + 3.0),
        ("app", "/*", "5xx", 1.0),
        ("app", "shop.example/api/*", "4xx", 1.0),
        ("", "/fixed", "2xx", 1.0),
        ("", "", "4xx", 1.0),
    ] {
        let seen = admin::wait_for_metric(&server, &of(app, route, code), least);
        assert!(seen == least, "{app} {route} {code}: {seen}");
    }
    let routes: BTreeSet<String> = admin::metrics(&server)
        .into_keys()
        .filter_map(|name| Some(name.split_once("route=\"")?.1.split('"').next()?.to_owned()))
        .collect();
    let known: BTreeSet<String> =
        ["", "/*", "/fixed", "/authorized", "/mirrored", "shop.example/api/*", "faulty.example/*"]
            .map(str::to_owned)
            .into();
    assert_eq!(routes, known);
}

#[test]
fn phases_are_measured_separately() {
    let server = start();
    let name = |part: &str| format!("keepwarm_request_{part}_seconds_sum{{app=\"app\"}}");
    let app = r#"keepwarm_request_app_seconds_sum{app="app",route="/*"}"#;
    let (first, second) = (server.client(), server.client());
    // One worker: the second waits for the first, which works for 300 ms.
    let (mut first, mut second) = (first, second);
    first.send(get("/sleep?ms=300"));
    admin::wait_for_status(&server, "the worker is at work", |status| {
        status["workers"][0]["active_requests"][0]["route"] == "/*"
    });
    second.send(get("/sleep?ms=300"));
    assert_eq!((first.response("GET").status, second.response("GET").status), (200, 200));
    // Each is at least what the application did; the machine may add to it.
    admin::wait_for_metric(&server, app, 0.6);
    admin::wait_for_metric(&server, &name("queue"), 0.001);
    let all = admin::metrics(&server);
    let bucket = |bound: &str| {
        all[&format!("keepwarm_request_duration_seconds_bucket{{le=\"{bound}\",app=\"app\",route=\"/*\"}}")]
    };
    let count = all[r#"keepwarm_request_duration_seconds_count{app="app",route="/*"}"#];
    assert!(bucket("0.001") <= bucket("0.005") && bucket("0.25") <= count - 2.0 && bucket("+Inf") == count);
    let sum = all[r#"keepwarm_request_duration_seconds_sum{app="app",route="/*"}"#];
    assert!(sum >= all[app] && all.contains_key(&name("write")), "{all:#?}");
}

#[test]
fn bytes_and_connections_are_counted_by_listener() {
    let server = start();
    let of = |name: &str| format!("keepwarm_{name}{{listener=\"main\"}}");
    let before = admin::metrics(&server);
    let mut client = server.client();
    let request = get("/big?bytes=100000");
    client.ask(&request);
    // Counted when the write is over, which the client may see first.
    admin::wait_for_metric(&server, &of("sent_bytes_total"), before[&of("sent_bytes_total")] + 100_000.0);
    let all = admin::metrics(&server);
    let grown = |name: &str| all[&of(name)] - before[&of(name)];
    assert!(grown("received_bytes_total") == request.len() as f64, "{}", grown("received_bytes_total"));
    assert!(grown("connections_total") == 1.0);
    assert!(all[&of("open_connections")] >= 1.0);
    drop(client);
    wait_until("the connection is closed", LONG, || admin::metrics(&server)[&of("open_connections")] == 0.0);
}

#[test]
fn workers_are_counted_by_state_and_by_why_they_went() {
    let server = start();
    let state = |state: &str| format!("keepwarm_workers{{app=\"app\",state=\"{state}\"}}");
    assert_eq!(admin::metrics(&server)[&state("ready")], 1.0);
    process::signal(server.workers()[0], Signal::KILL);
    admin::wait_for_metric(&server, r#"keepwarm_worker_deaths_total{app="app",reason="signal"}"#, 1.0);
    admin::wait_for_metric(&server, &state("ready"), 1.0);
    server.signal(Signal::HUP);
    admin::wait_for_metric(&server, r#"keepwarm_worker_recycles_total{app="app",reason="reload"}"#, 1.0);
    admin::wait_for_metric(&server, r#"keepwarm_generation{app="app"}"#, 2.0);
    let all = admin::metrics(&server);
    assert_eq!((all["keepwarm_ready"], all[r#"keepwarm_workers_target{app="app"}"#]), (1.0, 1.0));
    assert_eq!(all[&format!("keepwarm_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
}

#[test]
fn the_queue_gauge_counts_waiting_requests() {
    let server = start();
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    clients[0].send(get("/sleep?ms=20000"));
    admin::wait_for_status(&server, "the worker is at work", |status| {
        status["workers"][0]["active_requests"][0]["method"] == "GET"
    });
    for client in clients.iter_mut().skip(1) {
        client.send(get("/pong"));
    }
    admin::wait_for_metric(&server, r#"keepwarm_queue_length{app="app"}"#, 2.0);
}

/// Counts belong to the process: a reload neither loses nor restarts them.
#[test]
fn a_reload_keeps_the_counts() {
    let server = start();
    let name = r#"keepwarm_requests_total{app="app",route="/*",code="2xx"}"#;
    server.ask(get("/pong"));
    let before = admin::wait_for_metric(&server, name, 2.0);
    server.reload();
    server.ask(get("/pong"));
    admin::wait_for_metric(&server, name, before + 1.0);
}
