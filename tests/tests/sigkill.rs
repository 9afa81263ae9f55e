//! Keepwarm is killed with -9 in every state, and nothing of it survives: no process, no socket, no file, no segment of memory.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::process_mark::{ProcessMark, files};
use keepwarm_tests::{Client, Server, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

fn config(entry: &str) -> String {
    format!(
        "[server]\npid_file = \"@DIR@/pid\"\nshutdown_grace = \"5m\"\n\
         [listen.main]\nbind = [\"127.0.0.1:0\", \"unix:@DIR@/socket\"]\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"{entry}:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 2\n\
         env = {{ COUNT_FILE = \"@DIR@/count\" }}\n"
    )
}

/// A server whose processes and files differ from all others.
struct Victim {
    server: Server,
    mark: ProcessMark,
}

impl Victim {
    #[track_caller]
    fn start() -> Self {
        let mark = ProcessMark::new();
        let server = Server::start_with(&config("wsgi_app"), |command| prepare(command, &mark)).warm("/pong");
        let victim = Self { server, mark };
        wait_until("all workers", LONG, || victim.workers() == 2);
        wait_until("the pid file", LONG, || victim.folder("pid").exists());
        victim
    }

    /// One that is not there yet: its workers never are.
    #[track_caller]
    fn spawn() -> Self {
        let victim = Self::spawn_with(&config("hanging_app"));
        wait_until("workers boot", LONG, || victim.workers() == 2);
        victim
    }

    /// One that is killed in the moment in which this file is there.
    #[track_caller]
    fn spawn_killed_at(entry: &str, file: &str) -> Self {
        let victim = Self::spawn_with(&config(entry));
        victim.kill_at(file, victim.server.pid());
        victim
    }

    fn spawn_with(text: &str) -> Self {
        let mark = ProcessMark::new();
        let server = Server::spawn(text, |command| prepare(command, &mark));
        Self { server, mark }
    }

    /// Kills the process in the moment in which a file is there whose path begins so.
    #[track_caller]
    fn kill_at(&self, path: &str, pid: u32) {
        let path = self.folder(path);
        let (folder, name) = (path.parent().expect("a folder"), path.file_name().expect("a name").as_bytes());
        let began = Instant::now();
        // Without a pause: a watcher that is notified comes too late.
        let is_there = || {
            let entries = std::fs::read_dir(folder).expect("the folder");
            entries.flatten().any(|entry| entry.file_name().as_bytes().starts_with(name))
        };
        while !is_there() {
            assert!(began.elapsed() < LONG, "{} has not come", path.display());
        }
        process::signal(pid, Signal::KILL);
    }

    fn workers(&self) -> usize {
        self.mark.processes().values().filter(|command| command.contains("-m keepwarm")).count()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.server.folder().join(name)
    }

    /// From now on its workers do not come up.
    fn hang(&self) {
        self.server.configure(&config("hanging_app"));
    }

    /// Kills this process and waits until nothing is left.
    #[track_caller]
    fn kill(&self, pid: u32) {
        process::signal(pid, Signal::KILL);
        let bound = std::time::Instant::now() + LONG;
        loop {
            let processes = self.mark.processes();
            let files: Vec<String> = files(self.server.folder())
                .into_iter()
                .filter(|file| !EXPECTED.contains(&file.as_str()))
                .collect();
            let segments = segments(self.server.pid());
            if processes.is_empty() && files.is_empty() && segments.is_empty() {
                return;
            }
            if std::time::Instant::now() > bound {
                panic!("left: {processes:#?} {files:#?} {segments:#?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Files that existed before, or are the application's.
const EXPECTED: [&str; 2] = ["keepwarm.toml", "count"];

fn prepare(command: &mut Command, mark: &ProcessMark) {
    mark.apply_to(command);
    let temporary = command.get_current_dir().expect("a folder").join("tmp");
    std::fs::create_dir(&temporary).expect("a folder");
    command.env("TMPDIR", temporary);
}

/// Shared memory that names the process.
fn segments(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("keepwarm") && name.contains(&pid.to_string())).collect()
}

#[test]
fn while_it_boots() {
    let victim = Victim::spawn();
    victim.kill(victim.server.pid());
}

#[test]
fn as_soon_as_its_socket_is_there() {
    let victim = Victim::spawn_killed_at("hanging_app", "socket");
    victim.kill(victim.server.pid());
}

#[test]
fn as_soon_as_its_pid_file_is_there() {
    let victim = Victim::spawn_killed_at("wsgi_app", "pid");
    victim.kill(victim.server.pid());
}

#[test]
fn as_soon_as_a_reload_has_created_a_socket() {
    let victim = Victim::start();
    let more = config("hanging_app").replace("unix:@DIR@/socket", "unix:@DIR@/socket\", \"unix:@DIR@/second");
    victim.server.configure(&more);
    victim.server.signal(Signal::HUP);
    victim.kill_at("second", victim.server.pid());
    victim.kill(victim.server.pid());
}

#[test]
fn as_soon_as_the_directory_of_its_workers_sockets_is_there() {
    let text = "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
        [app.app]\nkind = \"http\"\ncommand = [\"sleep\", \"1000\"]\n";
    let victim = Victim::spawn_with(text);
    victim.kill_at(&format!("tmp/keepwarm-{}", victim.server.pid()), victim.server.pid());
    victim.kill(victim.server.pid());
    let left = std::fs::read_dir(victim.folder("tmp")).expect("the folder").count();
    assert_eq!(left, 0, "the directory is left");
}

#[test]
fn a_socket_that_a_failed_reload_has_created_is_not_its_own_any_more() {
    let victim = Victim::start();
    let more = config("broken_app").replace("unix:@DIR@/socket", "unix:@DIR@/socket\", \"unix:@DIR@/second");
    let mark = victim.server.mark();
    victim.server.configure(&more);
    victim.server.signal(Signal::HUP);
    victim.server.wait_for_log_after(mark, "reload failed", LONG);
    assert!(!victim.folder("second").exists());
    let other = std::os::unix::net::UnixListener::bind(victim.folder("second")).expect("a socket");
    process::signal(victim.server.pid(), Signal::KILL);
    wait_until("the guardian has removed the others", LONG, || {
        victim.mark.processes().is_empty()
            && !victim.folder("socket").exists()
            && !victim.folder("pid").exists()
    });
    assert!(victim.folder("second").exists(), "it is another process's");
    drop(other);
}

#[test]
fn while_it_serves_with_every_slot_in_use() {
    let victim = Victim::start();
    // A process that a worker has forked, an unfinished body in a file, a response that is not read, a running request.
    victim.server.client().patient(LONG).ask(get("/grandchild"));
    let mut upload = victim.server.client();
    upload.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    let _ = upload.try_send(&vec![b'x'; 2_000_000]);
    let mut download = victim.server.client();
    download.send(get("/big?bytes=50000000"));
    let mut busy: Vec<Client> = (0..3).map(|_| victim.server.client()).collect();
    for client in &mut busy {
        client.send(get("/count?id=busy&ms=60000"));
    }
    wait_until("it is in work", LONG, || victim.folder("count").exists());
    assert!(victim.folder("socket").exists());
    victim.kill(victim.server.pid());
}

#[test]
fn while_it_reloads() {
    let victim = Victim::start();
    victim.hang();
    victim.server.signal(Signal::HUP);
    // A few boot at a time.
    wait_until("new workers boot", LONG, || victim.workers() > 2);
    victim.kill(victim.server.pid());
}

#[test]
fn during_a_takeover_the_old_process() {
    let victim = Victim::start();
    victim.hang();
    victim.server.signal(Signal::USR2);
    wait_until("the new process's workers boot", LONG, || victim.workers() == 4);
    // The old one: the new one has no process to take over from, and ends too.
    victim.kill(victim.server.pid());
}

#[test]
fn during_a_takeover_the_new_process() {
    let victim = Victim::start();
    victim.hang();
    victim.server.signal(Signal::USR2);
    wait_until("the new process's workers boot", LONG, || victim.workers() == 4);
    let others = process::children(victim.server.pid());
    let new = others.into_iter().find(|&pid| process::command(pid).contains("keepwarm run"));
    process::signal(new.expect("the new process"), Signal::KILL);
    // The old one keeps running.
    victim.server.wait_for_log("upgrade failed; this process keeps serving", LONG);
    wait_until("its own workers only", LONG, || victim.workers() == 2);
    assert_eq!(victim.server.client().patient(LONG).ask(get("/pong")).text(), "pong");
    assert!(victim.folder("socket").exists() && victim.folder("pid").exists());
    victim.kill(victim.server.pid());
}

#[test]
fn after_a_takeover_the_new_process() {
    let victim = Victim::start();
    victim.server.signal(Signal::USR2);
    assert!(victim.server.wait_for_exit(LONG).success(), "the old one");
    let new: u32 =
        std::fs::read_to_string(victim.folder("pid")).expect("a pid").trim().parse().expect("a number");
    assert_ne!(new, victim.server.pid());
    assert!(victim.folder("socket").exists(), "the socket is the new one's");
    victim.kill(new);
}

#[test]
fn while_it_drains() {
    let victim = Victim::start();
    let mut busy = victim.server.client();
    busy.send(get("/count?id=busy&ms=60000"));
    wait_until("it is in work", LONG, || victim.folder("count").exists());
    let mark = victim.server.mark();
    victim.server.signal(Signal::TERM);
    victim.server.wait_for_log_after(mark, "stopping", LONG);
    victim.kill(victim.server.pid());
}

#[test]
fn a_guardian_that_was_killed_is_replaced_and_knows_everything() {
    let victim = Victim::start();
    victim.server.client().patient(LONG).ask(get("/grandchild"));
    let mark = victim.server.mark();
    let guardian = process::children(victim.server.pid())
        .into_iter()
        .find(|&pid| process::command(pid).contains("__guardian"));
    process::signal(guardian.expect("a guardian"), Signal::KILL);
    victim.server.wait_for_log_after(mark, "guardian died; starting another", LONG);
    wait_until("another guardian", LONG, || {
        process::children(victim.server.pid())
            .into_iter()
            .any(|pid| process::command(pid).contains("__guardian") && Some(pid) != guardian)
    });
    // It reports that it guards before it is used; its list was in its socket before that.
    victim.kill(victim.server.pid());
}
