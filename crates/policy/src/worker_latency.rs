//! Whether a worker responds quickly enough to be given requests ahead.
//!
//! A worker that takes one request at a time sleeps between two of them until it gets the next and is woken: for an application that responds
//! in microseconds that costs more than the response. If it gets the next one before it asks, it need not sleep. But a request that waits
//! after another shares its fate, so this is done only for a worker that has been quick lately and is not slow right now.
//!
//! The signal is the average response time, with old responses forgotten at a rate of an eighth (the gain of TCP's round-trip time, RFC 6298 §2), and the
//! age of the current request. At the start nothing is known, and no request is given ahead.

use std::time::{Duration, Instant};

/// Moving average of one worker's response times.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerLatency {
    average: Duration,
    responses: u32,
    /// Start of the current request.
    since: Option<Instant>,
}

/// Responses before the average is used. The number is arbitrary.
const RESPONSES_MIN: u32 = 16;
/// A wake-up costs 5 to 50 µs: beyond this it does not matter.
const LOW: Duration = Duration::from_millis(1);

impl WorkerLatency {
    /// An idle worker begins a request.
    pub fn handle_begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// It has responded; `next`: and begins another request.
    pub fn handle_response(&mut self, now: Instant, next: bool) {
        if let Some(since) = self.since {
            let took = now.saturating_duration_since(since);
            self.average = if self.responses == 0 { took } else { (self.average * 7 + took) / 8 };
            self.responses = self.responses.saturating_add(1);
        }
        self.since = next.then_some(now);
    }

    /// Whether a request after the current one would hardly wait.
    pub fn is_low(&self, now: Instant) -> bool {
        let stuck = self.since.is_some_and(|since| now.saturating_duration_since(since) > LOW);
        self.responses >= RESPONSES_MIN && self.average < LOW && !stuck
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    fn after(responses: u32, each: Duration) -> (WorkerLatency, Instant) {
        let (mut latency, mut now) = (WorkerLatency::default(), Instant::now());
        for _ in 0..responses {
            latency.handle_begin(now);
            now += each;
            latency.handle_response(now, false);
        }
        (latency, now)
    }

    #[test]
    fn a_new_worker_gets_no_request_ahead() {
        let (latency, now) = after(RESPONSES_MIN - 1, Duration::from_micros(10));
        assert!(!latency.is_low(now));
        let (latency, now) = after(RESPONSES_MIN, Duration::from_micros(10));
        assert!(latency.is_low(now));
    }

    #[test]
    fn a_slow_worker_is_not_quick_and_one_slow_response_decays() {
        let (latency, now) = after(100, Duration::from_millis(2));
        assert!(!latency.is_low(now));
        let (mut latency, mut now) = after(100, Duration::from_micros(10));
        latency.handle_begin(now);
        now += Duration::from_millis(20);
        latency.handle_response(now, false);
        assert!(!latency.is_low(now), "just after a slow one");
        for _ in 0..RESPONSES_MIN {
            latency.handle_begin(now);
            now += Duration::from_micros(10);
            latency.handle_response(now, false);
        }
        assert!(latency.is_low(now));
    }

    #[test]
    fn no_request_is_added_after_one_that_takes_long() {
        let (mut latency, now) = after(100, Duration::from_micros(10));
        latency.handle_begin(now);
        assert!(latency.is_low(now + Duration::from_micros(500)));
        assert!(!latency.is_low(now + Duration::from_millis(2)));
    }

    #[test]
    fn a_queued_request_counts_from_the_response_before_it() {
        let (mut latency, mut now) = after(100, Duration::from_micros(10));
        latency.handle_begin(now);
        now += Duration::from_micros(10);
        latency.handle_response(now, true);
        assert!(!latency.is_low(now + Duration::from_millis(2)));
    }
}
