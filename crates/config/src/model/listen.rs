use std::path::PathBuf;

use super::{Bind, ForwardProxy, Limits, Route};

/// `[listen.NAME]`: addresses, and what happens to a request that arrives there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// NAME, as logs and metrics show it.
    pub name: String,
    /// Where to listen; at least one, no two alike anywhere in the configuration.
    pub bind: Vec<Bind>,
    /// The server's limits with this listener's own laid over them.
    pub limits: Limits,
    /// One line per request. `None`: off.
    pub access_log: Option<AccessLog>,
    /// Tried in order, the first that matches serves the request; at least one, unless it is a forward proxy. When none matches: 404.
    pub routes: Vec<Route>,
    /// Calls for hosts of others (absolute-form, CONNECT) are taken. `None`: they are not.
    pub forward_proxy: Option<ForwardProxy>,
}

/// `access_log`: how and where requests are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// One line of text, or one JSON object, per request.
    pub format: LogFormat,
    /// File to append to. `None`: standard output.
    pub file: Option<PathBuf>,
}

/// How a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// One line a person can read.
    Text,
    /// One JSON object in a line.
    Json,
}
