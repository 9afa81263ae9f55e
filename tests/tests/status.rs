//! `keepwarm status` and `keepwarm stack`: what a person at a terminal sees, and what a script gets.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use keepwarm_tests::certificates::Authority;
use keepwarm_tests::process::{NOBODY, alive, wait_until};
use keepwarm_tests::{Server, get, keepwarm, process, python, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

fn config(workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/*\"\napp = \"app\"\n[app.app]\n\
         entry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n\
         env = {{ COUNT_FILE = \"@DIR@/count\" }}\n{more}\n"
    )
}

fn start(workers: u32) -> Server {
    Server::start(&config(workers, "")).warm("/pong")
}

/// Runs `keepwarm ARGUMENTS` in a directory, without a terminal.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    tools::run(Command::new(keepwarm()).args(arguments).current_dir(folder), LONG)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn json(server: &Server) -> Value {
    let output = run(server.folder(), &["status", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

/// Waits until the status is as wanted.
#[track_caller]
fn wait_for(server: &Server, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut seen = Value::Null;
    wait_until(what, LONG, || {
        seen = json(server);
        wanted(&seen)
    });
    seen
}

#[test]
fn the_table_shows_apps_workers_and_listeners_without_colors() {
    let server = start(2);
    let mut client = server.client();
    client.ask(get("/pong"));
    wait_for(&server, "both workers serve", |status| status["apps"][0]["workers"]["serving"] == 2);
    let output = run(server.folder(), &["status"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!shown.contains('\x1b'), "{shown}");
    let first = shown.lines().next().expect("a heading");
    assert!(
        first.starts_with(&format!(
            "keepwarm {}   process {}   up ",
            env!("CARGO_PKG_VERSION"),
            server.pid()
        )),
        "{first}"
    );
    assert!(first.ends_with("generation 1   ready"), "{first}");
    for begin in ["APP ", "app   2/2 ", "WORKER ", "app/1 ", "app/2 ", "LISTENER ", "main "] {
        assert!(shown.lines().any(|line| line.starts_with(begin)), "{begin}\n{shown}");
    }
    let address = format!("http://{}", server.address());
    assert!(shown.lines().any(|line| line.starts_with("main ") && line.ends_with(&address)), "{shown}");
}

/// The shape of docs/operate/status.md: every member it names is there.
#[test]
fn the_json_matches_the_documentation() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let upstream =
        format!("[upstream.silent]\nurl = \"http://{address}\"\nbind = \"unix:@DIR@/silent.sock\"\n");
    let listener = "[listen.secure]\nbind = \"unix:@DIR@/secure.sock\"\nroute = [{ respond = 204 }]\n\
                    tls = { cert = \"@DIR@/shop.pem\", key = \"@DIR@/shop.key\" }\n";
    let certificate = Authority::default().identity(&["shop.example"]);
    let process = "[process.mail]\ncommand = [\"sleep\", \"1000\"]\nuser = \"root\"\n";
    let server = Server::start_with(&config(1, &format!("{upstream}{listener}{process}")), |command| {
        certificate.write(command.get_current_dir().expect("it has a directory"), "shop");
    });
    let server = server.warm("/pong");
    let maintained = run(server.folder(), &["maintenance", "on", "--listener", "secure"]);
    assert_eq!(maintained.status.code(), Some(0), "{}", text(&maintained.stderr));
    let mut client = server.client();
    client.send(get("/sleep?ms=25000"));
    wait_for(&server, "the worker is at work", |status| {
        status["workers"][0]["active_requests"][0]["route"] == "/*"
    });
    let mut other = server.client();
    other.send(get("/pong"));
    let mut door = UnixStream::connect(server.folder().join("silent.sock")).expect("it listens");
    door.write_all(get("/search?token=secret").as_bytes()).expect("sent");
    let status = wait_for(&server, "another request waits, and a call", |status| {
        status["apps"][0]["waiting_requests"][0]["route"] == "/*"
            && status["upstreams"][0]["active_calls"][0]["phase"] == "upstream"
            && !status["workers"][0]["memory"].is_null()
            && !status["processes"][0]["processes"][0]["memory"].is_null()
    });
    let page =
        std::fs::read_to_string(keepwarm_tests::root().join("docs/operate/status.md")).expect("the page");
    let named = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut count = 0;
    for path in named.filter(|path| path.starts_with('/')) {
        let seen = status.pointer(path);
        assert!(seen.is_some(), "{path}\n{status:#}");
        count += 1;
    }
    assert!(count > 25, "only {count} members are described");
    let doing = &status["workers"][0]["active_requests"][0];
    assert_eq!((&doing["method"], doing["request_id"].as_str().map(str::len)), (&"GET".into(), Some(32)));
    assert!(doing["seconds"].as_f64().is_some_and(|age| age >= 0.0), "{doing}");
    assert_eq!((&doing["path"], &doing["responding"]), (&"/sleep".into(), &false.into()));
    assert_eq!(status["apps"][0]["waiting_requests"][0]["path"], "/pong");
    let waiting = &status["apps"][0]["waiting_requests"];
    assert_eq!((&status["apps"][0]["queue"], waiting.as_array().map(Vec::len)), (&1.into(), Some(1)));
    assert_ne!(waiting[0]["request_id"], doing["request_id"]);
    assert!(waiting[0]["seconds"].as_f64().is_some_and(|waited| waited >= 0.0), "{waiting}");
    let call = &status["upstreams"][0]["active_calls"][0];
    assert_eq!(
        (&call["method"], &call["path"], &call["route"]),
        (&"GET".into(), &"/search".into(), &Value::Null)
    );
    assert_eq!(call["endpoint"], address.to_string());
    assert!(!status.to_string().contains("secret"), "{status:#}");
    assert_eq!(status["workers"][0]["pid"], server.workers()[0]);
    assert_eq!(status["listeners"][0]["addresses"][0], format!("http://{}", server.address()));
    assert!(status["open_connections"].as_u64() >= Some(1), "{status:#}");
}

#[test]
fn the_current_requests_of_a_worker_are_shown_with_route_and_age() {
    let server = start(1);
    let mut client = server.client();
    client.send(get("/sleep?ms=25000"));
    let mut other = server.client();
    other.send(get("/pong"));
    wait_for(&server, "one works, one waits", |status| {
        status["workers"][0]["active_requests"][0]["route"] == "/*" && status["apps"][0]["queue"] == 1
    });
    let shown = text(&run(server.folder(), &["status"]).stdout);
    assert!(shown.lines().any(|line| line.starts_with("app/1 ") && line.contains("GET /* ")), "{shown}");
}

#[test]
fn a_death_is_counted_and_the_last_one_shown() {
    let server = start(1);
    process::signal(server.workers()[0], Signal::KILL);
    let status = wait_for(&server, "the death is counted and the next worker ready", |status| {
        status["apps"][0]["deaths"]["signal"] == 1 && status["apps"][0]["workers"]["serving"] == 1
    });
    let death = &status["apps"][0]["last_death"];
    assert_eq!((&death["worker"], &death["kind"]), (&1.into(), &"signal".into()));
    let shown = text(&run(server.folder(), &["status"]).stdout);
    assert!(shown.contains("SIGKILL") && shown.contains(" ago"), "{shown}");
}

#[test]
fn none_is_1_and_several_are_2() {
    let server = start(1);
    let none = run(Path::new("/"), &["status"]);
    assert_eq!(none.status.code(), Some(1));
    let said = text(&none.stderr);
    assert!(
        said.contains("no Keepwarm was started in this directory")
            && said.lines().any(|line| {
                let folder = std::fs::read_link(format!("/proc/{}/cwd", server.pid())).unwrap_or_default();
                line.contains(&server.pid().to_string())
                    && line.contains(&*folder.to_string_lossy())
                    && line.contains(" run --config ")
            }),
        "{said}"
    );
    let nobody = run(Path::new("/"), &["status", "--pid", NOBODY]);
    assert_eq!(nobody.status.code(), Some(1));
    let said = text(&nobody.stderr);
    assert!(
        said.contains(&format!("process {NOBODY} is not a Keepwarm"))
            && said.contains(&server.pid().to_string()),
        "{said}"
    );
    let other = run(Path::new("/"), &["status", "--config", "/nowhere/keepwarm.toml"]);
    assert!(text(&other.stderr).contains("started with /nowhere/keepwarm.toml"), "{}", text(&other.stderr));
    let by_pid = run(Path::new("/"), &["status", "--json", "--pid", &server.pid().to_string()]);
    assert_eq!(by_pid.status.code(), Some(0), "{}", text(&by_pid.stderr));
    // Another one of the same configuration file: its port is any free one.
    let again = Command::new(keepwarm())
        .args(["run", "--config"])
        .arg(server.folder().join("keepwarm.toml"))
        .current_dir(server.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let _ended = Ended(again);
    wait_until("two run", LONG, || run(server.folder(), &["status"]).status.code() == Some(2));
    let several = run(server.folder(), &["status"]);
    assert!(
        text(&several.stderr).contains("several instances were started in this directory"),
        "{}",
        text(&several.stderr)
    );
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn watching_into_a_pipe_continues_until_keepwarm_exits() {
    let server = start(1);
    let watch = Command::new(keepwarm())
        .args(["status", "--watch", "--json"])
        .current_dir(server.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut watch = Ended(watch);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.0.stdout.take().expect("piped")));
    for _ in 0..2 {
        let line = lines.next().expect("another second").expect("a line");
        let status: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(status["pid"], server.pid());
    }
    server.signal(Signal::TERM);
    wait_until("the watch ends", LONG, || watch.0.try_wait().expect("wait").is_some());
    assert_eq!(watch.0.wait().expect("ended").code(), Some(1));
}

/// A terminal, made by Python: prints what the command wrote, and its exit code in the last line.
const TERMINAL: &str = r#"
import os, pty, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[3], sys.argv[3:])
seen, wanted, key, pressed, end = b"", sys.argv[1].encode(), sys.argv[2].encode(), False, time.monotonic() + 30
while time.monotonic() < end:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            more = os.read(terminal, 65536)
        except OSError:
            break
        if not more:
            break
        seen += more
    if not pressed and seen.count(wanted) >= 2:
        os.write(terminal, key)
        pressed = True
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.stdout.buffer.write(seen + b"\nexit %d\n" % status)
"#;

/// Watches on a terminal until the screen was cleared twice, and presses a key.
fn watched(server: &Server, key: &str, no_color: &str) -> String {
    let mut command = Command::new(python());
    command.args(["-c", TERMINAL, "\x1b[H\x1b[2J", key]).arg(keepwarm()).args(["status", "--watch"]);
    tools::run_ok(command.env("NO_COLOR", no_color).current_dir(server.folder()), Duration::from_secs(60))
}

#[test]
fn a_terminal_gets_colors_a_cleared_screen_and_an_end_by_key() {
    let server = start(1);
    for key in ["q", "\x03"] {
        let seen = watched(&server, key, "");
        assert!(seen.contains("\x1b[32mready\x1b[0m") && seen.ends_with("\nexit 0\n"), "{seen:?}");
    }
    let plain = watched(&server, "q", "1");
    assert!(
        !plain.contains("\x1b[32m") && plain.contains("ready") && plain.ends_with("\nexit 0\n"),
        "{plain:?}"
    );
}

#[test]
fn a_stack_shows_where_a_worker_stands() {
    let server = start(1);
    let mut client = server.client();
    client.send(get("/sleep?ms=25000"));
    wait_for(&server, "the worker is at work", |status| {
        status["workers"][0]["active_requests"][0]["route"] == "/*"
    });
    // It has the request; the application is a moment behind.
    wait_until("the application sleeps", LONG, || {
        text(&run(server.folder(), &["stack", "app/1"]).stdout).contains("in sleep")
    });
    let pid = server.workers()[0].to_string();
    for worker in ["app/1", &pid] {
        let mark = server.mark();
        let output = run(server.folder(), &["stack", worker]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(shown.contains("wsgi_app.py") && shown.contains("in sleep"), "{shown}");
        server.wait_for_log_after(mark, "in sleep", LONG);
    }
    assert_eq!(server.workers(), [pid.parse::<u32>().expect("a number")], "it goes on");
}

#[test]
fn a_worker_is_replaced_by_its_name() {
    let server = start(1);
    let before = server.workers();
    let output = run(server.folder(), &["recycle", "app/1"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("worker app/1 ") && said.contains(&before[0].to_string()), "{said}");
    wait_for(&server, "another worker serves alone", |status| {
        let workers = status["workers"].as_array().expect("a list");
        workers.len() == 1 && workers[0]["pid"] != before[0] && workers[0]["state"] == "ready"
    });
    assert_eq!(json(&server)["apps"][0]["recycles"]["operator"], 1);
}

#[test]
fn an_unknown_worker_is_an_error_that_lists_the_known_ones() {
    let server = start(1);
    for worker in ["app/7", "1", "nothing", "app/"] {
        for command in ["stack", "recycle"] {
            let output = run(server.folder(), &[command, worker]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("there is no worker") && said.contains("app/1"), "{said}");
        }
    }
}

/// SIGQUIT ends a process that does not know it: a question must not be deadly.
#[test]
fn a_worker_without_a_stack_handler_gets_no_signal() {
    let server = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[app.liar]\ncommand = [\"@PYTHON@\", \"@APPS@/liar.py\", \"1\"]\n\
         kind = \"wsgi\"\nworkers = 1\n",
    );
    let pid =
        json(&server)["workers"][0]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a pid");
    let output = run(server.folder(), &["stack", "liar/1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it has no handler for SIGQUIT"), "{}", text(&output.stderr));
    assert!(alive(pid));
}

/// As `sudo keepwarm status` does for a service of a user of its own.
#[test]
fn root_finds_the_instances_of_other_users() {
    const USER: u32 = 65534;
    let config = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\nrespond = 204\n";
    let server = Server::start_with(config, |command| {
        command.uid(USER).gid(USER).env("KEEPWARM_SERVER__USER", "nobody");
    });
    let status = json(&server);
    assert_eq!(status["pid"], server.pid());
    let pid = server.pid().to_string();
    let asked = |user: u32| {
        let mut command = Command::new(keepwarm());
        tools::run(command.args(["status", "--pid", &pid]).current_dir("/").uid(user).gid(user), LONG)
    };
    assert_eq!(asked(0).status.code(), Some(0));
    assert_eq!(asked(USER).status.code(), Some(0));
    let other = asked(USER - 1);
    assert_eq!(other.status.code(), Some(1));
    let told = text(&other.stderr);
    assert!(told.contains("of this user"), "{told}");
    assert_eq!(run(server.folder(), &["reload"]).status.code(), Some(0));
}

/// A name is free for everybody: the one that a Keepwarm of root would have, too.
#[test]
fn a_socket_of_another_user_that_claims_to_be_an_instance_is_not_asked() {
    let script = "import os, socket\n\
                  listener = socket.socket(socket.AF_UNIX)\n\
                  listener.bind('\\0keepwarm/0/0000000000000000/%d' % os.getpid())\n\
                  listener.listen()\n\
                  print('listens', flush=True)\n\
                  listener.accept()[0].sendall(b'{\"ok\": true, \"message\": \"fooled\"}\\n')\n";
    let mut liar = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .uid(65534)
        .gid(65534)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = [0; 8];
    std::io::Read::read_exact(liar.stdout.as_mut().expect("piped"), &mut line).expect("it listens");
    let output = run(Path::new("/"), &["reload", "--pid", &liar.id().to_string()]);
    process::signal(liar.id(), Signal::KILL);
    let _ = liar.wait();
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.contains("its socket belongs to another user (65534)") && !told.contains("fooled"),
        "{told}"
    );
}
