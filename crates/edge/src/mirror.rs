//! Copies of a route's requests, sent to a second target whose responses are dropped.
//!
//! A copy is sent once the request has been served: it cannot delay it, fail it or change it. What a copy takes is bounded: the body, the requests at once, the time.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Fields, RequestBody};
use keepwarm_net::spawn_local;
use keepwarm_serve::{
    BodyCopy, ConnectionInfo, ConnectionLimits, Exchange, FieldPatterns, Forwarded, ForwardingPolicy,
    Frontend, Handler, ListenerContext, LocalAddress, OpenConnections, OwnResponse, Refusal, Request,
    respond_with_refusal, send_own_request,
};
use keepwarm_telemetry::spans::RequestTrace;
use keepwarm_telemetry::{counters, meters};

use crate::split::random;

/// Copies at once, of one route: what bounds their memory. This number is arbitrary.
const MAX_COPIES: usize = 64;
/// How long a copy may take.
const TIME: Duration = Duration::from_secs(60);
/// Marks a copy. A request that has it is not copied, so that a target that leads back to the route makes no more of them.
pub(crate) const MARK: &str = "keepwarm-mirror";

/// Fields about the connection or the framing, which a copy has of its own.
const OF_THE_MESSAGE: [&[u8]; 12] = [
    b"connection",
    b"content-length",
    b"expect",
    b"host",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"http2-settings",
    b"keepwarm-mirror",
];

/// A handler whose requests are copied to another.
pub struct Mirror {
    inner: Arc<dyn Handler>,
    target: Arc<dyn Handler>,
    /// The name of the target, in logs and metrics.
    name: Arc<str>,
    settings: MirrorSettings,
    copies: Arc<AtomicUsize>,
}

/// Which requests are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorSettings {
    /// Percent of them.
    pub share: u32,
    /// Bytes of a body; a request with a larger one is not copied.
    pub max_body: usize,
    /// Also those whose method is not safe (RFC 9110 §9.2.1).
    pub all_methods: bool,
}

impl Mirror {
    /// Requests to `inner` are copied to `target`, whose name is `name`.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Handler>,
        name: Arc<str>,
        target: Arc<dyn Handler>,
        settings: MirrorSettings,
    ) -> Self {
        Self { inner, target, name, settings, copies: Arc::default() }
    }

    fn copies(&self, request: &Request) -> bool {
        let head = &request.head;
        let safe = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
        (safe || self.settings.all_methods)
            && !head.upgrade
            && head.fields.first(MARK).is_none()
            && random(request) % 100 < u64::from(self.settings.share)
    }

    fn count(&self, outcome: &'static str) {
        counters::MIRRORED.count(&self.name, outcome);
    }

    /// Sends the copy, if there can be one.
    fn send(&self, exchange: &mut Exchange<'_>) {
        let Some(copy) = exchange.request_mut().notes.routed.body_copy.take() else { return };
        if !exchange.body_done() {
            // Nobody has read it: the app did not need it, or the client has gone.
            return self.count("incomplete");
        }
        let Some(body) = copy.into_bytes() else { return self.count("too_large") };
        let slot = Slot::take(&self.copies);
        let Some(slot) = slot else { return self.count("busy") };
        let request = exchange.request();
        let bytes = encode(request, &body);
        let peer = peer(request);
        let (name, context) = (Arc::clone(&self.name), self.context(request, exchange.limits()));
        spawn_local(async move {
            let outcome = match send_own_request(&bytes, peer, context, TIME).await {
                OwnResponse::Status(..500) => "ok",
                OwnResponse::Status(_) => "error",
                OwnResponse::None => "no_response",
                OwnResponse::Timeout => "timeout",
            };
            counters::MIRRORED.count(&name, outcome);
            drop(slot);
        });
    }

    /// That of a listener which has one request.
    fn context(&self, request: &Request, limits: &ConnectionLimits) -> Arc<ListenerContext> {
        let notes = &request.notes;
        let copied = CopiedNotes {
            path: request.path().to_vec(),
            mount: notes.routed.mount,
            passing: notes.routed.passing,
            extra_fields: request.extra_fields.clone(),
            withheld_fields: notes.routed.withheld_fields.clone(),
            forwarded: notes.forwarded.clone(),
            trusted_peer: notes.trusted_peer,
            trace: notes.trace.clone(),
            target: Arc::clone(&self.name),
            route: notes.route.clone(),
        };
        let handler = MirrorTarget { handler: Arc::clone(&self.target), notes: Mutex::new(Some(copied)) };
        Arc::new(ListenerContext {
            handler: Arc::new(handler),
            limits: ConnectionLimits { per_client: 0, ..*limits },
            draining: Arc::new(AtomicBool::new(false)),
            open: Arc::new(OpenConnections::new(1)),
            meter: meters::unlisted(),
            tls: None,
            proxy_protocol: None,
        })
    }
}

impl Handler for Mirror {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        if !self.copies(exchange.request()) {
            return self.inner.handle(exchange);
        }
        if matches!(exchange.request().head.body, RequestBody::Length(length) if length > self.settings.max_body as u64)
        {
            self.count("too_large");
            return self.inner.handle(exchange);
        }
        let copy = Box::new(BodyCopy::new(self.settings.max_body));
        exchange.request_mut().notes.routed.body_copy = Some(copy);
        Box::pin(async move {
            self.inner.handle(exchange).await;
            self.send(exchange);
        })
    }
}

/// One of the copies at once.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(copies: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |count: usize| (count < MAX_COPIES).then_some(count + 1);
        copies.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(copies)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the route has found out about the request.
struct CopiedNotes {
    path: Vec<u8>,
    mount: usize,
    passing: ForwardingPolicy,
    extra_fields: Fields,
    withheld_fields: Vec<Arc<FieldPatterns>>,
    forwarded: Option<Box<Forwarded>>,
    trusted_peer: bool,
    trace: Option<Box<RequestTrace>>,
    target: Arc<str>,
    route: Option<Arc<str>>,
}

/// The target, as a listener serves it.
struct MirrorTarget {
    handler: Arc<dyn Handler>,
    notes: Mutex<Option<CopiedNotes>>,
}

impl Handler for MirrorTarget {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let copied = self.notes.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(copied) = copied {
            let request = exchange.request_mut();
            request.set_path(copied.path);
            request.extra_fields = copied.extra_fields;
            let notes = &mut request.notes;
            (notes.routed.mount, notes.routed.passing) = (copied.mount, copied.passing);
            notes.routed.withheld_fields = copied.withheld_fields;
            (notes.forwarded, notes.trusted_peer) = (copied.forwarded, copied.trusted_peer);
            notes.trace = copied.trace;
            (notes.target, notes.route) = (Some(copied.target), copied.route);
        }
        self.handler.handle(exchange)
    }
}

impl Frontend for MirrorTarget {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_refusal(exchange, refusal);
    }
}

/// The request as the client would send it without what concerns its connection.
fn encode(request: &Request, body: &[u8]) -> Vec<u8> {
    let head = &request.head;
    let mut out = Vec::with_capacity(1024 + body.len());
    let mut push = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
    push(&[head.method.as_str().as_bytes(), b" ", head.path()]);
    if let Some(query) = head.query() {
        push(&[b"?", query]);
    }
    push(&[b" HTTP/1.1\r\nHost: ", head.authority(), b"\r\n"]);
    for (name, value) in head.fields.iter().filter(|(name, _)| !OF_THE_MESSAGE.contains(name)) {
        push(&[name, b": ", value, b"\r\n"]);
    }
    if !body.is_empty() || head.body != RequestBody::None {
        push(&[b"Content-Length: ", body.len().to_string().as_bytes(), b"\r\n"]);
    }
    push(&[MARK.as_bytes(), b": 1\r\nConnection: close\r\n\r\n", body]);
    out
}

fn peer(request: &Request) -> ConnectionInfo {
    let peer = request.peer();
    let local = peer.local.map_or_else(|| LocalAddress::Unix(peer.socket.clone()), LocalAddress::Tcp);
    ConnectionInfo::new(peer.client, local, peer.scheme)
}
