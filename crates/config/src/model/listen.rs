use std::path::PathBuf;

use super::{
    Bind, Cidr, Conditions, ErrorPage, ForwardProxy, HeaderRules, Limits, ListenTls, Route, StatusRange,
    Template,
};

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
    /// Pages in place of error responses, single statuses first.
    pub error_pages: Vec<ErrorPage>,
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
    /// Changes to the head of every response, before those of the route.
    pub headers: HeaderRules,
    /// Changes to the head of requests that an app or upstream gets, before those of the route.
    pub request_headers: HeaderRules,
}

/// `access_log`: format and file of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// One line of text, or one JSON object, per request.
    pub format: LogFormat,
    /// File to append to. `None`: standard output.
    pub file: Option<PathBuf>,
    /// The form of a record, in place of that of `format`.
    pub record: Option<RecordTemplate>,
    /// Which requests are recorded. `paths`, `clients` and `headers` can be set.
    pub conditions: Conditions,
    /// The statuses that are recorded. Empty: all. A request without a response is always recorded.
    pub statuses: Vec<StatusRange>,
}

impl AccessLog {
    /// A log of every request on standard output.
    pub fn new(format: LogFormat) -> AccessLog {
        AccessLog {
            format,
            file: None,
            record: None,
            conditions: Conditions::default(),
            statuses: Vec::new(),
        }
    }
}

/// The form of a record, with variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordTemplate {
    /// A line of text.
    Line(Template),
    /// A JSON object with these members.
    Object(Vec<(String, Template)>),
}

impl RecordTemplate {
    /// The texts with variables.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let (line, members) = match self {
            RecordTemplate::Line(line) => (Some(line), [].as_slice()),
            RecordTemplate::Object(members) => (None, members.as_slice()),
        };
        line.into_iter().chain(members.iter().map(|(_, value)| value))
    }
}

/// The format of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// One line of text.
    Text,
    /// One line with a JSON object.
    Json,
}
