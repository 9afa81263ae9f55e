//! Both sides of a conversation with a streaming app are full at times: a side that has room again continues, and one that never has any is given up.

use std::time::Duration;

use keepwarm_tests::{ASGI, Client, Server, websocket};
use rustix::process::Signal;
use websocket::{frame, message, open, read};

/// More than all sockets and buffers between a client and an app hold.
const LARGE: usize = 16 << 20;
/// The size of one message, or one part of a body.
const BLOCK: usize = 262_144;

fn server(limits: &str) -> Server {
    let config = ASGI.replace("asgi_app:", "flooding_app:");
    Server::start(&format!("{config}\n[server]\nthreads = 1\nlimits = {{ {limits} }}\n")).warm("/")
}

fn opened(server: &Server) -> Client {
    let mut client = server.client().patient(Duration::from_secs(15));
    open(&mut client, "/ws", "");
    client
}

#[track_caller]
fn read_flood(client: &mut Client) {
    for _ in 0..LARGE / BLOCK {
        let (opcode, bytes) = message(client);
        assert_eq!((opcode, bytes.len()), (2, BLOCK));
    }
}

#[test]
fn a_websocket_client_that_pauses_gets_every_message() {
    let server = server("");
    let mut client = opened(&server);
    client.send(frame(0x81, b"flood"));
    client.wait_for_something(Duration::from_secs(5));
    // All buffers are full, and nothing moves until it reads.
    std::thread::sleep(Duration::from_millis(300));
    read_flood(&mut client);
}

/// It keeps sending while nothing can be sent to it: otherwise both would wait.
#[test]
fn a_websocket_client_that_sends_all_before_it_reads_gets_every_message() {
    let server = server("");
    let mut client = opened(&server);
    client.send(frame(0x81, b"flood"));
    for _ in 0..LARGE / BLOCK {
        client.send(frame(0x82, &[b'y'; BLOCK]));
    }
    client.send(frame(0x81, b"count"));
    read_flood(&mut client);
    assert_eq!(message(&mut client), (1, LARGE.to_string().into_bytes()));
}

#[test]
fn a_client_that_sends_its_body_before_it_reads_gets_its_response() {
    let server = server("");
    let mut client = server.client().patient(Duration::from_secs(15));
    let body = vec![b'y'; LARGE / 2];
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    let response = client.response("POST");
    let length = body.len().to_string();
    assert_eq!(response.body.len(), LARGE + length.len());
    assert!(response.body.ends_with(length.as_bytes()));
}

/// The application has a WebSocket's idle time for a message; the client learns that its messages are not read.
#[test]
fn an_application_that_reads_no_more_messages_loses_its_websocket() {
    let server = server("websocket_idle = \"1s\"");
    let mut client = opened(&server);
    client.send(frame(0x81, b"deaf"));
    assert_eq!(message(&mut client).1, b"deaf");
    for _ in 0..4 {
        client.send(frame(0x82, &[b'y'; BLOCK]));
    }
    let (first, payload) = loop {
        match read(&mut client) {
            (0x89, _) => continue,
            other => break other,
        }
    };
    assert_eq!((first, u16::from_be_bytes([payload[0], payload[1]])), (0x88, 1011));
    server.wait_for_log("has not read a WebSocket message", Duration::from_secs(5));
}

#[test]
fn a_client_that_leaves_while_its_message_waits_is_noticed() {
    let server = server("");
    let mut client = opened(&server);
    client.send(frame(0x81, b"deaf"));
    assert_eq!(message(&mut client).1, b"deaf");
    for _ in 0..4 {
        client.send(frame(0x82, &[b'y'; BLOCK]));
    }
    client.reset();
    server.wait_for_log("client_reset", Duration::from_secs(5));
}

/// They spend no credit: what bounds them is the worker's socket.
#[test]
fn empty_messages_that_no_worker_takes_are_left_in_the_clients_socket() {
    let server = server("");
    let mut client = opened(&server);
    let worker = server.workers()[0];
    keepwarm_tests::process::stop(worker);
    rustix::net::sockopt::set_socket_send_buffer_size(client.stream(), 16_384).expect("SO_SNDBUF");
    client.stream().set_write_timeout(Some(Duration::from_secs(2))).expect("a time-out");
    let some = frame(0x82, b"").repeat(1000);
    let taken = (0..500).take_while(|_| client.try_send(&some).is_ok()).count();
    keepwarm_tests::process::signal(worker, Signal::CONT);
    assert!(taken < 500, "{taken} times {} bytes were taken", some.len());
}
