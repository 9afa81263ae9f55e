//! `keepwarm run --dry-run --boot`: one worker of each app, as the real start would start it, and nothing that serves.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::Duration;

use keepwarm_tests::{apps, keepwarm, process, tools};
use rustix::process::Signal;

const BOUND: Duration = Duration::from_secs(60);

/// Runs it on a configuration in a directory of its own, which is gone afterwards.
fn boot(name: &str, files: &[(&str, &str)]) -> Output {
    let folder = std::env::temp_dir().join(format!("keepwarm-boot-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (file, text) in files {
        std::fs::write(folder.join(file), text).expect("a file");
    }
    let output =
        tools::run(Command::new(keepwarm()).args(["run", "--dry-run", "--boot"]).current_dir(&folder), BOUND);
    std::fs::remove_dir_all(folder).expect("removed");
    output
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The apps of these tests print `pid=N` first.
fn pids(text: &str) -> Vec<u32> {
    text.split("pid=").skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).collect()
}

#[track_caller]
fn all_have_ended(text: &str, least: usize) {
    let pids = pids(text);
    assert!(pids.len() >= least, "no process ids in {text}");
    process::wait_until("the workers' end", BOUND, || pids.iter().all(|pid| !process::alive(*pid)));
}

const PRINT_PID: &str = "import os, sys\nprint(f'pid={os.getpid()} of it', file=sys.stderr, flush=True)\n";
const RESPONSE: &str =
    "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'']\n";

#[test]
fn the_result_of_each_app_is_reported() {
    let (good, broken, hanging) = (
        format!("{PRINT_PID}{RESPONSE}"),
        format!("{PRINT_PID}import no_such_module_anywhere\n"),
        format!("{PRINT_PID}import time\ntime.sleep(3600)\n"),
    );
    let php = apps().join("php_app.php");
    let php = std::fs::read_to_string(php).expect("the app");
    let apps = ["good", "broken", "hanging"].map(|name| {
        format!("[app.{name}]\nentry = \"{name}:app\"\nkind = \"wsgi\"\nboot_timeout = \"2s\"\nworkers = 3\n")
    });
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"good\"\n{}[app.shop]\nentry = \"shop.php\"\n",
        apps.concat()
    );
    let output = boot(
        "all",
        &[
            ("keepwarm.toml", &config),
            ("good.py", &good),
            ("broken.py", &broken),
            ("hanging.py", &hanging),
            ("shop.php", &php),
        ],
    );
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    for part in
        ["app \"good\": worker ready after ", "WSGI", "CPython", "app \"shop\": worker ready after ", "PHP"]
    {
        assert!(out.contains(part), "no {part} in\n{out}\n{err}");
    }
    for part in [
        "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
        "app \"broken\" could not be started: worker 1 exited with status 1",
        "app \"hanging\" could not be started: worker 1 was not ready within 2",
        "its interpreter is ",
        "apps that load: 2 of 4",
    ] {
        assert!(err.contains(part), "no {part} in\n{out}\n{err}");
    }
    // One of each, and each was tried once.
    let printed: std::collections::BTreeSet<_> = err
        .lines()
        .filter(|line| line.contains(" of it"))
        .flat_map(|line| pids(line).into_iter().take(1))
        .collect();
    assert_eq!(printed.len(), 3, "{err}");
    all_have_ended(&err, 3);
}

/// The addresses may belong to the process that serves now; an app gets the same door variables as at a real start.
#[test]
fn nothing_is_listened_on() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let door = TcpListener::bind("127.0.0.1:0").expect("a port");
    let called = TcpListener::bind("127.0.0.1:0").expect("a port");
    called.set_nonblocking(true).expect("an option");
    let address = |listener: &TcpListener| listener.local_addr().expect("bound");
    let (listen, bind, origin) = (address(&taken), address(&door), address(&called));
    let config = format!(
        "[listen.main]\nbind = \"{listen}\"\n[[listen.main.route]]\napp = \"shop\"\n\
         [app.shop]\nentry = \"shop:app\"\nkind = \"wsgi\"\nenv = {{ COLOR = \"green\" }}\n\
         [upstream.search]\nurl = \"http://{origin}\"\nbind = \"{bind}\"\npool = {{ min_idle = 1 }}\nhealth = {{ path = \"/\" }}\n"
    );
    let app = format!(
        "{PRINT_PID}assert os.environ['KEEPWARM_UPSTREAM_SEARCH'] == 'http://{bind}'\n\
         assert os.environ['COLOR'] == 'green'\n{RESPONSE}"
    );
    let output = boot("addresses", &[("keepwarm.toml", &config), ("shop.py", &app)]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("keepwarm.toml: the configuration is valid; apps that load: 1 of 1"), "{out}");
    assert!(called.accept().is_err(), "the upstream was called");
    all_have_ended(&err, 1);
}

#[test]
fn a_log_file_is_not_made() {
    let config = "[server]\nlog = { file = \"keepwarm.log\" }\n[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"shop\"\n\
                  [app.shop]\nentry = \"shop:app\"\nkind = \"wsgi\"\n";
    let app = format!("import os\nassert not os.path.exists('keepwarm.log')\n{PRINT_PID}{RESPONSE}");
    let output = boot("log", &[("keepwarm.toml", config), ("shop.py", &app)]);
    let (out, err) = texts(&output);
    assert!(output.status.success() && err.contains(" of it"), "{out}\n{err}");
}

#[test]
fn a_signal_ends_it_and_its_worker() {
    let mut command = Command::new(keepwarm());
    command.args(["run", "--dry-run", "--boot", "hang_app:application"]).current_dir(apps());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("keepwarm");
    // Its own command line: between its fork and its exec a process has that of the one that starts it.
    let mut worker = None;
    process::wait_until("a worker", BOUND, || {
        let is_worker = |pid: &u32| process::command(*pid).contains("-m keepwarm hang_app");
        worker = process::descendants(child.id()).into_iter().find(is_worker);
        worker.is_some()
    });
    let worker = worker.expect("a worker");
    process::signal(child.id(), Signal::TERM);
    let status = child.wait().expect("its end");
    assert_eq!(status.code(), Some(1));
    process::wait_until("the worker's end", BOUND, || !process::alive(worker));
}

#[test]
fn boot_alone_is_refused() {
    let output = tools::run(
        Command::new(keepwarm()).args(["run", "--boot", "wsgi_app:application"]).current_dir(apps()),
        BOUND,
    );
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("--boot needs --dry-run"), "{err}");
}
