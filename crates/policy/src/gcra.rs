//! Rate limits with bursts: the generic cell rate algorithm (ITU-T I.371, "virtual scheduling").
//!
//! The state of a key is one number: the *theoretical arrival time* (TAT), at which everything admitted so far would be paid for at the steady rate. A request
//! is admitted if the TAT is at most [`Gcra::tolerance`] ahead of now; the TAT then moves by [`Gcra::interval`]. It is a leaky bucket without a timer, and without the double
//! burst at the border of two windows that counters per window allow.
//!
//! # The script of a shared store
//!
//! It keeps the TAT as one integer, **microseconds since the epoch** by the store's own clock, so that hosts need not agree on the time. All numbers are whole and below 2^53, up to which
//! Lua's numbers are exact:
//!
//! ```text
//! tat = max(stored or 0, now)
//! if tat - now > tolerance:  refuse, and store nothing          -- retry after tat - now - tolerance
//! else:                      tat = tat + interval; store it, to expire after tat - now
//! ```
//!
//! The reply is the new (or, refused, the old) `tat - now`; [`Gcra::admitted`] and [`Gcra::refused`] turn it into a [`RateLimitDecision`].

mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

pub use table::GcraTable;

/// A rate: `count` requests for each `period`, up to `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests in each period; at least 1 counts.
    pub count: u64,
    /// At most a day counts; at least a microsecond for each request.
    pub period: Duration,
    /// Requests that may come at once after a pause; at least 1 counts.
    pub burst: u64,
}

const DAY: Duration = Duration::from_secs(86_400);
/// A million days of microseconds in bursts: sums stay far below 2^53.
const LARGEST_BURST: u64 = 1 << 16;

/// The arithmetic of a [`Quota`], in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gcra {
    interval: u64,
    tolerance: u64,
    quota: Quota,
}

/// The decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitDecision {
    /// It is admitted.
    pub allowed: bool,
    /// Further requests that would be admitted now.
    pub remaining: u64,
    /// When one more would be admitted; zero if some remain.
    pub retry_after: Duration,
    /// When the whole burst is available again.
    pub reset: Duration,
}

impl Gcra {
    /// The interval is rounded up to whole microseconds: never more than was stated is let through; above 10,000 a second it may be up to 1 % less, above 100,000 up to 10 %.
    #[must_use]
    pub fn new(quota: Quota) -> Self {
        let quota = Quota {
            count: quota.count.max(1),
            period: quota.period.clamp(Duration::from_micros(1), DAY),
            burst: quota.burst.clamp(1, LARGEST_BURST),
        };
        let period = u64::try_from(quota.period.as_micros()).unwrap_or(u64::MAX);
        let interval = period.div_ceil(quota.count);
        Self { interval, tolerance: interval * (quota.burst - 1), quota }
    }

    /// Microseconds that one request costs.
    #[must_use]
    pub fn interval(&self) -> u64 {
        self.interval
    }

    /// Microseconds that the TAT may be ahead of now.
    #[must_use]
    pub fn tolerance(&self) -> u64 {
        self.tolerance
    }

    /// One request, `now` microseconds after the origin of the TAT. Returns the TAT to keep.
    #[must_use]
    pub fn decide(&self, tat: u64, now: u64) -> (u64, RateLimitDecision) {
        // A TAT that no admitted request can explain comes from a clock that was set back: it is clamped.
        let tat = tat.clamp(now, now.saturating_add(self.tolerance + self.interval));
        match tat - now > self.tolerance {
            true => (tat, self.refused(tat - now)),
            false => (tat + self.interval, self.admitted(tat + self.interval - now)),
        }
    }

    /// A request was admitted; the TAT is now `ahead` microseconds in the future.
    #[must_use]
    pub fn admitted(&self, ahead: u64) -> RateLimitDecision {
        self.decision(true, ahead)
    }

    /// A request was refused; the TAT is `ahead` microseconds in the future.
    #[must_use]
    pub fn refused(&self, ahead: u64) -> RateLimitDecision {
        self.decision(false, ahead)
    }

    fn decision(&self, allowed: bool, ahead: u64) -> RateLimitDecision {
        // The n-th further one finds the TAT n - 1 intervals further on.
        let room = self.tolerance.checked_sub(ahead);
        RateLimitDecision {
            allowed,
            remaining: room.map_or(0, |room| room / self.interval + 1),
            retry_after: Duration::from_micros(ahead.saturating_sub(self.tolerance)),
            reset: Duration::from_micros(ahead),
        }
    }

    /// The value of `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10, §3): the quota is the burst, and the window the time in which it comes back.
    #[must_use]
    pub fn policy<'a>(&self, name: &'a str) -> PolicyField<'a> {
        let window = Duration::from_micros(self.interval * self.quota.burst);
        PolicyField { name, quota: self.quota.burst, window: seconds(window).max(1) }
    }
}

impl RateLimitDecision {
    /// The value of `Retry-After`, whole seconds rounded up (RFC 9110 §10.2.3): coming sooner would be refused again.
    #[must_use]
    pub fn retry_after_seconds(&self) -> u64 {
        seconds(self.retry_after)
    }

    /// The value of `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10, §4): what remains, and for how long that is all.
    #[must_use]
    pub fn field<'a>(&self, name: &'a str) -> LimitField<'a> {
        let until = if self.remaining == 0 { self.retry_after } else { self.reset };
        LimitField { name, remaining: self.remaining, seconds: seconds(until) }
    }
}

fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// Writes `"name";q=100;w=60`.
#[derive(Debug, Clone, Copy)]
pub struct PolicyField<'a> {
    name: &'a str,
    quota: u64,
    window: u64,
}

impl fmt::Display for PolicyField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};q={};w={}", QuotedString(self.name), self.quota, self.window)
    }
}

/// Writes `"name";r=50;t=30`.
#[derive(Debug, Clone, Copy)]
pub struct LimitField<'a> {
    name: &'a str,
    remaining: u64,
    seconds: u64,
}

impl fmt::Display for LimitField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};r={};t={}", QuotedString(self.name), self.remaining, self.seconds)
    }
}

/// A string of structured fields (RFC 9651 §3.3.3); what it cannot hold is left out.
struct QuotedString<'a>(&'a str);

impl fmt::Display for QuotedString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()) {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        f.write_str("\"")
    }
}
