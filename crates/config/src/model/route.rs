use std::path::PathBuf;

use super::{BasicAuth, Cidr, Compression, Concurrency};

/// `[[listen.NAME.route]]`: conditions, and the action for the requests that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Hosts that match. Empty: all.
    pub hosts: Vec<HostPattern>,
    /// Normalized paths that match.
    pub path: PathPattern,
    /// Methods that match, in upper case; `GET` includes `HEAD`. Empty: all.
    pub methods: Vec<String>,
    /// The action for a request that matches.
    pub action: Action,
    /// Remove the route's prefix from the path that the app sees; it becomes `SCRIPT_NAME` or `root_path`.
    pub strip_prefix: bool,
    /// Size of a request body; a larger one gets 413. `None`: no limit. The default is `limits.body` of the listener,
    /// and no limit for an upstream.
    pub max_body: Option<u64>,
    /// Read the whole body before the app is called. `None`: depends on the kind of the app (WSGI yes, ASGI no).
    pub buffer_request: Option<bool>,
    /// Free the worker before the client has read the response. `None`: depends on the kind of the app (WSGI yes,
    /// ASGI no).
    pub buffer_response: Option<bool>,
    /// Clients that get a 103 of the app.
    pub early_hints: EarlyHints,
    /// Pass on headers of any name to ASGI, `kind = "http"` and upstreams.
    pub any_header_names: bool,
    /// Add `Via` for `kind = "http"` and upstreams.
    pub via: bool,
    /// Changes to the head of every response of this route.
    pub headers: HeaderRules,
    /// Clients that may use the route. Empty: all. Applied after `deny`.
    pub allow: Vec<Cidr>,
    /// Clients that get 403.
    pub deny: Vec<Cidr>,
    /// Cancel the request of a client that closes its write side.
    pub abort_on_half_close: bool,
    /// A directory whose files are served before the app is called.
    pub try_files: Option<PathBuf>,
    /// Directories whose files the app may send, each with its prefix of `X-Accel-Redirect`, which begins and ends
    /// with a slash.
    pub send_files: Vec<(String, PathBuf)>,
    /// Name of the rate limit, which is in [`crate::Config::rate_limits`].
    pub rate_limit: Option<String>,
    /// Compress responses. `None`: they are sent as they are.
    pub compression: Option<Compression>,
    /// Users that may use the route.
    pub basic_auth: Option<BasicAuth>,
    /// How many of its requests are in progress at once.
    pub concurrency: Option<Concurrency>,
}

/// `host` of a route. It is compared without the port of the request's host, and regardless of case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// `example.com`, in lower case; an IPv6 address is in brackets.
    Exact(String),
    /// `*.example.com`, stored as `.example.com` in lower case. It matches names with one or more labels before it.
    Suffix(String),
}

impl HostPattern {
    /// Whether `host`, in lower case and without a port, matches.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(exact) => host == exact,
            HostPattern::Suffix(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        }
    }
}

/// `path` of a route, compared with the normalized path of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathPattern {
    /// No `path`, or `/*`.
    Any,
    /// `/x`: only this path.
    Exact(String),
    /// `/assets/*`, stored as `/assets/`: every path that begins with it. `/assets` itself matches only with
    /// `strip_prefix`.
    Prefix(String),
}

impl PathPattern {
    /// Whether the normalized `path` matches.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            PathPattern::Any => true,
            PathPattern::Exact(exact) => path == exact,
            PathPattern::Prefix(prefix) => path.starts_with(prefix.as_str()),
        }
    }

    /// The prefix that `strip_prefix` removes: `/assets` of `/assets/*`; empty for other patterns.
    pub fn mount(&self) -> &str {
        match self {
            PathPattern::Prefix(prefix) => prefix.strip_suffix('/').unwrap_or(prefix),
            PathPattern::Any | PathPattern::Exact(_) => "",
        }
    }
}

/// The action of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Pass the request to this app, which is in [`crate::Config::apps`].
    App(String),
    /// Pass the request to this upstream, which is in [`crate::Config::upstreams`].
    Upstream(String),
    /// Serve the files of a directory. Their names do not include the route's prefix.
    Files(PathBuf),
    /// Send a fixed response.
    Respond(FixedResponse),
    /// Send a redirect.
    Redirect(Redirect),
}

/// `respond`: a fixed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedResponse {
    /// Status, from 200 to 599.
    pub status: u16,
    /// Body; empty for 204, 205 and 304.
    pub body: String,
    /// `Content-Type`; `None` if there is no body.
    pub content_type: Option<String>,
    /// Other headers, with names as written.
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

/// A part of `Location`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectPiece {
    /// This text.
    Text(String),
    /// `$host`: the request's host, with its port if it has one.
    Host,
    /// `$path`: the request's normalized path with its first slash, without the prefix if `strip_prefix` is set.
    Path,
    /// `$query`: `?` and the query, or nothing if there is none.
    Query,
}

/// `early_hints`: the clients that get a 103 of the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EarlyHints {
    /// Clients that are known to support it (RFC 8297 §3): HTTP/2, and `Sec-Fetch-Mode: navigate` on HTTP/1.1.
    #[default]
    Auto,
    /// Every client of HTTP/1.1 and later.
    Always,
    /// No client.
    Never,
}

/// `headers` of a route: `remove` is applied first, then `set`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderRules {
    /// Headers to remove from the response, in lower case.
    pub remove: Vec<String>,
    /// Headers that replace all headers of that name, with names as written. A name may occur several times.
    pub set: Vec<(String, String)>,
}

impl Route {
    /// A route that matches every request, with all defaults.
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
            compression: None,
            basic_auth: None,
            concurrency: None,
        }
    }
}
