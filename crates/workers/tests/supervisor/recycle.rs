use std::time::Duration;

use keepwarm_policy::scaler::{AppLoad, LONG_WAIT};
use keepwarm_workers::supervisor::{
    AppSnapshot, Death, LinkEvent, Reason, RecycleReason, Scaling, WorkerKey, WorkerSnapshot, WorkerState,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::fake::LinkCall;
use crate::harness::{Bench, SERVE, records, sh, until, wait_printed};

fn key(worker: &WorkerSnapshot) -> WorkerKey {
    WorkerKey {
        app: worker.app.clone(),
        number: worker.number,
        generation: worker.generation,
        pid: worker.pid.unwrap(),
    }
}

async fn app(bench: &Bench, name: &str) -> AppSnapshot {
    let apps = bench.supervisor.snapshot().await.apps;
    apps.into_iter().find(|app| &*app.app == name).unwrap()
}

#[tokio::test]
async fn a_worker_that_has_taken_its_requests_is_replaced_first_and_counted() {
    let mut spec = sh("counted", SERVE);
    spec.workers = 2;
    let bench = Bench::start_ready(vec![spec.clone()]).await;
    let before = bench.wait_ready("counted", 2).await;
    assert_eq!(app(&bench, "counted").await.target, 2);
    assert!(before.iter().all(|worker| worker.started.is_some() && worker.requests == 0));
    bench.links.say(LinkEvent::RequestsReached { worker: key(&before[1]) });
    let retired = LinkCall::Retired(key(&before[1]));
    bench.wait_told("it is retired", |told| *told == retired).await;
    let ready = bench.workers("counted", WorkerState::Ready).await;
    assert_eq!(ready.len(), 2, "its replacement was ready before");
    assert_eq!(app(&bench, "counted").await.recycles.of(RecycleReason::Requests), 1);

    kill_process(Pid::from_raw(before[0].pid.unwrap().cast_signed()).unwrap(), Signal::KILL).unwrap();
    let dead = until("a death is counted", async || {
        Some(app(&bench, "counted").await).filter(|app| app.deaths.total() > 0)
    })
    .await;
    assert_eq!(dead.deaths.of(Death::Signal), 1);
    let last = dead.last_death.unwrap();
    assert_eq!((last.number, last.generation, last.death), (1, 1, Death::Signal));
    assert_eq!(last.reason, "killed by signal 9 (SIGKILL)");

    // Counts go on over a reload.
    bench.wait_ready("counted", 2).await;
    bench.supervisor.reload(vec![spec]).await.unwrap();
    until("the old generation has gone", async || {
        let workers = bench.supervisor.snapshot().await.workers;
        workers.iter().all(|worker| worker.generation == 2).then_some(())
    })
    .await;
    let after = app(&bench, "counted").await;
    assert_eq!((after.generation, after.deaths.total()), (2, 1));
    let recycles: Vec<_> = after.recycles.iter().filter(|&(_, count)| count > 0).collect();
    assert_eq!(recycles, [(RecycleReason::Requests, 1), (RecycleReason::Reload, 2)]);
    bench.stop().await;
}

#[tokio::test]
async fn memory_is_looked_at_and_told() {
    let mut spec = sh("heavy", "");
    let code = "import os, sys; os.write(int(os.environ['KEEPWARM_FD']), b'HELLO'); x = b'x' * (48 << 20); \
                print('holds', flush=True); os.read(int(os.environ['KEEPWARM_FD']), 1)";
    spec.command = ["python3", "-c", code].map(Into::into).to_vec();
    let bench = Bench::start_ready(vec![spec]).await;
    wait_printed("heavy", "holds").await;
    let memory = seen("its memory", async || {
        let memory = bench.supervisor.snapshot().await.workers[0].memory?;
        (memory.own > 48 << 20).then_some(memory)
    })
    .await;
    assert!(memory.own < 500 << 20 && memory.shared > 0, "{memory:?}");
    bench.stop().await;
}

#[tokio::test]
async fn a_worker_over_kill_memory_is_killed_whatever_it_does() {
    let mut spec = sh("greedy", "");
    // The second one is content with less.
    let code = "import os; fd = int(os.environ['KEEPWARM_FD']); os.write(fd, b'HELLO'); \
                first = not os.path.exists(os.environ['MARK']); open(os.environ['MARK'], 'w').close(); \
                x = b'x' * ((96 if first else 1) << 20); os.read(fd, 1)";
    let mark = std::env::temp_dir().join(format!("keepwarm-greedy-{}", std::process::id()));
    spec.env.push(("MARK".into(), mark.clone().into()));
    spec.command = ["python3", "-c", code].map(Into::into).to_vec();
    spec.recycling.kill_memory = Some(64 << 20);
    let bench = Bench::start_ready(vec![spec]).await;
    let dead = until("it is killed", async || {
        Some(app(&bench, "greedy").await).filter(|app| app.deaths.total() > 0)
    })
    .await;
    assert_eq!(dead.deaths.of(Death::Memory), 1, "{dead:?}");
    assert!(dead.last_death.unwrap().reason.contains("above kill_memory (64 MiB)"));
    assert_eq!(bench.wait_ready("greedy", 1).await[0].restarts, 1);
    bench.stop().await;
    std::fs::remove_file(mark).unwrap();
}

#[tokio::test]
async fn an_idle_worker_that_owes_a_response_for_too_long_is_replaced() {
    let mut spec = sh("silent", SERVE);
    spec.hang_timeout = Some(Duration::from_millis(1));
    let bench = Bench::start_ready(vec![spec]).await;
    let before = bench.wait_ready("silent", 1).await.remove(0);
    bench.links.set_silent(true);
    let dead = until("it is killed", async || {
        Some(app(&bench, "silent").await).filter(|app| app.deaths.total() > 0)
    })
    .await;
    bench.links.set_silent(false);
    assert_eq!(dead.deaths.of(Death::Hang), 1, "{dead:?}");
    until("another worker", async || {
        let ready = bench.workers("silent", WorkerState::Ready).await;
        ready.into_iter().find(|worker| worker.pid != before.pid)
    })
    .await;
    bench.stop().await;
}

#[tokio::test]
async fn the_number_of_workers_follows_the_load_and_a_reload_keeps_it() {
    let mut spec = sh("scaled", SERVE);
    spec.scaling = Some(Scaling { min: 1, max: 3, idle: Duration::from_millis(300) });
    let bench = Bench::start_ready(vec![spec.clone()]).await;
    bench.wait_ready("scaled", 1).await;
    bench.links.set_load(AppLoad { needed: 3, oldest: LONG_WAIT, begun: 1, late: 1 });
    bench.wait_ready("scaled", 3).await;
    assert_eq!(app(&bench, "scaled").await.target, 3);
    bench.supervisor.reload(vec![spec]).await.unwrap();
    let young = bench.workers("scaled", WorkerState::Ready).await;
    assert_eq!(young.iter().filter(|worker| worker.generation == 2).count(), 3);
    bench.links.set_load(AppLoad::default());
    until("one is left", async || (bench.supervisor.snapshot().await.workers.len() == 1).then_some(())).await;
    assert_eq!(app(&bench, "scaled").await.recycles.of(RecycleReason::Scale), 2);
    bench.stop().await;
}

#[tokio::test]
async fn a_person_adds_and_takes_away_workers() {
    let bench = Bench::start_ready(vec![sh("shifted", SERVE), sh("shifted-too", SERVE)]).await;
    bench.supervisor.shift_workers(2);
    for name in ["shifted", "shifted-too"] {
        bench.wait_ready(name, 3).await;
    }
    bench.supervisor.shift_workers(-5);
    until("one each", async || (bench.supervisor.snapshot().await.workers.len() == 2).then_some(())).await;
    bench.supervisor.shift_workers(-1);
    until("it is said that this is the least", async || {
        records("shifted").iter().find(|r| r.message().starts_with("worker count unchanged")).map(|_| ())
    })
    .await;
    assert_eq!(app(&bench, "shifted").await.target, 1);
    bench.stop().await;
}

/// As [`until`], for what nobody records: looks again and again.
async fn seen<T>(what: &str, mut test: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = std::time::Instant::now();
    loop {
        if let Some(found) = test().await {
            return found;
        }
        assert!(begin.elapsed() < crate::harness::BOUND, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn names_are_stable() {
    assert_eq!(
        RecycleReason::ALL.iter().map(|why| why.name()).collect::<Vec<_>>().join(" "),
        "requests age memory watch reload scale credit requested operator"
    );
    assert_eq!(
        Death::ALL.iter().map(|death| death.name()).collect::<Vec<_>>().join(" "),
        "exit signal timeout memory boot_timeout wire hang drain spawn"
    );
}
