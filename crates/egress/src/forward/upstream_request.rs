//! The two messages between a client and an upstream: each way as fast as the other side takes it, both at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_http1::{BadField, Fields, Mended};
use keepwarm_net::{Call, ClientError, ResponsePart, SpoolError, Wait};
use keepwarm_policy::breaker::Outcome;
use keepwarm_policy::timeout::Phase;
use keepwarm_serve::{
    BodyError, Gone, ResponseBuffer, Tunnel, TunnelEnd, offered_protocols, pass_informational,
    respond_with_error,
};
use keepwarm_telemetry::counters;
use keepwarm_telemetry::stalls::Stall;
use tokio::time::{Instant, Sleep};

use super::Forward;
use super::attempt::is_failure;
use super::body::BodyStep;
use super::clock::{PhaseTimer, Turn};
use super::head::HeadContext;
use super::hedge::{HedgeTarget, HedgedAttempt};
use crate::endpoints::{AttemptSignals, EndpointAttempt};

/// How long an upstream may consider an expectation (`spec/http.md` §2).
const EXPECT: Duration = Duration::from_millis(250);

/// One request at one endpoint: moves both messages.
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
    /// The body is held back: the time the upstream has to say that it wants it.
    pub(super) expects: Option<Pin<Box<Sleep>>>,
    trailers: Fields,
    response: ResponseBuffer,
    /// There was no room for what the upstream may have said.
    pub(super) full: bool,
    /// Whose turn it is, as far as time goes.
    pub(super) turn: Turn,
    pub(super) clock: PhaseTimer,
    /// The upstream has said something, if not yet its response.
    pub(super) begun: bool,
    /// Bytes have moved since the time was looked at.
    pub(super) moved: bool,
    /// Informational responses that came.
    informed: u32,
    tunnel: Option<Tunnel>,
}

/// Informational responses that put the time-outs off: an upstream that works for long may say so (102) every now and then, and one that says nothing
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
    Gone(Gone),
    /// The request's body will not be complete.
    BadBody(BodyError),
}

/// The result of handling one part of the response.
enum ResponseStep {
    Moved,
    /// Something came that is no progress, however often it comes.
    Still,
    Waiting,
    End(AttemptEnd),
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
            expects: None,
            trailers: Fields::new(),
            response: ResponseBuffer::new(buffers),
            full: false,
            turn: Turn::Unknown,
            clock: PhaseTimer::default(),
            begun: false,
            moved: false,
            informed: 0,
            tunnel: None,
        }
    }

    /// Gives the upstream the head, and the body as far as it is here.
    pub(super) fn begin(&mut self) {
        let Some(call) = &mut self.call else { return };
        let forward = &mut *self.forward;
        let asks = forward.exchange.awaits_continue();
        let expects = asks && !self.attempt.state().expectation().is_ignored(Instant::now().into_std());
        if asks && !expects {
            // Known to be ignored: answered for the upstream, at once.
            forward.exchange.request_mut().notes.stalls.insert(Stall::ExpectationIgnored);
        }
        let upgrade = offered_protocols(forward.exchange);
        let context = HeadContext {
            scheme: forward.settings.scheme,
            authority: self.authority.as_bytes(),
            framing: forward.body.framing(),
            expects,
            upgrade: (!upgrade.is_empty()).then_some(upgrade.as_slice()),
            trace: forward.trace,
        };
        forward.options.begin(call, forward.exchange.request(), &context);
        forward.body.rewind();
        if !expects {
            forward.body.give_kept(call, forward.exchange.trailers());
        }
        self.expects = expects.then(|| Box::pin(tokio::time::sleep(EXPECT)));
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<AttemptEnd> {
        loop {
            if self.tunnel.is_some() {
                return self.poll_tunnel(cx);
            }
            if let Err(error) = self.poll_request(cx) {
                return Poll::Ready(AttemptEnd::BadBody(error));
            }
            if let Some(end) = self.poll_response(cx) {
                if matches!(end, AttemptEnd::Failed(_))
                    && self.forward.headed.is_none()
                    && self.continue_with_hedged_attempt()
                {
                    continue;
                }
                return Poll::Ready(end);
            }
            if let Some(end) = self.poll_hedged_attempt(cx) {
                return Poll::Ready(end);
            }
            if self.tunnel.is_some() {
                continue;
            }
            if self.forward.exchange.over() {
                return Poll::Ready(AttemptEnd::Responded);
            }
            match self.forward.exchange.poll_flush(cx) {
                Poll::Ready(Err(gone)) => return Poll::Ready(AttemptEnd::Gone(gone)),
                Poll::Ready(Ok(())) if !self.response.is_empty() => {
                    match self.response.poll_move(cx, self.forward.exchange) {
                        Poll::Ready(Ok(_)) => continue,
                        Poll::Ready(Err(error)) => return Poll::Ready(self.lose_kept(&error)),
                        Poll::Pending => {}
                    }
                }
                // What the client has taken makes room for more.
                Poll::Ready(Ok(())) if std::mem::take(&mut self.full) => continue,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            if let Poll::Ready(gone) = self.forward.exchange.poll_gone(cx) {
                return Poll::Ready(AttemptEnd::Gone(gone));
            }
            return self.poll_time(cx);
        }
    }

    /// From the upstream.
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Option<AttemptEnd> {
        loop {
            match self.response.poll_room(cx, self.forward.exchange) {
                Ok(room) => self.full = !room,
                Err(error) => return Some(self.lose_kept(&error)),
            }
            if self.full {
                return None;
            }
            match self.poll_part(cx) {
                ResponseStep::Moved if self.tunnel.is_some() || self.call.is_none() => return None,
                ResponseStep::Moved => self.moved = true,
                ResponseStep::Still => {}
                ResponseStep::Waiting => return None,
                ResponseStep::End(end) => return Some(end),
            }
        }
    }

    /// The second attempt, as long as neither has begun to respond.
    fn poll_hedged_attempt(&mut self, cx: &mut Context<'_>) -> Option<AttemptEnd> {
        if self.forward.headed.is_some() {
            self.hedged_attempt = HedgedAttempt::None;
            return None;
        }
        let Poll::Ready(won) = self.hedged_attempt.poll(cx, self.forward, self.index) else { return None };
        self.promote_hedged_attempt(won);
        match self.handle_head() {
            ResponseStep::End(end) => Some(end),
            ResponseStep::Moved | ResponseStep::Still | ResponseStep::Waiting => self.poll_response(cx),
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
        self.forward.record.endpoint = Some(Arc::clone(target.attempt.state().name()));
        self.forward.record.reused = call.idle().filter(|_| call.is_reused());
        self.forward.at = self.forward.endpoints.position_of(target.attempt.state());
        (self.call, self.attempt, self.authority) = (Some(call), target.attempt, target.authority);
        self.hedged_attempt = HedgedAttempt::None;
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> ResponseStep {
        let Some(call) = &mut self.call else { return ResponseStep::Waiting };
        let exchange = &mut *self.forward.exchange;
        match call.poll_response(cx) {
            Poll::Pending => return ResponseStep::Waiting,
            Poll::Ready(Err(error)) => return ResponseStep::End(AttemptEnd::Failed(error)),
            Poll::Ready(Ok(ResponsePart::Informational(head))) => {
                match head.status.as_u16() {
                    100 => self.handle_continue(),
                    _ => {
                        self.begun = true;
                        pass_informational(exchange, head, self.forward.options.names_us());
                    }
                }
                self.informed = self.informed.saturating_add(1);
                if self.informed > SIGNS_OF_LIFE {
                    return ResponseStep::Still;
                }
            }
            Poll::Ready(Ok(ResponsePart::Head(_))) => return self.handle_head(),
            Poll::Ready(Ok(ResponsePart::Data([]))) => return ResponseStep::Still,
            Poll::Ready(Ok(ResponsePart::Data(bytes))) => {
                self.forward.record.received += bytes.len() as u64;
                self.response.data(exchange, bytes);
            }
            Poll::Ready(Ok(ResponsePart::Trailers(fields))) => self.trailers = fields.clone(),
            Poll::Ready(Ok(ResponsePart::End)) => {
                self.response.end(exchange, self.trailers.iter());
                if let Some(call) = self.call.take() {
                    call.finish();
                }
            }
        }
        ResponseStep::Moved
    }

    /// A part of the response is gone: its client must not take the rest for the whole.
    fn lose_kept(&mut self, error: &SpoolError) -> AttemptEnd {
        tracing::error!(upstream = %self.forward.upstream.name(), %error, "response cut: the part that its client had not read is lost");
        respond_with_error(
            self.forward.exchange,
            500,
            "spool_failed",
            "The server could not store the response.",
            &[],
        );
        AttemptEnd::Responded
    }

    /// `100 Continue`: the upstream wants the body. It is passed on to a client that waits for it; nobody else sees it.
    fn handle_continue(&mut self) {
        if self.expects.take().is_some() {
            self.attempt.state().expectation().handle_honoured();
        }
        self.forward.exchange.want_body();
    }

    fn handle_head(&mut self) -> ResponseStep {
        if self.expects.is_some() {
            // It answers without having asked for the body: that is a response to the expectation too.
            self.attempt.state().expectation().handle_honoured();
        }
        let now = Instant::now();
        let took = now.saturating_duration_since(self.forward.connected.unwrap_or(now));
        let Some(status) = self.call.as_ref().map(|call| call.head().status.as_u16()) else {
            return ResponseStep::Waiting;
        };
        let failed = is_failure(status);
        if failed && self.continue_with_hedged_attempt() {
            return ResponseStep::Moved;
        }
        let Some(call) = &mut self.call else { return ResponseStep::Waiting };
        self.attempt.note(if failed { AttemptSignals::FAILED } else { AttemptSignals::WELL }, took, now);
        if !self.forward.record.hedged {
            self.forward.upstream.hedge(|hedge| hedge.handle_response(took));
        }
        if self.forward.may_retry_status(status) {
            return ResponseStep::End(AttemptEnd::Status(status));
        }
        let forward = &mut *self.forward;
        forward.headed = Some(now);
        forward.record.status = status;
        if call.head_came_in_pieces() {
            forward.exchange.request_mut().notes.stalls.insert(Stall::HeadInPieces);
        }
        tell_mended(forward.upstream.name(), &self.attempt, call.head().mended);
        let begun = match status {
            101 => Tunnel::switch(forward.exchange, call.head(), forward.options.names_us())
                .map(|tunnel| self.tunnel = Some(tunnel)),
            _ => pass_head(forward, call, &self.authority),
        };
        match begun {
            Ok(()) => {
                forward.record.responded = status;
                ResponseStep::Moved
            }
            Err(bad) => {
                forward.refuse_response(&bad);
                ResponseStep::End(AttemptEnd::Responded)
            }
        }
    }

    /// To the upstream.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        let may_go = self.poll_expectation(cx);
        loop {
            let Some(call) = &mut self.call else { return Ok(()) };
            let step = match may_go {
                true => self.forward.body.poll_give(cx, self.forward.exchange, call)?,
                false => BodyStep::Starved,
            };
            let queued = call.unsent();
            let flushed = call.poll_flush(cx);
            // What only fills our own buffer is no sign of life of the upstream.
            self.moved |= call.unsent() < queued;
            if flushed.is_pending() || matches!(step, BodyStep::Starved | BodyStep::Nothing) {
                return Ok(());
            }
        }
    }

    /// Whether the body may go out: the upstream wants it, the client does not wait for that, or the time is over.
    fn poll_expectation(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(timer) = &mut self.expects else { return true };
        if self.forward.exchange.poll_body_begun(cx).is_pending() {
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.forward.exchange.request_mut().notes.stalls.insert(Stall::ExpectationIgnored);
            self.attempt.state().expectation().handle_ignored(Instant::now().into_std());
        }
        self.expects = None;
        self.forward.exchange.want_body();
        true
    }

    fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<AttemptEnd> {
        let (Some(tunnel), Some(call)) = (&mut self.tunnel, &mut self.call) else {
            return Poll::Ready(AttemptEnd::Responded);
        };
        self.forward.exchange.deadlines().set(Wait::Slow, None);
        match std::task::ready!(tunnel.poll(cx, self.forward.exchange, call)) {
            TunnelEnd::Gone(gone) => Poll::Ready(AttemptEnd::Gone(gone)),
            TunnelEnd::Over | TunnelEnd::Idle => Poll::Ready(AttemptEnd::Responded),
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

/// Faults of syntax that were mended: counted, and told once per endpoint.
fn tell_mended(upstream: &str, attempt: &EndpointAttempt, mended: Mended) {
    if !mended.any() {
        return;
    }
    let found: Vec<_> = mended.names().collect();
    for fault in &found {
        counters::MENDED.count(upstream, fault);
    }
    if attempt.state().tells_mended() {
        tracing::warn!(upstream, endpoint = %attempt.state().name(), mended = found.join(", "),
            "fixed syntax faults in the upstream's responses (logged once)");
    }
}
