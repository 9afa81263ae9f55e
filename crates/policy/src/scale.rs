//! How many workers an app needs.
//!
//! Up, one at a time: when requests wait. The signal is the time they spend in the queue, not how busy the workers are: an app whose workers
//! are all in work and whose requests do not wait has enough of them, and one whose requests wait has too few whatever its processors do. A
//! wait is long from [`LONG_WAIT`] on. The app grows when a request has waited for that long at this moment, or when a tenth of those that were
//! begun since the last look had (their ninetieth percentile), so that a single slow one among many does not start a process. No second worker is
//! asked for before the first is ready: what the first one changes is not known earlier.
//!
//! Down: to the number that was needed at the same time at some moment of the last `idle`. Needed is what the requests in work fill, were the
//! workers filled one after the other. So a daily peak costs its workers for `idle`, and an app that is used a little all the time keeps what it uses.
//!
//! At the start nothing is known: every worker counts as needed until `idle` has passed.

use std::time::{Duration, Instant};

/// From here on a wait in the queue is too long. This number is a judgement: a person notices about a tenth of a second.
pub const LONG_WAIT: Duration = Duration::from_millis(100);

/// Between which numbers, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Never fewer; at least 1.
    pub min: usize,
    /// Never more.
    pub max: usize,
    /// A worker that was not needed for so long is taken away.
    pub idle: Duration,
}

/// What was seen of an app since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// The most workers that the requests in work at one moment would fill.
    pub needed: usize,
    /// How long the oldest request that waits now has waited.
    pub oldest: Duration,
    /// Requests that were given to a worker.
    pub begun: u64,
    /// Those of them that had waited for [`LONG_WAIT`] or longer.
    pub late: u64,
}

/// Decides for one app.
#[derive(Debug)]
pub struct Scaler {
    settings: Settings,
    /// When at least one more worker than the index was needed last.
    needed: Vec<Instant>,
}

impl Scaler {
    /// An app that begins with `workers`.
    #[must_use]
    pub fn new(settings: Settings, workers: usize, now: Instant) -> Self {
        let min = settings.min.max(1);
        let settings = Settings { min, max: settings.max.max(min), ..settings };
        Self { settings, needed: vec![now; workers] }
    }

    /// How many there should be; there are `workers` now, those that start included. `starting`: at least one is not ready yet.
    #[must_use]
    pub fn handle_load(&mut self, load: Load, workers: usize, starting: bool, now: Instant) -> usize {
        let Settings { min, max, .. } = self.settings;
        self.need(load.needed.min(workers), now);
        let waits = load.oldest >= LONG_WAIT || (load.late > 0 && load.late.saturating_mul(10) > load.begun);
        if waits {
            self.need(workers, now);
        }
        if starting {
            // What comes may be what is missing, and before it has come nothing is known to be too much.
            return workers;
        }
        if waits && workers < max {
            self.need(workers + 1, now);
            return workers + 1;
        }
        workers.min(self.needed_lately(now).clamp(min, max))
    }

    /// A person wants `workers`, and no fewer until told otherwise.
    pub fn set_floor(&mut self, workers: usize, now: Instant) {
        self.settings.min = workers.clamp(1, self.settings.max);
        self.need(workers, now);
    }

    /// The most there may be.
    #[must_use]
    pub fn max(&self) -> usize {
        self.settings.max
    }

    fn need(&mut self, workers: usize, now: Instant) {
        self.needed.resize(self.needed.len().max(workers), now);
        self.needed.iter_mut().take(workers).for_each(|last| *last = now);
    }

    fn needed_lately(&self, now: Instant) -> usize {
        let lately = |last: &Instant| now.saturating_duration_since(*last) < self.settings.idle;
        self.needed.iter().rposition(lately).map_or(0, |index| index + 1)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);
    const IDLE: Duration = Duration::from_secs(60);

    struct Bench {
        scaler: Scaler,
        workers: usize,
        now: Instant,
    }

    impl Bench {
        fn new(min: usize, max: usize, workers: usize) -> Self {
            let now = Instant::now();
            Self { scaler: Scaler::new(Settings { min, max, idle: IDLE }, workers, now), workers, now }
        }

        /// Sees this for so long; what is asked for is ready at once.
        fn see(&mut self, load: Load, span: Duration) -> usize {
            let end = self.now + span;
            while self.now < end {
                self.now += TICK;
                self.workers = self.scaler.handle_load(load, self.workers, false, self.now);
            }
            self.workers
        }
    }

    fn busy(needed: usize) -> Load {
        Load { needed, begun: 100, ..Load::default() }
    }

    fn waiting() -> Load {
        Load { needed: usize::MAX, oldest: LONG_WAIT, begun: 100, late: 0 }
    }

    #[test]
    fn requests_that_wait_bring_one_worker_at_a_time_up_to_the_most() {
        let mut bench = Bench::new(1, 4, 1);
        for expected in [2, 3, 4, 4] {
            assert_eq!(bench.see(waiting(), TICK), expected);
        }
    }

    #[test]
    fn nothing_is_asked_for_while_something_comes() {
        let mut bench = Bench::new(1, 4, 2);
        for _ in 0..2000 {
            bench.now += TICK;
            assert_eq!(bench.scaler.handle_load(waiting(), 2, true, bench.now), 2);
            assert_eq!(bench.scaler.handle_load(Load::default(), 2, true, bench.now), 2);
        }
        assert_eq!(bench.scaler.handle_load(waiting(), 2, false, bench.now), 3);
    }

    #[test]
    fn busy_workers_are_no_reason_while_nobody_waits() {
        let mut bench = Bench::new(1, 4, 2);
        assert_eq!(bench.see(busy(2), IDLE * 3), 2);
    }

    #[test]
    fn one_late_request_of_many_is_no_reason_and_one_in_ten_is() {
        let mut bench = Bench::new(1, 4, 2);
        assert_eq!(bench.see(Load { late: 10, ..busy(2) }, TICK), 2, "the ninetieth percentile is in time");
        assert_eq!(bench.see(Load { late: 11, ..busy(2) }, TICK), 3);
        assert_eq!(bench.see(Load { late: 1, begun: 1, ..busy(2) }, TICK), 4, "the only one was late");
        let almost = Load { oldest: LONG_WAIT - Duration::from_millis(1), ..busy(4) };
        assert_eq!(Bench::new(1, 4, 2).see(almost, IDLE), 2);
    }

    #[test]
    fn what_was_not_needed_for_a_while_goes_and_no_more() {
        let mut bench = Bench::new(1, 8, 8);
        assert_eq!(bench.see(busy(3), IDLE - TICK), 8);
        assert_eq!(bench.see(busy(3), TICK), 3);
        assert_eq!(bench.see(busy(3), IDLE * 3), 3);
        assert_eq!(bench.see(busy(0), IDLE - TICK), 3);
        assert_eq!(bench.see(busy(0), TICK), 1);
        assert_eq!(bench.see(busy(0), IDLE * 3), 1, "never below min");
    }

    #[test]
    fn a_peak_keeps_its_workers_for_the_idle_time() {
        let mut bench = Bench::new(1, 8, 4);
        for _ in 0..10 {
            assert_eq!(bench.see(busy(4), TICK), 4);
            assert_eq!(bench.see(busy(1), IDLE - TICK * 2), 4, "another peak came in time");
        }
        assert_eq!(bench.see(busy(1), TICK * 2), 1);
    }

    #[test]
    fn a_worker_that_was_just_added_has_its_idle_time() {
        let mut bench = Bench::new(1, 8, 1);
        bench.see(waiting(), TICK);
        assert_eq!(bench.see(busy(1), IDLE - TICK), 2);
        assert_eq!(bench.see(busy(1), TICK), 1);
    }

    #[test]
    fn a_floor_that_a_person_sets_holds() {
        let mut bench = Bench::new(1, 4, 1);
        bench.scaler.set_floor(3, bench.now);
        bench.workers = 3;
        assert_eq!(bench.see(busy(0), IDLE * 3), 3);
        bench.scaler.set_floor(1, bench.now);
        assert_eq!(bench.see(busy(0), IDLE * 2), 1);
        bench.scaler.set_floor(0, bench.now);
        assert_eq!(bench.see(busy(0), IDLE * 2), 1);
        bench.scaler.set_floor(9, bench.now);
        assert_eq!(bench.scaler.max(), 4);
    }
}
