use std::path::PathBuf;

use super::Cidr;

/// `[[listen.NAME.route]]`: which requests, and what serves them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Hosts it answers for. Empty: all.
    pub hosts: Vec<HostPattern>,
    /// Normalised paths it answers for.
    pub path: PathPattern,
    /// Methods it answers for, upper case; `GET` brings `HEAD` with it. Empty: all.
    pub methods: Vec<String>,
    /// What serves the request.
    pub action: Action,
    /// The app sees the path without the route's prefix, which becomes `SCRIPT_NAME` / `root_path`.
    pub strip_prefix: bool,
    /// Bytes of a request body; more: 413. `None`: no limit. When the route says nothing, the listener's `limits.body`, and none to an
    /// upstream.
    pub max_body: Option<u64>,
    /// Read the body before the app is called. `None`: by the app's kind (WSGI yes, ASGI no).
    pub buffer_request: Option<bool>,
    /// Free the worker before the client has taken the response. `None`: by the app's kind (WSGI yes, ASGI no).
    pub buffer_response: Option<bool>,
    /// To whom a worker's 103 goes.
    pub early_hints: EarlyHints,
    /// Headers of every name go to ASGI, `kind = "http"` and upstreams.
    pub any_header_names: bool,
    /// `Via` goes to `kind = "http"` and upstreams.
    pub via: bool,
    /// Changes to the head of every response of this route.
    pub headers: HeaderRules,
    /// Clients that may use the route. Empty: all. Looked at after `deny`.
    pub allow: Vec<Cidr>,
    /// Clients that get 403.
    pub deny: Vec<Cidr>,
    /// A client that closes its write side is gone, and its request is cancelled.
    pub abort_on_half_close: bool,
    /// A directory whose files are served before the app is asked.
    pub try_files: Option<PathBuf>,
    /// Files that the app may name as its response: prefixes of `X-Accel-Redirect`, begun and ended by a slash, and their directories.
    pub send_files: Vec<(String, PathBuf)>,
    /// Name of the rate limit that holds; it is in [`crate::Config::rate_limits`].
    pub rate_limit: Option<String>,
}

/// `host` of a route. Port and case of the request's host do not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// `example.com`, lower case; an IPv6 address is in brackets.
    Exact(String),
    /// `*.example.com`: held as `.example.com`, lower case; any number of labels in front, at least one.
    Suffix(String),
}

impl HostPattern {
    /// Whether `host` (lower case, without port) fits.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(exact) => host == exact,
            HostPattern::Suffix(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        }
    }
}

/// `path` of a route, compared with the normalised path of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathPattern {
    /// No `path`, or `/*`.
    Any,
    /// `/x`: this path only.
    Exact(String),
    /// `/assets/*`: held as `/assets/`; every path that begins so. `/assets` itself does not, unless the prefix is stripped.
    Prefix(String),
}

impl PathPattern {
    /// Whether the normalised `path` fits.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            PathPattern::Any => true,
            PathPattern::Exact(exact) => path == exact,
            PathPattern::Prefix(prefix) => path.starts_with(prefix.as_str()),
        }
    }

    /// What `strip_prefix` takes away: `/assets` of `/assets/*`, nothing otherwise.
    pub fn mount(&self) -> &str {
        match self {
            PathPattern::Prefix(prefix) => prefix.strip_suffix('/').unwrap_or(prefix),
            PathPattern::Any | PathPattern::Exact(_) => "",
        }
    }
}

/// What serves a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A worker of the app of this name, which is in [`crate::Config::apps`].
    App(String),
    /// The upstream of this name, which is in [`crate::Config::upstreams`].
    Upstream(String),
    /// The files of a directory; the route's prefix is no part of their names.
    Files(PathBuf),
    /// A fixed response.
    Respond(FixedResponse),
    /// A response that sends the client elsewhere.
    Redirect(Redirect),
}

/// `respond`: a fixed response of the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedResponse {
    /// 200 to 599.
    pub status: u16,
    /// Empty for 204, 205 and 304.
    pub body: String,
    /// `Content-Type`; `None` when there is no body.
    pub content_type: Option<String>,
    /// Further fields, names as written.
    pub headers: Vec<(String, String)>,
}

/// `redirect`: status and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `Location`, in pieces.
    pub to: Vec<RedirectPiece>,
}

/// A piece of `Location`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectPiece {
    /// These bytes.
    Text(String),
    /// `$host`: the request's host, with its port when it has one.
    Host,
    /// `$path`: the request's path, normalised, with its first slash; without the prefix when `strip_prefix` is set.
    Path,
    /// `$query`: `?` and the query, or nothing when there is none.
    Query,
}

/// `early_hints`: who gets a worker's 103.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EarlyHints {
    /// Clients that are known to cope (RFC 8297 §3): HTTP/2, and `Sec-Fetch-Mode: navigate` on HTTP/1.1.
    #[default]
    Auto,
    /// Every HTTP/1.1 and later client.
    Always,
    /// Nobody.
    Never,
}

/// `headers` of a route: first `remove`, then `set`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderRules {
    /// Fields taken out of the response, lower case.
    pub remove: Vec<String>,
    /// Fields that replace every field of that name, names as written; a name may come several times.
    pub set: Vec<(String, String)>,
}

impl Route {
    /// A route that takes every request, with every default.
    pub fn to(action: Action, max_body: Option<u64>) -> Route {
        Route {
            hosts: Vec::new(),
            path: PathPattern::Any,
            methods: Vec::new(),
            action,
            strip_prefix: false,
            max_body,
            buffer_request: None,
            buffer_response: None,
            early_hints: EarlyHints::Auto,
            any_header_names: false,
            via: true,
            headers: HeaderRules::default(),
            allow: Vec::new(),
            deny: Vec::new(),
            abort_on_half_close: false,
            try_files: None,
            send_files: Vec::new(),
            rate_limit: None,
        }
    }
}
