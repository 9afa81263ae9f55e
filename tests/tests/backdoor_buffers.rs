//! Routes to upstreams that take a message in before they pass it on, instead of streaming it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use keepwarm_tests::Server;
use keepwarm_tests::origin::{After, Origin, ok};

const MIB: usize = 1 << 20;

/// A route to these origins.
fn route(origins: &[&Origin], keys: &str) -> Server {
    route_to(origins, keys, "")
}

fn route_to(origins: &[&Origin], keys: &str, upstream: &str) -> Server {
    let endpoints: Vec<_> =
        origins.iter().map(|origin| format!("{{ url = \"http://{}\" }}", origin.address())).collect();
    Server::start(&format!(
        "[server]\nthreads = 1\n[listen.main]\nbind = \"127.0.0.1:0\"\n\
         [[listen.main.route]]\nupstream = \"search\"\n{keys}\n\
         [upstream.search]\nendpoints = [{}]\nretries = 1\nretry_on = [\"connect\", \"refused\", \"reset\"]\n\
         balance = \"round_robin\"\nbreaker = \"off\"\noutlier = \"off\"\n{upstream}\n",
        endpoints.join(", ")
    ))
}

/// No two blocks of it are the same.
fn body(size: usize) -> Vec<u8> {
    (0..size).map(|at| ((at >> 8) as u8).wrapping_mul(31).wrapping_add(at as u8)).collect()
}

#[test]
fn a_body_is_in_before_the_upstream_is_called() {
    let origin = Origin::fixed("ok");
    let server = route(&[&origin], "buffer_request = true");
    let sent = body(8 * MIB);
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n", sent.len()));
    // More than all sockets hold: most of it has been read when this returns.
    client.send(&sent[..sent.len() - 1]);
    assert_eq!(origin.connections(), 0, "a slow upload holds no connection");
    client.send([&sent[sent.len() - 1..], b"\r\n0\r\n\r\n"].concat());
    assert_eq!(client.response("POST").text(), "ok");
    let seen = origin.last();
    assert_eq!(seen.field("content-length"), Some(sent.len().to_string().as_str()));
    assert!(seen.body == sent, "every byte, in order");
    // Trailers need chunks.
    let chunks = "3\r\nabc\r\n0\r\nX-Sum: 3\r\n\r\n";
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n";
    assert_eq!(client.ask(format!("{head}{chunks}")).status, 200);
    assert_eq!((origin.last().body.as_slice(), origin.last().trailers.len()), (b"abc".as_slice(), 1));
}

/// See the test of the same sizes for apps (`slow_clients`).
#[test]
fn a_chunked_body_that_just_fits_in_memory_is_read_to_its_end() {
    let origin = Origin::fixed("ok");
    let server = route(&[&origin], "buffer_request = true");
    let mut client = server.client();
    for size in [MIB / 4 - 1, MIB / 4, MIB / 4 + 1] {
        for trailers in ["", "Digest: of-no-use\r\n"] {
            client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(format!("{size:x}\r\n"));
            client.send(body(size));
            client.send(format!("\r\n0\r\n{trailers}\r\n"));
            assert_eq!(client.response("POST").text(), "ok");
            assert!(origin.last().body == body(size));
        }
    }
}

/// The default is to stream.
#[test]
fn a_body_is_streamed_unless_buffering_is_configured() {
    let origin = Origin::fixed("ok");
    let server = route(&[&origin], "");
    let sent = body(MIB);
    let mut client = server.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", sent.len()));
    client.send(&sent[..MIB / 2]);
    origin.wait_until("it is called", |origin| origin.connections() == 1);
    client.send(&sent[MIB / 2..]);
    assert_eq!(client.response("POST").status, 200);
    assert!(origin.last().body == sent);
}

#[test]
fn buffered_bodies_are_limited_and_expectations_met_by_keepwarm() {
    let origin = Origin::fixed("ok");
    let server = route(&[&origin], "buffer_request = true\nmax_body = \"64KiB\"");
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n", 65 * 1024));
    client.send(body(65 * 1024));
    assert_eq!(client.response("POST").status, 413);
    assert_eq!(origin.connections(), 0);
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head("POST").0, 100);
    assert_eq!(origin.connections(), 0);
    client.send("abc");
    assert_eq!(client.response("POST").status, 200);
    assert_eq!(origin.last().field("expect"), None);
}

#[test]
fn a_body_that_was_taken_in_can_be_sent_to_another_endpoint() {
    let lost = Origin::start(|_, _| After::Reset);
    let origin = Origin::fixed("ok");
    let server = route(&[&lost, &origin], "buffer_request = true");
    let sent = body(200 * 1024);
    let mut client = server.client();
    for _ in 0..4 {
        client.send(format!("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", sent.len()));
        client.send(&sent);
        assert_eq!(client.response("PUT").status, 200);
        assert!(origin.last().body == sent);
    }
    assert!(!lost.requests().is_empty(), "it was tried");
}

#[test]
fn a_response_is_taken_in_and_its_connection_is_free_while_the_client_reads() {
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    let response = body(24 * MIB);
    let sent = response.clone();
    let origin = Origin::start(move |request, stream| {
        ok(stream, if request.target() == "/large" { &sent } else { b"small" });
        count.fetch_add(1, Ordering::SeqCst);
        After::Keep
    });
    // One connection for all: another request gets a response when it is free.
    let server = route_to(&[&origin], "buffer_response = true", "pool = { max = 1 }");
    let mut slow = server.client();
    slow.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // Far more than all sockets hold, and it is not read.
    origin.wait_until("all of it is taken", |_| given.load(Ordering::SeqCst) == 1);
    let mut quick = server.client().patient(Duration::from_secs(30));
    assert_eq!(quick.ask("GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n").text(), "small");
    assert_eq!(origin.connections(), 1);
    let whole = slow.response("GET");
    assert!(
        whole.status == 200 && whole.body == response,
        "{} of {} bytes",
        whole.body.len(),
        response.len()
    );
}
