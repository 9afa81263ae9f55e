//! The handler of a listener.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use keepwarm_http1::{PathScan, RequestBody, normalize_path, path_readings, percent_decode, scan_path};
use keepwarm_serve::{
    ErrorResponse, Exchange, Frontend, Handler, Outcome, Refusal, Request, refuse_misdirected,
    respond_with_head_refusal, respond_with_page, respond_with_refusal,
};
use keepwarm_telemetry::timelines::are_calls_held;

use crate::access::{count_incomplete, measure};
use crate::forwarding::{LOCAL, judge, set_fields};
use crate::maintenance;
use crate::matcher::RequestView;
use crate::notable;
use crate::pattern::{PathPattern, host_of};
use crate::refusals;
use crate::route::{Changes, Route, RouteMatch, Target};
use crate::site::Site;
use crate::template::Values;
use crate::traced::{self, Parent};

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
            None if exchange.awaits_page() => Box::pin(respond_with_page(exchange)),
            // Zero-sized, so that its box does not allocate.
            None => Box::pin(ReadyResponse),
            Some(_) if exchange.abort_if_reset() => Box::pin(ReadyResponse),
            Some(app) => Box::pin(async move {
                self.respond(app, exchange).await;
                if exchange.awaits_page() {
                    // In a box of its own: nearly no request needs room for it.
                    Box::pin(respond_with_page(exchange)).await;
                }
            }),
        }
    }
}

impl Frontend for Edge {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        let site = self.site.load();
        let request = exchange.request_mut();
        request.notes.routed.error_pages = site.error_pages().cloned();
        request.notes.routed.response_edits = site.edits(request);
        respond_with_refusal(exchange, refusal);
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        let may_be_slow = measure(request, outcome);
        count_incomplete(request, outcome);
        let calls =
            (are_calls_held() && request.notes.times().is_some()).then(|| notable::take_calls_of(request));
        if may_be_slow || notable::may_have_failed(outcome) {
            notable::keep(request, outcome, calls);
        }
        if let Some(trace) = &request.notes.trace {
            traced::finish(request, outcome, trace);
        }
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
        if let Some(pages) = self.error_pages() {
            let routed = &mut exchange.request_mut().notes.routed;
            routed.error_pages = Some(Arc::clone(pages));
            routed.takes_app_pages = true;
        }
        if let Some(edits) = self.edits(exchange.request()) {
            exchange.request_mut().notes.routed.response_edits = Some(edits);
        }
        let head = &exchange.request().head;
        if let Some(refusal) = head.refusal {
            respond_with_head_refusal(exchange, refusal, self.allow().as_bytes());
            return None;
        }
        let is_server_wide = head.is_server_wide();
        let scan = if is_server_wide { None } else { Some(normalize(exchange)?) };
        if !self.trusted_proxies().is_empty() {
            judge(exchange.request_mut(), self.trusted_proxies());
        }
        if let Some(tracer) = self.tracer() {
            traced::begin(exchange.request_mut(), tracer);
        }
        if !self.admits(exchange.request()) {
            refusals::ADDRESS_DENIED.respond(exchange);
            return None;
        }
        let Some(scan) = scan else {
            self.respond_server_wide(exchange);
            return None;
        };
        if refuse_misdirected(exchange) || maintenance::refuses_listener(exchange, self.name()) {
            return None;
        }
        let request = exchange.request();
        let view = RequestView {
            host: host_of(request.head.authority()),
            path: request.path(),
            method: &request.head.method,
            details: request,
        };
        match self.routes().find(&view) {
            RouteMatch::Route(route) if scan.is_ambiguous => match self.other_reading(route, &view) {
                None => self.follow(route, exchange),
                Some(refusal) => {
                    refusal.respond(exchange);
                    None
                }
            },
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

    /// The response where an application may understand the path so that it belongs to another route than `route`, or to none: then a route that guards
    /// it has not been asked. A route for this very path was meant.
    fn other_reading(&self, route: &Route, view: &RequestView<'_>) -> Option<&'static ErrorResponse> {
        if !self.routes().depend_on_path() {
            return None;
        }
        if matches!(&route.path, PathPattern::Exact(exact) if exact.as_bytes() == view.path) {
            return None;
        }
        let mut refusal = None;
        for path in path_readings(view.path) {
            match self.routes().find(&RequestView { path: &path, ..*view }) {
                RouteMatch::Route(other) if std::ptr::eq(route, other) => {}
                RouteMatch::Route(_) => return Some(&refusals::AMBIGUOUS_PATH),
                RouteMatch::WrongMethod(_) | RouteMatch::Nothing => refusal = Some(&refusals::NO_ROUTE),
            }
        }
        refusal
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
        if let Some(identity) = &route.identity_headers {
            request.head.fields.retain(|name| !identity.matches(name));
        }
        request.notes.target = Some(Arc::clone(route.label()));
        request.notes.route = Some(Arc::clone(&route.pattern));
        request.notes.meter = route.meter;
        let captures = match route.uses_captures {
            true => route.path.captures(request.path()),
            false => Vec::new(),
        };
        let rules = route.changes.as_ref().and_then(|changes| changes.response.as_ref());
        let edits = rules.map(|rules| rules.edits(Values { request, captures: &captures }));
        if let Some(pages) = &route.error_pages {
            request.notes.routed.error_pages = Some(Arc::clone(pages));
            request.notes.routed.takes_app_pages = true;
        }
        if route.compression.is_some() {
            request.set_compression(route.compression.as_ref());
        }
        let is_fixed = edits.is_none();
        request.notes.routed.response_edits = edits.or_else(|| route.edits.clone());
        if let Some(refusal) = refused(route, request) {
            if refusal.status == 413 {
                exchange.close_after();
            }
            respond_with_refusal(exchange, &refusal);
            return None;
        }
        if let Target::App { name, .. } = &route.target
            && !route.is_split
            && maintenance::refuses_app(exchange, name)
        {
            return None;
        }
        let request = exchange.request_mut();
        if route.strip_prefix {
            request.notes.routed.mount = route.path.mount();
        }
        // They are part of the response already ([`Route::bake`]), and would be added twice.
        if is_fixed && matches!(route.target, Target::Respond(_) | Target::Redirect(_)) {
            request.notes.routed.response_edits = None;
        }
        if let Some(changes) = &route.changes
            && !change(request, changes, &captures)
        {
            refusals::BAD_REWRITE.respond(exchange);
            return None;
        }
        match &route.target {
            Target::App { handler, .. } => {
                request.notes.routed.passing = route.passing;
                request.notes.routed.intercept_errors = route.intercept_errors;
                request.notes.routed.session = route.sticky.as_ref().and_then(|key| key.hash(request));
                set_fields(request, self.trusted_proxies());
                traced::set_fields(request, Parent::App);
                exchange.limit_body(route.max_body);
                if route.abort_on_half_close {
                    exchange.abort_on_half_close(true);
                }
                return Some(Arc::clone(handler));
            }
            Target::Files(files) => {
                return Some(Arc::clone(files) as Arc<dyn Handler>);
            }
            Target::SiteFiles(files) => return Some(Arc::clone(files) as Arc<dyn Handler>),
            Target::Guarded { handler, .. } => return Some(Arc::clone(handler)),
            Target::Respond(respond) => respond.respond(exchange, &captures),
            Target::Redirect(redirect) => redirect.respond(exchange, &captures),
        }
        None
    }
}

/// Normalizes the path. `None`: it cannot be, and that was the response.
fn normalize(exchange: &mut Exchange<'_>) -> Option<PathScan> {
    let path = exchange.request().head.path();
    let scan = match scan_path(path) {
        Ok(scan) => scan,
        Err(fault) => {
            exchange.close_after();
            respond_with_refusal(exchange, &(&fault).into());
            return None;
        }
    };
    if !scan.is_normal {
        let mut changed = Vec::new();
        // The scan has found no fault.
        if normalize_path(path, &mut changed).is_ok() {
            exchange.request_mut().set_path(changed);
        }
    }
    Some(scan)
}

/// Whether a path is in normal form, and has no dot segment for an application that decodes it either.
fn is_plain_path(path: &[u8]) -> bool {
    let is_normal = scan_path(path).is_ok_and(|scan| scan.is_normal);
    let mut scratch = Vec::new();
    let mut segments = percent_decode(path, &mut scratch).split(|byte| matches!(byte, b'/' | b'\\'));
    let is_dots = |segment: &[u8]| matches!(segment.split(|&b| b == b';').next(), Some(b"." | b".."));
    is_normal && !segments.any(is_dots)
}

/// Changes the request for the route's target. `false`: its new path is not a normalized one.
fn change(request: &mut Request, changes: &Changes, captures: &[Vec<u8>]) -> bool {
    let rewritten = changes.rewrite.as_ref().map(|rewrite| rewrite.reference(Values { request, captures }));
    if let Some(rules) = &changes.request {
        rules.apply_to_request(request, captures);
    }
    let Some(mut target) = rewritten else { return true };
    if !is_plain_path(path_of(&target)) {
        return false;
    }
    if !target.contains(&b'?')
        && let Some(query) = request.head.query()
    {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    request.rewrite(&target);
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
