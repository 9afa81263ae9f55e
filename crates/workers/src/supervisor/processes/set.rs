//! The processes of one `[process.NAME]`, sans-IO: events come in with the time, actions come out.
//!
//! Order of calls: any `handle_*` or command, then [`poll_action`](ProcessSet::poll_action) until it gives none, then wait
//! until [`poll_timeout`](ProcessSet::poll_timeout).
//!
//! **Replacing.** The old process stops before the new one starts, one slot after the other. New first, as workers of apps
//! do it, would run two schedulers at once, and two consumers where an app relies on one; and it saves nothing: jobs wait
//! in their queue meanwhile. The next slot follows once the replaced one has been up for [`SETTLED`], so a broken deploy
//! stops one process of a section and not all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use keepwarm_policy::Jitter;

use super::action::{Clocks, ProcessAction, ProcessNews, RunExit, RunId};
use super::slot::{EndCause, ProcessSlot, ProcessState};
use super::{ProcessEnd, ProcessFault, ProcessSpec, ReplaceReason, RestartPolicy};
use crate::supervisor::Exit;
use crate::supervisor::app::mib;

mod replace;
mod run;

/// A replaced process that has been up for this time does not hold up the next one. supervisord's `startsecs` has the same default.
pub(super) const SETTLED: Duration = Duration::from_secs(1);
/// A process that has run for this time and exits well is followed by another at once: a queue worker that ends after a number of jobs.
const FULL_LIFE: Duration = Duration::from_secs(1);
/// The longest sleep until a run: the clock of the machine may be set meanwhile.
const LOOK: Duration = Duration::from_secs(30);
/// From SIGKILL until the log says that the kernel does not let it end, and it is not waited for any longer if none follows it.
const UNKILLABLE_AFTER: Duration = Duration::from_secs(5);

/// What the set is to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum SetGoal {
    /// Its dependencies are not ready.
    Wait,
    Run,
    Stop,
}

/// The processes of one section.
pub(super) struct ProcessSet {
    spec: Arc<ProcessSpec>,
    goal: SetGoal,
    slots: Vec<ProcessSlot>,
    /// When the next run of its schedule is due.
    next_run: Option<SystemTime>,
    /// Outdated slots may be replaced: the sets before it have been.
    may_replace: bool,
    /// No process may run beyond this.
    stop_by: Option<Instant>,
    jitter: Jitter,
    next_id: u64,
    actions: VecDeque<ProcessAction>,
}

impl ProcessSet {
    /// It waits for [`release`](Self::release).
    pub(super) fn new(spec: Arc<ProcessSpec>, seed: u64, now: Instant) -> Self {
        let slots = (1..=spec.count).map(|number| ProcessSlot::new(number, &spec, now)).collect();
        Self {
            spec,
            goal: SetGoal::Wait,
            slots,
            next_run: None,
            may_replace: true,
            stop_by: None,
            jitter: Jitter::new(seed),
            next_id: 0,
            actions: VecDeque::new(),
        }
    }

    pub(super) fn spec(&self) -> &Arc<ProcessSpec> {
        &self.spec
    }

    pub(super) fn slots(&self) -> &[ProcessSlot] {
        &self.slots
    }

    pub(super) fn next_run(&self) -> Option<SystemTime> {
        self.next_run
    }

    /// Nothing of it has been started yet.
    pub(super) fn waits(&self) -> bool {
        self.goal == SetGoal::Wait
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.goal == SetGoal::Stop
    }

    /// What waits for it may start.
    pub(super) fn is_ready(&self) -> bool {
        let is_ready = |slot: &ProcessSlot| match self.spec.restart {
            RestartPolicy::Always => slot.state == ProcessState::Running,
            RestartPolicy::OnFailure | RestartPolicy::Never => slot.state == ProcessState::Finished,
        };
        self.goal == SetGoal::Run && self.slots.iter().all(is_ready)
    }

    /// No process of it will be replaced, and those that were are up.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        let is_settled = |slot: &ProcessSlot| match self.spec.restart {
            RestartPolicy::Always => slot.outdated.is_none() && !slot.holds_up_others(now),
            RestartPolicy::OnFailure | RestartPolicy::Never => slot.state == ProcessState::Finished,
        };
        self.goal != SetGoal::Run || self.spec.schedule.is_some() || self.slots.iter().all(is_settled)
    }

    /// No process is left and none will be started.
    pub(super) fn is_over(&self) -> bool {
        self.goal == SetGoal::Stop && self.slots.iter().all(|slot| slot.run.is_none())
    }

    /// It was sent SIGKILL.
    pub(super) fn was_killed(&self, id: RunId) -> bool {
        self.slots.iter().any(|slot| slot.run == Some(id) && slot.killed)
    }

    // Input.

    /// It runs, or its check has shown that it is ready.
    pub(super) fn handle_ready(&mut self, id: RunId, clocks: Clocks) {
        let Some(slot) = self.slot(id).filter(|slot| slot.state == ProcessState::Starting) else { return };
        slot.enter(ProcessState::Running, clocks.now);
        slot.deadline = slot.expires;
        slot.ready_at = Some(clocks.now);
        let took = clocks.now.saturating_duration_since(slot.started);
        if slot.spec.ready.is_some() {
            self.actions.push_back(ProcessAction::Log(ProcessNews::Ready { id, took }));
        }
        self.replace_next(clocks.now);
    }

    /// It has ended, or could not be started. `random` is the jitter of the back-off.
    pub(super) fn handle_end(&mut self, id: RunId, end: &ProcessEnd, clocks: Clocks, random: u64) {
        let now = clocks.now;
        let Some(at) = self.slots.iter().position(|slot| slot.run == Some(id)) else { return };
        let Some(slot) = self.slots.get_mut(at) else { return };
        let cause = slot.note_end(end, now);
        let fault = cause.fault(end, slot.ended_well(end));
        let exit = RunExit {
            id,
            failed: fault.is_some(),
            fault,
            reason: slot.reason(&cause, end),
            took: now.saturating_duration_since(slot.started),
        };
        let was_run = slot.spec.schedule.is_some();
        if cause == EndCause::Planned {
            let end = exit.reason.clone();
            self.actions.push_back(ProcessAction::Log(ProcessNews::Stopped { id, end }));
        } else if was_run {
            slot.count_run(exit.failed);
            self.actions.push_back(ProcessAction::Log(exit.clone().of_schedule()));
        } else if let Some(fault) = exit.fault {
            slot.faults.add(fault);
        }
        if slot.removed {
            self.slots.remove(at);
            return self.replace_next(now);
        }
        let by_itself = cause != EndCause::Planned && !was_run;
        match self.goal {
            SetGoal::Stop => {
                slot.enter(ProcessState::Stopped, now);
                if by_itself {
                    self.actions.push_back(ProcessAction::Log(exit.finished()));
                }
                return;
            }
            SetGoal::Wait => return slot.enter(ProcessState::Waiting, now),
            SetGoal::Run if self.spec.schedule.is_some() => slot.enter(ProcessState::Scheduled, now),
            SetGoal::Run if by_itself && slot.outdated.is_none() => {
                self.handle_exit(at, exit, clocks, random)
            }
            SetGoal::Run => {
                slot.backoff.reset();
                slot.start_at = Some(now);
            }
        }
        self.handle_timeout(clocks);
    }

    /// It ended by itself, or for a fault.
    fn handle_exit(&mut self, at: usize, exit: RunExit, clocks: Clocks, random: u64) {
        let follows = match self.spec.restart {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit.failed,
            RestartPolicy::Never => false,
        };
        let Some(slot) = self.slots.get_mut(at) else { return };
        if !follows {
            let state = if exit.failed { ProcessState::Failed } else { ProcessState::Finished };
            slot.enter(state, clocks.now);
            return self.actions.push_back(ProcessAction::Log(exit.finished()));
        }
        let RunExit { id, failed, reason, took, .. } = exit;
        let wait = slot.count_end(!failed && took >= FULL_LIFE, clocks.now, random);
        slot.enter(ProcessState::BackingOff, clocks.now);
        slot.start_at = Some(clocks.now + wait);
        self.actions.push_back(ProcessAction::Log(ProcessNews::Restarting { id, reason, failed, wait }));
    }

    /// What it holds of memory of its own.
    pub(super) fn handle_memory(&mut self, id: RunId, own: u64, now: Instant) {
        let Some(slot) = self.slot(id).filter(|slot| slot.is_up()) else { return };
        let over = |limit: Option<u64>| limit.filter(|&limit| own > limit);
        if let Some(limit) = over(slot.spec.kill_memory) {
            let why = format!("holds {}, above kill_memory ({})", mib(own), mib(limit));
            slot.fault = Some((ProcessFault::Memory, why.clone()));
            return self.kill(id, why, now);
        }
        let Some(limit) = over(slot.spec.max_memory).filter(|_| slot.outdated.is_none()) else { return };
        let why = format!("holds {}, above max_memory ({})", mib(own), mib(limit));
        slot.outdated = Some((ReplaceReason::Memory, why));
        self.replace_next(now);
    }

    /// To be called when [`poll_timeout`](Self::poll_timeout) says so.
    pub(super) fn handle_timeout(&mut self, clocks: Clocks) {
        self.check_deadlines(clocks.now);
        self.start_due(clocks.now);
        self.run_due(clocks);
        self.replace_next(clocks.now);
    }

    // Commands.

    /// What it waits for is ready.
    pub(super) fn release(&mut self, clocks: Clocks) {
        if self.goal != SetGoal::Wait {
            return;
        }
        self.goal = SetGoal::Run;
        let starts = self.spec.schedule.is_none();
        // One that still stops is followed when it has ended.
        for slot in self.slots.iter_mut().filter(|slot| slot.run.is_none()) {
            match starts {
                true => slot.start_at = Some(clocks.now),
                false => slot.enter(ProcessState::Scheduled, clocks.now),
            }
        }
        self.handle_timeout(clocks);
    }

    /// Ends all: each gets its signal and its time, or what is left until `by`.
    pub(super) fn stop(&mut self, by: Option<Instant>, why: &str, now: Instant) {
        self.goal = SetGoal::Stop;
        self.stop_by = by;
        self.next_run = None;
        let ids: Vec<RunId> = self.slots.iter().filter_map(|slot| slot.run).collect();
        for slot in &mut self.slots {
            slot.start_at = None;
            slot.outdated = None;
            if slot.run.is_none() {
                slot.enter(ProcessState::Stopped, now);
            }
        }
        for id in ids {
            self.stop_one(id, why, now);
        }
    }

    pub(super) fn kill_all(&mut self, why: &str, now: Instant) {
        let ids: Vec<RunId> = self
            .slots
            .iter()
            .filter(|slot| !slot.killed || slot.deadline.is_none())
            .filter_map(|slot| slot.run)
            .collect();
        for id in ids {
            self.kill(id, why.to_owned(), now);
        }
    }

    // Output.

    pub(super) fn poll_action(&mut self) -> Option<ProcessAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(super) fn poll_timeout(&self, clocks: Clocks) -> Option<Instant> {
        let runs = self.goal == SetGoal::Run;
        let of_slot = |slot: &ProcessSlot| {
            let start_at = slot.start_at.filter(|_| runs && slot.run.is_none());
            [slot.deadline, start_at, slot.settled_at(clocks.now)]
        };
        let run = self.next_run.map(|at| {
            let wait = at.duration_since(clocks.wall).unwrap_or_default();
            clocks.now + wait.min(LOOK)
        });
        self.slots.iter().flat_map(of_slot).flatten().chain(run).min()
    }

    // Decisions.

    fn slot(&mut self, id: RunId) -> Option<&mut ProcessSlot> {
        self.slots.iter_mut().find(|slot| slot.run == Some(id))
    }

    fn start_due(&mut self, now: Instant) {
        if self.goal != SetGoal::Run {
            return;
        }
        let due = |slot: &&ProcessSlot| slot.run.is_none() && slot.start_at.is_some_and(|at| at <= now);
        let numbers: Vec<u32> = self.slots.iter().filter(due).map(|slot| slot.number).collect();
        numbers.into_iter().for_each(|number| self.start(number, now));
    }

    fn start(&mut self, number: u32, now: Instant) {
        let id = RunId(self.next_id);
        self.next_id += 1;
        let spec = Arc::clone(&self.spec);
        let age = spec.max_age.map(|age| match spec.schedule {
            Some(_) => age,
            None => self.jitter.lower_duration(age),
        });
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.number == number) else { return };
        slot.begin(id, &spec, age, now);
        self.actions.push_back(ProcessAction::Start { id, number, spec });
    }

    /// Keepwarm ends. A set that is only removed may come back, and none of its processes may run twice.
    fn ends(&self) -> bool {
        self.goal == SetGoal::Stop && self.stop_by.is_some()
    }

    fn check_deadlines(&mut self, now: Instant) {
        let due = |slot: &&ProcessSlot| slot.deadline.is_some_and(|deadline| deadline <= now);
        let ends = self.ends();
        let ids: Vec<RunId> = self.slots.iter().filter(due).filter_map(|slot| slot.run).collect();
        for id in ids {
            let Some(slot) = self.slot(id) else { continue };
            slot.deadline = None;
            match slot.state {
                ProcessState::Starting => {
                    let why = format!("was not ready within {:?}", slot.spec.boot_timeout);
                    slot.fault = Some((ProcessFault::BootTimeout, why.clone()));
                    self.stop_one(id, &why, now);
                }
                ProcessState::Running if slot.spec.schedule.is_some() => {
                    let why =
                        format!("ran longer than max_age ({:?})", slot.spec.max_age.unwrap_or_default());
                    slot.fault = Some((ProcessFault::Timeout, why.clone()));
                    self.stop_one(id, &why, now);
                }
                ProcessState::Running => {
                    slot.outdated.get_or_insert((ReplaceReason::Age, "reached max_age".to_owned()));
                }
                ProcessState::Stopping if slot.killed && ends => {
                    slot.run = None;
                    slot.enter(ProcessState::Stopped, now);
                    self.actions.push_back(ProcessAction::Log(ProcessNews::Abandoned { id }));
                }
                ProcessState::Stopping if slot.killed => {
                    self.actions.push_back(ProcessAction::Log(ProcessNews::Unkillable { id }));
                }
                ProcessState::Stopping => {
                    slot.overran = true;
                    let why = "did not exit within stop_timeout".to_owned();
                    self.kill(id, why, now);
                }
                _ => {}
            }
        }
    }

    fn stop_one(&mut self, id: RunId, why: &str, now: Instant) {
        let by = self.stop_by;
        let ends = self.ends();
        let Some(slot) = self.slot(id) else { return };
        if slot.killed {
            if ends {
                slot.deadline.get_or_insert(now + UNKILLABLE_AFTER);
            }
            return;
        }
        let deadline = now + slot.spec.stop_timeout;
        let deadline = by.map_or(deadline, |by| deadline.min(by));
        if slot.state == ProcessState::Stopping {
            // It was told already; it may only get less time.
            slot.deadline = Some(slot.deadline.map_or(deadline, |old| old.min(deadline)));
            return;
        }
        slot.enter(ProcessState::Stopping, now);
        slot.deadline = Some(deadline);
        let signal = slot.spec.stop_signal;
        self.actions.push_back(ProcessAction::Stop { id, signal, why: why.to_owned() });
    }

    fn kill(&mut self, id: RunId, why: String, now: Instant) {
        let Some(slot) = self.slot(id) else { return };
        slot.enter(ProcessState::Stopping, now);
        slot.killed = true;
        slot.deadline = Some(now + UNKILLABLE_AFTER);
        self.actions.push_back(ProcessAction::Kill { id, why });
    }
}

/// Whether this is the end of a process that did what it was to do.
pub(super) fn is_fine(end: &ProcessEnd, exit_codes: &[u8]) -> bool {
    matches!(end, ProcessEnd::Exited(Exit::Status(code)) if exit_codes.iter().any(|&fine| i32::from(fine) == *code))
}
