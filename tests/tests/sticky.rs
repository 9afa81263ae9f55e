//! Requests of a session at one worker: `sticky`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Client, Server};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/any"
app = "app"
[[listen.main.route]]
app = "app"
sticky = "cookie:session"
[app.app]
entry = "pid_app:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
env = { GATE = "@DIR@/gate" }
workers = 4
"#;

const APP: &str = r#"
import os, time

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/wait":
        open(os.environ["GATE"] + "-reached", "w").close()
        while not os.path.exists(os.environ["GATE"]):
            time.sleep(0.01)
    return [str(os.getpid()).encode()]
"#;

fn place(folder: &Path) {
    fs::write(folder.join("pid_app.py"), APP).unwrap();
}

fn request(path: &str, session: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nCookie: a=b; session={session}\r\n\r\n")
}

fn pid(client: &mut Client, session: &str) -> u32 {
    client.ask(request("/x", session)).text().parse().expect("a process id")
}

#[test]
fn a_session_stays_at_its_worker_while_that_has_room() {
    let server = Server::start_with(CONFIG, |command| place(command.get_current_dir().expect("a folder")));
    wait_until("all workers", LONG, || server.workers().len() == 4);
    let mut client = server.client();
    // All of them are ready when each has served.
    let mut seen = BTreeSet::new();
    wait_until("each worker serves some session", LONG, || {
        seen = (0..40).map(|session| pid(&mut client, &session.to_string())).collect();
        seen.len() == 4
    });
    let mut others = server.client();
    for session in 0..20 {
        let session = session.to_string();
        let own = pid(&mut client, &session);
        for _ in 0..3 {
            assert_eq!(pid(&mut others, &session), own, "{session}");
        }
    }

    // Busy: another one serves, and none waits.
    let own = pid(&mut client, "0");
    let mut busy = server.client();
    busy.send(request("/wait", "0"));
    wait_until("it is in the app", LONG, || server.folder().join("gate-reached").exists());
    assert_ne!(pid(&mut client, "0"), own);
    fs::write(server.folder().join("gate"), "").unwrap();
    assert_eq!(busy.response("GET").text(), own.to_string());
    assert_eq!(pid(&mut client, "0"), own, "and back");

    // Gone: its replacement has its sessions, the others keep theirs.
    let before: Vec<u32> = (0..20).map(|session| pid(&mut client, &session.to_string())).collect();
    process::signal(own, Signal::KILL);
    wait_until("a replacement serves", LONG, || {
        let now = pid(&mut client, "0");
        now != own && !seen.contains(&now)
    });
    for (session, old) in before.iter().enumerate() {
        let now = pid(&mut client, &session.to_string());
        match *old == own {
            true => assert!(!seen.contains(&now), "{session}"),
            false => assert_eq!(now, *old, "{session}"),
        }
    }
}
