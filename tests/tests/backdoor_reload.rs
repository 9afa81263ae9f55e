//! Reloads and the back door: what the new configuration still wants is kept, and no call fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use keepwarm_tests::origin::{After, Gate, Origin, ok};
use keepwarm_tests::{Client, Server, calling_app, get_local as get};
use rustix::process::Signal;

fn config(origin: &Origin, search: &str, more: &str) -> String {
    format!(
        "[server]\nthreads = 2\n[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.1:0\"\n{search}\n{more}",
        origin.address()
    )
}

#[test]
fn reloads_under_load_fail_no_call_and_drop_no_connection() {
    const CALLERS: usize = 8;
    let origin = Origin::start(|_, stream| {
        ok(stream, b"hello");
        After::Keep
    });
    let other = Origin::fixed("other");
    let server = Arc::new(Server::start(&config(&origin, "", "")));
    let stop = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (stop, calls, address) = (Arc::clone(&stop), Arc::clone(&calls), server.address());
            std::thread::spawn(move || {
                // Kept through all reloads: were it closed, the next call would fail.
                let mut client = Client::connect(address);
                while !stop.load(Ordering::SeqCst) {
                    let response = client.ask(get("/"));
                    assert_eq!((response.status, response.says_close()), (200, false));
                    calls.fetch_add(1, Ordering::SeqCst);
                    if calls.load(Ordering::SeqCst).is_multiple_of(50) {
                        assert_eq!(Client::connect(address).ask(get("/")).status, 200);
                    }
                }
            })
        })
        .collect();
    for round in 0..6 {
        let search = if round % 2 == 0 { "timeout = \"7s\"\nretries = 2" } else { "" };
        let more = match round % 3 {
            0 => format!("[upstream.other]\nurl = \"http://{}\"\nbind = \"127.0.0.2:0\"\n", other.address()),
            _ => String::new(),
        };
        let before = calls.load(Ordering::SeqCst);
        server.reload_with(&config(&origin, search, &more));
        origin.wait_until("calls go on", |_| calls.load(Ordering::SeqCst) > before + 20);
    }
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.join().expect("no call failed");
    }
    assert!(origin.connections() <= CALLERS + 2, "{} connections", origin.connections());
}

#[test]
fn a_changed_url_applies_to_new_calls_only() {
    let gate = Gate::default();
    let held = gate.clone();
    let first = Origin::start(move |request, stream| {
        if request.target() == "/slow" {
            held.wait();
        }
        ok(stream, b"first");
        After::Keep
    });
    let second = Origin::fixed("second");
    let server = Server::start(&config(&first, "", ""));
    let mut slow = server.client();
    slow.send(get("/slow"));
    first.wait_until("the slow call is there", |origin| origin.requests().len() == 1);
    server.reload_with(&config(&second, "", ""));
    assert_eq!(server.ask(get("/")).text(), "second");
    gate.open();
    assert_eq!(slow.response("GET").text(), "first");
    first.wait_until("the old connection is closed", |origin| origin.open() == 0);
}

#[test]
fn a_door_that_is_removed_is_closed_and_a_failed_reload_changes_nothing() {
    let origin = Origin::fixed("hello");
    let other = Origin::fixed("other");
    let more = format!("[upstream.other]\nurl = \"http://{}\"\nbind = \"127.0.0.2:0\"\n", other.address());
    let server = Server::start(&config(&origin, "", &more));
    let line = server.wait_for_log("upstream other on http://127.0.0.2:", Duration::from_secs(10));
    let door: std::net::SocketAddr = line.rsplit("http://").next().unwrap().trim().parse().unwrap();
    assert_eq!(Client::connect(door).ask(get("/")).text(), "other");
    let mark = server.mark();
    server.configure(&config(&origin, "ca = \"/nowhere/ca.pem\"", &more));
    server.signal(Signal::HUP);
    server.wait_for_log_after(mark, "reload failed", Duration::from_secs(20));
    assert_eq!(Client::connect(door).ask(get("/")).text(), "other");
    assert_eq!(server.ask(get("/")).text(), "hello");
    assert_eq!(origin.connections(), 1);
    server.reload_with(&config(&origin, "", ""));
    origin.wait_until("the door is closed", |_| std::net::TcpStream::connect(door).is_err());
    assert_eq!(server.ask(get("/")).text(), "hello");
    assert_eq!(origin.connections(), 1, "the pool is kept");
}

/// An app that calls a door at this address.
fn calling(origin: &Origin, door: &str) -> String {
    format!(
        "[upstream.search]\nurl = \"http://{}\"\nbind = \"{door}\"\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\napp = \"app\"\n{}",
        origin.address(),
        calling_app::APP
    )
}

/// A server with a request that has reached the origin.
fn called(origin: &Origin) -> (Server, Client) {
    let server = Server::spawn(&calling(origin, "127.0.0.2:0"), |command| {
        calling_app::write(command.get_current_dir().expect("a folder"));
    });
    let server = server.listening();
    let mut client = server.client().patient(Duration::from_secs(30));
    client.send(get("/"));
    server.wait_for_log(calling_app::STARTED, Duration::from_secs(20));
    (server, client)
}

#[test]
fn a_door_that_moves_stays_until_the_workers_that_knew_it_have_ended() {
    let origin = Origin::fixed("from the service");
    let (server, mut client) = called(&origin);
    let line = server.wait_for_log("upstream search on http://127.0.0.2:", Duration::from_secs(10));
    let door: std::net::SocketAddr = line.rsplit("http://").next().unwrap().trim().parse().unwrap();
    server.reload_with(&calling(&origin, "127.0.0.3:0"));
    // Whether its generation is over is looked at whenever something happens.
    server.reload_with(&calling(&origin, "127.0.0.3:0"));
    calling_app::release(server.folder());
    assert_eq!(client.response("GET").text(), "from the service");
    origin.wait_until("the door is closed", |_| std::net::TcpStream::connect(door).is_err());
    assert_eq!(server.ask(get("/")).text(), "from the service");
}

#[test]
fn workers_may_call_doors_until_they_exit() {
    let origin = Origin::start(|_, stream| {
        ok(stream, b"from the service");
        After::Keep
    });
    let (server, mut client) = called(&origin);
    server.signal(Signal::TERM);
    server.wait_for_log("stopping", Duration::from_secs(20));
    // Listening has ended for clients by then.
    origin.wait_until("nobody is let in", |_| std::net::TcpStream::connect(server.address()).is_err());
    calling_app::release(server.folder());
    assert_eq!(client.response("GET").text(), "from the service");
    assert!(server.wait_for_exit(Duration::from_secs(30)).success());
}
