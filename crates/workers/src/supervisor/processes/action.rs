//! What a [`ProcessSet`](super::set::ProcessSet) decides, and what it tells.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{ProcessFault, ProcessSpec};

/// Names one process of a set; never used again.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct RunId(pub(super) u64);

/// Both clocks: deadlines count on one, schedules on the other.
#[derive(Copy, Clone, Debug)]
pub(super) struct Clocks {
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
}

/// What must be done.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ProcessAction {
    Start {
        id: RunId,
        number: u32,
        spec: Arc<ProcessSpec>,
    },
    /// Tell it to finish.
    Stop {
        id: RunId,
        signal: i32,
        why: String,
    },
    /// Kill its group.
    Kill {
        id: RunId,
        why: String,
    },
    /// Not to stop it.
    Signal {
        id: RunId,
        signal: i32,
    },
    Log(ProcessNews),
}

/// What has happened, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProcessNews {
    Ready {
        id: RunId,
        took: Duration,
    },
    /// It ended as it was told to.
    Stopped {
        id: RunId,
        end: String,
    },
    /// It ended by itself, or was killed for a fault, and another follows.
    Restarting {
        id: RunId,
        reason: String,
        failed: bool,
        wait: Duration,
    },
    /// It ended, and none follows.
    Finished {
        id: RunId,
        reason: String,
        failed: bool,
    },
    /// A run of a schedule ended.
    RunEnded {
        id: RunId,
        reason: String,
        failed: bool,
        took: Duration,
    },
    /// The run before has not ended.
    RunSkipped {
        id: RunId,
        running: Duration,
    },
    RunMissed {
        late: Duration,
    },
    Unkillable {
        id: RunId,
    },
    /// The same, and none is to follow it.
    Abandoned {
        id: RunId,
    },
}

/// How a process ended.
#[derive(Clone)]
pub(super) struct RunExit {
    pub(super) id: RunId,
    pub(super) failed: bool,
    pub(super) fault: Option<ProcessFault>,
    pub(super) reason: String,
    pub(super) took: Duration,
}

impl RunExit {
    pub(super) fn finished(self) -> ProcessNews {
        ProcessNews::Finished { id: self.id, reason: self.reason, failed: self.failed }
    }

    pub(super) fn of_schedule(self) -> ProcessNews {
        ProcessNews::RunEnded { id: self.id, reason: self.reason, failed: self.failed, took: self.took }
    }
}
