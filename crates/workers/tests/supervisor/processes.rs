//! Processes that serve no requests, and commands: their supervisor takes them along, and reports what a command printed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use keepwarm_workers::supervisor::{Execution, ProcessSetSnapshot, ProcessSpec, TaskSpec};

use crate::harness::{Bench, Process, until};

fn sh(name: &str, script: &str) -> ProcessSpec {
    ProcessSpec::new(name, execution(script))
}

fn execution(script: &str) -> Execution {
    let command = ["sh", "-c", script].map(OsString::from).to_vec();
    Execution { command, directory: PathBuf::from("."), ..Execution::default() }
}

async fn set(bench: &Bench, name: &str) -> ProcessSetSnapshot {
    let sets = bench.supervisor.processes().await;
    sets.into_iter().find(|set| &*set.name == name).expect("it is there")
}

/// Waits until the set is as wanted; each change of it is a record of the log.
async fn wait_for(bench: &Bench, name: &str, what: &str, wanted: impl Fn(&ProcessSetSnapshot) -> bool) {
    until(what, async || wanted(&set(bench, name).await).then_some(())).await;
}

#[tokio::test]
async fn the_end_of_the_supervisor_is_the_end_of_its_processes_and_commands() {
    let bench = Bench::start(Vec::new()).await;
    bench.supervisor.begin_processes(vec![sh("stays", "sleep 1000 & wait")], BTreeSet::new());
    wait_for(&bench, "stays", "it runs", |set| set.processes[0].pid.is_some()).await;
    let process = Process::new(set(&bench, "stays").await.processes[0].pid.unwrap());
    let task = TaskSpec {
        section: "app.shop".into(),
        execution: execution("sleep 1000").into(),
        timeout: Duration::from_secs(1000),
    };
    let running = tokio::spawn({
        let supervisor = bench.supervisor.clone();
        async move { supervisor.run_task(task).await }
    });
    tokio::task::yield_now().await;
    bench.supervisor.stop(Duration::ZERO).await;
    assert!(process.has_ended());
    let failure = running.await.unwrap().expect_err("it was stopped");
    assert!(
        failure.reason.contains("Keepwarm is stopping") || failure.reason.contains("with Keepwarm"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_command_reports_what_it_printed() {
    let bench = Bench::start(Vec::new()).await;
    let task = |script: &str, timeout| TaskSpec {
        section: "app.shop".into(),
        execution: execution(script).into(),
        timeout,
    };
    let long = Duration::from_secs(60);
    bench.supervisor.run_task(task("echo fine", long)).await.unwrap();
    let failure = bench.supervisor.run_task(task("echo out; echo err >&2; exit 5", long)).await.unwrap_err();
    assert_eq!(failure.reason, "exited with status 5");
    let output = String::from_utf8(failure.output).unwrap();
    assert!(output.contains("out\n") && output.contains("err\n"), "{output}");
    let stubborn = task("trap '' TERM; echo stays; while :; do sleep 0.05; done", Duration::from_millis(200));
    let failure = bench.supervisor.run_task(stubborn).await.unwrap_err();
    assert_eq!(
        failure.reason,
        "did not finish within before_start_timeout (200ms); killed by signal 9 (SIGKILL)"
    );
    bench.stop().await;
}
