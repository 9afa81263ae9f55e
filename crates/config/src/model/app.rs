use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::Bind;
use crate::sources::Account;

/// `[app.NAME]`: an application and how its workers are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// NAME, as logs and metrics show it.
    pub name: String,
    /// What a worker runs.
    pub program: Program,
    /// How the app is called. `None`: Python, told when the app is loaded.
    pub kind: Option<AppKind>,
    /// Working directory of the workers, and where imports begin.
    pub directory: PathBuf,
    /// Variables set for the workers on top of Keepwarm's own environment: `env_file`, then `env` over it.
    pub env: BTreeMap<String, String>,
    /// Whom the workers run as: the app's `user` and `group`, else those of `[server]`. `None`: as Keepwarm itself.
    pub run_as: Option<Account>,
    /// File mode mask of the workers. `None`: Keepwarm's own.
    pub umask: Option<u32>,
    /// Resource limits of a worker.
    pub limits: ProcessLimits,
    /// The language's interpreter. `None`: found by the adapter's rules (a virtual environment beside the app, then `PATH`).
    pub interpreter: Option<PathBuf>,
    /// Arguments for the interpreter, before the adapter's own.
    pub options: Vec<String>,
    /// Where a server for its scripts runs already. `None`: workers of ours.
    pub address: Option<Bind>,
    /// Worker processes.
    pub workers: Workers,
    /// Whether workers are forked from a process that has loaded the app once.
    pub preload: bool,
    /// The file of Puma's that stands for keys that are not there. The configuration's own; whoever runs the app finds the usual one.
    pub puma_config: PumaConfig,
    /// The app's time for one request, the client's not counted; more: the worker is killed, 504.
    pub request_timeout: Duration,
    /// Requests that take the app longer have their worker's stack put into the log. `None`: off.
    pub slow_log: Option<Duration>,
    /// Threads of a worker of a blocking kind: so many requests at once.
    pub threads: u32,
    /// Requests at once in a worker of a kind that takes many. `None`: as many as its adapter wants.
    pub concurrency: Option<u32>,
    /// The event loop of an ASGI worker, by its adapter's word. `None`: the adapter's choice.
    pub event_loop: Option<&'static str>,
    /// Whether an ASGI app must take part in the lifespan protocol, by its adapter's word. `None`: it may.
    pub lifespan: Option<&'static str>,
    /// From spawn to ready.
    pub boot_timeout: Duration,
    /// How long a worker that is to end may finish what it holds.
    pub drain_timeout: Duration,
    /// Failed starts in a row before the app is given up. 0: never tried again.
    pub start_retries: u32,
    /// The path that a server is asked for to see whether it is well. `None`: any response will do.
    pub health: Option<String>,
    /// A worker is replaced after about so many requests. `None`: never for that.
    pub max_requests: Option<u32>,
    /// A worker is replaced after about so long. `None`: never for that.
    pub max_age: Option<Duration>,
    /// A worker that holds more of anonymous memory, in bytes, is replaced. `None`: never for that.
    pub max_memory: Option<u64>,
    /// A worker that holds more is killed. `None`: never for that.
    pub kill_memory: Option<u64>,
    /// Requests that may wait for a worker; more: 503.
    pub queue: u32,
    /// How long a request may wait for a worker; more: 503.
    pub queue_timeout: Duration,
    /// Of PHP: files of Composer's `vendor/` are sent, its scripts are not run.
    pub serve_vendor: bool,
    /// Development: globs, relative to `directory`; a change recycles the workers. Empty: off.
    pub watch: Vec<String>,
    /// The keys that the configuration has for this app, or that were adopted; all others hold their defaults.
    pub keys: BTreeSet<String>,
    /// What whoever runs the app has taken from elsewhere in place of keys that are not there, in words.
    pub external_settings: Vec<String>,
}

/// Where Puma's configuration of an app is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PumaConfig {
    /// Where Puma looks for it.
    #[default]
    DefaultPath,
    /// It is not read.
    Disabled,
    /// Here.
    File(PathBuf),
}

/// `[app.NAME.limits]`: resource limits of a process, soft and hard alike. `None`: as Keepwarm's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Open files.
    pub files: Option<u64>,
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Processes of the user.
    pub processes: Option<u64>,
    /// Bytes of a core file.
    pub core: Option<u64>,
    /// CpuSeconds of processor time.
    pub cpu: Option<u64>,
}

/// What a worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// What the language's adapter loads: `package.module:name`, or a file.
    Entry(String),
    /// A whole command line; never empty. It serves HTTP, or speaks the worker wire on `KEEPWARM_FD` by itself.
    Command(Vec<String>),
}

/// How many processes an app has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One per core.
    Auto,
    /// So many.
    Fixed(u32),
    /// As many as its requests need.
    Dynamic {
        /// At least.
        min: u32,
        /// At most; never below `min`. `None`: one per core.
        max: Option<u32>,
        /// What was not needed for so long is taken away.
        idle: Duration,
    },
}

/// How an app is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AppKind {
    /// Python, PEP 3333: blocking, one request at a time.
    Wsgi,
    /// Python, ASGI 3: many requests at once.
    Asgi,
    /// PHP, long-lived: the entry returns the app.
    Php,
    /// Classic PHP: scripts over FastCGI.
    FastCgi,
    /// Ruby, Rack 2 and 3.
    Rack,
    /// A program that serves HTTP by itself.
    Http,
}

impl App {
    /// An app with every default.
    pub fn new(name: String, program: Program, directory: PathBuf) -> App {
        App {
            name,
            program,
            kind: None,
            directory,
            env: BTreeMap::new(),
            run_as: None,
            umask: None,
            limits: ProcessLimits::default(),
            interpreter: None,
            options: Vec::new(),
            address: None,
            workers: Workers::Auto,
            preload: false,
            puma_config: PumaConfig::DefaultPath,
            request_timeout: Duration::from_secs(30),
            slow_log: None,
            threads: 1,
            concurrency: None,
            event_loop: None,
            lifespan: None,
            boot_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            start_retries: 5,
            health: None,
            max_requests: None,
            max_age: None,
            max_memory: None,
            kill_memory: None,
            queue: 512,
            queue_timeout: Duration::from_secs(5),
            serve_vendor: false,
            watch: Vec::new(),
            keys: BTreeSet::new(),
            external_settings: Vec::new(),
        }
    }
}
