//! When the system starts no more processes and threads (`pids.max`, `TasksMax=`, `ulimit -u`): what runs keeps running, and the log says what is missing.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use keepwarm_tests::process::{self, children};
use keepwarm_tests::{Server, get, keepwarm};
use rustix::process::{Resource, Signal, getrlimit};

const LONG: Duration = Duration::from_secs(60);
/// The limit is none for root.
const NOBODY: u32 = 65534;
const FILES: usize = 32;

const CONFIG: &str = r#"
[server]
threads = 3
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
path = "/locked"
respond = { status = 200, body = "open" }
basic_auth = { file = "htpasswd" }
[[listen.main.route]]
files = "site"
[process.sleeper]
command = ["sleep", "600"]
"#;

fn as_nobody(command: &mut Command) -> &mut Command {
    match rustix::process::geteuid().is_root() {
        true => command.uid(NOBODY).gid(NOBODY),
        false => command,
    }
}

/// As the command makes it.
fn hashed_password() -> Vec<u8> {
    let mut command = Command::new(keepwarm());
    command.args(["hash-password", "--user", "bob"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(b"password\n").expect("it reads");
    child.wait_with_output().expect("it ends").stdout
}

fn sleeper(server: &Server) -> Option<u32> {
    children(server.pid()).into_iter().find(|&child| process::command(child).starts_with("sleep "))
}

/// By the user that the server runs as, because the kernel allows it to no other.
fn limit_processes(server: &Server, limit: &str) {
    let mut command = Command::new("prlimit");
    command.args([format!("--pid={}", server.pid()), format!("--nproc={limit}")]);
    assert!(as_nobody(&mut command).status().expect("prlimit").success());
}

#[test]
fn files_and_passwords_are_served_and_a_reload_succeeds_where_no_thread_can_be_started() {
    let server = Server::start_with(CONFIG, |command| {
        let folder = command.get_current_dir().expect("the server's own");
        std::fs::write(folder.join("htpasswd"), hashed_password()).expect("a file");
        let site = folder.join("site");
        std::fs::create_dir(&site).expect("a directory");
        for file in 0..FILES {
            std::fs::write(site.join(format!("{file}.txt")), vec![b'x'; 100 + file]).expect("a file");
        }
        as_nobody(command).env("KEEPWARM_SERVER__USER", "nobody");
    });
    process::wait_until("the process runs", LONG, || sleeper(&server).is_some());
    limit_processes(&server, "0:");
    // A connection each, so that every thread has several: none of them has waited for a disk before.
    for file in 0..FILES {
        let response = server.ask(get(&format!("/{file}.txt")));
        assert_eq!((response.status, response.body.len()), (200, 100 + file), "{}", server.log());
    }
    // No thread that hashes passwords could be started.
    let bob = "GET /locked HTTP/1.1\r\nHost: a\r\nAuthorization: Basic Ym9iOnBhc3N3b3Jk\r\n\r\n";
    assert_eq!(server.ask(bob).text(), "open", "{}", server.log());
    let mark = server.mark();
    process::signal(sleeper(&server).expect("the process"), Signal::KILL);
    server.wait_for_log_after(mark, "the system allows no more processes (`pids.max`", LONG);
    server.reload();
    assert!(!server.log().contains("a bug in Keepwarm"), "{}", server.log());
    let most = getrlimit(Resource::Nproc).maximum;
    limit_processes(&server, &most.map_or("unlimited:".to_owned(), |most| format!("{most}:")));
    process::wait_until("the process runs again", LONG, || sleeper(&server).is_some());
}
