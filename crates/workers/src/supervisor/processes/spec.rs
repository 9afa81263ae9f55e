//! What the supervisor is told about processes that serve no requests.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_policy::backoff::BackoffSettings;

use super::RunSchedule;
use crate::supervisor::ProcessSettings;

/// A program, and how it is executed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Execution {
    /// The program and its arguments, never empty. A name without a slash is looked up in the process's `PATH`; a relative path is
    /// relative to `directory`.
    pub command: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// Added to Keepwarm's own environment, later ones winning.
    pub env: Vec<(OsString, OsString)>,
    /// User, limits and other settings.
    pub process: ProcessSettings,
}

/// The processes of one `[process.NAME]`.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcessSpec {
    /// NAME.
    pub name: Arc<str>,
    /// The program.
    pub execution: Arc<Execution>,
    /// How many processes.
    pub count: u32,
    /// What must be ready before the first one starts.
    pub after: Vec<Dependency>,
    /// When a process is ready. `None`: when it runs.
    pub ready: Option<ReadyCheck>,
    /// How long it may take until then.
    pub boot_timeout: Duration,
    /// When it runs. `None`: all the time.
    pub schedule: Option<RunSchedule>,
    /// What follows its exit.
    pub restart: RestartPolicy,
    /// Exit statuses that are no failures.
    pub exit_codes: Vec<u8>,
    /// The signal that tells it to finish and exit.
    pub stop_signal: i32,
    /// How long it may take for that; then its process group is killed.
    pub stop_timeout: Duration,
    /// The signal that a reload sends in place of a restart.
    pub reload_signal: Option<i32>,
    /// Age at which a process is replaced, or a run of a schedule stopped.
    pub max_age: Option<Duration>,
    /// Bytes of anonymous memory of its own above which it is replaced.
    pub max_memory: Option<u64>,
    /// Bytes above which it is killed.
    pub kill_memory: Option<u64>,
    /// The waits between restarts.
    pub backoff: BackoffSettings,
}

/// What a process can wait for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dependency {
    /// An app.
    App(Arc<str>),
    /// Another `[process.NAME]`.
    Process(Arc<str>),
    /// An upstream.
    Upstream(Arc<str>),
}

/// When a process is ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadyCheck {
    /// It accepts connections there.
    AcceptsTcp(SocketAddr),
    /// It accepts connections there.
    AcceptsUnix(PathBuf),
    /// It has printed a line that contains this.
    Prints(Arc<str>),
}

/// What follows the exit of a process.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum RestartPolicy {
    /// Another.
    #[default]
    Always,
    /// Another, unless it exited well.
    OnFailure,
    /// Nothing.
    Never,
}

/// A command that runs once before the section that it belongs to starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSpec {
    /// The section: `app.shop`.
    pub section: Arc<str>,
    /// The program.
    pub execution: Arc<Execution>,
    /// How long it may take.
    pub timeout: Duration,
}

impl ProcessSpec {
    /// A spec with the defaults.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, execution: Execution) -> Self {
        Self {
            name: name.into(),
            execution: Arc::new(execution),
            count: 1,
            after: Vec::new(),
            ready: None,
            boot_timeout: Duration::from_secs(60),
            schedule: None,
            restart: RestartPolicy::Always,
            exit_codes: vec![0],
            stop_signal: rustix::process::Signal::TERM.as_raw(),
            stop_timeout: Duration::from_secs(30),
            reload_signal: None,
            max_age: None,
            max_memory: None,
            kill_memory: None,
            backoff: BackoffSettings::default(),
        }
    }

    /// The variables that tell a process what it is.
    pub(super) fn variables(&self, number: u32) -> Vec<(&'static str, String)> {
        vec![("KEEPWARM_PROCESS", self.name.to_string()), ("KEEPWARM_PROCESS_NUMBER", number.to_string())]
    }
}

/// As the configuration writes it: `app.shop`.
impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App(name) => write!(f, "app.{name}"),
            Self::Process(name) => write!(f, "process.{name}"),
            Self::Upstream(name) => write!(f, "upstream.{name}"),
        }
    }
}
