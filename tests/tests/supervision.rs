//! Workers die, are replaced, reloaded and stopped, and no request is lost or repeated but what a killed worker held.
//!
//! The applications count: each request carries an id, which they append to a file before they answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use keepwarm_tests::load::{self, Load, Outcome, tally};
use keepwarm_tests::process::{self, alive, descendants, wait_until};
use keepwarm_tests::{Failure, Server, get};
use rustix::process::Signal;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

fn config(entry: &str, workers: u32, more: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"{entry}\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = {workers}\n\
         env = {{ COUNT_FILE = \"@DIR@/count\", FLAG_FILE = \"@DIR@/flag\", GENERATION = \"1\" }}\n{more}\n"
    )
}

fn wsgi(workers: u32, more: &str) -> Server {
    start(&config("wsgi_app:application", workers, more), workers)
}

/// Starts and waits until every worker is there.
#[track_caller]
fn start(config: &str, workers: u32) -> Server {
    let server = Server::start(config).warm("/pong");
    wait_until("all workers run", LONG, || server.workers().len() == workers as usize);
    server
}

fn count_file(server: &Server) -> PathBuf {
    server.folder().join("count")
}

/// How often each line stands in the count file.
fn counts(server: &Server) -> BTreeMap<String, u32> {
    load::counts(&count_file(server))
}

#[track_caller]
fn all_answered_once(server: &Server, outcomes: &[(String, Outcome)]) {
    load::all_answered_once(&counts(server), outcomes);
}

/// Each is answered once, but for one at most for each death: held by the worker that died, perhaps counted, and given to nobody else.
#[track_caller]
fn only_held_posts_are_lost(server: &Server, outcomes: &[(String, Outcome)], deaths: usize) {
    let counts = counts(server);
    let mut lost = 0;
    for (id, outcome) in outcomes {
        let count = counts.get(id).copied().unwrap_or(0);
        match outcome {
            Outcome::Answered(200) => assert_eq!(count, 1, "request {id}"),
            Outcome::Answered(502) => {
                assert!(count <= 1, "request {id} was given twice");
                lost += 1;
            }
            other => panic!("request {id}: {other:?}; {}", tally(outcomes)),
        }
    }
    assert!(lost <= deaths, "{lost} requests lost by {deaths} deaths; {}", tally(outcomes));
}

/// Kills a worker every 60 ms, `times` times; gives how many it killed.
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

/// Requests wait behind the one that a lone, quick worker works on (`ahead`): those have not begun when it dies.
#[test]
fn a_lone_workers_death_loses_only_the_post_it_works_on() {
    const KILLS: usize = 6;
    let server = wsgi(1, "queue_timeout = \"20s\"\nstart_retries = 20");
    // It answers at once: a lone worker is given requests ahead.
    let load = Load::new(server.address(), "POST").working(0);
    let outcomes = load.while_doing(10, 2, || kill_some(&server, &load, KILLS));
    only_held_posts_are_lost(&server, &outcomes, KILLS);
}

#[test]
fn a_lone_quick_worker_is_reloaded_under_load_without_a_loss() {
    let server = wsgi(1, "");
    let load = Load::new(server.address(), "POST").working(0);
    let outcomes = load.while_doing(10, 2, || {
        for _ in 0..3 {
            load.wait_for(200);
            let old = server.workers();
            server.signal(Signal::HUP);
            wait_until("another worker", LONG, || {
                let now = server.workers();
                now.len() == 1 && now != old
            });
        }
        load.wait_for(200);
    });
    all_answered_once(&server, &outcomes);
}

#[test]
fn requests_behind_one_that_hangs_are_served_once_it_is_over() {
    let server = wsgi(1, "request_timeout = \"600ms\"\nqueue_timeout = \"20s\"");
    let load = Load::new(server.address(), "POST").working(0);
    let outcomes = load.while_doing(8, 0, || {
        for _ in 0..2 {
            load.wait_for(200);
            let mut slow = server.client();
            slow.send("POST /sleep?ms=60000 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(slow.patient(LONG).response("POST").status, 504);
        }
        load.wait_for(100);
    });
    all_answered_once(&server, &outcomes);
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
        assert_eq!(*outcome, Outcome::Answered(200), "request {id}; {}", tally(&outcomes));
        match counts.get(id) {
            Some(1) => {}
            Some(2) => repeated += 1,
            other => panic!("request {id} counted {other:?} times"),
        }
    }
    assert!(repeated <= KILLS, "{repeated} repeated by {KILLS} deaths");
}

#[test]
fn a_get_that_was_not_begun_to_be_answered_is_served_by_another() {
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
fn an_answer_that_had_begun_is_cut_and_not_repeated() {
    let server = wsgi(2, "");
    let mut client = server.client();
    client.send(get("/die-late"));
    match client.try_response("GET") {
        Err(Failure::Cut(_) | Failure::Reset(_)) => {}
        // Nothing of it had left yet: then the truth.
        Ok(response) if response.status == 502 => {}
        other => panic!("{other:?}\n{client}"),
    }
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}

#[test]
fn reload_under_load_loses_and_repeats_nothing() {
    let server = wsgi(2, "");
    let load = Load::new(server.address(), "POST");
    let before = server.workers();
    let outcomes = load.while_doing(3, 3, || {
        for generation in 2..5 {
            server.configure(
                &config("wsgi_app:application", 2, "")
                    .replace("GENERATION = \"1\"", &format!("GENERATION = \"{generation}\"")),
            );
            server.signal(Signal::HUP);
            let wanted = generation.to_string();
            wait_until("the new generation serves", LONG, || {
                server.ask(get("/who")).json()["generation"] == wanted.as_str()
            });
            load.wait_for(30);
        }
    });
    all_answered_once(&server, &outcomes);
    wait_until("two workers, all new", LONG, || {
        let now = server.workers();
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    });
}

#[test]
fn reload_in_quick_succession_is_survived() {
    let server = wsgi(2, "");
    let load = Load::new(server.address(), "POST");
    let outcomes = load.while_doing(2, 1, || {
        for _ in 0..15 {
            server.signal(Signal::HUP);
            load.wait_for(2);
        }
        load.wait_for(60);
    });
    all_answered_once(&server, &outcomes);
    wait_until("two workers", LONG, || server.workers().len() == 2);
}

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
            Outcome::Answered(200) => assert_eq!(count, 1, "request {id}"),
            // A connection that was still in the kernel's queue when the listener closed: nobody has seen the request.
            Outcome::Dropped { kept: false } if count == 0 => dropped += 1,
            other => panic!("request {id}, counted {count} times: {other:?}; {}", tally(&outcomes)),
        }
    }
    assert!(dropped <= 1, "{dropped} connections dropped at the end; {}", tally(&outcomes));
}

#[test]
fn sigterm_finishes_what_is_in_work_and_says_goodbye_to_the_idle() {
    let server = wsgi(2, "");
    let mut idle = server.client().patient(Duration::from_secs(20));
    assert!(!idle.expect_kept("/pong").says_close());
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=slow&ms=500"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("slow"));
    server.signal(Signal::TERM);
    wait_until("nobody listens any more", Duration::from_secs(20), || {
        std::net::TcpStream::connect_timeout(&server.address(), SECOND).is_err()
    });
    // The idle connection lives until its next request, which is answered with a close.
    let last = idle.expect_kept("/pong");
    assert!(last.says_close(), "{idle}");
    idle.expect_eof();
    let response = busy.response("GET");
    assert!(response.status == 200 && response.says_close(), "{busy}");
    busy.expect_eof();
    let begun = Instant::now();
    assert!(server.wait_for_exit(LONG).success());
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody is left to wait for: {:?}", begun.elapsed());
}

#[test]
fn the_grace_ends_with_whatever_is_still_open() {
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
fn a_dead_workers_grandchildren_go_with_it() {
    let server = wsgi(1, "");
    let grandchild: u32 = server.ask(get("/grandchild")).text().parse().expect("a pid");
    let worker = server.workers()[0];
    process::signal(worker, Signal::KILL);
    wait_until("they are gone", Duration::from_secs(20), || !alive(worker) && !alive(grandchild));
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}

#[test]
fn a_target_that_cannot_be_imported_is_exit_1_with_the_languages_traceback() {
    let server = Server::spawn(&config("broken_app:application", 2, ""), |_| {});
    let status = server.wait_for_exit(LONG);
    assert_eq!(status.code(), Some(1), "{}", server.log());
    let log = server.log();
    for part in [
        "Traceback (most recent call last)",
        "broken_app.py",
        "ModuleNotFoundError",
        "no_such_module_anywhere",
    ] {
        assert!(log.contains(part), "no {part} in\n{log}");
    }
}

#[test]
fn a_target_that_does_not_exist_is_exit_1_with_a_clear_word() {
    for (entry, part) in [
        ("no_such_app:application", "no_such_app"),
        ("wsgi_app:nothing", "nothing"),
        ("wsgi_app:DATE", "DATE"),
    ] {
        let server = Server::spawn(&config(entry, 1, ""), |_| {});
        let status = server.wait_for_exit(LONG);
        assert_eq!(status.code(), Some(1), "{entry}: {}", server.log());
        assert!(server.log().contains(part), "{entry}: {}", server.log());
    }
}

#[test]
fn under_sighup_with_a_broken_target_the_old_one_serves_on() {
    let server = wsgi(2, "");
    let before = server.workers();
    let load = Load::new(server.address(), "POST");
    let mut mark = 0;
    let outcomes = load.while_doing(1, 1, || {
        mark = server.mark();
        server.configure(&config("broken_app:application", 2, ""));
        server.signal(Signal::HUP);
        server.wait_for_log_after(mark, "no_such_module_anywhere", LONG);
        load.wait_for(50);
    });
    all_answered_once(&server, &outcomes);
    wait_until("only the old workers are left", LONG, || server.workers() == before);
    // And a later, sound configuration is taken.
    server.configure(
        &config("wsgi_app:application", 2, "").replace("GENERATION = \"1\"", "GENERATION = \"2\""),
    );
    server.signal(Signal::HUP);
    wait_until("the new generation serves", LONG, || server.ask(get("/who")).json()["generation"] == "2");
}

#[test]
fn under_sighup_with_a_broken_configuration_the_old_one_serves_on() {
    let server = wsgi(1, "");
    let before = server.workers();
    let good = config("wsgi_app:application", 1, "");
    for (broken, part) in [
        ("[listen.main\n".to_owned(), "keepwarm.toml:1"),
        (good.replace("workers", "wrokers"), "wrokers"),
        (good.replace("workers = 1", "workers = \"x\""), "workers"),
    ] {
        let mark = server.mark();
        server.configure(&broken);
        server.signal(Signal::HUP);
        server.wait_for_log_after(mark, part, LONG);
        assert_eq!(server.ask(get("/pong")).text(), "pong");
        assert_eq!(server.workers(), before);
    }
}

#[test]
fn reload_takes_new_routes_and_listeners() {
    let server = wsgi(1, "");
    let route = "[[listen.main.route]]\npath = \"/new\"\nrespond = { status = 200, body = \"new\" }\n[[listen.main.route]]\napp";
    server.configure(&config("wsgi_app:application", 1, "").replacen("[[listen.main.route]]\napp", route, 1));
    let mut kept = server.client();
    assert_eq!(kept.ask(get("/new")).status, 404);
    server.signal(Signal::HUP);
    wait_until("the new route serves", LONG, || server.ask(get("/new")).text() == "new");
    // A kept connection was not cut by it.
    kept.expect_kept("/pong");
}

#[test]
fn a_full_queue_is_503_at_once_with_retry_after() {
    let server = wsgi(1, "queue = 2");
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=busy&ms=2000"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("busy"));
    // Of three more, two may wait: the third is told at once, while the first is still in work.
    let answers: Vec<(keepwarm_tests::Response, Instant)> = std::thread::scope(|scope| {
        let ask = || (server.client().patient(Duration::from_secs(20)).ask(get("/pong")), Instant::now());
        let asking: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        assert_eq!(busy.response("GET").status, 200);
        asking.into_iter().map(|thread| thread.join().expect("a client")).collect()
    });
    let refused: Vec<_> = answers.iter().filter(|(response, _)| response.status == 503).collect();
    let [(response, at)] = refused[..] else { panic!("{} of three were refused", refused.len()) };
    let first_served = answers.iter().filter(|(served, _)| served.status == 200).map(|(_, at)| at).min();
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
    let server = wsgi(1, "");
    let mut busy = server.client().patient(Duration::from_secs(20));
    busy.send(get("/count?id=busy&ms=1500"));
    wait_until("it is in work", LONG, || counts(&server).contains_key("busy"));
    let mut waiting = server.client();
    waiting.send("POST /count?id=gone HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
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
    std::thread::sleep(Duration::from_millis(500));
    slow.send("56789");
    assert_eq!(slow.response("POST").json()["length"], 10);
    let mut reader = server.client().patient(Duration::from_secs(10));
    rustix::net::sockopt::set_socket_recv_buffer_size(reader.stream(), 65_536).expect("SO_RCVBUF");
    reader.send(get("/big?bytes=8000000"));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(reader.response("GET").body.len(), 8_000_000);
}

#[test]
fn a_crash_loop_backs_off_gives_up_visibly_and_recovers_by_reload() {
    let app = config("flag_app:application", 1, "start_retries = 3\nqueue_timeout = \"300ms\"");
    let server = start(&app, 1);
    std::fs::write(server.folder().join("flag"), "").expect("a flag");
    let mark = server.mark();
    process::signal(server.workers()[0], Signal::KILL);
    server.wait_for_log_after(mark, "RuntimeError: the flag is up", LONG);
    // It goes on trying, more and more slowly, and then says that it gives up. Five seconds of a loop without back-off would be some hundred starts.
    let starts = || counts(&server).keys().filter(|line| line.starts_with("start")).count();
    wait_until("all tries are used", LONG, || starts() > 3);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(starts(), 4, "the first start, and 3 that failed");
    assert_eq!(server.ask(get("/pong")).status, 503);
    std::fs::remove_file(server.folder().join("flag")).expect("the flag goes down");
    server.signal(Signal::HUP);
    wait_until("it serves again", LONG, || server.ask(get("/pong")).status == 200);
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
    wait_until("the app is given up", LONG, || server.ask(get("/pong")).status == 503);
    for _ in 0..20 {
        assert_eq!(server.ask(get("/sibling/who")).json()["pid"].as_u64(), Some(sibling));
    }
}

#[test]
fn workers_are_strangers_to_the_servers_descriptors_and_terminal() {
    let server = wsgi(2, "");
    let sockets = |pid: u32| -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
        entries
            .flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .map(|to| to.to_string_lossy().into_owned())
            .filter(|to| to.starts_with("socket:"))
            .collect()
    };
    let ours = sockets(server.pid());
    for worker in server.workers() {
        let theirs = sockets(worker);
        assert!(theirs.iter().all(|socket| !ours.contains(socket)), "shared: {theirs:?} {ours:?}");
        assert_eq!(theirs.len(), 1, "the wire and nothing else: {theirs:?}");
        assert_eq!(
            std::fs::read_link(format!("/proc/{worker}/fd/0")).expect("stdin").to_string_lossy(),
            "/dev/null"
        );
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).expect("stat");
        let session: u32 = stat[stat.rfind(')').expect("a name") + 2..]
            .split(' ')
            .nth(3)
            .expect("session")
            .parse()
            .expect("a number");
        let own = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("stat");
        let own: u32 = own[own.rfind(')').expect("a name") + 2..]
            .split(' ')
            .nth(3)
            .expect("session")
            .parse()
            .expect("a number");
        assert_ne!(session, own, "a session of its own");
    }
    let other = server.workers();
    assert!(
        sockets(other[0]).iter().all(|socket| !sockets(other[1]).contains(socket)),
        "siblings share a wire"
    );
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

#[test]
fn the_reload_command_reloads() {
    let server = wsgi(1, "");
    server.configure(
        &config("wsgi_app:application", 1, "").replace("GENERATION = \"1\"", "GENERATION = \"2\""),
    );
    let mut command = std::process::Command::new(keepwarm_tests::keepwarm());
    command.args(["reload", "--pid", &server.pid().to_string()]);
    keepwarm_tests::tools::run_ok(&mut command, LONG);
    wait_until("the new generation serves", LONG, || server.ask(get("/who")).json()["generation"] == "2");
}

/// What waits is for its replacement: given to it, it would hold a place there for ever.
#[test]
fn the_only_worker_that_asks_to_end_while_requests_wait_ends_at_once() {
    let server = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"trouble_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         env = { DIR = \"@DIR@\" }\n",
    );
    // One that takes its time, behind it one that exits, and others.
    let ask = |deed: &str, id: u32, ms: u32| {
        let mut client = server.client().patient(LONG);
        client.send(get(&format!("/{deed}?id={id}&n=0&ms={ms}")));
        client
    };
    let mut first = ask("work", 1, 300);
    wait_until("it is in work", LONG, || !load::counts(&server.folder().join("book")).is_empty());
    let mut ends = ask("exit", 2, 0);
    let mut others: Vec<_> = (3..9).map(|id| ask("work", id, 0)).collect();
    assert_eq!(first.response("GET").status, 200, "{first}");
    assert_eq!(ends.response("GET").status, 500, "{ends}");
    others.iter_mut().for_each(|client| assert_eq!(client.response("GET").status, 200, "{client}"));
    server.wait_for_log("the worker has ended: exited with status 4", LONG);
    assert!(!server.log().contains("given to another worker"), "{}", server.log());
}
