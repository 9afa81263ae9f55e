//! Routes: which requests they take, and what they do with them.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use http::Method;
use keepwarm_serve::{Compression, ErrorPages, FieldEdits, FieldPatterns, ForwardingPolicy, Handler};
use keepwarm_telemetry::meters::{self, RouteMeter};

use crate::cidr::Cidr;
use crate::index::RouteIndex;
use crate::matcher::{Conditions, RequestView};
use crate::pattern::{HostPattern, PathPattern};
use crate::responses::{CheckedRedirect, CheckedResponse};
use crate::{Checks, Files, FixedResponse, HeaderRules, Redirect, SiteFiles, SplitKey, Template};

/// A route: what it takes, its limits, and where it ends.
#[derive(Debug, Clone)]
pub struct Route {
    /// Hosts it takes. Empty: all, and requests that name none.
    pub hosts: Vec<HostPattern>,
    /// Normalized paths it takes.
    pub path: PathPattern,
    /// Methods it takes; `GET` brings `HEAD` with it. Empty: all.
    pub methods: Vec<Method>,
    /// Methods it does not take, in the same way.
    pub not_methods: Vec<Method>,
    /// What else the requests that it takes have in common; none for most routes.
    pub conditions: Option<Box<Conditions>>,
    /// Where it ends.
    pub target: Target,
    /// The target is a [`crate::Split`], which decides on the app.
    pub is_split: bool,
    /// What keeps the requests of a session at one worker.
    pub sticky: Option<SplitKey>,
    /// The app sees the path without the pattern's fixed prefix ([`PathPattern::mount`]).
    pub strip_prefix: bool,
    /// Bytes of a request's body; more: 413. `None`: no limit.
    pub max_body: Option<u64>,
    /// Clients that may use it; others get 403. Empty: all. A client on a Unix socket counts as 127.0.0.1.
    pub allow: Vec<Cidr>,
    /// Clients that get 403. Looked at before `allow`.
    pub deny: Vec<Cidr>,
    /// Headers of clients that say who they are, which only the route's own checks may write: nothing of the route sees them.
    pub identity_headers: Option<Arc<FieldPatterns>>,
    /// Changes to the head of every response, our own errors on this route included.
    pub edits: Option<Arc<FieldEdits>>,
    /// What is changed in messages depending on the request; none for most routes.
    pub changes: Option<Box<Changes>>,
    /// Something of the route has what a `*` or a group of its path stands for. [`crate::Site::new`] fills it in.
    pub uses_captures: bool,
    /// Pages in place of error responses, those of the listener included.
    pub error_pages: Option<Arc<ErrorPages>>,
    /// They also replace error responses of the app.
    pub intercept_errors: bool,
    /// Compression of its responses, our own errors on this route included.
    pub compression: Option<Arc<Compression>>,
    /// A client that shuts its writing side is gone.
    pub abort_on_half_close: bool,
    /// How messages are passed on to an app.
    pub passing: ForwardingPolicy,
    /// What logs and metrics call it: hosts and path as configured (`shop.example/assets/*`). [`crate::Site::new`] fills it in.
    pub pattern: Arc<str>,
    /// What counts its requests. [`crate::Site::new`] fills it in.
    pub meter: Option<&'static RouteMeter>,
}

/// Changes to messages of a route, with values of the request.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Changes to the head of every response, in place of the route's `edits`.
    pub response: Option<HeaderRules>,
    /// Changes to the request that an app gets.
    pub request: Option<HeaderRules>,
    /// The path, and perhaps the query, that the target gets in place of the request's.
    pub rewrite: Option<Template>,
}

/// Where a route ends.
#[derive(Clone)]
pub enum Target {
    /// Another handler.
    App {
        /// Its name, in the access log.
        name: Arc<str>,
        /// The handler. It has the options of the route that only it uses (buffering, early hints): make one per route.
        handler: Arc<dyn Handler>,
    },
    /// The files of a directory.
    Files(Arc<Files>),
    /// Files of a directory that depends on the request.
    SiteFiles(Arc<SiteFiles>),
    /// Files or a response, behind [`crate::Checks`].
    Guarded {
        /// What the access log calls it.
        label: Arc<str>,
        /// The handler with its checks.
        handler: Arc<dyn Handler>,
    },
    /// A fixed response.
    Respond(FixedResponse),
    /// A response that sends the client elsewhere.
    Redirect(Redirect),
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::App { name, .. } => f.debug_tuple("App").field(name).finish(),
            Self::Files(files) => files.fmt(f),
            Self::SiteFiles(files) => files.fmt(f),
            Self::Guarded { label, .. } => f.debug_tuple("Guarded").field(label).finish(),
            Self::Respond(respond) => respond.fmt(f),
            Self::Redirect(redirect) => redirect.fmt(f),
        }
    }
}

impl Target {
    /// The target, of a route with this path, behind checks.
    #[must_use]
    pub fn behind(self, checks: Checks, path: &PathPattern) -> Self {
        if checks.is_empty() {
            return self;
        }
        let label = self.label().clone();
        let handler: Arc<dyn Handler> = match self {
            Self::App { name, handler } => return Self::App { name, handler: checks.around(handler) },
            Self::Files(files) => files,
            Self::SiteFiles(files) => files,
            Self::Guarded { handler, .. } => handler,
            Self::Respond(response) => Arc::new(CheckedResponse { response, path: path.clone() }),
            Self::Redirect(redirect) => Arc::new(CheckedRedirect { redirect, path: path.clone() }),
        };
        Self::Guarded { label, handler: checks.around(handler) }
    }

    /// What the access log calls it.
    fn label(&self) -> &Arc<str> {
        static FILES: LazyLock<Arc<str>> = LazyLock::new(|| "files".into());
        static RESPOND: LazyLock<Arc<str>> = LazyLock::new(|| "respond".into());
        static REDIRECT: LazyLock<Arc<str>> = LazyLock::new(|| "redirect".into());
        match self {
            Self::App { name, .. } => name,
            Self::Guarded { label, .. } => label,
            Self::Files(_) | Self::SiteFiles(_) => &FILES,
            Self::Respond(_) => &RESPOND,
            Self::Redirect(_) => &REDIRECT,
        }
    }
}

impl Route {
    /// A route that takes every request, without limits.
    #[must_use]
    pub fn to(target: Target) -> Self {
        Self {
            hosts: Vec::new(),
            path: PathPattern::Any,
            methods: Vec::new(),
            not_methods: Vec::new(),
            conditions: None,
            target,
            is_split: false,
            sticky: None,
            strip_prefix: false,
            max_body: None,
            allow: Vec::new(),
            deny: Vec::new(),
            identity_headers: None,
            edits: None,
            changes: None,
            uses_captures: false,
            error_pages: None,
            intercept_errors: false,
            compression: None,
            abort_on_half_close: false,
            passing: ForwardingPolicy::default(),
            pattern: Arc::default(),
            meter: None,
        }
    }

    /// Makes what is known beforehand: its name, and the edits as part of fixed responses.
    pub(crate) fn bake(&mut self) {
        self.pattern = self.described().into();
        let app = match &self.target {
            Target::App { name, .. } => name,
            Target::Files(_)
            | Target::SiteFiles(_)
            | Target::Guarded { .. }
            | Target::Respond(_)
            | Target::Redirect(_) => "",
        };
        self.meter = Some(meters::route(app, &self.pattern));
        let in_changes = self.changes.as_ref().is_some_and(|changes| {
            changes.response.iter().chain(&changes.request).any(HeaderRules::uses_captures)
                || changes.rewrite.as_ref().is_some_and(Template::uses_captures)
        });
        let in_target = match &self.target {
            Target::Redirect(redirect) => redirect.uses_captures(),
            Target::Respond(respond) => respond.uses_captures(),
            Target::App { .. } | Target::Files(_) | Target::SiteFiles(_) | Target::Guarded { .. } => false,
        };
        self.uses_captures = in_changes || in_target;
        let Some(edits) = &self.edits else { return };
        match &mut self.target {
            Target::App { .. } | Target::Files(_) | Target::SiteFiles(_) | Target::Guarded { .. } => {}
            Target::Respond(respond) => respond.edit(edits),
            Target::Redirect(redirect) => redirect.edit(edits),
        }
    }

    fn described(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        format!("{}{}", hosts.join(","), self.path)
    }

    /// What the access log calls it.
    pub(crate) fn label(&self) -> &Arc<str> {
        self.target.label()
    }

    /// Whether it takes such requests, whatever their method.
    fn covers(&self, request: &RequestView<'_>) -> bool {
        let RequestView { host, path, .. } = *request;
        (self.hosts.is_empty() || self.hosts.iter().any(|pattern| pattern.matches(host)))
            && (self.path.matches(path) || (self.strip_prefix && self.path.is_mount(path)))
            && self.conditions.as_ref().is_none_or(|conditions| conditions.hold(request))
    }

    pub(crate) fn takes_method(&self, method: &Method) -> bool {
        (self.methods.is_empty() || names(&self.methods, method)) && !names(&self.not_methods, method)
    }

    pub(crate) fn admits(&self, client: IpAddr) -> bool {
        !Cidr::any_contains(&self.deny, client)
            && (self.allow.is_empty() || Cidr::any_contains(&self.allow, client))
    }
}

/// Whether these include the method; `GET` includes `HEAD`.
fn names(methods: &[Method], method: &Method) -> bool {
    methods.contains(method) || *method == Method::HEAD && methods.contains(&Method::GET)
}

/// The result of matching a request against the routes.
#[derive(Debug)]
pub(crate) enum RouteMatch<'r> {
    Route(&'r Route),
    /// Routes cover the host and the path, none of them the method: these are the methods they take.
    WrongMethod(String),
    Nothing,
}

/// Routes in order of precedence.
#[derive(Debug)]
pub(crate) struct Routes {
    list: Vec<Route>,
    /// Not for a few: looking at each is faster.
    index: Option<RouteIndex>,
    /// Whether two paths can lead to different routes.
    depend_on_path: bool,
}

/// From this number of routes on, there is an index. Measured with `bench/micro`: about here, both cost the same.
const INDEXED: usize = 16;

impl Routes {
    pub(crate) fn new(list: Vec<Route>) -> Self {
        let index = (list.len() >= INDEXED).then(|| RouteIndex::new(&list));
        let depend_on_path = list.iter().any(|route| {
            route.path != PathPattern::Any
                || route.conditions.as_ref().is_some_and(|conditions| !conditions.paths.is_empty())
        });
        Self { list, index, depend_on_path }
    }

    #[cfg(test)]
    pub(crate) fn with_index(list: Vec<Route>) -> Self {
        Self { index: Some(RouteIndex::new(&list)), ..Self::new(list) }
    }

    #[cfg(test)]
    pub(crate) fn without_index(list: Vec<Route>) -> Self {
        Self { index: None, ..Self::new(list) }
    }

    #[cfg(test)]
    pub(crate) fn number_of(&self, route: &Route) -> Option<usize> {
        self.list.iter().position(|one| std::ptr::eq(one, route))
    }

    /// Whether two paths can lead to different routes.
    pub(crate) fn depend_on_path(&self) -> bool {
        self.depend_on_path
    }

    /// The first route that takes the request.
    pub(crate) fn find(&self, request: &RequestView<'_>) -> RouteMatch<'_> {
        let found = match &self.index {
            None => {
                self.list.iter().find(|route| route.takes_method(request.method) && route.covers(request))
            }
            Some(index) => self.find_by(index, request),
        };
        match found {
            Some(route) => RouteMatch::Route(route),
            None => self.mismatch(request),
        }
    }

    fn find_by(&self, index: &RouteIndex, request: &RequestView<'_>) -> Option<&Route> {
        let mut best: Option<(u32, &Route)> = None;
        index.candidates(request.host, request.path, &mut |numbers| {
            for &number in numbers {
                if best.is_some_and(|(best, _)| best <= number) {
                    return;
                }
                let Some(route) = self.list.get(number as usize) else { continue };
                if route.takes_method(request.method) && route.covers(request) {
                    best = Some((number, route));
                    return;
                }
            }
        });
        best.map(|(_, route)| route)
    }

    /// Why no route takes the request.
    fn mismatch(&self, request: &RequestView<'_>) -> RouteMatch<'_> {
        let mut numbers: Vec<u32> = Vec::new();
        match &self.index {
            None => numbers.extend((0..).zip(&self.list).map(|(number, _)| number)),
            Some(index) => {
                index.candidates(request.host, request.path, &mut |more| numbers.extend_from_slice(more));
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        let routes = numbers.iter().filter_map(|&number| self.list.get(number as usize));
        let mut covering = routes.filter(|route| route.covers(request)).peekable();
        match covering.peek() {
            Some(_) => RouteMatch::WrongMethod(allow(covering)),
            None => RouteMatch::Nothing,
        }
    }
}

/// `Allow` (RFC 9110 §10.2.1) for all that these routes take.
pub(crate) fn allow<'r>(routes: impl Iterator<Item = &'r Route>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for route in routes {
        let all = if route.methods.is_empty() { USUAL.as_slice() } else { &[] };
        let head = route.methods.contains(&Method::GET).then_some(&Method::HEAD);
        for method in all.iter().chain(&route.methods).chain(head) {
            if route.takes_method(method) && !names.contains(&method.as_str()) {
                names.push(method.as_str());
            }
        }
    }
    names.join(", ")
}

/// What "all methods" is said to be. `TRACE` and `CONNECT` never reach a route.
const USUAL: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::BareRequest;

    fn route(status: u16, host: &str, path: PathPattern, methods: &[Method]) -> Route {
        let mut route = Route::to(Target::Respond(FixedResponse::new(status, None, &[], "").unwrap()));
        route.hosts = match host.strip_prefix('*') {
            _ if host.is_empty() => Vec::new(),
            Some(suffix) => vec![HostPattern::Below(suffix.to_owned())],
            None => vec![HostPattern::Exact(host.to_owned())],
        };
        route.path = path;
        route.methods = methods.to_vec();
        route
    }

    fn found(routes: &Routes, host: &str, path: &str, method: Method) -> String {
        let details = BareRequest::default();
        let view =
            RequestView { host: host.as_bytes(), path: path.as_bytes(), method: &method, details: &details };
        match routes.find(&view) {
            RouteMatch::Route(route) => match &route.target {
                Target::Respond(respond) => respond.status().to_string(),
                other => format!("{other:?}"),
            },
            RouteMatch::WrongMethod(allow) => allow,
            RouteMatch::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn the_first_route_that_takes_all_of_it_is_taken() {
        let exact = |path: &str| PathPattern::Exact(path.to_owned());
        let below = |path: &str| PathPattern::Prefix(path.to_owned());
        let routes = Routes::new(vec![
            route(201, "a.example", exact("/x"), &[Method::GET]),
            route(202, "a.example", exact("/x"), &[Method::POST, Method::GET]),
            route(203, "*.example", below("/files/"), &[]),
            route(204, "", exact("/health"), &[Method::GET]),
            route(205, "b.example", PathPattern::Any, &[]),
        ]);
        let cases = [
            ("a.example", "/x", Method::GET, "201"),
            ("a.example", "/x", Method::HEAD, "201"),
            ("a.example", "/x", Method::POST, "202"),
            ("a.example", "/x", Method::PUT, "GET, HEAD, POST"),
            ("A.EXAMPLE", "/files/1", Method::PUT, "203"),
            ("c.example", "/files/", Method::DELETE, "203"),
            ("example", "/files/", Method::GET, "nothing"),
            ("", "/health", Method::GET, "204"),
            ("b.example", "/health", Method::GET, "204"),
            ("b.example", "/health", Method::POST, "205"),
            ("a.example", "/health", Method::POST, "GET, HEAD"),
            ("", "/", Method::GET, "nothing"),
            ("b.example", "/", Method::from_bytes(b"PURGE").unwrap(), "205"),
        ];
        for (host, path, method, expected) in cases {
            let name = method.clone();
            assert_eq!(found(&routes, host, path, method), expected, "{name} {host} {path}");
        }
    }

    #[test]
    fn negated_methods_are_left_to_other_routes() {
        let mut writes = route(201, "", PathPattern::Any, &[]);
        writes.not_methods = vec![Method::GET];
        let mut all_but_head = route(202, "a.example", PathPattern::Any, &[Method::GET]);
        all_but_head.not_methods = vec![Method::HEAD];
        let routes = Routes::new(vec![writes, all_but_head]);
        for (host, method, expected) in [
            ("a.example", Method::POST, "201"),
            ("a.example", Method::GET, "202"),
            // `GET` brings `HEAD` with it, negated or not.
            ("a.example", Method::HEAD, "POST, PUT, PATCH, DELETE, OPTIONS, GET"),
            ("b.example", Method::GET, "POST, PUT, PATCH, DELETE, OPTIONS"),
            ("b.example", Method::from_bytes(b"PURGE").unwrap(), "201"),
        ] {
            let name = method.clone();
            assert_eq!(found(&routes, host, "/", method), expected, "{name} {host}");
        }
    }

    /// An app that is mounted at a prefix has an address of its own there: its front page.
    #[test]
    fn a_stripped_prefix_itself_belongs_to_its_route() {
        let mut mounted = route(201, "", PathPattern::Prefix("/api/rest/".to_owned()), &[]);
        mounted.strip_prefix = true;
        let whole = route(202, "", PathPattern::Prefix("/api/rest/".to_owned()), &[]);
        let (mounted, whole) = (Routes::new(vec![mounted]), Routes::new(vec![whole]));
        for (path, mount, stays) in [
            ("/api/rest", "201", "nothing"),
            ("/api/rest/", "201", "202"),
            ("/api/rest/x", "201", "202"),
            ("/api/restful", "nothing", "nothing"),
            ("/api", "nothing", "nothing"),
            ("/", "nothing", "nothing"),
        ] {
            assert_eq!(found(&mounted, "", path, Method::GET), mount, "{path}");
            assert_eq!(found(&whole, "", path, Method::GET), stays, "{path}");
        }
        let mut all = route(203, "", PathPattern::Any, &[]);
        all.strip_prefix = true;
        assert_eq!(found(&Routes::new(vec![all]), "", "/", Method::GET), "203");
    }

    #[test]
    fn a_route_is_called_what_the_configuration_calls_it() {
        let below = PathPattern::Prefix("/files/".to_owned());
        let cases = [
            (route(200, "", PathPattern::Any, &[]), "/*"),
            (route(200, "a.example", PathPattern::Exact("/x".to_owned()), &[]), "a.example/x"),
            (route(200, "*.example", below, &[]), "*.example/files/*"),
        ];
        for (mut route, expected) in cases {
            route.bake();
            assert_eq!(&*route.pattern, expected);
        }
    }

    #[test]
    fn denied_comes_before_allowed() {
        let mut guarded = route(200, "", PathPattern::Any, &[]);
        let block = |first: &str, prefix| Cidr::new(first.parse().unwrap(), prefix).unwrap();
        let admits = |route: &Route, client: &str| route.admits(client.parse().unwrap());
        assert!(admits(&guarded, "203.0.113.1"));
        guarded.deny = vec![block("10.9.0.0", 16)];
        assert!(admits(&guarded, "203.0.113.1") && !admits(&guarded, "10.9.1.1"));
        guarded.allow = vec![block("10.0.0.0", 8)];
        assert!(!admits(&guarded, "203.0.113.1") && !admits(&guarded, "10.9.1.1"));
        assert!(admits(&guarded, "10.1.1.1") && admits(&guarded, "::ffff:10.1.1.1"));
    }
}
