//! Whether a server honors `Expect: 100-continue`.
//!
//! A client that sends an expectation waits before it sends its body. A forwarded expectation lets the server decide; but many servers ignore it, and then
//! client and server wait until one of them times out. So each server has a short time to react, and a server that missed it a few times in a row gets no
//! expectations for some time, not for ever: it may have been slow for other reasons, or be replaced by a new version.

use std::time::{Duration, Instant};

/// Ignored expectations in a row before none is sent. The number is arbitrary; each costs one client the wait.
const IGNORED_MAX: u8 = 3;
/// After this time expectations are sent again.
const FORGET_AFTER: Duration = Duration::from_secs(10 * 60);

/// The support of one server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpectSupport {
    ignored: u8,
    since: Option<Instant>,
}

impl ExpectSupport {
    /// It reacted to an expectation: with `100`, or with its final response.
    pub fn handle_honored(&mut self) {
        *self = Self::default();
    }

    /// It let the time pass.
    pub fn handle_ignored(&mut self, now: Instant) {
        self.ignored = self.ignored.saturating_add(1);
        self.since = Some(now);
    }

    /// Whether it ignores expectations.
    pub fn is_ignored(&self, now: Instant) -> bool {
        self.ignored >= IGNORED_MAX
            && self.since.is_some_and(|since| now.saturating_duration_since(since) < FORGET_AFTER)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    #[test]
    fn repeatedly_ignored_expectations_are_dropped_for_a_while() {
        let (mut support, now) = (ExpectSupport::default(), Instant::now());
        for _ in 1..IGNORED_MAX {
            support.handle_ignored(now);
        }
        assert!(!support.is_ignored(now));
        support.handle_ignored(now);
        assert!(support.is_ignored(now));
        assert!(!support.is_ignored(now + FORGET_AFTER));
        support.handle_honored();
        assert!(!support.is_ignored(now));
    }
}
