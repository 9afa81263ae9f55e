//! One site of several apps, each with its own language and workers: by path, and by host.

use std::time::Duration;

use keepwarm_tests::process::{self, descendants, wait_until};
use keepwarm_tests::{Response, Server, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(30);

const SITE: &str = r#"
[listen.main]
bind = "127.0.0.1:0"

[[listen.main.route]]
path = "/chat/*"
strip_prefix = true
app = "node"

[[listen.main.route]]
host = "api.example"
app = "node"

[[listen.main.route]]
path = "/health"
respond = { status = 200, body = "well" }

[[listen.main.route]]
app = "python"

[app.node]
command = ["node", "@APPS@/node_app.js"]
workers = 2

[app.python]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

#[track_caller]
fn ask(server: &Server, request: impl AsRef<[u8]>) -> Response {
    server.client().patient(LONG).ask(request)
}

fn node_processes(server: &Server) -> Vec<u32> {
    let mut found = descendants(server.pid());
    found.retain(|&pid| {
        let command = process::command(pid);
        command.contains("node_app.js") && !command.contains("__launch")
    });
    found
}

#[track_caller]
fn all_parts_answer(server: &Server) {
    assert_eq!(ask(server, get("/chat/")).text(), "hello from node\n");
    assert_eq!(ask(server, "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n").text(), "hello from node\n");
    assert_eq!(ask(server, get("/pong")).text(), "pong");
    assert_eq!(ask(server, get("/health")).text(), "well");
}

#[test]
fn paths_and_hosts_lead_to_apps_of_several_languages() {
    let server = Server::start(SITE);
    all_parts_answer(&server);
    // On one connection, whoever answers.
    let mut client = server.client().patient(LONG);
    for _ in 0..3 {
        assert_eq!(client.ask(get("/chat/")).text(), "hello from node\n");
        assert_eq!(client.ask(get("/pong")).text(), "pong");
    }
}

#[test]
fn one_apps_deaths_and_reloads_are_nothing_to_the_others() {
    let server = Server::start(SITE);
    all_parts_answer(&server);
    let [python] = server.workers()[..] else { panic!("one worker of Python") };
    for pid in node_processes(&server) {
        process::signal(pid, Signal::KILL);
        assert_eq!(ask(&server, get("/pong")).text(), "pong");
    }
    wait_until("node is back", LONG, || ask(&server, get("/chat/")).status == 200);
    assert_eq!(server.workers(), [python], "untouched");
    let before = node_processes(&server);
    server.signal(Signal::HUP);
    wait_until("all others", LONG, || {
        let now = node_processes(&server);
        let python_now = server.workers();
        now.len() == 2
            && now.iter().all(|pid| !before.contains(pid))
            && python_now.len() == 1
            && python_now != [python]
    });
    all_parts_answer(&server);
}

/// An app that becomes another kind of app is replaced like any other.
#[test]
fn a_reload_may_change_the_kind_of_an_app() {
    let server = Server::start(SITE);
    all_parts_answer(&server);
    let other = SITE.replace(
        "[app.python]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"",
        "[app.python]\ncommand = [\"node\", \"@APPS@/node_app.js\"]",
    );
    assert_ne!(other, SITE);
    server.configure(&other);
    server.signal(Signal::HUP);
    wait_until("node serves what Python did", LONG, || ask(&server, get("/")).text() == "hello from node\n");
    server.configure(SITE);
    server.signal(Signal::HUP);
    wait_until("and back", LONG, || ask(&server, get("/pong")).text() == "pong");
}
