//! The number of workers follows the load, or a person's signals, and no request is lost or repeated by it.

use std::collections::BTreeMap;
use std::time::Duration;

use keepwarm_tests::load::{self, Load, all_responded_once};
use keepwarm_tests::process::{self, wait_until};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(30);

fn config(workers: &str) -> String {
    format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\naccess_log = \"off\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\n\
         workers = {workers}\nqueue_timeout = \"20s\"\nenv = {{ COUNT_FILE = \"@DIR@/count\" }}\n"
    )
}

#[track_caller]
fn start(workers: &str, count: usize) -> Server {
    let server = Server::start(&config(workers)).warm("/pong");
    wait_for_workers(&server, count);
    server
}

#[track_caller]
fn wait_for_workers(server: &Server, count: usize) {
    wait_until(&format!("{count} workers"), LONG, || workers(server).len() == count);
}

/// The workers: not what one of them starts, which is called as it is until it runs its own program.
fn workers(server: &Server) -> Vec<u32> {
    let mut found = process::children(server.pid());
    found.retain(|&pid| process::command(pid).contains("-m keepwarm"));
    found
}

fn counts(server: &Server) -> BTreeMap<String, u32> {
    load::counts(&server.folder().join("count"))
}

#[test]
fn requests_that_wait_bring_workers_and_silence_takes_them_away() {
    let server = start("{ min = 1, max = 3, idle = \"1s\" }", 1);
    assert!(server.log().contains("1 to 3 workers"), "{}", server.log());
    let load = Load::new(server.address(), "POST").with_work_ms(60);
    let outcomes = load.while_doing(8, 2, || {
        wait_for_workers(&server, 3);
        load.wait_for(50);
        assert_eq!(workers(&server).len(), 3);
    });
    all_responded_once(&counts(&server), &outcomes);
    wait_for_workers(&server, 1);
    assert_eq!(server.ask(get("/pong")).text(), "pong");
    let mark = server.mark();
    // And again.
    let outcomes = load.with_new_ids().while_doing(8, 2, || {
        server.wait_for_log_after(mark, "changing the number of workers: requests wait", LONG);
        wait_for_workers(&server, 3);
    });
    all_responded_once(&counts(&server), &outcomes);
}

#[test]
fn a_reload_keeps_the_number_that_the_load_has_made() {
    let server = start("{ min = 1, max = 3, idle = \"1h\" }", 1);
    let load = Load::new(server.address(), "POST").with_work_ms(60);
    let outcomes = load.while_doing(8, 2, || {
        wait_for_workers(&server, 3);
        let old = workers(&server);
        let mark = server.mark();
        server.signal(Signal::HUP);
        server.wait_for_log_after(mark, "new workers serve", LONG);
        wait_until("three others", LONG, || {
            let now = workers(&server);
            now.len() == 3 && now.iter().all(|pid| !old.contains(pid))
        });
    });
    all_responded_once(&counts(&server), &outcomes);
}

#[test]
fn signals_add_and_take_away_workers_until_the_next_reload() {
    let server = start("2", 2);
    let load = Load::new(server.address(), "POST");
    let outcomes = load.while_doing(3, 3, || {
        for (signal, count) in
            [(Signal::TTIN, 3), (Signal::TTIN, 4), (Signal::TTOU, 3), (Signal::TTOU, 2), (Signal::TTOU, 1)]
        {
            server.signal(signal);
            wait_for_workers(&server, count);
            load.wait_for(20);
        }
        server.signal(Signal::TTOU);
        server.wait_for_log("worker count unchanged", LONG);
        assert_eq!(workers(&server).len(), 1);
        server.signal(Signal::HUP);
        wait_for_workers(&server, 2);
    });
    all_responded_once(&counts(&server), &outcomes);
}

#[test]
fn signals_move_the_floor_of_an_app_that_follows_its_load() {
    let server = start("{ min = 1, max = 2, idle = \"1s\" }", 1);
    server.signal(Signal::TTIN);
    wait_for_workers(&server, 2);
    server.signal(Signal::TTIN);
    server.wait_for_log("worker count unchanged", LONG);
    // Longer than `idle`: what a person has set stays.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(workers(&server).len(), 2);
    server.signal(Signal::TTOU);
    wait_for_workers(&server, 1);
}
