//! A handler behind a limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_policy::gcra::Verdict;
use keepwarm_serve::{Exchange, Handler, Outcome, Refusal, Request, respond_with_error};

use super::{Decision, RateLimiter, StoreFailure};

/// Responds with 429 to requests over the limit, and passes the rest to the inner handler.
pub struct RateLimitHandler {
    inner: Arc<dyn Handler>,
    limiter: Arc<RateLimiter>,
}

/// When to come again while the store is away: nobody knows, but soon.
const AWAY: Duration = Duration::from_secs(1);

impl RateLimitHandler {
    /// `inner` behind `limiter`.
    #[must_use]
    pub fn new(inner: Arc<dyn Handler>, limiter: Arc<RateLimiter>) -> Self {
        Self { inner, limiter }
    }
}

impl RateLimiter {
    /// Counts a request, and answers it if it may not go on.
    pub(crate) async fn refuses(&self, exchange: &mut Exchange<'_>) -> bool {
        let decision = match self.check_now(exchange.request()) {
            Some(decision) => decision,
            None => self.check(exchange.request()).await,
        };
        self.responds(exchange, decision)
    }

    /// Answers what may not go on.
    fn responds(&self, exchange: &mut Exchange<'_>, decision: Decision) -> bool {
        match decision {
            Decision::Allowed(_) => return false,
            Decision::Limited(verdict) => self.respond_limited(exchange, &verdict),
            Decision::StoreUnavailable(failure) => self.respond_store_away(exchange, failure),
        }
        true
    }

    /// RFC 6585 §4, with the fields of draft-ietf-httpapi-ratelimit-headers-10.
    fn respond_limited(&self, exchange: &mut Exchange<'_>, verdict: &Verdict) {
        let name = self.name();
        let retry_after = verdict.retry_after_seconds().max(1).to_string();
        let (policy, limit) = (self.gcra().policy(name).to_string(), verdict.field(name).to_string());
        let fields: [(&str, &[u8]); 3] = [
            ("Retry-After", retry_after.as_bytes()),
            ("RateLimit-Policy", policy.as_bytes()),
            ("RateLimit", limit.as_bytes()),
        ];
        let detail =
            format!("Too many requests: rate limit {name} is reached; try again in {retry_after} s.");
        respond_with_error(exchange, 429, "rate_limited", &detail, &fields);
    }

    fn respond_store_away(&self, exchange: &mut Exchange<'_>, failure: StoreFailure) {
        let detail = format!(
            "Rate limit {} cannot be checked: {}; requests are refused until it can be.",
            self.name(),
            failure.sentence()
        );
        let retry_after = AWAY.as_secs().to_string();
        respond_with_error(
            exchange,
            503,
            failure.name(),
            &detail,
            &[("Retry-After", retry_after.as_bytes())],
        );
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

    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        self.inner.refuse(exchange, refusal);
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        self.inner.finished(request, outcome);
    }
}

impl std::fmt::Debug for RateLimitHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimited").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
