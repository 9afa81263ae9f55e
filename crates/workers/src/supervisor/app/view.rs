//! What is told of a generation.

use std::time::Instant;

use super::{Fate, Generation, Phase, WorkerId};
use crate::supervisor::{Counts, Death, Recycled, WorkerState};

/// One line of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::supervisor) struct View {
    pub(in crate::supervisor) id: Option<WorkerId>,
    pub(in crate::supervisor) number: u32,
    pub(in crate::supervisor) state: WorkerState,
    pub(in crate::supervisor) since: Instant,
    pub(in crate::supervisor) leaving: Option<Recycled>,
    pub(in crate::supervisor) restarts: u64,
}

/// What has happened in a generation.
#[derive(Clone, Debug, Default)]
pub(in crate::supervisor) struct Tally {
    pub(in crate::supervisor) recycles: Counts<Recycled>,
    pub(in crate::supervisor) deaths: Counts<Death>,
    pub(in crate::supervisor) last: Option<Lost>,
}

/// A death.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::supervisor) struct Lost {
    pub(in crate::supervisor) number: u32,
    pub(in crate::supervisor) death: Death,
    pub(in crate::supervisor) reason: String,
    pub(in crate::supervisor) at: Instant,
}

impl Generation {
    /// By place; workers first, then places that have none.
    pub(in crate::supervisor) fn view(&self) -> Vec<View> {
        let restarts = |number| {
            let place = self.places.iter().find(|place| place.number == number);
            place.map_or(0, |place| place.starts.saturating_sub(1))
        };
        let mut views: Vec<View> = self
            .workers
            .iter()
            .map(|(&id, worker)| View {
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
            views.extend(self.places.iter().filter(|place| is_empty(place.number)).map(|place| View {
                id: None,
                number: place.number,
                state: WorkerState::Dead,
                since: place.empty_since,
                leaving: None,
                restarts: restarts(place.number),
            }));
        }
        views.sort_by_key(|view| (view.number, view.id));
        views
    }

    /// For what a worker is being killed.
    pub(in crate::supervisor) fn doom(&self, id: WorkerId) -> Option<Death> {
        let worker = self.workers.get(&id)?;
        match worker.fate {
            Fate::Faulted(death, _) | Fate::Killed(death, _) => Some(death),
            Fate::Unplanned | Fate::Planned | Fate::Closed(_) => worker.cut,
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
        self.last = Some(Lost { number, death, reason: reason.to_owned(), at: now });
    }
}
