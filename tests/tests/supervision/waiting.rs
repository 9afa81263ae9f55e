//! Requests that wait for a worker, and workers that are waited for too long.

use std::time::{Duration, Instant};

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{admin, get};

use crate::{LONG, config, counts, start, wsgi};

#[test]
fn a_full_queue_is_503_at_once_with_retry_after() {
    let server = wsgi(1, "queue = 2");
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=busy&ms=2000"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("busy"));
    // Of three more, two may wait: the third is refused at once, while the first still runs.
    let responses: Vec<(keepwarm_tests::Response, Instant)> = std::thread::scope(|scope| {
        let ask = || (server.client().patient(Duration::from_secs(20)).ask(get("/pong")), Instant::now());
        let asking: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        assert_eq!(busy.response("GET").status, 200);
        asking.into_iter().map(|thread| thread.join().expect("a client")).collect()
    });
    let refused: Vec<_> = responses.iter().filter(|(response, _)| response.status == 503).collect();
    let [(response, at)] = refused[..] else { panic!("{} of three were refused", refused.len()) };
    let first_served = responses.iter().filter(|(served, _)| served.status == 200).map(|(_, at)| at).min();
    assert!(Some(at) < first_served, "the refusal waited for the worker");
    let after = response.field("retry-after").expect("Retry-After (RFC 9110 §15.6.4)");
    assert!(after.parse::<u32>().is_ok(), "{after:?}");
}

#[test]
fn a_long_wait_in_the_queue_is_503_with_retry_after() {
    let server = wsgi(1, "queue_timeout = \"200ms\"");
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=busy&ms=15000"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("busy"));
    let begun = Instant::now();
    let response = server.ask("POST /count?id=waiting HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(response.status, 503);
    assert!(response.field("retry-after").is_some());
    assert!(
        begun.elapsed() >= Duration::from_millis(190) && begun.elapsed() < Duration::from_millis(3500),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(busy.response("GET").status, 200);
    assert_eq!(server.ask(get("/pong")).text(), "pong");
    assert!(!counts(&server).contains_key("waiting"), "what was refused is never given to the app");
}

#[test]
fn a_client_that_leaves_the_queue_is_not_served() {
    let server = wsgi(1, "[admin]\nbind = \"127.0.0.1:0\"");
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=busy&ms=1500"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("busy"));
    let mut waiting = server.client();
    waiting.send("POST /count?id=gone HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    admin::wait_for_metric(&server, r#"keepwarm_queue_length{app="app"}"#, 1.0);
    waiting.reset();
    assert_eq!(busy.response("GET").status, 200);
    assert_eq!(server.ask(get("/pong")).text(), "pong");
    assert!(!counts(&server).contains_key("gone"));
}

#[test]
fn a_request_timeout_is_504_and_a_new_worker() {
    for entry in ["wsgi_app:application", "asgi_app:application"] {
        let server = start(&config(entry, 1, "request_timeout = \"300ms\""), 1);
        let before = server.workers();
        let begun = Instant::now();
        let mut client = server.client().patient(Duration::from_secs(20));
        client.send(get("/sleep?ms=20000"));
        let response = client.response("GET");
        assert_eq!(response.status, 504, "{entry}: {client}");
        assert!(
            begun.elapsed() >= Duration::from_millis(290) && begun.elapsed() < Duration::from_secs(10),
            "{entry}: {:?}",
            begun.elapsed()
        );
        assert_eq!(server.ask(get("/pong")).text(), "pong", "{entry}");
        if entry.starts_with("wsgi") {
            wait_until("a new worker", LONG, || server.workers().iter().all(|pid| !before.contains(pid)));
        }
    }
}

#[test]
fn a_stuck_workers_own_stack_goes_to_the_log() {
    let server = wsgi(1, "request_timeout = \"300ms\"");
    assert_eq!(server.ask(get("/sleep?ms=20000")).status, 504);
    server.wait_for_log("wsgi_app.py", Duration::from_secs(20));
}

#[test]
fn the_request_timeout_counts_the_apps_time_not_the_clients() {
    let server = wsgi(1, "request_timeout = \"300ms\"");
    let mut slow = server.client();
    slow.send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    // Longer than an application may take.
    std::thread::sleep(Duration::from_millis(500));
    slow.send("56789");
    assert_eq!(slow.response("POST").json()["length"], 10);
    let mut reader = server.client().patient(Duration::from_secs(10));
    rustix::net::sockopt::set_socket_recv_buffer_size(reader.stream(), 65_536).expect("SO_RCVBUF");
    reader.send(get("/big?bytes=8000000"));
    // And so here.
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(reader.response("GET").body.len(), 8_000_000);
}

#[test]
fn an_app_is_notified_of_a_half_close_and_can_still_send() {
    let server = start(&config("asgi_app:application", 1, ""), 1);
    let mut client = server.client();
    client.send(get("/waits-and-responds"));
    wait_until("the app waits", LONG, || counts(&server).contains_key("waiting"));
    client.half_close();
    assert_eq!(client.response("GET").text(), "http.disconnect");
}

/// By then it waits in the queue.
#[test]
fn an_app_learns_of_a_client_that_closed_before_a_worker_had_its_request() {
    let server =
        start(&config("asgi_app:application", 1, "concurrency = 1\n[admin]\nbind = \"127.0.0.1:0\""), 1);
    let mut first = server.client();
    first.send(get("/waits-and-responds"));
    wait_until("the app waits", LONG, || counts(&server).contains_key("waiting"));
    let mut second = server.client();
    second.send(get("/waits-and-responds"));
    second.half_close();
    admin::wait_for_metric(&server, r#"keepwarm_queue_length{app="app"}"#, 1.0);
    first.half_close();
    for mut client in [first, second] {
        assert_eq!(client.response("GET").text(), "http.disconnect");
    }
}

#[test]
fn an_app_learns_that_its_client_has_gone() {
    let server = start(&config("asgi_app:application", 1, ""), 1);
    let mut client = server.client();
    client.send(get("/waits"));
    wait_until("the app waits", LONG, || counts(&server).contains_key("waiting"));
    client.reset();
    wait_until("the app learns it", Duration::from_secs(20), || {
        counts(&server).contains_key("http.disconnect")
    });
}
