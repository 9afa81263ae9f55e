use std::time::{Duration, Instant};

use keepwarm_workers::supervisor::{LinkEvent, WorkerKey, WorkerState};

use crate::harness::{Bench, Process, SERVE, records, sh, until, wait_printed};

#[tokio::test]
async fn a_stop_drains_and_leaves_no_process() {
    let mut spec = sh("stopped", &format!("echo ready; {SERVE}; echo drained"));
    spec.workers = 3;
    let bench = Bench::start_ready(vec![spec]).await;
    let workers = bench.wait_ready("stopped", 3).await;
    let ends: Vec<_> = workers.iter().map(|worker| Process::new(worker.pid.unwrap())).collect();
    let supervisor = bench.supervisor.clone();
    bench.stop().await;
    assert!(ends.iter().all(Process::has_ended));
    let drained = records("stopped").iter().filter(|record| record.message() == "drained").count();
    assert_eq!(drained, 3, "their last words are in the log");
    let exits = records("stopped").iter().filter(|r| r.message().ends_with("exited with status 0")).count();
    assert_eq!(exits, 3);
    assert!(
        !records("stopped").iter().any(|record| record.message().contains("SIG")),
        "nobody was signalled"
    );
    // Calls after the end still return.
    assert!(supervisor.snapshot().await.workers.is_empty());
    supervisor.stop(Duration::ZERO).await;
    assert_eq!(supervisor.wait_first_boot().await.len(), 1);
}

#[tokio::test]
async fn a_worker_that_does_not_finish_is_terminated_and_its_children_killed() {
    // It ignores the end of the wire; its child ignores SIGTERM.
    let script = r#"printf HELLO >&"$KEEPWARM_FD"
        sh -c 'trap "" TERM HUP; echo child $$; while :; do sleep 1000; done' & wait"#;
    let mut spec = sh("stubborn", script);
    spec.drain_timeout = Duration::from_millis(50);
    let bench = Bench::start_ready(vec![spec]).await;
    let child = Process::new(wait_printed("stubborn", "child ").await.parse().unwrap());
    bench.stop().await;
    assert!(
        records("stubborn")
            .iter()
            .any(|record| record.message().contains("did not finish in time: sending SIGTERM"))
    );
    child.wait_end();
}

#[tokio::test]
async fn a_worker_that_ignores_sigterm_is_killed_two_seconds_later() {
    let script = r#"trap '' TERM; printf HELLO >&"$KEEPWARM_FD"; while :; do sleep 1000; done"#;
    let bench = Bench::start_ready(vec![sh("immune", script)]).await;
    let began = Instant::now();
    bench.supervisor.stop(Duration::from_millis(50)).await;
    assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&began.elapsed()));
    assert!(
        records("immune").iter().any(|record| record.message().ends_with("killed by signal 9 (SIGKILL)"))
    );
}

#[tokio::test]
async fn a_second_stop_can_cut_the_first_short() {
    let script = r#"trap '' TERM; printf HELLO >&"$KEEPWARM_FD"; while :; do sleep 1000; done"#;
    let bench = Bench::start_ready(vec![sh("hurried", script)]).await;
    let (first, second) = (bench.supervisor.clone(), bench.supervisor.clone());
    let hurry = async {
        until("the drain", async || {
            (!bench.workers("hurried", WorkerState::Draining).await.is_empty()).then_some(())
        })
        .await;
        second.stop(Duration::ZERO).await;
    };
    let began = Instant::now();
    tokio::join!(first.stop(Duration::from_secs(1000)), hurry);
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn dropping_the_last_handle_kills_everything() {
    let bench = Bench::start_ready(vec![sh("dropped", SERVE)]).await;
    let worker = Process::new(bench.wait_ready("dropped", 1).await[0].pid.unwrap());
    drop(bench);
    tokio::task::spawn_blocking(move || worker.wait_end()).await.unwrap();
}

#[tokio::test]
async fn dropping_the_last_handle_right_behind_a_command_kills_everything() {
    let bench = Bench::start_ready(vec![sh("dropped-behind", SERVE)]).await;
    let worker = Process::new(bench.wait_ready("dropped-behind", 1).await[0].pid.unwrap());
    // The supervisor's task, which is this thread's, has not had its turn when the handle goes.
    bench.supervisor.guard_file(std::path::Path::new("/nowhere/at/all"));
    drop(bench);
    tokio::task::spawn_blocking(move || worker.wait_end()).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_runtime_kills_everything() {
    // Not even the supervisor's task can run: the parent-death signal and the guardian do it.
    let (pid_sender, pid) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench =
                Bench::start_ready(vec![sh("ended", &format!("sleep 1000 & echo child $!; {SERVE}"))]).await;
            let child = wait_printed("ended", "child ").await.parse::<u32>().unwrap();
            let worker = bench.wait_ready("ended", 1).await[0].pid.unwrap();
            pid_sender.send((Process::new(worker), Process::new(child))).ok().unwrap();
            std::mem::forget(bench);
        });
    });
    let (worker, child) = pid.await.unwrap();
    thread.join().unwrap();
    worker.wait_end();
    child.wait_end();
}

/// Starts something that leaves the worker's group and session, and says its number.
const DAEMON: &str = "(setsid sh -c 'echo daemon $$; exec sleep 1000' &)";

#[tokio::test]
async fn what_has_left_its_workers_session_ends_with_the_supervisor() {
    let bench = Bench::start_ready(vec![sh("daemons", &format!("{DAEMON}; {SERVE}"))]).await;
    let daemon = Process::new(wait_printed("daemons", "daemon ").await.parse().unwrap());
    bench.stop().await;
    assert!(daemon.has_ended(), "when the stop is over");
}

#[tokio::test]
async fn what_has_left_its_workers_session_ends_when_its_app_is_removed() {
    let both = ["removed", "kept"].map(|name| sh(name, &format!("{DAEMON}; {SERVE}"))).to_vec();
    let bench = Bench::start_ready(both.clone()).await;
    let removed = Process::new(wait_printed("removed", "daemon ").await.parse().unwrap());
    let kept = Process::new(wait_printed("kept", "daemon ").await.parse().unwrap());
    bench.supervisor.reload(vec![both[1].clone()]).await.unwrap();
    // No record tells of its end.
    tokio::task::spawn_blocking(move || removed.wait_end()).await.unwrap();
    assert!(!kept.has_ended());
    bench.stop().await;
    assert!(kept.has_ended());
}

#[tokio::test]
async fn what_a_worker_has_started_outlives_its_planned_replacement_and_ends_with_the_app() {
    let script = format!("sleep 1000 >/dev/null 2>&1 & echo child $!; {DAEMON}; {SERVE}");
    let bench = Bench::start_ready(vec![sh("replaced", &script)]).await;
    let child = Process::new(wait_printed("replaced", "child ").await.parse().unwrap());
    let daemon = Process::new(wait_printed("replaced", "daemon ").await.parse().unwrap());
    let worker = bench.wait_ready("replaced", 1).await.remove(0);
    let old = Process::new(worker.pid.unwrap());
    let key = WorkerKey { app: worker.app, number: 1, generation: 1, pid: worker.pid.unwrap() };
    bench.links.say(LinkEvent::WantsDrain { worker: key });
    until("the old one has gone", async || old.has_ended().then_some(())).await;
    until("it is reaped", async || (bench.supervisor.snapshot().await.workers.len() == 1).then_some(()))
        .await;
    assert!(!child.has_ended() && !daemon.has_ended());
    bench.stop().await;
    assert!(child.has_ended() && daemon.has_ended());
}
