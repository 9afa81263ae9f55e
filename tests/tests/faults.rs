//! When Keepwarm itself fails: a panic costs the request it happens in, and a thread that hangs is left behind. The binary is the one of the other tests with
//! the feature `fault-injection`: the field `Keepwarm-Fault` names the fault to inject.

use std::time::Duration;

use keepwarm_tests::process::{self, alive, wait_until};
use keepwarm_tests::service::Service;
use keepwarm_tests::terminal::Terminal;
use keepwarm_tests::{Client, admin, get, keepwarm_faulty};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[server]
threads = 2
pid_file = "@DIR@/pid"
shutdown_grace = "10m"
[admin]
# Another than the listener's: a fresh process takes over by the text of a bind.
bind = "127.0.0.2:0"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 2
"#;

fn start() -> Service {
    Service::start(keepwarm_faulty(), CONFIG)
}

fn with_fault(fault: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a.test\r\nKeepwarm-Fault: {fault}\r\n\r\n")
}

#[test]
fn a_panic_costs_its_request_and_the_log_has_the_stack_and_the_request_id() {
    let service = start();
    let server = &service.server;
    let mut other = server.client();
    assert_eq!(other.ask(get("/pong")).status, 200);
    let response = server.client().ask(with_fault("panic"));
    assert_eq!((response.status, response.says_close()), (500, true));
    let text = response.text();
    let id = text.split("Request id: ").nth(1).unwrap_or_else(|| panic!("{text}")).trim();
    let line = server.wait_for_log("a bug in Keepwarm: panicked", LONG);
    assert!(line.contains("ERROR") && line.contains(&format!("id={id}")), "{line}");
    assert!(line.contains("src/faults.rs:") && line.contains("src/h1/connection.rs:"), "{line}");
    // Where a part of the response has left, it is cut.
    let mut cut = server.client();
    cut.send(with_fault("panic-in-body"));
    let (bytes, _) = cut.read_to_end();
    assert!(bytes.windows(4).any(|part| part == b"half") && !bytes.ends_with(b"0\r\n\r\n"));
    // The same process, the same connection.
    assert_eq!(other.ask(get("/pong")).status, 200);
    assert_eq!(service.pid(), Some(server.pid()));
    let panics = "keepwarm_panics_total{app=\"\",task=\"request\"}";
    assert_eq!(admin::wait_for_metric(server, panics, 2.0), 2.0);
}

#[test]
fn a_panic_of_top_restores_the_terminal_before_it_is_reported() {
    let service = start();
    let mut terminal = Terminal::start(keepwarm_faulty(), &["top"], service.server.folder(), &[]);
    terminal.wait_for_text("healthy:", LONG);
    terminal.press("!");
    assert!(!terminal.wait_for_exit(LONG).success());
    terminal.wait_for_text("as the key wants it", LONG);
    let screen = terminal.screen();
    let report = screen.split_once("\x1b[?1049l").unwrap_or_else(|| panic!("{screen:?}"));
    assert!(report.0.contains("\x1b[?25h"), "the cursor is shown again");
    assert!(report.1.contains("top/screen.rs:"), "the report is not on the screen that is left: {screen:?}");
    assert!(terminal.is_cooked(), "lines and echo are on again");
}

#[test]
fn a_thread_that_hangs_is_left_behind_and_a_fresh_process_takes_over() {
    let service = start();
    let server = &service.server;
    let old = server.pid();
    let mut stuck = server.client();
    stuck.send(with_fault("hang"));
    let line = server.wait_for_log("a bug in Keepwarm: stuck thread", LONG);
    assert!(
        line.contains("stack=\"hang (keepwarm/src/faults.rs:") && line.contains("thread=keepwarm-data-"),
        "{line}"
    );
    // The other thread accepts, and has a worker, whichever thread read from it.
    for _ in 0..10 {
        assert_eq!(server.client().patient(LONG).ask(get("/pong")).status, 200);
    }
    assert_eq!(admin::wait_for_metric(server, "keepwarm_threads_stuck", 1.0), 1.0);
    let ready = admin::get(server, "/readyz", "");
    assert!(ready.status == 200 && ready.text().contains("degraded: data-"), "{}", ready.text());
    let mut kept = server.client().patient(LONG);
    kept.send(get("/sleep?ms=9000"));
    let new = service.wait_for_successor(old);
    // It waits for what the other thread has, and for nothing else, least of all for all of its grace.
    assert_eq!(kept.response("GET").status, 200);
    wait_until("the old process is gone", LONG, || !alive(old));
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask(get("/pong")).status, 200);
    stuck.expect_end();
    drop(client);
    process::signal(new, Signal::TERM);
    wait_until("it ends as any other", LONG, || !alive(new));
}
