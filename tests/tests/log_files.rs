//! Log files are moved away and reopened while lines come, and each line is in exactly one of the files.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::load::{Load, Outcome};
use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, get, tools};
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[server]
log = { file = "@DIR@/keepwarm.log" }
pid_file = "@DIR@/pid"
[listen.main]
bind = "127.0.0.1:0"
access_log = { file = "@DIR@/access.log" }
[[listen.main.route]]
app = "app"
[app.app]
entry = "wsgi_app:application"
directory = "@APPS@"
interpreter = "@PYTHON@"
workers = 2
env = { COUNT_FILE = "@DIR@/count" }
"#;

fn text(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Moves both logs away, has them reopened, and waits until they are there.
#[track_caller]
fn rotate(server: &Server, number: u32, signal: Signal) {
    for name in ["keepwarm.log", "access.log"] {
        let file = server.folder().join(name);
        std::fs::rename(&file, file.with_extension(format!("log.{number}"))).expect("moved");
    }
    server.signal(signal);
    for name in ["keepwarm.log", "access.log"] {
        wait_until("the file is there anew", LONG, || server.folder().join(name).exists());
    }
}

/// Every request of the load stands once in one of the access logs.
#[track_caller]
fn every_line_is_there(server: &Server, outcomes: &[(String, Outcome)]) {
    let all = || -> String {
        let files = std::fs::read_dir(server.folder()).expect("the folder").flatten();
        let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with("access.log"));
        logs.map(|file| text(&file.path())).collect()
    };
    let of = |id: &str| format!("/count?id={id}&");
    wait_until("every line", LONG, || {
        let all = all();
        outcomes.iter().all(|(id, _)| all.contains(&of(id)))
    });
    let all = all();
    assert!(all.ends_with('\n'));
    for (id, outcome) in outcomes {
        assert_eq!(*outcome, Outcome::Responded(200), "request {id}");
        assert_eq!(all.matches(&of(id)).count(), 1, "lines of request {id}");
    }
    assert!(
        all.lines().all(|line| line.contains("\"GET /count?id=") || line.contains("\"GET /pong")),
        "torn lines"
    );
}

#[test]
fn sigusr1_reopens_the_files_and_no_line_is_lost() {
    let server = Server::start(CONFIG).warm("/pong");
    let load = Load::new(server.address(), "GET");
    let outcomes = load.while_doing(3, 2, || {
        for number in 1..=4 {
            load.wait_for(40);
            rotate(&server, number, Signal::USR1);
            load.wait_for(40);
        }
    });
    every_line_is_there(&server, &outcomes);
    assert!(text(&server.folder().join("keepwarm.log")).contains("log files reopened"));
}

#[test]
fn sighup_reopens_the_files_too() {
    let server = Server::start(CONFIG).warm("/pong");
    let load = Load::new(server.address(), "GET");
    let outcomes = load.while_doing(2, 1, || {
        load.wait_for(40);
        rotate(&server, 1, Signal::HUP);
        load.wait_for(40);
    });
    every_line_is_there(&server, &outcomes);
}

#[test]
fn a_file_that_cannot_be_reopened_leaves_the_old_one_in_use() {
    let mut away = std::path::PathBuf::new();
    let config = CONFIG.replace("@DIR@/access.log", "@DIR@/logs/access.log");
    let server = Server::start_with(&config, |command| {
        let folder = command.get_current_dir().expect("a folder").to_path_buf();
        std::fs::create_dir(folder.join("logs")).expect("a folder");
        away = folder.join("away");
    });
    std::fs::rename(server.folder().join("logs"), &away).expect("moved");
    server.signal(Signal::USR1);
    wait_until("it says so", LONG, || {
        text(&server.folder().join("keepwarm.log")).contains("cannot reopen a log file")
    });
    server.ask(get("/pong"));
    wait_until("the line is in the old file", LONG, || text(&away.join("access.log")).contains("/pong"));
}

#[test]
fn logrotate_as_debian_has_it() {
    let server = Server::start(CONFIG).warm("/pong");
    let folder = server.folder().display().to_string();
    // The example of docs/operate/logs.md, with the directory of this test.
    let rules = format!(
        "{folder}/*.log {{\n    rotate 7\n    missingok\n    notifempty\n    delaycompress\n    compress\n    sharedscripts\n    \
         postrotate\n        kill -USR1 $(cat {folder}/pid)\n    endscript\n}}\n"
    );
    std::fs::write(server.folder().join("rules"), rules).expect("the rules");
    let load = Load::new(server.address(), "GET");
    let outcomes = load.while_doing(2, 1, || {
        load.wait_for(40);
        // An empty file is not rotated.
        wait_until("lines are written", LONG, || !text(&server.folder().join("access.log")).is_empty());
        let mut command = Command::new("logrotate");
        command
            .args(["--force", "--state"])
            .arg(server.folder().join("state"))
            .arg(server.folder().join("rules"));
        tools::run_ok(&mut command, LONG);
        wait_until("the files are there anew", LONG, || {
            ["keepwarm.log", "access.log"].iter().all(|name| server.folder().join(name).exists())
        });
        load.wait_for(40);
    });
    every_line_is_there(&server, &outcomes);
    assert!(server.folder().join("access.log.1").exists());
    assert_eq!(server.ask(get("/pong")).text(), "pong");
}
