//! A request of Keepwarm itself about the request of a client: to a service that authorizes it, or to an app that makes the page of its error response.
//!
//! By GET, without a body, at a path of its own, with the client's headers and its `Host`. Who asked for what is in the headers that proxies have for it, so that
//! services written for any of them understand: `X-Original-URI`, `X-Original-URL` and `X-Original-Method` (nginx), `X-Forwarded-Method` and `X-Forwarded-Uri`
//! (Traefik, Caddy), and `X-Forwarded-For`, `-Proto`, `-Host` and `Forwarded` as every app gets them. The client's own of these names are dropped.
//!
//! The path in them is the normalized one, by which the route was chosen and which its target gets: a service that judged the path as it was sent could be told
//! another one than the target (`/public/../admin`).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::Poll;

use keepwarm_http1::{Fields, HopByHop};
use keepwarm_serve::{
    ClientLoss, ConnectionInfo, ConnectionLimits, Exchange, FetchFault, FetchLimits, FetchedResponse,
    FieldNames, FieldPatterns, Forwarded, Frontend, Handler, ListenerContext, LocalAddress, OpenConnections,
    Refusal, Request, fetch_own_response, respond_with_refusal,
};
use keepwarm_telemetry::meters;
use keepwarm_telemetry::spans::RequestTrace;

use crate::cidr::Cidr;
use crate::forwarding::set_fields;
use crate::maintenance;
use crate::traced::{self, Parent};

/// Fields that only Keepwarm writes.
static OURS: LazyLock<Arc<FieldPatterns>> = LazyLock::new(|| {
    let names = ["X-Original-Method", "X-Original-URI", "X-Original-URL", "X-Forwarded-*", "X-Error-*"];
    Arc::new(FieldPatterns::new(names))
});
/// Room for what the head has beyond the client's own, which is within the listener's limits.
const MORE_FIELDS: usize = 8;
const MORE_BYTES: usize = 1024;

/// Who is asked, and where.
pub(crate) struct SubrequestTarget {
    /// An app or an upstream.
    pub(crate) service: Arc<dyn Handler>,
    /// Its name, in logs and metrics.
    pub(crate) name: Arc<str>,
    /// It is an app, which may be under maintenance.
    pub(crate) is_app: bool,
    /// The path, and perhaps the query.
    pub(crate) path: String,
    pub(crate) trusted_proxies: Arc<[Cidr]>,
}

impl SubrequestTarget {
    /// Asks about a request, for as long as its client stays. `more`: further fields, with names in lower case.
    ///
    /// # Errors
    /// The client has gone.
    pub(crate) async fn fetch(
        &self,
        exchange: &mut Exchange<'_>,
        requested: &[u8],
        more: &[(&[u8], &[u8])],
        limits: FetchLimits,
    ) -> Result<Result<FetchedResponse, FetchFault>, ClientLoss> {
        let (bytes, peer, context) = self.subrequest(exchange, requested, more);
        let mut fetch = pin!(fetch_own_response(bytes, peer, context, limits));
        let fetched = poll_fn(|cx| match fetch.as_mut().poll(cx) {
            Poll::Ready(fetched) => Poll::Ready(Ok(fetched)),
            Poll::Pending => exchange.poll_gone(cx).map(Err),
        });
        fetched.await
    }

    /// The request, the two ends of its connection, and who serves it.
    fn subrequest(
        &self,
        exchange: &mut Exchange<'_>,
        requested: &[u8],
        more: &[(&[u8], &[u8])],
    ) -> (Vec<u8>, ConnectionInfo, Arc<ListenerContext>) {
        let request = exchange.request_mut();
        // Header rules of the route are about its target.
        let rules = request.notes.routed.withheld.take();
        let bytes = encode(request, &self.path);
        request.notes.routed.withheld = rules;
        let mut fields = fields(request, requested, &self.trusted_proxies);
        more.iter().for_each(|(name, value)| fields.push(name, value));
        let target = AskedTarget {
            service: Arc::clone(&self.service),
            name: Arc::clone(&self.name),
            is_app: self.is_app,
            notes: Mutex::new(Some(ClientNotes {
                fields,
                forwarded: request.notes.forwarded.clone(),
                trusted_peer: request.notes.trusted_peer,
                trace: request.notes.trace.clone(),
                route: request.notes.route.clone(),
            })),
        };
        let peer = peer(request);
        (bytes, peer, context(target, exchange.limits()))
    }
}

/// The head as the client would send it without what concerns its connection, its body, and what it has in its cache.
fn encode(request: &Request, path: &str) -> Vec<u8> {
    let head = &request.head;
    let hop_by_hop = HopByHop::of(&head.fields);
    let mut out = Vec::with_capacity(1024);
    let mut push = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
    push(&[b"GET ", path.as_bytes(), b" HTTP/1.1\r\nHost: ", head.authority(), b"\r\n"]);
    for (name, value) in head.fields.iter() {
        let ends_here = hop_by_hop.removes(name) || is_of_this_message(name);
        if !ends_here && !request.drops_field(name, FieldNames::Cgi) {
            push(&[name, b": ", value, b"\r\n"]);
        }
    }
    push(&[b"Connection: close\r\n\r\n"]);
    out
}

/// Fields about the body, its transfer, or a stored response.
fn is_of_this_message(name: &[u8]) -> bool {
    matches!(name, b"host" | b"expect" | b"trailer" | b"range" | b"keepwarm-mirror" | b"max-forwards")
        || name.starts_with(b"content-")
        || name.starts_with(b"if-")
}

/// What the service gets beside the client's own fields.
fn fields(request: &mut Request, requested: &[u8], trusted_proxies: &[Cidr]) -> Fields {
    let of_target = std::mem::take(&mut request.extra_fields);
    set_fields(request, trusted_proxies);
    traced::set_fields(request, Parent::Request);
    let mut fields = std::mem::replace(&mut request.extra_fields, of_target);
    let head = &request.head;
    let method = head.method.as_str().as_bytes();
    let url = [request.scheme().as_str().as_bytes(), b"://", head.authority(), requested].concat();
    fields.push(b"x-original-method", method);
    fields.push(b"x-original-uri", requested);
    fields.push(b"x-original-url", &url);
    fields.push(b"x-forwarded-method", method);
    fields.push(b"x-forwarded-uri", requested);
    fields
}

fn peer(request: &Request) -> ConnectionInfo {
    let peer = request.peer();
    let local = peer.local.map_or_else(|| LocalAddress::Unix(peer.socket.clone()), LocalAddress::Tcp);
    ConnectionInfo::new(peer.client, local, peer.scheme)
}

/// That of a listener which has one request.
fn context(target: AskedTarget, limits: &ConnectionLimits) -> Arc<ListenerContext> {
    let mut limits = ConnectionLimits { per_client: 0, http2: false, ..*limits };
    limits.syntax.fields += MORE_FIELDS;
    limits.syntax.header_block += MORE_BYTES;
    limits.syntax.request_line = limits.syntax.request_line.max(MORE_BYTES + LONGEST_PATH);
    Arc::new(ListenerContext {
        handler: Arc::new(target),
        limits,
        draining: Arc::new(AtomicBool::new(false)),
        open: Arc::new(OpenConnections::new(1)),
        meter: meters::unlisted(),
        tls: None,
        proxy_protocol: None,
    })
}

/// Bytes of a path in the configuration.
const LONGEST_PATH: usize = 2048;

/// What is known of the client.
struct ClientNotes {
    fields: Fields,
    forwarded: Option<Box<Forwarded>>,
    trusted_peer: bool,
    trace: Option<Box<RequestTrace>>,
    route: Option<Arc<str>>,
}

/// The service, as a listener serves it.
struct AskedTarget {
    service: Arc<dyn Handler>,
    name: Arc<str>,
    is_app: bool,
    notes: Mutex<Option<ClientNotes>>,
}

impl Handler for AskedTarget {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let noted = self.notes.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(noted) = noted {
            let request = exchange.request_mut();
            request.extra_fields = noted.fields;
            let notes = &mut request.notes;
            (notes.forwarded, notes.trusted_peer) = (noted.forwarded, noted.trusted_peer);
            notes.trace = noted.trace;
            (notes.target, notes.route) = (Some(Arc::clone(&self.name)), noted.route);
            notes.routed.withheld_fields.push(Arc::clone(&OURS));
        }
        // The caller closes when it has no use for the response any more.
        exchange.abort_on_half_close(true);
        if self.is_app && maintenance::refuses_app(exchange, &self.name) {
            return Box::pin(std::future::ready(()));
        }
        self.service.handle(exchange)
    }
}

impl Frontend for AskedTarget {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_refusal(exchange, refusal);
    }
}
