//! The request of each checker, and the responses that it takes for healthy.

use std::time::Duration;

use crate::client::{Outcome, Request, Response};
use crate::context::ProbeContext;
use crate::report::time;

/// The name a cluster or an upstream group has in most examples.
const GROUP: &str = "backend";

/// A checker that a server may stand behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checker {
    /// `option httpchk`, and nothing else.
    HaProxyDefault,
    /// `http-check send` with the method, version and host that one should give it.
    HaProxy,
    /// `health_check` of nginx Plus, and what an ordinary request of nginx's `proxy_pass` looks like, by which the free nginx judges.
    Nginx,
    Envoy,
    Kubernetes,
}

/// The result of one health check.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckResult {
    /// The request, and its sender.
    pub(super) asked: String,
    /// The `Host` sent.
    pub(super) host: Option<String>,
    /// Why there was no connection.
    pub(super) failure: Option<String>,
    pub(super) status: Option<u16>,
    /// The response, in words.
    pub(super) words: String,
    /// Whether the connection stayed open without a response.
    pub(super) silent: bool,
    /// The status of the second check on the same connection, if one was made and got a response.
    pub(super) again: Option<u16>,
}

impl CheckResult {
    pub(super) fn first(&mut self, response: &Response) {
        self.status = response.status();
        self.silent = response.head.is_none() && response.outcome == Outcome::Silence;
        let after: Duration = response.head_at.unwrap_or(response.took);
        self.words = match response.status() {
            Some(status) => format!("{status} after {}", time(after)),
            None => response.words(),
        };
    }

    pub(super) fn again(&mut self, response: &Response) {
        self.again = response.status();
    }
}

impl Checker {
    /// In the order they are tried: the verdict on a check without `Host` depends on the response to another name.
    pub(super) const ALL: [Self; 5] =
        [Self::HaProxy, Self::Nginx, Self::HaProxyDefault, Self::Envoy, Self::Kubernetes];

    /// The id of its finding.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::HaProxyDefault => "health.haproxy_default",
            Self::HaProxy => "health.haproxy",
            Self::Nginx => "health.nginx",
            Self::Envoy => "health.envoy",
            Self::Kubernetes => "health.kubernetes",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::HaProxyDefault => "HAProxy's default option httpchk",
            Self::HaProxy => "HAProxy's http-check send",
            Self::Nginx => "nginx",
            Self::Envoy => "Envoy",
            Self::Kubernetes => "Kubernetes",
        }
    }

    /// Checks on one connection.
    pub(super) fn turns(self) -> usize {
        if self == Self::Envoy { 2 } else { 1 }
    }

    /// Whether it takes a server with this response for healthy, by default.
    pub(super) fn passes(self, status: u16) -> bool {
        match self {
            Self::Envoy => status == 200,
            _ => (200..400).contains(&status),
        }
    }

    /// Whether it names the server in the TLS handshake, and verifies its certificate. By default none does; who configures the `Host` of a check configures this, too.
    pub(super) fn names_server(self) -> bool {
        self == Self::HaProxy
    }

    /// The `Host` it sends.
    pub(super) fn host(self, context: &ProbeContext) -> Option<String> {
        match self {
            Self::HaProxyDefault => None,
            Self::HaProxy => Some(context.authority()),
            Self::Nginx | Self::Envoy => Some(GROUP.to_owned()),
            Self::Kubernetes => {
                let address = context.addresses.first().map(ToString::to_string);
                Some(address.unwrap_or_else(|| context.authority()))
            }
        }
    }

    /// Its request, with the fields that were given besides: without them the page may not be there.
    pub(super) fn ask(self, context: &ProbeContext) -> Request {
        let method = if self == Self::HaProxyDefault { "OPTIONS" } else { "GET" };
        let own: &[(&str, &str)] = match self {
            Self::HaProxyDefault => &[],
            Self::HaProxy | Self::Nginx => &[("Connection", "close")],
            Self::Envoy => &[("User-Agent", "Envoy/HC")],
            Self::Kubernetes => {
                &[("User-Agent", "kube-probe/1.34"), ("Accept", "*/*"), ("Connection", "close")]
            }
        };
        let mut request = Request::new(method, &context.target.path, Vec::new());
        for (name, value) in &context.settings.headers {
            request = request.field(name, value);
        }
        request = match self.host(context) {
            Some(host) => request.field("Host", &host),
            None => request.without("Host"),
        };
        request = own.iter().fold(request, |request, (name, value)| request.field(name, value));
        match self {
            Self::HaProxyDefault | Self::Nginx => request.http10(),
            Self::HaProxy | Self::Envoy | Self::Kubernetes => request,
        }
    }

    /// Its request, for evidence.
    pub(super) fn shown(self, request: &Request, host: Option<&str>) -> String {
        let host = host.map_or_else(|| "without Host".to_owned(), |host| format!("with Host: {host}"));
        format!("{}, {} {host}", self.name(), request.line())
    }

    /// How to configure it, so that it sees a healthy server healthy.
    pub(super) fn fix(self) -> &'static str {
        match self {
            Self::HaProxyDefault => {
                "Configure the request in HAProxy: option httpchk, and http-check send meth GET uri /PATH ver HTTP/1.1 hdr Host NAME."
            }
            Self::HaProxy => {
                "Give the check a path that returns 2xx or 3xx, or set http-check expect status CODE."
            }
            Self::Nginx => {
                "Set proxy_http_version 1.1; proxy_set_header Host NAME; and, in nginx Plus, health_check uri=/PATH match=NAME."
            }
            Self::Envoy => {
                "Set http_health_check: {host: NAME, path: /PATH, expected_statuses: [{start: 200, end: 400}]}."
            }
            Self::Kubernetes => {
                "Set httpGet: {path: /PATH, httpHeaders: [{name: Host, value: NAME}]}, and timeoutSeconds if one second is too short."
            }
        }
    }
}
