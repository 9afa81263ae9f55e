//! Routes that lead to several apps or upstreams: `split`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::{Response, Server, admin, get, keepwarm, tools};

const CONFIG: &str = r#"
[admin]
bind = "127.0.0.1:0"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/random"
app = "old"
split = [{ app = "new", share = "30%" }]
[[listen.main.route]]
path = "/user"
app = "old"
split = [{ app = "new", share = "10%" }, { upstream = "other", share = "40%" }]
split_by = "header:X-User"
[[listen.main.route]]
path = "/cookie"
app = "old"
split = { app = "new", share = "50%" }
split_by = "cookie:session"
try_files = "@DIR@/site"
[[listen.main.route]]
path = "/all"
app = "old"
split = [{ app = "new", share = "100%" }]
[listen.back]
bind = "unix:@DIR@/back"
route = [{ respond = { body = "other" } }]
[upstream.other]
url = "unix:@DIR@/back"
[app.old]
entry = "named_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
env = { NAME = "old" }
workers = 1
[app.new]
entry = "named_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
env = { NAME = "new" }
workers = 1
"#;

const APP: &str = r#"
import os

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [os.environ["NAME"].encode()]
"#;

fn place(folder: &Path) {
    fs::create_dir_all(folder.join("site")).unwrap();
    fs::write(folder.join("named_app.py"), APP).unwrap();
}

fn start() -> Server {
    Server::start_with(CONFIG, |command| place(command.get_current_dir().expect("a folder")))
}

fn ask(client: &mut keepwarm_tests::Client, path: &str, field: &str) -> Response {
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n"))
}

#[test]
fn each_target_gets_its_share() {
    let server = start();
    let mut client = server.client();
    let new = (0..600).filter(|_| ask(&mut client, "/random", "").text() == "new").count();
    // 180 on average; outside of these bounds once in 10^9 runs.
    assert!((110..250).contains(&new), "{new}");
    assert!((0..50).all(|_| ask(&mut client, "/all", "").text() == "new"));

    // Logs and metrics name the target.
    server.wait_for_log(" new - ", Duration::from_secs(10));
    let address = admin::address(&server);
    let metrics = keepwarm_tests::Client::connect(address)
        .ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .text();
    let lines = |app: &str| {
        metrics
            .lines()
            .any(|line| line.contains(&format!("app=\"{app}\"")) && line.contains("route=\"/random\""))
    };
    assert!(lines("old") && lines("new"), "{metrics}");
}

#[test]
fn a_client_stays_at_its_target() {
    let server = start();
    let mut client = server.client();
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for user in 0..200 {
        let field = format!("X-User: user-{user}\r\n");
        let first = ask(&mut client, "/user", &field).text();
        assert_eq!(ask(&mut client, "/user", &field).text(), first, "{user}");
        *counts.entry(first).or_default() += 1;
    }
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert!((5..40).contains(&count("new")) && (50..110).contains(&count("other")), "{counts:?}");
    // Others have no place of their own.
    let seen: std::collections::BTreeSet<String> =
        (0..100).map(|_| ask(&mut client, "/user", "").text()).collect();
    assert!(seen.len() > 1, "{seen:?}");

    let cookie = |client: &mut keepwarm_tests::Client, value: &str| {
        ask(client, "/cookie", &format!("Cookie: a=b; session={value}; xsession=c\r\n")).text()
    };
    let seen: Vec<String> = (0..20).map(|user| cookie(&mut client, &user.to_string())).collect();
    assert!(seen.contains(&"old".to_owned()) && seen.contains(&"new".to_owned()), "{seen:?}");
    server.reload();
    let mut client = server.client();
    let again: Vec<String> = (0..20).map(|user| cookie(&mut client, &user.to_string())).collect();
    assert_eq!(seen, again, "after a reload");
}

#[test]
fn maintenance_of_one_target_leaves_the_others() {
    let server = start();
    let mut command = Command::new(keepwarm());
    let command = command.args(["maintenance", "on", "--app", "old"]).current_dir(server.folder());
    tools::run_ok(command, Duration::from_secs(60));
    let mut client = server.client();
    let mut seen = [0, 0];
    for _ in 0..100 {
        let response = ask(&mut client, "/random", "");
        match response.status {
            503 => seen[0] += 1,
            _ => {
                assert_eq!(response.text(), "new");
                seen[1] += 1;
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    assert_eq!(server.ask(get("/all")).text(), "new");
}
