//! What a server does with `Expect: 100-continue`.
//!
//! A client that expects waits for a word before it sends its body. Passed on, the expectation lets the server decide; but many servers ignore it, and then
//! both wait until somebody's patience ends. So each server is given a moment, and one that let it pass a few times in a row is not asked any more, for a while:
//! it may have been slow for other reasons, or be a new version.

use std::time::{Duration, Instant};

/// In a row, before it counts as a habit. The number is arbitrary; each costs one client the wait.
const HABIT: u8 = 3;
/// A habit is tried again after this time.
const FORGET: Duration = Duration::from_secs(10 * 60);

/// One server's habit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expectation {
    ignored: u8,
    since: Option<Instant>,
}

impl Expectation {
    /// It answered an expectation: with `100`, or with its final response.
    pub fn handle_honoured(&mut self) {
        *self = Self::default();
    }

    /// It let the time pass.
    pub fn handle_ignored(&mut self, now: Instant) {
        self.ignored = self.ignored.saturating_add(1);
        self.since = Some(now);
    }

    /// Whether it is of any use to ask it.
    pub fn is_ignored(&self, now: Instant) -> bool {
        self.ignored >= HABIT && self.since.is_some_and(|since| now.saturating_duration_since(since) < FORGET)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    #[test]
    fn a_habit_is_what_happens_again_and_again_and_is_forgotten() {
        let (mut habit, now) = (Expectation::default(), Instant::now());
        for _ in 1..HABIT {
            habit.handle_ignored(now);
        }
        assert!(!habit.is_ignored(now));
        habit.handle_ignored(now);
        assert!(habit.is_ignored(now));
        assert!(!habit.is_ignored(now + FORGET));
        habit.handle_honoured();
        assert!(!habit.is_ignored(now));
    }
}
