//! What the supervisor tells about processes: states, counts, ends.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::ProcessState;
use crate::supervisor::{Counts, Exit, Memory, Reason};

/// One `[process.NAME]` at one moment.
#[derive(Clone, Debug)]
pub struct ProcessSetSnapshot {
    /// NAME.
    pub name: Arc<str>,
    /// What it waits for, as the configuration writes it.
    pub waits_for: Vec<String>,
    /// When its schedule runs it next.
    pub next_run: Option<SystemTime>,
    /// Whether it has a schedule.
    pub is_scheduled: bool,
    /// Its processes, by number.
    pub processes: Vec<ProcessSnapshot>,
}

/// One process of a set at one moment. Counts are since the start of Keepwarm.
#[derive(Clone, Debug)]
pub struct ProcessSnapshot {
    /// From 1.
    pub number: u32,
    /// Its process id, if it runs.
    pub pid: Option<u32>,
    /// What it does.
    pub state: ProcessState,
    /// Since when.
    pub since: Instant,
    /// When it was started, if it runs.
    pub started: Option<Instant>,
    /// How many had its number before.
    pub restarts: u64,
    /// Its memory when it was last looked at.
    pub memory: Option<Memory>,
    /// How the last one ended, and when.
    pub last_exit: Option<(ProcessEnd, Instant)>,
    /// It will be replaced, for this reason.
    pub leaving: Option<ReplaceReason>,
    /// Why processes were replaced, and how often.
    pub replacements: Counts<ReplaceReason>,
    /// How processes failed, and how often.
    pub faults: Counts<ProcessFault>,
    /// Runs of a schedule that succeeded.
    pub succeeded: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were left out, because the one before had not ended.
    pub skipped: u64,
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProcessEnd {
    /// As a process.
    Exited(Exit),
    /// It could not be started.
    NotStarted(String),
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(exit) => exit.fmt(f),
            Self::NotStarted(error) => write!(f, "could not be started: {error}"),
        }
    }
}

/// Why a healthy process is replaced.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReplaceReason {
    /// `max_age`
    Age,
    /// `max_memory`
    Memory,
    /// A watched file has changed.
    Watch,
    /// A reload.
    Reload,
    /// `keepwarm restart`.
    Requested,
}

impl Reason for ReplaceReason {
    const ALL: &'static [Self] = &[Self::Age, Self::Memory, Self::Watch, Self::Reload, Self::Requested];

    fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Memory => "memory",
            Self::Watch => "watch",
            Self::Reload => "reload",
            Self::Requested => "requested",
        }
    }
}

/// How a process fails.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProcessFault {
    /// It exited with a status that is not among its `exit_codes`.
    Exit,
    /// A signal ended it that Keepwarm had not sent.
    Signal,
    /// Killed: it was above `kill_memory`.
    Memory,
    /// Stopped: not ready within `boot_timeout`.
    BootTimeout,
    /// Stopped: a run of a schedule took longer than `max_age`.
    Timeout,
    /// Killed: it was told to stop, and did not within `stop_timeout`.
    Stop,
    /// The system could not start it.
    Spawn,
}

impl Reason for ProcessFault {
    const ALL: &'static [Self] =
        &[Self::Exit, Self::Signal, Self::Memory, Self::BootTimeout, Self::Timeout, Self::Stop, Self::Spawn];

    fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Memory => "memory",
            Self::BootTimeout => "boot_timeout",
            Self::Timeout => "timeout",
            Self::Stop => "stop",
            Self::Spawn => "spawn",
        }
    }
}
