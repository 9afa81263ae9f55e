//! Replaces healthy workers: the replacement is ready before the old one finishes.
//!
//! At most one worker of an app is replaced at a time; the others wait, and keep running meanwhile. When a replacement cannot be started, the old one
//! keeps running, and its replacement is tried again after [`HOLD`].

use std::time::{Duration, Instant};

use super::{Action, Death, Generation, Phase, RecycleReason, Worker, WorkerEnd, WorkerId, WorkerState};
use crate::supervisor::Reason;

/// After replacements that could not be started. This number is arbitrary: long against a boot, short against what a limit is for.
const HOLD: Duration = Duration::from_secs(60);

/// A worker that keeps credit of requests that are over for this long is replaced. Giving it back takes a worker that turns some milliseconds; one whose
/// application holds the whole process up is not to be replaced at once.
const CREDIT: Duration = Duration::from_secs(10);

impl Generation {
    /// The worker asked for a replacement: it takes no more requests.
    pub(in crate::supervisor) fn handle_wants_drain(&mut self, id: WorkerId, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.is_ready()) else { return };
        let before = worker.leaving.replace(RecycleReason::Requested);
        let number = worker.number;
        if before.is_some() {
            return;
        }
        if self.is_served(number) {
            self.retire_leaving(number, now);
        } else if let Some(slot) = self.slot(number).filter(|slot| slot.spawn_at.is_none() && !slot.given_up)
        {
            slot.spawn_at = Some(now);
            self.start_due(now);
        } else if self.slots.iter().any(|slot| slot.number == number && slot.given_up) {
            self.retire_unreplaced(number, now);
        }
    }

    /// Whether it ends because it asked to, before its replacement was ready.
    pub(in crate::supervisor) fn left_as_asked(&self, id: WorkerId, end: &WorkerEnd) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.left_as_asked(end))
    }

    /// It has reached its limit of requests.
    pub(in crate::supervisor) fn handle_requests_reached(&mut self, id: WorkerId, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.due.is_none_or(|(at, _)| at > now) {
            worker.due = Some((now, RecycleReason::Requests));
        }
        self.handle_timeout(now);
    }

    /// An operator wants it replaced. `false`: it is not ready, or is being replaced already.
    pub(in crate::supervisor) fn handle_recycle(&mut self, id: WorkerId, now: Instant) -> bool {
        let stays = |worker: &&mut Worker| worker.is_ready() && worker.leaving.is_none();
        let Some(worker) = self.workers.get_mut(&id).filter(stays) else { return false };
        worker.due = Some((now, RecycleReason::Operator));
        self.handle_timeout(now);
        true
    }

    /// How much memory it holds alone, and how much the machine has left, in bytes.
    pub(in crate::supervisor) fn handle_memory(
        &mut self,
        id: WorkerId,
        own: u64,
        available: Option<u64>,
        now: Instant,
    ) {
        let over = |limit: Option<u64>| limit.filter(|&limit| own > limit);
        let may_recycle = self.may_recycle();
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if let Some(limit) = over(self.recycling.kill_memory)
            && worker.state != WorkerState::Stopping
        {
            let reason = format!("holds {} of memory, above kill_memory ({})", mib(own), mib(limit));
            return self.handle_kill(id, Death::Memory, &reason, now);
        }
        let stays = worker.is_ready() && worker.leaving.is_none();
        let held = worker.kept_until.is_some_and(|until| until > now);
        let Some(limit) = over(self.recycling.max_memory).filter(|_| stays && may_recycle && !held) else {
            return;
        };
        match available {
            Some(available) if available < own => {
                if !worker.told_no_room {
                    worker.told_no_room = true;
                    self.actions.push_back(Action::NoRoom { id, own, available });
                }
            }
            _ => {
                let detail = format!("it holds {} of memory, above max_memory ({})", mib(own), mib(limit));
                self.recycle(id, RecycleReason::Memory, detail, now);
            }
        }
    }

    /// Whether it owes a response to a PING while it has no request.
    pub(in crate::supervisor) fn handle_silence(&mut self, id: WorkerId, silent: bool, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.is_ready()) else { return };
        if !silent {
            worker.silent_since = None;
            return;
        }
        let since = *worker.silent_since.get_or_insert(now);
        if let Some(most) = self.hang_timeout
            && now.saturating_duration_since(since) >= most
        {
            let reason = format!("was idle and did not respond within {most:?}");
            self.handle_stuck(id, Death::Hang, &reason, now);
        }
    }

    /// Whether nothing can be sent to it, because it keeps the credit of requests that are over.
    pub(in crate::supervisor) fn handle_credit(&mut self, id: WorkerId, withheld: bool, now: Instant) {
        let may_recycle = self.may_recycle();
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let stays = worker.is_ready() && worker.leaving.is_none();
        if !withheld || !stays {
            worker.withholds_since = None;
            return;
        }
        let since = *worker.withholds_since.get_or_insert(now);
        let held = worker.kept_until.is_some_and(|until| until > now);
        if may_recycle && !held && now.saturating_duration_since(since) >= CREDIT {
            let detail = format!(
                "it has kept the wire credit of completed requests for {CREDIT:?}; nothing can be sent to it"
            );
            self.recycle(id, RecycleReason::Credit, detail, now);
        }
    }

    /// The number of requests after which it is replaced.
    pub(in crate::supervisor) fn max_requests(&self, id: WorkerId) -> Option<u64> {
        self.workers.get(&id)?.max_requests
    }

    /// When [`recycle_due`](Self::recycle_due) has something to do.
    pub(super) fn next_recycle(&self) -> Option<Instant> {
        let stays = |worker: &&Worker| worker.is_ready() && worker.leaving.is_none();
        let due = self.workers.values().filter(stays).filter_map(|worker| Some(worker.due?.0)).min();
        due.filter(|_| self.may_recycle())
    }

    /// Begins with the worker that has waited longest, if its turn has come.
    pub(super) fn recycle_due(&mut self, now: Instant) {
        if self.next_recycle().is_none_or(|at| at > now) {
            return;
        }
        let stays = |worker: &Worker| worker.is_ready() && worker.leaving.is_none();
        let due = self
            .workers
            .iter()
            .filter(|(_, worker)| stays(worker))
            .filter_map(|(&id, worker)| Some((worker.due?, id)))
            .min_by_key(|((at, _), id)| (*at, *id));
        let Some(((_, why), id)) = due else { return };
        let detail = match why {
            RecycleReason::Requests => "it has reached max_requests".to_owned(),
            RecycleReason::Age => "it has reached max_age".to_owned(),
            RecycleReason::Operator => "an operator requested it".to_owned(),
            why => why.name().to_owned(),
        };
        self.recycle(id, why, detail, now);
    }

    /// Retires the workers of this place that wait for a replacement, if it is there.
    pub(super) fn retire_leaving(&mut self, number: u32, now: Instant) {
        if self.workers.values().any(|worker| worker.serves(number)) {
            let leaves = |worker: &Worker| worker.number == number && worker.leaving.is_some();
            self.retire_where(leaves, now + self.drain_timeout, |worker| worker.leaving, now);
        }
    }

    /// No replacement will come soon: a worker that takes no more requests is useless.
    pub(super) fn retire_unreplaced(&mut self, number: u32, now: Instant) {
        let leaves = |worker: &Worker| worker.number == number && worker.leaving.is_some();
        self.retire_where(leaves, now + self.drain_timeout, |worker| worker.leaving, now);
    }

    /// Its replacements cannot be started. If this place has a worker that still takes requests, it stays.
    pub(super) fn keep(&mut self, number: u32, reason: &str, now: Instant) -> bool {
        let still = |worker: &Worker| worker.leaving.is_some_and(|why| why != RecycleReason::Requested);
        let mut all = self.workers.iter_mut();
        let old = all.find(|(_, worker)| worker.number == number && worker.is_ready() && still(worker));
        let Some((&id, worker)) = old else { return false };
        let why = worker.leaving.take();
        worker.kept_until = Some(now + HOLD);
        // Memory and credit are looked at again anyway.
        let again = |why: &RecycleReason| !matches!(why, RecycleReason::Memory | RecycleReason::Credit);
        worker.due = why.filter(again).map(|why| (now + HOLD, why));
        if let Some(slot) = self.slot(number) {
            slot.strikes = 0;
            slot.backoff.reset();
        }
        self.actions.push_back(Action::Keep { id, number, reason: reason.to_owned() });
        true
    }

    fn recycle(&mut self, id: WorkerId, why: RecycleReason, detail: String, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.leaving = Some(why);
        worker.due = None;
        let number = worker.number;
        if let Some(slot) = self.slot(number) {
            slot.spawn_at = Some(now);
        }
        self.actions.push_back(Action::Recycle { id, why, detail });
        self.start_due(now);
    }

    /// The app serves, and no other worker is being replaced.
    fn may_recycle(&self) -> bool {
        let waits = |worker: &Worker| worker.is_ready() && worker.leaving.is_some();
        self.phase == Phase::Serving && !self.workers.values().any(waits)
    }
}

pub(in crate::supervisor) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}
