//! Workers that do well are replaced when they have reached a limit; the replacement is ready before the old one finishes, and no request is
//! lost or repeated by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use keepwarm_tests::load::{self, Load, all_responded_once};
use keepwarm_tests::process::{self, alive, wait_until};
use keepwarm_tests::{Server, get};
use rustix::process::{Pid, Signal, getpriority_process, setpriority_process};

const LONG: Duration = Duration::from_secs(30);

fn config(entry: &str, workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"{entry}\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n\
         env = {{ COUNT_FILE = \"@DIR@/count\", FLAG_FILE = \"@DIR@/flag\" }}\n{more}\n"
    )
}

/// Starts and waits until every worker is there.
#[track_caller]
fn start(entry: &str, count: u32, more: &str) -> Server {
    let server = Server::start(&config(entry, count, more)).warm("/pong");
    wait_until("all workers run", LONG, || workers(&server).len() == count as usize);
    server
}

/// The workers: not what one of them starts, which is called as it is until it runs its own program.
fn workers(server: &Server) -> Vec<u32> {
    let mut found = process::children(server.pid());
    found.retain(|&pid| process::command(pid).contains("-m keepwarm"));
    found
}

fn counts(server: &Server) -> BTreeMap<String, u32> {
    load::counts(&server.folder().join("count"))
}

/// How many workers the log reports as replaced for this reason.
fn recycled(server: &Server, why: &str) -> usize {
    server.log().lines().filter(|line| line.contains(&format!("replacing worker ({why})"))).count()
}

#[test]
fn max_requests_replaces_workers_under_load_without_a_loss() {
    let server = start("wsgi_app:application", 2, "max_requests = 40");
    let load = Load::new(server.address(), "POST");
    let mut seen = BTreeSet::new();
    let outcomes = load.while_doing(3, 3, || {
        wait_until("six workers are replaced", LONG * 2, || {
            seen.extend(workers(&server));
            recycled(&server, "requests") >= 6
        });
    });
    all_responded_once(&counts(&server), &outcomes);
    assert!(seen.len() >= 6, "{seen:?}");
    wait_until("two workers", LONG, || workers(&server).len() == 2);
}

/// A background process of a request (`exec('… &')`) is not cut off when its worker is replaced; Keepwarm's own end takes it along.
#[test]
fn background_processes_of_a_worker_outlive_it_but_not_keepwarm() {
    let config = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n[app.app]\nentry = \"php_app.php\"\n\
                  directory = \"@APPS@\"\nworkers = 1\nmax_requests = 20\n";
    let server = Server::start(config).warm("/pong");
    let pid = |path: &str| server.ask(get(path)).text().trim().parse::<u32>().expect("a pid");
    let (first, child) = (pid("/pid"), pid("/background"));
    wait_until("max_requests replaces the worker", LONG, || pid("/pid") != first);
    wait_until("it has ended", LONG, || !alive(first));
    assert!(alive(child), "it ended with its worker:\n{}", server.log());
    let (second, later) = (pid("/pid"), pid("/background"));
    server.reload();
    wait_until("it has ended", LONG, || !alive(second));
    assert!(alive(child) && alive(later), "it ended with its worker:\n{}", server.log());
    server.signal(Signal::TERM);
    server.wait_for_exit(LONG);
    wait_until("all are gone", LONG, || !alive(child) && !alive(later));
}

#[test]
fn max_requests_of_a_lone_quick_worker_loses_nothing() {
    let server = start("wsgi_app:application", 1, "max_requests = 100");
    let load = Load::new(server.address(), "POST");
    let outcomes = load.while_doing(8, 1, || {
        wait_until("three workers are replaced", LONG * 2, || recycled(&server, "requests") >= 3);
    });
    all_responded_once(&counts(&server), &outcomes);
}

#[test]
fn max_age_replaces_an_idle_worker() {
    let server = start("wsgi_app:application", 1, "max_age = \"1s\"");
    let first = workers(&server);
    server.wait_for_log("replacing worker (age)", LONG);
    wait_until("another worker, and it alone", LONG, || {
        let now = workers(&server);
        now.len() == 1 && now != first
    });
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}

#[test]
fn max_memory_replaces_the_worker_that_holds_more_and_no_other() {
    let server = start("greedy_app:application", 2, "max_memory = \"96MiB\"");
    let load = Load::new(server.address(), "POST");
    let before = workers(&server);
    let mut greedy = 0;
    let outcomes = load.while_doing(2, 2, || {
        greedy = server.ask(get("/hold?mib=128")).text().parse().expect("a pid");
        wait_until("it is gone", LONG, || !alive(greedy));
        load.wait_for(50);
    });
    all_responded_once(&counts(&server), &outcomes);
    assert_eq!(recycled(&server, "memory"), 1, "{}", server.log());
    let other = before.into_iter().find(|&pid| pid != greedy).expect("two workers");
    assert!(alive(other), "{}", server.log());
}

#[test]
fn kill_memory_kills_and_the_request_is_not_retried() {
    let server = start("greedy_app:application", 2, "kill_memory = \"128MiB\"");
    let mut client = server.client().patient(LONG);
    client.send(get("/hold?mib=192&ms=60000"));
    assert_eq!(client.response("GET").status, 502);
    let line = server.wait_for_log("above kill_memory (128 MiB)", LONG);
    assert!(line.contains("SIGKILL"), "{line}");
    wait_until("two workers again", LONG, || workers(&server).len() == 2);
    let kills = server.log().lines().filter(|line| line.contains("above kill_memory")).count();
    // One line for the kill, one for the replacement: a second worker that took it would have been killed, too.
    assert!(kills <= 2, "{}", server.log());
}

#[test]
fn a_worker_whose_replacement_cannot_start_keeps_running() {
    let server = start("flag_app:application", 1, "max_requests = 5\nstart_retries = 1");
    let first = workers(&server);
    std::fs::write(server.folder().join("flag"), "").expect("a flag");
    for _ in 0..5 {
        assert_eq!(server.ask(get("/pong")).status, 200);
    }
    server.wait_for_log("worker not replaced; will retry", LONG);
    for _ in 0..20 {
        assert_eq!(server.ask(get("/pong")).status, 200);
    }
    wait_until("the old worker alone", LONG, || workers(&server) == first);
}

#[test]
fn an_idle_worker_that_hangs_is_killed_and_replaced() {
    let server = start("wsgi_app:application", 1, "request_timeout = \"1s\"");
    let stuck = workers(&server)[0];
    process::stop(stuck);
    server.wait_for_log("was idle and did not respond within", LONG);
    wait_until("another worker", LONG, || {
        let now = workers(&server);
        now.len() == 1 && now[0] != stuck
    });
    assert!(!alive(stuck));
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}

#[test]
fn a_healthy_idle_worker_is_not_replaced() {
    let start = |entry| start(entry, 1, "request_timeout = \"8s\"");
    let servers = ["wsgi_app:application", "asgi_app:application"].map(start);
    let before = servers.each_ref().map(workers);
    // Longer than it takes to ask, and to wait for the response.
    std::thread::sleep(Duration::from_secs(15));
    assert_eq!(servers.each_ref().map(workers), before);
}

#[test]
fn a_worker_beside_others_is_loaded_at_a_low_priority_and_serves_at_the_ordinary_one() {
    let server = start("greedy_app:application", 1, "");
    let ordinary = niceness(server.pid());
    let told = |server: &Server| server.ask(get("/priorities")).json();
    assert_eq!(told(&server)["loaded"].as_i64(), Some(ordinary.into()), "nobody else served");
    let first = workers(&server);
    server.signal(Signal::HUP);
    wait_until("another worker", LONG, || {
        let now = workers(&server);
        now.len() == 1 && now != first
    });
    let low = if may_raise() { (ordinary + 5).min(19) } else { ordinary };
    assert_eq!(told(&server)["loaded"].as_i64(), Some(low.into()));
    let worker = workers(&server)[0];
    wait_until("all its threads have the ordinary priority", LONG, || {
        let threads: Vec<u32> = std::fs::read_dir(format!("/proc/{worker}/task"))
            .expect("threads")
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        threads.len() >= 2 && threads.into_iter().all(|thread| niceness(thread) == ordinary)
    });
    let group = std::fs::read_to_string(format!("/proc/{worker}/autogroup")).unwrap_or_default();
    assert!(group.is_empty() || group.trim_end().ends_with("nice 0"), "{group}");
}

fn niceness(id: u32) -> i32 {
    let id = Pid::from_raw(id.cast_signed()).expect("an id");
    getpriority_process(Some(id)).expect("it lives")
}

/// Whether this process may take niceness from another: with CAP_SYS_NICE, or a limit that allows it.
fn may_raise() -> bool {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
    let pid = Pid::from_child(&child);
    let before = getpriority_process(Some(pid)).expect("it lives");
    let may = setpriority_process(Some(pid), (before + 1).min(19)).is_ok()
        && setpriority_process(Some(pid), before).is_ok();
    child.kill().expect("it lives");
    child.wait().expect("a child");
    may
}
