//! The snapshot of all apps.

use std::sync::Arc;

use super::{Control, RunningGeneration};
use crate::supervisor::app::{Phase, Tally};
use crate::supervisor::descendants;
use crate::supervisor::spawn::SpawnerCommand;
use crate::supervisor::{AppSnapshot, FailedApp, LastDeath, Snapshot};

impl Control {
    pub(super) fn snapshot(&self) -> Snapshot {
        let failed = self.current.iter().filter_map(|(app, &generation)| {
            let running = self.running.get(&(app.clone(), generation))?;
            let Phase::Failed(reason) = running.machine.phase() else { return None };
            Some(FailedApp { app: app.clone(), reason: reason.clone() })
        });
        Snapshot {
            workers: self.running.values().flat_map(RunningGeneration::snapshot).collect(),
            apps: self.current.iter().map(|(app, &generation)| self.app(app, generation)).collect(),
            failed: failed.collect(),
        }
    }

    /// Drops generations that are over, and keeps their totals.
    pub(super) fn forget_over(&mut self) {
        let current = &self.current;
        let is_over = |(app, generation): &(Arc<str>, u64), running: &mut RunningGeneration| {
            running.machine.is_over() && current.get(app) != Some(generation)
        };
        let over: Vec<_> = self.running.extract_if(.., is_over).collect();
        for ((app, generation), running) in over {
            let is_left =
                self.current.contains_key(&app) || self.running.keys().any(|(name, _)| *name == app);
            if !is_left && self.stopping.is_none() {
                // The thread ends only after the last clone of `orders`.
                let left = SpawnerCommand::KillLeft(vec![descendants::of_app(&app)], None);
                let _ = self.context.orders.send(left);
            }
            if current.contains_key(&app) {
                self.history.entry(app).or_default().add(running.machine.tally(), generation);
            }
        }
    }

    fn app(&self, app: &Arc<str>, generation: u64) -> AppSnapshot {
        let serving = self.running.get(&(app.clone(), generation));
        let mut history = self.history.get(app).cloned().unwrap_or_default();
        for ((_, generation), running) in self.running.iter().filter(|((name, _), _)| name == app) {
            history.add(running.machine.tally(), *generation);
        }
        AppSnapshot {
            app: app.clone(),
            generation,
            target: serving.map_or(0, |running| running.machine.target()),
            scaling: serving.and_then(|running| running.spec.scaling),
            recycles: history.tally.recycles,
            deaths: history.tally.deaths,
            last_death: history.last,
        }
    }
}

/// The tally of the earlier generations of an app.
#[derive(Clone, Default)]
pub(super) struct AppHistory {
    tally: Tally,
    last: Option<LastDeath>,
}

impl AppHistory {
    fn add(&mut self, tally: &Tally, generation: u64) {
        self.tally.recycles.add_all(&tally.recycles);
        self.tally.deaths.add_all(&tally.deaths);
        let later = |last: &LastDeath| tally.last.as_ref().is_some_and(|lost| lost.at > last.at);
        if let Some(lost) = &tally.last
            && self.last.as_ref().is_none_or(later)
        {
            self.last = Some(LastDeath {
                number: lost.number,
                generation,
                death: lost.death,
                reason: lost.reason.clone(),
                at: lost.at,
            });
        }
    }
}
