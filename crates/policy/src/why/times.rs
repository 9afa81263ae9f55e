//! Durations of requests or calls: counts by bucket, and their sum.

use std::time::Duration;

/// Upper bounds of the buckets in microseconds: those of the histograms that the metrics have, so that nothing is measured twice.
pub const BOUNDS_US: [u64; 16] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
/// One for each bound, and one beyond.
pub const BUCKETS: usize = BOUNDS_US.len() + 1;

/// Durations of one step of a history: 80 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// By [`BOUNDS_US`], not cumulative. A step holds at most 4,294,967,295 in each.
    pub counts: [u32; BUCKETS],
    /// Sum of all, in microseconds.
    pub sum_us: u64,
}

impl Times {
    /// Adds one duration.
    pub fn observe(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(BOUNDS_US.len());
        if let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_add(1);
        }
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Adds those of another step.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// Takes away those of a step that was added.
    pub fn take_away(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, less)| *sum = sum.saturating_sub(less));
        self.sum_us = self.sum_us.saturating_sub(other.sum_us);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// The average; zero without any.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.sum_us.checked_div(self.count()).unwrap_or(0))
    }

    /// The quantile in thousandths, interpolated between the bounds of its bucket; none without samples.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<Duration> {
        let rank = (self.count() * per_mille).div_ceil(1000).max(1);
        let mut below = 0;
        for (at, inside) in self.counts.iter().map(|count| u64::from(*count)).enumerate() {
            if inside > 0 && below + inside >= rank {
                let lower = at.checked_sub(1).and_then(|at| BOUNDS_US.get(at)).copied().unwrap_or(0);
                let upper = BOUNDS_US.get(at).copied().unwrap_or(lower);
                return Some(Duration::from_micros(lower + (upper - lower) * (rank - below) / inside));
            }
            below += inside;
        }
        None
    }
}
