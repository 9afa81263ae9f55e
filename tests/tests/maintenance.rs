//! `keepwarm maintenance`: new requests get 503, those in progress finish, and some clients are served.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::service::Service;
use keepwarm_tests::{Client, Server, admin, get, keepwarm, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[server]
pid_file = "@DIR@/pid"
trusted_proxies = ["127.0.0.1"]
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/fixed"
respond = { body = "fixed" }
[[listen.main.route]]
app = "app"
[app.app]
entry = "waiting_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
workers = 2
env = { GATE = "@DIR@/gate" }
"#;

/// Waits for a file on request, so that a test decides when its response comes.
const APP: &str = r#"
import os, time

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/wait":
        while not os.path.exists(os.environ["GATE"]):
            time.sleep(0.01)
    return [b"app"]
"#;

fn place(folder: &Path) {
    fs::write(folder.join("waiting_app.py"), APP).unwrap();
    fs::write(folder.join("page.html"), "<h1>closed").unwrap();
}

fn start() -> Server {
    Server::start_with(CONFIG, |command| place(command.get_current_dir().expect("a folder")))
}

/// Runs `keepwarm maintenance ARGUMENTS`; its status, and what it prints.
fn maintenance(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(keepwarm());
    let output = tools::run(command.arg("maintenance").args(arguments).current_dir(folder), LONG);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

#[track_caller]
fn done(folder: &Path, arguments: &[&str]) {
    let (status, text) = maintenance(folder, arguments);
    assert_eq!(status, 0, "{arguments:?}: {text}");
}

fn status(folder: &Path, more: &[&str]) -> String {
    let mut command = Command::new(keepwarm());
    let output = tools::run(command.arg("status").args(more).current_dir(folder), LONG);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn from(server: &Server, client: &str, path: &str) -> keepwarm_tests::Response {
    server.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n"))
}

#[test]
fn new_requests_get_503_and_those_in_progress_finish() {
    let server = start();
    let folder = server.folder();
    assert_eq!(server.ask(get("/x")).text(), "app");
    let mut running = server.client();
    running.send(get("/wait"));
    wait_until("it is in the app", LONG, || {
        let status: Value = serde_json::from_str(&status(folder, &["--json"])).unwrap_or_default();
        status["workers"].to_string().contains("\"route\"")
    });
    let mut kept = server.client();
    assert_eq!(kept.ask(get("/fixed")).text(), "fixed");

    done(folder, &["on"]);
    for path in ["/x", "/fixed", "/none"] {
        let response = kept.ask(get(path));
        assert_eq!((response.status, response.field("retry-after")), (503, Some("300")), "{path}");
        assert!(response.text().contains("under maintenance"), "{}", response.text());
        assert_eq!(response.field("cache-control"), Some("no-store"));
    }
    let json = kept.ask("GET /x HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n").json();
    assert_eq!(json["reason"], "maintenance");
    // The instance itself is well.
    let address = admin::address(&server);
    for path in ["/livez", "/readyz"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(Client::connect(address).ask(request).status, 200, "{path}");
    }
    let shown: Value = serde_json::from_str(&status(folder, &["--json"])).unwrap();
    assert_eq!((&shown["ready"], &shown["maintenance"][0]["retry_after"]), (&Value::Bool(true), &300.into()));
    assert!(status(folder, &[]).contains("under maintenance: everything"));

    fs::write(folder.join("gate"), "").unwrap();
    assert_eq!(running.response("GET").text(), "app");

    server.reload();
    assert_eq!(server.ask(get("/x")).status, 503, "after a reload");
    done(folder, &["off"]);
    assert_eq!(kept.ask(get("/x")).text(), "app");
    assert!(!status(folder, &[]).contains("under maintenance"));
    let (code, text) = maintenance(folder, &["off"]);
    assert!(code == 0 && text.contains("was not under maintenance"), "{text}");
}

#[test]
fn some_clients_are_served_and_others_get_the_page() {
    let server = start();
    let folder = server.folder();
    done(
        folder,
        &[
            "on",
            "--page",
            "page.html",
            "--allow",
            "192.0.2.7",
            "--allow",
            "2001:db8::/32",
            "--retry-after",
            "5",
        ],
    );
    for (client, code) in [("192.0.2.7", 200), ("192.0.2.8", 503), ("2001:db8::9", 200), ("2001:db9::9", 503)]
    {
        let response = from(&server, client, "/x");
        assert_eq!(response.status, code, "{client}");
        if code == 503 {
            assert_eq!(response.text(), "<h1>closed");
            assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"));
            assert_eq!(response.field("retry-after"), Some("5"));
        }
    }
    let head = server.ask("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (503, 0));
    let upload =
        server.ask("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(upload.status, 503, "an upload is not asked for");
    // Another maintenance of the same takes its place.
    done(folder, &["on", "--message", "Back at <noon>."]);
    let page = server.ask("GET /x HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n");
    assert!(page.text().contains("Back at &lt;noon&gt;."), "{}", page.text());
    assert_eq!(from(&server, "192.0.2.7", "/x").status, 503);
}

#[test]
fn an_app_or_a_listener_can_be_under_maintenance_alone() {
    let server = start();
    let folder = server.folder();
    done(folder, &["on", "--app", "app"]);
    assert_eq!((server.ask(get("/x")).status, server.ask(get("/fixed")).status), (503, 200));
    assert!(status(folder, &[]).contains("under maintenance: app app"));
    done(folder, &["on", "--listener", "main", "--allow", "192.0.2.7"]);
    assert_eq!(server.ask(get("/fixed")).status, 503);
    assert_eq!(from(&server, "192.0.2.7", "/fixed").status, 200);
    assert_eq!(from(&server, "192.0.2.7", "/x").status, 503, "the app is, still");
    done(folder, &["off", "--app", "app"]);
    assert_eq!(from(&server, "192.0.2.7", "/x").status, 200);
    done(folder, &["off"]);
    assert_eq!(server.ask(get("/fixed")).status, 200);

    for (arguments, code, part) in [
        (["on", "--app", "none"], 1, "there is no app \"none\""),
        (["on", "--listener", "none"], 1, "there is no listener \"none\""),
        (["on", "--page", "gone.html"], 1, "cannot read the page"),
        (["on", "--allow", "localhost"], 2, "not an address"),
    ] {
        let (got, text) = maintenance(folder, &arguments);
        assert!(got == code && text.contains(part), "{arguments:?}: {got} {text}");
    }
    assert_eq!(server.ask(get("/x")).status, 200, "nothing of it began");
}

#[test]
fn an_upgrade_does_not_end_it() {
    // Two addresses with the same text would be one for the process that takes over.
    let config = CONFIG
        .replace("[admin]\nbind = \"127.0.0.1:0\"\n", "")
        .replace("[listen.main]", "log = { file = \"@DIR@/log\" }\n[listen.main]");
    let service = Service::start_with(keepwarm(), &config, place);
    let folder = service.server.folder();
    done(folder, &["on", "--page", "page.html", "--allow", "192.0.2.0/24"]);
    service.upgrade();
    let response = service.server.ask(get("/x"));
    assert_eq!((response.status, response.text().as_str()), (503, "<h1>closed"));
    assert_eq!(from(&service.server, "192.0.2.7", "/x").status, 200);
    let shown: Value = serde_json::from_str(&status(folder, &["--json"])).unwrap();
    assert_eq!(shown["maintenance"][0]["allow"][0], "192.0.2.0/24");
    done(folder, &["off"]);
    assert_eq!(service.server.ask(get("/x")).status, 200);
    process::signal(service.pid().expect("a process"), Signal::TERM);
    wait_until("nothing is left", LONG, || service.processes().is_empty());
}
