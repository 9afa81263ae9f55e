//! What a route matches besides a host, one path and methods.

use std::net::IpAddr;

use http::Method;
use keepwarm_http1::Fields;
use keepwarm_net::Scheme;
use keepwarm_serve::Request;

use super::values::{arguments, cookies};
use super::{PatternSet, ValuePattern};
use crate::cidr::Cidr;
use crate::forwarding::LOCAL;
use crate::pattern::{HostPattern, PathPattern};

/// What a request must be, too. All of it must hold. Most routes have no such conditions.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Hosts that do not match.
    pub not_hosts: Vec<HostPattern>,
    /// Paths, in addition to the route's own.
    pub paths: PatternSet<PathPattern>,
    /// Headers, by names in lower case. Every line of a name is a value.
    pub headers: Vec<ValueCondition>,
    /// Query arguments, by decoded names.
    pub arguments: Vec<ValueCondition>,
    /// Cookies.
    pub cookies: Vec<ValueCondition>,
    /// Addresses of clients. A client on a Unix socket counts as 127.0.0.1.
    pub clients: PatternSet<Cidr>,
    /// The scheme that the client used.
    pub scheme: Option<Scheme>,
}

/// A condition on all values of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCondition {
    /// The name.
    pub name: Box<str>,
    /// What its values must be.
    pub values: PatternSet<ValuePattern>,
}

/// What conditions look at. Only routes that have some ask for the last four.
pub(crate) trait RequestDetails {
    fn fields(&self) -> &Fields;
    fn query(&self) -> Option<&[u8]>;
    fn client(&self) -> IpAddr;
    fn scheme(&self) -> Scheme;
}

impl RequestDetails for Request {
    fn fields(&self) -> &Fields {
        &self.head.fields
    }

    fn query(&self) -> Option<&[u8]> {
        self.head.query()
    }

    fn client(&self) -> IpAddr {
        self.client_address().unwrap_or(LOCAL)
    }

    fn scheme(&self) -> Scheme {
        Request::scheme(self)
    }
}

/// A request as routes see it.
#[derive(Clone, Copy)]
pub(crate) struct RequestView<'r> {
    /// Without port and final dot.
    pub(crate) host: &'r [u8],
    /// Normalized.
    pub(crate) path: &'r [u8],
    pub(crate) method: &'r Method,
    pub(crate) details: &'r dyn RequestDetails,
}

impl Conditions {
    /// Whether the request meets all of them.
    pub(crate) fn hold(&self, request: &RequestView<'_>) -> bool {
        if self.not_hosts.iter().any(|pattern| pattern.matches(request.host)) {
            return false;
        }
        if !self.paths.holds(std::iter::once(request.path), |pattern, path| pattern.matches(path)) {
            return false;
        }
        let details = request.details;
        self.scheme.is_none_or(|scheme| scheme == details.scheme())
            && (self.clients.is_empty()
                || self
                    .clients
                    .holds(std::iter::once(details.client()), |block, client| block.contains(client)))
            && self.headers.iter().all(|header| header.holds(details.fields().all(&header.name)))
            && self
                .cookies
                .iter()
                .all(|cookie| cookie.holds(cookies(details.fields(), cookie.name.as_bytes())))
            && self.arguments.iter().all(|argument| argument.holds_of_query(details.query()))
    }
}

impl ValueCondition {
    fn holds<'v>(&self, values: impl Iterator<Item = &'v [u8]>) -> bool {
        self.values.holds(values, ValuePattern::matches)
    }

    fn holds_of_query(&self, query: Option<&[u8]>) -> bool {
        let values: Vec<_> = arguments(query.unwrap_or_default(), self.name.as_bytes()).collect();
        self.holds(values.iter().map(|value| &**value))
    }
}

/// A request for tests, and for looking up a route without one.
pub(crate) struct BareRequest {
    pub(crate) fields: Fields,
    pub(crate) query: Option<Vec<u8>>,
    pub(crate) client: IpAddr,
    pub(crate) scheme: Scheme,
}

impl Default for BareRequest {
    fn default() -> Self {
        Self { fields: Fields::new(), query: None, client: LOCAL, scheme: Scheme::Http }
    }
}

impl RequestDetails for BareRequest {
    fn fields(&self) -> &Fields {
        &self.fields
    }

    fn query(&self) -> Option<&[u8]> {
        self.query.as_deref()
    }

    fn client(&self) -> IpAddr {
        self.client
    }

    fn scheme(&self) -> Scheme {
        self.scheme
    }
}
