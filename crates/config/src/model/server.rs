use std::path::PathBuf;
use std::time::Duration;

use super::{Cidr, Limits, LogFormat};
use crate::sources::Account;

/// `[server]`: what concerns the whole process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Data-plane threads. `None`: half of the cores, at least one.
    pub threads: Option<u32>,
    /// How long a stop may take in all.
    pub shutdown_grace: Duration,
    /// How long listeners still serve after readiness has begun to fail.
    pub drain_delay: Duration,
    /// How long an idle connection is kept for its next request after listening has stopped.
    pub drain_idle: Duration,
    /// Where and how the process logs.
    pub log: Log,
    /// The user of workers whose app names none. `None`: Keepwarm's own.
    pub user: Option<Account>,
    /// Their group. `None`: the user's.
    pub group: Option<u32>,
    /// File that holds the process id while the process lives.
    pub pid_file: Option<PathBuf>,
    /// Peers whose `Forwarded` and `X-Forwarded-*` are believed. Empty: nobody's.
    pub trusted_proxies: Vec<Cidr>,
    /// Limits of every listener that does not set its own.
    pub limits: Limits,
}

impl Default for Server {
    fn default() -> Self {
        Server {
            threads: None,
            shutdown_grace: Duration::from_secs(25),
            drain_delay: Duration::ZERO,
            drain_idle: Duration::from_secs(2),
            log: Log::default(),
            user: None,
            group: None,
            pid_file: None,
            trusted_proxies: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// `[server.log]`: the log of the process and of its workers' output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// One line of text, or one JSON object, per record.
    pub format: LogFormat,
    /// Records below this level are not written.
    pub level: LogLevel,
    /// File to append to. `None`: standard error.
    pub file: Option<PathBuf>,
}

impl Default for Log {
    fn default() -> Self {
        Log { format: LogFormat::Text, level: LogLevel::Info, file: None }
    }
}

/// How much is logged; each level contains those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something needs a look.
    Warn,
    /// What a person on duty wants to know.
    Info,
    /// Decisions of single connections and requests.
    Debug,
    /// Everything.
    Trace,
}
