//! A worker that crashes, lies or hangs harms only what it held itself: 502 (or 504) for its own request, nothing for those of others, and a new
//! worker in its place.

use std::time::{Duration, Instant};

use keepwarm_tests::websocket::{frame, open};
use keepwarm_tests::{Client, Failure, Server, get};

/// The wire's faults that a worker can commit as a response (tests/apps/liar.py).
const LIES: &[&str] = &[
    "garbage",
    "text",
    "too-long",
    "huge",
    "unknown-type",
    "foreign-type",
    "bad-flags",
    "foreign-stream",
    "old-stream",
    "stream-zero",
    "second-hello",
    "data-first",
    "trailers-first",
    "odd-strings",
    "wrong-count",
    "wrong-length",
    "short-payload",
    "status-0",
    "status-100",
    "status-1000",
    "status-65535",
    "unasked-101",
    "inform-101",
    "inform-200",
    "zero-credit",
    "much-credit",
    "websocket",
    "goodbye",
    "half-frame",
    "close",
    "die",
];

fn liars(workers: u32, mode: &str, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"liar\"\n\
         [app.liar]\ncommand = [\"@PYTHON@\", \"@APPS@/liar.py\", \"{mode}\"]\nkind = \"wsgi\"\nworkers = {workers}\n{more}\n"
    )
}

fn post(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
}

/// Waits until this many different workers respond.
fn all_ready(server: &Server, workers: usize) {
    keepwarm_tests::process::wait_until("the workers are ready", Duration::from_secs(20), || {
        liar_pids(server).len() >= workers
    });
    assert_eq!(server.ask(get("/")).status, 200);
}

fn liar_pids(server: &Server) -> Vec<u32> {
    let mut found = keepwarm_tests::process::descendants(server.pid());
    found.retain(|&pid| keepwarm_tests::process::command(pid).contains("liar.py"));
    found
}

#[test]
fn every_protocol_violation_fails_its_own_request_only() {
    // A few on each server: workers that die one after the other are started ever more slowly, and rightly so.
    for lies in LIES.chunks(4) {
        let server = Server::start(&liars(2, "1", ""));
        all_ready(&server, 2);
        for lie in lies {
            costs_only_itself(&server, lie);
        }
        assert_eq!(server.ask(get("/")).field("x-path"), Some("/"));
    }
}

fn costs_only_itself(server: &Server, lie: &str) {
    let mark = server.mark();
    // An innocent request is in work on the other worker meanwhile.
    let mut innocent = server.client();
    innocent.send(post("/later"));
    let mut client = server.client();
    client.send(post(&format!("/lie/{lie}")));
    let response = client.response("POST");
    assert_eq!(response.status, 502, "{lie}: {client}\n{}", server.log());
    assert_ne!(response.text(), "hi", "{lie}");
    let response = innocent.response("POST");
    assert_eq!((response.status, response.text().as_str()), (200, "later"), "{lie}: {innocent}");
    // Its connection was not the worker's to close.
    if !response.says_close() {
        assert_eq!(innocent.ask(get("/again")).status, 200, "{lie}");
    }
    server.wait_for_log_after(mark, "liar", Duration::from_secs(20));
    keepwarm_tests::process::wait_until("a replacement", Duration::from_secs(10), || {
        liar_pids(server).len() == 2
    });
}

#[test]
fn an_invalid_frame_after_a_complete_response_does_not_spoil_it() {
    for lie in ["after-end", "two-responses", "overspent", "long-data", "after-head"] {
        let server = Server::start(&liars(2, "1", "[server]\nlimits = { response_buffer = \"1MiB\" }"));
        all_ready(&server, 2);
        let (mut client, mark) = (server.client(), server.mark());
        client.send(post(&format!("/lie/{lie}")));
        if lie == "overspent" {
            // If the client read, credit could come back as fast as it is spent.
            server.wait_for_log_after(mark, "app=liar", Duration::from_secs(20));
        }
        match client.try_response("POST") {
            Ok(response) if lie == "after-end" => {
                assert_eq!((response.status, response.text().as_str()), (200, "good"), "{client}")
            }
            Ok(response) => assert_eq!(response.status, 502, "{lie}: {client}"),
            Err(Failure::Cut(_) | Failure::Reset(_) | Failure::Closed) => {
                assert_ne!(lie, "after-end", "{client}")
            }
            other => panic!("{lie}: {other:?}\n{client}"),
        }
        assert_eq!(server.ask(get("/")).status, 200, "{lie}");
    }
}

#[test]
fn requests_on_the_same_lying_connection_fail_by_name_and_no_other() {
    // Many streams on one worker: what it held is lost with it, and a GET without a response so far goes to the other one.
    let server = Server::start(&liars(2, "8", ""));
    all_ready(&server, 2);
    let mut client = server.client();
    client.send(post("/lie/garbage"));
    assert_eq!(client.response("POST").status, 502);
    for _ in 0..20 {
        assert_eq!(server.ask(get("/")).status, 200);
    }
}

#[test]
fn an_applications_faulty_fields_are_502_and_the_worker_lives() {
    let server = Server::start(&liars(1, "1", ""));
    all_ready(&server, 1);
    let pid = server.ask(get("/")).text();
    for fault in [
        "crlf-value",
        "lf-value",
        "bare-cr",
        "empty-name",
        "name-with-colon",
        "name-with-blank",
        "two-lengths",
        "bad-length",
    ] {
        let mark = server.mark();
        let mut client = server.client();
        let response = client.ask(get(&format!("/app/{fault}")));
        assert_eq!(response.status, 502, "{fault}");
        assert!(response.field("set-cookie").is_none() && response.field("x-stolen").is_none(), "{fault}");
        server.wait_for_log_after(mark, "liar", Duration::from_secs(20));
    }
    assert_eq!(server.ask(get("/")).text(), pid, "the same worker");
}

#[test]
fn requests_that_a_worker_resets() {
    let server = Server::start(&liars(1, "1", "queue_timeout = \"1s\""));
    all_ready(&server, 1);
    // An application's failure before its response: 500. After it: the connection is cut.
    assert_eq!(server.ask(post("/reset")).status, 500);
    let mut client = server.client();
    client.send(post("/reset-late"));
    match client.try_response("POST") {
        Err(Failure::Cut(_) | Failure::Reset(_) | Failure::Closed) => {}
        other => panic!("{other:?}\n{client}"),
    }
    // Not begun, and so safe to give again; but not for ever.
    let begun = Instant::now();
    let status = server.ask(post("/refuse")).status;
    assert!(matches!(status, 502 | 503), "{status}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(server.ask(get("/")).status, 200);
}

/// An ASGI worker that takes eight requests at once, or a WSGI worker.
fn told_by(kind: &str) -> Server {
    let streams = if kind == "asgi" { "8" } else { "1" };
    let config = liars(1, streams, "env = { COUNT_FILE = \"@DIR@/count\" }")
        .replace("\"]\nkind = \"wsgi\"", &format!("\", \"{kind}\"]\nkind = \"{kind}\""));
    let server = Server::start(&config);
    all_ready(&server, 1);
    server
}

/// In one write, the head of the response was first: the body could no longer be requested, and both sides waited.
#[test]
fn want_and_response_in_one_write_send_the_100_first() {
    for kind in ["asgi", "wsgi"] {
        let server = told_by(kind);
        let mut client = server.client().patient(Duration::from_secs(20));
        let head = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n";
        client.send(format!("POST /want-and-respond HTTP/1.1\r\n{head}\r\n"));
        assert_eq!(client.response("POST").status, 100, "{kind}: {client}");
        client.send("body");
        let response = client.response("POST");
        assert_eq!((response.status, response.text().as_str()), (200, "whole"), "{kind}: {client}");
    }
}

#[test]
fn a_worker_that_does_not_reply_to_a_close_gets_no_second_one() {
    let server = told_by("asgi");
    let mut client = server.client();
    open(&mut client, "/mute-socket", "");
    client.send(frame(0x88, &4002_u16.to_be_bytes()));
    let told = || std::fs::read_to_string(server.folder().join("count")).unwrap_or_default();
    keepwarm_tests::process::wait_until("the close", Duration::from_secs(20), || told().contains("close"));
    client.reset();
    keepwarm_tests::process::wait_until("the end", Duration::from_secs(20), || told().contains("reset"));
    assert_eq!(told(), "close 4002\nreset 1\n");
}

/// It reads, responds, and replies to pings, and has forgotten what it owes: every further upload to it would hang, for good.
#[test]
fn a_worker_that_gives_no_credit_back_is_replaced() {
    // It takes 1 MiB in all. The upload stuck there, for which the last one waits, is cut when the old worker's drain timeout is over.
    let server = Server::start(&liars(1, "1", "drain_timeout = \"500ms\"\nqueue_timeout = \"30s\""));
    all_ready(&server, 1);
    let before = liar_pids(&server);
    let mut clients: Vec<Client> = (0..8).map(|_| server.client().patient(Duration::from_secs(40))).collect();
    for client in &mut clients {
        client.send(format!(
            "POST /want-and-respond HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            200 << 10
        ));
        client.send(vec![b'x'; 200 << 10]);
    }
    let responded = clients.iter_mut().filter_map(|client| client.try_response("POST").ok());
    let whole = responded.filter(|response| response.status == 200 && response.text() == "whole").count();
    assert_eq!(whole, 7, "all but the one that the old worker could not be sent");
    let line = server.wait_for_log("replacing worker (credit)", Duration::from_secs(20));
    assert!(line.contains("nothing can be sent to it"), "{line}");
    keepwarm_tests::process::wait_until("the old one has gone", Duration::from_secs(20), || {
        let now = liar_pids(&server);
        now.len() == 1 && !before.contains(&now[0])
    });
}

#[test]
fn a_worker_that_hangs_is_504_and_killed() {
    let server = Server::start(&liars(2, "1", "request_timeout = \"2s\""));
    all_ready(&server, 2);
    let before = liar_pids(&server);
    for method in ["POST", "GET"] {
        let begun = Instant::now();
        let mut client = server.client();
        client.send(format!("{method} /lie/hang HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        let response = client.response(method);
        assert_eq!(response.status, 504, "{client}");
        // Never retried, not even a GET: a death by timeout is the request's own fault.
        assert!(begun.elapsed() < Duration::from_millis(3900), "{:?}", begun.elapsed());
        assert_eq!(server.ask(get("/")).status, 200);
    }
    keepwarm_tests::process::wait_until("both are replaced", Duration::from_secs(10), || {
        let now = liar_pids(&server);
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    });
}

#[test]
fn endless_empty_frames_do_not_outlast_the_request_timeout() {
    let server = Server::start(&liars(1, "1", "request_timeout = \"2s\"\nstart_retries = 50"));
    all_ready(&server, 1);
    let mut hinted = server.client().patient(Duration::from_secs(20));
    hinted.send(post("/lie/hints"));
    // Those that come in 10 s.
    let last = (0..200).map(|_| hinted.response("POST").status).find(|status| *status != 103);
    assert_eq!(last, Some(504), "{hinted}");
    let mut begun = server.client().patient(Duration::from_secs(20));
    begun.send(post("/lie/nothing"));
    assert!(matches!(begun.try_response("POST"), Err(Failure::Cut(_) | Failure::Reset(_))), "{begun}");
}

#[test]
fn a_worker_without_a_hello_ends_the_start() {
    for mode in ["mute", "garbage-first", "future", "no-streams"] {
        let more = "boot_timeout = \"400ms\"\nstart_retries = 1\nqueue_timeout = \"500ms\"";
        let server = Server::spawn(&liars(1, mode, more), |_| {});
        let status = server.wait_for_exit(Duration::from_secs(30));
        assert_eq!(status.code(), Some(1), "{mode}: {}", server.log());
        assert!(server.log().contains("liar"), "{mode}: {}", server.log());
    }
}

#[test]
fn a_get_that_a_dying_worker_had_not_begun_is_given_once_more() {
    // The lie kills its worker; the next worker dies of it too, and then it is over: 502, not a chain of deaths.
    let server = Server::start(&liars(4, "1", ""));
    all_ready(&server, 4);
    let before = liar_pids(&server);
    let mut client = server.client();
    assert_eq!(client.ask(get("/lie/die")).status, 502);
    // Its wire ends a moment before the process is seen to be dead.
    let dead = || before.iter().filter(|&&pid| !keepwarm_tests::process::alive(pid)).count();
    keepwarm_tests::process::wait_until("two have died", Duration::from_secs(10), || dead() >= 2);
    assert_eq!(dead(), 2, "given once more, not twice");
}

#[test]
fn correct_workers_under_load_beside_a_faulty_one() {
    let server = Server::start(&liars(4, "1", ""));
    all_ready(&server, 4);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let innocents: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.client().patient(Duration::from_secs(20));
                    let mut served = 0;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let response = client.ask(post(&format!("/innocent{served}")));
                        assert_eq!(response.status, 200, "{client}");
                        assert_eq!(
                            response.field("x-path"),
                            Some(format!("/innocent{served}").as_str()),
                            "somebody else's response"
                        );
                        served += 1;
                    }
                    served
                })
            })
            .collect();
        for lie in
            ["garbage", "foreign-stream", "old-stream", "close", "die", "huge", "data-first", "half-frame"]
        {
            let mut client: Client = server.client().patient(Duration::from_secs(20));
            assert_eq!(client.ask(post(&format!("/lie/{lie}"))).status, 502, "{lie}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for innocent in innocents {
            assert!(innocent.join().expect("no innocent is harmed") > 0);
        }
    });
}
