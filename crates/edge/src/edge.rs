//! The handler of a listener.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use keepwarm_http1::{RequestBody, normalize_path};
use keepwarm_serve::{
    Exchange, Frontend, Handler, Outcome, Refusal, Request, refuse_misdirected, respond_with_head_refusal,
    respond_with_refusal,
};

use crate::access::measure;
use crate::forwarding::{LOCAL, judge, set_fields};
use crate::pattern::host_of;
use crate::refusals;
use crate::route::{Route, RouteMatch, Target, find};
use crate::site::Site;

/// Responds to the requests of a listener by its [`Site`].
#[derive(Debug)]
pub struct Edge {
    site: ArcSwap<Site>,
}

impl Edge {
    /// An edge that serves `site`.
    #[must_use]
    pub fn new(site: Site) -> Self {
        Self { site: ArcSwap::from_pointee(site) }
    }

    /// Serves another site from the next request on, on persistent connections too. Requests in progress finish with the old one.
    pub fn replace(&self, site: Site) {
        self.site.store(Arc::new(site));
    }
}

impl Handler for Edge {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        match self.site.load().handle(exchange) {
            // Zero-sized, so that its box does not allocate.
            None => Box::pin(ReadyResponse),
            Some(app) => Box::pin(self.respond(app, exchange)),
        }
    }
}

impl Frontend for Edge {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_refusal(exchange, refusal);
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        measure(request, outcome);
        if let Some(log) = self.site.load().access_log() {
            log.record(request, outcome);
        }
    }
}

/// How often an app may redirect internally to another path. This number is arbitrary; other servers have it too.
const REDIRECTS: usize = 10;

impl Edge {
    /// Lets the app respond, or the target of its local redirect (RFC 3875 §6.2.2).
    async fn respond(&self, mut app: Arc<dyn Handler>, exchange: &mut Exchange<'_>) {
        for redirects in 0.. {
            app.handle(exchange).await;
            let Some(local) = exchange.request_mut().notes.redirected.take() else { return };
            if redirects == REDIRECTS {
                return refuse_redirect(exchange, &local, "it has redirected ten times before");
            }
            if normalize_path(path_of(&local), &mut Vec::new()).is_err() {
                return refuse_redirect(exchange, &local, "not a valid path");
            }
            exchange.request_mut().redirect(&local);
            match self.site.load().handle(exchange) {
                Some(next) => app = next,
                None => return,
            }
        }
    }
}

/// The app's mistake.
fn refuse_redirect(exchange: &mut Exchange<'_>, local: &[u8], why: &str) {
    let app = exchange.request().notes.target.as_deref();
    tracing::error!(
        name: "local_redirect_failed",
        app, location = %local.escape_ascii(), why, "local redirect of the app not followed"
    );
    refusals::LOCAL_REDIRECT.respond(exchange);
}

fn path_of(local: &[u8]) -> &[u8] {
    local.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

impl Site {
    /// Responds, or returns the handler that does.
    fn handle(&self, exchange: &mut Exchange<'_>) -> Option<Arc<dyn Handler>> {
        let head = &exchange.request().head;
        if let Some(refusal) = head.refusal {
            respond_with_head_refusal(exchange, refusal, self.allow().as_bytes());
            return None;
        }
        let is_server_wide = head.is_server_wide();
        if !is_server_wide && !normalize(exchange) {
            return None;
        }
        if !self.trusted_proxies().is_empty() {
            judge(exchange.request_mut(), self.trusted_proxies());
        }
        if !self.admits(exchange.request()) {
            refusals::ADDRESS_DENIED.respond(exchange);
            return None;
        }
        if is_server_wide {
            self.respond_server_wide(exchange);
            return None;
        }
        if refuse_misdirected(exchange) {
            return None;
        }
        let request = exchange.request();
        let host = host_of(request.head.authority());
        match find(self.routes(), host, request.path(), &request.head.method) {
            RouteMatch::Route(route) if self.is_ambiguous(route, host, request) => {
                refusals::PATH_AMBIGUOUS.respond(exchange);
                None
            }
            RouteMatch::Route(route) => self.follow(route, exchange),
            RouteMatch::WrongMethod(allow) => {
                let message = refusals::METHOD_NOT_ALLOWED.about(&[]);
                message.field("Allow", allow.as_bytes()).respond(exchange);
                None
            }
            RouteMatch::Nothing => {
                refusals::NO_ROUTE.respond(exchange);
                None
            }
        }
    }

    /// `OPTIONS *` (RFC 9110 §9.3.7): a ping, with what the listener takes at all.
    fn respond_server_wide(&self, exchange: &mut Exchange<'_>) {
        let allow: (&[u8], &[u8]) = (b"Allow", self.allow().as_bytes());
        match exchange.head(200, Some(0), false, std::iter::once(allow)) {
            Ok(_) => exchange.end(),
            Err(_) => exchange.abort("bad_field_in_response"),
        }
    }

    /// Applies the route to the request: limits first, then the response, or the handler that gives it.
    fn follow(&self, route: &Route, exchange: &mut Exchange<'_>) -> Option<Arc<dyn Handler>> {
        let request = exchange.request_mut();
        request.notes.target = Some(Arc::clone(route.label()));
        request.notes.route = Some(Arc::clone(&route.pattern));
        request.notes.meter = route.meter;
        if route.compression.is_some() {
            request.set_compression(route.compression.as_ref());
        }
        request.notes.routed.response_edits.clone_from(&route.edits);
        if let Some(refusal) = refused(route, request) {
            if refusal.status == 413 {
                exchange.close_after();
            }
            respond_with_refusal(exchange, &refusal);
            return None;
        }
        if route.strip_prefix {
            request.notes.routed.mount = route.path.mount();
        }
        match &route.target {
            Target::App { handler, .. } => {
                request.notes.routed.passing = route.passing;
                set_fields(request, self.trusted_proxies());
                exchange.limit_body(route.max_body);
                if route.abort_on_half_close {
                    exchange.abort_on_half_close(true);
                }
                return Some(Arc::clone(handler));
            }
            Target::Files(files) => {
                return Some(Arc::clone(files) as Arc<dyn Handler>);
            }
            Target::Guarded { handler, .. } => return Some(Arc::clone(handler)),
            Target::Respond(respond) => respond.respond(exchange),
            Target::Redirect(redirect) => redirect.respond(exchange),
        }
        None
    }
}

/// Normalizes the path. `false`: it cannot be, and that was the response.
fn normalize(exchange: &mut Exchange<'_>) -> bool {
    let mut changed = Vec::new();
    let fault = normalize_path(exchange.request().head.path(), &mut changed).err();
    match fault {
        Some(fault) => {
            exchange.close_after();
            respond_with_refusal(exchange, &(&fault).into());
            return false;
        }
        None if changed.is_empty() => {}
        None => exchange.request_mut().set_path(changed),
    }
    true
}

/// Why a route does not serve the request it takes.
fn refused(route: &Route, request: &Request) -> Option<Refusal> {
    if (!route.deny.is_empty() || !route.allow.is_empty())
        && !route.admits(request.client_address().unwrap_or(LOCAL))
    {
        return Some(Refusal::of(&refusals::ADDRESS_DENIED, &[]));
    }
    match (route.max_body, request.head.body) {
        // At once, without `100 Continue`; a chunked one is counted as it comes.
        (Some(limit), RequestBody::Length(length)) if length > limit => Some(Refusal::body_too_large(limit)),
        _ => None,
    }
}

/// The future of a response that is already complete.
struct ReadyResponse;

impl Future for ReadyResponse {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}
