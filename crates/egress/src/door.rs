//! The entries that belong to one upstream: a door, a route of a listener, and requests of Keepwarm itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use keepwarm_http1::normalize_path;
use keepwarm_serve::{
    ALLOW, Exchange, Frontend, Handler, Outcome, Refusal, Request, refuse_misdirected,
    respond_as_final_recipient, respond_with_head_refusal, respond_with_refusal,
};

use crate::forward::{ForwardOptions, HostSource, forward};
use crate::{Upstream, guard};

/// The handler of a local address that stands for an upstream: the app calls it in place of the service.
#[derive(Debug)]
pub struct Door {
    target: ArcSwap<DoorTarget>,
}

/// The upstream of a door, and the host names it accepts.
#[derive(Debug)]
struct DoorTarget {
    upstream: Arc<Upstream>,
    /// Names it goes by; `None`: any.
    names: Option<Vec<String>>,
}

impl Door {
    /// A door to `upstream`. `names`: those it goes by beside loopback's and its own address; `None`: it is public on purpose, and any name will do.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>, names: Option<Vec<String>>) -> Self {
        Self { target: ArcSwap::from_pointee(DoorTarget { upstream, names }) }
    }

    /// Leads to another upstream, under other names, from the next call on. Calls under way end where they began.
    pub fn replace(&self, upstream: Arc<Upstream>, names: Option<Vec<String>>) {
        self.target.store(Arc::new(DoorTarget { upstream, names }));
    }
}

impl Handler for Door {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let target = self.target.load();
        if refused(exchange, target.names.as_deref()) || exchange.abort_if_reset() {
            return Box::pin(std::future::ready(()));
        }
        let upstream = Arc::clone(&target.upstream);
        Box::pin(async move {
            if let Some(limiter) = upstream.limiter()
                && limiter.refuses(exchange).await
            {
                return;
            }
            let settings = upstream.settings();
            let host = settings.host.as_deref();
            let options = ForwardOptions {
                host: host.map_or(HostSource::Endpoint, |host| HostSource::Fixed(host.as_bytes())),
                routed: false,
                via: false,
                returns_redirects: true,
                forwards_expectation: settings.forwards_expectation,
                says_timing: settings.server_timing,
                is_of_app: true,
            };
            forward(&upstream, options, exchange).await;
        })
    }
}

impl Frontend for Door {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_refusal(exchange, refusal);
    }

    fn names_processes(&self) -> bool {
        true
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        // Calls have been recorded.
        if request.notes.call.is_none() {
            self.target.load().upstream.note_refused(request, outcome);
        }
    }
}

/// What a door responds itself (`spec/http.md` §2, §4).
fn refused(exchange: &mut Exchange<'_>, names: Option<&[String]>) -> bool {
    let request = exchange.request();
    if let Some(refusal) = request.head.refusal {
        respond_with_head_refusal(exchange, refusal, ALLOW.1);
        return true;
    }
    if let Err(denied) = guard::check(request, names) {
        exchange.close_after();
        denied.response().respond(exchange);
        return true;
    }
    if refuse_misdirected(exchange) {
        return true;
    }
    let request = exchange.request();
    if request.head.is_server_wide() {
        respond_as_final_recipient(exchange);
        return true;
    }
    // The path is forwarded as it came: a signature may cover it. An invalid path is still refused.
    let mut scratch = Vec::new();
    if let Err(fault) = normalize_path(request.head.path(), &mut scratch) {
        exchange.close_after();
        respond_with_refusal(exchange, &(&fault).into());
        return true;
    }
    false
}

/// The handler of requests of Keepwarm itself to an upstream, which go as they are, with the endpoint's `Host`.
#[derive(Debug)]
pub struct OwnCalls {
    upstream: Arc<Upstream>,
}

impl OwnCalls {
    /// Calls to `upstream`.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>) -> Self {
        Self { upstream }
    }
}

impl Handler for OwnCalls {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let settings = self.upstream.settings();
            let host = settings.host.as_deref();
            let options = ForwardOptions {
                host: host.map_or(HostSource::Endpoint, |host| HostSource::Fixed(host.as_bytes())),
                routed: false,
                via: false,
                returns_redirects: false,
                forwards_expectation: false,
                says_timing: false,
                is_of_app: false,
            };
            forward(&self.upstream, options, exchange).await;
        })
    }
}

/// The handler of a route that ends in an upstream. The listener has matched the path, and set the fields that say who the client is.
#[derive(Debug)]
pub struct UpstreamRoute {
    upstream: Arc<Upstream>,
}

impl UpstreamRoute {
    /// A route to `upstream`.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>) -> Self {
        Self { upstream }
    }
}

impl Handler for UpstreamRoute {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let settings = self.upstream.settings();
            let host = settings.host.as_deref();
            let options = ForwardOptions {
                host: host.map_or(HostSource::Client, |host| HostSource::Fixed(host.as_bytes())),
                routed: true,
                via: false,
                returns_redirects: false,
                forwards_expectation: true,
                says_timing: false,
                is_of_app: false,
            };
            forward(&self.upstream, options, exchange).await;
        })
    }
}
