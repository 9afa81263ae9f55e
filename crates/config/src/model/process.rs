use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Bind, ProcessLimits};
use crate::sources::Account;

/// `[process.NAME]`: processes that serve no requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// NAME, as in logs and metrics.
    pub name: String,
    /// The program and its arguments, never empty.
    pub command: Vec<String>,
    /// Number of processes, 1 with a `schedule`.
    pub count: u32,
    /// Working directory.
    pub directory: PathBuf,
    /// Variables that override Keepwarm's own environment: those of `env_file`, overridden by those of `env`.
    pub env: BTreeMap<String, String>,
    /// User of the processes. `None`: Keepwarm's own, or as root a default.
    pub run_as: Option<Account>,
    /// Umask of the processes. `None`: Keepwarm's own.
    pub umask: Option<u32>,
    /// Resource limits of a process.
    pub limits: ProcessLimits,
    /// What must be ready before the first one starts. No process waits for itself, directly or through others.
    pub after: Vec<Dependency>,
    /// When a process is ready. `None`: as soon as it runs.
    pub ready: Option<ReadyCheck>,
    /// Time limit from the start until `ready`.
    pub boot_timeout: Duration,
    /// Commands that run once before the first process starts.
    pub before_start: Vec<Vec<String>>,
    /// Time limit of each of them.
    pub before_start_timeout: Duration,
    /// When it runs. `None`: all the time.
    pub schedule: Option<Schedule>,
    /// What happens when a process exits.
    pub restart: Restart,
    /// Exit statuses that are no failures.
    pub exit_codes: Vec<u8>,
    /// Signal that tells a process to finish and exit.
    pub stop_signal: ProcessSignal,
    /// Time for that; then its process group is killed.
    pub stop_timeout: Duration,
    /// Signal that a reload sends in place of a restart.
    pub reload_signal: Option<ProcessSignal>,
    /// Age at which a process is replaced, or a run of a schedule stopped. `None`: no limit.
    pub max_age: Option<Duration>,
    /// Bytes of anonymous memory above which a process is replaced. `None`: no limit.
    pub max_memory: Option<u64>,
    /// Bytes of anonymous memory above which a process is killed. `None`: no limit.
    pub kill_memory: Option<u64>,
    /// Development: globs, relative to `directory`, whose changes restart the processes. Empty: off.
    pub watch: Vec<String>,
}

/// What a process can wait for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// An app: it has been ready.
    App(String),
    /// Another `[process.NAME]`: all of its processes are ready; of one that is not restarted, it has succeeded.
    Process(String),
    /// An upstream: an endpoint can take calls.
    Upstream(String),
}

/// When a process is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadyCheck {
    /// It accepts connections at this address.
    Accepts(Bind),
    /// It has printed a line that contains this.
    Prints(String),
}

/// When a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Whenever the Unix time is a multiple of this, in whole seconds.
    Every(Duration),
    /// A cron pattern of five fields in the local time zone, valid for `croner`.
    Cron(String),
}

/// What happens when a process exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Another is started.
    #[default]
    Always,
    /// Another is started, unless the exit status is fine.
    OnFailure,
    /// Nothing.
    Never,
}

/// A signal that a process can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSignal {
    /// Its name without `SIG`.
    pub name: &'static str,
    /// Its number on Linux, for x86 and ARM.
    pub number: i32,
}

/// The signals that keys may name.
pub(crate) const SIGNALS: [ProcessSignal; 8] = [
    ProcessSignal { name: "HUP", number: 1 },
    ProcessSignal { name: "INT", number: 2 },
    ProcessSignal { name: "QUIT", number: 3 },
    ProcessSignal { name: "KILL", number: 9 },
    ProcessSignal { name: "USR1", number: 10 },
    ProcessSignal { name: "USR2", number: 12 },
    ProcessSignal { name: "TERM", number: 15 },
    ProcessSignal { name: "WINCH", number: 28 },
];

impl ProcessSignal {
    /// SIGTERM.
    pub const TERM: ProcessSignal = ProcessSignal { name: "TERM", number: 15 };
}

/// As the key `after` writes it: `app.shop`.
impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dependency::App(name) => write!(f, "app.{name}"),
            Dependency::Process(name) => write!(f, "process.{name}"),
            Dependency::Upstream(name) => write!(f, "upstream.{name}"),
        }
    }
}

impl Process {
    /// A process with all defaults.
    pub fn new(name: String, directory: PathBuf) -> Process {
        Process {
            name,
            command: Vec::new(),
            count: 1,
            directory,
            env: BTreeMap::new(),
            run_as: None,
            umask: None,
            limits: ProcessLimits::default(),
            after: Vec::new(),
            ready: None,
            boot_timeout: Duration::from_secs(60),
            before_start: Vec::new(),
            before_start_timeout: Duration::from_secs(600),
            schedule: None,
            restart: Restart::Always,
            exit_codes: vec![0],
            stop_signal: ProcessSignal::TERM,
            stop_timeout: Duration::from_secs(30),
            reload_signal: None,
            max_age: None,
            max_memory: None,
            kill_memory: None,
            watch: Vec::new(),
        }
    }
}
