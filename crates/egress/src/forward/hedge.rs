//! A second attempt beside a slow first one: whichever begins to respond first is the response, and the other is called off.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use keepwarm_http1::Fields;
use keepwarm_net::{AcquireError, Call, ClientError, ConnectionNeed, ResponsePart};
use keepwarm_policy::BreakerState;
use keepwarm_policy::breaker::Outcome;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Forward;
use super::attempt::is_failure;
use super::head::HeadContext;
use crate::endpoints::{AttemptSignals, EndpointAttempt};
use crate::gate::Permit;

/// The hedged attempt: a second one beside a slow first one.
pub(super) enum HedgedAttempt<'a> {
    /// There is none, or none any more.
    None,
    /// It is not yet time.
    Waiting(Pin<Box<Sleep>>),
    Connecting(Connecting, HedgeTarget<'a>),
    Running(Box<Call>, HedgeTarget<'a>),
}

type Connecting = Pin<Box<dyn Future<Output = Result<Call, AcquireError>>>>;

/// The endpoint of a hedged attempt.
pub(super) struct HedgeTarget<'a> {
    /// In the call's endpoints.
    index: usize,
    began: Instant,
    /// It counts among the calls in work, beside the first.
    _permit: Permit<'a>,
    pub(super) attempt: EndpointAttempt,
    pub(super) authority: Arc<str>,
    /// Its name in the trace.
    pub(super) span: u64,
}

impl<'a> HedgedAttempt<'a> {
    /// For a call that begins now: whether there may be one, and when.
    pub(super) fn for_call(forward: &Forward<'a, '_>, now: Instant) -> Self {
        let due = forward.upstream.hedge(|hedge| {
            let repeatable = forward.is_repeatable() && forward.body.is_complete();
            hedge.handle_call(repeatable && !forward.exchange.request().head.upgrade, now.into_std())
        });
        match due.flatten() {
            Some(due) => Self::Waiting(Box::pin(sleep_until(due.into()))),
            None => Self::None,
        }
    }

    /// Polls the second attempt. Ready when it has begun to respond: then it is the response.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        forward: &mut Forward<'a, '_>,
        index: usize,
    ) -> Poll<(Call, HedgeTarget<'a>)> {
        loop {
            match self {
                Self::None => return Poll::Pending,
                Self::Waiting(time) => {
                    std::task::ready!(time.as_mut().poll(cx));
                    *self = start(forward, index);
                }
                Self::Connecting(connecting, _) => {
                    let connected = std::task::ready!(connecting.as_mut().poll(cx));
                    let Self::Connecting(_, target) = std::mem::replace(self, Self::None) else { continue };
                    if let Ok(mut call) = connected {
                        begin(forward, &mut call, &target);
                        *self = Self::Running(Box::new(call), target);
                    }
                }
                Self::Running(call, _) => {
                    let _ = call.poll_flush(cx);
                    match std::task::ready!(call.poll_response(cx)) {
                        // Those of the first attempt are passed on.
                        Ok(ResponsePart::Informational(_)) => continue,
                        Ok(ResponsePart::Head(head)) if !is_failure(head.status.as_u16()) => {}
                        // A faster failure is not a better response. The first attempt continues alone.
                        responded => {
                            let failed = matches!(responded, Ok(_) | Err(ClientError::Fault(_)));
                            if let (true, Some((_, target))) = (failed, self.take()) {
                                target.fail(forward);
                            }
                            *self = Self::None;
                            continue;
                        }
                    }
                    if let Some(won) = self.take() {
                        return Poll::Ready(won);
                    }
                }
            }
        }
    }

    /// The attempt that runs, in place of a first one that has failed.
    pub(super) fn take(&mut self) -> Option<(Call, HedgeTarget<'a>)> {
        match std::mem::replace(self, Self::None) {
            Self::Running(call, target) => Some((*call, target)),
            _ => None,
        }
    }
}

impl HedgeTarget<'_> {
    /// Its endpoint has failed, and bears that.
    fn fail(mut self, forward: &Forward<'_, '_>) {
        let now = Instant::now();
        self.attempt.note(AttemptSignals::FAILED, now.saturating_duration_since(self.began), now);
        forward.upstream.note_outcome(&forward.endpoints, self.index, Outcome::Failure, now);
    }
}

/// Chooses an endpoint and begins to connect, if the budget allows it, there is a place for it among the calls in work without waiting, and the upstream is not under suspicion.
fn start<'a>(forward: &mut Forward<'a, '_>, index: usize) -> HedgedAttempt<'a> {
    let endpoints = Arc::clone(&forward.endpoints);
    let now = Instant::now();
    let mut tried = forward.tried;
    tried.push(index);
    let Some(picked) = endpoints.pick(None, &tried, &forward.silent, now, crate::random()) else {
        return HedgedAttempt::None;
    };
    let Some(entry) = endpoints.endpoints.get(picked.index) else { return HedgedAttempt::None };
    let upstream = forward.upstream;
    if upstream.breaker() != BreakerState::Closed {
        return HedgedAttempt::None;
    }
    let Some(permit) = upstream.gate().try_enter() else { return HedgedAttempt::None };
    if upstream.hedge(keepwarm_policy::Hedge::try_send) != Some(true) {
        return HedgedAttempt::None;
    }
    forward.record.hedged = true;
    let (attempt, authority) = (endpoints.enter(entry, now), Arc::clone(&entry.authority));
    let span = forward.begin_span(entry, now);
    let target = HedgeTarget { index: picked.index, began: now, _permit: permit, attempt, authority, span };
    let (calls, endpoint) =
        (Arc::clone(forward.upstream.calls()), forward.endpoint_for_client(&entry.endpoint).into_owned());
    HedgedAttempt::Connecting(
        Box::pin(async move { calls.acquire(&endpoint, ConnectionNeed::Any).await }),
        target,
    )
}

fn begin(forward: &Forward<'_, '_>, call: &mut Call, target: &HedgeTarget<'_>) {
    let context = HeadContext {
        scheme: forward.settings.scheme,
        authority: target.authority.as_bytes(),
        framing: forward.body.framing(),
        expects: false,
        upgrade: None,
        websocket_accept: None,
        trace: forward.trace,
        span: forward.name_of(target.span),
    };
    forward.options.begin(call, forward.exchange.request(), &context);
    let none = Fields::new();
    let trailers = if forward.exchange.body_done() { forward.exchange.trailers() } else { &none };
    forward.body.give_all(call, trailers);
}
