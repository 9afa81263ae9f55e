//! What many restarts of a process leave behind: nothing. Alone in its binary, because it counts descriptors and children of this process.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "other tests use more of it")]
#[path = "supervisor/fake.rs"]
mod fake;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "supervisor/harness.rs"]
mod harness;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use harness::{Bench, until};
use keepwarm_policy::backoff::BackoffSettings;
use keepwarm_workers::supervisor::{Execution, ProcessSetSnapshot, ProcessSpec, ProcessState, RestartPolicy};

/// The variable with the number of restarts. The promise is 10,000, which take some minutes.
const RESTARTS: &str = "PROCESS_RESTARTS";

fn execution(script: &str) -> Arc<Execution> {
    let command = ["sh", "-c", script].map(OsString::from).to_vec();
    Arc::new(Execution { command, directory: PathBuf::from("."), ..Execution::default() })
}

/// Waits until the processes are as wanted; each change of them is a record of the log.
async fn wait_for(bench: &Bench, what: &str, wanted: impl Fn(&ProcessSetSnapshot) -> bool) {
    until(what, async || {
        let sets = bench.supervisor.processes().await;
        sets.first().is_some_and(&wanted).then_some(())
    })
    .await;
}

fn restarts(set: &ProcessSetSnapshot) -> u64 {
    set.processes.iter().map(|process| process.restarts).sum()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Children of this process that have ended and were not reaped, or that run.
fn children() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// All that a supervisor of this process has started, whatever its parent is now.
fn left() -> Vec<String> {
    let mark = format!("KEEPWARM_INSTANCE={}-", std::process::id());
    let is_ours = |entry: &std::fs::DirEntry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(is_ours).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn restarts_leave_no_process_descriptor_or_zombie() {
    let wanted = std::env::var(RESTARTS).ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    let bench = Bench::start(Vec::new()).await;
    // Each leaves one in its group and one in a session of its own.
    let mut spec = ProcessSpec::new("fast", Execution::default());
    spec.execution = execution("sleep 1000 & setsid sleep 1000 & exit 1");
    spec.count = 4;
    spec.backoff =
        BackoffSettings { base: Duration::ZERO, cap: Duration::ZERO, ..BackoffSettings::default() };
    bench.supervisor.begin_processes(vec![spec.clone()], BTreeSet::new());
    wait_for(&bench, "it begins", |set| restarts(set) >= 8).await;
    let before = descriptors();
    for count in (0..=wanted).step_by(50) {
        wait_for(&bench, &format!("{count} restarts"), |set| restarts(set) >= count).await;
    }
    spec.restart = RestartPolicy::Never;
    spec.execution = execution("exit 0");
    bench.supervisor.reload_processes(vec![spec]);
    wait_for(&bench, "the last", |set| {
        set.processes.iter().all(|process| process.state == ProcessState::Finished)
    })
    .await;
    // Processes ran then, and none does now.
    assert!(descriptors() <= before, "{} descriptors, {before} before", descriptors());
    assert_eq!(children().len(), 1, "the guardian alone");
    assert_eq!(left(), Vec::<String>::new());
    bench.stop().await;
    assert_eq!(children(), Vec::<String>::new());
}
