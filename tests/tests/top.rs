//! `keepwarm top` on a terminal: what it shows, keys, outages, and the terminal afterwards.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::terminal::Terminal;
use keepwarm_tests::{Server, get, keepwarm, tools};
use rustix::process::Signal;

const BOUND: Duration = Duration::from_secs(60);
/// Leaves the alternate screen (xterm): what was shown before is there again.
const LEAVE: &str = "\x1b[?1049l";

const CONFIG: &str = "[listen.main]\nbind = \"127.0.0.1:0\"\n[app.kettle]\nentry = \"wsgi_app:application\"\n\
                      directory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n";

fn start() -> Server {
    Server::start(CONFIG).warm("/pong")
}

fn top(server: &Server, env: &[(&str, &str)]) -> Terminal {
    Terminal::start(keepwarm(), &["top"], server.folder(), env)
}

#[track_caller]
fn assert_restored(terminal: &Terminal) {
    terminal.wait_for_text(LEAVE, BOUND);
    assert!(terminal.screen().contains("\x1b[?25h"), "the cursor is shown again");
    assert!(terminal.is_cooked(), "lines and echo are on again");
}

#[test]
fn the_verdict_and_the_lists_are_shown_until_q() {
    let server = start();
    let mut client = server.client();
    client.send(get("/sleep?ms=20000"));
    let mut terminal = top(&server, &[]);
    terminal.wait_for_text("healthy:", BOUND);
    terminal.wait_for_text("kettle", BOUND);
    assert!(!terminal.is_cooked(), "keys come as they are pressed");
    terminal.press("\t");
    terminal.wait_for_text("DOING", BOUND);
    terminal.wait_for_text("GET", BOUND);
    terminal.press("?");
    terminal.wait_for_text("filter", BOUND);
    terminal.press("q");
    assert!(terminal.wait_for_exit(BOUND).success());
    assert_restored(&terminal);
    assert!(terminal.screen().contains("\x1b[38;5;2;"), "green, for what is ready");
}

#[test]
fn requests_are_shown_with_their_paths_and_the_failed_ones_after_their_end() {
    let server = start();
    assert_eq!(server.client().ask(get("/raise?token=secret")).status, 500);
    let mut client = server.client();
    client.send(get("/sleep?ms=20000"));
    let mut terminal = top(&server, &[]);
    terminal.wait_for_text("REQ/S", BOUND);
    terminal.press("\t\t");
    terminal.wait_for_text("PHASE", BOUND);
    terminal.wait_for_text("/sleep", BOUND);
    terminal.press("\t");
    terminal.wait_for_text("ENDED", BOUND);
    terminal.wait_for_text("/raise", BOUND);
    assert!(!terminal.screen().contains("secret"), "{:?}", terminal.screen());
    terminal.press("q");
    assert!(terminal.wait_for_exit(BOUND).success());
    assert_restored(&terminal);
}

#[test]
fn without_colors_none_are_sent() {
    let server = start();
    let mut terminal = top(&server, &[("NO_COLOR", "1")]);
    terminal.wait_for_text("healthy:", BOUND);
    terminal.press("\x03");
    assert!(terminal.wait_for_exit(BOUND).success());
    assert_restored(&terminal);
    let screen = terminal.screen();
    assert!(!screen.contains("\x1b[38;") && !screen.contains("\x1b[31m"), "{screen:?}");
}

#[test]
fn a_signal_restores_the_terminal() {
    let server = start();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = top(&server, &[]);
        terminal.wait_for_text("kettle", BOUND);
        process::signal(terminal.pid(), signal);
        terminal.wait_for_exit(BOUND);
        assert_restored(&terminal);
    }
}

/// The instance is killed, and started again from the same configuration.
#[test]
fn an_outage_is_said_and_the_next_instance_is_found() {
    let server = start();
    let mut terminal = top(&server, &[]);
    terminal.wait_for_text("kettle", BOUND);
    let mut second = Command::new(keepwarm());
    second.arg("run").current_dir(server.folder()).stdout(Stdio::null()).stderr(Stdio::null());
    second.env("KEEPWARM_SERVER__USER", "root").env("PYTHONDONTWRITEBYTECODE", "1");
    server.signal(Signal::KILL);
    terminal.wait_for_text("SNAPSHOT", BOUND);
    let second = Running(second.spawn().expect("it starts"));
    // A new size has the whole screen sent, and not only what has changed.
    let mut widths = [100, 101].into_iter().cycle();
    wait_until("it shows the other process", BOUND, || {
        let shown = terminal.screen().len();
        terminal.resize(widths.next().expect("endless"), 40);
        wait_until("it is drawn", BOUND, || terminal.screen().len() > shown);
        terminal.screen().contains(&second.0.id().to_string())
    });
    terminal.press("q");
    assert!(terminal.wait_for_exit(BOUND).success());
    assert_restored(&terminal);
}

/// Ends with its test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        process::signal(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn without_a_terminal_the_error_names_what_works() {
    let server = start();
    let output = tools::run(Command::new(keepwarm()).arg("top").current_dir(server.folder()), BOUND);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("keepwarm why --json") && said.contains("GET /events"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn without_an_instance_the_terminal_stays_as_it_is() {
    let mut terminal = Terminal::start(keepwarm(), &["top", "--pid", process::NOBODY], "/".as_ref(), &[]);
    assert_eq!(terminal.wait_for_exit(BOUND).code(), Some(1));
    wait_until("the error is shown", BOUND, || terminal.screen().contains("Keepwarm"));
    let screen = terminal.screen();
    // Root looks for those of every user.
    let whose = if rustix::process::geteuid().is_root() { "" } else { " of this user" };
    // Other tests may run some, which are listed then.
    let none = format!("process {} is not a Keepwarm{whose};", process::NOBODY);
    assert!(screen.contains(&none) || screen.contains(&format!("no Keepwarm{whose} is running")), "{screen}");
    assert!(!terminal.screen().contains("\x1b[?1049h") && terminal.is_cooked());
}

#[test]
fn a_small_terminal_and_a_new_size_are_followed() {
    let server = start();
    let mut terminal = top(&server, &[]);
    terminal.wait_for_text("Certificates", BOUND);
    terminal.resize(40, 12);
    terminal.press("\t");
    terminal.wait_for_text("DOING", BOUND);
    terminal.press("q");
    assert!(terminal.wait_for_exit(BOUND).success());
}
