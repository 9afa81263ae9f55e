//! A histogram of recent durations, in which old samples decay.
//!
//! Buckets grow with what they count: eight for each doubling, from 1 µs to about an hour, so that a percentile is at most an eighth too high (HdrHistogram's idea). After
//! every `HALVE_AFTER` samples all counts are halved: old samples weigh less and less, and no clock is needed.

use std::time::Duration;

/// Buckets for each power of two.
const STEPS: u32 = 8;
const BUCKETS: usize = 256;
/// Samples between two halvings.
const HALVE_AFTER: u32 = 2048;

/// A decaying histogram of durations.
#[derive(Debug, Clone)]
pub(crate) struct Digest {
    counts: [u16; BUCKETS],
    /// Samples since the last halving.
    fresh: u32,
    total: u32,
}

impl Default for Digest {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], fresh: 0, total: 0 }
    }
}

impl Digest {
    pub(crate) fn add(&mut self, took: Duration) {
        if let Some(count) = self.counts.get_mut(bucket(took)) {
            *count = count.saturating_add(1);
            self.total += 1;
            self.fresh += 1;
        }
        if self.fresh >= HALVE_AFTER {
            self.fresh = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().map(|count| u32::from(*count)).sum();
        }
    }

    /// The number of samples, decayed.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// The quantile in thousandths, as the upper end of its bucket; `None` without samples.
    pub(crate) fn quantile(&self, thousandths: u32) -> Option<Duration> {
        let rank = (u64::from(self.total) * u64::from(thousandths.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        Some(Duration::from_micros(end(at)))
    }
}

/// Below eight microseconds each value has its own bucket; above, the three bits after the first select it.
fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let at = match micros.checked_ilog2() {
        Some(power) if power >= 3 => u64::from(STEPS * (power - 3)) + (micros >> (power - 3)),
        _ => micros,
    };
    usize::try_from(at).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

/// In microseconds: the first that is beyond the bucket.
fn end(at: usize) -> u64 {
    let at = at as u64;
    match at.checked_sub(8) {
        None => at + 1,
        Some(above) => (8 + above % 8 + 1) << (above / 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn buckets_follow_one_another_without_gaps() {
        let mut last = 0;
        for micros in 0..200_000 {
            let at = bucket(Duration::from_micros(micros));
            assert!(at == last || at == last + 1, "{micros}");
            assert!(micros < end(at) && (at == 0 || micros >= end(at - 1)), "{micros}");
            last = at;
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
        assert!(end(BUCKETS - 1) > 3_600_000_000, "more than an hour");
    }

    #[test]
    fn a_quantile_is_at_most_an_eighth_too_high() {
        let mut rng = Rng::new(1);
        for spread in [10, 1_000, 1_000_000] {
            let (mut digest, mut all) = (Digest::default(), Vec::new());
            for _ in 0..2_000 {
                let micros = 1 + rng.below(spread);
                digest.add(Duration::from_micros(micros));
                all.push(micros);
            }
            all.sort_unstable();
            for thousandths in [1, 500, 900, 990, 1000] {
                let exact = all[(2_000 * thousandths as usize).div_ceil(1000) - 1];
                let found = digest.quantile(thousandths).unwrap().as_micros() as u64;
                assert!(found > exact && found <= exact + exact / 8 + 1, "{found} for {exact}");
            }
        }
        assert_eq!(Digest::default().quantile(500), None);
    }

    #[test]
    fn old_samples_decay() {
        let mut digest = Digest::default();
        (0..100_000).for_each(|_| digest.add(Duration::from_millis(1)));
        assert!(digest.total() < 3 * HALVE_AFTER);
        (0..20_000).for_each(|_| digest.add(Duration::from_millis(100)));
        assert!(digest.quantile(10).unwrap() > Duration::from_millis(99));
    }
}
