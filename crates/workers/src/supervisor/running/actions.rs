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
                log_worker!(self, id, "worker_replacing", "replacing worker ({reason}): {detail}");
            }
            Action::NoRoom { id, own, available } => {
                let number = self.processes.get(&id).map(|process| process.number);
                tracing::warn!(
                    name: "worker_not_replaced", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation,
                    own, available,
                    "worker not replaced: it holds more than max_memory, but there is no memory for a replacement"
                );
            }
            Action::Keep { id, number, reason } => {
                tracing::error!(
                    name: "worker_not_replaced", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation,
                    reason,
                    "worker not replaced; will retry: its replacement {reason}, like those before it"
                );
            }
            Action::Retire { id } => {
                log_worker!(self, id, "worker_draining", "draining worker: it takes no more requests");
                self.set_spares(id, true);
                if let Some(link) = self.handle(id).and_then(|handle| handle.link.clone()) {
                    link.retire();
                }
            }
            Action::Signal { id, signal, why } => self.stop(id, signal, &why, context),
            Action::Restart { id, number, reason, wait } => {
                tracing::warn!(
                    name: "worker_lost", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation,
                    reason, wait_ms = wait.as_millis(),
                    "worker {reason}; starting another"
                );
            }
            Action::Abandon { id } => {
                tracing::error!(
                    name: "worker_not_ending", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = self.processes.get(&id).map(|process| process.number),
                    pid = self.pid(id), generation = self.generation,
                    "worker was killed but does not exit; Keepwarm no longer waits for it"
                );
                self.processes.remove(&id);
            }
            Action::Lost { id, number, reason } => {
                tracing::warn!(
                    name: "worker_lost", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation,
                    reason,
                    "worker {reason}; another serves in its place"
                );
            }
            Action::SlowBoot { id, number } => {
                let pid = self.pid(id);
                let has_adapter = self.spec.interface == WorkerInterface::Wire;
                let hint = match has_adapter {
                    true => "its stack follows if its adapter can print it",
                    false => "it has not responded yet",
                };
                tracing::warn!(
                    name: "worker_slow_to_load", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid, generation = self.generation,
                    boot_timeout = ?self.spec.boot_timeout,
                    "worker still loading after {SLOW_BOOT:?}: {hint}"
                );
                // An adapter that has not come to itself yet would be ended by the question.
                if has_adapter && pid.is_some_and(signals::catches_quit) {
                    drop(self.ask_for_stack(id));
                }
            }
            Action::GiveUpSlot { id, number, reason } => {
                tracing::error!(
                    name: "worker_given_up", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation,
                    reason,
                    "worker {reason}; gave up on its slot until the next reload, the app keeps running with the others"
                );
            }
            // The caller of the trial gets the failure, and logs it.
            Action::GiveUp { id, number, reason, exit, trial: true } => {
                return self.given_up(id, number, reason, exit);
            }
            Action::GiveUp { id, number, reason, exit, trial: false } => {
                tracing::error!(
                    name: "app_given_up", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation,
                    reason,
                    "worker {reason}; the app failed to start and is not retried before a reload (at startup, Keepwarm exits if no app starts)"
                );
                return self.given_up(id, number, reason, exit);
            }
        }
        None
    }

    fn stop(&mut self, id: WorkerId, signal: StopSignal, why: &str, context: &Context) {
        self.expect_kill(id);
        log_worker!(self, id, "worker_signalled", "worker {why}: sending {}", signal.name());
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
