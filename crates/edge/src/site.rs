//! What a listener does.

use std::sync::Arc;

use http::Method;
use keepwarm_serve::{ErrorPages, FieldEdits, Request};
use keepwarm_telemetry::spans::Tracer;

use crate::access::AccessLog;
use crate::cidr::Cidr;
use crate::forwarding::LOCAL;
use crate::header_rules::HeaderRules;
use crate::matcher::{BareRequest, RequestView};
use crate::pattern::host_of;
use crate::route::{Route, RouteMatch, Routes, allow};
use crate::template::Values;

/// What a listener does with requests.
#[derive(Debug)]
pub struct Site {
    /// Its listener.
    name: String,
    routes: Routes,
    trusted_proxies: Vec<Cidr>,
    access_log: Option<AccessLog>,
    error_pages: Option<Arc<ErrorPages>>,
    /// Of responses without a route.
    header_rules: Option<HeaderRules>,
    /// `Allow` for the listener as a whole.
    allow: String,
    admitted: Vec<Cidr>,
    denied: Vec<Cidr>,
    tracer: Option<Arc<Tracer>>,
}

impl Site {
    /// Tries `routes` in order; the first that takes a request has it, and where none does the response is 404. What the peers in `trusted_proxies` say
    /// about their clients is believed; a peer on a Unix socket counts as 127.0.0.1.
    #[must_use]
    pub fn new(mut routes: Vec<Route>, trusted_proxies: Vec<Cidr>) -> Self {
        routes.iter_mut().for_each(Route::bake);
        let allow = allow(routes.iter());
        Self {
            name: String::new(),
            routes: Routes::new(routes),
            trusted_proxies,
            access_log: None,
            error_pages: None,
            header_rules: None,
            allow,
            admitted: Vec::new(),
            denied: Vec::new(),
            tracer: None,
        }
    }

    /// Traces its requests.
    #[must_use]
    pub fn with_tracer(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self { tracer, ..self }
    }

    pub(crate) fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    /// Refuses clients in `denied`, and where `admitted` is not empty all others than those.
    #[must_use]
    pub fn with_clients(mut self, admitted: Vec<Cidr>, denied: Vec<Cidr>) -> Self {
        (self.admitted, self.denied) = (admitted, denied);
        self
    }

    pub(crate) fn admits(&self, request: &Request) -> bool {
        if self.admitted.is_empty() && self.denied.is_empty() {
            return true;
        }
        let client = request.client_address().unwrap_or(LOCAL);
        !Cidr::any_contains(&self.denied, client)
            && (self.admitted.is_empty() || Cidr::any_contains(&self.admitted, client))
    }

    /// Records every request.
    #[must_use]
    pub fn with_access_log(mut self, log: AccessLog) -> Self {
        self.access_log = Some(log);
        self
    }

    /// Names its listener.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Has pages in place of its error responses, where a route has none.
    #[must_use]
    pub fn with_error_pages(self, pages: Option<Arc<ErrorPages>>) -> Self {
        Self { error_pages: pages, ..self }
    }

    /// Changes the head of responses that are of no route; those of a route have changes of their own.
    #[must_use]
    pub fn with_header_rules(self, header_rules: Option<HeaderRules>) -> Self {
        Self { header_rules, ..self }
    }

    pub(crate) fn edits(&self, request: &Request) -> Option<Arc<FieldEdits>> {
        self.header_rules.as_ref().map(|rules| rules.edits(Values { request, captures: &[] }))
    }

    pub(crate) fn error_pages(&self) -> Option<&Arc<ErrorPages>> {
        self.error_pages.as_ref()
    }

    /// The pattern of the route for a request without headers and query, from 127.0.0.1 over `http`: for measurements, and to find out.
    #[must_use]
    pub fn route_of(&self, authority: &[u8], path: &[u8], method: &Method) -> Option<&str> {
        let details = BareRequest::default();
        let view = RequestView { host: host_of(authority), path, method, details: &details };
        match self.routes.find(&view) {
            RouteMatch::Route(route) => Some(&route.pattern),
            RouteMatch::WrongMethod(_) | RouteMatch::Nothing => None,
        }
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(crate) fn trusted_proxies(&self) -> &[Cidr] {
        &self.trusted_proxies
    }

    pub(crate) fn access_log(&self) -> Option<&AccessLog> {
        self.access_log.as_ref()
    }

    /// For `OPTIONS *`, and where a method is refused before a route is looked for.
    pub(crate) fn allow(&self) -> &str {
        &self.allow
    }
}
