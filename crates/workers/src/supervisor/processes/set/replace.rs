//! Healthy processes that are replaced, and other numbers of them.

use std::sync::Arc;
use std::time::Instant;

use super::{ProcessSet, SetGoal};
use crate::supervisor::processes::action::{Clocks, ProcessAction, RunId};
use crate::supervisor::processes::slot::{ProcessSlot, ProcessState};
use crate::supervisor::processes::{ProcessSpec, ReplaceReason};

impl ProcessSet {
    /// Whether outdated processes may be replaced now; those that may are. To be called after every event: a replaced process that has been up for
    /// long enough by then has left the timeouts.
    pub(in super::super) fn allow_replacing(&mut self, may: bool, now: Instant) {
        self.may_replace = may;
        self.replace_next(now);
    }

    /// A reload: all processes are replaced by some of this spec, or get a signal.
    pub(in super::super) fn reload(&mut self, spec: ProcessSpec, clocks: Clocks) {
        let is_same = *self.spec == spec;
        let revived = self.goal == SetGoal::Stop;
        if let (true, false, Some(signal)) = (is_same, revived, spec.reload_signal) {
            let up = self.slots.iter().filter(|slot| slot.is_up()).filter_map(|slot| slot.run);
            self.actions.extend(up.map(|id| ProcessAction::Signal { id, signal }));
            self.retry_ended(clocks);
            return;
        }
        if self.spec.schedule != spec.schedule {
            self.next_run = None;
        }
        self.spec = Arc::new(spec);
        self.resize(clocks.now);
        if revived {
            self.stop_by = None;
            self.goal = SetGoal::Wait;
            return;
        }
        self.replace_all(ReplaceReason::Reload, "reload", clocks);
    }

    /// All processes are replaced. Those of a schedule end as they began.
    pub(in super::super) fn replace_all(&mut self, why: ReplaceReason, detail: &str, clocks: Clocks) {
        if self.goal != SetGoal::Run {
            return;
        }
        let runs_all_the_time = self.spec.schedule.is_none();
        for slot in &mut self.slots {
            match (slot.run.is_some(), runs_all_the_time) {
                (true, _) if slot.spec.schedule.is_some() => {}
                (true, _) => slot.outdated = Some((why, detail.to_owned())),
                (false, true) => slot.start_again(clocks.now),
                (false, false) => slot.enter(ProcessState::Scheduled, clocks.now),
            }
        }
        self.handle_timeout(clocks);
    }

    /// Stops the next outdated process, if all those that were replaced are up.
    pub(super) fn replace_next(&mut self, now: Instant) {
        if self.goal != SetGoal::Run || !self.may_replace {
            return;
        }
        if self.slots.iter().any(|slot| slot.outdated.is_none() && slot.holds_up_others(now)) {
            return;
        }
        if self.slots.iter().any(|slot| slot.state == ProcessState::Stopping) {
            return;
        }
        let next = self.slots.iter_mut().find(|slot| slot.outdated.is_some() && slot.run.is_some());
        let Some((id, (reason, detail))) = next.and_then(|slot| Some((slot.run?, slot.outdated.clone()?)))
        else {
            return;
        };
        if let Some(slot) = self.slot(id) {
            slot.replacements.add(reason);
        }
        self.stop_one(id, &detail, now);
    }

    /// At another `count`: slots are added, or told to go.
    fn resize(&mut self, now: Instant) {
        let wanted = self.spec.count;
        let starts = self.goal == SetGoal::Run && self.spec.schedule.is_none();
        for number in 1..=wanted {
            match self.slots.iter_mut().find(|slot| slot.number == number) {
                Some(slot) => slot.removed = false,
                None => {
                    let mut slot = ProcessSlot::new(number, &self.spec, now);
                    slot.start_at = starts.then_some(now);
                    self.slots.push(slot);
                }
            }
        }
        self.slots.retain(|slot| slot.number <= wanted || slot.run.is_some());
        let extra: Vec<RunId> =
            self.slots.iter().filter(|slot| slot.number > wanted).filter_map(|slot| slot.run).collect();
        for id in extra {
            if let Some(slot) = self.slot(id) {
                slot.removed = true;
                slot.outdated = None;
            }
            self.stop_one(id, "is not needed any more", now);
        }
    }

    /// Processes that have ended for good run again, those that back off at once.
    fn retry_ended(&mut self, clocks: Clocks) {
        if self.goal == SetGoal::Run && self.spec.schedule.is_none() {
            self.slots
                .iter_mut()
                .filter(|slot| slot.run.is_none())
                .for_each(|slot| slot.start_again(clocks.now));
            self.handle_timeout(clocks);
        }
    }
}
