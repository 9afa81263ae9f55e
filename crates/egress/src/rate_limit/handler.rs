//! A handler behind a limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_policy::gcra::RateLimitDecision;
use keepwarm_serve::{Exchange, Handler};

use super::{Decision, RateLimiter, StoreFailure};
use crate::refusals;

/// Responds with 429 to requests over the limit, and passes the rest to the inner handler.
pub struct RateLimitHandler {
    inner: Arc<dyn Handler>,
    limiter: Arc<RateLimiter>,
}

/// `Retry-After` while the store is down: a guess, but soon.
const AWAY: Duration = Duration::from_secs(1);

impl RateLimitHandler {
    /// `inner` behind `limiter`.
    #[must_use]
    pub fn new(inner: Arc<dyn Handler>, limiter: Arc<RateLimiter>) -> Self {
        Self { inner, limiter }
    }
}

impl RateLimiter {
    /// Counts a request, and rejects it if it is over the limit.
    pub(crate) async fn refuses(&self, exchange: &mut Exchange<'_>) -> bool {
        let decision = match self.check_now(exchange.request()) {
            Some(decision) => decision,
            None => self.check(exchange.request()).await,
        };
        self.responds(exchange, decision)
    }

    /// Responds to a request that is rejected. Returns whether it did.
    fn responds(&self, exchange: &mut Exchange<'_>, decision: Decision) -> bool {
        match decision {
            Decision::Allowed(_) => return false,
            Decision::Limited(verdict) => self.respond_limited(exchange, &verdict),
            Decision::StoreUnavailable(failure) => self.respond_store_away(exchange, failure),
        }
        true
    }

    /// RFC 6585 §4, with the fields of draft-ietf-httpapi-ratelimit-headers-10.
    fn respond_limited(&self, exchange: &mut Exchange<'_>, verdict: &RateLimitDecision) {
        let name = self.name();
        let retry_after = verdict.retry_after_seconds().max(1);
        let (policy, limit) = (self.gcra().policy(name).to_string(), verdict.field(name).to_string());
        refusals::RATE_LIMITED
            .about(&[&name, &retry_after])
            .retry_after(u32::try_from(retry_after).unwrap_or(u32::MAX))
            .field("RateLimit-Policy", policy.as_bytes())
            .field("RateLimit", limit.as_bytes())
            .respond(exchange);
    }

    fn respond_store_away(&self, exchange: &mut Exchange<'_>, failure: StoreFailure) {
        refusals::STORE_FAILED
            .about(&[&self.name(), &failure.sentence()])
            .reason(failure.name())
            .retry_after(AWAY.as_secs() as u32)
            .respond(exchange);
    }
}

impl Handler for RateLimitHandler {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        match self.limiter.check_now(exchange.request()) {
            Some(decision) => match self.limiter.responds(exchange, decision) {
                true => Box::pin(std::future::ready(())),
                false => self.inner.handle(exchange),
            },
            None => Box::pin(async move {
                if !self.limiter.refuses(exchange).await {
                    self.inner.handle(exchange).await;
                }
            }),
        }
    }
}

impl std::fmt::Debug for RateLimitHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimited").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
