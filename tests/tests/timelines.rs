//! The last slow and failed requests, with where their time went (`/recent` of `GET /events`).

use std::time::Duration;

use keepwarm_tests::events::Events;
use keepwarm_tests::http2::{Http2, RST_STREAM};
use keepwarm_tests::{Server, admin, get, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// Every request of `slow` takes longer than its `slow_log`, none of `app` does.
const CONFIG: &str = "[admin]
bind = \"127.0.0.1:0\"
[listen.main]
bind = \"127.0.0.1:0\"
access_log = { file = \"access.log\" }
[[listen.main.route]]
path = \"/configured\"
respond = 503
[[listen.main.route]]
path = \"/nobody/*\"
upstream = \"nobody\"
[[listen.main.route]]
path = \"/slow/*\"
app = \"slow\"
strip_prefix = true
[[listen.main.route]]
app = \"app\"
[app.app]
entry = \"wsgi_app:application\"
directory = \"@APPS@\"
interpreter = \"@PYTHON@\"
workers = 1
slow_log = \"10m\"
[app.slow]
entry = \"wsgi_app:application\"
directory = \"@APPS@\"
interpreter = \"@PYTHON@\"
workers = 1
slow_log = \"50ms\"
[upstream.nobody]
url = \"http://127.0.0.1:1\"
bind = \"127.0.0.2:0\"
";

fn start() -> Server {
    Server::start(CONFIG).warm("/pong")
}

fn list<'s>(snapshot: &'s Value, name: &str) -> &'s Vec<Value> {
    snapshot["recent"][name].as_array().expect("a list")
}

fn paths<'s>(snapshot: &'s Value, name: &str) -> Vec<&'s str> {
    list(snapshot, name).iter().map(|request| request["path"].as_str().expect("a path")).collect()
}

fn seconds(of: &Value, member: &str) -> f64 {
    of[member].as_f64().unwrap_or_else(|| panic!("{member}: {of:#}"))
}

/// The line of the access log that has this id.
fn access_line(server: &Server, id: &str) -> String {
    let file = server.folder().join("access.log");
    let mut found = None;
    keepwarm_tests::process::wait_until("the line is written", LONG, || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        found = text.lines().find(|line| line.contains(id)).map(str::to_owned);
        found.is_some()
    });
    found.expect("waited for")
}

#[test]
fn a_slow_request_is_kept_with_where_its_time_went() {
    let server = start();
    let mut events = Events::open(&server);
    // The configured duration is applied by the first sample.
    events.snapshot();
    let mut client = server.client();
    assert_eq!(client.ask(get("/slow/sleep?ms=200&token=secret")).status, 200);
    client.ask(get("/sleep?ms=200"));
    let snapshot = events.wait_for("it is there", |snapshot| !list(snapshot, "slow").is_empty());
    assert_eq!(paths(&snapshot, "slow"), ["/slow/sleep"], "the other app may take that long");
    assert!(!snapshot.to_string().contains("secret"), "a query is kept: {snapshot:#}");
    assert_eq!(
        (&snapshot["recent"]["slow_total"], &snapshot["recent"]["failed_total"]),
        (&1.into(), &0.into())
    );
    let slow = &list(&snapshot, "slow")[0];
    assert_eq!(
        (&slow["method"], &slow["status"], &slow["reason"]),
        (&"GET".into(), &200.into(), &Value::Null)
    );
    assert_eq!((&slow["app"], &slow["route"]), (&"slow".into(), &"/slow/*".into()));
    assert_eq!(slow["slow_seconds"], 0.05);
    let worker = admin::status(&server)["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|worker| worker["app"] == "slow")
        .expect("its worker")
        .clone();
    assert_eq!((&slow["worker"], &slow["pid"]), (&worker["number"], &worker["pid"]));
    let line = access_line(&server, slow["id"].as_str().expect("an id"));
    assert!(line.contains("/slow/sleep?ms=200&token=secret"), "{line}");

    let phases = &slow["phases"];
    assert!(seconds(phases, "app_seconds") >= 0.2, "{phases:#}");
    let sum: f64 = ["read", "retry", "queue", "app", "body", "write"]
        .iter()
        .map(|phase| seconds(phases, &format!("{phase}_seconds")))
        .sum();
    assert!((sum - seconds(slow, "seconds")).abs() < 1e-6, "{slow:#}");
}

/// The time with a worker that was lost is neither reading nor waiting.
#[test]
fn a_request_that_was_given_again_has_the_time_with_its_first_worker() {
    let server = Server::start_with(&CONFIG.replace("50ms", "1ms"), |command| {
        let file = command.get_current_dir().expect("a folder").join("count");
        command.env("COUNT_FILE", file);
    })
    .warm("/pong");
    let mut events = Events::open(&server);
    events.snapshot();
    assert_eq!(server.client().ask(get("/slow/die-once?id=1")).status, 200);
    let snapshot =
        events.wait_for("it is there", |snapshot| paths(snapshot, "slow").contains(&"/slow/die-once"));
    let request =
        list(&snapshot, "slow").iter().find(|one| one["path"] == "/slow/die-once").expect("waited for");
    assert!(seconds(&request["phases"], "retry_seconds") > 0.0, "{request:#}");
    assert_eq!((&request["status"], &request["worker"]), (&200.into(), &1.into()));
    server.client().ask(get("/slow/sleep?ms=20"));
    let snapshot =
        events.wait_for("it is there", |snapshot| paths(snapshot, "slow").contains(&"/slow/sleep"));
    assert_eq!(seconds(&list(&snapshot, "slow")[0]["phases"], "retry_seconds"), 0.0);
}

/// What is the fault of the app or of Keepwarm, and nothing else.
#[test]
fn failed_requests_are_kept_and_those_of_clients_and_operators_are_not() {
    let server = start();
    let ask = |path: &str| server.client().ask(get(path)).status;
    let mut gone = server.client();
    gone.send(get("/sleep?ms=100"));
    admin::wait_for_status(&server, "it is at work", |status| {
        let workers = status["workers"].as_array().expect("a list");
        workers.iter().any(|worker| !worker["active_requests"].as_array().expect("a list").is_empty())
    });
    gone.reset();
    for (path, status) in [("/configured", 503), ("/no-such-page", 404), ("/%00", 400)] {
        assert_eq!(ask(path), status, "{path}");
    }
    let mut unknown = server.client();
    unknown.send("GET / HTTP/9.9\r\nHost: a\r\n\r\n");
    assert_eq!(unknown.response("GET").status, 505);
    maintenance(&server, "on");
    assert_eq!(ask("/pong"), 503);
    maintenance(&server, "off");
    assert_eq!(ask("/raise"), 500);
    let mut cut = server.client();
    cut.send(get("/raise-late"));
    cut.read_to_end();
    assert_eq!((ask("/nobody/a?b"), ask("/die")), (502, 502));

    let mut events = Events::open(&server);
    let snapshot = events.wait_for("the last one is there", |snapshot| list(snapshot, "failed").len() == 4);
    let newest_first = ["/die", "/nobody/a", "/raise-late", "/raise"];
    assert_eq!(paths(&snapshot, "failed"), newest_first);
    assert_eq!(
        (&snapshot["recent"]["failed_total"], &snapshot["recent"]["slow_total"]),
        (&4.into(), &0.into())
    );
    let [died, nobody, late, raised] = &list(&snapshot, "failed")[..] else { panic!("four") };
    assert_eq!((&raised["status"], &raised["app"]), (&500.into(), &"app".into()));
    assert_eq!(late["status"], 200, "cut after its head");
    assert_eq!((&died["status"], &died["worker"]), (&502.into(), &1.into()));
    assert_eq!(
        (&nobody["status"], &nobody["app"], &nobody["phases"]),
        (&502.into(), &Value::Null, &Value::Null)
    );
    for request in [late, died, nobody] {
        let line = access_line(&server, request["id"].as_str().expect("an id"));
        let reason = request["reason"].as_str().expect("a reason");
        assert!(line.contains(reason), "{reason}: {line}");
    }
}

/// It is the client's doing, not a response that was cut: neither in the list nor an error of the app's.
#[test]
fn a_client_that_leaves_in_the_midst_of_its_upload_is_no_failure() {
    let server = start();
    for path in ["/echo", "/nobody/a"] {
        let mut left = server.client();
        left.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nabc"));
        left.half_close();
        left.read_to_end();
    }
    // Refused by the rules of HTTP/2 itself (RFC 9113 §8.2.2).
    let mut http2 = Http2::connect(server.address());
    http2.head(1, "GET", "/connection", &[("connection", "close")]);
    http2.until(|frame| frame.kind == RST_STREAM && frame.stream == 1);
    drop(http2);
    let log = || std::fs::read_to_string(server.folder().join("access.log")).unwrap_or_default();
    keepwarm_tests::process::wait_until("all are recorded", LONG, || {
        log().matches(" client_closed ").count() == 2 && log().contains(" http2_refused ")
    });
    let snapshot = Events::open(&server).wait_for("a snapshot", |_| true);
    assert_eq!(snapshot["recent"]["failed_total"], 0, "{:#}", snapshot["recent"]);
}

/// Runs `keepwarm maintenance on` or `off`.
fn maintenance(server: &Server, state: &str) {
    let mut command = std::process::Command::new(keepwarm_tests::keepwarm());
    let output = tools::run(command.args(["maintenance", state]).current_dir(server.folder()), LONG);
    assert!(output.status.success(), "{output:?}");
}

/// A call that a route makes is the only one of its request.
#[test]
fn a_request_to_an_upstream_has_its_call() {
    let server = start();
    assert_eq!(server.client().ask(get("/nobody/")).status, 502);
    let mut events = Events::open(&server);
    let snapshot = events.wait_for("it is there", |snapshot| !list(snapshot, "failed").is_empty());
    let request = &list(&snapshot, "failed")[0];
    let [call] = &request["calls"].as_array().expect("a list")[..] else { panic!("{request:#}") };
    assert_eq!((&call["upstream"], &call["known_by"]), (&"nobody".into(), &"route".into()));
    assert_eq!((&call["endpoint"], &call["failure"]), (&"127.0.0.1:1".into(), &request["reason"]));
    assert!(seconds(call, "start_seconds") + seconds(call, "seconds") <= seconds(request, "seconds") + 1e-6);
    assert_eq!((&request["call_count"], &request["call_seconds"]), (&1.into(), &call["seconds"]));
}

/// JSON keeps them apart; the page and the terminal escape them.
#[test]
fn names_from_clients_are_text() {
    let server = start();
    let mut client = server.client();
    for (path, kept) in [
        ("/nobody/a'b&c;d=%3Cscript%3E%1b?q", "/nobody/a'b&c;d=%3Cscript%3E%1b".to_owned()),
        (&format!("/nobody/{}", "x".repeat(1000)), format!("/nobody/{}…", "x".repeat(248))),
    ] {
        client.send(get(path));
        assert_eq!(client.response("GET").status, 502, "{path}");
        let mut events = Events::open(&server);
        let snapshot = events.wait_for("it is there", |snapshot| {
            list(snapshot, "failed").first().is_some_and(|newest| newest["path"] == *kept)
        });
        assert_eq!(list(&snapshot, "failed")[0]["route"], "/nobody/*");
    }
}

#[test]
fn the_lists_are_bounded_and_survive_a_reload_but_not_an_upgrade() {
    let server = start();
    let mut client = server.client();
    for _ in 0..60 {
        assert_eq!(client.ask(get("/raise")).status, 500);
    }
    let mut events = Events::open(&server);
    let before = events.wait_for("all are counted", |snapshot| snapshot["recent"]["failed_total"] == 60);
    assert_eq!(list(&before, "failed").len(), 50);
    server.reload();
    let after = events.snapshot();
    assert_eq!(list(&after, "failed").len(), 50);
    assert_eq!(list(&after, "failed")[0]["id"], list(&before, "failed")[0]["id"]);
    server.signal(Signal::USR2);
    events.0.read_to_end();
    let next = Events::open(&server).snapshot();
    assert_ne!(next["status"]["pid"], server.pid());
    assert_eq!((list(&next, "failed").len(), &next["recent"]["failed_total"]), (0, &0.into()));
    admin::end_successor(&server);
}
