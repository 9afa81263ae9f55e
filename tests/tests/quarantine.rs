//! A route that kills workers is quarantined; the app's other routes are not.

use std::time::{Duration, Instant};

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Response, Server};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(90);

fn config(workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = \"text\"\n[[listen.main.route]]\npath = \"/die\"\napp = \"app\"\n\
         [[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"hard_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n\
         env = {{ DIR = \"@DIR@\" }}\nqueue_timeout = \"80s\"\nstart_retries = 50\n{more}\n"
    )
}

fn start(workers: u32, more: &str) -> Server {
    Server::start(&config(workers, more)).warm("/who")
}

fn ask(server: &Server, method: &str, target: &str) -> Response {
    let mut client = server.client().patient(LONG);
    client.ask(format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\nContent-Length: 0\r\n\r\n"
    ))
}

/// How many requests were begun with an id.
fn begun(server: &Server) -> usize {
    std::fs::read_to_string(server.folder().join("count")).unwrap_or_default().lines().count()
}

/// Makes Keepwarm refuse POST /die.
#[track_caller]
fn quarantined(workers: u32, more: &str) -> Server {
    let server = start(workers, more);
    for death in 1..=3 {
        assert_eq!(ask(&server, "POST", "/die?id=x").status, 502, "death {death}");
    }
    assert_eq!(begun(&server), 3);
    server
}

/// The refusal of a request, which no worker has seen. A machine that slept for longer than the refusal lasts sees a trial first, and then a longer one.
#[track_caller]
fn refused(server: &Server, target: &str) -> Response {
    for _ in 0..4 {
        let before = begun(server);
        let response = ask(server, "POST", target);
        if response.status == 503 {
            assert_eq!(begun(server), before, "no worker has seen it");
            return response;
        }
        assert!(matches!(response.status, 502 | 504), "{}", response.status);
    }
    panic!("it is not refused\n{}", server.log());
}

#[test]
fn after_three_deaths_it_is_503_with_retry_after() {
    let server = quarantined(2, "");
    let response = refused(&server, "/die?id=x");
    assert_eq!(response.json()["reason"], "route_quarantined");
    let after: u32 = response.field("retry-after").expect("Retry-After").parse().expect("seconds");
    assert!(after >= 1, "{after}");
    let line = server.wait_for_log("route kills workers; refused", LONG);
    assert!(line.contains("seconds=5") && line.contains("route=\"POST /die\""), "{line}");
    // Another method, and another path, of the same app.
    std::fs::write(server.folder().join("mended"), "").expect("a file");
    assert_eq!(ask(&server, "GET", "/die").status, 200);
    assert_eq!(ask(&server, "POST", "/who").status, 200);
}

#[test]
fn it_is_tried_again_and_opened_by_a_response() {
    let server = quarantined(2, "");
    std::fs::write(server.folder().join("mended"), "").expect("a file");
    wait_until("it is tried again", LONG, || ask(&server, "POST", "/die").status == 200);
    for _ in 0..5 {
        assert_eq!(ask(&server, "POST", "/die").status, 200);
    }
    server.wait_for_log("no longer refused", LONG);
}

#[test]
fn a_trial_that_dies_is_the_only_one() {
    let server = quarantined(2, "");
    wait_until("one is tried, and dies", LONG, || ask(&server, "POST", "/die?id=x").status == 502);
    server.wait_for_log("seconds=10", LONG);
    refused(&server, "/die?id=x");
}

#[test]
fn those_that_wait_already_are_refused_with_it() {
    // One worker: the others wait, at it or for it.
    let server = start(1, "");
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..12).map(|_| scope.spawn(|| ask(&server, "POST", "/die?id=x").status)).collect();
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    let count = |status| statuses.iter().filter(|&&seen| seen == status).count();
    assert_eq!((count(502), count(503)), (3, 9), "{statuses:?}");
    assert_eq!(begun(&server), 3);
}

#[test]
fn a_safe_request_that_kills_twice_is_no_longer_given() {
    let server = start(4, "");
    // Begun twice: once, and once more.
    assert_eq!(ask(&server, "GET", "/die?id=x").status, 502);
    assert_eq!(begun(&server), 2);
    // The third death: not given once more.
    assert_eq!(ask(&server, "GET", "/die?id=x").status, 502);
    assert_eq!(begun(&server), 3);
    server.wait_for_log("route kills workers; refused", LONG);
}

#[test]
fn a_reload_brings_other_code_and_opens_it() {
    let server = quarantined(1, "");
    refused(&server, "/die?id=x");
    std::fs::write(server.folder().join("mended"), "").expect("a file");
    let mark = server.mark();
    server.signal(Signal::HUP);
    server.wait_for_log_after(mark, "reloaded", LONG);
    assert_eq!(ask(&server, "POST", "/die").status, 200);
}

#[test]
fn time_outs_count_and_responses_of_other_pages_between_them_do_not_clear() {
    let server = start(2, "request_timeout = \"1500ms\"");
    for _ in 0..3 {
        assert_eq!(ask(&server, "POST", "/hang").status, 504);
        assert_eq!(ask(&server, "POST", "/who").status, 200, "the same route");
    }
    // The client has its response before the worker is dead.
    wait_until("it is refused", LONG, || server.log().contains("route kills workers; refused"));
    refused(&server, "/hang?id=x");
    assert_eq!(ask(&server, "POST", "/who").status, 200, "the same route, another page");
}

/// The app has one route for everything, and gives up as it does by default.
fn one_route(workers: u32) -> Server {
    let config = config(workers, "")
        .replace("[[listen.main.route]]\npath = \"/die\"\napp = \"app\"\n", "")
        .replace("start_retries = 50\n", "");
    assert_eq!(config.matches("route]]").count(), 1);
    Server::start(&config).warm("/who")
}

#[test]
fn one_deadly_page_between_good_ones_is_refused_and_takes_nothing_else_away() {
    for workers in [1, 4] {
        let server = one_route(workers);
        let mut refusals = 0;
        for round in 0..40 {
            match ask(&server, "GET", "/die?id=x").status {
                503 => refusals += 1,
                status => assert_eq!(status, 502),
            }
            let begin = Instant::now();
            for _ in 0..4 {
                let response = ask(&server, "GET", "/who");
                assert_eq!(response.status, 200, "{workers} workers, round {round}\n{}", server.log());
            }
            // A new worker, at the most, and that a busy machine starts it.
            assert!(begin.elapsed() < Duration::from_secs(15), "{workers} workers: {:?}", begin.elapsed());
        }
        assert!(refusals > 20, "{workers} workers: {refusals} of 40 were refused");
        let log = server.log();
        assert!(!log.contains("gave up"), "{log}");
    }
}
