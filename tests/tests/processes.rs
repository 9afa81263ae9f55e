//! `[process.NAME]`: processes that serve no requests, and commands that run before a start.
//!
//! A process reports what it does as lines of a file, in the order in which things happened.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use keepwarm_tests::origin::Origin;
use keepwarm_tests::process::{self, alive, wait_until};
use keepwarm_tests::process_mark::{ProcessMark, ResourceUsage};
use keepwarm_tests::service::Service;
use keepwarm_tests::{Server, admin, get, keepwarm, tools};
use rustix::process::Signal;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(60);

/// A listener that needs no app, and processes that run as root, who owns their files here.
const LISTENER: &str =
    "[server]\nuser = \"root\"\n[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{ respond = 200 }]\n";

/// A worker that does a job for as long as it takes, also when it was told to stop: `begin`, `end`, `gone`, with its number and process id.
const WORKER: &str = r#"
note() { echo "$KEEPWARM_PROCESS$KEEPWARM_PROCESS_NUMBER $1 $$" >> "$NOTES"; }
stop=
trap stop=1 TERM
note begin
echo up
while [ -z "$stop" ]; do sleep 0.02; done
sleep "${JOB:-0}"
note end
"#;

/// A `[process.NAME]` that runs a script with `sh`.
fn process(name: &str, script: &str, keys: &str) -> String {
    format!(
        "[process.{name}]\ncommand = [\"sh\", \"-c\", '''{script}''']\nenv = {{ NOTES = \"@DIR@/notes\" }}\n{keys}\n"
    )
}

/// The worker has noted that it has begun.
const UP: &str = "ready = { prints = \"up\" }";

fn worker(name: &str, keys: &str) -> String {
    process(name, WORKER, keys)
}

fn notes(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("notes")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The notes without process ids.
fn events(folder: &Path) -> Vec<String> {
    let event = |note: String| note.rsplit_once(' ').map_or(note.clone(), |(event, _)| event.to_owned());
    notes(folder).into_iter().map(event).collect()
}

#[track_caller]
fn wait_for_notes(server: &Server, count: usize) -> Vec<String> {
    wait_until(&format!("{count} notes"), LONG, || notes(server.folder()).len() >= count);
    notes(server.folder())
}

fn status(folder: &Path) -> Value {
    let output = tools::run(Command::new(keepwarm()).args(["status", "--json"]).current_dir(folder), LONG);
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// The status of a `[process.NAME]`.
fn set(folder: &Path, name: &str) -> Value {
    let status = status(folder);
    let sets = status["processes"].as_array().cloned().unwrap_or_default();
    sets.into_iter().find(|set| set["name"] == name).unwrap_or(Value::Null)
}

#[track_caller]
fn wait_for_set(folder: &Path, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut seen = Value::Null;
    wait_until(what, LONG, || {
        seen = set(folder, name);
        wanted(&seen)
    });
    seen
}

#[track_caller]
fn wait_for_state(server: &Server, name: &str, state: &str) -> Value {
    wait_for_set(server.folder(), name, &format!("{name} is {state}"), |set| {
        let processes = set["processes"].as_array().cloned().unwrap_or_default();
        !processes.is_empty() && processes.iter().all(|process| process["state"] == state)
    })
}

fn pid(set: &Value, number: usize) -> u32 {
    set["processes"][number - 1]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("it runs")
}

#[track_caller]
fn stop(server: &Server) {
    server.signal(Signal::TERM);
    assert!(server.wait_for_exit(LONG).success(), "{}", server.log());
}

#[test]
fn processes_have_their_number_environment_and_output() {
    let script = r#"echo "to stdout: $KEEPWARM_PROCESS $KEEPWARM_PROCESS_NUMBER $COLOR $KEEPWARM_UPSTREAM_SEARCH $(pwd) $(umask)"; echo "to stderr" >&2; exec sleep 1000"#;
    let config = format!(
        "{LISTENER}[upstream.search]\nurl = \"http://127.0.0.1:1\"\nbind = \"127.0.0.2:0\"\n\
         [process.mail]\ncommand = [\"sh\", \"-c\", '''{script}''']\ncount = 2\numask = \"027\"\ndirectory = \"/tmp\"\nenv = {{ COLOR = \"green\" }}\n"
    );
    let server = Server::start(&config);
    for number in ["1", "2"] {
        let line = server.wait_for_log(&format!("to stdout: mail {number} green http://127.0.0.2:"), LONG);
        assert!(line.ends_with("stream=stdout") && line.contains("/tmp 0027"), "{line}");
        assert!(line.contains(&format!("process=mail number={number}")), "{line}");
    }
    server.wait_for_log("to stderr", LONG);
    assert_eq!(server.ask(get("/")).status, 200);
    let set = wait_for_state(&server, "mail", "running");
    assert_ne!(pid(&set, 1), pid(&set, 2));
    stop(&server);
}

#[test]
fn a_configuration_may_have_processes_only() {
    let server = Server::spawn(&format!("[server]\nuser = \"root\"\n{}", worker("mail", "")), |_| {});
    wait_for_notes(&server, 1);
    server.wait_for_log("process   mail (sh -c", LONG);
    stop(&server);
    assert_eq!(events(server.folder()), ["mail1 begin", "mail1 end"]);
}

#[test]
fn the_restart_command_replaces_the_processes_of_one_section() {
    let server = Server::start(&format!(
        "{LISTENER}{}{}",
        worker("mail", &format!("count = 2\n{UP}")),
        worker("other", UP)
    ));
    wait_for_notes(&server, 3);
    wait_for_state(&server, "mail", "running");
    let other = pid(&wait_for_state(&server, "other", "running"), 1);
    let mut command = Command::new(keepwarm());
    let said = tools::run_ok(command.args(["restart", "mail"]).current_dir(server.folder()), LONG);
    assert_eq!(said, "process mail: each of its processes is replaced, one after the other\n");
    let of_mail: Vec<_> = wait_for_notes(&server, 7)
        .iter()
        .filter_map(|note| note.strip_prefix("mail")?.rsplit_once(' ').map(|(event, _)| event.to_owned()))
        .skip(2)
        .collect();
    assert_eq!(of_mail, ["1 end", "1 begin", "2 end", "2 begin"]);
    let set = wait_for_set(server.folder(), "mail", "both run again", |set| {
        let again = |one: &Value| one["state"] == "running" && one["replacements"]["requested"] == 1;
        set["processes"].as_array().is_some_and(|all| all.iter().all(again))
    });
    assert_ne!(pid(&set, 1), other);
    assert_eq!(pid(&self::set(server.folder(), "other"), 1), other, "the others go on");
    stop(&server);
}

#[test]
fn a_process_that_dies_in_a_loop_backs_off_and_says_so() {
    let config = format!("{LISTENER}{}{}", process("bad", "echo broken >&2; exit 3", ""), worker("good", ""));
    let server = Server::start(&config);
    let mark = server.mark();
    server.wait_for_log("process exited with status 3; the next one starts in", LONG);
    let waits = || -> Vec<u64> {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("process=bad") && line.contains("wait_ms="));
        lines.filter_map(|line| line.rsplit_once("wait_ms=")?.1.trim().parse().ok()).collect()
    };
    wait_until("five failures", LONG, || waits().len() >= 5);
    // Each wait is between half and all of 100 ms, 200 ms, 400 ms …
    for (count, wait) in waits().into_iter().enumerate().take(8) {
        let full = 100_u64 << count;
        assert!((full / 2..=full).contains(&wait), "{count}: {wait}\n{}", server.log());
    }
    let bad = wait_for_state(&server, "bad", "backing_off");
    let process = &bad["processes"][0];
    assert_eq!((&process["pid"], &process["last_exit"]["status"]), (&Value::Null, &Value::from(3)));
    assert!(process["failures"]["exit"].as_u64() >= Some(5), "{process}");
    let table = tools::run_ok(Command::new(keepwarm()).arg("status").current_dir(server.folder()), LONG);
    let row = table.lines().find(|line| line.starts_with("bad/1")).expect("a row");
    assert!(row.contains("backing off") && row.contains("exited with status 3"), "{row}");
    assert_eq!(events(server.folder()), ["good1 begin"], "the other is not touched");
    assert!(server.mark() > mark);
    stop(&server);
}

#[test]
fn a_killed_process_is_followed_by_another() {
    let server = Server::start(&format!("{LISTENER}{}", worker("mail", "")));
    let first = pid(&wait_for_state(&server, "mail", "running"), 1);
    wait_for_notes(&server, 1);
    process::signal(first, Signal::KILL);
    server.wait_for_log("process killed by signal 9 (SIGKILL); the next one starts in", LONG);
    wait_for_notes(&server, 2);
    let second = wait_for_state(&server, "mail", "running");
    assert_ne!(pid(&second, 1), first);
    assert_eq!(second["processes"][0]["restarts"], 1);
    stop(&server);
}

/// Leaves a process in its group and one in a session of its own, and stays.
const PARENT: &str = r#"sleep 1000 & setsid sleep 1000 & echo begin >> "$NOTES"; wait"#;

#[test]
fn nothing_is_left_when_keepwarm_is_killed() {
    let mark = ProcessMark::new();
    let config = format!("{LISTENER}{}", process("mail", PARENT, "count = 3"));
    let server = Server::start_with(&config, |command| mark.apply_to(command));
    wait_for_notes(&server, 3);
    wait_until("all of them", LONG, || {
        mark.processes().values().filter(|line| line.trim() == "sleep 1000").count() >= 6
    });
    server.signal(Signal::KILL);
    wait_until("nothing is left", LONG, || mark.processes().is_empty());
}

#[test]
fn nothing_is_left_of_a_process_that_ends_or_is_stopped() {
    let mark = ProcessMark::new();
    let left = r#"setsid sleep 1000 & sleep 1000 & exit 0"#;
    let config =
        format!("{LISTENER}{}{}", process("once", left, "restart = \"never\""), process("mail", PARENT, ""));
    let server = Server::start_with(&config, |command| mark.apply_to(command));
    let sleeps = || mark.processes().values().filter(|line| line.trim() == "sleep 1000").count();
    wait_for_state(&server, "once", "finished");
    wait_for_notes(&server, 1);
    wait_until("those of the other only", LONG, || sleeps() == 2);
    server.reload_with(LISTENER);
    wait_until("none", LONG, || sleeps() == 0);
    stop(&server);
}

#[test]
fn a_process_that_does_not_stop_is_killed_with_its_group() {
    let stubborn = r#"trap '' TERM; sleep 1000 & echo "begin $!" >> "$NOTES"; while :; do wait; done"#;
    let config = format!("{LISTENER}{}", process("mail", stubborn, "stop_timeout = \"300ms\""));
    let server = Server::start(&config);
    let child =
        wait_for_notes(&server, 1)[0].split(' ').nth(1).and_then(|pid| pid.parse().ok()).expect("a pid");
    assert!(alive(child));
    stop(&server);
    assert!(server.log().contains("killing process and its group: it did not exit within stop_timeout"));
    assert!(!alive(child));
}

#[test]
fn what_comes_after_starts_and_is_replaced_in_order_and_stops_in_reverse() {
    let config = format!(
        "{LISTENER}{}{}{}",
        worker("c", &format!("after = [\"process.b\", \"process.a\"]\ncount = 2\n{UP}")),
        worker("b", &format!("after = \"process.a\"\n{UP}")),
        worker("a", UP),
    );
    let server = Server::start(&config);
    wait_for_notes(&server, 4);
    let begins = ["a1 begin", "b1 begin", "c1 begin", "c2 begin"];
    let sorted = |events: &[String]| {
        let mut events = events.to_vec();
        events.sort();
        events
    };
    assert_eq!(sorted(&events(server.folder())), begins);
    assert_eq!(events(server.folder())[..2], begins[..2]);
    server.reload();
    wait_for_notes(&server, 12);
    assert_eq!(
        events(server.folder())[4..],
        ["a1 end", "a1 begin", "b1 end", "b1 begin", "c1 end", "c1 begin", "c2 end", "c2 begin"],
        "{}",
        server.log()
    );
    stop(&server);
    let end = events(server.folder());
    assert_eq!(sorted(&end[12..14]), ["c1 end", "c2 end"]);
    assert_eq!(end[14..], ["b1 end", "a1 end"]);
}

#[test]
fn a_reload_waits_for_the_job_of_the_old_process() {
    let job = worker("mail", "count = 2").replace("env = {", "env = { JOB = \"0.5\",");
    let server = Server::start(&format!("{LISTENER}{job}"));
    wait_for_notes(&server, 2);
    server.reload();
    assert!(events(server.folder()).len() < 6, "the reload does not wait for jobs");
    let all = wait_for_notes(&server, 6);
    let pids: BTreeSet<&str> = all.iter().filter_map(|note| note.rsplit(' ').next()).collect();
    assert_eq!(pids.len(), 4);
    assert_eq!(events(server.folder())[2..], ["mail1 end", "mail1 begin", "mail2 end", "mail2 begin"]);
    stop(&server);
}

#[test]
fn a_broken_deploy_takes_one_process_down_and_not_all() {
    let config = |script: &str| format!("{LISTENER}{}", process("mail", script, "count = 3"));
    let server = Server::start(&config(WORKER));
    wait_for_notes(&server, 3);
    server.reload_with(&config("exit 1"));
    wait_until("four failures", LONG, || {
        set(server.folder(), "mail")["processes"][0]["failures"]["exit"].as_u64() >= Some(4)
    });
    let now = set(server.folder(), "mail");
    assert_eq!(
        (&now["processes"][1]["state"], &now["processes"][2]["state"]),
        (&"running".into(), &"running".into())
    );
    assert_eq!(events(server.folder())[3..], ["mail1 end"]);
    server.reload_with(&config(WORKER));
    wait_for_notes(&server, 9);
    wait_for_state(&server, "mail", "running");
    stop(&server);
}

#[test]
fn a_process_waits_for_an_app_and_an_upstream() {
    let port = tools::free_port();
    let config = format!(
        "[server]\nuser = \"root\"\n[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ app = \"app\" }}]\n\
         [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n\
         [upstream.search]\nurl = \"http://127.0.0.1:{port}\"\nbind = \"127.0.0.2:0\"\n{}{}",
        worker("both", "after = [\"app.app\", \"upstream.search\"]"),
        worker("app", "after = \"app.app\""),
    );
    let server = Server::start(&config);
    wait_for_notes(&server, 1);
    assert_eq!(events(server.folder()), ["app1 begin"]);
    let waiting = wait_for_state(&server, "both", "waiting");
    assert_eq!(waiting["waits_for"], serde_json::json!(["upstream.search"]));
    let origin = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    wait_for_notes(&server, 2);
    drop(origin);
    wait_for_state(&server, "both", "running");
    stop(&server);
}

#[test]
fn a_process_is_ready_when_it_accepts_connections() {
    let port = tools::free_port();
    let daemon = format!(
        "[process.daemon]\ncommand = [\"@PYTHON@\", \"-c\", '''\nimport socket, time\ntime.sleep(0.3)\n\
         s = socket.create_server((\"127.0.0.1\", {port}))\nwhile True: s.accept()\n''']\nready = {{ accepts = \"127.0.0.1:{port}\" }}\n"
    );
    let never = process(
        "never",
        "exec sleep 1000",
        "ready = { accepts = \"unix:@DIR@/nowhere\" }\nboot_timeout = \"1s\"",
    );
    let config = format!("{LISTENER}{daemon}{never}{}", worker("client", "after = \"process.daemon\""))
        + &worker("last", "after = \"process.never\"");
    let server = Server::start(&config);
    wait_for_notes(&server, 1);
    let ready = server.wait_for_log("process=daemon number=1 process ready", LONG);
    let boot = ready.rsplit_once("boot_ms=").and_then(|(_, ms)| ms.parse::<u64>().ok()).expect("a number");
    assert!(boot >= 300, "{ready}");
    server.wait_for_log(
        "process was not ready within 1s; killed by signal 15 (SIGTERM); the next one starts in",
        LONG,
    );
    assert_eq!(events(server.folder()), ["client1 begin"]);
    stop(&server);
}

#[test]
fn before_start_runs_once_before_everything() {
    let before = "before_start = [[\"sh\", \"-c\", 'echo migrating; echo \"first x 0\" >> \"$NOTES\"'], [\"sh\", \"-c\", 'echo \"second x 0\" >> \"$NOTES\"']]";
    let server = Server::start(&format!("{LISTENER}{}", worker("mail", &format!("count = 2\n{before}"))));
    wait_for_notes(&server, 4);
    assert_eq!(events(server.folder())[..2], ["first x", "second x"]);
    server.wait_for_log("migrating", LONG);
    assert!(server.log().contains("section=process.mail"), "{}", server.log());
    process::signal(pid(&wait_for_state(&server, "mail", "running"), 1), Signal::KILL);
    wait_for_notes(&server, 5);
    assert_eq!(events(server.folder())[4], "mail1 begin", "not for a restart");
    server.reload();
    assert_eq!(events(server.folder())[5..7], ["first x", "second x"]);
    stop(&server);
}

#[test]
fn a_before_start_that_fails_ends_the_start_with_its_output() {
    let before = "before_start = [\"sh\", \"-c\", \"echo no such table: orders; exit 4\"]";
    let server = Server::spawn(&format!("{LISTENER}{}", worker("mail", before)), |_| {});
    assert_eq!(server.wait_for_exit(LONG).code(), Some(1), "{}", server.log());
    let log = server.log();
    assert!(log.contains("before_start of process.mail failed: `sh -c echo no such table: orders; exit 4` exited with status 4"), "{log}");
    assert!(log.lines().any(|line| line == "no such table: orders"), "{log}");
    assert_eq!(notes(server.folder()).len(), 0, "nothing was started");
}

#[test]
fn a_before_start_that_fails_at_a_reload_keeps_everything_as_it_was() {
    let config = |before: &str| {
        format!(
            "[server]\nuser = \"root\"\n[listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ app = \"app\" }}]\n\
             [app.app]\nentry = \"wsgi_app:application\"\ndirectory = \"@APPS@\"\ninterpreter = \"@PYTHON@\"\nworkers = 1\n{before}\n{}",
            worker("mail", "")
        )
    };
    let server = Server::start(&config("")).warm("/pong");
    wait_for_notes(&server, 1);
    let workers = server.workers();
    let mail = pid(&wait_for_state(&server, "mail", "running"), 1);
    server.configure(&config("before_start = [\"sh\", \"-c\", \"echo the migration is broken; exit 9\"]"));
    let output = tools::run(Command::new(keepwarm()).arg("reload").current_dir(server.folder()), LONG);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success()
            && said.contains("the migration is broken")
            && said.contains("before_start of app.app failed"),
        "{said}"
    );
    assert_eq!(server.workers(), workers);
    assert_eq!(pid(&wait_for_state(&server, "mail", "running"), 1), mail);
    server.configure(&config("before_start = [\"sleep\", \"1000\"]\nbefore_start_timeout = \"1s\""));
    let output = tools::run(Command::new(keepwarm()).arg("reload").current_dir(server.folder()), LONG);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("did not finish within before_start_timeout (1s)"), "{said}");
    server.reload_with(&config("before_start = \"true\""));
    wait_until("another worker", LONG, || server.workers() != workers);
    stop(&server);
}

#[test]
fn a_schedule_runs_at_its_times_without_overlap() {
    let slow = process(
        "slow",
        "echo \"slow begin $$\" >> \"$NOTES\"; sleep 2.5; echo \"slow end $$\" >> \"$NOTES\"",
        "schedule = \"every 1s\"",
    );
    let config = format!(
        "{LISTENER}{slow}{}{}",
        process("quick", "exit 0", "schedule = \"every 1s\""),
        process("yearly", "exit 0", "schedule = \"0 0 1 1 *\"")
    );
    let server = Server::start(&config);
    let quick = wait_for_set(server.folder(), "quick", "three runs", |set| {
        set["processes"][0]["runs"]["succeeded"].as_u64() >= Some(3)
    });
    assert_eq!(quick["processes"][0]["runs"]["failed"], 0);
    wait_for_notes(&server, 4);
    let turns: Vec<String> = events(server.folder());
    assert!(
        turns
            .chunks(2)
            .all(|turn| turn[0] == "slow begin" && turn.get(1).is_none_or(|end| end == "slow end")),
        "{turns:?}"
    );
    server.wait_for_log("scheduled run skipped: the one before has not ended", LONG);
    let yearly = set(server.folder(), "yearly");
    assert_eq!(yearly["processes"][0]["state"], "scheduled");
    assert!(
        yearly["next_run"].as_str().is_some_and(|time| time.contains("-01-01T") || time.contains("-12-31T")),
        "{yearly}"
    );
    assert!(set(server.folder(), "slow")["processes"][0]["runs"]["skipped"].as_u64() >= Some(2));
    stop(&server);
}

#[test]
fn a_reload_signal_keeps_the_process() {
    let script = r#"trap 'echo "mail hup $$" >> "$NOTES"' HUP; trap 'exit 0' TERM; echo "mail begin $$" >> "$NOTES"; while :; do sleep 0.02; done"#;
    let config = |keys: &str| {
        format!("{LISTENER}{}", process("mail", script, &format!("reload_signal = \"HUP\"\n{keys}")))
    };
    let server = Server::start(&config(""));
    wait_for_notes(&server, 1);
    server.reload();
    let after = wait_for_notes(&server, 2);
    assert_eq!(events(server.folder()), ["mail begin", "mail hup"]);
    assert_eq!(after[0].rsplit(' ').next(), after[1].rsplit(' ').next(), "the same process");
    server.reload_with(&config("umask = \"077\""));
    wait_for_notes(&server, 3);
    assert_eq!(events(server.folder())[2], "mail begin", "what has changed needs another");
    stop(&server);
}

#[test]
fn memory_and_watched_files_replace_a_process() {
    let hungry = "[process.hungry]\ncommand = [\"@PYTHON@\", \"-c\", '''\nimport signal, time\nsignal.signal(signal.SIGTERM, lambda *_: exit(0))\n\
                  x = bytearray(64 << 20)\nwhile True: time.sleep(1)\n''']\nmax_memory = \"32MiB\"\n";
    let server = Server::start(&format!("{LISTENER}{hungry}{}", worker("mail", "watch = \"*.code\"")));
    wait_for_notes(&server, 1);
    server.wait_for_log("above max_memory (32 MiB)", LONG);
    wait_for_set(server.folder(), "hungry", "replaced", |set| {
        set["processes"][0]["replacements"]["memory"].as_u64() >= Some(1)
    });
    std::fs::write(server.folder().join("a.code"), "changed").expect("a file");
    wait_for_notes(&server, 3);
    assert_eq!(events(server.folder())[1..], ["mail1 end", "mail1 begin"]);
    stop(&server);
}

/// What is stopped may call the doors to its end.
#[test]
fn doors_are_open_until_the_last_process_has_ended() {
    let origin = Origin::fixed("found");
    let script = r#"
import os, signal, sys, time, urllib.request
def stop(*_):
    time.sleep(1)
    with open(os.environ["NOTES"], "a") as notes:
        notes.write("called %d\n" % urllib.request.urlopen(os.environ["KEEPWARM_UPSTREAM_SEARCH"] + "/x").status)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
open(os.environ["NOTES"], "a").write("begin 0\n")
while True:
    time.sleep(1)
"#;
    let config = format!(
        "{LISTENER}[upstream.search]\nurl = \"http://{}\"\nbind = \"127.0.0.2:0\"\n\
         [process.mail]\ncommand = [\"@PYTHON@\", \"-c\", '''{script}''']\nenv = {{ NOTES = \"@DIR@/notes\" }}\n",
        origin.address()
    );
    let server = Server::start(&config);
    wait_for_notes(&server, 1);
    stop(&server);
    assert_eq!(notes(server.folder()), ["begin 0", "called 200"], "{}", server.log());
}

#[test]
fn an_upgrade_never_runs_a_process_twice() {
    let config = format!(
        "[server]\nuser = \"root\"\npid_file = \"@DIR@/pid\"\nlog = {{ file = \"@DIR@/log\" }}\n\
         [listen.main]\nbind = \"127.0.0.1:0\"\nroute = [{{ respond = 200 }}]\n{}{}",
        worker("scheduler", UP).replace("env = {", "env = { JOB = \"0.7\","),
        worker("mail", "after = \"process.scheduler\""),
    );
    let service = Service::start(keepwarm(), &config);
    let folder: PathBuf = service.server.folder().to_path_buf();
    let wait = |count: usize| wait_until(&format!("{count} notes"), LONG, || notes(&folder).len() >= count);
    wait(2);
    for round in 0..2 {
        service.upgrade();
        wait(2 + 4 * (round + 1));
    }
    // Stopped in reverse, each started when the one of its name has ended and what it comes after is there.
    let all = events(&folder);
    assert_eq!(all[..2], ["scheduler1 begin", "mail1 begin"]);
    for round in all[2..10].chunks(4) {
        assert_eq!(
            round,
            ["mail1 end", "scheduler1 end", "scheduler1 begin", "mail1 begin"],
            "{all:?}\n{}",
            service.log()
        );
    }
    process::signal(service.pid().expect("a process"), Signal::TERM);
    wait_until("nothing is left", LONG, || service.processes().is_empty());
}

#[test]
fn metrics_tell_states_restarts_and_runs() {
    let config = format!(
        "{LISTENER}[admin]\nbind = \"127.0.0.1:0\"\n{}{}{}",
        worker("mail", "count = 2"),
        process("bad", "exit 3", ""),
        process("tick", "exit 0", "schedule = \"every 1s\"")
    );
    let server = Server::start(&config);
    wait_for_set(server.folder(), "tick", "a run", |set| {
        set["processes"][0]["runs"]["succeeded"].as_u64() >= Some(1)
    });
    admin::wait_for_metric(&server, "keepwarm_process_failures_total{process=\"bad\",reason=\"exit\"}", 1.0);
    let running = "keepwarm_processes{process=\"mail\",state=\"running\"}";
    assert_eq!(admin::wait_for_metric(&server, running, 2.0), 2.0);
    let metrics = admin::metrics(&server);
    for (name, expected) in [
        ("keepwarm_processes{process=\"tick\",state=\"failed\"}", 0.0),
        ("keepwarm_process_failures_total{process=\"mail\",reason=\"exit\"}", 0.0),
        ("keepwarm_process_runs_total{process=\"tick\",outcome=\"failed\"}", 0.0),
    ] {
        assert_eq!(metrics.get(name), Some(&expected), "{name} in {metrics:#?}");
    }
    assert!(!metrics.contains_key("keepwarm_process_runs_total{process=\"mail\",outcome=\"failed\"}"));
    stop(&server);
}

#[test]
fn many_restarts_leave_nothing_behind() {
    let mark = ProcessMark::new();
    // Each leaves a child in another session.
    let script = r#"setsid sleep 1000 & exit 0"#;
    let config = format!("{LISTENER}{}", process("mail", script, "schedule = \"every 1s\""));
    let server = Server::start_with(&config, |command| mark.apply_to(command));
    wait_for_set(server.folder(), "mail", "a run", |set| {
        set["processes"][0]["runs"]["succeeded"].as_u64() >= Some(1)
    });
    let usage = ResourceUsage::of(&server, &mark);
    wait_for_set(server.folder(), "mail", "five runs", |set| {
        set["processes"][0]["runs"]["succeeded"].as_u64() >= Some(6)
    });
    usage.wait_for(&server, &mark, LONG);
    assert!(process::zombies(server.pid()).is_empty());
    stop(&server);
}

/// A queue in Redis, as queue libraries keep it: a job moves to a list of those in work (`BLMOVE`), and out of it when it is done. Told to stop,
/// the worker finishes its job and takes no other.
const QUEUE: &str = r#"
import os, signal, socket, time

class Redis:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.read()

    def read(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest)
        return int(rest) if kind == b":" else rest

stopping = False

def stop(*_):
    global stopping
    stopping = True

signal.signal(signal.SIGTERM, stop)
redis = Redis(os.environ["REDIS"])
working = "working:%s:%d" % (os.environ["KEEPWARM_PROCESS_NUMBER"], os.getpid())
print("up", flush=True)
while not stopping:
    job = redis("BLMOVE", "jobs", working, "RIGHT", "LEFT", "0.1")
    if job is not None:
        time.sleep(0.01)
        redis("HINCRBY", "done", job.decode(), 1)
        redis("LREM", working, 1, job.decode())
"#;

#[test]
fn deploys_under_load_lose_no_job_of_a_queue() {
    let jobs = 600;
    let redis = "[process.redis]\ncommand = [\"redis-server\", \"--port\", \"0\", \"--unixsocket\", \"@DIR@/redis\", \"--save\", \"\", \"--dir\", \"@DIR@\"]\n\
                 ready = { accepts = \"unix:@DIR@/redis\" }\nreload_signal = \"WINCH\"\n";
    let config = |nice: &str| {
        format!(
            "{LISTENER}{redis}[process.mail]\ncommand = [\"@PYTHON@\", \"-u\", \"-c\", '''{QUEUE}''']\ncount = 3\nafter = \"process.redis\"\n{UP}\n\
             env = {{ REDIS = \"@DIR@/redis\", COLOR = \"{nice}\" }}\n"
        )
    };
    let server = Server::start(&config("one"));
    wait_for_state(&server, "mail", "running");
    let socket = server.folder().join("redis");
    let redis =
        |words: &[&str]| tools::run_ok(Command::new("redis-cli").arg("-s").arg(&socket).args(words), LONG);
    let before = pid(&wait_for_state(&server, "mail", "running"), 1);
    for round in 0..3 {
        let names: Vec<String> = (0..jobs / 3).map(|job| format!("{}", round * 1000 + job)).collect();
        let mut words = vec!["LPUSH", "jobs"];
        words.extend(names.iter().map(String::as_str));
        redis(&words);
        server.reload_with(&config(["two", "three", "four"][round]));
    }
    wait_until("all jobs are done", LONG, || redis(&["HLEN", "done"]).trim() == jobs.to_string());
    let counts: BTreeSet<String> = redis(&["HVALS", "done"]).lines().map(str::to_owned).collect();
    assert_eq!(counts, BTreeSet::from(["1".to_owned()]), "each once");
    wait_until("no process of an old deploy", LONG, || {
        let set = set(server.folder(), "mail");
        let processes = set["processes"].as_array().cloned().unwrap_or_default();
        processes
            .iter()
            .all(|one| one["replacements"]["reload"].as_u64() >= Some(1) && one["replace_reason"].is_null())
    });
    assert_eq!(redis(&["KEYS", "working:*"]).trim(), "", "no job is left in work");
    assert_ne!(pid(&wait_for_state(&server, "mail", "running"), 1), before);
    stop(&server);
}
