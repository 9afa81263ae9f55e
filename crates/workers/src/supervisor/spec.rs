//! What the supervisor is given, and what it tells.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Exit, ProcessSettings};

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
    /// Added to Keepwarm's own environment, later ones winning. `KEEPWARM_APP`, `KEEPWARM_WORKER`,
    /// `KEEPWARM_INSTANCE` and `KEEPWARM_FD` come on top.
    pub env: Vec<(OsString, OsString)>,
    /// User, limits and other settings of the processes.
    pub process: ProcessSettings,
    /// The protocol of the workers.
    pub interface: WorkerInterface,
    /// SIGQUIT lets it finish its work and exit: php-fpm, whose scripts may keep running after their responses. Others exit at SIGTERM, and show their
    /// stacks at SIGQUIT.
    pub ends_at_quit: bool,
    /// Its processes manage others for the requests: php-fpm. Those are sampled, and stopped one by one, instead of the worker itself.
    pub children: Option<ChildLimits>,
    /// The command loads the app once and forks the workers (`spec/wire.md` §9).
    pub preload: bool,
    /// How many processes; at least one is started.
    pub workers: usize,
    /// How long a worker may take from its start to HELLO.
    pub boot_timeout: Duration,
    /// How long a retired worker may take to finish; then SIGTERM, and SIGKILL two seconds later.
    pub drain_timeout: Duration,
    /// How often a worker that dies early is restarted, with back-off, before its place is given up. That holds for an app that has never served: once a
    /// worker was given a request, restarts continue.
    pub start_retries: u32,
    /// When a healthy worker is replaced.
    pub recycling: Recycling,
    /// `Some`: the number of workers follows the load, beginning with `workers`.
    pub scaling: Option<Scaling>,
    /// How long an idle worker may take to reply to a PING, before it counts as hung and is killed. `None`: it gets no PING.
    pub hang_timeout: Option<Duration>,
}

/// When a healthy worker is replaced. Each worker draws its own limits, up to a tenth lower, so that workers which
/// started together do not end together.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Recycling {
    /// After this number of requests.
    pub max_requests: Option<u64>,
    /// After serving for this time.
    pub max_age: Option<Duration>,
    /// Above this size of anonymous memory of its own, in bytes: it is replaced.
    pub max_memory: Option<u64>,
    /// Above this size: it is killed, with its requests.
    pub kill_memory: Option<u64>,
}

/// When one of the processes that a worker manages is stopped.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ChildLimits {
    /// Above this size of anonymous memory of its own, in bytes: after its current request.
    pub max_memory: Option<u64>,
    /// Above this size: at once.
    pub kill_memory: Option<u64>,
}

/// The range of an app's number of workers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Scaling {
    /// The minimum; not 0.
    pub min: usize,
    /// The maximum.
    pub max: usize,
    /// A worker that was not needed for this time is removed.
    pub idle: Duration,
}

impl AppSpec {
    /// A spec with the defaults: one worker in the current directory, 60 s to boot, 30 s to drain, three retries; no recycling.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, command: Vec<OsString>) -> Self {
        Self {
            name: name.into(),
            command,
            directory: PathBuf::from("."),
            env: Vec::new(),
            process: ProcessSettings::default(),
            interface: WorkerInterface::Wire,
            ends_at_quit: false,
            children: None,
            preload: false,
            workers: 1,
            boot_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            start_retries: 3,
            recycling: Recycling::default(),
            scaling: None,
            hang_timeout: None,
        }
    }
}

/// How Keepwarm communicates with a worker.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum WorkerInterface {
    /// Over our wire: a socket that it inherits.
    #[default]
    Wire,
    /// It listens itself, at one of the [`Addresses`](super::Addresses) that it gets.
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
    /// The apps that were removed.
    pub removed: Vec<Arc<str>>,
    /// From the request until every new worker was ready.
    pub took: Duration,
}
