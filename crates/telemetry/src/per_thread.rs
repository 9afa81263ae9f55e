//! Counters and histograms with a copy for each thread, for the path of a request: a plain load and store on a cell of the thread's own, no lock, and no cache line that two
//! threads write. A reader sums the cells of all threads, and may be one event late.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A number that one thread adds to and every thread may read.
#[derive(Debug, Default)]
pub struct ThreadCounter(AtomicU64);

impl ThreadCounter {
    /// Adds `count`. If two threads add at once, one addition may be lost: see [`PerThread`].
    #[inline]
    pub fn add(&self, count: u64) {
        // No read-modify-write: that is a locked instruction, and a cell has one writer.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// The count.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A `T` for each data-plane thread, each on cache lines of its own.
#[derive(Debug)]
pub struct PerThread<T>(Box<[CachePadded<T>]>);

/// A value on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

impl<T: Default> PerThread<T> {
    /// One for each thread of [`set_threads`].
    #[must_use]
    pub fn new() -> Self {
        Self((0..THREADS.load(Ordering::Relaxed).max(1)).map(|_| CachePadded::default()).collect())
    }
}

impl<T: Default> Default for PerThread<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerThread<T> {
    /// The value of a thread, by its index; an index above the number of threads shares one with another.
    #[must_use]
    pub fn of(&self, thread: usize) -> &T {
        #[expect(
            clippy::indexing_slicing,
            reason = "there is at least one, and the index is below their number"
        )]
        &self.0[thread % self.0.len()].0
    }

    /// The values of all threads.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}

static THREADS: AtomicUsize = AtomicUsize::new(1);

/// Sets the number of data-plane threads, before the first [`PerThread`] is created. The largest number applies.
pub fn set_threads(threads: usize) {
    THREADS.fetch_max(threads, Ordering::Relaxed);
}

/// Upper bounds of the buckets of every [`Histogram`], in microseconds: 0.5 ms to 60 s.
pub const BOUNDS_US: [u64; 16] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
const BUCKETS: usize = BOUNDS_US.len() + 1;

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [ThreadCounter; BUCKETS],
    sum_ns: ThreadCounter,
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn observe(&self, time: Duration) {
        self.observe_nanos(nanos(time));
    }

    /// The same of a duration in nanoseconds.
    #[inline]
    pub(crate) fn observe_nanos(&self, ns: u64) {
        if let Some(bucket) = self.buckets.get(bucket_at(ns)) {
            bucket.add(1);
        }
        self.sum_ns.add(ns);
    }
}

/// The index of the bucket that a duration is counted in.
pub(crate) fn bucket_of(time: Duration) -> usize {
    bucket_at(nanos(time))
}

/// A duration in nanoseconds; of more than 584 years the largest number.
#[inline]
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[inline]
fn bucket_at(ns: u64) -> usize {
    BOUNDS_US.iter().position(|bound| ns <= bound * 1000).unwrap_or(BOUNDS_US.len())
}

/// The sum of the histograms of several threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistogramTotals {
    /// Counts by the bounds of [`BOUNDS_US`]; the last has no bound. Not cumulative.
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations, in nanoseconds.
    pub sum_ns: u64,
}

impl HistogramTotals {
    /// Adds a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        self.buckets.iter_mut().zip(&histogram.buckets).for_each(|(sum, cell)| *sum += cell.value());
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.value());
    }

    /// Adds other totals.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, more)| *sum += more);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// The quantile in thousandths, interpolated linearly between the bounds of its bucket; none without samples.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<Duration> {
        // The rank, from 1.
        let rank = (self.count() * per_mille).div_ceil(1000).max(1);
        let mut below = 0;
        for (at, inside) in self.buckets.iter().copied().enumerate() {
            if below + inside >= rank {
                let lower = at.checked_sub(1).and_then(|at| BOUNDS_US.get(at)).copied().unwrap_or(0);
                // The last bucket has no upper bound.
                let upper = BOUNDS_US.get(at).copied().unwrap_or(lower);
                return Some(Duration::from_micros(lower + (upper - lower) * (rank - below) / inside));
            }
            below += inside;
        }
        None
    }

    /// The number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_below_its_bound() {
        let histogram = Histogram::default();
        for (micros, bucket) in
            [(0, 0), (500, 0), (501, 1), (1_000, 1), (5_000, 3), (60_000_000, 15), (60_000_001, 16)]
        {
            let mut before = HistogramTotals::default();
            before.add(&histogram);
            histogram.observe(Duration::from_micros(micros));
            let mut after = HistogramTotals::default();
            after.add(&histogram);
            assert_eq!(after.buckets[bucket], before.buckets[bucket] + 1, "{micros}");
            assert_eq!(after.sum_ns, before.sum_ns + micros * 1000);
            assert_eq!(after.count(), before.count() + 1);
        }
    }

    #[test]
    fn quantiles_lie_between_the_bounds_of_their_buckets() {
        let mut times = HistogramTotals::default();
        assert_eq!(times.quantile(500), None);
        // 90 from 1 to 2.5 ms, 9 from 50 to 100 ms, one beyond 60 s.
        (times.buckets[2], times.buckets[7], times.buckets[16]) = (90, 9, 1);
        assert_eq!(times.quantile(500), Some(Duration::from_micros(1_000 + 1_500 * 50 / 90)));
        assert_eq!(times.quantile(900), Some(Duration::from_micros(2_500)));
        assert_eq!(times.quantile(990), Some(Duration::from_millis(100)));
        assert_eq!(times.quantile(1000), Some(Duration::from_secs(60)));
    }

    #[test]
    fn each_thread_adds_to_cells_of_its_own() {
        set_threads(4);
        let cells = PerThread::<ThreadCounter>::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cells = &cells;
                scope.spawn(move || (0..1000).for_each(|_| cells.of(thread).add(1)));
            }
        });
        assert_eq!(cells.iter().map(ThreadCounter::value).sum::<u64>(), 4000);
        cells.of(99).add(1);
        assert_eq!(cells.iter().map(ThreadCounter::value).sum::<u64>(), 4001);
    }
}
