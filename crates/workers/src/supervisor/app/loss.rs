//! Workers that ended and should not have.

use std::time::{Duration, Instant};

use super::{Action, Exit, Fate, Generation, Phase, Worker, WorkerId};

impl Generation {
    pub(super) fn handle_loss(
        &mut self,
        id: WorkerId,
        worker: &Worker,
        reason: String,
        exit: Option<Exit>,
        now: Instant,
        random: u64,
    ) {
        let number = worker.number;
        let start_retries = self.start_retries;
        let served = self.is_served(number);
        let Some(place) = self.place(number) else { return };
        if served {
            // Its replacement is ready or on its way; or it was the replacement of one that nobody waits for.
            return self.actions.push_back(Action::Lost { id, number, reason });
        }
        let healthy_for =
            worker.ready_at.map_or(Duration::ZERO, |ready_at| now.saturating_duration_since(ready_at));
        let wait = place.backoff.handle_end(healthy_for, random);
        if place.backoff.failures() == 0 {
            place.strikes = 0;
        } else if !matches!(worker.fate, Fate::Killed(..)) {
            // Our own kills wait too, but requests that take too long must not be able to take an app away for good.
            place.strikes = place.strikes.saturating_add(1);
        }
        if place.strikes <= start_retries {
            place.spawn_at = Some(now + wait);
            self.actions.push_back(Action::Restart { id, number, reason, wait });
            return self.start_due(now);
        }
        if self.keep(number, &reason, now) {
            return;
        }
        if let Some(place) = self.place(number) {
            place.given_up = true;
        }
        let first = self.phase == Phase::First;
        self.retire_place_given_up(number, now);
        let hope = self.places.iter().any(|place| place.spawn_at.is_some())
            || self.workers.values().any(Worker::is_wanted);
        if first || !hope {
            self.give_up(id, number, reason, exit, now);
        } else {
            self.actions.push_back(Action::GiveUpPlace { id, number, reason });
        }
    }

    /// The app is over: what serves finishes, what starts is ended.
    pub(super) fn give_up(
        &mut self,
        id: WorkerId,
        number: u32,
        reason: String,
        exit: Option<Exit>,
        now: Instant,
    ) {
        self.retire(self.drain_timeout.max(Duration::from_nanos(1)), None, now);
        self.phase = Phase::Failed(format!("worker {number} {reason}"));
        self.actions.push_back(Action::GiveUp { id, number, reason, exit });
    }
}
