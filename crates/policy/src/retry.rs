//! Whether a failed call is retried.
//!
//! Three questions, in this order.
//!
//! 1. **Is it safe?** RFC 9110 §9.2.2: a request that is not idempotent only if the peer has certainly processed none of it: no byte of it was written,
//!    or HTTP/2 says so (RFC 9113 §8.7: `REFUSED_STREAM`, a stream above GOAWAY's last). Never after the client got a part of a response, or when the body is gone.
//! 2. **Is it configured?** For the configured causes, up to [`RetrySettings::retries`] times, after a random wait that doubles.
//! 3. **Is it within the budget?** The upstream's [`RetryBudget`]: an upstream that fails everything must not get everything twice.
//!
//! A connection that was idle and turns out to be closed is a case of its own: it says nothing about the upstream, and costs it nothing. That attempt is repeated at once on a *new*
//! connection, is neither counted nor taken from the budget, and happens at most once in a call, since a new connection cannot have been idle.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::RetryBudget;
use crate::backoff::fraction;

/// GiveUpReason an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureCause {
    /// No connection: refused, unreachable, the TLS handshake failed.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// The peer states that it has processed nothing of it (h2).
    RefusedStream,
    /// A connection that had been idle turned out to be closed, before a byte of a response.
    LostIdle,
    /// Closed or reset before a byte of a response, on a connection that had not been idle.
    Reset,
    /// No byte of a response in time.
    FirstByteTimeout,
    /// The status of the response says that the peer failed.
    Status(u16),
    /// A response that breaks the protocol.
    BadResponse,
}

impl FailureCause {
    /// Its name in logs, metrics and the configuration.
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
            Self::BadResponse => "bad_response",
        }
    }

    /// The peer cannot have processed any of the request, whatever was written.
    fn is_unprocessed(self) -> bool {
        matches!(self, Self::Connect | Self::ConnectTimeout | Self::RefusedStream)
    }
}

/// The causes that are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOn {
    /// [`FailureCause::Connect`] and [`FailureCause::ConnectTimeout`].
    pub connect: bool,
    /// [`FailureCause::RefusedStream`].
    pub refused_stream: bool,
    /// [`FailureCause::Reset`].
    pub reset: bool,
    /// [`FailureCause::FirstByteTimeout`].
    pub first_byte_timeout: bool,
    /// A response of 502.
    pub bad_gateway: bool,
    /// A response of 503.
    pub unavailable: bool,
    /// A response of 504.
    pub gateway_timeout: bool,
}

impl Default for RetryOn {
    /// What costs the upstream nothing or little. Timeouts and 5xx are signs of overload, and retried only if configured.
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
    pub fn includes(self, cause: FailureCause) -> bool {
        match cause {
            FailureCause::LostIdle => true,
            FailureCause::Connect | FailureCause::ConnectTimeout => self.connect,
            FailureCause::RefusedStream => self.refused_stream,
            FailureCause::Reset => self.reset,
            FailureCause::FirstByteTimeout => self.first_byte_timeout,
            FailureCause::Status(502) => self.bad_gateway,
            FailureCause::Status(503) => self.unavailable,
            FailureCause::Status(504) => self.gateway_timeout,
            FailureCause::Status(_) | FailureCause::BadResponse => false,
        }
    }
}

/// Settings of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// Attempts after the first.
    pub retries: u32,
    /// The causes that are retried.
    pub on: RetryOn,
    /// The longest wait before the first retry; doubled for each further one.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl Default for RetrySettings {
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

/// A failed attempt of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Why it failed.
    pub cause: FailureCause,
    /// [`is_idempotent`].
    pub idempotent: bool,
    /// Any byte of the request was written to the connection (a TLS handshake is none).
    pub sent: bool,
    /// Any byte of a response was forwarded or lost. A status that is retried was read, and nothing of it forwarded: that is not `heard`.
    pub heard: bool,
    /// The whole body can be sent again: there is none, or it was kept.
    pub body_kept: bool,
    /// The call was already repeated for [`FailureCause::LostIdle`].
    pub lost_before: bool,
    /// Retries counted so far.
    pub retries: u32,
}

/// Whether and how to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Retry at once on a new connection, to the same endpoint if possible. Not counted.
    NewConnection,
    /// Retry after a wait, at another endpoint if there is one.
    Retry(Duration),
    /// No retry: the failure is reported.
    GiveUp(GiveUpReason),
}

/// GiveUpReason a failure is not retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The client has a part of a response, or another attempt would not help.
    Begun,
    /// The peer may have processed the request, which is not idempotent.
    NotIdempotent,
    /// The body is gone.
    BodyGone,
    /// The cause is not configured for retries.
    NotConfigured,
    /// All retries were used.
    Exhausted,
    /// The budget is spent.
    Budget,
}

impl GiveUpReason {
    /// Its name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::NotIdempotent => "not_idempotent",
            Self::BodyGone => "body_gone",
            Self::NotConfigured => "not_configured",
            Self::Exhausted => "exhausted",
            Self::Budget => "budget",
        }
    }
}

impl RetrySettings {
    /// Decides, and takes a retry from the budget.
    pub fn decide(&self, failure: &Failure, budget: &mut RetryBudget, now: Instant, random: u64) -> Decision {
        let Failure { cause, retries, .. } = *failure;
        if let Some(why) = failure.forbids() {
            return Decision::GiveUp(why);
        }
        if cause == FailureCause::LostIdle && !failure.lost_before {
            return Decision::NewConnection;
        }
        if !self.on.includes(cause) {
            return Decision::GiveUp(GiveUpReason::NotConfigured);
        }
        if retries >= self.retries {
            return Decision::GiveUp(GiveUpReason::Exhausted);
        }
        if !budget.try_retry_at(now) {
            return Decision::GiveUp(GiveUpReason::Budget);
        }
        Decision::Retry(self.wait(retries, random))
    }

    /// From zero up to the whole wait ("full jitter" in Brooker, *Exponential Backoff And Jitter*, 2015): callers that failed together do not retry together.
    fn wait(&self, retries: u32, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(retries);
        let most = factor
            .and_then(|factor| self.base.checked_mul(factor))
            .map_or(self.cap, |wait| wait.min(self.cap));
        fraction(most, random)
    }
}

impl Failure {
    /// GiveUpReason it must not be repeated, whatever the settings are.
    fn forbids(&self) -> Option<GiveUpReason> {
        if self.heard {
            return Some(GiveUpReason::Begun);
        }
        let unprocessed = !self.sent || self.cause.is_unprocessed();
        if !self.idempotent && !unprocessed {
            return Some(GiveUpReason::NotIdempotent);
        }
        (!self.body_kept).then_some(GiveUpReason::BodyGone)
    }
}

/// RFC 9110 §9.2.2: the safe methods, PUT and DELETE. Methods are case-sensitive (§9.1).
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}
