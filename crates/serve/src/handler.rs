//! Request handlers, and the request data that they receive.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use keepwarm_http1::{Fields, RequestHead, Version, cgi_safe_name};
use keepwarm_net::{Scheme, ServerHandshake};
use keepwarm_policy::compression::{has_coded_etag, restore_etags};
use keepwarm_telemetry::counters;
use keepwarm_telemetry::meters::RouteMeter;
use keepwarm_telemetry::spans::RequestTrace;
use keepwarm_telemetry::stalls::StallSet;
use keepwarm_telemetry::timelines::TimelineWorker;
use tokio::time::Instant;

use crate::{
    BodyCopy, CallRecord, Compression, ErrorPages, Exchange, FieldEdits, FieldPatterns, PendingPage, Refusal,
    ResponseOutcome, SendfileRequest,
};

/// Responds to requests. Shared by every connection of every thread; a call runs on the connection's own thread.
pub trait Handler: Send + Sync {
    /// Responds to one request. When the future ends without [`Exchange::end`] the client's connection is cut.
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;
}

/// What a listener serves: a handler of every request, which also refuses malformed ones, and records outcomes.
pub trait Frontend: Handler {
    /// Responds to a malformed or slow request: writes a short response, whole and at once. The connection ends after it. The request's head is
    /// the empty default.
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal);

    /// Whether clients use it as a forward proxy: then `CONNECT` is passed to it, and HTTP/1.0 connections are never kept (RFC 9112 §9.3).
    fn is_forward_proxy(&self) -> bool {
        false
    }

    /// Whether it wants to know which process is at the other end of a Unix socket ([`ConnectionInfo::process`]).
    fn names_processes(&self) -> bool {
        false
    }

    /// Called once when a request's response has been written or its connection was lost.
    fn finished(&self, _request: &Request, _outcome: &Outcome) {}
}

/// A request so far: its head, the two ends of its connection, and notes about it.
#[derive(Debug)]
pub struct Request {
    /// The head as decoded.
    pub head: RequestHead,
    /// Fields the edge adds for the app, which replace all received ones of the same names (see [`Request::drops_field`]).
    pub extra_fields: Fields,
    /// Notes about it.
    pub notes: RequestContext,
    /// The two ends of the connection.
    pub(crate) peer: Rc<ConnectionInfo>,
    /// Whether it came over HTTP/2.
    pub(crate) http2: bool,
    /// When the first byte of the head was read.
    pub(crate) received: Instant,
    /// Its number among the requests of this process.
    pub(crate) number: u64,
}

/// Notes about a request. They are reset for the next request of the connection.
#[derive(Debug, Default)]
pub struct RequestContext {
    /// The settings of its route.
    pub routed: RouteContext,
    /// The client as named by a trusted proxy.
    pub forwarded: Option<Box<Forwarded>>,
    /// Whether the peer is a trusted proxy: its statements about the client are believed.
    pub trusted_peer: bool,
    /// The path and query of a CGI script's local redirect (RFC 3875 §6.2.2): the edge responds as if the client had requested them.
    pub redirected: Option<Vec<u8>>,
    /// The client's request, if the path of `redirected` was served instead.
    pub asked: Option<Box<(http::Method, Vec<u8>)>>,
    /// Its trace, where requests are traced.
    pub trace: Option<Box<RequestTrace>>,
    /// Set by the responder, for the access log: the app or the kind of route.
    pub target: Option<Arc<str>>,
    /// The pattern of its route, as configured; none before routing.
    pub route: Option<Arc<str>>,
    /// Its meter; none before routing.
    pub meter: Option<&'static RouteMeter>,
    /// `100 Continue` was sent.
    pub continued: bool,
    /// Stalls that were removed for it.
    pub stalls: StallSet,
    /// Set by an app's handler: where the time went ([`set_times`](Self::set_times)).
    times: Option<PackedTimes>,
    /// Set after a call to an upstream: its record.
    pub call: Option<Box<CallRecord>>,
    /// Set on a refusal, a cut or a retry: the stable name of the cause.
    pub reason: Option<&'static str>,
    /// The tags of compressed responses in its conditions, as its client sent them ([`Request::set_compression`]).
    pub(crate) coded_etags: Option<Box<[u8]>>,
    /// A field was dropped because of its name, and counted.
    dropped_names: Cell<bool>,
}

/// The route's settings for a request. After a local redirect, another route starts with fresh ones.
#[derive(Debug, Default)]
pub struct RouteContext {
    /// The normalized path, when it is not the received one (see [`Request::path`]).
    path: Option<Vec<u8>>,
    /// How many bytes of [`Request::path`] the route stripped as its prefix.
    pub mount: usize,
    /// Changes the route makes to the head of the response.
    pub response_edits: Option<Arc<FieldEdits>>,
    /// Names in lower case of received fields that the route keeps from the app.
    pub withheld: Option<Box<[Box<[u8]>]>>,
    /// How the route compresses responses, if it does.
    pub(crate) compression: Option<Arc<Compression>>,
    /// How the route forwards bodies.
    pub passing: ForwardingPolicy,
    /// The app may name a file as its response ([`Exchange::hand_file`]).
    pub may_hand_files: bool,
    /// Pages in place of error responses.
    pub error_pages: Option<Arc<ErrorPages>>,
    /// They also replace error responses of the app.
    pub intercept_errors: bool,
    /// Pages of apps can be asked for: somebody does so once the handler is done.
    pub takes_app_pages: bool,
    /// The response waits for its page.
    pub(crate) pending_page: Option<Box<PendingPage>>,
    /// The response has a page as its body: the app's is dropped.
    pub(crate) body_is_replaced: bool,
    /// The session that it belongs to, if its requests should go to one worker: a hash.
    pub session: Option<u64>,
    /// A copy of the body is made here as it is read.
    pub body_copy: Option<Box<BodyCopy>>,
    /// Request fields that do not reach the app: identity that only the route may state, credentials.
    pub withheld_fields: Vec<Arc<FieldPatterns>>,
    /// The user that the route has authenticated.
    pub user: Option<Arc<str>>,
    /// How (RFC 3875 §4.1.1); empty: not by HTTP authentication.
    pub auth_type: &'static str,
    /// The normalized path and query as they were before the route replaced them ([`Request::rewrite`]).
    requested: Option<Vec<u8>>,
    /// The file it named.
    pub handed: Option<Box<SendfileRequest>>,
}

impl RequestContext {
    /// The app that the request is counted for: that of its route, or the target of one of Keepwarm's own, which has no route. Empty: none.
    #[must_use]
    pub fn counted_app(&self) -> &str {
        let app = self.meter.map_or(self.target.as_deref(), |meter| Some(&*meter.app));
        app.unwrap_or_default()
    }

    /// Where the time went, if it came to an app.
    #[must_use]
    pub fn times(&self) -> Option<RequestTimes> {
        self.times.map(RequestTimes::from)
    }

    /// Notes where the time went.
    pub fn set_times(&mut self, times: RequestTimes) {
        self.times = Some(times.into());
    }
}

/// [`RequestTimes`] in half of the bytes: each idle connection holds the place for them.
#[derive(Debug, Clone, Copy)]
struct PackedTimes {
    /// Nanoseconds, in the order of [`RequestTimes`].
    spent: [u64; 5],
    worker: Option<TimelineWorker>,
    logged_slow: bool,
}

impl From<RequestTimes> for PackedTimes {
    fn from(times: RequestTimes) -> Self {
        let RequestTimes { read, retry, queue, app, head, worker, logged_slow } = times;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { spent: [read, retry, queue, app, head].map(nanos), worker, logged_slow }
    }
}

impl From<PackedTimes> for RequestTimes {
    fn from(PackedTimes { spent, worker, logged_slow }: PackedTimes) -> Self {
        let [read, retry, queue, app, head] = spent.map(Duration::from_nanos);
        Self { read, retry, queue, app, head, worker, logged_slow }
    }
}

/// Where the time of a request went, up to the app. The rest of the total is writing the rest of its response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// Reading its head, and its body if that comes before the app is called.
    pub read: Duration,
    /// With workers that were lost or did not take it, until it began to wait for the last one.
    pub retry: Duration,
    /// Waiting for a worker, the last one if there were several.
    pub queue: Duration,
    /// Time in a worker: until the app's response was complete, or the request was given up.
    pub app: Duration,
    /// The part of it before the response began; all of it if none did.
    pub head: Duration,
    /// The worker that had it last; none if it never came to one.
    pub worker: Option<TimelineWorker>,
    /// The log has it as a slow request (`slow_log`).
    pub logged_slow: bool,
}

/// When a request reached its phases.
#[derive(Debug, Clone, Copy)]
pub struct RequestInstants {
    /// The first byte of its head was read.
    pub received: Instant,
    /// It began to wait for a worker, for the first time.
    pub first_waited: Instant,
    /// It began to wait for the worker that had it last.
    pub waited: Instant,
    /// A worker began with it.
    pub begun: Instant,
    /// Its response began; `None`: it began when it was complete, or not at all.
    pub headed: Option<Instant>,
    /// Its response was complete, or it was given up.
    pub ended: Instant,
}

impl RequestTimes {
    /// What has passed before a worker began with it.
    pub fn before_app(&self) -> Duration {
        self.read + self.retry + self.queue
    }

    /// The durations between these instants.
    pub fn between(at: RequestInstants, worker: Option<TimelineWorker>, logged_slow: bool) -> Self {
        let app = at.ended.saturating_duration_since(at.begun);
        Self {
            read: at.first_waited.saturating_duration_since(at.received),
            retry: at.waited.saturating_duration_since(at.first_waited),
            queue: at.begun.saturating_duration_since(at.waited),
            app,
            head: at.headed.map_or(app, |headed| headed.saturating_duration_since(at.begun).min(app)),
            worker,
            logged_slow,
        }
    }
}

/// How a route forwards messages between a client and an app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForwardingPolicy {
    /// Whether the request's body is read before the app or upstream is called; `None`: the default of the kind of app.
    pub buffer_request: Option<bool>,
    /// Whether a response is read from the app or upstream faster than the client takes it; `None`: the default of the kind of app.
    pub buffer_response: Option<bool>,
    /// Which clients get `103 Early Hints`.
    pub early_hints: EarlyHints,
    /// A backend that speaks HTTP gets fields of every name: see [`Request::drops_field`].
    pub any_names: bool,
    /// A backend that speaks HTTP gets `Via` (RFC 9110 §7.6.3).
    pub via: bool,
}

/// How the names of fields are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldNames {
    /// As variables of CGI (`HTTP_…`).
    Cgi,
    /// Unchanged.
    Http,
}

/// Which clients get an app's `103 Early Hints`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EarlyHints {
    /// Those of HTTP/2, and those that announce a navigation (RFC 8297 §3: others may take it for the response).
    #[default]
    Auto,
    /// All, except those of HTTP/1.0.
    Always,
    /// None.
    Never,
}

/// The client as a trusted proxy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The client's address.
    pub client: std::net::IpAddr,
    /// The scheme the client used.
    pub scheme: Scheme,
}

impl Request {
    /// Whether a browser reports that a page of another origin caused it (Fetch Metadata, `Sec-Fetch-Site`). Unlike `Origin` it comes with every
    /// request that a page causes, also a GET for an image or a script; other clients do not send it.
    pub fn is_cross_origin(&self) -> bool {
        let own =
            |site: &[u8]| site.eq_ignore_ascii_case(b"same-origin") || site.eq_ignore_ascii_case(b"none");
        self.head.fields.all("sec-fetch-site").any(|site| !own(site))
    }

    pub(crate) fn new(peer: Rc<ConnectionInfo>) -> Self {
        Self {
            head: RequestHead::default(),
            extra_fields: Fields::new(),
            notes: RequestContext::default(),
            peer,
            http2: false,
            received: Instant::now(),
            number: 0,
        }
    }

    /// Prepares the storage for the next request of the connection.
    pub(crate) fn restart(&mut self, number: u64) {
        self.extra_fields.clear();
        self.notes = RequestContext::default();
        self.number = number;
    }

    /// Makes it a request for another path of the same site (see [`RequestContext::redirected`]), which is not routed yet.
    pub fn redirect(&mut self, local: &[u8]) {
        let asked = || Box::new((self.head.method.clone(), self.head.target().to_vec()));
        self.notes.asked = Some(self.notes.asked.take().unwrap_or_else(asked));
        self.head.redirect(local);
        self.extra_fields.clear();
        self.notes.routed = RouteContext::default();
    }

    /// Replaces path and query: the route's target gets these, which are normalized. The access log has what the client sent.
    pub fn rewrite(&mut self, target: &[u8]) {
        let asked = || Box::new((self.head.method.clone(), self.head.target().to_vec()));
        self.notes.asked = Some(self.notes.asked.take().unwrap_or_else(asked));
        self.notes.routed.requested = Some(self.requested_target());
        self.head.rewrite(target);
        self.notes.routed.path = None;
    }

    /// Compresses its response as its route says. Tags of compressed responses in its conditions become those that the app has made again.
    pub fn set_compression(&mut self, compression: Option<&Arc<Compression>>) {
        self.notes.routed.compression = compression.cloned();
        if compression.is_none() {
            return;
        }
        // Not `If-Range`: a range is of the bytes as they are (RFC 9110 §13.1.5).
        for name in ["if-none-match", "if-match"] {
            let coded = |list: &&[u8]| has_coded_etag(list);
            let Some(list) = self.head.fields.all(name).find(coded) else { continue };
            if name == "if-none-match" {
                self.notes.coded_etags = Some(list.into());
            }
            self.head.fields.edit_values(name, restore_etags);
        }
    }

    /// Whether its route compresses responses.
    pub fn is_compressed(&self) -> bool {
        self.notes.routed.compression.is_some()
    }

    /// The two ends of the connection.
    pub fn peer(&self) -> &ConnectionInfo {
        &self.peer
    }

    /// Whether it came over HTTP/2, though its head reads like one of HTTP/1.1.
    pub fn is_http2(&self) -> bool {
        self.http2
    }

    /// Whether the client gets an app's `103 Early Hints`. Over HTTP/2 no client takes one for the final response; over HTTP/1.1 some do (RFC 8297 §3).
    pub fn takes_early_hints(&self) -> bool {
        let navigates = || {
            let mode = self.head.fields.first("sec-fetch-mode");
            mode.is_some_and(|mode| mode.eq_ignore_ascii_case(b"navigate"))
        };
        match self.passing().early_hints {
            EarlyHints::Auto => self.http2 || navigates(),
            EarlyHints::Always => true,
            EarlyHints::Never => false,
        }
    }

    /// When the first byte of its head was read.
    pub fn received(&self) -> Instant {
        self.received
    }

    /// Method and target as the client sent them, whatever path is served instead.
    pub fn asked(&self) -> (&http::Method, &[u8]) {
        match self.notes.asked.as_deref() {
            Some((method, target)) => (method, target),
            None => (&self.head.method, self.head.target()),
        }
    }

    /// Its number among the requests of this process: the front of a request id.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes of [`Request::path`] the route stripped as its prefix.
    pub fn mount(&self) -> usize {
        self.notes.routed.mount
    }

    /// How the route forwards bodies.
    pub fn passing(&self) -> ForwardingPolicy {
        self.notes.routed.passing
    }

    /// The path that routes match and that is forwarded: RFC 3986 §6.2.2, `%2F` and `//` untouched.
    pub fn path(&self) -> &[u8] {
        self.notes.routed.path.as_deref().unwrap_or_else(|| self.head.path())
    }

    /// Replaces [`Request::path`] by its normalized form.
    pub fn set_path(&mut self, path: Vec<u8>) {
        self.notes.routed.path = Some(path);
    }

    /// The normalized path and query that its route was chosen by, whatever the route makes of them.
    pub fn requested_target(&self) -> Vec<u8> {
        if let Some(requested) = &self.notes.routed.requested {
            return requested.clone();
        }
        match self.head.query() {
            Some(query) => [self.path(), b"?", query].concat(),
            None => self.path().to_vec(),
        }
    }

    /// The client's address: the one a trusted proxy names, else the peer's. `None` on a Unix socket.
    pub fn client_address(&self) -> Option<std::net::IpAddr> {
        match &self.notes.forwarded {
            Some(forwarded) => Some(forwarded.client),
            None => self.peer.client.map(|client| client.ip().to_canonical()),
        }
    }

    /// Whether a received field is kept from the app.
    ///
    /// Withheld: a field whose name becomes, or may become further on, the variable of another name (`spec/http.md` §4, "Names"). Also a field about
    /// the client's identity that need not be true: every such field of a peer that is not a trusted proxy; of a trusted one those that were
    /// evaluated, and that [`Request::extra_fields`] may replace.
    pub fn drops_field(&self, lower_name: &[u8], names: FieldNames) -> bool {
        if self.notes.routed.withheld_fields.iter().any(|withheld| withheld.matches(lower_name)) {
            return true;
        }
        let any_name = names == FieldNames::Http && self.passing().any_names && lower_name != b"proxy";
        if !cgi_safe_name(lower_name) && !any_name {
            if !self.notes.dropped_names.replace(true) {
                counters::UNSAFE_NAMES.add(1);
            }
            return true;
        }
        // The app gets those of its own trace.
        if self.notes.trace.is_some() && matches!(lower_name, b"traceparent" | b"tracestate") {
            return true;
        }
        if let Some(withheld) = &self.notes.routed.withheld
            && withheld.iter().any(|name| **name == *lower_name)
        {
            return true;
        }
        match lower_name {
            b"forwarded" | b"x-forwarded-for" | b"x-forwarded-proto" | b"x-forwarded-host" => true,
            b"x-real-ip" | b"true-client-ip" | b"cf-connecting-ip" => !self.notes.trusted_peer,
            // Where clients are asked for certificates, only the handshake tells who they are.
            _ if lower_name.starts_with(CLIENT_CERTIFICATE) => {
                !self.notes.trusted_peer || self.peer.tls.as_ref().is_some_and(|tls| tls.asks_clients)
            }
            _ => !self.notes.trusted_peer && lower_name.starts_with(b"x-forwarded-"),
        }
    }

    /// `Via`, written by the hop that forwards the request: the version it was received in (RFC 9110 §7.6.3).
    pub fn via(&self) -> (&'static [u8], &'static [u8]) {
        let value: &[u8] = match self.head.version {
            _ if self.http2 => b"2.0 keepwarm",
            Version::Http10 => b"1.0 keepwarm",
            Version::Http11 => b"1.1 keepwarm",
        };
        (b"via", value)
    }

    /// The scheme the client used.
    pub fn scheme(&self) -> Scheme {
        self.notes.forwarded.as_ref().map_or(self.peer.scheme, |forwarded| forwarded.scheme)
    }
}

/// The begin of the names of fields about the certificate of a client.
const CLIENT_CERTIFICATE: &[u8] = b"x-client-cert-";

/// The sent response, for logs and counters.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The status; 0 when none was sent.
    pub status: u16,
    /// Body bytes handed to the socket.
    pub body_bytes: u64,
    /// How it ended.
    pub fate: ResponseOutcome,
    /// From the first byte of the head to the last byte of the response taken by the socket.
    pub elapsed: Duration,
}

/// Our end of a connection.
#[derive(Debug, Clone)]
pub enum LocalAddress {
    /// An address of this machine.
    Tcp(SocketAddr),
    /// The path of a Unix socket that has one.
    Unix(Option<Arc<str>>),
}

/// What is known of the process that has made a connection.
#[derive(Debug, Default)]
pub struct PeerProcess {
    /// Its id, over a Unix socket.
    pub pid: Option<u32>,
    /// Somebody looks for the worker that it belongs to, or did.
    pub is_sought: AtomicBool,
    /// The process of that worker; 0: not known yet, or not found.
    pub worker: AtomicU32,
}

/// The two ends of a connection.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// The client's address; none on a Unix socket.
    pub client: Option<SocketAddr>,
    /// The address that the client connected to; none on a Unix socket.
    pub local: Option<SocketAddr>,
    /// The path of the Unix socket that the client connected to.
    pub socket: Option<Arc<str>>,
    /// What the connection speaks.
    pub scheme: Scheme,
    /// The process that connected, where the listener wants to know it. In an allocation of its own: most listeners do not.
    pub process: Option<Arc<PeerProcess>>,
    /// The result of its TLS handshake; `None`: plaintext.
    pub tls: Option<Box<ServerHandshake>>,
    client_text: OnceLock<(String, String)>,
    local_text: OnceLock<(String, String)>,
}

impl ConnectionInfo {
    /// Names the two ends.
    pub fn new(client: Option<SocketAddr>, local: LocalAddress, scheme: Scheme) -> Self {
        let (local, socket) = match local {
            LocalAddress::Tcp(address) => (Some(address), None),
            LocalAddress::Unix(path) => (None, path),
        };
        let (client_text, local_text) = (OnceLock::new(), OnceLock::new());
        Self { client, local, socket, scheme, process: None, tls: None, client_text, local_text }
    }

    /// The same, encrypted.
    pub fn over_tls(client: Option<SocketAddr>, local: LocalAddress, tls: ServerHandshake) -> Self {
        Self { tls: Some(Box::new(tls)), ..Self::new(client, local, Scheme::Https) }
    }

    /// The client's address and port as text, formatted once a connection; empty on a Unix socket.
    pub fn client_text(&self) -> (&str, &str) {
        text_of(self.client, &self.client_text)
    }

    /// The same of our end.
    pub fn local_text(&self) -> (&str, &str) {
        text_of(self.local, &self.local_text)
    }
}

fn text_of(end: Option<SocketAddr>, text: &OnceLock<(String, String)>) -> (&str, &str) {
    let (address, port) = text.get_or_init(|| match end {
        Some(end) => (end.ip().to_canonical().to_string(), end.port().to_string()),
        None => (String::new(), String::new()),
    });
    (address, port)
}
