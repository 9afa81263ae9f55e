//! Other people's programs, each with a bound on its time.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Runs to the end and returns everything it printed; killed, and the test failed, when it needs longer than `bound`.
#[track_caller]
pub fn run(command: &mut Command, bound: Duration) -> Output {
    let shown = format!("{command:?}");
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(
            |error| panic!("{shown} does not start: {error} (what the tests need is in CONTRIBUTING.md)"),
        );
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let out = std::thread::spawn(move || drain(&mut out));
    let err = std::thread::spawn(move || drain(&mut err));
    let deadline = Instant::now() + bound;
    let status = loop {
        if let Some(status) = child.try_wait().expect("wait") {
            break Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (stdout, stderr) = (out.join().expect("a reader"), err.join().expect("a reader"));
    let Some(status) = status else {
        panic!(
            "{shown} did not end within {bound:?}\n{}\n{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
    };
    Output { status, stdout, stderr }
}

/// As [`run`], and it must succeed; returns its standard output.
#[track_caller]
pub fn run_ok(command: &mut Command, bound: Duration) -> String {
    let output = run(command, bound);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{stdout}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

/// Puts an executable file in a place, in one step: the same file by another name, as a binary of 200 MB takes a while to copy. It may be replaced, but
/// not written to.
#[track_caller]
pub fn place_executable(from: &Path, to: &Path) {
    let draft = to.with_extension("linked");
    if std::fs::hard_link(from, &draft).is_err() {
        return copy_executable(from, to); // in another file system
    }
    std::fs::rename(draft, to).expect("in its place");
}

/// Puts a copy of an executable file in a place, in one step. By another process: one that this process has open for writing, whatever it starts meanwhile
/// holds open too, and it could not be executed as long as that lasts.
#[track_caller]
pub fn copy_executable(from: &Path, to: &Path) {
    let draft = to.with_extension("copied");
    run_ok(Command::new("cp").arg(from).arg(&draft), Duration::from_secs(30));
    std::fs::rename(draft, to).expect("in its place");
}

/// Puts a script in a place, in one step.
#[track_caller]
pub fn script(to: &Path, text: &str) {
    let draft = to.with_extension("written");
    std::fs::write(&draft, text).expect("a script");
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).expect("executable");
    copy_executable(&draft, to);
    std::fs::remove_file(draft).expect("removed");
}

/// A TCP port where nothing listens, now or later: never given twice by this process, and below those that the system gives to sockets that request no number.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    const FROM: u32 = 10_000;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("the range");
    let ephemeral: u32 =
        range.split_whitespace().next().and_then(|from| from.parse().ok()).expect("a number");
    // The upper half is where Keepwarm takes the ports of its workers from.
    let span = (ephemeral / 2).checked_sub(FROM).expect("ports below the ephemeral ones");
    let own = std::process::id().wrapping_mul(127);
    for _ in 0..span {
        let number = own.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % span;
        let port = u16::try_from(FROM + number).expect("below the ephemeral ones");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {FROM} to {} is free", FROM + span);
}

/// An address where nothing listens, now or later.
pub fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn drain(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    bytes
}

/// A program that `scripts/setup test` has compiled from Go.
pub fn go_program(name: &str) -> PathBuf {
    crate::root().join(".go/bin").join(name)
}
