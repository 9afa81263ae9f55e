//! Workers that are made to end.

use std::time::Instant;

use super::{Action, EndReason, Generation, KILL_AFTER, StopSignal, WorkerId};
use crate::supervisor::stack::STACK_TIME;
use crate::supervisor::{Death, WorkerState};

impl Generation {
    /// It must be killed now.
    pub(in crate::supervisor) fn handle_kill(
        &mut self,
        id: WorkerId,
        death: Death,
        reason: &str,
        now: Instant,
    ) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.expect_kill(death, reason);
        worker.enter_killed(now);
        self.actions.push_back(Action::Signal { id, signal: StopSignal::Kill, why: reason.to_owned() });
    }

    /// It hangs, or a request of it takes too long: its stack first, then the kill.
    pub(in crate::supervisor) fn handle_stuck(
        &mut self,
        id: WorkerId,
        death: Death,
        reason: &str,
        now: Instant,
    ) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.expect_kill(death, reason);
        worker.shows_stack = true;
        worker.enter(WorkerState::Stopping, Some(now + STACK_TIME), now);
        self.actions.push_back(Action::Signal { id, signal: StopSignal::Quit, why: reason.to_owned() });
    }

    /// A retired worker has finished, as far as we can see, and does not end by itself.
    pub(in crate::supervisor) fn handle_drained(&mut self, id: WorkerId, now: Instant) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.state == WorkerState::Draining)
        else {
            return;
        };
        let soon = now + KILL_AFTER;
        let (signal, deadline) = match self.ends_at_quit {
            // Its work after responses may take as long as the responses might have.
            true => (StopSignal::Finish, worker.deadline.map_or(soon, |deadline| deadline.max(soon))),
            false => (StopSignal::Term, soon),
        };
        worker.enter(WorkerState::Stopping, Some(deadline), now);
        let why = "has finished".to_owned();
        self.actions.push_back(Action::Signal { id, signal, why });
    }

    /// It has said where it stands, or has had the time for it.
    pub(in crate::supervisor) fn handle_stack(&mut self, id: WorkerId, now: Instant) {
        if let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.shows_stack) {
            worker.shows_stack = false;
            worker.enter_killed(now);
            let why = "had its time to print a stack".to_owned();
            self.actions.push_back(Action::Signal { id, signal: StopSignal::Kill, why });
        }
    }

    pub(super) fn check_slow_boots(&mut self, now: Instant) {
        for (&id, worker) in &mut self.workers {
            if worker.slow_boot_at.is_some_and(|at| at <= now) {
                worker.slow_boot_at = None;
                self.actions.push_back(Action::SlowBoot { id, number: worker.number });
            }
        }
    }

    pub(super) fn check_deadlines(&mut self, now: Instant) {
        let mut immortal = Vec::new();
        for (&id, worker) in &mut self.workers {
            if worker.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            if worker.killed {
                worker.deadline = None;
                immortal.push((id, worker.number));
                continue;
            }
            let (signal, why) = match worker.state {
                WorkerState::Starting => {
                    let why = format!("was not ready within {:?}", self.boot_timeout);
                    worker.expect_kill(Death::BootTimeout, &why);
                    (StopSignal::Term, why)
                }
                WorkerState::Draining => {
                    worker.cut = Some(Death::Drain);
                    (StopSignal::Term, "did not finish in time".to_owned())
                }
                WorkerState::Ready | WorkerState::Stopping | WorkerState::Dead => {
                    if let EndReason::Closed(reason) = &worker.end_reason {
                        worker.end_reason =
                            EndReason::Faulted(Death::Hang, format!("{reason} and did not exit"));
                    }
                    (StopSignal::Kill, "did not exit in time".to_owned())
                }
            };
            worker.shows_stack = false;
            match signal {
                StopSignal::Term => worker.enter(WorkerState::Stopping, Some(now + KILL_AFTER), now),
                _ => worker.enter_killed(now),
            }
            self.actions.push_back(Action::Signal { id, signal, why });
        }
        for (id, number) in immortal {
            self.handle_immortal(id, number, now);
        }
    }

    pub(super) fn kill_all(&mut self, now: Instant) {
        for (&id, worker) in &mut self.workers {
            worker.end_reason = EndReason::Planned;
            worker.enter_killed(now);
            let why = "has no time to finish".to_owned();
            self.actions.push_back(Action::Signal { id, signal: StopSignal::Kill, why });
        }
    }
}
