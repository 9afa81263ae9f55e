//! Successes and failures in a sliding window of buckets.
//!
//! The window slides by a bucket at a time, so that it covers between nine tenths and all of its length (Hystrix' and resilience4j's rolling window).

use std::time::{Duration, Instant};

const BUCKETS: usize = 10;

/// How many succeeded and how many failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) successes: u32,
    pub(crate) failures: u32,
}

impl Counts {
    pub(crate) fn total(self) -> u32 {
        self.successes.saturating_add(self.failures)
    }

    /// In thousandths; all, when there was nothing.
    pub(crate) fn success_rate(self) -> u32 {
        let total = u64::from(self.total());
        let rate = (u64::from(self.successes) * 1000).checked_div(total).unwrap_or(1000);
        u32::try_from(rate).unwrap_or(1000)
    }
}

/// The counts of the last `length`.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    buckets: [Counts; BUCKETS],
    /// The bucket that is filled now, counted from the first one.
    at: u64,
    origin: Instant,
    bucket: Duration,
    /// Of all buckets.
    sum: Counts,
}

impl Window {
    pub(crate) fn new(length: Duration, now: Instant) -> Self {
        let bucket = (length / 10).max(Duration::from_millis(1));
        Self { buckets: [Counts::default(); BUCKETS], at: 0, origin: now, bucket, sum: Counts::default() }
    }

    pub(crate) fn add(&mut self, success: bool, now: Instant) {
        self.slide(now);
        let slot = usize::try_from(self.at % BUCKETS as u64).unwrap_or(0);
        for counts in [Some(&mut self.sum), self.buckets.get_mut(slot)].into_iter().flatten() {
            let count = if success { &mut counts.successes } else { &mut counts.failures };
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn counts(&mut self, now: Instant) -> Counts {
        self.slide(now);
        self.sum
    }

    pub(crate) fn clear(&mut self) {
        self.buckets = [Counts::default(); BUCKETS];
        self.sum = Counts::default();
    }

    fn slide(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.origin).as_nanos() / self.bucket.as_nanos();
        let at = u64::try_from(elapsed).unwrap_or(u64::MAX);
        if at <= self.at {
            return;
        }
        if at - self.at >= BUCKETS as u64 {
            self.clear();
        } else {
            for passed in self.at + 1..=at {
                let slot = usize::try_from(passed % BUCKETS as u64).unwrap_or(0);
                if let Some(old) = self.buckets.get_mut(slot) {
                    self.sum.successes -= old.successes.min(self.sum.successes);
                    self.sum.failures -= old.failures.min(self.sum.failures);
                    *old = Counts::default();
                }
            }
        }
        self.at = at;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Against a list of everything that was added.
    #[test]
    fn it_counts_what_a_list_counts() {
        let (mut rng, start) = (Rng::new(3), Instant::now());
        let mut window = Window::new(Duration::from_secs(10), start);
        let (mut list, mut millis) = (Vec::new(), 0_u64);
        for _ in 0..20_000 {
            millis += if rng.below(500) == 0 { rng.below(30_000) } else { rng.below(200) };
            let success = rng.below(3) > 0;
            window.add(success, start + Duration::from_millis(millis));
            list.push((millis / 1000, success));
            let recent = |(second, _): &&(u64, bool)| second + 10 > millis / 1000;
            let recent = || list.iter().rev().take_while(recent);
            let good = recent().filter(|(_, success)| *success).count();
            let bad = recent().count() - good;
            let counts = window.counts(start + Duration::from_millis(millis));
            assert_eq!((counts.successes as usize, counts.failures as usize), (good, bad));
        }
    }

    #[test]
    fn rates_are_thousandths() {
        assert_eq!(Counts::default().success_rate(), 1000);
        assert_eq!(Counts { successes: 1, failures: 2 }.success_rate(), 333);
        assert_eq!(Counts { successes: u32::MAX, failures: u32::MAX }.success_rate(), 1000);
    }
}
