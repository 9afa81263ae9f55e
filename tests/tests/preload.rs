//! `preload`: the app is loaded once, and its workers are forked.

use std::collections::BTreeSet;
use std::time::Duration;

use keepwarm_tests::process::{alive, descendants, signal, wait_until};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(30);

/// The same application for each interface.
const WSGI: &str = "preload_app:application";
const ASGI: &str = "preload_app:asynchronous";
const RACK: &str = "preload.ru";

fn config(entry: &str, more: &str) -> String {
    let interpreter = match entry {
        RACK => "ruby",
        _ => "@PYTHON@",
    };
    format!(
        r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
entry = "{entry}"
directory = "@APPS@"
interpreter = "{interpreter}"
preload = true
env = {{ COUNT_FILE = "@DIR@/count"{more} }}
workers = 2
"#
    )
}

fn start(entry: &str) -> Server {
    Server::start(&config(entry, "")).warm("/")
}

/// The processes that have loaded the app so far.
fn loads(server: &Server) -> Vec<u32> {
    let text = std::fs::read_to_string(server.folder().join("count")).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("load ")?.parse().ok()).collect()
}

/// The workers that have responded, once this many have.
fn seen(server: &Server, count: usize) -> BTreeSet<u64> {
    let mut seen = BTreeSet::new();
    wait_until("all workers respond", LONG, || {
        // Side by side, so that no worker is free for all of them.
        let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| _ = client.send(get("/")));
        for client in &mut clients {
            let about = client.response("GET").json();
            seen.insert(about["pid"].as_u64().expect("a pid"));
        }
        seen.len() >= count
    });
    seen
}

#[test]
fn the_app_is_loaded_once_and_every_worker_is_forked_from_it() {
    for entry in [WSGI, ASGI, RACK] {
        let server = start(entry);
        let [template] = loads(&server)[..] else { panic!("{entry}: {:?}", loads(&server)) };
        let workers = seen(&server, 2);
        assert!(!workers.contains(&u64::from(template)), "{entry}: the template serves nothing");
        let about = server.ask(get("/")).json();
        assert_eq!(about["loaded_by"], template, "{entry}");
        assert_eq!(about["parent"], template, "{entry}");
        assert_eq!(about["session"], about["pid"], "{entry}: a session of its own");
        assert!(about["worker"] == "1" || about["worker"] == "2", "{entry}: {about}");
        let hooks = about["hooks"].as_array().expect("a list");
        let said =
            |hook: Option<&serde_json::Value>| hook.and_then(|hook| Some(hook.as_str()?.to_lowercase()));
        assert_eq!(said(hooks.first()).as_deref(), Some("before true"), "{entry}");
        assert_eq!(said(hooks.last()).as_deref(), Some("after false"), "{entry}");
    }
}

#[test]
fn the_output_of_a_forked_worker_is_logged_as_its_own() {
    for entry in [WSGI, RACK] {
        let server = start(entry);
        let about = server.ask(get("/print")).json();
        let line = server.wait_for_log(&format!("printed by {}", about["pid"]), LONG);
        assert!(line.contains(&format!("worker={}", about["worker"].as_str().expect("a number"))), "{line}");
    }
}

#[test]
fn a_worker_that_dies_is_forked_again_and_its_exit_logged() {
    for entry in [WSGI, RACK] {
        let server = start(entry);
        let before = seen(&server, 2);
        let mark = server.mark();
        let dead = *before.first().expect("two");
        signal(u32::try_from(dead).expect("a pid"), Signal::KILL);
        server.wait_for_log_after(mark, "killed by signal 9 (SIGKILL)", LONG);
        wait_until("another serves in its place", LONG, || {
            let now = seen(&server, 2);
            now.len() == 2 && !now.contains(&dead)
        });
        let mark = server.mark();
        assert_eq!(server.ask("POST /exit HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status, 502);
        server.wait_for_log_after(mark, "exited with status 7", LONG);
        assert_eq!(loads(&server).len(), 1, "nobody has loaded it again");
    }
}

#[test]
fn without_its_template_an_app_keeps_running_and_a_new_one_is_started() {
    let server = start(WSGI);
    let before = seen(&server, 2);
    let template = loads(&server)[0];
    signal(template, Signal::KILL);
    wait_until("it has gone", LONG, || !alive(template));
    assert_eq!(seen(&server, 2), before, "its workers go on");
    let dead = *before.first().expect("two");
    signal(u32::try_from(dead).expect("a pid"), Signal::KILL);
    wait_until("a template is loaded again", LONG, || loads(&server).len() == 2);
    wait_until("and forks", LONG, || {
        let now = seen(&server, 2);
        now.len() == 2 && !now.contains(&dead)
    });
}

/// The log of a start that fails.
#[track_caller]
fn failure(entry: &str, more: &str) -> String {
    let server = Server::spawn(&config(entry, more), |_| {});
    assert_eq!(server.wait_for_exit(LONG).code(), Some(1), "{entry}: {}", server.log());
    server.log()
}

#[test]
fn a_python_app_that_starts_threads_is_refused_with_their_names() {
    let log = failure(WSGI, ", START_THREAD = \"1\"");
    for part in ["preload is not possible", "metrics-flusher", "after_fork"] {
        assert!(log.contains(part), "no {part:?} in\n{log}");
    }
}

#[test]
fn a_rack_app_that_starts_threads_is_served_and_they_are_named() {
    let server = Server::start(&config(RACK, ", START_THREAD = \"1\"")).warm("/");
    let line = server.wait_for_log("metrics-flusher", LONG);
    for part in ["started a thread while loading", "after_fork"] {
        assert!(line.contains(part), "no {part:?} in {line}");
    }
    assert_eq!(server.ask(get("/")).json()["loaded_by"], loads(&server)[0]);
}

#[test]
fn a_hook_that_fails_ends_the_start_with_its_traceback() {
    for (entry, trace) in [(WSGI, "Traceback (most recent call last)"), (RACK, "preload.ru:")] {
        let log = failure(entry, ", FAIL_AFTER_FORK = \"1\"");
        for part in ["no database in this worker", trace] {
            assert!(log.contains(part), "{entry}: no {part:?} in\n{log}");
        }
    }
}

#[test]
fn a_reload_starts_a_new_template_and_leaves_nothing_of_the_old() {
    let server = start(WSGI);
    let before = descendants(server.pid());
    let first = loads(&server)[0];
    let workers = seen(&server, 2);
    let mark = server.mark();
    server.signal(Signal::HUP);
    server.wait_for_log_after(mark, "reloaded", LONG);
    assert_eq!(loads(&server).len(), 2);
    wait_until("the old template and its workers have gone", LONG, || {
        !alive(first) && workers.iter().all(|&pid| !alive(u32::try_from(pid).expect("a pid")))
    });
    wait_until("as many processes as before", LONG, || descendants(server.pid()).len() == before.len());
    // A version that does not load leaves the one that serves.
    std::fs::write(server.folder().join("count.broken"), "").expect("a flag");
    let mark = server.mark();
    server.signal(Signal::HUP);
    server.wait_for_log_after(mark, "the new version is broken", LONG);
    server.wait_for_log_after(mark, "reload failed", LONG);
    assert_eq!(server.ask(get("/")).status, 200);
    wait_until("as many processes as before", LONG, || descendants(server.pid()).len() == before.len());
}

#[test]
fn nothing_survives_keepwarm() {
    let server = start(WSGI);
    seen(&server, 2);
    let all = descendants(server.pid());
    server.signal(Signal::KILL);
    wait_until("all are gone", LONG, || all.iter().all(|&pid| !alive(pid)));
    let server = start(WSGI);
    seen(&server, 2);
    let all = descendants(server.pid());
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    wait_until("all are gone", LONG, || all.iter().all(|&pid| !alive(pid)));
}

#[test]
fn a_template_that_hangs_while_it_loads_meets_the_boot_timeout() {
    let hanging = config("hang_app:application", "");
    let hanging = hanging.replace("workers = 2", "workers = 2\nboot_timeout = \"500ms\"\nstart_retries = 1");
    let server = Server::spawn(&hanging, |_| {});
    assert_eq!(server.wait_for_exit(LONG).code(), Some(1), "{}", server.log());
}
