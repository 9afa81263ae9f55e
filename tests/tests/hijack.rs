//! Rack's full hijack: an application responds to a request by itself, on a socket of its own, while its worker serves others.

use std::time::{Duration, Instant};

use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Client, Server, get, websocket};
use rustix::process::Signal;

/// The limit on what a busy machine may take for something that takes milliseconds.
const BOUND: Duration = Duration::from_secs(30);

fn config(more: &str) -> String {
    format!(
        "[server]\nshutdown_grace = \"20s\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"taken\"\n\
         [app.taken]\nentry = \"hijack.ru\"\ndirectory = \"@APPS@\"\nworkers = 1\n{more}\n"
    )
}

/// One process, one request at a time; and one with threads.
fn both(more: &str) -> [Server; 2] {
    ["", "threads = 3\n"].map(|threads| Server::start(&config(&format!("{threads}{more}"))).warm("/"))
}

fn open(server: &Server) -> Client {
    let mut client = server.client().patient(BOUND);
    websocket::open(&mut client, "/echo", "");
    client
}

#[track_caller]
fn echoes(client: &mut Client, bytes: &[u8]) {
    client.send(bytes);
    assert!(client.read_exact(bytes.len()) == bytes, "{client}");
}

#[test]
fn sockets_are_open_beside_the_requests_of_their_worker() {
    for server in both("") {
        let mut open: Vec<Client> = (0..20).map(|_| open(&server)).collect();
        for (number, client) in open.iter_mut().enumerate() {
            echoes(client, format!("socket {number}").as_bytes());
        }
        assert!(server.ask(get("/")).text().starts_with("worker "));
        let large: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 251) as u8).collect();
        for part in large.chunks(60_000) {
            echoes(&mut open[3], part);
        }
        echoes(&mut open[0], b"and the others");
    }
}

#[test]
fn responses_of_every_framing() {
    for server in both("") {
        let mut client = server.client().patient(BOUND);
        for _ in 0..3 {
            let plain = client.ask(get("/plain"));
            assert_eq!((plain.status, plain.text()), (200, "GET   ".to_owned()));
            assert_eq!(plain.field("content-type"), Some("text/plain"));
        }
        let post = client.ask("POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(post.text(), "POST  ");
        assert_eq!(client.ask(get("/close-delimited")).text().lines().count(), 5);
        assert_eq!(client.ask(get("/long")).body.len(), 3_000_000);
        assert!(client.ask(get("/")).text().starts_with("worker "));
    }
}

#[test]
fn faults_of_the_application_are_502_or_truncation() {
    for server in both("") {
        for path in ["/silent", "/garbage"] {
            assert_eq!(server.ask(get(path)).status, 502, "{path}");
        }
        let mut client = server.client().patient(BOUND);
        client.send(get("/short"));
        // A 502, if nothing has left yet.
        let short = client.try_response("GET").map(|response| response.status);
        assert!(matches!(short, Err(_) | Ok(502)), "{short:?}");
        assert!(server.ask(get("/")).text().starts_with("worker "));
        server.wait_for_log("rack.hijack", BOUND);
    }
}

/// It delays no other request, and kills no worker.
#[test]
fn one_that_never_responds_is_504() {
    for server in both("request_timeout = \"300ms\"") {
        let before = server.ask(get("/")).text();
        assert_eq!(server.ask(get("/never")).status, 504);
        assert_eq!(server.ask(get("/")).text(), before);
    }
}

#[test]
fn a_client_that_leaves_ends_its_socket() {
    let server = Server::start(&config("")).warm("/");
    let client = open(&server);
    drop(client);
    // Nothing of it is left: a stop does not wait.
    let mut other = open(&server);
    echoes(&mut other, b"still");
    drop(other);
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(BOUND).success());
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited for the grace");
}

#[test]
fn a_reload_lets_sockets_go_on_until_the_drain_timeout() {
    for server in both("drain_timeout = \"700ms\"") {
        let mut client = open(&server);
        let before = server.ask(get("/")).text();
        server.reload();
        wait_until("the new worker serves", BOUND, || server.ask(get("/")).text() != before);
        echoes(&mut client, b"of the old one");
        client.expect_end();
        server.wait_for_log("worker stopped: exited with status 0", BOUND);
    }
}

#[test]
fn a_worker_that_dies_takes_its_sockets_along() {
    let server = Server::start(&config("")).warm("/");
    let mut client = open(&server);
    let text = server.ask(get("/")).text();
    let pid = text.strip_prefix("worker ").and_then(|pid| pid.parse().ok()).expect("a number");
    process::signal(pid, Signal::KILL);
    client.expect_end();
    wait_until("another serves", BOUND, || server.ask(get("/")).text() != text);
}
