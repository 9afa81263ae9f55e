//! What the supervisor is given, and what it tells.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Exit;

/// How an app's workers are run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppSpec {
    /// The app's name in the configuration.
    pub name: Arc<str>,
    /// The program and its arguments. A name without a slash is looked up in the worker's `PATH`; a relative path is
    /// relative to `directory`.
    pub command: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// Added to Keepwarm's own environment, later ones winning. `KEEPWARM_APP`, `KEEPWARM_WORKER` and `KEEPWARM_FD` come on top.
    pub env: Vec<(OsString, OsString)>,
    /// How it is spoken to.
    pub contact: Contact,
    /// How many processes; at least one is started.
    pub workers: usize,
    /// How long a worker may take from its start to HELLO.
    pub boot_timeout: Duration,
    /// How long a retired worker may take to finish; then SIGTERM, and SIGKILL two seconds later.
    pub drain_timeout: Duration,
    /// How often a worker that dies young is started again, with back-off, before its place is given up.
    pub start_retries: u32,
}

impl AppSpec {
    /// A spec with the defaults: one worker in the current directory, 60 s to boot, 30 s to drain, three retries.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, command: Vec<OsString>) -> Self {
        Self {
            name: name.into(),
            command,
            directory: PathBuf::from("."),
            env: Vec::new(),
            contact: Contact::Wire,
            workers: 1,
            boot_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            start_retries: 3,
        }
    }
}

/// How a worker is spoken to.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Contact {
    /// Over our wire: a socket that it inherits.
    #[default]
    Wire,
    /// It listens by itself, at one of the [`Addresses`](super::Addresses) that it is told.
    Server,
}

/// An app could not be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartFailure {
    /// The app's name in the configuration.
    pub app: Arc<str>,
    /// The worker's number; 0 when it never came to one.
    pub worker: u32,
    /// What happened, in words.
    pub reason: String,
    /// How the process ended, if it did.
    pub exit: Option<Exit>,
    /// The last it wrote to standard error, as it wrote it: at most 64 KiB, beginning at the start of a line.
    pub stderr: Vec<u8>,
}

impl StartFailure {
    /// Writes what the worker printed, as it printed it, and then one line that says what happened.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.stderr)?;
        if self.stderr.last().is_some_and(|&byte| byte != b'\n') {
            out.write_all(b"\n")?;
        }
        writeln!(out, "keepwarm: {self}")?;
        out.flush()
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "app {:?} could not be started: ", &*self.app)?;
        if self.worker > 0 {
            write!(f, "worker {} ", self.worker)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for StartFailure {}

/// A reload that succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReloadReport {
    /// The number of the generation that serves now.
    pub generation: u64,
    /// The apps that serve now.
    pub apps: Vec<Arc<str>>,
    /// The apps that were there before and are no more.
    pub removed: Vec<Arc<str>>,
    /// From the request until every new worker was ready.
    pub took: Duration,
}

/// What runs at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// All workers, by app, generation and number; a place that waits for its restart is there as [`WorkerState::Dead`].
    pub workers: Vec<WorkerSnapshot>,
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
    /// Since when.
    pub since: Instant,
    /// How many workers had this place in this generation before.
    pub restarts: u64,
}

/// The life of a worker.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
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

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Dead => "dead",
        })
    }
}
