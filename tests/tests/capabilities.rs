//! Root with fewer capabilities than it has on a machine of its own: what a container leaves it, and what an administrator takes away.
//!
//! As the tests of `process_settings`, these run as root.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::load::{Load, Outcome};
use keepwarm_tests::process::{self, alive, wait_until};
use keepwarm_tests::{Server, get};
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

const LONG: Duration = Duration::from_secs(60);

const APP: &str = r#"
import subprocess

# It leaves the worker's group and session, as a daemon does.
sleeper = subprocess.Popen(["setsid", "sleep", "600"], stdin=subprocess.DEVNULL)

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d" % sleeper.pid]
"#;

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[app.app]
entry = "app:application"
directory = "@DIR@/app"
workers = 1
"#;

/// What Docker leaves to root.
fn of_docker() -> CapabilitySet {
    CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FSETID
        | CapabilitySet::FOWNER
        | CapabilitySet::MKNOD
        | CapabilitySet::NET_RAW
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::SETFCAP
        | CapabilitySet::SETPCAP
        | CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::SYS_CHROOT
        | CapabilitySet::KILL
        | CapabilitySet::AUDIT_WRITE
}

/// What this thread starts from now on has these at most. Each test has a thread of its own.
fn keep_only(kept: CapabilitySet) {
    for lost in CapabilitySet::all().difference(kept).iter() {
        // An error: this kernel does not know it.
        let _ = remove_capability_from_bounding_set(lost);
    }
}

fn prepare(command: &mut Command) {
    let folder = command.get_current_dir().expect("a folder").to_path_buf();
    let app = folder.join("app");
    std::fs::create_dir(&app).expect("a folder");
    std::fs::write(app.join("app.py"), APP).expect("the app");
    for folder in [&folder, &app] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("for everybody");
    }
}

fn sleeper(server: &Server) -> u32 {
    server.client().patient(LONG).ask(get("/")).text().parse().expect("a number")
}

#[test]
fn in_a_container_what_workers_of_another_user_have_started_ends_with_keepwarm() {
    keep_only(of_docker());
    let config = format!("{CONFIG}user = \"nobody\"\n");
    // The supervisor finds it after the one, the guardian after the other.
    for end in [Signal::TERM, Signal::KILL] {
        let server = Server::start_with(&config, prepare).warm("/");
        let sleeper = sleeper(&server);
        assert!(alive(sleeper));
        server.signal(end);
        wait_until("nothing is left", LONG, || !alive(sleeper));
    }
}

/// Clients come all the time, each on a connection of its own. Linux lets only root filter what comes to a TCP socket.
#[test]
fn in_a_container_a_stop_waits_for_the_requests_in_progress_and_for_no_new_ones() {
    keep_only(of_docker());
    let server = Server::start_with(CONFIG, prepare).warm("/");
    let load = Load::new(server.address(), "GET");
    let outcomes = load.while_doing(1, 3, || {
        load.wait_for(50);
        server.signal(Signal::TERM);
        // Less than the grace.
        assert!(server.wait_for_exit(Duration::from_secs(20)).success(), "{}", server.log());
    });
    for (id, outcome) in outcomes {
        assert_eq!(outcome, Outcome::Responded(200), "request {id}");
    }
}

/// What a start with workers of another user says that is refused without this capability.
#[track_caller]
fn refused_without(lost: CapabilitySet) -> String {
    keep_only(of_docker().difference(lost));
    let server = Server::spawn(&format!("{CONFIG}user = \"nobody\"\n"), prepare);
    assert_eq!(server.wait_for_exit(LONG).code(), Some(2));
    server.log()
}

#[test]
fn without_the_right_to_signal_other_users_workers_are_not_run_as_one() {
    let told = refused_without(CapabilitySet::KILL);
    assert!(
        told.contains("cannot run the workers of `app.app` as `nobody`: Keepwarm could not stop them, because it lacks CAP_KILL")
            && told.contains("help: containers: add SETUID, SETGID, KILL"),
        "{told}"
    );
    // Nor where the choice is Keepwarm's.
    let server = Server::start_with(CONFIG, |command| {
        prepare(command);
        // Everybody's interpreter, whichever root has.
        command.env_remove("KEEPWARM_SERVER__USER").env_remove("VIRTUAL_ENV").env("PATH", "/usr/bin:/bin");
    });
    let line = server.wait_for_log("workers run as root", LONG);
    assert!(
        line.contains("Keepwarm could not stop the processes of another user (it lacks CAP_KILL)"),
        "{line}"
    );
}

#[test]
fn root_without_the_right_to_change_users_is_not_told_to_become_root() {
    let told = refused_without(CapabilitySet::SETGID);
    assert!(
        told.contains(
            "as `nobody`: this requires CAP_SETUID and CAP_SETGID, which Keepwarm or its user namespace lacks"
        ),
        "{told}"
    );
}

/// They make themselves another user's, as a command with `sudo` does where Keepwarm is not root.
#[test]
fn the_end_does_not_wait_for_what_cannot_be_signalled() {
    keep_only(of_docker().difference(CapabilitySet::KILL));
    let config = r#"
[server]
shutdown_grace = "4s"
[listen.main]
bind = "127.0.0.1:0"
[app.app]
command = ["sh", "-c", "exec setpriv --reuid 65534 /usr/bin/python3 -m http.server --bind 127.0.0.1 $PORT"]
workers = 1
[process.other]
command = ["setpriv", "--reuid", "65534", "sleep", "600"]
stop_timeout = "1s"
"#;
    let server = Server::start(config).warm("/");
    let left = || -> Vec<u32> {
        let is_other = |&child: &u32| {
            let command = process::command(child);
            command.starts_with("sleep ") || command.starts_with("/usr/bin/python3 ")
        };
        process::children(server.pid()).into_iter().filter(is_other).collect()
    };
    wait_until("both run", LONG, || left().len() == 2);
    let left = left();
    server.signal(Signal::TERM);
    assert_eq!(server.wait_for_exit(LONG).code(), Some(0));
    let told = server.log();
    assert!(told.contains("the system does not let Keepwarm signal this process"), "{told}");
    for what in ["worker", "process"] {
        let said = format!("{what} was killed but does not exit; Keepwarm no longer waits for it");
        assert!(told.contains(&said), "{told}");
    }
    // This test may.
    left.into_iter().for_each(|child| process::signal(child, Signal::KILL));
}

/// The pages that a forked worker shares with its template are not its own, which only the map of its pages tells.
#[test]
fn in_a_container_the_own_memory_of_a_forked_worker_is_known() {
    keep_only(of_docker());
    let config = format!("{CONFIG}user = \"nobody\"\npreload = true\nmax_memory = \"512MiB\"\n");
    let server = Server::start_with(&config, |command| {
        prepare(command);
        let app = command.get_current_dir().expect("a folder").join("app/app.py");
        std::fs::write(app, format!("data = b'x' * (64 << 20)\n{APP}")).expect("the app");
    });
    let server = server.warm("/");
    let mut memory = serde_json::Value::Null;
    wait_until("its memory was measured", LONG, || {
        let mut status = Command::new(keepwarm_tests::keepwarm());
        status.args(["status", "--json", "--pid", &server.pid().to_string()]);
        let printed = keepwarm_tests::tools::run_ok(&mut status, LONG);
        let status: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        memory = status["workers"][0]["memory"].clone();
        !memory.is_null()
    });
    let own = memory["own_bytes"].as_u64().expect("a number");
    assert!(own < 64 << 20, "{memory}");
}
