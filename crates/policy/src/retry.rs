//! Whether a call that failed is made again.
//!
//! Three questions, in this order.
//!
//! 1. **May it be?** RFC 9110 §9.2.2: a request that is not idempotent only when it is certain that the peer has processed none of it: no byte of it was written,
//!    or HTTP/2 says so (RFC 9113 §8.7: `REFUSED_STREAM`, a stream above GOAWAY's last). And never once the client has seen a part of a response, nor when the body is not there any more.
//! 2. **Is it to be?** For the causes that were asked for, up to [`Settings::retries`] times, after a random wait that doubles.
//! 3. **Is it paid for?** By the upstream's [`RetryBudget`]: an upstream that fails everything is not to get everything twice.
//!
//! A connection that had lain idle and turns out to be closed is a case of its own: it says nothing about the upstream, and costs it nothing. That attempt is repeated at once on a *new* connection, is
//! neither counted nor paid for, and happens at most once in a call, since a new connection cannot have been idle.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::RetryBudget;
use crate::backoff::scale;

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No connection: refused, unreachable, the TLS handshake failed.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// The peer says that it has processed nothing of it (h2).
    RefusedStream,
    /// A connection that had been idle turned out to be closed, before a byte of a response.
    LostIdle,
    /// Closed or reset before a byte of a response, on a connection that had not been idle.
    Reset,
    /// No byte of a response in time.
    FirstByteTimeout,
    /// The response itself says that the peer failed.
    Status(u16),
    /// A response that breaks the protocol.
    BadResponse,
}

impl Cause {
    /// As it stands in logs and metrics, and in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::RefusedStream => "refused_stream",
            Self::LostIdle => "lost_idle",
            Self::Reset => "reset",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::Status(502) => "502",
            Self::Status(503) => "503",
            Self::Status(504) => "504",
            Self::Status(_) => "status",
            Self::BadResponse => "bad_answer",
        }
    }

    /// The peer cannot have processed any of the request, whatever was written.
    fn is_unprocessed(self) -> bool {
        matches!(self, Self::Connect | Self::ConnectTimeout | Self::RefusedStream)
    }
}

/// Which causes are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOn {
    /// [`Cause::Connect`] and [`Cause::ConnectTimeout`].
    pub connect: bool,
    /// [`Cause::RefusedStream`].
    pub refused_stream: bool,
    /// [`Cause::Reset`].
    pub reset: bool,
    /// [`Cause::FirstByteTimeout`].
    pub first_byte_timeout: bool,
    /// A response of 502.
    pub bad_gateway: bool,
    /// A response of 503.
    pub unavailable: bool,
    /// A response of 504.
    pub gateway_timeout: bool,
}

impl Default for RetryOn {
    /// What costs the upstream nothing or little. Time-outs and 5xx are signs of overload, and retried only when that is asked for.
    fn default() -> Self {
        Self {
            connect: true,
            refused_stream: true,
            reset: true,
            first_byte_timeout: false,
            bad_gateway: false,
            unavailable: false,
            gateway_timeout: false,
        }
    }
}

impl RetryOn {
    /// Whether this cause is retried.
    #[must_use]
    pub fn includes(self, cause: Cause) -> bool {
        match cause {
            Cause::LostIdle => true,
            Cause::Connect | Cause::ConnectTimeout => self.connect,
            Cause::RefusedStream => self.refused_stream,
            Cause::Reset => self.reset,
            Cause::FirstByteTimeout => self.first_byte_timeout,
            Cause::Status(502) => self.bad_gateway,
            Cause::Status(503) => self.unavailable,
            Cause::Status(504) => self.gateway_timeout,
            Cause::Status(_) | Cause::BadResponse => false,
        }
    }
}

/// How often, for what, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Attempts after the first.
    pub retries: u32,
    /// For which causes.
    pub on: RetryOn,
    /// The longest wait before the first retry; doubled for each further one.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl Default for Settings {
    /// One; 25 ms up to 250 ms (Envoy's).
    fn default() -> Self {
        Self {
            retries: 1,
            on: RetryOn::default(),
            base: Duration::from_millis(25),
            cap: Duration::from_millis(250),
        }
    }
}

/// What is known of a call whose attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub cause: Cause,
    /// [`is_idempotent`].
    pub idempotent: bool,
    /// Any byte of the request was written to the connection (a TLS handshake is none).
    pub sent: bool,
    /// Any byte of a response came. A status that is retried has been seen, and nothing of it passed on: that is not `heard`.
    pub heard: bool,
    /// The whole body can be sent once more: there is none, or it was kept.
    pub body_kept: bool,
    /// The call was repeated for [`Cause::LostIdle`] before.
    pub lost_before: bool,
    /// Retries that were made and counted before.
    pub retries: u32,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Again at once, on a new connection, to the same endpoint if it may be. Not counted.
    AnewConnection,
    /// Again after a wait, at another endpoint if there is one.
    Retry(Duration),
    /// The failure is the response.
    GiveUp(Why),
}

/// Why a failure is not retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The client has a part of a response, or the failure is one that an attempt more does not mend.
    Begun,
    /// The peer may have processed the request, which is not idempotent.
    NotIdempotent,
    /// The body is gone.
    BodyGone,
    /// Not among the causes that are retried.
    NotAsked,
    /// All retries were made.
    Exhausted,
    /// The budget is spent.
    Budget,
}

impl Why {
    /// As it stands in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::NotIdempotent => "not_idempotent",
            Self::BodyGone => "body_gone",
            Self::NotAsked => "not_asked",
            Self::Exhausted => "exhausted",
            Self::Budget => "budget",
        }
    }
}

impl Settings {
    /// Decides, and pays.
    pub fn decide(&self, failure: &Failure, budget: &mut RetryBudget, now: Instant, random: u64) -> Decision {
        let Failure { cause, retries, .. } = *failure;
        if let Some(why) = failure.forbids() {
            return Decision::GiveUp(why);
        }
        if cause == Cause::LostIdle && !failure.lost_before {
            return Decision::AnewConnection;
        }
        if !self.on.includes(cause) {
            return Decision::GiveUp(Why::NotAsked);
        }
        if retries >= self.retries {
            return Decision::GiveUp(Why::Exhausted);
        }
        if !budget.try_retry_at(now) {
            return Decision::GiveUp(Why::Budget);
        }
        Decision::Retry(self.wait(retries, random))
    }

    /// From nothing up to the whole wait ("full jitter" in Brooker, *Exponential Backoff And Jitter*, 2015): callers that failed together do not come back together.
    fn wait(&self, retries: u32, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(retries);
        let most = factor
            .and_then(|factor| self.base.checked_mul(factor))
            .map_or(self.cap, |wait| wait.min(self.cap));
        scale(most, random)
    }
}

impl Failure {
    /// Why it must not be repeated, whatever the settings are.
    fn forbids(&self) -> Option<Why> {
        if self.heard {
            return Some(Why::Begun);
        }
        let unprocessed = !self.sent || self.cause.is_unprocessed();
        if !self.idempotent && !unprocessed {
            return Some(Why::NotIdempotent);
        }
        (!self.body_kept).then_some(Why::BodyGone)
    }
}

/// RFC 9110 §9.2.2: the safe methods, PUT and DELETE. Methods are case-sensitive (§9.1).
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}
