//! How many workers an app has.

use std::time::Instant;

use super::{Generation, Phase, RecycleReason, Worker, WorkerSlot, WorkerState};

impl Generation {
    /// How many places there are.
    pub(in crate::supervisor) fn target(&self) -> usize {
        self.slots.len()
    }

    /// A worker of a place that is kept is not ready yet, and may become so.
    pub(in crate::supervisor) fn is_starting(&self) -> bool {
        let serves = |number| self.workers.values().any(|worker| worker.serves(number));
        self.slots.iter().any(|slot| !slot.given_up && !serves(slot.number))
    }

    /// Sets the number of places, at least one. Excess workers finish their requests.
    pub(in crate::supervisor) fn set_target(&mut self, target: usize, now: Instant) {
        if self.phase != Phase::Serving {
            return;
        }
        while self.slots.len() < target {
            let taken = |number: &u32| self.slots.iter().any(|slot| slot.number == *number);
            let Some(number) = (1..).find(|number| !taken(number)) else { return };
            self.slots.push(WorkerSlot::new(number, now));
            self.slots.sort_by_key(|slot| slot.number);
        }
        while self.slots.len() > target.max(1) {
            let Some(number) = self.least_useful() else { return };
            self.slots.retain(|slot| slot.number != number);
            let here = |worker: &Worker| worker.number == number;
            self.retire_where(here, now + self.drain_timeout, |_| Some(RecycleReason::Scale), now);
        }
        self.handle_timeout(now);
    }

    /// The place whose loss costs least: one that was given up, one that nobody serves, or the last.
    fn least_useful(&self) -> Option<u32> {
        let serves = |number: u32| {
            self.workers.values().any(|worker| worker.number == number && worker.state == WorkerState::Ready)
        };
        let rank = |slot: &&WorkerSlot| (slot.given_up, !serves(slot.number), slot.number);
        self.slots.iter().max_by_key(rank).map(|slot| slot.number)
    }
}
