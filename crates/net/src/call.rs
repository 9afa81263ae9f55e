//! One request to a server over any version of HTTP: [`Call`] is to an upstream what [`crate::Client`] is to a connection.
//!
//! Order of calls: one [`begin`](Call::begin), any number of [`send`](Call::send), one [`end`](Call::end), written by [`poll_flush`](Call::poll_flush); the response
//! comes from [`poll_response`](Call::poll_response). [`finish`](Call::finish) keeps the connection; dropping a call cancels it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Fields, RequestBody, RequestOptions, ResponseHead};
use tokio::time::Instant;

use crate::pool::{ConnectionSlots, EndpointMeter, PoolCounters, SHORT_LIFE, warm_again};
use crate::{
    AcquireError, ClientError, ClientTls, ConnectionNeed, Endpoint, Http1, Http2Call, Http2Pool, Lease, Pool,
    PoolSettings, PoolState, PoolTotals, Queue, Remote, RequestLine, ResponsePart, Scheme,
};

/// The version of HTTP spoken with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// As ALPN selects; HTTP/1.1 in plaintext.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by ALPN, and in plaintext by prior knowledge (RFC 9113 §3.3).
    Http2,
}

/// What a request offers to switch to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchTarget {
    /// A WebSocket, which every version of HTTP can carry.
    WebSocket,
    /// Another protocol, which only HTTP/1.1 can.
    Other,
}

/// The connections to one upstream, of every version. Shared by all threads.
#[derive(Debug)]
pub struct Calls {
    http1: Arc<Pool<Http1>>,
    http2: Arc<Http2Pool>,
    protocol: Protocol,
    encrypted: AtomicBool,
    /// With [`Protocol::Auto`]: endpoints that chose HTTP/1.1, and when.
    chose_http1: Mutex<HashMap<Endpoint, Instant>>,
    /// The threads that prewarm connections.
    warmers: OnceLock<Vec<Remote>>,
}

/// How long a server that chose HTTP/1.1 is not asked again: another server may run there by then.
const ASK_AGAIN: Duration = Duration::from_secs(10 * 60);

impl Calls {
    /// No connection yet.
    pub fn new(settings: PoolSettings, protocol: Protocol) -> Arc<Self> {
        Self::counted(settings, protocol, None)
    }

    /// The same, each endpoint's connections counted in a meter of its own, and not in [`Self::totals`].
    pub fn metered(settings: PoolSettings, protocol: Protocol, meter: Arc<EndpointMeter>) -> Arc<Self> {
        Self::counted(settings, protocol, Some(meter))
    }

    fn counted(settings: PoolSettings, protocol: Protocol, meter: Option<Arc<EndpointMeter>>) -> Arc<Self> {
        let slots = ConnectionSlots::new(settings.max_in_all);
        let http1 = Pool::within(settings, Arc::clone(&slots), PoolCounters::new(meter.clone()));
        let beside = (protocol == Protocol::Auto).then(|| Arc::clone(&http1));
        let http2 = Http2Pool::beside(settings, beside, slots, PoolCounters::new(meter));
        Arc::new(Self {
            http1,
            http2,
            protocol,
            encrypted: AtomicBool::new(false),
            chose_http1: Mutex::default(),
            warmers: OnceLock::new(),
        })
    }

    /// Changes the settings from now on.
    pub fn set_settings(&self, settings: PoolSettings) {
        self.http1.set_settings(settings);
        self.http2.set_settings(settings);
    }

    /// The queue of calls that wait for a connection because of a limit.
    pub fn queue(&self) -> &Arc<Queue> {
        self.http1.queue()
    }

    /// Changes the TLS settings of new connections; open ones stay open. The offered protocols follow from [`Protocol`].
    pub fn set_tls(&self, tls: Option<Arc<ClientTls>>) {
        let tls = tls.as_deref();
        const H1: &[u8] = b"http/1.1";
        const H2: &[u8] = b"h2";
        let http2: &[&[u8]] = if self.protocol == Protocol::Auto { &[H2, H1] } else { &[H2] };
        self.http1.set_tls(tls.map(|tls| tls.with_alpn(&[H1])));
        self.http2.set_tls(tls.map(|tls| tls.with_alpn(http2)));
        self.encrypted.store(tls.is_some(), Relaxed);
    }

    /// The configured protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Keeps [`PoolSettings::min_idle`] connections ready on these threads from now on. HTTP/2 needs one per thread: it carries many calls.
    pub fn warm_on(&self, threads: &[Remote]) {
        let _ = self.warmers.set(threads.to_vec());
    }

    /// Starts to prewarm an endpoint.
    pub fn warm(self: &Arc<Self>, endpoint: &Endpoint) {
        if self.http1.dials_with().0.min_idle == 0 {
            return;
        }
        for thread in self.warmers.get().into_iter().flatten() {
            let (calls, endpoint) = (Arc::downgrade(self), endpoint.clone());
            thread.spawn(move || Self::keep_warm(calls, endpoint));
        }
    }

    /// Keeps connections of this thread to an endpoint ready, for as long as the endpoint exists.
    pub(crate) async fn keep_warm(calls: Weak<Self>, endpoint: Endpoint) {
        let Some(http2) = calls.upgrade().map(|calls| Arc::downgrade(&calls.http2)) else { return };
        let Some(warmer) = http2.upgrade().and_then(|http2| http2.begin_warmth(&endpoint)) else { return };
        let mut failures = 0;
        while let Some(it) = calls.upgrade() {
            if !it.tries_http2(&endpoint) {
                it.http2.end_warmth(&endpoint, warmer);
                return it.http1.warm(&endpoint);
            }
            if !it.http2.is_warmed(&endpoint, warmer) {
                return;
            }
            let began = Instant::now();
            let warmed = it.http2.warm_up(&endpoint).await;
            if matches!(warmed, Err(AcquireError::NotHttp2)) && it.protocol == Protocol::Auto {
                it.chose_http1().insert(endpoint.server().clone(), Instant::now());
                continue;
            }
            drop(it);
            if let Ok(true) = warmed {
                poll_fn(|cx| Http2Pool::poll_lost(&http2, &endpoint, cx)).await;
                if began.elapsed() >= SHORT_LIFE {
                    failures = 0;
                    continue;
                }
            }
            // If nobody responds, the calls will show it.
            tokio::time::sleep(warm_again(failures)).await;
            failures += 1;
        }
    }

    /// A connection for one request, or a slot on one: see [`Pool::acquire`].
    ///
    /// # Errors
    /// No connection could be made.
    pub async fn acquire(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        need: ConnectionNeed,
    ) -> Result<Call, AcquireError> {
        if self.tries_http2(endpoint) {
            match self.http2.acquire(endpoint, need).await {
                Err(AcquireError::NotHttp2) if self.protocol == Protocol::Auto => {
                    // The connection that showed it is in the other pool.
                    self.chose_http1().insert(endpoint.server().clone(), Instant::now());
                }
                responded => return responded.map(Call::http2),
            }
        }
        self.acquire_http1(endpoint, need).await
    }

    /// The same for a request that offers to switch protocols. HTTP/2 can do that for a WebSocket, by extended CONNECT (RFC 8441); with [`Protocol::Http2`], other
    /// offers are not made.
    ///
    /// # Errors
    /// No connection could be made; [`AcquireError::NoExtendedConnect`]: the server of this one takes no WebSockets.
    pub async fn acquire_to_switch(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        need: ConnectionNeed,
        to: SwitchTarget,
    ) -> Result<Call, AcquireError> {
        if self.protocol != Protocol::Http2 {
            return self.acquire_http1(endpoint, need).await;
        }
        let call = self.http2.acquire(endpoint, need).await?;
        if to == SwitchTarget::WebSocket && !call.offers_extended_connect().await {
            return Err(AcquireError::NoExtendedConnect);
        }
        Ok(Call::http2(call))
    }

    async fn acquire_http1(&self, endpoint: &Endpoint, need: ConnectionNeed) -> Result<Call, AcquireError> {
        self.http1.acquire(endpoint, need).await.map(Call::Http1)
    }

    /// An existing connection that meets `need`: [`Self::acquire`] without waiting.
    pub fn take(self: &Arc<Self>, endpoint: &Endpoint, need: ConnectionNeed) -> Option<Call> {
        match self.tries_http2(endpoint) {
            true => self.http2.take(endpoint, need).map(Call::http2),
            false => self.http1.take(endpoint, need).map(Call::Http1),
        }
    }

    /// Whether an endpoint speaks HTTP/2, or should be asked.
    fn tries_http2(&self, endpoint: &Endpoint) -> bool {
        match self.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Auto if !self.encrypted.load(Relaxed) => false,
            Protocol::Auto => {
                self.chose_http1().get(endpoint.server()).is_none_or(|at| at.elapsed() >= ASK_AGAIN)
            }
        }
    }

    fn chose_http1(&self) -> MutexGuard<'_, HashMap<Endpoint, Instant>> {
        self.chose_http1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes idle connections to an endpoint that is gone. Connections in use close when their request ends.
    pub fn forget(&self, endpoint: &Endpoint) {
        self.http1.forget(endpoint);
        self.http2.forget(endpoint);
        self.chose_http1().remove(endpoint);
    }

    /// Counts a call that was lost on a connection closed meanwhile, and whether it was retried (see [`crate::PoolTotals`]).
    pub fn count_lost(&self, endpoint: &Endpoint, retried: bool) {
        self.http1.count_lost(endpoint, retried);
    }

    /// Totals so far over all versions; zero where a meter counts.
    pub fn totals(&self) -> PoolTotals {
        self.http1.totals() + self.http2.totals()
    }

    /// The connections to an endpoint, or (`None`) to all, by state. An HTTP/2 connection is in use while it has a call.
    pub fn state(&self, endpoint: Option<&Endpoint>) -> PoolState {
        self.http1.state(endpoint) + self.http2.state(endpoint)
    }

    /// The pool of HTTP/2 connections, for metrics.
    pub fn http2(&self) -> &Arc<Http2Pool> {
        &self.http2
    }

    /// The pool of HTTP/1.1 connections, for metrics.
    pub fn http1(&self) -> &Arc<Pool<Http1>> {
        &self.http1
    }
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct CallHead<'a, F> {
    /// The method.
    pub method: &'a Method,
    /// Of the upstream.
    pub scheme: Scheme,
    /// For `Host` or `:authority`.
    pub authority: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
    /// The fields, hop-by-hop ones left out.
    pub fields: F,
    /// How the body follows.
    pub framing: RequestBody,
    /// The body is held back until the server asks for it.
    pub expect: bool,
    /// Trailers are accepted and passed on.
    pub te_trailers: bool,
    /// The protocols offered to switch to.
    pub upgrade: Option<&'a [u8]>,
    /// Of the opening of a WebSocket: the `Sec-WebSocket-Accept` that the client expects. HTTP/2 opens it by extended CONNECT, which has none (RFC 8441 §5), and gives it back
    /// in a `101` of its own.
    pub websocket_accept: Option<&'a str>,
}

/// One request, and its response.
#[derive(Debug)]
pub enum Call {
    /// On a connection of HTTP/1.1.
    Http1(Lease<Http1>),
    /// On a stream of HTTP/2. In a box: it is several times as large, and a call changes hands.
    Http2(Box<Http2Call>),
}

impl Call {
    fn http2(call: Http2Call) -> Self {
        Self::Http2(Box::new(call))
    }

    /// Begins the request.
    pub fn begin<'f>(&mut self, head: CallHead<'_, impl Iterator<Item = (&'f [u8], &'f [u8])>>) {
        let lease = match self {
            Self::Http1(lease) => lease,
            Self::Http2(call) => return call.begin(head),
        };
        let CallHead { method, authority, target, fields, framing, .. } = head;
        let options = RequestOptions {
            keep_alive: true,
            expect_continue: head.expect,
            te_trailers: head.te_trailers,
            upgrade: head.upgrade,
        };
        let line = RequestLine { method, target, authority };
        lease.begin(|codec, out| codec.encode_head(out, line, fields, framing, options));
    }

    /// Bytes of the request's body.
    pub fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Http1(lease) => lease.send(bytes),
            Self::Http2(call) => call.send(bytes),
        }
    }

    /// The request is complete.
    pub fn end(&mut self, trailers: &Fields) {
        match self {
            Self::Http1(lease) => lease.end(trailers),
            Self::Http2(call) => call.end(trailers),
        }
    }

    /// Bytes queued and not yet written.
    pub fn unsent(&self) -> usize {
        match self {
            Self::Http1(lease) => lease.unsent(),
            Self::Http2(call) => call.unsent(),
        }
    }

    /// Writes queued bytes. Ready when all are written, or no more can be: the response then shows the outcome of the request.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Http1(lease) => lease.poll_flush(cx),
            Self::Http2(call) => call.poll_flush(cx),
        }
    }

    /// The next part of the response. After [`ResponsePart::End`] and after an error there is none.
    pub fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponsePart<'_>, ClientError>> {
        match self {
            Self::Http1(lease) => lease.poll_response(cx),
            Self::Http2(call) => call.poll_response(cx),
        }
    }

    /// The latest head.
    pub fn head(&self) -> &ResponseHead {
        match self {
            Self::Http1(lease) => lease.head(),
            Self::Http2(call) => call.head(),
        }
    }

    /// Whether a byte of the request was written. If not, no server has begun to process it.
    pub fn has_sent(&self) -> bool {
        match self {
            Self::Http1(lease) => lease.has_sent(),
            Self::Http2(call) => call.has_sent(),
        }
    }

    /// Whether a byte of the response came.
    pub fn has_heard(&self) -> bool {
        match self {
            Self::Http1(lease) => lease.has_heard(),
            Self::Http2(call) => call.has_heard(),
        }
    }

    /// How long its connection had been idle; `None`: it is new.
    pub fn idle(&self) -> Option<Duration> {
        match self {
            Self::Http1(lease) => lease.idle(),
            Self::Http2(call) => call.idle(),
        }
    }

    /// Whether its connection has carried another request before.
    pub fn is_reused(&self) -> bool {
        match self {
            Self::Http1(lease) => lease.is_reused(),
            Self::Http2(call) => call.idle().is_some(),
        }
    }

    /// Whether several reads were needed for a small head.
    pub fn head_came_in_pieces(&self) -> bool {
        match self {
            Self::Http1(lease) => lease.head_came_in_pieces(),
            Self::Http2(_) => false,
        }
    }

    /// Ends the use: the connection is kept if possible.
    pub fn finish(self) {
        match self {
            Self::Http1(lease) => lease.finish(),
            // Its connection never left the pool.
            Self::Http2(call) => drop(call),
        }
    }
}
