use keepwarm_workers::supervisor::{Exit, LinkEvent, WorkerKey, WorkerState};
use rustix::process::{Pid, Signal, kill_process};

use crate::fake::LinkCall;
use crate::harness::{Bench, SERVE, printed, records, sh, until, wait_printed};

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_crash_loop_backs_off_gives_up_and_leaves_its_sibling_untouched() {
    let bench = Bench::start(vec![sh("loop", "exit 3"), sh("loop-sibling", SERVE)]).await;
    let failure = bench.start_failure().await;
    assert_eq!((&*failure.app, failure.worker, failure.exit), ("loop", 1, Some(Exit::Status(3))));
    assert_eq!(failure.reason, "exited with status 3");
    assert_eq!(bench.adopted("loop"), 4, "one start and three retries");

    let waits: Vec<u64> =
        records("loop").iter().filter_map(|record| record.field("wait_ms")?.parse().ok()).collect();
    assert_eq!(waits.len(), 3);
    for (wait, longest) in waits.into_iter().zip([100, 200, 400]) {
        assert!((longest / 2..=longest).contains(&wait), "{wait} ms of {longest}");
    }
    let errors = records("loop").into_iter().filter(|record| record.level == tracing::Level::ERROR).count();
    assert_eq!(errors, 1, "one error record, not one for each try");
    let failed = LinkCall::Failed("loop".to_owned(), Some("worker 1 exited with status 3".to_owned()));
    assert_eq!(bench.links.told().iter().filter(|told| **told == failed).count(), 1);
    let snapshot = bench.supervisor.snapshot().await;
    assert_eq!(snapshot.failed.len(), 1);
    assert_eq!(snapshot.failed[0].reason, "worker 1 exited with status 3");

    let sibling = bench.wait_ready("loop-sibling", 1).await;
    assert_eq!(sibling[0].restarts, 0);
    assert_eq!(bench.adopted("loop-sibling"), 1);

    // A reload tries again.
    let report = bench.supervisor.reload(vec![sh("loop", SERVE), sh("loop-sibling", SERVE)]).await.unwrap();
    assert_eq!(report.generation, 2);
    assert_eq!(bench.wait_ready("loop", 1).await[0].generation, 2);
    assert!(bench.links.told().contains(&LinkCall::Failed("loop".to_owned(), None)));
    assert!(bench.supervisor.snapshot().await.failed.is_empty());
    bench.stop().await;
}

#[tokio::test]
async fn workers_that_say_hello_and_die_are_given_up_too() {
    let script = r#"printf HELLO >&"$KEEPWARM_FD"; kill -SEGV $$"#;
    let bench = Bench::start(vec![sh("segv", script)]).await;
    bench.wait_told("the app is given up", |told| matches!(told, LinkCall::Failed(_, Some(_)))).await;
    let snapshot = bench.supervisor.snapshot().await;
    assert!(snapshot.failed[0].reason.contains("killed by signal 11 (SIGSEGV)"), "{snapshot:?}");
    assert_eq!(bench.adopted("segv"), 4);
    bench.stop().await;
}

#[tokio::test]
async fn a_failed_import_is_reported_with_its_traceback_and_not_retried() {
    let mut spec = sh("import", "");
    spec.command = ["python3", "-c", "import keepwarm_no_such_module"].map(Into::into).to_vec();
    spec.workers = 3;
    let bench = Bench::start(vec![spec]).await;
    let failure = bench.start_failure().await;
    assert_eq!(failure.exit, Some(Exit::Status(1)));
    let mut shown = Vec::new();
    failure.write_to(&mut shown).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.starts_with("Traceback (most recent call last):\n"), "{shown}");
    assert!(
        shown.contains(
            "\nModuleNotFoundError: No module named 'keepwarm_no_such_module'\nkeepwarm: app \"import\" "
        ),
        "{shown}"
    );
    assert!(shown.ends_with(" exited with status 1\n"), "{shown}");
    assert_eq!(shown.matches("Traceback").count(), 1);
    let adopted = bench.adopted("import");
    bench.stop().await;
    assert!(adopted <= 3, "no worker was tried twice");
    assert_eq!(printed("import"), [""; 0], "what the failure tells is not in the log too");
}

#[tokio::test]
async fn what_is_held_back_in_the_first_boot_is_in_the_log_once_the_worker_is_ready() {
    let bench = Bench::start_ready(vec![sh("warns", &format!("echo careful >&2; {SERVE}"))]).await;
    wait_printed("warns", "careful").await;
    bench.stop().await;
    assert_eq!(printed("warns"), ["careful"]);
}

#[tokio::test]
async fn what_is_held_back_is_in_the_log_when_the_worker_is_tried_again() {
    let bench = Bench::start(vec![sh("retried", "echo attempt >&2; exit 4")]).await;
    let failure = bench.start_failure().await;
    assert_eq!(failure.stderr, b"attempt\n");
    bench.stop().await;
    assert_eq!(printed("retried"), ["attempt"; 3], "the fourth is in the failure");
}

#[tokio::test]
async fn a_killed_worker_is_replaced_and_its_wire_adopted() {
    let bench = Bench::start_ready(vec![sh("killed", SERVE)]).await;
    let before = bench.wait_ready("killed", 1).await;
    kill(before[0].pid.unwrap());
    let after = until("another worker", async || {
        let workers = bench.workers("killed", WorkerState::Ready).await;
        workers.into_iter().find(|worker| worker.pid != before[0].pid)
    })
    .await;
    assert_eq!((after.number, after.generation, after.restarts), (1, 1, 1));
    let reasons: Vec<_> =
        records("killed").iter().filter_map(|r| r.field("reason").map(str::to_owned)).collect();
    assert!(reasons.iter().any(|reason| reason.contains("killed by signal 9 (SIGKILL)")), "{reasons:?}");
    bench.stop().await;
}

#[tokio::test]
async fn a_boot_that_takes_too_long_is_ended() {
    let mut spec = sh("slow-boot", "sleep 1000");
    spec.boot_timeout = std::time::Duration::from_millis(100);
    spec.start_retries = 0;
    let bench = Bench::start(vec![spec]).await;
    let failure = bench.start_failure().await;
    assert_eq!(failure.reason, "was not ready within 100ms; killed by signal 15 (SIGTERM)");
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_that_the_dispatching_side_condemns_is_killed_and_replaced() {
    let bench = Bench::start_ready(vec![sh("condemned", SERVE)]).await;
    let worker = bench.wait_ready("condemned", 1).await.remove(0);
    let pid = worker.pid.unwrap();
    let key = WorkerKey { app: worker.app, number: 1, generation: 1, pid };
    bench.links.say(LinkEvent::Kill { worker: key, reason: "request timed out".to_owned() });
    until("another worker", async || {
        let workers = bench.workers("condemned", WorkerState::Ready).await;
        workers.into_iter().find(|worker| worker.pid != Some(pid))
    })
    .await;
    let told =
        records("condemned").into_iter().filter_map(|record| record.field("reason").map(str::to_owned));
    assert_eq!(told.collect::<Vec<_>>().last().unwrap(), "request timed out; killed by signal 9 (SIGKILL)");
    bench.stop().await;
}

/// As [`SERVE`], and shows a stack when it is asked for one.
const SERVE_WITH_STACK: &str = r#"
    trap 'echo the stack of the worker >&2' QUIT
    printf HELLO >&"$KEEPWARM_FD"
    cat <&"$KEEPWARM_FD" >/dev/null &
    while kill -0 $! 2>/dev/null; do wait $!; done"#;

#[tokio::test]
async fn a_worker_that_is_stuck_shows_its_stack_before_it_is_killed() {
    // The other ignores the question, and is killed all the same.
    let silent = format!("trap '' QUIT; {SERVE}");
    let bench = Bench::start_ready(vec![sh("stuck", SERVE_WITH_STACK), sh("stuck-silent", &silent)]).await;
    for app in ["stuck", "stuck-silent"] {
        let worker = bench.wait_ready(app, 1).await.remove(0);
        let pid = worker.pid.unwrap();
        let key = WorkerKey { app: worker.app, number: 1, generation: 1, pid };
        bench.links.say(LinkEvent::Stuck { worker: key, reason: "hangs".to_owned() });
        until("another worker", async || {
            let workers = bench.workers(app, WorkerState::Ready).await;
            workers.into_iter().find(|worker| worker.pid != Some(pid))
        })
        .await;
        let told = records(app).into_iter().filter_map(|record| record.field("reason").map(str::to_owned));
        assert_eq!(told.collect::<Vec<_>>().last().unwrap(), "hangs; killed by signal 9 (SIGKILL)");
    }
    assert_eq!(printed("stuck"), ["the stack of the worker"]);
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_shows_its_stack_and_goes_on() {
    let bench = Bench::start_ready(vec![sh("shows", SERVE_WITH_STACK)]).await;
    let worker = bench.wait_ready("shows", 1).await.remove(0);
    let pid = worker.pid.unwrap();
    assert_eq!(bench.supervisor.stack(pid).await.unwrap(), b"the stack of the worker\n");
    let key = WorkerKey { app: worker.app, number: 1, generation: 1, pid };
    bench.links.say(LinkEvent::Slow { worker: key });
    until("it is in the log twice", async || (printed("shows").len() == 2).then_some(())).await;
    assert_eq!(bench.wait_ready("shows", 1).await[0].pid, Some(pid));
    assert_eq!(bench.supervisor.stack(1).await, None);
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_that_wants_to_go_is_replaced_first() {
    let bench = Bench::start_ready(vec![sh("leaving", SERVE)]).await;
    let worker = bench.wait_ready("leaving", 1).await.remove(0);
    let old = WorkerKey { app: worker.app, number: 1, generation: 1, pid: worker.pid.unwrap() };
    bench.links.say(LinkEvent::WantsDrain { worker: old.clone() });
    let retired = LinkCall::Retired(old.clone());
    bench.wait_told("the old one is retired", |told| *told == retired).await;
    // At that moment the new one was ready.
    let ready = bench.workers("leaving", WorkerState::Ready).await;
    assert_eq!(ready.len(), 1);
    assert_ne!(ready[0].pid, Some(old.pid));
    until("the old one has gone", async || {
        (bench.supervisor.snapshot().await.workers.len() == 1).then_some(())
    })
    .await;
    bench.stop().await;
}
