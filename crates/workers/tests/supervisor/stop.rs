use std::time::{Duration, Instant};

use keepwarm_workers::supervisor::WorkerState;

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
    // What is asked after the end is answered.
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
        records("stubborn").iter().any(|record| record.message().contains("did not finish in time: SIGTERM"))
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
