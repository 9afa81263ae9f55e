//! The snapshot of a generation.

use std::time::Instant;

use super::{EndReason, Generation, Phase, WorkerId};
use crate::supervisor::{Counts, Death, RecycleReason, WorkerState};

/// A worker as a snapshot shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::supervisor) struct WorkerView {
    pub(in crate::supervisor) id: Option<WorkerId>,
    pub(in crate::supervisor) number: u32,
    pub(in crate::supervisor) state: WorkerState,
    pub(in crate::supervisor) since: Instant,
    pub(in crate::supervisor) leaving: Option<RecycleReason>,
    pub(in crate::supervisor) restarts: u64,
}

/// What has happened in a generation.
#[derive(Clone, Debug, Default)]
pub(in crate::supervisor) struct Tally {
    pub(in crate::supervisor) recycles: Counts<RecycleReason>,
    pub(in crate::supervisor) deaths: Counts<Death>,
    pub(in crate::supervisor) last: Option<WorkerDeath>,
}

/// The death of a worker that should not have died.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::supervisor) struct WorkerDeath {
    pub(in crate::supervisor) number: u32,
    pub(in crate::supervisor) death: Death,
    pub(in crate::supervisor) reason: String,
    pub(in crate::supervisor) at: Instant,
}

impl Generation {
    /// By place; workers first, then places that have none.
    pub(in crate::supervisor) fn view(&self) -> Vec<WorkerView> {
        let restarts = |number| {
            let slot = self.slots.iter().find(|slot| slot.number == number);
            slot.map_or(0, |slot| slot.starts.saturating_sub(1))
        };
        let mut views: Vec<WorkerView> = self
            .workers
            .iter()
            .map(|(&id, worker)| WorkerView {
                id: Some(id),
                number: worker.number,
                state: worker.state,
                since: worker.since,
                leaving: worker.leaving,
                restarts: restarts(worker.number),
            })
            .collect();
        let is_empty = |number| !self.workers.values().any(|worker| worker.number == number);
        if self.phase != Phase::Retiring {
            views.extend(self.slots.iter().filter(|slot| is_empty(slot.number)).map(|slot| WorkerView {
                id: None,
                number: slot.number,
                state: WorkerState::Dead,
                since: slot.empty_since,
                leaving: None,
                restarts: restarts(slot.number),
            }));
        }
        views.sort_by_key(|view| (view.number, view.id));
        views
    }

    /// For what a worker is being killed.
    pub(in crate::supervisor) fn doom(&self, id: WorkerId) -> Option<Death> {
        let worker = self.workers.get(&id)?;
        match worker.end_reason {
            EndReason::Faulted(death, _) | EndReason::Killed(death, _) => Some(death),
            EndReason::Unplanned | EndReason::Planned | EndReason::Closed(_) => worker.cut,
        }
    }

    /// What has happened so far.
    pub(in crate::supervisor) fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Tally {
    pub(super) fn add_death(&mut self, number: u32, death: Death, reason: &str, now: Instant) {
        self.deaths.add(death);
        self.last = Some(WorkerDeath { number, death, reason: reason.to_owned(), at: now });
    }
}
