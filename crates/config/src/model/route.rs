use std::path::PathBuf;

use super::map::{groups, stars};
use super::{
    AuthRequest, BasicAuth, Cidr, Compression, Concurrency, Conditions, ErrorPage, FileOptions, FilesFolder,
    Mirror, SplitKey, SplitShare, Template,
};

/// `[[listen.NAME.route]]`: conditions, and the action for the requests that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Hosts that match. Empty: all.
    pub hosts: Vec<HostPattern>,
    /// Normalized paths that match.
    pub path: PathPattern,
    /// Methods that match, in upper case; `GET` includes `HEAD`. Empty: all.
    pub methods: Vec<String>,
    /// What else a request must be to match.
    pub conditions: Conditions,
    /// The action for a request that matches.
    pub action: Action,
    /// Other targets for shares of the requests.
    pub split: Vec<SplitShare>,
    /// What keeps a client at its target. `None`: nothing, each request is assigned at random.
    pub split_by: Option<SplitKey>,
    /// What keeps the requests of a session at one worker. `None`: nothing.
    pub sticky: Option<SplitKey>,
    /// A second target that gets copies of the requests.
    pub mirror: Option<Mirror>,
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
    /// Changes to the head of requests that an app or upstream gets.
    pub request_headers: HeaderRules,
    /// The path, and perhaps the query, that the action gets in place of the request's.
    pub rewrite: Option<Template>,
    /// Clients that may use the route. Empty: all. Applied after `deny`.
    pub allow: Vec<Cidr>,
    /// Clients that get 403.
    pub deny: Vec<Cidr>,
    /// Cancel the request of a client that closes its write side.
    pub abort_on_half_close: bool,
    /// A directory whose files are served before the app is called.
    pub try_files: Option<PathBuf>,
    /// How the files of the directory are served.
    pub file_options: FileOptions,
    /// Directories whose files the app may send, each with its prefix of `X-Accel-Redirect`, which begins and ends
    /// with a slash.
    pub send_files: Vec<(String, PathBuf)>,
    /// Pages in place of error responses, single statuses first; those of the listener apply to other statuses.
    pub error_pages: Vec<ErrorPage>,
    /// They also replace error responses of the app or upstream.
    pub intercept_errors: bool,
    /// Name of the rate limit, which is in [`crate::Config::rate_limits`].
    pub rate_limit: Option<String>,
    /// Compress responses. `None`: they are sent as they are.
    pub compression: Option<Compression>,
    /// Users that may use the route.
    pub basic_auth: Option<BasicAuth>,
    /// A service that decides about each request.
    pub auth_request: Option<AuthRequest>,
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
    /// A pattern in lower case with `*` in another place; each is any text.
    Glob(String),
    /// A valid regular expression of the host in lower case, without the `~`.
    Regex(String),
}

impl HostPattern {
    /// Whether `host`, in lower case and without a port, is the name or a name below it. For forward proxies, which have no other patterns.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(exact) => host == exact,
            HostPattern::Suffix(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            HostPattern::Glob(_) | HostPattern::Regex(_) => false,
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
    /// A pattern with `*` in other places; each is any text, also with slashes.
    Glob(String),
    /// A valid regular expression of the path, without the `~`.
    Regex(String),
}

impl PathPattern {
    /// Whether the normalized `path` is one that the pattern names: patterns with `*` in other places and regular expressions name none.
    pub fn names(&self, path: &str) -> bool {
        match self {
            PathPattern::Any => true,
            PathPattern::Exact(exact) => path == exact,
            PathPattern::Prefix(prefix) => path.starts_with(prefix.as_str()),
            PathPattern::Glob(_) | PathPattern::Regex(_) => false,
        }
    }

    /// How many of `$1` to `$9` a match has: one for each `*` or group.
    pub fn captures(&self) -> usize {
        match self {
            PathPattern::Any | PathPattern::Exact(_) => 0,
            PathPattern::Prefix(_) => 1,
            PathPattern::Glob(glob) => stars(glob),
            PathPattern::Regex(regex) => groups(regex),
        }
    }

    /// The prefix that `strip_prefix` removes: `/assets` of `/assets/*`; empty for other patterns.
    pub fn mount(&self) -> &str {
        match self {
            PathPattern::Prefix(prefix) => prefix.strip_suffix('/').unwrap_or(prefix),
            PathPattern::Any | PathPattern::Exact(_) | PathPattern::Glob(_) | PathPattern::Regex(_) => "",
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
    Files(FilesFolder),
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
    pub body: Template,
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
    /// `Location`.
    pub to: Template,
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

/// `headers` and `request_headers`: applied in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderRules {
    /// Headers to remove, in lower case.
    pub remove: Vec<String>,
    /// Headers that replace all headers of that name, with names as written. A name may occur several times.
    pub set: Vec<(String, Template)>,
    /// Headers to add to those of that name.
    pub add: Vec<(String, Template)>,
    /// Headers to add where there is none of that name.
    pub if_missing: Vec<(String, Template)>,
}

impl HeaderRules {
    /// The values.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.set.iter().chain(&self.add).chain(&self.if_missing).map(|(_, value)| value)
    }
}

impl Route {
    /// A route that matches every request, with all defaults.
    pub fn to(action: Action, max_body: Option<u64>) -> Route {
        Route {
            hosts: Vec::new(),
            path: PathPattern::Any,
            methods: Vec::new(),
            conditions: Conditions::default(),
            action,
            split: Vec::new(),
            split_by: None,
            sticky: None,
            mirror: None,
            strip_prefix: false,
            max_body,
            buffer_request: None,
            buffer_response: None,
            early_hints: EarlyHints::Auto,
            any_header_names: false,
            via: true,
            headers: HeaderRules::default(),
            request_headers: HeaderRules::default(),
            rewrite: None,
            allow: Vec::new(),
            deny: Vec::new(),
            abort_on_half_close: false,
            try_files: None,
            file_options: FileOptions::default(),
            send_files: Vec::new(),
            error_pages: Vec::new(),
            intercept_errors: false,
            rate_limit: None,
            compression: None,
            basic_auth: None,
            auth_request: None,
            concurrency: None,
        }
    }
}
