//! Exponential backoff: how long to wait before the retry of something that keeps failing.
//!
//! The signal is the length of the last life. A healthy life is followed at once; a short one
//! doubles the wait, up to a cap. Half of each wait is random ("equal jitter" in Brooker, *Exponential
//! Backoff And Jitter*, 2015): several workers that fail for the same reason do not come back in step, and yet
//! the wait never falls below half of what was meant. The first start does not wait.

use std::time::Duration;

/// Settings of a [`Backoff`]. The default applies to the restart of workers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BackoffSettings {
    /// The wait after the first failure, before jitter.
    pub base: Duration,
    /// Factor of the wait for each further failure.
    pub factor: u32,
    /// The longest wait, before jitter.
    pub cap: Duration,
    /// A life of at least this length is healthy: its end is not a failure.
    pub healthy: Duration,
}

impl Default for BackoffSettings {
    /// 100 ms, doubled up to 30 s, forgotten after 10 s of health. The first is what a fork and an import cost
    /// anyway, the second is what a person waits before looking; the third is arbitrary.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(100),
            factor: 2,
            cap: Duration::from_secs(30),
            healthy: Duration::from_secs(10),
        }
    }
}

/// Exponential back-off with jitter. Holds no clock: the caller says how long each life lasted.
#[derive(Clone, Debug)]
pub struct Backoff {
    settings: BackoffSettings,
    /// Short lives in a row.
    failures: u32,
}

impl Backoff {
    /// Without failures.
    #[must_use]
    pub fn new(settings: BackoffSettings) -> Self {
        Self { settings, failures: 0 }
    }

    /// The number of short lives in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A life ended after `healthy_for` (zero if it never became healthy). Returns the wait before
    /// the next one: zero after a healthy life, otherwise from half of the exponential wait up to all of it,
    /// chosen by `random`.
    #[must_use]
    pub fn handle_end(&mut self, healthy_for: Duration, random: u64) -> Duration {
        if healthy_for >= self.settings.healthy {
            self.reset();
            return Duration::ZERO;
        }
        let full = self.exponential();
        self.failures = self.failures.saturating_add(1);
        let half = full / 2;
        half + fraction(full.saturating_sub(half), random)
    }

    /// Resets the failures.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    fn exponential(&self) -> Duration {
        self.settings
            .factor
            .checked_pow(self.failures)
            .and_then(|factor| self.settings.base.checked_mul(factor))
            .map_or(self.settings.cap, |wait| wait.min(self.settings.cap))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(BackoffSettings::default())
    }
}

/// `span` times a fraction in `0..=1` given by all 64 bits of `random`.
pub(crate) fn fraction(span: Duration, random: u64) -> Duration {
    let nanos = span.as_nanos().saturating_mul(u128::from(random)) / u128::from(u64::MAX);
    u64::try_from(nanos).map_or(span, Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(9_999);

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..12).map(|_| backoff.handle_end(SHORT, u64::MAX).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000]);
        assert_eq!(backoff.failures(), 12);
    }

    #[test]
    fn jitter_takes_away_at_most_half() {
        for (random, expected) in [(0, 50), (u64::MAX / 2, 74), (u64::MAX, 100)] {
            assert_eq!(Backoff::default().handle_end(Duration::ZERO, random).as_millis(), expected);
        }
    }

    #[test]
    fn a_healthy_life_is_followed_at_once_and_forgets_the_failures() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            let _ = backoff.handle_end(SHORT, 0);
        }
        assert_eq!(backoff.handle_end(Duration::from_secs(10), u64::MAX), Duration::ZERO);
        assert_eq!(backoff.failures(), 0);
        assert_eq!(backoff.handle_end(SHORT, u64::MAX).as_millis(), 100);
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff { failures: u32::MAX, ..Backoff::default() };
        assert_eq!(backoff.handle_end(SHORT, u64::MAX), Duration::from_secs(30));
        assert_eq!(backoff.failures(), u32::MAX);
        let mut large = Backoff::new(BackoffSettings { cap: Duration::MAX, ..BackoffSettings::default() });
        large.failures = 31;
        assert!(large.handle_end(SHORT, u64::MAX) > Duration::from_secs(3600));
    }
}
