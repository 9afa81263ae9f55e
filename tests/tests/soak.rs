//! Workers come and go, and the counts before and after are equal: descriptors, threads, processes, files. `SOAK_RECYCLES` sets how many (default 15),
//! `SOAK_FORKED` how many that are forks of a template (default 60).

use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::process_mark::{ProcessMark, ResourceUsage};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);
const WORKERS: usize = 4;

const CONFIG: &str = r#"
[server]
log = { file = "@DIR@/log" }
pid_file = "@DIR@/pid"
[listen.main]
bind = ["127.0.0.1:0", "unix:@DIR@/socket"]
access_log = { file = "@DIR@/access" }
[[listen.main.route]]
app = "app"
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 4
start_retries = 1000
env = { COUNT_FILE = "@DIR@/count" }
"#;

/// Every worker is replaced after each request or two.
const FORKED: &str = "preload = true\nmax_requests = 2\n";

#[test]
fn nothing_is_left_behind_by_workers_that_come_and_go() {
    let recycles = wanted("SOAK_RECYCLES", 15);
    let mark = ProcessMark::new();
    let server = start(CONFIG, &mark);
    // Once through everything, so that resources made at first use and kept exist; the rest are Keepwarm, its guardian and the workers.
    reload(&server);
    kill_one(&server);
    let before = rested(&server, &mark, WORKERS + 2);
    let mut gone = 0;
    while gone < recycles {
        reload(&server);
        kill_one(&server);
        gone += WORKERS + 1;
        assert_eq!(server.client().patient(LONG).ask(get("/pong")).text(), "pong");
    }
    before.wait_for(&server, &mark, LONG);
}

/// With the template there is one process more.
#[test]
fn nothing_is_left_behind_by_forks_that_come_and_go() {
    let recycles = wanted("SOAK_FORKED", 60);
    let mark = ProcessMark::new();
    let server = start(&format!("{CONFIG}{FORKED}"), &mark);
    let ended = || logged(&server, "worker stopped");
    let replace = |wanted: usize| {
        while ended() < wanted {
            let mut client = server.client().patient(LONG);
            (0..WORKERS * 4).for_each(|_| assert_eq!(client.ask(get("/pong")).text(), "pong"));
        }
    };
    replace(WORKERS);
    let before = rested(&server, &mark, WORKERS + 3);
    let mut gone = ended();
    let last = gone + recycles;
    while gone < last {
        gone = last.min(gone + 50);
        replace(gone);
    }
    before.wait_for(&server, &mark, LONG);
}

/// The counts once nothing changes any more, with this many processes.
#[track_caller]
fn rested(server: &Server, mark: &ProcessMark, processes: usize) -> ResourceUsage {
    let (mut last, mut same) = (ResourceUsage::of(server, mark), 0);
    wait_until("rest", LONG, || {
        let now = ResourceUsage::of(server, mark);
        same = if now == last && now.processes == processes { same + 1 } else { 0 };
        last = now;
        same == 25
    });
    last
}

fn wanted(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn start(config: &str, mark: &ProcessMark) -> Server {
    Server::start_with(config, |command| {
        mark.apply_to(command);
        let temporary = command.get_current_dir().expect("a folder").join("tmp");
        std::fs::create_dir(&temporary).expect("a folder");
        command.env("TMPDIR", temporary);
    })
    .warm("/pong")
}

/// How often this stands in the log.
fn logged(server: &Server, part: &str) -> usize {
    std::fs::read_to_string(server.folder().join("log")).unwrap_or_default().matches(part).count()
}

/// Does it, and waits until this many more workers are ready.
#[track_caller]
fn replace(server: &Server, workers: usize, act: impl FnOnce()) {
    const READY: &str = "worker ready";
    let wanted = logged(server, READY) + workers;
    act();
    wait_until("others in their places", LONG, || logged(server, READY) >= wanted);
}

/// All workers are replaced.
#[track_caller]
fn reload(server: &Server) {
    const ENDED: &str = "worker stopped";
    let wanted = logged(server, ENDED) + WORKERS;
    replace(server, WORKERS, || server.signal(Signal::HUP));
    wait_until("the old ones have ended", LONG, || logged(server, ENDED) >= wanted);
}

/// One worker dies and is replaced.
#[track_caller]
fn kill_one(server: &Server) {
    let worker = server.workers()[0];
    replace(server, 1, || process::signal(worker, Signal::KILL));
}
