use std::time::Duration;

use keepwarm_workers::supervisor::{Exit, WorkerState};

use crate::fake::LinkCall;
use crate::harness::{Bench, Process, SERVE, printed, sh, until};

#[tokio::test]
async fn a_reload_retires_the_old_generation_when_the_new_one_is_ready() {
    let mut spec = sh("reload", SERVE);
    spec.workers = 2;
    let bench = Bench::start_ready(vec![spec.clone(), sh("reload-gone", SERVE)]).await;
    let old = bench.wait_ready("reload", 2).await;
    let ends: Vec<_> = old.iter().map(|worker| Process::new(worker.pid.unwrap())).collect();

    let report = bench.supervisor.reload(vec![spec, sh("reload-new", SERVE)]).await.unwrap();
    assert_eq!(report.generation, 2);
    assert_eq!(report.apps, ["reload".into(), "reload-new".into()]);
    assert_eq!(report.removed, ["reload-gone".into()]);

    // Every new worker was adopted before any old one was retired, and no old one retired twice.
    let told = bench.links.told();
    let first_retired = told.iter().position(|told| matches!(told, LinkCall::Retired(_))).unwrap();
    let adopted = told[..first_retired].iter().filter(|told| matches!(told, LinkCall::Adopted(_))).count();
    assert_eq!((adopted, told.len() - first_retired), (6, 3), "{told:#?}");
    assert_eq!(
        told.iter().filter(|told| matches!(told, LinkCall::Retired(key) if key.generation == 1)).count(),
        3
    );

    for end in &ends {
        end.wait_end();
    }
    until("only the new generation", async || {
        let workers = bench.supervisor.snapshot().await.workers;
        (workers.len() == 3 && workers.iter().all(|worker| worker.generation == 2)).then_some(())
    })
    .await;
    bench.stop().await;
}

#[tokio::test]
async fn a_reload_that_fails_keeps_the_old_generation_of_every_app() {
    let bench = Bench::start_ready(vec![sh("keeps", SERVE), sh("keeps-too", SERVE)]).await;
    let before = (bench.wait_ready("keeps", 1).await, bench.wait_ready("keeps-too", 1).await);

    let broken = sh("keeps", "echo cannot load >&2; exit 1");
    let failure = bench.supervisor.reload(vec![broken, sh("keeps-too", SERVE)]).await.unwrap_err();
    assert_eq!((&*failure.app, failure.exit), ("keeps", Some(Exit::Status(1))));
    assert_eq!(failure.stderr, b"cannot load\n");

    // The new generation goes, all of it.
    until("only the old generation", async || {
        let workers = bench.supervisor.snapshot().await.workers;
        workers.iter().all(|worker| worker.generation == 1).then_some(())
    })
    .await;
    assert_eq!(bench.workers("keeps", WorkerState::Ready).await[0].pid, before.0[0].pid);
    assert_eq!(bench.workers("keeps-too", WorkerState::Ready).await[0].pid, before.1[0].pid);
    let retired_old = |told: &LinkCall| matches!(told, LinkCall::Retired(key) if key.generation == 1);
    assert!(!bench.links.told().iter().any(retired_old));
    assert!(
        !bench.links.told().iter().any(|told| matches!(told, LinkCall::Failed(..))),
        "the app has not failed"
    );
    assert_eq!(printed("keeps"), ["cannot load"], "outside of the first boot the log has everything");

    // And the next reload works.
    let report = bench.supervisor.reload(vec![sh("keeps", SERVE)]).await.unwrap();
    assert_eq!(report.generation, 3);
    bench.stop().await;
}

#[tokio::test]
async fn a_reload_during_a_reload_waits_for_its_turn() {
    let bench = Bench::start_ready(vec![sh("turns", SERVE)]).await;
    let reload = || bench.supervisor.reload(vec![sh("turns", SERVE)]);
    let (first, second, third) = tokio::join!(reload(), reload(), reload());
    let generations = [first, second, third].map(|report| report.unwrap().generation);
    assert_eq!(generations, [2, 3, 4]);
    bench.stop().await;
}

#[tokio::test]
async fn a_stop_during_a_reload_replies_to_both() {
    let bench = Bench::start_ready(vec![sh("torn", SERVE)]).await;
    let reload = bench.supervisor.reload(vec![sh("torn", "sleep 1000")]);
    let stop = async {
        until("the new worker", async || (bench.adopted("torn") == 2).then_some(())).await;
        bench.supervisor.stop(Duration::from_secs(10)).await;
    };
    let (reloaded, ()) = tokio::join!(reload, stop);
    let failure = reloaded.unwrap_err();
    assert_eq!((&*failure.app, failure.worker), ("torn", 1));
    assert_eq!(failure.reason, "was not ready when Keepwarm was stopped");
    assert!(bench.supervisor.reload(Vec::new()).await.is_err());
}

#[tokio::test]
async fn two_apps_with_one_name_are_refused() {
    let bench = Bench::start_ready(vec![sh("twice", SERVE)]).await;
    let failure = bench.supervisor.reload(vec![sh("twice", SERVE), sh("twice", SERVE)]).await.unwrap_err();
    assert_eq!(failure.to_string(), "app \"twice\" could not be started: another app has the same name");
    assert_eq!(bench.adopted("twice"), 1);
    bench.stop().await;
}

/// Its HELLO may be on its way: it would be taken for a worker of the next reload.
#[tokio::test]
async fn a_worker_that_is_still_starting_when_its_reload_fails_gets_no_requests() {
    let bench = Bench::start_ready(vec![sh("starting", SERVE), sh("breaks", SERVE)]).await;
    let broken = sh("breaks", "sleep 0.1; exit 1");
    bench.supervisor.reload(vec![sh("starting", "sleep 60"), broken]).await.unwrap_err();
    let retired = |told: &LinkCall| matches!(told, LinkCall::Retired(key) if key.generation == 2 && &*key.app == "starting");
    bench.wait_told("it is retired", retired).await;
    bench.stop().await;
}
