//! The first start, and what a worker is born with.

use keepwarm_tests::{Server, get};

use crate::{LONG, config, start, wsgi};

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
fn a_target_that_does_not_exist_is_exit_1_with_a_clear_error() {
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

/// A module that hangs while it is imported logs nothing itself.
#[test]
fn an_app_that_loads_slowly_is_logged_with_its_stack() {
    let server = Server::spawn(&config("hanging_app:application", 1, ""), |_| {});
    server.wait_for_log("worker still loading after 5s", LONG);
    let line = server.wait_for_log("hanging_app.py", LONG);
    assert!(line.contains("line 5"), "{line}");
}

#[test]
fn a_factory_is_called_with_the_arguments_of_its_target() {
    for (entry, text) in [
        ("factory_app", "made False"),
        ("factory_app:create_app", "made False"),
        ("factory_app:create_app('a: b/(c)', debug=True)", "a: b/(c) True"),
    ] {
        let server = start(&config(entry, 1, ""), 1);
        assert_eq!(server.ask(get("/")).text(), text, "{entry}");
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
