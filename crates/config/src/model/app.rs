use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

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
    /// The language's interpreter. `None`: found by the adapter's rules (a virtual environment beside the app, then `PATH`).
    pub interpreter: Option<PathBuf>,
    /// Arguments for the interpreter, before the adapter's own.
    pub options: Vec<String>,
    /// Worker processes. `None`: one per core.
    pub workers: Option<u32>,
    /// The app's time for one request, the client's not counted; more: the worker is killed, 504.
    pub request_timeout: Duration,
    /// From spawn to ready.
    pub boot_timeout: Duration,
    /// How long a worker that is to end may finish what it holds.
    pub drain_timeout: Duration,
    /// Failed starts in a row before the app is given up. 0: never tried again.
    pub start_retries: u32,
    /// Requests at once in a worker. `None`: the kind's own number.
    pub concurrency: Option<u32>,
    /// The path that a server is asked for to see whether it is well. `None`: any answer will do.
    pub health: Option<String>,
    /// Requests that may wait for a worker; more: 503.
    pub queue: u32,
    /// How long a request may wait for a worker; more: 503.
    pub queue_timeout: Duration,
    /// Development: globs, relative to `directory`; a change recycles the workers. Empty: off.
    pub watch: Vec<String>,
}

/// What a worker runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// What the language's adapter loads: `package.module:name`, or a file.
    Entry(String),
    /// A whole command line; never empty. It serves HTTP, or speaks the worker wire on `KEEPWARM_FD` by itself.
    Command(Vec<String>),
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
            interpreter: None,
            options: Vec::new(),
            workers: None,
            request_timeout: Duration::from_secs(30),
            boot_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            start_retries: 5,
            concurrency: None,
            health: None,
            queue: 512,
            queue_timeout: Duration::from_secs(5),
            watch: Vec::new(),
        }
    }
}
