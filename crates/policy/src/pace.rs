//! Whether a worker is quick enough to be given requests ahead.
//!
//! A worker that takes one request at a time sleeps between two of them, until it is given the next and woken: for an application that responds
//! in microseconds that costs more than the response. Given the next one before it asks, it need not sleep. But a request that waits
//! behind another shares its fate, so this is done only for a worker that has been quick lately and is not slow just now.
//!
//! The signal is the average time of a response, with old answers forgotten at a rate of an eighth (the gain of TCP's round-trip time, RFC 6298 §2), and the
//! time that the present one has taken. At the start nothing is known, and nothing is given ahead.

use std::time::{Duration, Instant};

/// How quickly one worker responds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    average: Duration,
    responses: u32,
    /// When the present request was begun.
    since: Option<Instant>,
}

/// Answers seen before anything is said. The number is arbitrary.
const ENOUGH: u32 = 16;
/// A wake-up costs 5 to 50 µs: beyond this it does not matter.
const QUICK: Duration = Duration::from_millis(1);

impl Pace {
    /// An idle worker begins with a request.
    pub fn handle_begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// It has answered; `next`: and goes on with another.
    pub fn handle_response(&mut self, now: Instant, next: bool) {
        if let Some(since) = self.since {
            let took = now.saturating_duration_since(since);
            self.average = if self.responses == 0 { took } else { (self.average * 7 + took) / 8 };
            self.responses = self.responses.saturating_add(1);
        }
        self.since = next.then_some(now);
    }

    /// Whether a request that waits behind the present one will hardly wait.
    pub fn is_quick(&self, now: Instant) -> bool {
        let stuck = self.since.is_some_and(|since| now.saturating_duration_since(since) > QUICK);
        self.responses >= ENOUGH && self.average < QUICK && !stuck
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    fn after(responses: u32, each: Duration) -> (Pace, Instant) {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..responses {
            pace.handle_begin(now);
            now += each;
            pace.handle_response(now, false);
        }
        (pace, now)
    }

    #[test]
    fn nothing_is_said_of_a_worker_that_is_new() {
        let (pace, now) = after(ENOUGH - 1, Duration::from_micros(10));
        assert!(!pace.is_quick(now));
        let (pace, now) = after(ENOUGH, Duration::from_micros(10));
        assert!(pace.is_quick(now));
    }

    #[test]
    fn a_slow_worker_is_not_quick_and_one_slow_response_is_forgotten() {
        let (pace, now) = after(100, Duration::from_millis(2));
        assert!(!pace.is_quick(now));
        let (mut pace, mut now) = after(100, Duration::from_micros(10));
        pace.handle_begin(now);
        now += Duration::from_millis(20);
        pace.handle_response(now, false);
        assert!(!pace.is_quick(now), "just after a slow one");
        for _ in 0..ENOUGH {
            pace.handle_begin(now);
            now += Duration::from_micros(10);
            pace.handle_response(now, false);
        }
        assert!(pace.is_quick(now));
    }

    #[test]
    fn nothing_is_added_behind_a_request_that_takes_long() {
        let (mut pace, now) = after(100, Duration::from_micros(10));
        pace.handle_begin(now);
        assert!(pace.is_quick(now + Duration::from_micros(500)));
        assert!(!pace.is_quick(now + Duration::from_millis(2)));
    }

    #[test]
    fn the_next_of_a_row_is_counted_from_the_response_before_it() {
        let (mut pace, mut now) = after(100, Duration::from_micros(10));
        pace.handle_begin(now);
        now += Duration::from_micros(10);
        pace.handle_response(now, true);
        assert!(!pace.is_quick(now + Duration::from_millis(2)));
    }
}
