use std::path::PathBuf;

use super::{Bind, Cidr, ForwardProxy, Limits, ListenTls, Route};

/// `[listen.NAME]`: addresses, and the routes of the requests that arrive there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// NAME, as in logs and metrics.
    pub name: String,
    /// Addresses to listen on; at least one. No two addresses of the configuration overlap.
    pub bind: Vec<Bind>,
    /// The limits of the server, overridden by those of this listener.
    pub limits: Limits,
    /// One record per request. `None`: off.
    pub access_log: Option<AccessLog>,
    /// Serve clients that begin with HTTP/2.
    pub http2: bool,
    /// Routes in order: the first that matches serves the request, and if none matches, the response is 404. At least
    /// one, unless this is a forward proxy.
    pub routes: Vec<Route>,
    /// TLS of its connections. `None`: plaintext.
    pub tls: Option<ListenTls>,
    /// Accept requests for other hosts (absolute form, `CONNECT`). `None`: they are rejected.
    pub forward_proxy: Option<ForwardProxy>,
    /// Every connection begins with a PROXY header of a peer in `server.trusted_proxies`, which is not empty.
    pub proxy_protocol: bool,
    /// Clients that may use the routes. Empty: all. Applied after `deny`.
    pub allow: Vec<Cidr>,
    /// Clients that get 403 on every route.
    pub deny: Vec<Cidr>,
}

/// `access_log`: format and file of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// One line of text, or one JSON object, per request.
    pub format: LogFormat,
    /// File to append to. `None`: standard output.
    pub file: Option<PathBuf>,
}

/// The format of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// One line of text.
    Text,
    /// One line with a JSON object.
    Json,
}
