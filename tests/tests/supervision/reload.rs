//! A reload: what changes, and that nothing is lost.

use keepwarm_tests::load::{self, Load};
use keepwarm_tests::process::{alive, wait_until};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;

use crate::{LONG, all_responded_once, config, wsgi};

#[test]
fn a_lone_quick_worker_is_reloaded_under_load_without_a_loss() {
    let server = wsgi(1, "");
    let load = Load::new(server.address(), "POST").with_work_ms(0);
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
    all_responded_once(&server, &outcomes);
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
    all_responded_once(&server, &outcomes);
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
    all_responded_once(&server, &outcomes);
    wait_until("two workers", LONG, || server.workers().len() == 2);
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
    all_responded_once(&server, &outcomes);
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

#[test]
fn the_restart_command_replaces_the_workers_of_an_app_and_reads_no_configuration() {
    let server = wsgi(1, "");
    server.configure("this is no configuration");
    let restart = |names: &[&str]| {
        let mut command = std::process::Command::new(keepwarm_tests::keepwarm());
        command.arg("restart").args(names).current_dir(server.folder());
        keepwarm_tests::tools::run(&mut command, LONG)
    };
    let before = server.workers();
    for name in ["app", "app.app"] {
        let output = restart(&[name, "app"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && said.starts_with("app app: new workers serve, generation "),
            "{output:?}"
        );
        assert_eq!(said.lines().count(), 1, "each once: {said}");
        assert_eq!(server.ask(get("/pong")).text(), "pong");
    }
    wait_until("the first workers have gone", LONG, || {
        !before.iter().any(|pid| alive(*pid)) && server.workers().len() == 1
    });
    let now = server.workers();
    let output = restart(&["app", "nothing"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no app or process \"nothing\"; there are: app"), "{said}");
    assert_eq!(restart(&[]).status.code(), Some(2));
    assert_eq!(server.workers(), now, "nothing is restarted when one of the names is unknown");
}

/// A waiting request is for its replacement: given to the old worker, it would hold a slot there for ever.
#[test]
fn the_only_worker_that_requests_a_stop_ends_at_once_while_requests_wait() {
    let server = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"app\"\n\
         [app.app]\nentry = \"trouble_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         env = { DIR = \"@DIR@\" }\n",
    );
    // A slow one, after it one that exits, and others.
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
    server.wait_for_log("worker stopped: exited with status 4", LONG);
    assert!(!server.log().contains("retried on another worker"), "{}", server.log());
}
