//! Stalls are never silent: each that Keepwarm removes is counted, and reported once with what to do about it.

use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, admin, get};

const LONG: Duration = Duration::from_secs(60);

fn config(app: &str) -> String {
    format!(
        "[admin]\nbind = \"127.0.0.1:0\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/fixed\"\n\
         respond = 200\n[[listen.main.route]]\napp = \"app\"\n[app.app]\ninterpreter = \"@PYTHON@\"\nworkers = 1\n{app}\n"
    )
}

fn start() -> Server {
    Server::start(&config("entry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"")).warm("/pong")
}

fn stalls(kind: &str) -> String {
    format!("keepwarm_stalls_total{{app=\"app\",kind=\"{kind}\"}}")
}

/// How many lines of the log report it.
fn lines(server: &Server, kind: &str) -> usize {
    server.log().lines().filter(|line| line.contains(&format!("stall={kind}"))).count()
}

#[test]
fn a_close_added_for_an_http_1_0_client() {
    let server = start();
    for _ in 0..3 {
        let mut client = server.client();
        assert_eq!(client.ask("GET /pong HTTP/1.0\r\n\r\n").status, 200);
        client.expect_eof();
    }
    admin::wait_for_metric(&server, &stalls("close_added"), 3.0);
    let line = server.wait_for_log("stall=close_added", LONG);
    assert!(line.contains("WARN") && line.contains("app=app") && line.contains("keep-alive"), "{line}");
    // No stall: the client requests a kept connection; it is closed because the app announces it; no app is concerned; it is of our time.
    server.ask("GET /pong HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    server.ask("GET /close HTTP/1.0\r\n\r\n");
    server.ask("GET /fixed HTTP/1.0\r\n\r\n");
    server.ask(get("/pong"));
    server.ask("GET /pong HTTP/1.0\r\n\r\n");
    assert_eq!(admin::wait_for_metric(&server, &stalls("close_added"), 4.0), 4.0);
    assert_eq!(lines(&server, "close_added"), 1, "said once");
}

#[test]
fn an_expectation_that_the_app_alone_would_not_have_met() {
    let server = start();
    let post = "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n";
    for _ in 0..2 {
        let mut client = server.client();
        client.send(format!("{post}Expect: 100-continue\r\n\r\n"));
        assert_eq!(client.response("POST").status, 100);
        client.send("hello");
        assert_eq!(client.response("POST").status, 200);
    }
    admin::wait_for_metric(&server, &stalls("expectation_ignored"), 2.0);
    let line = server.wait_for_log("stall=expectation_ignored", LONG);
    assert!(line.contains("100 Continue"), "{line}");
    // No stall: the body comes unasked, or is not wanted.
    server.ask(format!("{post}Expect: 100-continue\r\n\r\nhello"));
    server
        .client()
        .ask("POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    let mut client = server.client();
    client.send(format!("{post}Expect: 100-continue\r\n\r\n"));
    assert_eq!(client.response("POST").status, 100);
    client.send("hello");
    client.response("POST");
    assert_eq!(admin::wait_for_metric(&server, &stalls("expectation_ignored"), 3.0), 3.0);
    assert_eq!(lines(&server, "expectation_ignored"), 1, "said once");
}

/// As a script would: the process ends when it has responded.
#[test]
fn an_app_that_boots_for_each_request() {
    let script = "import os, signal\ndef application(environ, start):\n    os.kill(os.getpid(), signal.SIGTERM)\n    \
                  start('200 OK', [('Content-Length', '2')])\n    return [b'ok']\n";
    // A start takes what it takes on a busy machine: requests wait for it.
    let app = "entry = \"script:application\"\ndirectory = \"@DIR@\"\nqueue_timeout = \"60s\"";
    let server = Server::start_with(&config(app), |command| {
        let folder = command.get_current_dir().expect("the server's folder");
        std::fs::write(folder.join("script.py"), script).expect("the app is written");
    });
    let stalled = || admin::metrics(&server).get(&stalls("boot_per_request")).copied().unwrap_or(0.0);
    wait_until("the app's way is seen", 2 * LONG, || {
        assert_eq!(server.client().patient(LONG).ask(get("/")).status, 200);
        stalled() >= 2.0
    });
    let line = server.wait_for_log("stall=boot_per_request", LONG);
    assert!(line.contains("max_requests"), "{line}");
    assert_eq!(lines(&server, "boot_per_request"), 1, "said once");
}

#[test]
fn workers_that_crash_are_not_an_app_that_boots_for_each_request() {
    let script =
        "import os, signal\ndef application(environ, start):\n    os.kill(os.getpid(), signal.SIGKILL)\n";
    let app = "entry = \"script:application\"\ndirectory = \"@DIR@\"\nqueue_timeout = \"60s\"";
    let server = Server::start_with(&config(app), |command| {
        let folder = command.get_current_dir().expect("the server's folder");
        std::fs::write(folder.join("script.py"), script).expect("the app is written");
    });
    for page in 1..=4 {
        let post = format!("POST /{page} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let status = server.client().patient(LONG).ask(post).status;
        assert!(matches!(status, 502 | 503), "{status}");
    }
    wait_until("three have died", LONG, || server.log().matches("starting another").count() >= 3);
    assert_eq!(lines(&server, "boot_per_request"), 0, "{}", server.log());
}

/// A server of its own, which says the head of its response byte by byte and knows of no `100 Continue`.
fn careless() -> Server {
    let app = "command = [\"@PYTHON@\", \"@APPS@/hostile_server.py\"]\nkind = \"http\"";
    Server::start(&config(app).replace("interpreter = \"@PYTHON@\"\n", ""))
}

#[test]
fn a_head_that_came_in_pieces() {
    let server = careless();
    // Each byte is written by itself; whether it is seen so is the scheduler's to say.
    wait_until("a head is seen in pieces", LONG, || {
        assert_eq!(server.ask(get("/bytes")).text(), "hello");
        admin::metrics(&server).contains_key(&stalls("head_in_pieces"))
    });
    let line = server.wait_for_log("stall=head_in_pieces", LONG);
    assert!(line.contains("several pieces"), "{line}");
    let before = admin::metrics(&server)[&stalls("head_in_pieces")];
    for _ in 0..5 {
        assert_eq!(server.ask(get("/hello")).text(), "hello");
    }
    let requests = "keepwarm_requests_total{app=\"app\",route=\"/*\",code=\"2xx\"}";
    admin::wait_for_metric(&server, requests, 6.0);
    assert!(
        admin::metrics(&server)[&stalls("head_in_pieces")] <= before + 1.0,
        "a head in one piece is none"
    );
    assert_eq!(lines(&server, "head_in_pieces"), 1, "said once");
}

#[test]
fn an_expectation_that_a_server_ignores() {
    let server = careless();
    for _ in 0..2 {
        let mut client = server.client().patient(LONG);
        client.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(client.response("POST").status, 100);
        client.send("hello");
        assert_eq!(client.response("POST").text(), "hello");
    }
    admin::wait_for_metric(&server, &stalls("expectation_ignored"), 2.0);
    server.wait_for_log("stall=expectation_ignored", LONG);
}

#[test]
fn an_app_that_lives_on_has_none() {
    let server = start();
    let mut client = server.client();
    for _ in 0..5 {
        client.ask(get("/pong"));
    }
    let requests = "keepwarm_requests_total{app=\"app\",route=\"/*\",code=\"2xx\"}";
    admin::wait_for_metric(&server, requests, 6.0);
    let stalls: Vec<String> = admin::metrics(&server)
        .into_keys()
        .filter(|name| name.starts_with("keepwarm_stalls_total"))
        .collect();
    assert!(stalls.is_empty(), "{stalls:?}");
}

#[test]
fn a_head_that_an_apps_server_writes_in_pieces() {
    let app = "command = [\"@PYTHON@\", \"@APPS@/hostile_server.py\"]";
    let server = Server::start(&config(app).replace("interpreter = \"@PYTHON@\"\n", "")).warm("/");
    // A byte at a time: it would take luck for one read to see them all, and that often.
    wait_until("a head came in pieces", LONG, || {
        assert_eq!(server.ask(get("/bytes")).text(), "hello");
        admin::metrics(&server).get(&stalls("head_in_pieces")).is_some_and(|count| *count >= 1.0)
    });
    let line = server.wait_for_log("stall=head_in_pieces", LONG);
    assert!(line.contains("WARN") && line.contains("app=app") && line.contains("TCP_NODELAY"), "{line}");
}
