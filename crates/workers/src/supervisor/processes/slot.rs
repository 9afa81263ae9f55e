//! One slot of a [`ProcessSet`](super::set::ProcessSet): its process, and what is remembered of those before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use keepwarm_policy::backoff::Backoff;

use super::action::RunId;
use super::set::{SETTLED, is_fine};
use super::{ProcessEnd, ProcessFault, ProcessSpec, ReplaceReason};
use crate::supervisor::Counts;

/// The life of a process.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProcessState {
    /// Something that it waits for is not ready.
    Waiting,
    /// It runs at the next time of its schedule.
    Scheduled,
    /// It was started, and is not ready.
    Starting,
    /// It runs.
    Running,
    /// It has ended, and the next one starts after a wait.
    BackingOff,
    /// It was told to end.
    Stopping,
    /// It has done what it had to, and is not started again.
    Finished,
    /// It has failed, and is not started again.
    Failed,
    /// Keepwarm has stopped it.
    Stopped,
}

impl ProcessState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Waiting,
        Self::Scheduled,
        Self::Starting,
        Self::Running,
        Self::BackingOff,
        Self::Stopping,
        Self::Finished,
        Self::Failed,
        Self::Stopped,
    ];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Scheduled => "scheduled",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::BackingOff => "backing_off",
            Self::Stopping => "stopping",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// Why a process has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EndCause {
    /// It was told to, for no fault of its own.
    Planned,
    /// It was stopped for a fault.
    Faulted(ProcessFault, String),
    /// By itself.
    Own,
}

impl EndCause {
    /// The kind of failure, if it is one.
    pub(super) fn fault(&self, end: &ProcessEnd, well: bool) -> Option<ProcessFault> {
        match (self, end) {
            (Self::Faulted(fault, _), _) => Some(*fault),
            (Self::Planned, _) => None,
            (Self::Own, _) if well => None,
            (Self::Own, ProcessEnd::NotStarted(_)) => Some(ProcessFault::Spawn),
            (Self::Own, ProcessEnd::Exited(exit)) if exit.is_by_signal() => Some(ProcessFault::Signal),
            (Self::Own, ProcessEnd::Exited(_)) => Some(ProcessFault::Exit),
        }
    }
}

/// A slot. Without a `run` nothing of it exists.
pub(super) struct ProcessSlot {
    pub(super) number: u32,
    pub(super) state: ProcessState,
    pub(super) since: Instant,
    pub(super) run: Option<RunId>,
    /// What the process was started by.
    pub(super) spec: Arc<ProcessSpec>,
    /// Of the process, or the one before.
    pub(super) started: Instant,
    pub(super) starts: u64,
    /// When what it does takes too long.
    pub(super) deadline: Option<Instant>,
    /// When it was ready.
    pub(super) ready_at: Option<Instant>,
    /// When it is too old.
    pub(super) expires: Option<Instant>,
    /// When the next one is started.
    pub(super) start_at: Option<Instant>,
    /// It will be replaced, for this reason.
    pub(super) outdated: Option<(ReplaceReason, String)>,
    /// It was started in the place of one that was outdated: others wait until it is up.
    pub(super) is_replacement: bool,
    /// A reload starts the next one.
    starts_again: bool,
    /// The slot goes with its process.
    pub(super) removed: bool,
    pub(super) killed: bool,
    /// It was killed because it did not end in time.
    pub(super) overran: bool,
    pub(super) fault: Option<(ProcessFault, String)>,
    pub(super) backoff: Backoff,
    pub(super) last_exit: Option<(ProcessEnd, Instant)>,
    pub(super) replacements: Counts<ReplaceReason>,
    pub(super) faults: Counts<ProcessFault>,
    /// Runs of a schedule that succeeded, failed, and were left out.
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
}

impl ProcessSlot {
    pub(super) fn new(number: u32, spec: &Arc<ProcessSpec>, now: Instant) -> Self {
        Self {
            number,
            state: ProcessState::Waiting,
            since: now,
            run: None,
            spec: Arc::clone(spec),
            started: now,
            starts: 0,
            deadline: None,
            ready_at: None,
            expires: None,
            start_at: None,
            outdated: None,
            is_replacement: false,
            starts_again: false,
            removed: false,
            killed: false,
            overran: false,
            fault: None,
            backoff: Backoff::new(spec.backoff),
            last_exit: None,
            replacements: Counts::default(),
            faults: Counts::default(),
            succeeded: 0,
            failed: 0,
            skipped: 0,
        }
    }

    pub(super) fn enter(&mut self, state: ProcessState, now: Instant) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }

    /// A process is started in it.
    pub(super) fn begin(&mut self, id: RunId, spec: &Arc<ProcessSpec>, age: Option<Duration>, now: Instant) {
        let was_outdated = self.outdated.take().is_some();
        // Also after others that did not stay up.
        self.is_replacement |= std::mem::take(&mut self.starts_again) || was_outdated;
        self.spec = Arc::clone(spec);
        self.run = Some(id);
        self.started = now;
        self.ready_at = None;
        self.starts += 1;
        self.start_at = None;
        self.expires = age.and_then(|age| now.checked_add(age));
        self.deadline = spec.ready.as_ref().and_then(|_| now.checked_add(spec.boot_timeout));
        self.state = ProcessState::Starting;
        self.since = now;
    }

    /// The next one does not wait.
    pub(super) fn start_again(&mut self, now: Instant) {
        self.backoff.reset();
        self.starts_again = true;
        self.start_at = Some(now);
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, ProcessState::Starting | ProcessState::Running)
    }

    /// It was replaced, and is not up again.
    pub(super) fn holds_up_others(&self, now: Instant) -> bool {
        match self.state {
            ProcessState::Starting => self.is_replacement,
            ProcessState::BackingOff => true,
            ProcessState::Running => self.settled_at(now).is_some(),
            // The next one is about to start.
            _ => self.run.is_none() && self.start_at.is_some(),
        }
    }

    /// When it will have been up for long enough, if that is not now.
    pub(super) fn settled_at(&self, now: Instant) -> Option<Instant> {
        let at = self.since + SETTLED;
        (self.is_replacement && self.state == ProcessState::Running && at > now).then_some(at)
    }

    /// The process has gone; says why.
    pub(super) fn note_end(&mut self, end: &ProcessEnd, now: Instant) -> EndCause {
        self.is_replacement &= self.state == ProcessState::Starting || self.settled_at(now).is_some();
        self.run = None;
        self.deadline = None;
        self.expires = None;
        self.last_exit = Some((end.clone(), now));
        let killed = std::mem::take(&mut self.killed);
        let overran = std::mem::take(&mut self.overran);
        match (self.fault.take(), self.state) {
            (Some((fault, why)), _) => EndCause::Faulted(fault, why),
            (None, ProcessState::Stopping) => {
                if killed && overran {
                    self.faults.add(ProcessFault::Stop);
                }
                EndCause::Planned
            }
            (None, _) => EndCause::Own,
        }
    }

    pub(super) fn ended_well(&self, end: &ProcessEnd) -> bool {
        is_fine(end, &self.spec.exit_codes)
    }

    /// How it ended, in words.
    pub(super) fn reason(&self, cause: &EndCause, end: &ProcessEnd) -> String {
        match cause {
            EndCause::Faulted(_, why) => format!("{why}; {end}"),
            EndCause::Planned | EndCause::Own => end.to_string(),
        }
    }

    pub(super) fn count_run(&mut self, failed: bool) {
        match failed {
            true => self.failed += 1,
            false => self.succeeded += 1,
        }
    }

    /// How long the next one waits.
    pub(super) fn count_end(&mut self, is_full_life: bool, now: Instant, random: u64) -> Duration {
        if is_full_life {
            self.backoff.reset();
            return Duration::ZERO;
        }
        let healthy_for = self.ready_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.backoff.handle_end(healthy_for, random)
    }
}
