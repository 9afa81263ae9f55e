//! What a listener does.

use keepwarm_serve::Request;

use crate::access::AccessLog;
use crate::cidr::Cidr;
use crate::forwarding::LOCAL;
use crate::route::{Route, RouteMatch, allow, find};
use crate::spellings::{has_other_readings, other_readings};

/// What a listener does with requests.
#[derive(Debug)]
pub struct Site {
    routes: Vec<Route>,
    trusted_proxies: Vec<Cidr>,
    access_log: Option<AccessLog>,
    /// `Allow` for the listener as a whole.
    allow: String,
    admitted: Vec<Cidr>,
    denied: Vec<Cidr>,
    /// Some route is not for everybody.
    has_restricted: bool,
}

impl Site {
    /// Tries `routes` in order; the first that takes a request has it, and where none does the response is 404. What the peers in `trusted_proxies` say
    /// about their clients is believed; a peer on a Unix socket counts as 127.0.0.1.
    #[must_use]
    pub fn new(mut routes: Vec<Route>, trusted_proxies: Vec<Cidr>) -> Self {
        routes.iter_mut().for_each(Route::bake);
        let allow = allow(routes.iter());
        let has_restricted = routes.iter().any(Route::is_restricted);
        let (admitted, denied) = (Vec::new(), Vec::new());
        Self { routes, trusted_proxies, access_log: None, allow, admitted, denied, has_restricted }
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

    /// Whether another reading of a request's path leads to another route than this one, which is not for everybody.
    pub(crate) fn is_ambiguous(&self, route: &Route, host: &[u8], request: &Request) -> bool {
        let path = request.path();
        if !self.has_restricted || !has_other_readings(path) {
            return false;
        }
        let leads_elsewhere =
            |reading: Vec<u8>| match find(&self.routes, host, &reading, &request.head.method) {
                RouteMatch::Route(other) => other.is_restricted() && !std::ptr::eq(other, route),
                RouteMatch::WrongMethod(_) | RouteMatch::Nothing => false,
            };
        other_readings(path).any(leads_elsewhere)
    }

    /// Records every request.
    #[must_use]
    pub fn with_access_log(mut self, log: AccessLog) -> Self {
        self.access_log = Some(log);
        self
    }

    pub(crate) fn routes(&self) -> &[Route] {
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
