use std::path::PathBuf;
use std::time::Duration;

use super::{Cidr, Limits, LogFormat};
use crate::sources::Account;

/// `[server]`: settings of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Data-plane threads. `None`: half of the cores, at least one.
    pub threads: Option<u32>,
    /// Time limit of a shutdown.
    pub shutdown_grace: Duration,
    /// Time for which listeners keep serving after readiness has begun to fail.
    pub drain_delay: Duration,
    /// Time for which idle connections stay open once listening has stopped.
    pub drain_idle: Duration,
    /// Log of the process.
    pub log: Log,
    /// User for the workers of apps that set none. `None`: Keepwarm's own.
    pub user: Option<Account>,
    /// Group for the workers of apps that set neither user nor group. `None`: the user's.
    pub group: Option<u32>,
    /// File that contains the process id while the process runs.
    pub pid_file: Option<PathBuf>,
    /// Peers whose `Forwarded` and `X-Forwarded-*` are trusted. Empty: none.
    pub trusted_proxies: Vec<Cidr>,
    /// Limits of every listener that does not override them.
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

/// The lowest level that is logged; each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Conditions that an operator should check.
    Warn,
    /// Events of normal operation.
    Info,
    /// Decisions for single connections and requests.
    Debug,
    /// Everything.
    Trace,
}
