//! What has been decided about a worker is done, and said in the log.

use std::time::Instant;

use super::{AppFailure, Context, RunningGeneration};
use crate::supervisor::app::{Action, SLOW_BOOT, StopSignal, WorkerId};
use crate::supervisor::{Death, Exit, KillReason, Reason, WorkerInterface, signals};

impl RunningGeneration {
    pub(super) fn perform(&mut self, action: Action, context: &Context, now: Instant) -> Option<AppFailure> {
        match action {
            Action::Spawn { id, number, quiet } => self.spawn(id, number, quiet, context, now),
            Action::Recycle { id, why, detail } => {
                let reason = why.name();
                self.record(id, &format!("the worker is to be replaced ({reason}): {detail}"));
            }
            Action::NoRoom { id, own, available } => {
                let number = self.processes.get(&id).map(|process| process.number);
                tracing::warn!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, own, available,
                    "the worker holds more than max_memory, and there is no memory for a replacement: it goes on"
                );
            }
            Action::Keep { id, number, reason } => {
                tracing::error!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    "the worker's replacement {reason}, as those before it: the worker goes on, and is tried to be replaced later"
                );
            }
            Action::Retire { id } => {
                self.record(id, "the worker takes no more requests");
                self.set_spares(id, true);
                if let Some(link) = self.handle(id).and_then(|handle| handle.link.clone()) {
                    link.retire();
                }
            }
            Action::Signal { id, signal, why } => self.stop(id, signal, &why, context),
            Action::Restart { id, number, reason, wait } => {
                tracing::warn!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    wait_ms = wait.as_millis(), "the worker {reason}; another is started"
                );
            }
            Action::Lost { id, number, reason } => {
                tracing::warn!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    "the worker {reason}; another serves in its place"
                );
            }
            Action::SlowBoot { id, number } => {
                let pid = self.pid(id);
                tracing::warn!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid, generation = self.generation,
                    boot_timeout = ?self.spec.boot_timeout,
                    "the worker is still loading after {SLOW_BOOT:?}; its stack follows where its adapter can show it"
                );
                // An adapter that has not come to itself yet would be ended by the question.
                if self.spec.interface == WorkerInterface::Wire && pid.is_some_and(signals::catches_quit) {
                    drop(self.ask_for_stack(id));
                }
            }
            Action::GiveUpSlot { id, number, reason } => {
                tracing::error!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    "the worker {reason}; its place is given up until the next reload, the app goes on with the others"
                );
            }
            // Whoever has asked for the trial is told, and says it.
            Action::GiveUp { id, number, reason, exit, trial: true } => {
                return self.given_up(id, number, reason, exit);
            }
            Action::GiveUp { id, number, reason, exit, trial: false } => {
                tracing::error!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    "the worker {reason}; the app has failed to start and is not started again before a reload"
                );
                return self.given_up(id, number, reason, exit);
            }
        }
        None
    }

    fn stop(&mut self, id: WorkerId, signal: StopSignal, why: &str, context: &Context) {
        self.expect_kill(id);
        self.record(id, &format!("the worker {why}: {}", signal.name()));
        match signal {
            StopSignal::Quit => self.see_stack(id, context),
            StopSignal::Term => {
                if let Some(link) = self.handle(id).and_then(|handle| handle.link.clone()) {
                    // What it still holds has the time until the kill to end in order.
                    link.say_goodbye();
                }
                self.signal(id, signal);
            }
            StopSignal::Finish | StopSignal::Kill => self.signal(id, signal),
        }
    }

    fn given_up(&self, id: WorkerId, number: u32, reason: String, exit: Option<Exit>) -> Option<AppFailure> {
        let process = self.processes.get(&id)?;
        let source = process.spawned.as_ref().map(|handle| handle.source.clone());
        Some(AppFailure { number, reason, exit, boot_output: process.boot_output.clone(), source })
    }

    /// A worker that is made to end is given nothing more; one that was still starting, nothing at all: its HELLO may be on its way.
    fn expect_kill(&self, id: WorkerId) {
        let Some(link) = self.handle(id).and_then(|handle| handle.link.as_ref()) else { return };
        match self.machine.doom(id) {
            Some(Death::Timeout) => link.expect_kill(KillReason::TimedOut),
            Some(Death::Memory) => link.expect_kill(KillReason::Memory),
            Some(_) | None => link.retire(),
        }
    }
}
