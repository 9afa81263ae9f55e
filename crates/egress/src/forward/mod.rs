//! One call to an upstream, through all its attempts.
//!
//! ```text
//!   admit ──▶ collect ──▶ choose an endpoint ──▶ connect ──▶ talk ──▶ over
//!                               ▲                    │          │
//!                               └─────── retry ──────┴──────────┘
//! ```
//!
//! * `attempt`: one try at one endpoint, and whether another may follow.  `upstream_request`: the two messages between client and upstream.
//! * `body`: the request's body, and whether it can be sent again.  `head`: the request's head as it is sent, the response's as it is passed on.
//! * `clock`: whose turn it is, and how long that may take.  `hedge`: a second attempt beside a slow first one.
//! * `hops`: a request that has been here too often.
//! * `failure`: why an attempt failed.  `refusal`: what Keepwarm responds itself, and how failures are logged.
//!
//! The client's own task does all of it, on its own thread.

mod attempt;
mod body;
mod clock;
mod failure;
mod head;
mod hedge;
mod hops;
mod refusal;
mod upstream_request;

pub(crate) use self::attempt::is_failure;
pub use self::failure::ERROR_RESPONSES as FAILURES;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use keepwarm_net::{ConnectionNeed, WaitKind};
use keepwarm_policy::balance::FailedMembers;
use keepwarm_policy::retry::Decision;
use keepwarm_serve::{
    BodyError, CallRecord, CallTimes, ClientLoss, Exchange, max_forwards, respond_as_final_recipient,
};
use keepwarm_telemetry::timelines::note_call;
use tokio::time::Instant;

use self::body::Body;
pub(crate) use self::head::{ForwardOptions, HostSource, VIA};
use crate::active::ActiveEntry;
use crate::gate::Permit;
use crate::stats::{CallSpans, CompletedCall, ServerTiming, SpanEnd, Trace, caller, look_for_caller};
use crate::{EndpointEntry, EndpointSet, Upstream, UpstreamSettings, refusals};

/// Carries the call to `upstream`, and its response back.
pub(crate) async fn forward(
    upstream: &Arc<Upstream>,
    options: ForwardOptions<'_>,
    exchange: &mut Exchange<'_>,
) {
    if max_forwards(&exchange.request().head) == Some(0) {
        return respond_as_final_recipient(exchange);
    }
    if hops::is_in_a_circle(&exchange.request().head.fields) {
        return refusals::LOOP.respond(exchange);
    }
    exchange.request_mut().notes.target = Some(Arc::clone(upstream.name()));
    let mut forward = Forward::new(upstream, options, exchange);
    if options.is_of_app {
        look_for_caller(forward.exchange.request(), &forward.trace, forward.settings.tracer.is_some());
    }
    forward.run().await;
    forward.record();
}

/// Whether an attempt ends the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptResult {
    /// The call has its response, or its client has gone.
    Over,
    /// The call continues with another attempt.
    Again,
}

/// One call, through all attempts.
struct Forward<'a, 'c> {
    upstream: &'a Arc<Upstream>,
    settings: Arc<UpstreamSettings>,
    endpoints: Arc<EndpointSet>,
    options: ForwardOptions<'a>,
    exchange: &'a mut Exchange<'c>,
    /// As those who look see it.
    active: ActiveEntry<'a>,
    body: Body,
    record: Box<CallRecord>,
    /// The trace it is part of.
    trace: Trace,
    /// The spans of its attempts, where calls are traced, and that of the present one.
    spans: Option<Box<CallSpans>>,
    span: u64,
    /// The endpoint of the present attempt, in `endpoints`.
    at: Option<usize>,
    /// From when the time for all of it counts.
    began: Instant,
    /// When the present attempt began to look for a connection, had one, and had the head of a response; when it was over.
    sought: Instant,
    connected: Option<Instant>,
    headed: Option<Instant>,
    ended: Option<Instant>,
    /// The next attempt is on a new connection: one that was kept has failed.
    anew: bool,
    /// Where it has failed, in `endpoints`.
    tried: FailedMembers,
    /// Endpoints that gave no response at all.
    silent: FailedMembers,
    /// It was tried again, and that was counted.
    retries: u32,
    /// Whether a status is followed by another attempt: known before the attempt has ended.
    decided: Option<Decision>,
    /// It was tried again because an idle connection was closed.
    lost_before: bool,
}

impl<'a, 'c> Forward<'a, 'c> {
    fn new(upstream: &'a Arc<Upstream>, options: ForwardOptions<'a>, exchange: &'a mut Exchange<'c>) -> Self {
        let body = Body::of(exchange);
        let settings = upstream.settings();
        let tracer = settings.tracer.as_ref();
        Self {
            upstream,
            active: upstream.active().enter(exchange.request()),
            trace: Trace::of(exchange.request(), tracer),
            spans: tracer.map(|tracer| Box::new(CallSpans::new(tracer))),
            span: 0,
            settings,
            endpoints: upstream.endpoints(),
            options,
            body,
            record: Box::new(CallRecord { upstream: Arc::clone(upstream.name()), ..CallRecord::default() }),
            sought: exchange.received(),
            began: exchange.received(),
            at: None,
            connected: None,
            headed: None,
            ended: None,
            anew: false,
            tried: FailedMembers::default(),
            silent: FailedMembers::default(),
            retries: 0,
            decided: None,
            lost_before: false,
            exchange,
        }
    }

    async fn run(&mut self) {
        if let Err(error) = self.collect().await {
            return self.refuse_body(&error);
        }
        if let Some(whole) = self.settings.timeouts.whole {
            self.exchange.deadlines().set(WaitKind::Slow, self.began.checked_add(whole));
        }
        let upstream = self.upstream;
        let Some(_place) = self.enter(upstream).await else { return };
        upstream.budget().handle_request();
        while self.attempt().await == AttemptResult::Again && !self.exchange.abort_if_gone() {}
    }

    /// A place among the calls in flight.
    async fn enter(&mut self, upstream: &'a Upstream) -> Option<Permit<'a>> {
        if let Some(permit) = upstream.gate().try_enter() {
            return Some(permit);
        }
        let waiting = upstream.gate().enter(self.time_left());
        match while_here(self.exchange, waiting).await {
            Ok(Ok(permit)) => return Some(permit),
            Ok(Err(refused)) => self.refuse_entrance(refused),
            Err(gone) => self.exchange.abandon(gone),
        }
        None
    }

    /// What is left of the time for all of it.
    fn time_left(&self) -> Option<Duration> {
        Some(self.settings.timeouts.whole?.saturating_sub(self.began.elapsed()))
    }

    /// Reads what the upstream should not have to wait for.
    async fn collect(&mut self) -> Result<(), BodyError> {
        let whole = self.exchange.request().passing().buffer_request == Some(true);
        if self.exchange.awaits_continue() {
            if self.options.forwards_expectation && !whole {
                return Ok(());
            }
            self.exchange.want_body();
            // Now, not when there is a connection.
            poll_fn(|cx| Poll::Ready(self.exchange.poll_flush(cx).is_ready())).await;
        }
        if whole && !self.exchange.body_done() {
            self.body.collect_whole(self.exchange).await?;
            // The client's time is not the upstream's.
            self.began = Instant::now();
            return Ok(());
        }
        self.body.collect(self.exchange).await
    }

    /// A call that can be sent again takes any kept connection, another only one that is hardly closed.
    fn need(&self) -> ConnectionNeed {
        match self.anew {
            true => ConnectionNeed::New,
            false if self.is_repeatable() => ConnectionNeed::Any,
            false => ConnectionNeed::Fresh,
        }
    }

    /// RFC 9110 §9.2.2, and all of its body is still here.
    fn is_repeatable(&self) -> bool {
        self.exchange.request().head.method.is_idempotent() && self.body.can_be_sent_again()
    }

    /// Leaves what became of it with the request.
    fn record(&mut self) {
        let deadlines = self.exchange.deadlines();
        deadlines.set(WaitKind::Response, None);
        deadlines.set(WaitKind::Slow, None);
        let ended = self.ended.unwrap_or_else(Instant::now);
        let connected = self.connected.unwrap_or(ended);
        let headed = self.headed.unwrap_or(ended);
        self.record.times = CallTimes {
            queue: self.sought.saturating_duration_since(self.exchange.received()),
            connect: connected.saturating_duration_since(self.sought),
            first_byte: headed.saturating_duration_since(connected),
            body: ended.saturating_duration_since(headed),
        };
        self.record.sent += self.body.received();
        let record = std::mem::take(&mut self.record);
        let stats = CompletedCall {
            upstream: self.upstream,
            endpoint: self.at.and_then(|at| self.endpoints.endpoints.get(at)),
            connected: self.connected.is_some(),
            record: &record,
            trace_id: self.trace.id(),
            elapsed: ended.saturating_duration_since(self.exchange.received()),
        };
        let elapsed = stats.elapsed;
        stats.keep(self.exchange.request_mut());
        if let Some(spans) = self.spans.take() {
            let scheme = self.settings.scheme.as_str();
            let request = self.exchange.request();
            let target = self.options.target(request);
            spans.finish(&self.trace, &record, request, (ended, elapsed), (scheme, &target));
        }
        refusal::tell_story(&record, self.exchange);
        if self.options.is_of_app {
            self.note_caller(&record);
        }
        self.exchange.request_mut().notes.call = Some(record);
    }

    /// Leaves the call to the request that it is a part of.
    fn note_caller(&self, record: &CallRecord) {
        let request = self.exchange.request();
        if let Some(caller) = caller(request, &self.trace, self.settings.tracer.is_some()) {
            note_call(caller, record.timeline(request.received(), request.notes.reason));
        }
    }

    /// An attempt begins.
    fn begin_span(&mut self, endpoint: &EndpointEntry, now: Instant) -> u64 {
        self.spans.as_mut().map_or(0, |spans| spans.begin(Some(endpoint), now))
    }

    /// The name of an attempt in its trace.
    fn name_of(&self, span: u64) -> u64 {
        if self.spans.is_some() { span } else { crate::random() }
    }

    /// The present attempt has ended.
    fn end_span(&mut self, status: u16, failure: Option<&'static str>, at: Instant) {
        let reused = self.record.reused.is_some();
        if let Some(spans) = &mut self.spans {
            spans.end(self.span, SpanEnd { at, status, failure, reused });
        }
    }

    /// What a response of now says about its cost.
    fn timing(&self, what: &str) -> Option<ServerTiming> {
        self.options.says_timing.then(|| ServerTiming::new(self.exchange.received().elapsed(), what))
    }
}

/// Waits while the client is connected: a client that has gone must not hold a slot in a queue, nor cause a call without a waiter.
async fn while_here<T>(
    exchange: &mut Exchange<'_>,
    waiting: impl Future<Output = T>,
) -> Result<T, ClientLoss> {
    let mut waiting = pin!(waiting);
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => exchange.poll_gone(cx).map(Err),
    })
    .await
}
