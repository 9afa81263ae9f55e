//! Runs at the times of a schedule.

use std::time::Duration;

use super::{LOOK, ProcessSet, SetGoal};
use crate::supervisor::processes::action::{Clocks, ProcessAction, ProcessNews};

/// A run that is due for longer is left out: the machine was asleep, or its clock was set.
const MISSED: Duration = Duration::from_secs(60);

impl ProcessSet {
    /// Starts the run of a schedule that is due, and finds the next time.
    pub(super) fn run_due(&mut self, clocks: Clocks) {
        let Some(schedule) = self.spec.schedule.as_ref().filter(|_| self.goal == SetGoal::Run) else {
            return;
        };
        let Some(due) = self.next_run else {
            self.next_run = schedule.next_after(clocks.wall);
            return;
        };
        let late = match clocks.wall.duration_since(due) {
            Ok(late) => late,
            // The clock was set back: the time that is due may be far.
            Err(early) => {
                let next = schedule.next_after(clocks.wall);
                if next.is_some_and(|next| next < due) && early.duration() > LOOK {
                    self.next_run = next;
                }
                return;
            }
        };
        self.next_run = schedule.next_after(clocks.wall);
        if late > MISSED {
            return self.actions.push_back(ProcessAction::Log(ProcessNews::RunMissed { late }));
        }
        let Some(slot) = self.slots.first_mut() else { return };
        match slot.run {
            Some(id) => {
                slot.skipped += 1;
                let running = clocks.now.saturating_duration_since(slot.started);
                self.actions.push_back(ProcessAction::Log(ProcessNews::RunSkipped { id, running }));
            }
            None => {
                let number = slot.number;
                self.start(number, clocks.now);
            }
        }
    }
}
