//! systemd's side, played by the test: the `sd_notify` messages, the sockets of a socket unit, the watchdog.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Server, WSGI, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

/// A service manager that listens.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("keepwarm-notify-{}-{number}", std::process::id()));
        let socket = UnixDatagram::bind(&path).expect("a socket");
        Self { socket, path }
    }

    /// The next message that holds this line; others are passed over.
    #[track_caller]
    fn wait_for(&self, line: &str) -> Vec<String> {
        let deadline = Instant::now() + LONG;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not told {line:?}, but {seen:#?}");
            self.socket.set_read_timeout(Some(left)).expect("a time-out");
            let mut bytes = [0; 4096];
            let Ok(length) = self.socket.recv(&mut bytes) else { continue };
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.iter().any(|told| told.starts_with(line)) {
                return lines;
            }
            seen.push(text);
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn start_reload_and_stop_are_notified() {
    let manager = Manager::new();
    let server = Server::start_with(WSGI, |command| {
        command.env("NOTIFY_SOCKET", &manager.path);
    });
    let ready = manager.wait_for("READY=1");
    assert!(ready.contains(&format!("MAINPID={}", server.pid())), "{ready:?}");
    assert!(ready.contains(&"STATUS=serving".to_owned()), "{ready:?}");

    server.signal(Signal::HUP);
    let reloading = manager.wait_for("RELOADING=1");
    let stamp = reloading.iter().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(stamp.is_some_and(|stamp| stamp.parse::<u64>().is_ok()), "{reloading:?}");
    manager.wait_for("READY=1");

    // A reload that fails is over, too.
    server.configure("nonsense");
    server.signal(Signal::HUP);
    manager.wait_for("RELOADING=1");
    let failed = manager.wait_for("READY=1");
    assert!(failed.iter().any(|line| line.contains("failed")), "{failed:?}");

    server.signal(Signal::TERM);
    manager.wait_for("STOPPING=1");
    assert!(server.wait_for_exit(LONG).success());
}

#[test]
fn the_variables_of_the_service_manager_do_not_reach_workers() {
    let manager = Manager::new();
    let server = Server::start_with(WSGI, |command| {
        command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "60000000");
    });
    for worker in server.workers() {
        let environment = std::fs::read(format!("/proc/{worker}/environ")).expect("its environment");
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(!environment.contains("NOTIFY_SOCKET") && !environment.contains("WATCHDOG"), "{environment}");
    }
}

#[test]
fn the_watchdog_hears_from_the_process_it_watches_and_from_no_other() {
    let manager = Manager::new();
    let server = Server::start_with(WSGI, |command| {
        command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "200000");
    });
    for _ in 0..3 {
        manager.wait_for("WATCHDOG=1");
    }
    // Meant for another process: nothing is sent.
    let other = Manager::new();
    let silent = Server::start_with(WSGI, |command| {
        command.env("NOTIFY_SOCKET", &other.path).env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    });
    other.wait_for("READY=1");
    silent.signal(Signal::TERM);
    assert_eq!(other.wait_for(""), ["STOPPING=1", "STATUS=finishing requests in progress"]);
    drop(server);
}

#[test]
fn an_upgrade_notifies_main_pid_and_then_ready() {
    let manager = Manager::new();
    let config = WSGI.replacen("[listen.main]", "[server]\npid_file = \"@DIR@/pid\"\n[listen.main]", 1);
    let server = Server::start_with(&config, |command| {
        command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "60000000");
    });
    manager.wait_for("READY=1");
    server.signal(Signal::USR2);
    let told = manager.wait_for("MAINPID=");
    let new: u32 = told[0].strip_prefix("MAINPID=").and_then(|pid| pid.parse().ok()).expect("a process id");
    assert_ne!(new, server.pid());
    let ready = manager.wait_for("READY=1");
    assert!(ready.contains(&format!("MAINPID={new}")), "{ready:?}");
    assert!(server.wait_for_exit(LONG).success());
    // The new one is watched in place of the old.
    manager.wait_for("WATCHDOG=1");
    process::signal(new, Signal::TERM);
    manager.wait_for("STOPPING=1");
    wait_until("the new one has ended", LONG, || !process::alive(new));
}

/// A program that starts Keepwarm as systemd does for a service with a socket unit: with these sockets from descriptor 3 on.
fn activator(folder: &Path, address: &str, path: &Path) -> PathBuf {
    let script = format!(
        "#!/usr/bin/env python3\n\
         import os, socket, sys\n\
         tcp = socket.create_server(tuple([{host:?}, {port}]))\n\
         unix = socket.socket(socket.AF_UNIX)\n\
         unix.bind({path:?})\n\
         unix.listen()\n\
         spare = [os.dup(one.fileno()) for one in (tcp, unix)]\n\
         high = [os.dup2(one, 100 + at) for at, one in enumerate(spare)]\n\
         for at, one in enumerate(high): os.dup2(one, 3 + at, inheritable=True)\n\
         os.environ.update(LISTEN_FDS='2', LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES='a:b')\n\
         os.execv({keepwarm:?}, ['keepwarm'] + sys.argv[1:])\n",
        host = address.split(':').next().expect("a host"),
        port = address.split(':').nth(1).expect("a port"),
        path = path.to_str().expect("UTF-8"),
        keepwarm = keepwarm_tests::keepwarm().to_str().expect("UTF-8"),
    );
    let file = folder.join("activate");
    keepwarm_tests::tools::script(&file, &script);
    file
}

#[test]
fn sockets_of_a_socket_unit_are_served_and_left_as_they_were() {
    let address = format!("127.0.0.1:{}", keepwarm_tests::tools::free_port());
    let config = WSGI.replace("\"127.0.0.1:0\"", &format!("[\"{address}\", \"unix:@DIR@/socket\"]"));
    let server = Server::start_as(&config, |folder| activator(folder, &address, &folder.join("socket")));
    assert_eq!(server.ask(get("/pong")).text(), "pong");
    assert!(!server.log().contains("no listener binds"), "{}", server.log());
    let path = server.folder().join("socket");
    assert!(path.exists());
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    assert!(path.exists(), "the socket unit's own");
    // And no filter was left on it that would keep others from listening there.
    TcpListener::bind(&address).expect("the address is free");
}

#[test]
fn an_unused_socket_of_the_service_manager_is_reported() {
    let address = format!("127.0.0.1:{}", keepwarm_tests::tools::free_port());
    let server = Server::start_as(WSGI, |folder| activator(folder, &address, &folder.join("other")));
    server.wait_for_log(&format!("systemd passed a socket that no listener binds place={address}"), LONG);
    server.wait_for_log("place=unix:", LONG);
}
