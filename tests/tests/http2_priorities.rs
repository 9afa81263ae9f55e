//! Priorities of HTTP/2 responses (RFC 9218), seen by a client that asks for several large files at once.

use std::collections::BTreeMap;
use std::fs;

use keepwarm_tests::Server;
use keepwarm_tests::http2::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, PRIORITY_UPDATE, PROTOCOL_ERROR, RST_STREAM,
    block, frame,
};

/// More than sockets hold.
const LENGTH: usize = 24 << 20;

fn server() -> Server {
    let config = "[server]\nthreads = 1\n[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ files = \"@DIR@/files\" }]\n";
    Server::start_with(config, |command| {
        let folder = command.get_current_dir().expect("a directory of its own").join("files");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("large"), vec![b'x'; LENGTH]).expect("a file");
    })
}

fn request(stream: u32, priority: Option<&str>) -> Vec<u8> {
    let fields: Vec<_> = priority.map(|value| ("priority", value)).into_iter().collect();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block("GET", "/large", &fields))
}

fn update(stream: u32, value: &str) -> Vec<u8> {
    frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes(), value.as_bytes()].concat())
}

/// Sends these frames at once, and reads to the end of all streams. Returns the streams in the order of their ends, each with the bytes that the others had by then.
#[track_caller]
fn order(server: &Server, frames: &[Vec<u8>], streams: usize) -> Vec<(u32, BTreeMap<u32, usize>)> {
    let window = 0x7fff_ffff;
    let mut client = Http2::connect_with(server.address(), &[(4, window)]);
    client.give(0, window - 65_535);
    client.send(&frames.concat());
    let (mut got, mut ends) = (BTreeMap::new(), Vec::new());
    while ends.len() < streams {
        let frame = client.until(|frame| matches!(frame.kind, DATA | RST_STREAM | GOAWAY));
        assert_eq!(frame.kind, DATA, "{:?}", (frame.kind, frame.stream));
        *got.entry(frame.stream).or_insert(0) += frame.payload.len();
        if frame.ends() {
            let mut others = got.clone();
            assert_eq!(others.remove(&frame.stream), Some(LENGTH));
            ends.push((frame.stream, others));
        }
    }
    ends
}

fn streams(ends: &[(u32, BTreeMap<u32, usize>)]) -> Vec<u32> {
    ends.iter().map(|(stream, _)| *stream).collect()
}

#[test]
fn an_urgent_response_overtakes_and_others_wait() {
    let server = server();
    let ends =
        order(&server, &[request(1, Some("u=6")), request(3, Some("u=0")), request(5, Some("u=2"))], 3);
    assert_eq!(streams(&ends), [3, 5, 1]);
    // What the sockets had taken before is in order.
    let ahead = ends[0].1.get(&1).copied().unwrap_or_default();
    assert!(ahead < LENGTH / 2, "{ahead} bytes");
}

#[test]
fn of_one_urgency_whole_responses_follow_one_another_and_incremental_ones_share() {
    let server = server();
    let whole = order(&server, &[request(1, Some("u=2")), request(3, Some("u=2"))], 2);
    assert_eq!(streams(&whole), [1, 3]);
    let shared = order(&server, &[request(1, Some("u=2, i")), request(3, Some("u=2, i"))], 2);
    let other = shared[0].1.values().next().copied().unwrap_or_default();
    assert!(other > LENGTH / 2, "{other} bytes when the first ended");
}

#[test]
fn a_client_without_signals_gets_equal_shares() {
    let server = server();
    let shared = order(&server, &[request(1, None), request(3, None), request(5, None)], 3);
    let least = shared[0].1.values().min().copied().unwrap_or_default();
    assert!(shared[0].1.len() == 2 && least > LENGTH / 2, "{least} bytes when the first ended");
}

#[test]
fn priority_update_changes_the_order_on_the_way_and_before_the_request() {
    let server = server();
    let frames = [request(1, Some("u=3")), request(3, Some("u=4")), update(3, "u=0"), update(9, "u=9, i")];
    assert_eq!(streams(&order(&server, &frames, 2)), [3, 1]);
    let frames = [update(3, "u=1"), request(1, Some("u=2")), request(3, Some("u=7"))];
    assert_eq!(streams(&order(&server, &frames, 2)), [3, 1], "RFC 9218 §7: the frame outweighs the field");
}

#[test]
fn a_malformed_priority_update_ends_the_connection() {
    let server = server();
    let on_a_stream = frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 3, b'i']);
    for bytes in [on_a_stream, frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 3]), update(0, "u=1")] {
        let mut client = Http2::connect(server.address());
        client.send(&bytes);
        assert_eq!(client.goodbye(), Some(PROTOCOL_ERROR));
    }
}

#[test]
fn a_response_that_waits_for_urgent_ones_is_not_taken_for_a_slow_client() {
    let config = "[server]\nthreads = 1\nlimits = { write_timeout = \"3s\", drain_rate = \"200KiB\" }\n[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ files = \"@DIR@/files\" }]\n";
    let server = Server::start_with(config, |command| {
        let folder = command.get_current_dir().expect("a directory of its own").join("files");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("large"), vec![b'x'; LENGTH]).expect("a file");
    });
    let window = 0x7fff_ffff;
    let mut client = Http2::connect_with(server.address(), &[(4, window)]);
    client.give(0, window - 65_535);
    client.send(&[request(1, Some("u=7")), request(3, Some("u=0"))].concat());
    let (mut got, mut ends) = (0, 0);
    while ends < 2 {
        let frame = client.until(|frame| matches!(frame.kind, DATA | RST_STREAM | GOAWAY));
        assert_eq!(frame.kind, DATA, "{frame:?}");
        got += frame.payload.len();
        ends += usize::from(frame.ends());
        // About 6 MB a second: it takes longer than the timeout of a write.
        if got > 64 * 1024 {
            got = 0;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
