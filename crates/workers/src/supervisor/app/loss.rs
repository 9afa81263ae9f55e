//! Workers that ended and should not have.
//!
//! An app is given up only while it has never served: several failed starts in a row are a broken deploy, which must be visible. Once a
//! worker was given requests, the requests may be what kills workers, and a database that is down for a minute may fail starts: both pass. So restarts
//! continue, at waits that grow to [`AWAY_MAX`] after deaths in service, and to half a minute after starts that fail while others serve. If no other worker
//! lives or starts, a worker that died in service is replaced after [`AWAY`] at most: the quarantine keeps a route that kills away, and
//! all other visitors wait for this start.

use std::time::{Duration, Instant};

use super::{Action, EndReason, Exit, Generation, Phase, Worker, WorkerId};

/// The longest wait after a death in service, and of an app that has served and has no worker left.
pub(super) const AWAY_MAX: Duration = Duration::from_secs(2);
/// The longest wait after a death in service when no other worker is left. It keeps a worker that dies at once from using a whole processor.
const AWAY: Duration = Duration::from_millis(100);

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
        if served {
            // Its replacement is ready or on its way; or it was the replacement of one that nobody waits for.
            return self.actions.push_back(Action::Lost { id, number, reason });
        }
        let Some((wait, strikes)) = self.count_loss(worker, now, random) else { return };
        let many = strikes > start_retries;
        if many && self.keep(number, &reason, now) {
            return;
        }
        if many && self.has_served {
            self.retire_unreplaced(number, now);
        }
        if !many || self.has_served {
            if let Some(slot) = self.slot(number) {
                slot.spawn_at = Some(now + wait);
            }
            self.actions.push_back(Action::Restart { id, number, reason, wait });
            return self.start_due(now);
        }
        if let Some(slot) = self.slot(number) {
            slot.given_up = true;
        }
        let first = self.phase == Phase::First;
        self.retire_unreplaced(number, now);
        let hope = self.slots.iter().any(|slot| slot.spawn_at.is_some())
            || self.workers.values().any(Worker::is_wanted);
        if first || !hope {
            self.give_up(id, number, reason, exit, now);
        } else {
            self.actions.push_back(Action::GiveUpSlot { id, number, reason });
        }
    }

    /// It was killed, and does not end: the kernel waits for something on its behalf. Its place is not lost with it, nor is a reload held up.
    pub(super) fn handle_immortal(&mut self, id: WorkerId, number: u32, now: Instant) {
        let reason = "was killed but does not exit".to_owned();
        match self.phase {
            Phase::Trial => return self.give_up(id, number, reason, None, now),
            Phase::First | Phase::Serving => {}
            Phase::Failed(_) | Phase::Retiring => {
                self.workers.remove(&id);
                self.actions.push_back(Action::Abandon { id });
                return;
            }
        }
        if self.workers.get(&id).is_some_and(|worker| worker.end_reason == EndReason::Planned) {
            return;
        }
        let served = self.is_served(number);
        let Some(slot) = self.slot(number).filter(|slot| slot.spawn_at.is_none() && !slot.given_up) else {
            return;
        };
        if !served {
            slot.spawn_at = Some(now);
            self.actions.push_back(Action::Restart { id, number, reason, wait: Duration::ZERO });
        }
    }

    /// How long the place of this worker waits for the next, and how many there have failed in a row without having served.
    fn count_loss(&mut self, worker: &Worker, now: Instant, random: u64) -> Option<(Duration, u32)> {
        let nobody_else = !self.workers.values().any(Worker::is_wanted);
        let has_served = self.has_served;
        let slot = self.slot(worker.number)?;
        let healthy_for =
            worker.ready_at.map_or(Duration::ZERO, |ready_at| now.saturating_duration_since(ready_at));
        // Requests that kill or that take too long must not be able to take an app away, for good or for long.
        if worker.has_served || matches!(worker.end_reason, EndReason::Killed(..)) {
            let wait = slot.service.handle_end(healthy_for, random);
            slot.strikes = 0;
            slot.backoff.reset();
            return Some((if nobody_else { wait.min(AWAY) } else { wait }, 0));
        }
        let wait = slot.backoff.handle_end(healthy_for, random);
        slot.strikes = match slot.backoff.failures() {
            0 => 0,
            _ => slot.strikes.saturating_add(1),
        };
        Some((if nobody_else && has_served { wait.min(AWAY_MAX) } else { wait }, slot.strikes))
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
        let trial = self.phase == Phase::Trial;
        self.retire(self.drain_timeout.max(Duration::from_nanos(1)), None, now);
        self.phase = Phase::Failed(format!("worker {number} {reason}"));
        self.actions.push_back(Action::GiveUp { id, number, reason, exit, trial });
    }
}
