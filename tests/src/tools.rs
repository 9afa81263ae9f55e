//! Other people's programs, each with a bound on its time.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs to the end and gives everything it printed; killed, and the test failed, when it needs longer than `bound`.
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

/// As [`run`], and it must succeed; gives its standard output.
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

/// A TCP port nobody listens on now.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

fn drain(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    bytes
}
