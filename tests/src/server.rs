//! The server under test: the real binary, with a configuration in a directory of its own, on a free port.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Client, get, keepwarm, process, tools};

/// A configuration which sends everything to the test application for WSGI, in one worker.
pub const WSGI: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

/// The same for ASGI.
pub const ASGI: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
entry = "asgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 1
"#;

/// The same for Rack, in as many ways as the HTTP suites need.
pub const RACK: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
entry = "rack_app.ru"
directory = "@APPS@"
workers = 1
"#;

/// The same for PHP that is kept warm.
pub const PHP: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
kind = "php"
entry = "php_app.php"
directory = "@APPS@"
workers = 1
"#;

/// The same for classic PHP.
pub const FASTCGI: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "app"
[app.app]
kind = "fastcgi"
entry = "web/index.php"
directory = "@APPS@"
workers = 1
"#;

/// How long a start may take: Python imports, on a machine that runs the other tests too.
const START: Duration = Duration::from_secs(30);
/// How long a reload may take: new workers start.
const RELOAD: Duration = Duration::from_secs(180);

/// A running `keepwarm`, stopped when dropped, and also when the test process itself dies.
pub struct Server {
    child: Mutex<Child>,
    pid: u32,
    address: Option<SocketAddr>,
    output: Arc<Output>,
    folder: PathBuf,
    warden: Option<(Child, ChildStdin)>,
}

#[derive(Default)]
struct Output {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    text: Vec<String>,
    open: usize,
}

impl Server {
    /// Starts with this configuration and waits until it listens. `@APPS@`, `@EXAMPLES@`, `@PYTHON@` and `@DIR@` (the server's own directory) are filled in.
    #[track_caller]
    pub fn start(config: &str) -> Self {
        Self::start_with(config, |_| {})
    }

    /// As [`Server::start`], with a last word on the command.
    #[track_caller]
    pub fn start_with(config: &str, adjust: impl FnOnce(&mut Command)) -> Self {
        let mut server = Self::spawn(config, adjust);
        server.wait_for_address();
        server
    }

    /// Starts and returns at once, for a start that is expected to fail.
    #[track_caller]
    pub fn spawn(config: &str, adjust: impl FnOnce(&mut Command)) -> Self {
        let folder = folder();
        let mut command = Command::new(crate::keepwarm());
        let file = folder.join("keepwarm.toml");
        command.arg("run").arg("--config").arg(&file).current_dir(&folder);
        adjust(&mut command);
        fs::write(&file, fill_in(config, &folder)).expect("the configuration is written");
        Self::launch(&mut command, folder)
    }

    /// As [`Server::start`], with the binary that `place` puts somewhere, for example into the directory that it gets.
    #[track_caller]
    pub fn start_as(config: &str, place: impl FnOnce(&Path) -> PathBuf) -> Self {
        let folder = folder();
        let file = folder.join("keepwarm.toml");
        fs::write(&file, fill_in(config, &folder)).expect("the configuration is written");
        let mut command = Command::new(place(&folder));
        command.arg("run").arg("--config").arg(&file).current_dir(&folder);
        let mut server = Self::launch(&mut command, folder);
        server.wait_for_address();
        server
    }

    /// Starts `keepwarm run ARGS` without a configuration file, in `directory`.
    #[track_caller]
    pub fn run(args: &[&str], directory: &Path) -> Self {
        let mut command = Command::new(crate::keepwarm());
        command.arg("run").args(args).current_dir(directory);
        let mut server = Self::launch(&mut command, folder());
        server.wait_for_address();
        server
    }

    /// Waits until it listens, after [`Server::spawn`].
    #[track_caller]
    pub fn listening(mut self) -> Self {
        self.wait_for_address();
        self
    }

    /// Waits until this many requests in a row for `path` got a status below 500.
    #[track_caller]
    pub fn warm(self, path: &str) -> Self {
        let deadline = Instant::now() + START;
        loop {
            let mut client = self.client().patient(START);
            match client.ask(get(path)).status {
                ..500 => return self,
                status => assert!(Instant::now() < deadline, "still {status} for {path}\n{}", self.log()),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.address.expect("a server that listens")
    }

    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn ask(&self, request: impl AsRef<[u8]>) -> crate::Response {
        self.client().ask(request)
    }

    /// `http://127.0.0.1:PORT` followed by `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The directory of this server: its configuration is `keepwarm.toml` there.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The exit status of `keepwarm why --json`, and what it printed.
    #[track_caller]
    pub fn why(&self) -> (Option<i32>, serde_json::Value) {
        let mut command = Command::new(keepwarm());
        let output =
            tools::run(command.args(["why", "--json"]).current_dir(&self.folder), Duration::from_secs(60));
        let why = serde_json::from_slice(&output.stdout);
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), why.unwrap_or_else(|error| panic!("{error}: {}", said())))
    }

    /// Writes another configuration, for a reload.
    pub fn configure(&self, config: &str) {
        fs::write(self.folder.join("keepwarm.toml"), fill_in(config, &self.folder))
            .expect("the configuration is written");
    }

    /// Reloads with another configuration, and waits until that is done.
    #[track_caller]
    pub fn reload_with(&self, config: &str) {
        self.configure(config);
        self.reload();
    }

    /// Reloads, and waits until that is done.
    #[track_caller]
    pub fn reload(&self) {
        let mark = self.mark();
        self.signal(Signal::HUP);
        self.wait_for_log_after(mark, "reloaded in", RELOAD);
    }

    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid, signal);
    }

    /// The worker processes: descendants that run the adapter.
    pub fn workers(&self) -> Vec<u32> {
        let mut found = process::descendants(self.pid);
        found.retain(|&pid| process::command(pid).contains("-m keepwarm"));
        found.sort_unstable();
        found
    }

    /// Everything it and its workers have printed so far.
    pub fn log(&self) -> String {
        self.output.lines.lock().expect("no panic while locked").text.join("\n")
    }

    /// The number of lines so far: a place to search from.
    pub fn mark(&self) -> usize {
        self.output.lines.lock().expect("no panic while locked").text.len()
    }

    /// The first line which contains `part`.
    #[track_caller]
    pub fn wait_for_log(&self, part: &str, bound: Duration) -> String {
        self.wait_for_log_after(0, part, bound)
    }

    /// The first line after `mark` which contains `part`.
    #[track_caller]
    pub fn wait_for_log_after(&self, mark: usize, part: &str, bound: Duration) -> String {
        match self.find_line(mark, bound, |line| line.contains(part)) {
            Some(line) => line,
            None => panic!("no line with {part:?} within {bound:?}\n---- log\n{}", self.log()),
        }
    }

    fn find_line(&self, mark: usize, bound: Duration, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let deadline = Instant::now() + bound;
        let mut lines = self.output.lines.lock().expect("no panic while locked");
        loop {
            if let Some(line) = lines.text.iter().skip(mark).find(|line| wanted(line)) {
                return Some(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || lines.open == 0 {
                return None;
            }
            lines = self.output.changed.wait_timeout(lines, left).expect("no panic while locked").0;
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait_for_exit(&self, bound: Duration) -> ExitStatus {
        let deadline = Instant::now() + bound;
        loop {
            if let Some(status) = self.child.lock().expect("no panic while locked").try_wait().expect("wait")
            {
                // The last output is still on its way through the pipes.
                let _ = self.find_line(usize::MAX, Duration::from_secs(5), |_| false);
                return status;
            }
            assert!(Instant::now() < deadline, "still running after {bound:?}\n---- log\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[track_caller]
    fn launch(command: &mut Command, folder: PathBuf) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A test that rewrites a module must never load the compiled one of before.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // These are of the tests, not of the server and what it starts.
        command.env_remove("KEEPWARM_BIN").env_remove("KEEPWARM_FAULTY_BIN");
        // What the apps of tests that run as root write belongs to it.
        const USER: &str = "KEEPWARM_SERVER__USER";
        if rustix::process::geteuid().is_root() && !command.get_envs().any(|(name, _)| name == USER) {
            command.env(USER, "root");
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = child.id();
        let output = Arc::new(Output::default());
        output.lines.lock().expect("new").open = 2;
        collect(child.stdout.take().expect("piped"), &output);
        collect(child.stderr.take().expect("piped"), &output);
        Self { child: Mutex::new(child), pid, address: None, output, folder, warden: Some(warden(pid)) }
    }

    #[track_caller]
    fn wait_for_address(&mut self) {
        // A listener, or without one the first door.
        let says = |line: &str| line.contains("listening on") || line.starts_with("  upstream ");
        let Some(line) = self.find_line(0, START, |line| says(line) && local_port(line).is_some()) else {
            panic!("it does not say where it listens\n---- log\n{}", self.log());
        };
        let port = local_port(&line).expect("found above");
        self.address = Some(SocketAddr::from(([127, 0, 0, 1], port)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let from = log.char_indices().rev().nth(6_000).map_or(0, |(at, _)| at);
            eprintln!("---- log of the server\n{}", &log[from..]);
        }
        let left = process::descendants(self.pid);
        let child = self.child.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if child.try_wait().is_ok_and(|status| status.is_none()) {
            process::signal(self.pid, Signal::TERM);
            let deadline = Instant::now() + Duration::from_millis(300);
            while child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(3));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        for pid in left.into_iter().filter(|&pid| process::command(pid).contains("keepwarm")) {
            process::signal(pid, Signal::KILL);
        }
        if let Some((mut warden, mut stdin)) = self.warden.take() {
            let _ = stdin.write_all(b"done\n");
            drop(stdin);
            let _ = warden.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A shell that ends the server when this process dies without dropping it: a server in a `static` is never dropped.
fn warden(pid: u32) -> (Child, ChildStdin) {
    let script = format!("read done && exit; kill -TERM {pid}; sleep 0.3; kill -KILL {pid}");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("sh");
    let stdin = child.stdin.take().expect("piped");
    (child, stdin)
}

fn collect(from: impl Read + Send + 'static, output: &Arc<Output>) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            output.lines.lock().expect("no panic while locked").text.push(text);
            output.changed.notify_all();
            line.clear();
        }
        output.lines.lock().expect("no panic while locked").open -= 1;
        output.changed.notify_all();
    });
}

fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("keepwarm-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

fn fill_in(config: &str, folder: &Path) -> String {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    config
        .replace("@APPS@", &text(&crate::apps()))
        .replace("@EXAMPLES@", &text(&crate::examples()))
        .replace("@PYTHON@", &text(crate::python()))
        .replace("@DIR@", &text(folder))
}

/// The port of the first `127.0.0.1:PORT` in a line, or of `0.0.0.0:PORT`.
fn local_port(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("127.0.0.1:").or_else(|| line.split_once("0.0.0.0:"))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|&port| port != 0)
}
