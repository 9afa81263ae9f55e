//! Requests to workers that are servers themselves: each takes a slot of a worker, speaks its protocol on a connection of the app's pool, and releases the slot.
//!
//! ```text
//!   collect ──▶ wait for a place ──▶ connect ──▶ talk ──▶ over
//!                     ▲                  │          │
//!                     └───── retry ──────┴──────────┘
//! ```
//!
//! * [`Dialect`]: what a protocol adds: HTTP here (`http`).  `attempt`: one try with one worker.  `worker_request`: the two messages between client and server.
//! * `child`: the processes of a server that manages its own.  `behind`: their work after a response.
//! * `hijack`: an application that takes over a connection.  `external`: a server that already runs.  `tunnel`: connections after `101`.  `discard`: a response whose client has gone.  `server`: the slots and the state of a server.  `health`: whether it responds.
//!
//! The app's workers, their slots, the queue before them, reloads and failures are those of every other app ([`super::app`]); the client's own task
//! speaks the protocol.

mod attempt;
mod behind;
mod child;
mod clock;
mod connection;
mod dialect;
mod discard;
mod external;
mod health;
mod hijack;
mod http;
mod server;
mod tunnel;
mod worker_request;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use keepwarm_http1::{Fields, RequestBody};
use keepwarm_net::{
    Calls, Client, ClientError, Codec, ConnectionNeed, Endpoint, Pool, PoolSettings, Protocol as Version,
    ResponsePart,
};
use keepwarm_policy::ExpectSupport;
use keepwarm_serve::{
    BodyError, Exchange, ProxyVersion, RequestInstants, RequestTimes, ResponseBuffer, is_read_first,
    read_first, respond_with_body_error,
};
use keepwarm_telemetry::timelines::kept_path;
use tokio::time::Instant;

use super::activity::RequestSummary;
use super::app::App;
use super::call::Call;
use super::conversation::body::{BodySource, read_whole};
use super::fastcgi::{FastCgi, ScriptRoot};
use super::link::Link;
use super::quarantine::QuarantineProbe;
use super::refusals::respond_quarantined;
pub(super) use child::ChildGuard;
pub use child::ChildPolicy;
pub(in crate::dispatch) use connection::ServerConnection;
pub(super) use dialect::{Dialect, HeadContext};
pub(super) use external::ExternalServer;
pub use external::ExternalServerStatus;
pub(super) use health::attend_to_end;
pub(super) use hijack::hold_hijacked;
pub(super) use http::hold_http;
pub(super) use server::{Server, ServerLink, ServerProcess};
use worker_request::BLOCK;

/// How the workers of an app are spoken to that are servers by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPolicy {
    /// In which language.
    pub protocol: Protocol,
    /// Requests that one is given at once.
    pub concurrency: usize,
    /// Each connection begins with a PROXY header of this version. For HTTP only.
    pub proxy: Option<ProxyVersion>,
    /// The path of the health check; `None`: any response to any request will do.
    pub health: Option<String>,
    /// How its processes are treated, if it keeps some of its own: php-fpm, at a Unix socket.
    pub children: Option<ChildPolicy>,
    /// A script may keep running after its response, and leaves the end of its request unread until it ends (see `child`). Only at a Unix socket.
    pub works_behind: bool,
}

/// A protocol that workers may serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP, of this version.
    Http(Version),
    /// FastCGI, for the scripts of this site.
    FastCgi(Arc<ScriptRoot>),
}

impl Protocol {
    /// Which version of HTTP it is.
    fn http_version(&self) -> Version {
        match self {
            Self::Http(version) => *version,
            Self::FastCgi(_) => Version::Http1,
        }
    }
}

/// The connections to an app's servers, and what is known of all of those.
#[derive(Debug)]
pub(super) struct Servers {
    http1: Arc<Calls>,
    /// A reload may change the version: until the old workers have drained, there are both.
    http2: Arc<Calls>,
    pub(super) fastcgi: Arc<Pool<FastCgi>>,
    expectation: Mutex<ExpectSupport>,
    /// It was logged that responses had to be normalized.
    told_mended: AtomicBool,
}

impl Default for Servers {
    fn default() -> Self {
        let settings = PoolSettings { idle: IDLE, ..PoolSettings::default() };
        Self {
            http1: Calls::new(settings, Version::Http1),
            http2: Calls::new(settings, Version::Http2),
            fastcgi: Pool::new(settings),
            expectation: Mutex::default(),
            told_mended: AtomicBool::new(false),
        }
    }
}

/// Idle connections kept to one worker. More are needed only when that many requests come at once; then making them is not what takes the time.
const IDLE: usize = 128;

impl Servers {
    /// A server for scripts works on one connection at a time, and others wait unheard: there must not be more than it takes. One of HTTP may have a thread for each
    /// that it stays with while requests keep coming (Puma does).
    pub(super) fn set_policy(&self, policy: Option<&ServerPolicy>) {
        let Some(ServerPolicy { protocol, concurrency, children, .. }) = policy else { return };
        let max = (*concurrency).max(1);
        let settings = PoolSettings { idle: max, max, ..PoolSettings::default() };
        match protocol {
            Protocol::FastCgi(_) => {
                let idle = children.and_then(|children| children.idle);
                let idle_timeout = idle.unwrap_or(settings.idle_timeout);
                self.fastcgi.set_settings(PoolSettings {
                    trusts: FastCgi::CLOSES_NEVER,
                    idle_timeout,
                    ..settings
                });
            }
            Protocol::Http(_) => {
                let settings = PoolSettings { idle: max.min(IDLE), ..settings };
                self.http1.set_settings(settings);
                self.http2.set_settings(settings);
            }
        }
    }

    /// The connections that speak this version of HTTP.
    fn http(&self, version: Version) -> &Arc<Calls> {
        match version {
            Version::Http2 => &self.http2,
            Version::Auto | Version::Http1 => &self.http1,
        }
    }

    /// Closes what is kept to a server.
    fn forget(&self, endpoint: &Endpoint) {
        self.http1.forget(endpoint);
        self.http2.forget(endpoint);
        self.fastcgi.forget(endpoint);
    }

    fn expectation(&self) -> MutexGuard<'_, ExpectSupport> {
        lock(&self.expectation)
    }
}

/// Serves one request.
pub(super) async fn hold<C: Dialect>(
    app: &Arc<App>,
    exchange: &mut Exchange<'_>,
    destination: C::Destination,
) {
    exchange.request_mut().notes.target = Some(Arc::clone(&app.name));
    let mut relay = Relay::<C>::new(app, exchange, destination);
    if let Some(time) = app.quarantine.refuses(&relay.call.summary) {
        return respond_quarantined(relay.exchange, time);
    }
    if !relay.wait_until_wanted().await {
        return;
    }
    if let Err(error) = relay.collect().await {
        return respond_with_body_error(relay.exchange, error);
    }
    while let Some(slot) = relay.wait_for_slot().await {
        match relay.attempt(slot).await {
            AttemptResult::Over => return,
            AttemptResult::Again(_) if relay.exchange.abort_if_gone() => return,
            AttemptResult::Again(why) => relay.tell_again(why),
        }
    }
}

/// Whether an attempt with one worker ends the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptResult {
    /// The request has its response, or its client has gone.
    Over,
    /// It goes to another worker, because of this.
    Again(&'static str),
}

/// One request, through all tries.
pub(super) struct Relay<'a, 'c, C: Dialect> {
    app: &'a Arc<App>,
    exchange: &'a mut Exchange<'c>,
    call: Arc<Call>,
    /// It was let through to see whether its route still kills workers.
    probe: Option<QuarantineProbe>,
    source: BodySource,
    /// The bytes that arrived from [`BodySource::Client`] during the wait: each try begins with them.
    begun: Vec<u8>,
    /// A byte of a body that cannot be had again has been given to a worker.
    body_used: bool,
    response: ResponseBuffer,
    /// How often it was given to a worker.
    given: u8,
    /// It was given again although a worker may have begun with it.
    risked: bool,
    /// The next try is on a new connection: one that was kept has failed.
    anew: bool,
    /// The worker that has failed it last.
    failed_at: Option<Arc<Link>>,
    /// When it first began to wait for a worker: its age in the queue.
    since: Instant,
    /// When it last did, if it was given before.
    waited: Option<Instant>,
    /// When the server had said all of its response.
    ended: Option<Instant>,
    /// When it had said its head.
    headed: Option<Instant>,
    /// The response has begun, and is a stream that may be silent for long.
    stream: bool,
    /// The log has it as a slow request.
    logged_slow: bool,
    destination: C::Destination,
}

impl<'a, 'c, C: Dialect> Relay<'a, 'c, C> {
    fn new(app: &'a Arc<App>, exchange: &'a mut Exchange<'c>, destination: C::Destination) -> Self {
        let wanted = exchange.request().passing().buffer_response;
        Self {
            app,
            call: Call::with_path(
                RequestSummary::of(exchange.request()),
                kept_path(exchange.request().path()),
            ),
            exchange,
            probe: None,
            source: BodySource::Client,
            begun: Vec::new(),
            body_used: false,
            response: ResponseBuffer::new(wanted.unwrap_or(C::BLOCKING)),
            given: 0,
            risked: false,
            anew: false,
            failed_at: None,
            since: Instant::now(),
            waited: None,
            ended: None,
            headed: None,
            stream: false,
            logged_slow: false,
            destination,
        }
    }

    /// A client that waits for `100 Continue` before it sends a body that is read whole gets it when a worker is free to take the request (`spec/http.md`
    /// §2): it need not send ten megabytes for a 503. The slot is released while the body arrives, since no client holds a worker by being slow (§7), and the request
    /// is no longer rejected. `false`: it got an error response, or its client has gone.
    async fn wait_until_wanted(&mut self) -> bool {
        if !C::BLOCKING || !self.exchange.awaits_continue() || !self.reads_whole() {
            return true;
        }
        let Some(slot) = self.wait_for_slot().await else { return false };
        drop(slot);
        drop(self.call.take_frame());
        true
    }

    /// Whether the body is read to its end before the request takes a worker.
    fn reads_whole(&self) -> bool {
        let request = self.exchange.request();
        // An application that needs the length first gets a measured body.
        let unmeasured = C::BLOCKING && request.head.body == RequestBody::Chunked;
        request.passing().buffer_request.unwrap_or(C::BLOCKING) || unmeasured
    }

    /// Reads what a worker should not have to wait for.
    async fn collect(&mut self) -> Result<(), BodyError> {
        if self.exchange.body_done() {
            self.source = BodySource::Frame(Vec::new());
            return Ok(());
        }
        let (whole, request) = (self.reads_whole(), self.exchange.request());
        let first = is_read_first(request);
        if self.exchange.awaits_continue() && !C::BLOCKING {
            return Ok(());
        }
        // A worker with one request at a time must not wait for a client either.
        let alone = || self.app.policy().kind.server().is_some_and(|server| server.concurrency == 1);
        if whole || (first && alone()) {
            self.source = read_whole(self.app, self.exchange).await?;
        } else if first {
            self.collect_small().await?;
        }
        self.since = Instant::now();
        Ok(())
    }

    /// Reads a small body, if it comes with its head.
    async fn collect_small(&mut self) -> Result<(), BodyError> {
        let (exchange, begun) = (&mut *self.exchange, &mut self.begun);
        let whole = async {
            while !exchange.body_done() {
                poll_fn(|cx| exchange.poll_body(cx, begun, BLOCK)).await?;
            }
            Ok(())
        };
        read_first(whole).await?;
        match self.exchange.body_done() {
            true => self.source = BodySource::Frame(std::mem::take(&mut self.begun)),
            false => self.exchange.pause_body(),
        }
        Ok(())
    }

    /// A part of the body has been sent. `keeps`: it is kept for another try, as long as all of it fits a block.
    fn keep_sent(&mut self, block: &[u8], keeps: bool, done: bool) {
        let keeps = keeps && !self.body_used && self.begun.len() + block.len() <= BLOCK;
        if keeps {
            self.begun.extend_from_slice(block);
        } else {
            self.body_used = true;
            self.begun = Vec::new();
        }
        if done {
            self.source = match keeps && self.exchange.trailers().is_empty() {
                true => BodySource::Frame(std::mem::take(&mut self.begun)),
                false => BodySource::Sent,
            };
        }
    }

    fn framing(&self) -> RequestBody {
        match &self.source {
            BodySource::Frame(bytes) if bytes.is_empty() => RequestBody::None,
            BodySource::Frame(bytes) => RequestBody::Length(bytes.len() as u64),
            BodySource::Spool(_, length) => RequestBody::Length(*length),
            BodySource::Client | BodySource::Sent => self.exchange.request().head.body,
        }
    }

    /// A request that can be sent again takes any kept connection, another only one that is hardly closed. `ours`: the server is a worker.
    fn need(&self, ours: bool) -> ConnectionNeed {
        let repeatable = (C::CLOSES_NEVER && ours)
            || self.exchange.request().head.method.is_idempotent() && self.source.is_whole();
        match (self.anew, repeatable) {
            (true, _) => ConnectionNeed::New,
            (false, true) => ConnectionNeed::Any,
            (false, false) => ConnectionNeed::Fresh,
        }
    }

    fn tell_again(&self, why: &'static str) {
        keepwarm_telemetry::counters::RETRIES.count(&self.app.name, why);
        tracing::warn!(
            name: "request_retried",
            app = %self.app.name, id = %self.id(), route = %self.call.summary, why,
            "request retried"
        );
    }

    /// Where the time went, for those who count it.
    fn times(&self) -> RequestTimes {
        let ended = self.ended.unwrap_or_else(Instant::now);
        // One whose body never came has not waited for a worker: all of its time is reading.
        let since = if self.given > 0 { self.since } else { ended };
        let at = RequestInstants {
            received: self.exchange.received(),
            first_waited: since,
            waited: self.waited.unwrap_or(since),
            begun: self.call.in_work_since().unwrap_or(ended),
            headed: self.headed,
            ended,
        };
        let worker = self.call.last_given().map(|(link, _)| link.timeline_worker());
        RequestTimes::between(at, worker, self.logged_slow)
    }

    /// The id of the request, for a log record.
    fn id(&self) -> String {
        keepwarm_telemetry::RequestId::new(self.exchange.request().number()).to_string()
    }

    /// What the app has for its response, and then from one part of it to the next. A stream may be silent for as long as a WebSocket.
    fn time_limit(&self) -> Duration {
        let limit = self.request_timeout();
        if self.stream { limit.max(self.exchange.limits().websocket.idle) } else { limit }
    }

    /// The app's time for one request.
    fn request_timeout(&self) -> Duration {
        self.app.policy().request_timeout
    }
}

/// Reads what a server says, of which nothing is wanted, to its end.
pub(super) async fn reach_end<C: Codec>(client: &mut Client<C>) -> Result<(), ClientError> {
    poll_fn(|cx| {
        let _ = client.poll_flush(cx);
        while !matches!(ready!(client.poll_response(cx))?, ResponsePart::End) {}
        Poll::Ready(Ok(()))
    })
    .await
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No trailers.
fn none() -> Fields {
    Fields::new()
}
