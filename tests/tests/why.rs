//! `keepwarm why` names the cause of a real incident, and says nothing on a healthy server.

use std::process::{Command, Output};
use std::time::Duration;

use keepwarm_tests::process::{NOBODY, wait_until};
use keepwarm_tests::{Server, get, keepwarm, tools};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

const APP: &str = "
import os, time, urllib.request
def application(environ, start_response):
    path = environ['PATH_INFO']
    if path == '/raise':
        raise ValueError('as it was told')
    if path == '/die':
        os.kill(os.getpid(), 9)
    if path == '/sleep':
        time.sleep(30)
    if path == '/call':
        urllib.request.urlopen(os.environ['KEEPWARM_UPSTREAM_SEARCH'] + '/', timeout=60).read()
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'pong']
";

/// An app with two workers and two routes, and an upstream at this address.
fn start(upstream: &str) -> Server {
    start_with(upstream, |config| config)
}

/// The same with a configuration that is changed.
fn start_with(upstream: &str, change: impl FnOnce(String) -> String) -> Server {
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/sleep\"\napp = \"app\"\n\
         [[listen.main.route]]\npath = \"/*\"\napp = \"app\"\n[app.app]\nentry = \"why_app:application\"\n\
         interpreter = \"@PYTHON@\"\nworkers = 2\nqueue_timeout = \"30s\"\n[upstream.search]\nurl = \"http://{upstream}\"\nbind = \"127.0.0.2:0\"\n"
    );
    Server::start_with(&change(config), |command| {
        let folder = command.get_current_dir().expect("it has a directory");
        std::fs::write(folder.join("why_app.py"), APP).expect("written");
    })
    .warm("/")
}

fn why(server: &Server, arguments: &[&str]) -> Output {
    tools::run(Command::new(keepwarm()).arg("why").args(arguments).current_dir(server.folder()), LONG)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ids(why: &Value) -> Vec<String> {
    let findings = why["findings"].as_array().expect("a list");
    findings.iter().map(|finding| finding["id"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits for the first verdict: it is this one, and stands alone.
#[track_caller]
fn expect(server: &Server, id: &str) -> Value {
    expect_while(server, id, || ())
}

/// The same, with something that is done before each look.
#[track_caller]
fn expect_while(server: &Server, id: &str, mut act: impl FnMut()) -> Value {
    let mut seen = Value::Null;
    wait_until("there is a verdict", LONG, || {
        act();
        seen = server.why().1;
        !ids(&seen).is_empty()
    });
    assert_eq!(ids(&seen), [id], "{seen:#}");
    assert_eq!(seen["healthy"], false);
    seen
}

#[test]
fn a_healthy_server_gets_a_line_and_status_0() {
    let server = start("127.0.0.1:1");
    let mut client = server.client();
    wait_until("requests are seen", LONG, || {
        client.ask(get("/"));
        let (status, why) = server.why();
        assert_eq!((status, &why["healthy"]), (Some(0), &true.into()), "{why:#}");
        why["apps"][0]["now"]["per_second"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    let output = why(&server, &[]);
    let shown = text(&output.stdout);
    assert!(shown.starts_with("app  healthy   ") && !shown.contains("WHY"), "{shown}");
    assert_eq!((shown.lines().count(), output.status.code()), (1, Some(0)), "{shown}");
    let upstream = why(&server, &["search"]);
    assert!(text(&upstream.stdout).starts_with("search  healthy"), "{}", text(&upstream.stdout));
}

#[test]
fn what_cannot_be_known_is_status_2() {
    let server = start("127.0.0.1:1");
    // An app may be observed a second before the upstream is.
    wait_until("both are observed", LONG, || {
        let why = server.why().1;
        ["apps", "upstreams"].iter().all(|list| why[list].as_array().is_some_and(|all| !all.is_empty()))
    });
    let output = why(&server, &["nothing"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("no app or upstream \"nothing\"") && said.contains("app, search"), "{said}");
    let nobody = tools::run(Command::new(keepwarm()).args(["why", "--pid", NOBODY]).current_dir("/"), LONG);
    assert_eq!(nobody.status.code(), Some(2), "{}", text(&nobody.stderr));
}

#[test]
fn an_app_that_fails_is_named_with_the_reason() {
    let server = start("127.0.0.1:1");
    let mut client = server.client();
    let seen = expect_while(&server, "app_failing", || assert_eq!(client.ask(get("/raise")).status, 500));
    let evidence = seen["findings"][0]["evidence"].as_str().unwrap_or_default();
    assert!(
        evidence.contains(" % of the requests of app failed") && evidence.contains(": app_error "),
        "{evidence}"
    );
    let shown = text(&why(&server, &[]).stdout);
    assert!(shown.starts_with("app  FAILING since "), "{shown}");
}

/// They make requests fail and wait: the crash is what there is to mend.
#[test]
fn workers_that_crash_are_named() {
    let server = start("127.0.0.1:1");
    for _ in 0..3 {
        let post = "POST /die HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        assert!(matches!(server.client().patient(LONG).ask(post).status, 502 | 503));
    }
    let seen = expect(&server, "workers_crash");
    let evidence = seen["findings"][0]["evidence"].as_str().unwrap_or_default();
    assert!(evidence.contains("3 workers of app crashed") && evidence.contains("SIGKILL"), "{evidence}");
}

/// No request waits, and no time is long: what clients wait for is in the kernel.
#[test]
fn clients_that_wait_for_a_connection_are_named() {
    let server = start_with("127.0.0.1:1", |config| format!("[server.limits]\nconnections = 2\n{config}"));
    let mut holders: Vec<_> = (0..2).map(|_| server.client()).collect();
    for holder in &mut holders {
        holder.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    }
    let _waits = server.client();
    let seen = expect_while(&server, "connection_limit", || {
        // Fast enough for `body_rate`.
        for holder in &mut holders {
            holder.send("x".repeat(1 << 10));
        }
    });
    let evidence = seen["findings"][0]["evidence"].as_str().unwrap_or_default();
    assert!(
        evidence.contains("listener \"main\"") && evidence.contains("all 2 that may be open"),
        "{evidence}"
    );
}

#[test]
fn a_route_that_holds_all_workers_is_named() {
    let server = start("127.0.0.1:1");
    let mut clients: Vec<_> = (0..2).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(get("/sleep"));
    }
    wait_until("both workers are held", LONG, || server.why().1["apps"][0]["held"] == 2);
    let mut waiting = server.client();
    waiting.send(get("/"));
    let why = expect(&server, "route_holds_workers");
    assert_eq!(
        (&why["findings"][0]["app"], &why["apps"][0]["most"]["route"]),
        (&"app".into(), &"/sleep".into())
    );
    let output = self::why(&server, &["app"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(
        shown.contains("\nWHY   route /sleep holds 2 of 2 requests")
            && shown.contains("\nNEXT  keepwarm explain route_holds_workers"),
        "{shown}"
    );
}

/// It accepts and never responds.
#[test]
fn an_upstream_that_never_responds_is_named() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = start(&silent.local_addr().expect("an address").to_string());
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(get("/call"));
    }
    let why = expect(&server, "upstream_slow");
    assert_eq!(why["findings"][0]["upstream"], "search");
    assert_eq!(self::why(&server, &["search"]).status.code(), Some(1));
}

/// Nothing listens there.
#[test]
fn an_upstream_that_refuses_connections_is_named() {
    let server = start("127.0.0.1:1");
    let mut client = server.client();
    (0..8).for_each(|_| {
        client.ask(get("/call"));
    });
    let why = expect(&server, "upstream_failing");
    assert_eq!(why["findings"][0]["upstream"], "search");
}

#[test]
fn a_reload_is_an_event_and_keeps_the_history() {
    let server = start("127.0.0.1:1");
    wait_until("a second is observed", LONG, || server.why().1["observed_seconds"].as_u64() >= Some(1));
    let before = server.why().1["observed_seconds"].as_u64();
    let reload = tools::run(Command::new(keepwarm()).arg("reload").current_dir(server.folder()), LONG);
    assert_eq!(reload.status.code(), Some(0), "{}", text(&reload.stderr));
    let mut seen = Value::Null;
    wait_until("the reload is an event", LONG, || {
        seen = server.why().1;
        seen["events"]
            .as_array()
            .is_some_and(|events| events.iter().any(|event| event["text"] == "reload, generation 2"))
    });
    assert!(seen["observed_seconds"].as_u64() >= before, "{seen:#}");
}

#[test]
fn each_verdict_is_explained() {
    let output = tools::run(Command::new(keepwarm()).args(["explain", "too_few_workers"]), LONG);
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("do:     Raise `workers`"), "{shown}");
}
