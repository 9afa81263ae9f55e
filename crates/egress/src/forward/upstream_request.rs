//! One request at one endpoint: what it is given, what it responds, and how that ends.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_http1::{BadField, Normalizations};
use keepwarm_net::{Call, ClientError, WaitKind};
use keepwarm_policy::breaker::Outcome;
use keepwarm_policy::timeout::Phase;
use keepwarm_serve::{
    Backend, BodyError, BufferedBody, ClientEnd, ClientLoss, Exchange, PartResult, ResponseBuffer,
    ServerPart, ServerSide, TunnelEnd, offered_protocols, pass_informational, websocket_accept,
};
use keepwarm_telemetry::counters;
use keepwarm_telemetry::stalls::Stall;
use tokio::time::Instant;

use super::Forward;
use super::attempt::is_failure;
use super::body::BodyStep;
use super::clock::{PhaseTimer, Turn};
use super::head::HeadContext;
use super::hedge::{HedgeTarget, HedgedAttempt};
use crate::active::CallPhase;
use crate::endpoints::{AttemptSignals, EndpointAttempt};

/// One request at one endpoint.
pub(super) struct UpstreamRequest<'t, 'a, 'c> {
    pub(super) forward: &'t mut Forward<'a, 'c>,
    /// None once the upstream has done its part.
    pub(super) call: Option<Call>,
    pub(super) attempt: EndpointAttempt,
    /// `Host` for this endpoint.
    authority: Arc<str>,
    /// Which of the endpoints.
    index: usize,
    /// A second attempt beside this one.
    hedged_attempt: HedgedAttempt<'a>,
    pub(super) side: ServerSide,
    response: ResponseBuffer,
    /// Whose turn it is, as far as time goes.
    pub(super) turn: Turn,
    pub(super) clock: PhaseTimer,
    /// The upstream has sent something, if not yet its response.
    pub(super) begun: bool,
    /// Bytes have moved since the time was looked at.
    pub(super) moved: bool,
    /// Informational responses that came.
    informed: u32,
}

/// Maximum number of informational responses that extend the timeouts: an upstream that works for long may send 102 repeatedly, and one that sends nothing
/// else cannot hold a call for ever. This number is arbitrary.
const SIGNS_OF_LIFE: u32 = 100;

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum AttemptEnd {
    /// The response was passed on, or replaced by one of ours, or cut.
    Responded,
    /// No response will come, or not all of it.
    Failed(ClientError),
    /// The status of a response of which nothing was passed on: it may be tried again.
    Status(u16),
    /// A phase took too long: its limit.
    TimedOut(Phase, Duration),
    /// The client was lost.
    ClientLost(ClientLoss),
    /// The request's body will not be complete.
    BadBody(BodyError),
}

impl<'t, 'a, 'c> UpstreamRequest<'t, 'a, 'c> {
    pub(super) fn new(
        forward: &'t mut Forward<'a, 'c>,
        attempt: EndpointAttempt,
        call: Call,
        authority: Arc<str>,
        index: usize,
    ) -> Self {
        let buffers = forward.exchange.request().passing().buffer_response == Some(true);
        let hedged_attempt = HedgedAttempt::for_call(forward, forward.connected.unwrap_or_else(Instant::now));
        Self {
            index,
            hedged_attempt,
            forward,
            call: Some(call),
            attempt,
            authority,
            side: ServerSide::default(),
            response: ResponseBuffer::new(buffers),
            turn: Turn::Unknown,
            clock: PhaseTimer::default(),
            begun: false,
            moved: false,
            informed: 0,
        }
    }

    /// Gives the upstream the head, and the body as far as it is here.
    pub(super) fn begin(&mut self) {
        let Some(call) = &mut self.call else { return };
        let forward = &mut *self.forward;
        let asks = forward.exchange.awaits_continue();
        let expects = asks && !self.attempt.state().expectation().is_ignored(Instant::now().into_std());
        if asks && !expects {
            // The upstream is known to ignore it: `100 Continue` is sent for it at once.
            forward.exchange.request_mut().notes.stalls.insert(Stall::ExpectationIgnored);
        }
        let upgrade = offered_protocols(forward.exchange);
        let websocket_accept = websocket_accept(forward.exchange);
        let context = HeadContext {
            scheme: forward.settings.scheme,
            authority: self.authority.as_bytes(),
            framing: forward.body.framing(),
            expects,
            upgrade: (!upgrade.is_empty()).then_some(upgrade.as_slice()),
            websocket_accept: websocket_accept.as_deref(),
            trace: forward.trace,
            span: forward.name_of(forward.span),
        };
        forward.options.begin(call, forward.exchange.request(), &context);
        forward.body.rewind();
        if !expects {
            forward.body.give_kept(call, forward.exchange.trailers());
        }
        if expects {
            self.side.hold_body();
        }
    }

    /// The second attempt, as long as neither has begun to respond.
    fn poll_hedged_attempt(&mut self, cx: &mut Context<'_>) -> PartResult<AttemptEnd> {
        if self.forward.headed.is_some() {
            self.hedged_attempt = HedgedAttempt::None;
            return PartResult::Waiting;
        }
        match self.hedged_attempt.poll(cx, self.forward, self.index) {
            Poll::Pending => PartResult::Waiting,
            Poll::Ready(won) => {
                self.promote_hedged_attempt(won);
                self.handle_head()
            }
        }
    }

    /// The first attempt has failed: the second is the only one, if it runs.
    fn continue_with_hedged_attempt(&mut self) -> bool {
        let Some(running) = self.hedged_attempt.take() else { return false };
        let now = Instant::now();
        let took = self.forward.connected.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.attempt.note(AttemptSignals::FAILED, took, now);
        self.forward.upstream.note_outcome(&self.forward.endpoints, self.index, Outcome::Failure, now);
        self.promote_hedged_attempt(running);
        true
    }

    /// The second attempt takes the place of the first, which is called off.
    fn promote_hedged_attempt(&mut self, (call, target): (Call, HedgeTarget<'a>)) {
        let taken = self.forward.connected.map_or(Duration::ZERO, |at| at.elapsed());
        self.forward.upstream.hedge(|hedge| hedge.handle_response(taken));
        self.forward.end_span(0, Some("hedged"), Instant::now());
        self.forward.span = target.span;
        self.forward.record.endpoint = Some(Arc::clone(target.attempt.state().name()));
        self.forward.record.reused = call.idle().filter(|_| call.is_reused());
        self.forward.active.set_at(CallPhase::Upstream, target.attempt.state().name());
        self.forward.at = self.forward.endpoints.position_of(target.attempt.state());
        (self.call, self.attempt, self.authority) = (Some(call), target.attempt, target.authority);
        self.hedged_attempt = HedgedAttempt::None;
    }

    /// An informational response came: up to a number it is a sign of life.
    fn note_informational(&mut self) {
        self.informed = self.informed.saturating_add(1);
        self.moved |= self.informed <= SIGNS_OF_LIFE;
    }

    /// `100 Continue`: the upstream wants the body. It is passed on to a client that waits for it; nobody else sees it.
    fn handle_continue(&mut self) {
        if self.side.release_body() {
            self.attempt.state().expectation().handle_honored();
        }
        self.forward.exchange.want_body();
    }

    fn handle_head(&mut self) -> PartResult<AttemptEnd> {
        if self.side.holds_body() {
            // It responds without having requested the body: that settles the expectation, too.
            self.attempt.state().expectation().handle_honored();
        }
        let now = Instant::now();
        let took = now.saturating_duration_since(self.forward.connected.unwrap_or(now));
        let Some(status) = self.call.as_ref().map(|call| call.head().status.as_u16()) else {
            return PartResult::Waiting;
        };
        let failed = is_failure(status);
        if failed && self.continue_with_hedged_attempt() {
            return PartResult::Taken;
        }
        let Some(call) = &mut self.call else { return PartResult::Waiting };
        self.attempt.note(if failed { AttemptSignals::FAILED } else { AttemptSignals::WELL }, took, now);
        if !self.forward.record.hedged {
            self.forward.upstream.hedge(|hedge| hedge.handle_response(took));
        }
        if self.forward.may_retry_status(status) {
            return PartResult::End(AttemptEnd::Status(status));
        }
        let forward = &mut *self.forward;
        forward.headed = Some(now);
        forward.active.set(CallPhase::Responds);
        forward.record.status = status;
        if call.head_came_in_pieces() {
            forward.exchange.request_mut().notes.stalls.insert(Stall::HeadInPieces);
        }
        report_normalized(forward.upstream.name(), &self.attempt, call.head().normalized);
        let begun = match status {
            101 => self.side.switch(forward.exchange, call.head(), forward.options.names_us()),
            _ => pass_head(forward, call, &self.authority),
        };
        match begun {
            Ok(()) => {
                forward.record.responded = status;
                if status == 101 { PartResult::Switched } else { PartResult::Taken }
            }
            Err(bad) => {
                forward.refuse_response(&bad);
                PartResult::End(AttemptEnd::Responded)
            }
        }
    }

    /// Gives the upstream what is here of the body.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        let held = self.side.poll_held_body(cx, self.forward.exchange);
        if held == BufferedBody::Ignored {
            self.attempt.state().expectation().handle_ignored(Instant::now().into_std());
        }
        loop {
            let Some(call) = &mut self.call else { return Ok(()) };
            let step = match held {
                BufferedBody::Held => BodyStep::Starved,
                BufferedBody::Released | BufferedBody::Ignored => {
                    self.forward.body.poll_give(cx, self.forward.exchange, call)?
                }
            };
            let queued = call.unsent();
            let flushed = call.poll_flush(cx);
            // Bytes that only fill our own buffer are not a sign of life of the upstream.
            self.moved |= call.unsent() < queued;
            if flushed.is_pending() || matches!(step, BodyStep::Starved | BodyStep::Nothing) {
                return Ok(());
            }
        }
    }

    fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<AttemptEnd> {
        let Some(call) = &mut self.call else { return Poll::Ready(AttemptEnd::Responded) };
        self.forward.exchange.deadlines().set(WaitKind::Slow, None);
        let end = self.side.poll_tunnel(cx, self.forward.exchange, call);
        let moved = self.side.tunnel_bytes();
        self.forward.record.sent = moved.sent;
        self.forward.record.received = moved.received;
        match std::task::ready!(end) {
            TunnelEnd::ClientLost(gone) => Poll::Ready(AttemptEnd::ClientLost(gone)),
            TunnelEnd::Over | TunnelEnd::Idle => Poll::Ready(AttemptEnd::Responded),
        }
    }

    /// The upstream waits for the client.
    pub(super) fn is_full(&self) -> bool {
        self.response.is_full()
    }
}

impl<'c> Backend<'c> for UpstreamRequest<'_, '_, 'c> {
    type End = AttemptEnd;

    fn client(&mut self) -> (&mut Exchange<'c>, &mut ResponseBuffer) {
        (&mut *self.forward.exchange, &mut self.response)
    }

    fn poll_switched(&mut self, cx: &mut Context<'_>) -> Option<Poll<AttemptEnd>> {
        self.side.is_switched().then(|| self.poll_tunnel(cx))
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> PartResult<AttemptEnd> {
        let Some(call) = &mut self.call else { return PartResult::Waiting };
        let exchange = &mut *self.forward.exchange;
        match self.side.poll_part(cx, call, exchange, &mut self.response) {
            ServerPart::Waiting => return self.poll_hedged_attempt(cx),
            ServerPart::Failed(error) => {
                return match self.forward.headed.is_none() && self.continue_with_hedged_attempt() {
                    true => PartResult::Taken,
                    false => PartResult::End(AttemptEnd::Failed(error)),
                };
            }
            ServerPart::Continue => {
                self.handle_continue();
                self.note_informational();
                return PartResult::Taken;
            }
            ServerPart::Informational => {
                self.begun = true;
                pass_informational(exchange, call.head(), self.forward.options.names_us());
                self.note_informational();
                return PartResult::Taken;
            }
            // No progress, however often it comes.
            ServerPart::Data(0) => return PartResult::Taken,
            ServerPart::Head => {
                self.moved = true;
                return self.handle_head();
            }
            ServerPart::Data(count) => self.forward.record.received += count as u64,
            ServerPart::Trailers => {}
            ServerPart::End => {
                self.side.end(exchange, &mut self.response);
                if let Some(call) = self.call.take() {
                    call.finish();
                }
            }
        }
        self.moved = true;
        PartResult::Taken
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Option<AttemptEnd> {
        self.poll_body(cx).err().map(AttemptEnd::BadBody)
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<AttemptEnd> {
        self.poll_turn(cx)
    }

    fn client_ended(&mut self, end: ClientEnd<'_>) -> AttemptEnd {
        match end {
            ClientEnd::Over => AttemptEnd::Responded,
            ClientEnd::ClientLost(gone) => AttemptEnd::ClientLost(gone),
            ClientEnd::KeptLost(error) => {
                tracing::error!(name: "response_lost", upstream = %self.forward.upstream.name(), %error,
                    "response cut: the part that its client had not read is lost");
                AttemptEnd::Responded
            }
        }
    }
}

/// Passes the head of the response on.
fn pass_head(forward: &mut Forward<'_, '_>, call: &Call, authority: &str) -> Result<(), BadField> {
    let head = call.head();
    let location = match head.fields.first("location") {
        Some(_) => {
            forward.options.location(head, forward.exchange.request(), forward.settings.scheme, authority)
        }
        None => None,
    };
    let timing = forward.timing(if forward.record.reused.is_some() { "reused" } else { "new" });
    let fields = forward.options.response_fields(head, location.as_deref(), timing.as_ref());
    forward.exchange.pass_head(head.status.as_u16(), fields).map(drop)
}

/// Counts normalized faults of syntax, and logs them once per endpoint.
fn report_normalized(upstream: &str, attempt: &EndpointAttempt, normalized: Normalizations) {
    if !normalized.any() {
        return;
    }
    let found: Vec<_> = normalized.names().collect();
    for fault in &found {
        counters::NORMALIZED.count(upstream, fault);
    }
    if attempt.state().tells_mended() {
        tracing::warn!(
            name: "response_normalized",
            upstream, endpoint = %attempt.state().name(), normalized = found.join(", "),
            "fixed syntax faults in the upstream's responses (logged once)"
        );
    }
}
