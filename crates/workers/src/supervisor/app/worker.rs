//! One place of an app, and one worker in it: what [`Generation`](super::Generation) keeps about them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use keepwarm_policy::backoff::{Backoff, BackoffSettings};

use super::loss::AWAY_MAX;
use super::{
    Action, Death, KILL_AFTER, RecycleReason, StopSignal, UNKILLABLE_AFTER, WorkerEnd, WorkerId, WorkerState,
};

/// The slot of one worker: its number, its back-off and when the next worker starts.
pub(super) struct WorkerSlot {
    pub(super) number: u32,
    /// After workers that served nobody.
    pub(super) backoff: Backoff,
    /// After workers that died while they served.
    pub(super) service: Backoff,
    /// Failures in a row that count towards giving up.
    pub(super) strikes: u32,
    /// Workers started here.
    pub(super) starts: u64,
    /// When the next worker is started.
    pub(super) spawn_at: Option<Instant>,
    pub(super) given_up: bool,
    /// Since when nobody is here.
    pub(super) empty_since: Instant,
}

/// A start that takes longer is reported, since a module that hangs while it is imported is silent itself. This number is arbitrary.
pub(in crate::supervisor) const SLOW_BOOT: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    pub(super) number: u32,
    pub(super) state: WorkerState,
    pub(super) since: Instant,
    pub(super) ready_at: Option<Instant>,
    /// It was given requests.
    pub(super) has_served: bool,
    /// When it has taken too long at what it does.
    pub(super) deadline: Option<Instant>,
    /// When its start takes so long that it is said.
    pub(super) slow_boot_at: Option<Instant>,
    /// `Some`: it goes when its replacement is ready, for this reason.
    pub(super) leaving: Option<RecycleReason>,
    /// When it will be replaced, and why.
    pub(super) due: Option<(Instant, RecycleReason)>,
    /// Its replacements could not be started: no retry before this.
    pub(super) kept_until: Option<Instant>,
    /// The number of requests after which it is replaced.
    pub(super) max_requests: Option<u64>,
    /// It was reported that there is no memory for its replacement.
    pub(super) told_no_room: bool,
    /// Since when it owes a response.
    pub(super) silent_since: Option<Instant>,
    /// Since when it has kept credit that is not its own.
    pub(super) withholds_since: Option<Instant>,
    /// It was sent SIGKILL.
    pub(super) killed: bool,
    /// Was asked for its stack, and is killed when it has shown it.
    pub(super) shows_stack: bool,
    pub(super) end_reason: EndReason,
    /// It was to end anyway, and was killed before it did.
    pub(super) cut: Option<Death>,
}

/// Why a worker ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EndReason {
    /// Nobody wanted it to.
    Unplanned,
    /// It is to end, and not to be replaced.
    Planned,
    /// Its wire has ended, and it is expected to end by itself: how it does says more than this.
    Closed(String),
    /// It failed in a way that was seen before its end.
    Faulted(Death, String),
    /// It was killed while it served.
    Killed(Death, String),
}

impl WorkerSlot {
    pub(super) fn new(number: u32, now: Instant) -> Self {
        Self {
            number,
            backoff: Backoff::default(),
            service: Backoff::new(BackoffSettings { cap: AWAY_MAX, ..BackoffSettings::default() }),
            strikes: 0,
            starts: 0,
            spawn_at: Some(now),
            given_up: false,
            empty_since: now,
        }
    }
}

impl Worker {
    pub(super) fn new(number: u32, max_requests: Option<u64>, now: Instant, boot_timeout: Duration) -> Self {
        Self {
            number,
            state: WorkerState::Starting,
            since: now,
            ready_at: None,
            has_served: false,
            deadline: Some(now + boot_timeout),
            slow_boot_at: (SLOW_BOOT < boot_timeout).then(|| now + SLOW_BOOT),
            leaving: None,
            due: None,
            kept_until: None,
            max_requests,
            told_no_room: false,
            silent_since: None,
            withholds_since: None,
            killed: false,
            shows_stack: false,
            end_reason: EndReason::Unplanned,
            cut: None,
        }
    }

    pub(super) fn enter(&mut self, state: WorkerState, deadline: Option<Instant>, now: Instant) {
        self.slow_boot_at = None;
        if self.state != state {
            self.state = state;
            self.since = now;
        }
        self.deadline = deadline;
    }

    /// SIGKILL is on its way, and the wait for its end is bounded.
    pub(super) fn enter_killed(&mut self, now: Instant) {
        self.killed = true;
        self.enter(WorkerState::Stopping, Some(now + UNKILLABLE_AFTER), now);
    }

    /// Starting or serving.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.state, WorkerState::Starting | WorkerState::Ready)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == WorkerState::Ready
    }

    /// Ready, and stays.
    pub(super) fn serves(&self, number: u32) -> bool {
        self.number == number && self.is_ready() && self.leaving.is_none()
    }

    /// It is going to be killed, for this.
    pub(super) fn expect_kill(&mut self, death: Death, reason: &str) {
        match self.state {
            WorkerState::Starting => self.end_reason = EndReason::Faulted(death, reason.to_owned()),
            WorkerState::Ready => self.end_reason = EndReason::Killed(death, reason.to_owned()),
            WorkerState::Draining => self.cut = Some(death),
            WorkerState::Stopping | WorkerState::Dead => {}
        }
    }

    pub(super) fn retire(
        &mut self,
        id: WorkerId,
        deadline: Instant,
        now: Instant,
        actions: &mut VecDeque<Action>,
    ) {
        match self.state {
            WorkerState::Ready => {
                self.enter(WorkerState::Draining, Some(deadline), now);
                actions.push_back(Action::Retire { id });
            }
            WorkerState::Draining => {
                self.deadline = Some(self.deadline.map_or(deadline, |old| old.min(deadline)))
            }
            WorkerState::Starting => {
                self.enter(WorkerState::Stopping, Some(now + KILL_AFTER), now);
                let why = "is no longer needed".to_owned();
                actions.push_back(Action::Signal { id, signal: StopSignal::Term, why });
            }
            // It has its deadline already, or was killed.
            WorkerState::Stopping if self.killed => self.deadline = Some(now + UNKILLABLE_AFTER),
            WorkerState::Stopping => {
                let latest = deadline.max(now + KILL_AFTER);
                self.deadline = self.deadline.map(|old| old.min(latest));
            }
            WorkerState::Dead => {}
        }
        self.end_reason = EndReason::Planned;
    }

    /// It asked for a replacement, and has not waited for it: with nothing left to do, it was told to go.
    pub(super) fn left_as_asked(&self, end: &WorkerEnd) -> bool {
        self.leaving == Some(RecycleReason::Requested)
            && matches!(self.end_reason, EndReason::Unplanned | EndReason::Closed(_))
            && matches!(end, WorkerEnd::Exited(exit) if !exit.is_by_signal())
    }

    pub(super) fn reason(&self, end: &WorkerEnd) -> String {
        match (&self.end_reason, end) {
            (_, WorkerEnd::NotSpawned(error)) => format!("could not be spawned: {error}"),
            (EndReason::Faulted(_, why) | EndReason::Killed(_, why), WorkerEnd::Exited(exit)) => {
                format!("{why}; {exit}")
            }
            (EndReason::Unplanned | EndReason::Planned | EndReason::Closed(_), WorkerEnd::Exited(exit)) => {
                exit.to_string()
            }
        }
    }

    /// Of what kind its end is; `None`: it was to end.
    pub(super) fn death(&self, end: &WorkerEnd) -> Option<Death> {
        match (&self.end_reason, end) {
            _ if self.left_as_asked(end) => None,
            (EndReason::Planned, _) => self.cut,
            (_, WorkerEnd::NotSpawned(_)) => Some(Death::Spawn),
            (EndReason::Faulted(death, _) | EndReason::Killed(death, _), _) => Some(*death),
            (EndReason::Unplanned | EndReason::Closed(_), WorkerEnd::Exited(exit)) => {
                Some(if exit.is_by_signal() { Death::Signal } else { Death::Exit })
            }
        }
    }
}
