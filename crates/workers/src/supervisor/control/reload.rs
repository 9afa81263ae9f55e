//! Reloads: a new generation of every app beside the old one, which takes its place when all of it is ready.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Control, now, stopped};
use crate::supervisor::app::Phase;
use crate::supervisor::{AppSpec, RecycleReason, ReloadReport, StartFailure};

/// A requested reload, in the queue.
pub(super) struct ReloadRequest {
    pub(super) apps: Vec<AppSpec>,
    pub(super) scope: ReloadScope,
    pub(super) reply: oneshot::Sender<Result<ReloadReport, StartFailure>>,
    pub(super) at: Instant,
}

/// What happens to apps that a reload does not name.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum ReloadScope {
    /// They end: the reload names all that is to run.
    All,
    /// They go on. It is one for their changed files.
    These,
}

/// The reload that is in progress.
pub(super) struct PendingReload {
    pub(super) generation: u64,
    pub(super) apps: BTreeSet<Arc<str>>,
    scope: ReloadScope,
    pub(super) reply: oneshot::Sender<Result<ReloadReport, StartFailure>>,
    pub(super) requested_at: Instant,
}

impl Control {
    pub(super) fn start_trial(&mut self, now: Instant) {
        while self.trial.is_none()
            && let Some(ReloadRequest { apps, scope, reply, at }) = self.queue.pop_front()
        {
            let refused = if self.stopping.is_some() { Err(stopped(Arc::from(""), 0)) } else { check(&apps) };
            if let Err(failure) = refused {
                // An error: the caller has gone; the log has the failure.
                let _ = reply.send(Err(failure));
                continue;
            }
            self.generation += 1;
            let names = apps.iter().map(|spec| spec.name.clone()).collect();
            self.trial = Some(PendingReload {
                generation: self.generation,
                apps: names,
                scope,
                reply,
                requested_at: at,
            });
            for mut spec in apps {
                let serving = self.current.get(&spec.name).map(|&generation| (spec.name.clone(), generation));
                if let (ReloadScope::These, Some(key)) = (scope, serving)
                    && let Some(running) = self.running.get_mut(&key)
                {
                    running.machine.give_way(now);
                    let _ = running.drive(&self.context, now);
                }
                self.keep_size(&mut spec);
                self.add(spec, Phase::Trial, scope == ReloadScope::These, now);
            }
            self.finish_trial(now);
        }
    }

    /// When its workers are ready, the new generation is the current one.
    pub(super) fn finish_trial(&mut self, now: Instant) {
        let Some(trial) = &self.trial else { return };
        let ready = |app: &Arc<str>| {
            self.running
                .get(&(app.clone(), trial.generation))
                .is_some_and(|running| running.machine.may_take_over())
        };
        if !trial.apps.iter().all(ready) {
            return;
        }
        let Some(PendingReload { generation, apps, scope, reply, requested_at }) = self.trial.take() else {
            return;
        };
        // Before the old generation is retired: at every moment somebody takes requests.
        self.context.links.promote(&apps, generation);
        let mut old = std::mem::take(&mut self.current);
        if scope == ReloadScope::These {
            self.current = old.extract_if(.., |app, _| !apps.contains(app)).collect();
        }
        if scope == ReloadScope::All {
            // What is told of an app that is gone goes with it.
            self.history.retain(|app, _| apps.contains(app));
        }
        self.current.extend(apps.iter().map(|app| (app.clone(), generation)));
        for app in &apps {
            if let Some(running) = self.running.get_mut(&(app.clone(), generation)) {
                running.machine.commit(now);
            }
        }
        for key in &old {
            self.context.links.set_failed(key.0, None);
        }
        let why = if scope == ReloadScope::These { RecycleReason::Watch } else { RecycleReason::Reload };
        let removed = old.keys().filter(|app| !apps.contains(*app)).cloned().collect();
        for key in old {
            if let Some(running) = self.running.get_mut(&key) {
                running.machine.retire(Duration::MAX, Some(why), now);
                let _ = running.drive(&self.context, now);
            }
        }
        let apps = apps.into_iter().collect();
        let report =
            ReloadReport { generation, apps, removed, took: now.saturating_duration_since(requested_at) };
        tracing::info!(
            name: "generation_replaced", target: "keepwarm::supervisor",
            generation, took_ms = report.took.as_millis(), "reloaded: new workers serve, old ones drain"
        );
        let _ = reply.send(Ok(report));
    }

    /// The new generation goes, the old one stays.
    pub(super) fn end_trial(&mut self, failure: StartFailure) {
        let Some(PendingReload { generation, apps, reply, .. }) = self.trial.take() else { return };
        let now = now();
        for app in apps {
            if let Some(running) = self.running.get_mut(&(app, generation)) {
                running.machine.retire(Duration::MAX, None, now);
            }
        }
        let _ = reply.send(Err(failure));
    }

    /// An app whose number of workers follows its load keeps its current number, instead of returning to the initial one.
    fn keep_size(&self, spec: &mut AppSpec) {
        let key = self.current.get(&spec.name).map(|&generation| (spec.name.clone(), generation));
        let old = key.and_then(|key| self.running.get(&key));
        if let (Some(scaling), Some(old)) = (spec.scaling, old) {
            let min = scaling.min.max(1);
            spec.workers = old.machine.target().clamp(min, scaling.max.max(min));
        }
    }
}

/// What cannot be started whatever the workers do.
pub(super) fn check(apps: &[AppSpec]) -> Result<(), StartFailure> {
    let mut names = BTreeSet::new();
    for spec in apps {
        let reason = if spec.command.is_empty() {
            "it has no command"
        } else if !names.insert(&spec.name) {
            "another app has the same name"
        } else {
            continue;
        };
        let (app, reason) = (spec.name.clone(), reason.to_owned());
        return Err(StartFailure { app, worker: 0, reason, exit: None, stderr: Vec::new() });
    }
    Ok(())
}
