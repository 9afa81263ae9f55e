//! Keepwarm as process 1 of a PID namespace, as in a container: orphans of others are reaped, workers' statuses are not taken by that, and signals work.

use std::path::{Path, PathBuf};
use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Client, Server, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

const APP: &str = r#"
import os, subprocess, time

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/orphans":
        # A session of its own for each, and a parent that ends first: they belong to process 1.
        subprocess.run(["sh", "-c", "for n in 1 2 3 4 5; do setsid sh -c 'sleep 0.0$0; exit $0' $n & done"], check=True)
    elif path == "/lasting":
        subprocess.run(["sh", "-c", "setsid sleep 1000 & exit 0"], check=True)
    elif path == "/slow":
        time.sleep(2)
    elif path == "/exit":
        os._exit(7)
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"#;

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
entry = "orphans:application"
directory = "@DIR@"
interpreter = "@PYTHON@"
workers = 2
"#;

/// Keepwarm as process 1; returns its id outside the namespace.
#[track_caller]
fn start() -> (Server, u32) {
    start_as(keepwarm_tests::keepwarm(), CONFIG)
}

#[track_caller]
fn start_as(binary: &Path, config: &str) -> (Server, u32) {
    let server = Server::start_as(config, |folder| {
        std::fs::write(folder.join("orphans.py"), APP).expect("the app");
        in_namespace(binary, folder)
    })
    .warm("/");
    let inside = process::children(server.pid());
    assert_eq!(inside.len(), 1, "unshare has one child: {inside:?}");
    (server, inside[0])
}

fn in_namespace(binary: &Path, folder: &Path) -> PathBuf {
    let script = format!(
        "#!/bin/sh\nexec unshare --pid --fork --mount-proc --kill-child=KILL {} \"$@\"\n",
        binary.display()
    );
    let file = folder.join("start");
    keepwarm_tests::tools::script(&file, &script);
    file
}

#[test]
fn orphans_are_reaped() {
    let (server, keepwarm) = start();
    for _ in 0..4 {
        server.client().patient(LONG).ask(get("/orphans"));
    }
    wait_until("every orphan has ended and was reaped", LONG, || {
        process::zombies(keepwarm).is_empty()
            && process::children(keepwarm).iter().all(|&child| !process::command(child).contains("sleep"))
    });
    assert_eq!(server.ask(get("/")).status, 200);
}

#[test]
fn the_status_of_a_worker_is_not_taken_by_the_reaping_of_orphans() {
    let (server, _) = start();
    // A third death would quarantine the route.
    for _ in 0..2 {
        let mark = server.mark();
        server.client().patient(LONG).ask(get("/orphans"));
        server.client().patient(LONG).ask("POST /exit HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        server.wait_for_log_after(mark, "exited with status 7", LONG);
        wait_until("two workers", LONG, || server.client().patient(LONG).ask(get("/")).status == 200);
    }
    assert!(!server.log().contains("status unknown"), "{}", server.log());
}

#[test]
fn sigterm_and_sighup_work_and_nothing_is_left() {
    let (server, keepwarm) = start();
    server.client().patient(LONG).ask(get("/lasting"));
    let all = process::descendants(server.pid());
    let mark = server.mark();
    process::signal(keepwarm, Signal::HUP);
    server.wait_for_log_after(mark, "reloaded in", LONG);
    process::signal(keepwarm, Signal::TERM);
    assert!(server.wait_for_exit(LONG).success(), "unshare passes the status on");
    wait_until("nothing is left", LONG, || all.iter().all(|&pid| !process::alive(pid)));
}

#[test]
fn an_upgrade_is_refused_with_the_reason() {
    let (server, keepwarm) = start();
    let mark = server.mark();
    process::signal(keepwarm, Signal::USR2);
    server.wait_for_log_after(mark, "process 1 cannot be replaced, because its container ends with it", LONG);
    assert_eq!(server.ask(get("/")).status, 200);
}

/// No process could take over: it ends, and the container's supervisor starts it again.
#[test]
fn with_a_stuck_thread_it_finishes_other_requests_and_exits_with_status_1() {
    let config = format!("[server]\nthreads = 2\nshutdown_grace = \"10m\"\n{CONFIG}");
    let (server, _) = start_as(keepwarm_tests::keepwarm_faulty(), &config);
    let all = process::descendants(server.pid());
    let mut stuck = server.client();
    stuck.send("GET / HTTP/1.1\r\nHost: a\r\nKeepwarm-Fault: hang\r\n\r\n");
    let mut other = client_of_the_other_thread(&server).patient(LONG);
    // A request runs at any time, so one does when Keepwarm ends.
    loop {
        let response = other.ask(get("/slow"));
        assert_eq!(response.status, 200, "{response:?}");
        if response.says_close() {
            break;
        }
    }
    drop(other);
    assert_eq!(server.wait_for_exit(LONG).code(), Some(1), "{}", server.log());
    wait_until("nothing is left", LONG, || all.iter().all(|&pid| !process::alive(pid)));
}

/// Connections go to either thread, and one responds.
fn client_of_the_other_thread(server: &Server) -> Client {
    loop {
        let mut client = server.client().patient(Duration::from_secs(1));
        client.send(get("/"));
        if client.try_response("GET").is_ok_and(|response| response.status == 200) {
            return client;
        }
    }
}
