//! `[admin]` of the server under test.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Client, Response, Server, process};

/// How long anything may take that is waited for.
const BOUND: Duration = Duration::from_secs(60);

/// The first TCP address of `[admin]`.
#[track_caller]
pub fn address(server: &Server) -> SocketAddr {
    let line = server.wait_for_log("admin on http://", BOUND);
    let (_, address) = line.split_once("http://").expect("found above");
    address.trim().parse().unwrap_or_else(|error| panic!("{address:?}: {error}"))
}

/// `GET path`, with these further field lines.
#[track_caller]
pub fn get(server: &Server, path: &str, fields: &str) -> Response {
    let address = address(server);
    // A health check may wait for threads: longer than a client usually does.
    let mut client = Client::connect(address).patient(BOUND);
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n"))
}

/// The status, as JSON.
#[track_caller]
pub fn status(server: &Server) -> serde_json::Value {
    get(server, "/status", "").json()
}

/// Ends the process that serves now, after an upgrade: the server that was started has given its sockets to it, and is gone.
#[track_caller]
pub fn end_successor(server: &Server) {
    let pid = status(server)["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process");
    process::signal(pid, Signal::TERM);
    process::wait_until("the successor has ended", BOUND, || !process::alive(pid));
}

/// Waits until the status is as wanted.
#[track_caller]
pub fn wait_for_status(
    server: &Server,
    what: &str,
    wanted: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let deadline = Instant::now() + BOUND;
    loop {
        let status = status(server);
        if wanted(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "not within {BOUND:?}: {what}\n{status:#}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The metrics of the older format: name and labels as they stand in the line, and the value.
#[track_caller]
pub fn metrics(server: &Server) -> BTreeMap<String, f64> {
    let text = get(server, "/metrics", "").text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?} is no sample"));
        (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line:?}: {error}")))
    };
    samples.map(pair).collect()
}

/// Waits until a metric has at least this value; returns its value.
#[track_caller]
pub fn wait_for_metric(server: &Server, name: &str, least: f64) -> f64 {
    let deadline = Instant::now() + BOUND;
    loop {
        let all = metrics(server);
        match all.get(name) {
            Some(value) if *value >= least => return *value,
            seen => assert!(
                Instant::now() < deadline,
                "{name} is {seen:?}, not {least}, within {BOUND:?}\n{all:#?}"
            ),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a request over a Unix socket; returns the status and the body.
#[track_caller]
pub fn ask_unix(socket: &Path, method: &str, path: &str) -> (u16, String) {
    let deadline = Instant::now() + BOUND;
    let mut stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "{}: {error}", socket.display()),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    stream.set_read_timeout(Some(BOUND)).expect("a read time-out");
    let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
    let request = format!("{method} {path} HTTP/1.1\r\nHost: any\r\nConnection: close\r\n{length}\r\n");
    stream.write_all(request.as_bytes()).expect("the request is taken");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?} has no head"));
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{head:?} has no status")), body.to_owned())
}
