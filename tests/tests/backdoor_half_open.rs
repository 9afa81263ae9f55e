//! Peers that vanish without a word: no FIN, no RST, no response. No call hangs, each gets the reason, and the next ones go elsewhere.
//!
//! A host without power looks like this from here: open connections take bytes and send nothing more, and new ones get no response. The first is an origin that
//! goes silent, or a process that is stopped; the second an address whose queue is full, so that the kernel drops what arrives there.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use keepwarm_tests::origin::{After, Origin, ok, read_head};
use keepwarm_tests::{Response, Server, process};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(20);
/// Short, so that the tests are; nothing here depends on how short.
const TIMEOUTS: &str = "timeouts = { connect = \"1s\", first_byte = \"1s\", idle = \"1s\" }\n";

fn door(addresses: &[SocketAddr], more: &str) -> Server {
    let endpoints: Vec<String> =
        addresses.iter().map(|address| format!("{{ url = \"http://{address}\" }}")).collect();
    Server::start(&format!(
        "[server]\nthreads = 1\n[upstream.search]\nendpoints = [{}]\nbind = \"127.0.0.1:0\"\n{TIMEOUTS}{more}",
        endpoints.join(", ")
    ))
}

fn request(method: &str, path: &str) -> String {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n");
    if method == "POST" { format!("{head}Content-Length: 2\r\n\r\nhi") } else { format!("{head}\r\n") }
}

#[track_caller]
fn assert_told(response: &Response, status: u16, reason: &str, sentence: &str) {
    let json = response.json();
    let detail = json["detail"].as_str().unwrap_or_default();
    assert_eq!((response.status, json["reason"].as_str()), (status, Some(reason)), "{detail}");
    assert!(detail.contains(sentence), "{detail}");
}

/// An origin that responds, until it vanishes.
struct Vanishing {
    origin: Origin,
    gone: Arc<AtomicBool>,
    /// Requests that came after.
    lost: Arc<AtomicUsize>,
}

impl Vanishing {
    fn start() -> Self {
        let (gone, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_gone, count) = (Arc::clone(&gone), Arc::clone(&lost));
        let origin = Origin::start(move |_, stream| {
            if is_gone.load(Ordering::SeqCst) {
                count.fetch_add(1, Ordering::SeqCst);
                silence(stream);
                return After::Close;
            }
            ok(stream, b"still here");
            After::Keep
        });
        Self { origin, gone, lost }
    }

    fn vanish(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    fn lost(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }
}

/// Sends nothing more, until the other side gives up.
fn silence(stream: &TcpStream) {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut ended = [PollFd::new(stream, PollFlags::RDHUP)];
    let _ = poll(&mut ended, None);
}

/// An address that responds to no connect, for as long as this is held.
struct Full {
    address: SocketAddr,
    _held: (TcpListener, Vec<TcpStream>),
}

impl Full {
    fn fill() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            waiting.push(stream);
        }
        Self { address, _held: (listener, waiting) }
    }
}

#[test]
fn a_peer_that_vanished_is_left_for_another() {
    let (vanishing, other) = (Vanishing::start(), Origin::fixed("the other"));
    let more = "retry_on = [\"connect\", \"refused\", \"reset\", \"first_byte\"]\nretry_budget = \"100%\"\n";
    let server = door(&[vanishing.origin.address(), other.address()], more);
    // Several kept connections to each.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(server.ask(request("GET", "/")).status, 200)));
        }
    });
    assert!(vanishing.origin.connections() > 0, "both are called");
    vanishing.vanish();
    for call in 0..30 {
        let response = server.ask(request("GET", "/"));
        assert_eq!((response.status, response.text().as_str()), (200, "the other"), "call {call}");
    }
    // It is noticed, and not by every call again.
    assert!(vanishing.lost() <= 10, "{} of 30 calls were lost there", vanishing.lost());
    if vanishing.lost() > 0 {
        server.wait_for_log("did not start to respond within 1.0 s", LONG);
    }
}

#[test]
fn a_call_that_cannot_be_retried_gets_the_reason() {
    let vanishing = Vanishing::start();
    let server = door(&[vanishing.origin.address()], "breaker = \"off\"\noutlier = \"off\"\n");
    assert_eq!(server.ask(request("POST", "/")).status, 200);
    vanishing.vanish();
    for method in ["POST", "GET"] {
        let response = server.ask(request(method, "/"));
        assert_told(&response, 504, "first_byte_timeout", "did not start to respond within 1.0 s");
    }
    assert_eq!(vanishing.lost(), 2, "neither was sent twice");
    vanishing.origin.wait_until("the lost connections are closed", |origin| origin.open() == 0);
}

#[test]
fn a_response_whose_sender_vanishes_is_cut() {
    let origin = Origin::raw(|_, mut stream| {
        read_head(&mut BufReader::new(stream.try_clone().unwrap())).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf").unwrap();
        silence(&stream);
    });
    let server = door(&[origin.address()], "");
    let mut client = server.client();
    client.send(request("GET", "/"));
    assert_eq!(client.head("GET").0, 200);
    assert_eq!(client.read_exact(4), b"half");
    let (rest, orderly) = client.read_to_end();
    assert!(rest.is_empty() && !orderly);
    server.wait_for_log("transferred no data for 1.0 s", LONG);
}

#[test]
fn an_upload_to_a_vanished_upstream_is_a_504() {
    let origin = Origin::raw(|_, stream| {
        read_head(&mut BufReader::new(stream.try_clone().unwrap())).unwrap();
        silence(&stream);
    });
    let server = door(&[origin.address()], "");
    let mut client = server.client();
    // More than all sockets hold.
    let length = 64 << 20;
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: {length}\r\n\r\n"
    ));
    let mut sending = client.stream().try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        // Cut in the middle, as soon as a response has come.
        let _ = sending.write_all(&vec![b'x'; length]);
    });
    assert_told(&client.response("POST"), 504, "idle_timeout", "transferred no data for 1.0 s");
    drop(client);
    sender.join().unwrap();
}

#[test]
fn an_address_that_responds_to_no_connect_is_left_for_another() {
    let (full, other) = (Full::fill(), Origin::fixed("the other"));
    let server = door(&[full.address, other.address()], "retry_budget = \"100%\"\n");
    for call in 0..10 {
        let response = server.ask(request(if call % 2 == 0 { "GET" } else { "POST" }, "/"));
        assert_eq!((response.status, response.text().as_str()), (200, "the other"), "call {call}");
    }
    let alone = door(&[full.address], "retries = 0\n");
    let response = alone.ask(request("POST", "/"));
    assert_told(&response, 504, "connect_timeout", "accepted no connection within 1.0 s");
}

/// A real server, stopped and continued.
#[test]
fn a_process_that_is_stopped_is_waited_for_no_longer_than_it_may_and_found_again() {
    let origin = Server::start(
        "[server]\nthreads = 1\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\nrespond = { status = 200, body = \"alive\" }\n",
    );
    let server = door(&[origin.address()], "breaker = \"off\"\noutlier = \"off\"\nretries = 0\n");
    assert_eq!(server.ask(request("GET", "/")).text(), "alive");
    process::stop(origin.pid());
    // On the kept connection, and on a new one, which its kernel takes.
    for method in ["GET", "POST", "GET"] {
        let response = server.ask(request(method, "/"));
        assert_told(&response, 504, "first_byte_timeout", "did not start to respond within 1.0 s");
    }
    process::signal(origin.pid(), Signal::CONT);
    process::wait_until("it responds again", LONG, || server.ask(request("GET", "/")).status == 200);
}
