//! What runs at one moment, and what has happened until then: for `keepwarm status` and the metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::{Counts, Death, RecycleReason, Scaling};

/// What runs at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// All workers, by app, generation and number; a place that waits for its restart is there as [`WorkerState::Dead`].
    pub workers: Vec<WorkerSnapshot>,
    /// All apps of the configuration, by name.
    pub apps: Vec<AppSnapshot>,
    /// The apps that were given up.
    pub failed: Vec<FailedApp>,
}

/// An app that was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedApp {
    /// Its name.
    pub app: Arc<str>,
    /// Why.
    pub reason: String,
}

/// One app at one moment. Counts are since the start of Keepwarm, over all generations.
#[derive(Clone, Debug)]
pub struct AppSnapshot {
    /// Its name.
    pub app: Arc<str>,
    /// The generation that serves.
    pub generation: u64,
    /// The target number of workers: the configuration's, or as changed by scaling and signals.
    pub target: usize,
    /// The range of `target` under scaling; `None`: no scaling.
    pub scaling: Option<Scaling>,
    /// Why healthy workers were replaced, and how often.
    pub recycles: Counts<RecycleReason>,
    /// Why workers died that should not have, and how often.
    pub deaths: Counts<Death>,
    /// The latest of these deaths.
    pub last_death: Option<LastDeath>,
}

/// The latest death of a worker that should not have died.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastDeath {
    /// Its place.
    pub number: u32,
    /// The generation it belonged to.
    pub generation: u64,
    /// The kind of death.
    pub death: Death,
    /// What happened, in words (`had a request that timed out; killed by signal 9 (SIGKILL)`).
    pub reason: String,
    /// When.
    pub at: Instant,
}

/// One worker at one moment.
#[derive(Clone, Debug)]
pub struct WorkerSnapshot {
    /// The app's name.
    pub app: Arc<str>,
    /// Its place among the app's workers, from 1.
    pub number: u32,
    /// The generation it belongs to.
    pub generation: u64,
    /// Its process id; none while it is being spawned, and when it is dead.
    pub pid: Option<u32>,
    /// What it does.
    pub state: WorkerState,
    /// Since when it does that.
    pub since: Instant,
    /// When it was started; none when it is dead.
    pub started: Option<Instant>,
    /// Requests given to it so far.
    pub requests: u64,
    /// Its memory when it was last looked at, at most some seconds ago; none before the first look.
    pub memory: Option<Memory>,
    /// `Some`: it will be replaced, for this reason; it keeps serving until the replacement is ready.
    pub leaving: Option<RecycleReason>,
    /// How many workers had this place in this generation before.
    pub restarts: u64,
}

/// Resident memory of a worker, without its children, in bytes; with them where it keeps them for the requests.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Anonymous pages that are its alone. `max_memory` and `kill_memory` count these.
    pub own: u64,
    /// Everything else: anonymous pages it still shares with the process it was forked from, files, shared segments.
    pub shared: u64,
}

impl Memory {
    /// Together with what processes hold that it keeps. What all share is counted once: the most of one.
    pub(super) fn with(self, children: &[(u32, Memory)]) -> Self {
        children.iter().fold(self, |all, (_, one)| Self {
            own: all.own.saturating_add(one.own),
            shared: all.shared.max(one.shared),
        })
    }
}

/// The life of a worker.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkerState {
    /// Spawned; HELLO has not come.
    Starting,
    /// Takes requests.
    Ready,
    /// Takes none any more, finishes those it has.
    Draining,
    /// Is being ended.
    Stopping,
    /// No process: its place waits for the back-off, or was given up.
    Dead,
}

impl WorkerState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 5] = [Self::Starting, Self::Ready, Self::Draining, Self::Stopping, Self::Dead];

    /// Its stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
