//! Sites of Node and Go: Express with the packages that such sites have, and Go's standard library, visited as their users would, and compared with what
//! the same program returns by itself.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_tests::{Server, apps, process, python, tools, websocket};
use rustix::process::Signal;
use serde_json::Value;

/// The limit on what a busy machine may take: Go compiles its standard library at first.
const BOUND: Duration = Duration::from_secs(180);

/// The program without Keepwarm, which ends with its test, however that ends.
struct Alone(Child);

impl Alone {
    fn start(command: &[String], data: &Path, port: u16) -> Self {
        std::fs::create_dir_all(data).expect("a folder");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .args(command)
            .envs([("DATA", data.as_os_str()), ("PORT", port.to_string().as_ref()), assets()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setpriv starts");
        process::wait_until("the program listens", BOUND, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self(child)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        process::signal(self.0.id(), Signal::TERM);
        let _ = self.0.wait();
    }
}

fn assets() -> (&'static str, &'static std::ffi::OsStr) {
    static FOLDER: std::sync::LazyLock<std::ffi::OsString> =
        std::sync::LazyLock::new(|| apps().join("express_site/public").into_os_string());
    ("ASSETS", &FOLDER)
}

fn start(command: &[String]) -> Server {
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"site\"\nvia = false\n\
         [app.site]\ncommand = {command:?}\ndirectory = \"@DIR@\"\nworkers = 2\nuser = \"root\"\nhealth = \"/login\"\n\
         env = {{ DATA = \"@DIR@/data\", ASSETS = {:?} }}\n",
        assets().1
    );
    Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("a folder").join("data");
        std::fs::create_dir_all(folder).expect("a folder");
    })
    .warm("/login")
}

/// The user's view: method, path, status, headers and page of each request.
fn visit(address: &str, part: &str, cookies: &Path) -> Vec<Value> {
    let script = apps().join("notes_visit.py");
    let arguments = [&format!("http://{address}"), part];
    let seen = tools::run_ok(Command::new(python()).arg(script).args(arguments).arg(cookies), BOUND);
    serde_json::from_str(&seen).expect("JSON")
}

/// The site behaves behind Keepwarm as it does alone; the session outlives reloads.
fn compare(command: &[String]) -> Server {
    let server = start(command);
    let port = tools::free_port();
    let _alone = Alone::start(command, &server.folder().join("alone"), port);
    for part in ["before", "after"] {
        let ours = visit(&server.address().to_string(), part, &server.folder().join("cookies"));
        let theirs = visit(&format!("127.0.0.1:{port}"), part, &server.folder().join("alone-cookies"));
        assert_eq!(ours.len(), theirs.len(), "{part}");
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{part}");
        }
        server.reload();
    }
    server
}

#[test]
fn express_serves_the_same_site_as_alone() {
    let command = ["node".to_owned(), apps().join("express_site/server.js").display().to_string()];
    let server = compare(&command);
    let mut client = server.client().patient(BOUND);
    websocket::open(&mut client, "/echo", "");
    let large = vec![b'x'; 100_000];
    for (first, payload) in [(0x81, b"hello".as_slice()), (0x82, &large)] {
        client.send(websocket::frame(first, payload));
        assert_eq!(websocket::message(&mut client), (first & 0x0f, payload.to_vec()));
    }
    let broken = server.ask(keepwarm_tests::get("/broken"));
    assert_eq!(broken.status, 500);
    let record = server.wait_for_log("Error: broken on purpose", BOUND);
    assert!(record.contains("stream=stderr"), "{record}");
}

#[test]
fn go_serves_the_same_site_as_alone() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go_site");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(apps().join("go_site"));
    tools::run_ok(build.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local"), BOUND);
    let server = compare(&[program.display().to_string()]);
    // Go cuts the connection of a handler that has panicked.
    let broken = server.ask(keepwarm_tests::get("/broken"));
    assert_eq!(broken.status, 502);
    server.wait_for_log("http: panic serving", BOUND);
}
