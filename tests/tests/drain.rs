//! The end of a server, and of a worker that is replaced: long streams and WebSockets are closed in time, short requests are finished.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Client, Server, get, load, websocket};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);
/// A signal that comes after it is a second one.
const A_SECOND: Duration = Duration::from_millis(1050);

fn config(server: &str, app: &str) -> String {
    format!(
        "[server]\n{server}\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"stream_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         env = {{ COUNT_FILE = \"@DIR@/count\" }}\n{app}\n"
    )
}

fn counts(server: &Server) -> BTreeMap<String, u32> {
    load::counts(&server.folder().join("count"))
}

#[track_caller]
fn wait_for_count(server: &Server, line: &str) {
    wait_until(line, LONG, || counts(server).contains_key(line));
}

/// A client of a running response, part of which has arrived.
fn streaming(server: &Server) -> Client {
    let mut client = server.client().patient(LONG);
    client.send(get("/stream"));
    assert_eq!(client.head("GET").0, 200);
    client.read_through(b"data: tick");
    client
}

/// The WebSocket is closed with 1001, in order.
#[track_caller]
fn expect_goodbye(client: &mut Client) {
    let (first, payload) = websocket::read(client);
    assert_eq!(first, 0x88, "a close\n{client}");
    assert_eq!(payload.get(..2), Some(&1001_u16.to_be_bytes()[..]), "{client}");
    client.send(websocket::frame(0x88, &payload));
    client.expect_eof();
}

#[test]
fn sigterm_closes_websockets_with_1001_and_ends_streams_by_the_drain_timeout() {
    let server = Server::start(&config("shutdown_grace = \"60s\"", "drain_timeout = \"300ms\"")).warm("/");
    let mut socket = server.client().patient(LONG);
    websocket::open(&mut socket, "/", "");
    let mut stream = streaming(&server);
    server.signal(Signal::TERM);
    expect_goodbye(&mut socket);
    let (bytes, _) = stream.read_to_end();
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "what was cut does not look complete\n{stream}");
    let record = server.wait_for_log("reason=draining", LONG);
    assert!(record.contains(" id=") && record.contains("(drain_timeout)"), "{record}");
    wait_for_count(&server, "websocket.disconnect 1001");
    wait_for_count(&server, "http.disconnect");
    // Long before the end of the grace, and with the application's own shut-down.
    assert!(server.wait_for_exit(LONG).success());
    wait_for_count(&server, "lifespan.shutdown");
}

#[test]
fn close_frames_are_sent_before_the_grace_ends_despite_a_longer_drain_timeout() {
    let server = Server::start(&config("shutdown_grace = \"12s\"", "drain_timeout = \"10m\"")).warm("/");
    let mut socket = server.client().patient(LONG);
    websocket::open(&mut socket, "/", "");
    server.signal(Signal::TERM);
    expect_goodbye(&mut socket);
    wait_for_count(&server, "websocket.disconnect 1001");
    assert!(server.wait_for_exit(LONG).success());
}

#[test]
fn a_websocket_whose_client_does_not_reply_to_the_close_is_not_waited_for() {
    let server = Server::start(&config("shutdown_grace = \"60s\"", "drain_timeout = \"100ms\"")).warm("/");
    let mut socket = server.client().patient(LONG);
    websocket::open(&mut socket, "/", "");
    server.signal(Signal::TERM);
    assert_eq!(websocket::read(&mut socket).0, 0x88);
    // It stays open and sends nothing: five seconds, then it is cut.
    assert!(server.wait_for_exit(LONG).success());
    assert_eq!(counts(&server).get("websocket.disconnect 1001"), Some(&1));
}

#[test]
fn messages_after_the_close_frame_are_harmless() {
    let server = Server::start(&config("shutdown_grace = \"60s\"", "drain_timeout = \"100ms\"")).warm("/");
    let mut socket = server.client().patient(LONG);
    websocket::open(&mut socket, "/", "");
    server.signal(Signal::TERM);
    assert_eq!(websocket::read(&mut socket).0, 0x88);
    socket.send(websocket::frame(0x81, b"too late"));
    socket.send(websocket::frame(0x88, &1001_u16.to_be_bytes()));
    socket.expect_eof();
    assert!(server.wait_for_exit(LONG).success());
    assert!(!server.log().contains("violated the wire protocol"), "{}", server.log());
}

#[test]
fn a_reload_closes_websockets_and_streams_of_old_workers_within_the_drain_timeout() {
    let server = Server::start(&config("", "drain_timeout = \"300ms\"")).warm("/");
    let mut socket = server.client().patient(LONG);
    websocket::open(&mut socket, "/", "");
    let mut stream = streaming(&server);
    let old = server.workers();
    server.signal(Signal::HUP);
    expect_goodbye(&mut socket);
    let (bytes, _) = stream.read_to_end();
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "{stream}");
    wait_for_count(&server, "websocket.disconnect 1001");
    wait_for_count(&server, "http.disconnect");
    wait_until("only the new worker", LONG, || {
        let now = server.workers();
        now.len() == 1 && now != old
    });
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}

#[test]
fn listeners_serve_on_for_the_drain_delay() {
    let server = Server::start(&config("drain_delay = \"10m\"\nshutdown_grace = \"11m\"", "")).warm("/");
    let mark = server.mark();
    server.signal(Signal::TERM);
    server.wait_for_log_after(mark, "stopping", LONG);
    std::thread::sleep(A_SECOND); // The signal that ends the test is another one.
    // New connections are accepted, and kept: no client is turned away before the load balancer has noticed.
    let mut client = server.client().patient(LONG);
    assert!(!client.expect_kept("/pong").says_close());
    drop(client);
    // The test does not wait for all of it.
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
}

#[test]
fn a_second_signal_ends_at_once() {
    let server = Server::start(&config("drain_delay = \"10m\"\nshutdown_grace = \"11m\"", "")).warm("/");
    let mark = server.mark();
    server.signal(Signal::TERM);
    server.wait_for_log_after(mark, "stopping", LONG);
    std::thread::sleep(A_SECOND); // Sooner it would be the same signal.
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    server.wait_for_log_after(mark, "stopping at once", LONG);
}

#[test]
fn idle_connections_hold_up_a_stop_for_drain_idle_and_no_longer() {
    let server = Server::start(&config("shutdown_grace = \"50s\"\ndrain_idle = \"1s\"", "")).warm("/");
    let [mut idle, mut late, mut silent] = [(); 3].map(|()| server.client());
    idle.expect_kept("/pong");
    late.expect_kept("/pong");
    let begun = Instant::now();
    server.signal(Signal::TERM);
    // No request meets a closing socket: it is the last one of its connection.
    while !late.expect_kept("/pong").says_close() {}
    late.expect_eof();
    idle.expect_eof();
    silent.expect_eof();
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(server.wait_for_exit(LONG).success());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn the_grace_covers_the_whole_stop() {
    let times = "drain_delay = \"1s\"\nshutdown_grace = \"3s\"";
    let server = Server::start(&config(times, "drain_timeout = \"10m\"")).warm("/");
    let mut stream = streaming(&server);
    let begun = Instant::now();
    server.signal(Signal::TERM);
    stream.read_to_end();
    assert!(server.wait_for_exit(LONG).success());
    assert!(begun.elapsed() < Duration::from_millis(4500), "{:?}", begun.elapsed());
}

#[test]
fn a_worker_that_does_not_hear_sigterm_is_killed_within_the_grace() {
    let server = Server::start(&config("shutdown_grace = \"3s\"", "")).warm("/");
    let worker = server.workers()[0];
    keepwarm_tests::process::stop(worker);
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    assert!(begun.elapsed() < Duration::from_millis(4500), "{:?}", begun.elapsed());
}

#[test]
fn an_end_does_not_wait_for_a_start_or_a_reload_that_hangs() {
    let hanging = config("", "").replace("stream_app", "hanging_app");
    let server = Server::spawn(&hanging, |_| {});
    wait_until("it boots", LONG, || !server.workers().is_empty());
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success(), "{}", server.log());

    let server = Server::start(&config("", "")).warm("/");
    server.configure(&hanging);
    server.signal(Signal::HUP);
    wait_until("a new worker boots", LONG, || server.workers().len() == 2);
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
}
