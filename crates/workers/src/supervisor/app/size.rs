//! How many workers an app has.

use std::time::Instant;

use super::{Generation, Phase, Place, Recycled, Worker, WorkerState};

impl Generation {
    /// How many places there are.
    pub(in crate::supervisor) fn target(&self) -> usize {
        self.places.len()
    }

    /// A worker of a place that is kept is not ready yet, and may become so.
    pub(in crate::supervisor) fn is_starting(&self) -> bool {
        let serves = |number| self.workers.values().any(|worker| worker.serves(number));
        self.places.iter().any(|place| !place.given_up && !serves(place.number))
    }

    /// Has so many places from now on; at least one. What is too much finishes what it holds.
    pub(in crate::supervisor) fn set_target(&mut self, target: usize, now: Instant) {
        if self.phase != Phase::Serving {
            return;
        }
        while self.places.len() < target {
            let taken = |number: &u32| self.places.iter().any(|place| place.number == *number);
            let Some(number) = (1..).find(|number| !taken(number)) else { return };
            self.places.push(Place::new(number, now));
            self.places.sort_by_key(|place| place.number);
        }
        while self.places.len() > target.max(1) {
            let Some(number) = self.least_useful() else { return };
            self.places.retain(|place| place.number != number);
            let here = |worker: &Worker| worker.number == number;
            self.retire_where(here, now + self.drain_timeout, |_| Some(Recycled::Scale), now);
        }
        self.handle_timeout(now);
    }

    /// The place whose loss costs least: one that was given up, one that nobody serves, or the last.
    fn least_useful(&self) -> Option<u32> {
        let serves = |number: u32| {
            self.workers.values().any(|worker| worker.number == number && worker.state == WorkerState::Ready)
        };
        let rank = |place: &&Place| (place.given_up, !serves(place.number), place.number);
        self.places.iter().max_by_key(rank).map(|place| place.number)
    }
}
