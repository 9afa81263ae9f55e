//! Workers that die: their requests, which worker serves them next, and how often they are retried.

use std::time::Duration;

use keepwarm_tests::load::{Load, Outcome, tally};
use keepwarm_tests::process::{self, alive, wait_until};
use keepwarm_tests::{Failure, Server, get, process_mark};
use rustix::process::Signal;

use crate::{LONG, all_responded_once, config, count_file, counts, start, wsgi};

/// Each gets one response, except at most one for each death: held by the worker that died, perhaps counted, and never given to another worker.
#[track_caller]
fn only_held_posts_are_lost(server: &Server, outcomes: &[(String, Outcome)], deaths: usize) {
    let counts = counts(server);
    let mut lost = 0;
    for (id, outcome) in outcomes {
        let count = counts.get(id).copied().unwrap_or(0);
        match outcome {
            Outcome::Responded(200) => assert_eq!(count, 1, "request {id}"),
            Outcome::Responded(502) => {
                assert!(count <= 1, "request {id} was given twice");
                lost += 1;
            }
            other => panic!("request {id}: {other:?}; {}", tally(outcomes)),
        }
    }
    assert!(lost <= deaths, "{lost} requests lost by {deaths} deaths; {}", tally(outcomes));
}

/// Kills a worker every 60 ms, `times` times; returns how many it killed.
fn kill_some(server: &Server, load: &Load, times: usize) {
    for number in 0..times {
        load.wait_for(20);
        let workers = server.workers();
        if let Some(&worker) = workers.get(number % workers.len().max(1)) {
            process::signal(worker, Signal::KILL);
        }
    }
    load.wait_for(50);
}

#[test]
fn killed_workers_lose_only_the_posts_they_held() {
    const KILLS: usize = 8;
    let server = wsgi(4, "");
    let load = Load::new(server.address(), "POST");
    let outcomes = load.while_doing(3, 3, || kill_some(&server, &load, KILLS));
    only_held_posts_are_lost(&server, &outcomes, KILLS);
    wait_until("four workers again", LONG, || server.workers().len() == 4);
    wait_until("all are reaped", LONG, || process::zombies(server.pid()).is_empty());
}

/// Requests wait after the one that a lone, quick worker works on (`ahead`): those have not begun when it dies.
#[test]
fn a_lone_workers_death_loses_only_the_post_it_works_on() {
    const KILLS: usize = 6;
    let server = wsgi(1, "queue_timeout = \"20s\"\nstart_retries = 20");
    // It responds at once: a lone worker is given requests ahead.
    let load = Load::new(server.address(), "POST").with_work_ms(0);
    let outcomes = load.while_doing(10, 2, || kill_some(&server, &load, KILLS));
    only_held_posts_are_lost(&server, &outcomes, KILLS);
}

#[test]
fn requests_behind_one_that_hangs_are_served_once_it_is_over() {
    let server = wsgi(1, "request_timeout = \"600ms\"\nqueue_timeout = \"20s\"");
    let load = Load::new(server.address(), "POST").with_work_ms(0);
    let outcomes = load.while_doing(8, 0, || {
        for _ in 0..2 {
            load.wait_for(200);
            let mut slow = server.client();
            slow.send("POST /sleep?ms=60000 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(slow.patient(LONG).response("POST").status, 504);
        }
        load.wait_for(100);
    });
    all_responded_once(&server, &outcomes);
}

#[test]
fn killed_workers_lose_no_get() {
    const KILLS: usize = 8;
    let server = wsgi(4, "");
    let load = Load::new(server.address(), "GET");
    let outcomes = load.while_doing(3, 3, || kill_some(&server, &load, KILLS));
    let counts = counts(&server);
    let mut repeated = 0;
    for (id, outcome) in &outcomes {
        assert_eq!(*outcome, Outcome::Responded(200), "request {id}; {}", tally(&outcomes));
        match counts.get(id) {
            Some(1) => {}
            Some(2) => repeated += 1,
            other => panic!("request {id} counted {other:?} times"),
        }
    }
    assert!(repeated <= KILLS, "{repeated} repeated by {KILLS} deaths");
}

#[test]
fn a_get_without_a_response_yet_is_retried_on_another_worker() {
    let server = wsgi(2, "");
    let response = server.ask(get("/die-once?id=x"));
    assert_eq!((response.status, response.text().as_str()), (200, "pong"));
    let lines = std::fs::read_to_string(count_file(&server)).expect("counted");
    let pids: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(pids.len(), 2, "{lines}");
    assert_ne!(pids[0], pids[1]);
}

#[test]
fn a_post_is_never_given_twice() {
    let server = wsgi(2, "");
    let response = server.ask("POST /die-once?id=x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(response.status, 502);
    let lines = std::fs::read_to_string(count_file(&server)).expect("counted");
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

#[test]
fn a_response_that_had_begun_is_cut_and_not_repeated() {
    let server = wsgi(2, "");
    let mut client = server.client();
    client.send(get("/die-late"));
    match client.try_response("GET") {
        Err(Failure::Cut(_) | Failure::Reset(_)) => {}
        // Nothing of it had left yet: then a 502.
        Ok(response) if response.status == 502 => {}
        other => panic!("{other:?}\n{client}"),
    }
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}

#[test]
fn a_dead_workers_grandchildren_go_with_it() {
    let server = wsgi(1, "");
    let grandchild: u32 = server.ask(get("/grandchild")).text().parse().expect("a pid");
    let worker = server.workers()[0];
    process::signal(worker, Signal::KILL);
    wait_until("they are gone", Duration::from_secs(20), || !alive(worker) && !alive(grandchild));
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}

/// Its starts fail from now on, and its only worker is killed.
fn raise_the_flag(server: &Server) -> usize {
    std::fs::write(server.folder().join("flag"), "").expect("a flag");
    let mark = server.mark();
    process::signal(server.workers()[0], Signal::KILL);
    server.wait_for_log_after(mark, "RuntimeError: the flag is up", LONG);
    mark
}

fn starts(server: &Server) -> usize {
    counts(server).keys().filter(|line| line.starts_with("start")).count()
}

#[test]
fn a_crash_loop_of_an_app_that_never_served_backs_off_gives_up_visibly_and_recovers_by_reload() {
    // It reports that it listens when its worker is ready; no request is sent.
    let server =
        Server::start(&config("flag_app:application", 1, "start_retries = 3\nqueue_timeout = \"300ms\""));
    let mark = raise_the_flag(&server);
    // It retries, more and more slowly, and then reports that it gives up. Five seconds of a loop without back-off would be some hundred starts.
    server.wait_for_log_after(mark, "the app failed to start and is not retried before a reload", LONG);
    assert_eq!(starts(&server), 4, "the first start, and 3 that failed");
    assert_eq!(server.ask(get("/pong")).status, 503);
    std::fs::remove_file(server.folder().join("flag")).expect("the flag goes down");
    server.signal(Signal::HUP);
    wait_until("it serves again", LONG, || server.ask(get("/pong")).status == 200);
}

#[test]
fn an_app_that_has_served_is_started_again_until_it_starts() {
    let server = start(&config("flag_app:application", 1, "start_retries = 1\nqueue_timeout = \"300ms\""), 1);
    let mark = raise_the_flag(&server);
    wait_until("more starts than there may be retries", LONG, || starts(&server) > 4);
    assert_eq!(server.ask(get("/pong")).status, 503);
    std::fs::remove_file(server.folder().join("flag")).expect("the flag goes down");
    wait_until("it serves again", LONG, || server.ask(get("/pong")).status == 200);
    assert!(!server.log().lines().skip(mark).any(|line| line.contains("gave up")), "{}", server.log());
}

#[test]
fn a_crash_loop_never_touches_a_sibling() {
    let both = config("flag_app:application", 1, "start_retries = 1\nqueue_timeout = \"200ms\"")
        .replacen("[[listen.main.route]]\n", "[[listen.main.route]]\npath = \"/sibling/*\"\nstrip_prefix = true\napp = \"sibling\"\n[[listen.main.route]]\n", 1)
        + "\n[app.sibling]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n";
    let server = start(&both, 2).warm("/sibling/pong");
    let sibling: u64 = server.ask(get("/sibling/who")).json()["pid"].as_u64().expect("a pid");
    let app: u64 = server.ask(get("/who")).json()["pid"].as_u64().expect("a pid");
    std::fs::write(server.folder().join("flag"), "").expect("a flag");
    process::signal(app as u32, Signal::KILL);
    wait_until("the app is away", LONG, || server.ask(get("/pong")).status == 503);
    for _ in 0..20 {
        assert_eq!(server.ask(get("/sibling/who")).json()["pid"].as_u64(), Some(sibling));
    }
}

/// Both are seen in one turn, the death first.
#[test]
fn a_request_whose_client_has_left_is_not_given_to_another_worker() {
    let server = start(&config("wsgi_app:application", 1, "[server]\nthreads = 1"), 1);
    let worker = server.workers()[0];
    let mut client = server.client();
    client.send(get("/count?id=left&ms=60000"));
    wait_until("the worker has it", LONG, || counts(&server).contains_key("left"));
    process::stop(server.pid());
    process::signal(worker, Signal::KILL);
    wait_until("it is dead", LONG, || process::zombies(server.pid()).contains(&worker));
    client.reset();
    process::signal(server.pid(), Signal::CONT);
    server.wait_for_log("client_reset", LONG);
    assert!(!server.log().contains("retried on another worker"), "{}", server.log());
}

/// No client waits for its response any more; a request queued for the worker would wait for ever.
#[test]
fn a_request_that_hangs_is_over_in_time_though_its_client_has_left() {
    let server = wsgi(1, "request_timeout = \"600ms\"\nqueue_timeout = \"20s\"");
    for id in ["first", "second"] {
        let mut client = server.client();
        client.send(get(&format!("/count?id={id}&ms=60000")));
        wait_until("the worker has it", LONG, || counts(&server).contains_key(id));
        client.reset();
        assert_eq!(server.client().patient(LONG).ask(get("/pong")).text(), "pong");
    }
    server.wait_for_log("request timed out after its client had left", LONG);
}

/// The timer of the request that its client left must not keep the connection to the worker.
#[test]
fn a_worker_that_dies_with_a_request_whose_client_has_left_leaves_nothing_open() {
    let server = wsgi(1, "request_timeout = \"10m\"");
    let sockets = || process_mark::descriptors(server.pid()).get("socket").copied();
    let before = sockets();
    let worker = server.workers()[0];
    let mut client = server.client();
    client.send(get("/count?id=left&ms=60000"));
    wait_until("the worker has it", LONG, || counts(&server).contains_key("left"));
    client.reset();
    server.wait_for_log("client_reset", LONG);
    process::signal(worker, Signal::KILL);
    assert_eq!(server.client().patient(LONG).ask(get("/pong")).text(), "pong");
    wait_until("as many sockets are open as before", LONG, || sockets() == before);
}
