//! `keepwarm run` on a terminal: the first lines, the log for a person, progress, Ctrl-C.

use std::path::PathBuf;
use std::time::Duration;

use keepwarm_tests::terminal::Terminal;
use keepwarm_tests::{Client, get, keepwarm, python};

const BOUND: Duration = Duration::from_secs(60);

/// An application of the standard library alone.
const APP: &str = r#"
import os, sys, time

while os.environ.get("GATE") and not os.path.exists(os.environ["GATE"]):
    time.sleep(0.01)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/boom":
        raise ValueError("no such card")
    if path == "/print":
        print("\x1b[31msold\x1b[0m 10\tkettles\x1b[2J", flush=True)
    if path == "/slow":
        time.sleep(1.05)
    if path == "/wait":
        print("waiting", flush=True)
        time.sleep(60)
    start_response("404 Not Found" if path == "/none" else "200 OK", [("Content-Type", "text/plain")])
    return [b"x"]
"#;

/// A directory with the application, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("keepwarm-terminal-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        std::fs::write(path.join("app.py"), APP).expect("a file");
        Self(path)
    }

    fn run(&self, arguments: &[&str], env: &[(&str, &str)]) -> Terminal {
        let interpreter = python().to_str().expect("UTF-8");
        let venv = interpreter.strip_suffix("/bin/python").unwrap_or("");
        let mut env = env.to_vec();
        env.push(("VIRTUAL_ENV", venv));
        Terminal::start(keepwarm(), &[&["run"], arguments].concat(), &self.0, &env)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const ARGUMENTS: &[&str] = &["app:app", "--port", "0", "--workers", "1"];

/// A client of the server whose banner is on the screen.
fn client(terminal: &Terminal) -> Client {
    let line = terminal.wait_for("listening  http://127.0.0.1:", BOUND);
    let port = line.rsplit(':').next().expect("a port").trim();
    Client::connect(([127, 0, 0, 1], port.parse().expect("a number")).into()).patient(BOUND)
}

/// A line without what differs in each run: the time of day, ports, process ids, durations.
fn scrubbed(line: &str) -> String {
    let is_clock =
        |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for at in 0..words.len() {
        let next = words.get(at + 1).cloned().unwrap_or_default();
        if at == 0 && is_clock(&words[at]) {
            words[at] = "HH:MM:SS".to_owned();
        } else if matches!(next.as_str(), "ms" | "s") {
            words[at] = "N".to_owned();
        } else if let Some((before, port)) = words[at].rsplit_once(':')
            && before.starts_with("http://")
            && port.parse::<u16>().is_ok()
        {
            words[at] = format!("{before}:PORT");
        }
    }
    words.join(" ")
}

#[test]
fn the_first_lines_are_a_table() {
    let directory = Directory::new("banner");
    let terminal = directory.run(ARGUMENTS, &[("NO_COLOR", "1")]);
    terminal.wait_for("Ctrl-C           stop", BOUND);
    let screen = terminal.screen();
    let begin = screen.find("  keepwarm ").expect("a banner");
    let shown: Vec<String> = screen[begin..].lines().take(12).map(scrubbed).collect();
    let version = shown[2].split("CPython ").nth(1).expect("a version").trim_end_matches(')').to_owned();
    let expected = [
        format!("  keepwarm {}", env!("CARGO_PKG_VERSION")),
        String::new(),
        format!("  serving    app:app (WSGI, CPython {version})"),
        format!("  with       1 worker, by {}", python().display()),
        "  listening  http://127.0.0.1:PORT".to_owned(),
        "  config     command line".to_owned(),
        String::new(),
        "  --reload         replace the workers when a file changes".to_owned(),
        "  keepwarm init    write a keepwarm.toml".to_owned(),
        "  keepwarm status  show workers and requests".to_owned(),
        "  Ctrl-C           stop".to_owned(),
        String::new(),
    ];
    assert_eq!(shown, expected);
    assert!(!screen.contains('\x1b'), "no color is wanted\n{screen}");
}

#[test]
fn requests_and_what_the_app_prints_are_lines_for_a_person() {
    let directory = Directory::new("lines");
    let terminal = directory.run(ARGUMENTS, &[("NO_COLOR", "1")]);
    let mut client = client(&terminal);
    let mut visit = |path: &str| {
        client.ask(get(path));
        scrubbed(&terminal.wait_for(&format!("GET {path} "), BOUND))
    };
    assert_eq!(visit("/index"), "HH:MM:SS 200 GET /index N ms");
    assert_eq!(visit("/none"), "HH:MM:SS 404 GET /none N ms");
    assert_eq!(visit("/slow"), "HH:MM:SS 200 GET /slow N s slow");
    assert_eq!(visit("/print"), "HH:MM:SS 200 GET /print N ms");
    assert_eq!(scrubbed(&terminal.wait_for("kettles", BOUND)), "HH:MM:SS app/1 | sold 10\tkettles\\x1b[2J");
    assert_eq!(visit("/boom"), "HH:MM:SS 500 GET /boom N ms app_error");
    terminal.wait_for("ValueError: no such card", BOUND);
    let screen = terminal.screen();
    let begin = screen.find("Traceback (most recent call last):").expect("a traceback");
    let begin = screen[..begin].rfind('\n').expect("a line before") + 1;
    let end = screen.find("ValueError: no such card").expect("its end");
    let lines: Vec<&str> = screen[begin..end + 24].lines().collect();
    assert_eq!(scrubbed(lines[0]), "HH:MM:SS app/1 | Traceback (most recent call last):");
    // Each line as Python prints it, after the same prefix, and nothing after it.
    for line in &lines[1..] {
        assert!(line.starts_with("         app/1 | "), "{line:?}\n{screen}");
        assert!(!line.contains("pid=") && !line.contains("stream="), "{line:?}");
    }
    let raised = APP.lines().position(|line| line.contains("raise ")).expect("a line") + 1;
    let file = directory.0.join("app.py");
    let file = format!("         app/1 |   File \"{}\", line {raised}, in app", file.display());
    assert!(lines.contains(&file.as_str()), "no {file:?} in\n{screen}");
    assert_eq!(lines.last(), Some(&"         app/1 | ValueError: no such card"));
}

#[test]
fn statuses_levels_and_the_apps_own_colors_are_shown() {
    let directory = Directory::new("colors");
    let terminal = directory.run(ARGUMENTS, &[]);
    let line = terminal.wait_for("\x1b[2mlistening\x1b[0m  http://127.0.0.1:", BOUND);
    let port: u16 = line.rsplit(':').next().expect("a port").trim().parse().expect("a number");
    let mut client = Client::connect(([127, 0, 0, 1], port).into()).patient(BOUND);
    for (path, expected) in [
        ("/index", "\x1b[32m200\x1b[0m GET /index \x1b[2m"),
        ("/none", "\x1b[33m404\x1b[0m GET /none \x1b[2m"),
    ] {
        client.ask(get(path));
        let line = terminal.wait_for(&format!("GET {path} "), BOUND);
        assert!(line.starts_with("\x1b[2m") && line.contains(expected), "{line:?}");
    }
    client.ask(get("/print"));
    let line = terminal.wait_for("kettles", BOUND);
    assert!(line.ends_with("app/1 |\x1b[0m \x1b[31msold\x1b[0m 10\tkettles\\x1b[2J\x1b[0m"), "{line:?}");
    assert!(!terminal.screen().contains("\x1b[2J"), "an app does not clear the screen");
    client.ask(get("/boom"));
    let line = terminal.wait_for("Traceback", BOUND);
    assert!(line.contains("\x1b[31mapp/1 |\x1b[0m Traceback"), "{line:?}");
}

#[test]
fn json_stays_json() {
    let directory = Directory::new("json");
    let terminal = directory.run(
        ARGUMENTS,
        &[("KEEPWARM_SERVER__LOG__FORMAT", "json"), ("KEEPWARM_LISTEN__MAIN__ACCESS_LOG", "json")],
    );
    let line = terminal.wait_for("worker ready", BOUND);
    assert!(line.starts_with("{\"time\":\"") && line.ends_with('}'), "{line}");
}

/// A start that takes long says which workers it waits for.
#[test]
fn a_slow_start_is_reported() {
    let directory = Directory::new("progress");
    let gate = directory.0.join("gate");
    let env = [("NO_COLOR", "1"), ("GATE", gate.to_str().expect("UTF-8"))];
    let terminal = directory.run(&["app:app", "--port", "0", "--workers", "2"], &env);
    let line = terminal.wait_for("  starting ", BOUND);
    assert_eq!(line, "  starting   app: 0 of 2 workers ready after 2 s; waiting for app/1, app/2");
    assert!(!terminal.screen().contains("listening"), "{}", terminal.screen());
    std::fs::write(gate, "").expect("a file");
    terminal.wait_for("with       2 workers", BOUND);
}

#[test]
fn ctrl_c_stops_and_a_second_one_stops_at_once() {
    let directory = Directory::new("keys");
    let mut terminal = directory.run(ARGUMENTS, &[("NO_COLOR", "1")]);
    drop(client(&terminal));
    terminal.press("\x03");
    let status = terminal.wait_for_exit(Duration::from_secs(20));
    assert!(status.success(), "{status}");
    assert!(!terminal.screen().contains("stopping at once"), "{}", terminal.screen());

    let mut terminal = directory.run(ARGUMENTS, &[("NO_COLOR", "1")]);
    let mut waiting = client(&terminal);
    waiting.send(get("/wait"));
    terminal.wait_for("app/1 | waiting", BOUND);
    terminal.press("\x03");
    let line = terminal.wait_for("Ctrl-C again stops at once", BOUND);
    assert!(line.contains("  stopping   waits for 1 connection, up to 25 s;"), "{line}");
    terminal.press("\x03");
    let status = terminal.wait_for_exit(Duration::from_secs(10));
    assert!(status.success(), "{status}");
    assert!(terminal.screen().contains("WARN  stopping at once"), "{}", terminal.screen());
}

/// While workers boot there is nothing to wait for.
#[test]
fn ctrl_c_ends_a_start() {
    let directory = Directory::new("start");
    let env = [("NO_COLOR", "1"), ("GATE", "/nowhere/at/all")];
    let mut terminal = directory.run(ARGUMENTS, &env);
    terminal.wait_for("  starting   app: 0 of 1 workers ready", BOUND);
    terminal.press("\x03");
    let status = terminal.wait_for_exit(Duration::from_secs(10));
    assert!(status.success(), "{status}");
}
