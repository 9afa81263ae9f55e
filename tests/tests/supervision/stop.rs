//! The end: signals, the grace, and what may be left behind.

use std::time::{Duration, Instant};

use keepwarm_tests::load::{Load, Outcome, tally};
use keepwarm_tests::process::{alive, descendants, wait_until};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;

use crate::{LONG, SECOND, config, counts, wsgi};

#[test]
fn sigterm_under_load_loses_and_repeats_nothing() {
    let server = wsgi(2, "");
    let load = Load::new(server.address(), "POST");
    let outcomes = load.while_doing(3, 3, || {
        load.wait_for(100);
        server.signal(Signal::TERM);
        let status = server.wait_for_exit(LONG);
        assert!(status.success(), "{status}");
    });
    let counts = counts(&server);
    let mut dropped = 0;
    for (id, outcome) in &outcomes {
        let count = counts.get(id).copied().unwrap_or(0);
        match outcome {
            Outcome::Responded(200) => assert_eq!(count, 1, "request {id}"),
            // A connection that was still in the kernel's queue when the listener closed: its request was never read.
            Outcome::Dropped { kept: false } if count == 0 => dropped += 1,
            other => panic!("request {id}, counted {count} times: {other:?}; {}", tally(&outcomes)),
        }
    }
    assert!(dropped <= 1, "{dropped} connections dropped at the end; {}", tally(&outcomes));
}

#[test]
fn sigterm_finishes_requests_and_closes_idle_connections() {
    let server = wsgi(2, "");
    let mut idle = server.client().patient(Duration::from_secs(20));
    assert!(!idle.expect_kept("/pong").says_close());
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=slow&ms=500"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("slow"));
    server.signal(Signal::TERM);
    // The idle connection stays open for its next request, which gets a response with a close.
    while !idle.expect_kept("/pong").says_close() {}
    idle.expect_eof();
    wait_until("nobody listens any more", Duration::from_secs(20), || {
        std::net::TcpStream::connect_timeout(&server.address(), SECOND).is_err()
    });
    let response = busy.response("GET");
    assert!(response.status == 200 && response.says_close(), "{busy}");
    busy.expect_eof();
    let begun = Instant::now();
    assert!(server.wait_for_exit(LONG).success());
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody is left to wait for: {:?}", begun.elapsed());
}

#[test]
fn two_sigterms_at_once_are_one() {
    // A wrapper signals its child and the child's group.
    let server = wsgi(1, "");
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=slow&ms=1500"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("slow"));
    server.signal(Signal::TERM);
    server.wait_for_log("stopping", LONG); // Sooner the kernel would make one of them.
    server.signal(Signal::TERM);
    let response = busy.response("GET");
    assert!(response.status == 200 && response.says_close(), "{busy}");
    assert!(server.wait_for_exit(LONG).success());
    assert!(server.log().contains("signal ignored"), "{}", server.log());
}

#[test]
fn the_grace_ends_open_connections() {
    let server = Server::start(&format!(
        "[server]\nshutdown_grace = \"400ms\"\n{}",
        config("wsgi_app:application", 1, "")
    ))
    .warm("/pong");
    let mut idle = server.client();
    idle.expect_kept("/pong");
    let mut stuck = server.client();
    stuck.send(get("/count?id=stuck&ms=20000"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("stuck"));
    let begun = Instant::now();
    server.signal(Signal::TERM);
    server.wait_for_exit(Duration::from_secs(30));
    assert!(
        begun.elapsed() > Duration::from_millis(350) && begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn sigint_and_sigterm_end_an_idle_server_at_once() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = wsgi(2, "");
        let all = descendants(server.pid());
        let begun = Instant::now();
        server.signal(signal);
        let status = server.wait_for_exit(LONG);
        assert!(status.success(), "{signal:?}: {status}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{signal:?}: {:?}", begun.elapsed());
        assert!(all.iter().all(|&pid| !alive(pid)), "orphans after {signal:?}");
    }
}

#[test]
fn no_orphans_after_sigterm_grandchildren_included() {
    let server = wsgi(2, "");
    let grandchild: u32 = server.ask(get("/grandchild")).text().parse().expect("a pid");
    assert!(alive(grandchild));
    let all = descendants(server.pid());
    server.signal(Signal::TERM);
    server.wait_for_exit(LONG);
    wait_until("all are gone", Duration::from_secs(20), || {
        all.iter().all(|&pid| !alive(pid)) && !alive(grandchild)
    });
}

#[test]
fn no_orphans_after_kill_9_grandchildren_included() {
    let server = wsgi(2, "");
    let grandchild: u32 = server.ask(get("/grandchild")).text().parse().expect("a pid");
    let all = descendants(server.pid());
    assert!(all.len() >= 3 && alive(grandchild), "{all:?}");
    server.signal(Signal::KILL);
    server.wait_for_exit(LONG);
    wait_until("all are gone", Duration::from_secs(20), || {
        all.iter().all(|&pid| !alive(pid)) && !alive(grandchild)
    });
}

#[test]
fn no_orphans_after_kill_9_while_a_worker_is_busy() {
    let server = wsgi(1, "");
    let mut client = server.client();
    client.send(get("/count?id=busy&ms=60000"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("busy"));
    let all = descendants(server.pid());
    server.signal(Signal::KILL);
    server.wait_for_exit(LONG);
    wait_until("all are gone", Duration::from_secs(20), || all.iter().all(|&pid| !alive(pid)));
}

#[test]
fn lifespan_runs_before_the_first_request_and_after_the_last() {
    let server = Server::start(&config("lifespan_app:application", 1, "")).warm("/");
    assert_eq!(counts(&server).get("lifespan.startup"), Some(&1));
    assert_eq!(counts(&server).get("lifespan.shutdown"), None);
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success());
    assert_eq!(counts(&server).get("lifespan.shutdown"), Some(&1));
}
