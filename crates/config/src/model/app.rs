use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::{Bind, ProxyVersion, UpstreamProtocol};
use crate::sources::Account;

/// `[app.NAME]`: an application and its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// NAME, as in logs and metrics.
    pub name: String,
    /// The program of a worker.
    pub program: Program,
    /// The interface of the app. `None`: Python; detected when the app is loaded.
    pub kind: Option<AppKind>,
    /// Working directory of the workers, from which imports start.
    pub directory: PathBuf,
    /// Variables that override Keepwarm's own environment: those of `env_file`, overridden by those of `env`.
    pub env: BTreeMap<String, String>,
    /// User of the workers: the app's `user` and `group`, else those of `[server]`. `None`: Keepwarm's own.
    pub run_as: Option<Account>,
    /// Umask of the workers. `None`: Keepwarm's own.
    pub umask: Option<u32>,
    /// Resource limits of a worker.
    pub limits: ProcessLimits,
    /// Interpreter of the language. `None`: the adapter finds it (a virtual environment next to the app, then
    /// `PATH`).
    pub interpreter: Option<PathBuf>,
    /// Arguments for the interpreter, before those of the adapter.
    pub options: Vec<String>,
    /// Address of a php-fpm that is already running. `None`: Keepwarm starts the workers.
    pub address: Option<Bind>,
    /// Number of worker processes.
    pub workers: Workers,
    /// Fork the workers from a process that has loaded the app.
    pub preload: bool,
    /// Puma configuration for keys that are not set. The binary looks for the default path, because this crate opens
    /// no files.
    pub puma_config: PumaConfig,
    /// Time limit of the app for one request, without the client's time; then the worker is killed and the client
    /// gets 504.
    pub request_timeout: Duration,
    /// Time after which a request has its worker's stack logged. `None`: off.
    pub slow_log: Option<Duration>,
    /// Threads of a worker of a blocking kind, which is its number of requests at once.
    pub threads: u32,
    /// Requests at once in a worker of a concurrent kind. `None`: the adapter's limit.
    pub concurrency: Option<u32>,
    /// Event loop of an ASGI worker, as the adapter names it. `None`: the adapter selects it.
    pub event_loop: Option<&'static str>,
    /// Lifespan mode of an ASGI worker, as the adapter names it. `None`: the app may support it.
    pub lifespan: Option<&'static str>,
    /// Time limit from spawn to ready.
    pub boot_timeout: Duration,
    /// Time for a draining worker to finish its requests.
    pub drain_timeout: Duration,
    /// Commands that run once before the first worker starts, and before those of a reload.
    pub before_start: Vec<Vec<String>>,
    /// Time limit of each of them.
    pub before_start_timeout: Duration,
    /// Failed starts in a row before Keepwarm gives up on the app. 0: a failed start is not retried.
    pub start_retries: u32,
    /// The version of HTTP that a server is spoken to in.
    pub protocol: UpstreamProtocol,
    /// PROXY header with which each connection to a server begins. `None`: none.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Path of the health check of a server. `None`: any response is healthy.
    pub health: Option<String>,
    /// Number of requests after which a worker is replaced. `None`: no limit.
    pub max_requests: Option<u32>,
    /// Age at which a worker is replaced. `None`: no limit.
    pub max_age: Option<Duration>,
    /// Bytes of anonymous memory above which a worker is replaced. `None`: no limit.
    pub max_memory: Option<u64>,
    /// Bytes of anonymous memory above which a worker is killed. `None`: no limit.
    pub kill_memory: Option<u64>,
    /// Requests that may wait for a worker; further ones get 503.
    pub queue: u32,
    /// Time for which a request may wait for a worker; then it gets 503.
    pub queue_timeout: Duration,
    /// PHP: send files of Composer's `vendor/`. Its scripts are never run.
    pub serve_vendor: bool,
    /// Development: globs, relative to `directory`, whose changes replace the workers. Empty: off.
    pub watch: Vec<String>,
    /// Development: what requests leave behind is measured after each, and logged.
    pub leaks: bool,
    /// Keys that the configuration or an external setting sets; all others have their defaults.
    pub keys: BTreeSet<String>,
    /// Settings that the binary takes from outside of the configuration (Puma), as text for the start-up log.
    pub external_settings: Vec<String>,
}

/// The Puma configuration of an app.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PumaConfig {
    /// The file that Puma itself would read.
    #[default]
    DefaultPath,
    /// None is read.
    Disabled,
    /// This file.
    File(PathBuf),
}

/// `[app.NAME.limits]`: resource limits of a process, soft and hard. `None`: Keepwarm's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Number of open files.
    pub files: Option<u64>,
    /// Bytes of address space.
    pub memory: Option<u64>,
    /// Number of processes of the user.
    pub processes: Option<u64>,
    /// Bytes of a core file.
    pub core: Option<u64>,
    /// CpuSeconds of processor time.
    pub cpu: Option<u64>,
}

/// The program of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The app that the language's adapter loads: `package.module:name`, or a file.
    Entry(String),
    /// A whole command line, never empty. The program serves HTTP, or speaks the worker wire on `KEEPWARM_FD`.
    Command(Vec<String>),
}

/// The number of processes of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One per core.
    Auto,
    /// This number.
    Fixed(u32),
    /// A number that follows the load.
    Dynamic {
        /// Minimum.
        min: u32,
        /// Maximum, never below `min`. `None`: one per core.
        max: Option<u32>,
        /// Time after which a worker that was not needed is stopped.
        idle: Duration,
    },
}

/// The interface of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AppKind {
    /// Python, PEP 3333: blocking.
    Wsgi,
    /// Python, ASGI 3: concurrent.
    Asgi,
    /// PHP with warm workers: the entry returns the app.
    Php,
    /// Classic PHP: scripts over FastCGI.
    FastCgi,
    /// Ruby, Rack 2 and 3.
    Rack,
    /// A program that serves HTTP by itself.
    Http,
}

impl App {
    /// An app with all defaults.
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
            before_start: Vec::new(),
            before_start_timeout: Duration::from_secs(600),
            start_retries: 5,
            protocol: UpstreamProtocol::Http1,
            proxy_protocol: None,
            health: None,
            max_requests: None,
            max_age: None,
            max_memory: None,
            kill_memory: None,
            queue: 512,
            queue_timeout: Duration::from_secs(5),
            serve_vendor: false,
            watch: Vec::new(),
            leaks: false,
            keys: BTreeSet::new(),
            external_settings: Vec::new(),
        }
    }
}
