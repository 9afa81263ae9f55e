//! How many workers an app needs.
//!
//! Up, one at a time: when requests wait. The signal is the time they spend in the queue, not how busy the workers are: an app whose workers
//! are all busy and whose requests do not wait has enough of them, and one whose requests wait has too few, whatever its processors do. A
//! wait is long from [`LONG_WAIT`] on. The app grows when a request has now waited for that long, or when a tenth of the requests that
//! began since the last check had (their ninetieth percentile), so that a single slow one among many does not start a process. No second worker is
//! started before the first is ready: its effect is not known earlier.
//!
//! Down: to the peak demand of the last `idle`. The demand is the number of workers that the requests in work would fill, one worker after the other. So a
//! daily peak costs its workers for `idle`, and an app that is used a little all the time keeps what it uses.
//!
//! At the start nothing is known: every worker counts as needed until `idle` has passed.

use std::time::{Duration, Instant};

/// A wait in the queue of this length is too long. This number is a judgement: a person notices about a tenth of a second.
pub const LONG_WAIT: Duration = Duration::from_millis(100);

/// Settings of a [`Scaler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalerSettings {
    /// The smallest number of workers; at least 1.
    pub min: usize,
    /// The largest number of workers.
    pub max: usize,
    /// A worker that was not needed for this time is stopped.
    pub idle: Duration,
}

/// The load of an app since the last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppLoad {
    /// The most workers that the requests in work at one moment would fill.
    pub needed: usize,
    /// How long the oldest waiting request has waited.
    pub oldest: Duration,
    /// Requests that were given to a worker.
    pub begun: u64,
    /// Of these, requests that had waited for [`LONG_WAIT`] or longer.
    pub late: u64,
}

/// Decides for one app.
#[derive(Debug)]
pub struct Scaler {
    settings: ScalerSettings,
    /// At index `n`: when `n + 1` workers were needed last.
    needed: Vec<Instant>,
}

impl Scaler {
    /// For an app that starts with `workers`.
    #[must_use]
    pub fn new(settings: ScalerSettings, workers: usize, now: Instant) -> Self {
        let min = settings.min.max(1);
        let settings = ScalerSettings { min, max: settings.max.max(min), ..settings };
        Self { settings, needed: vec![now; workers] }
    }

    /// The number of workers there should be; there are `workers` now, including those that start. `starting`: at least one is not ready yet.
    #[must_use]
    pub fn handle_load(&mut self, load: AppLoad, workers: usize, starting: bool, now: Instant) -> usize {
        let ScalerSettings { min, max, .. } = self.settings;
        self.need(load.needed.min(workers), now);
        let waits = load.oldest >= LONG_WAIT || (load.late > 0 && load.late.saturating_mul(10) > load.begun);
        if waits {
            self.need(workers, now);
        }
        if starting {
            // The starting worker may be the missing one, and until it is ready nothing is known to be too much.
            return workers;
        }
        if waits && workers < max {
            self.need(workers + 1, now);
            return workers + 1;
        }
        workers.min(self.needed_lately(now).clamp(min, max))
    }

    /// An operator sets `workers` as the new minimum.
    pub fn set_floor(&mut self, workers: usize, now: Instant) {
        self.settings.min = workers.clamp(1, self.settings.max);
        self.need(workers, now);
    }

    /// The largest number of workers.
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

    struct Fixture {
        scaler: Scaler,
        workers: usize,
        now: Instant,
    }

    impl Fixture {
        fn new(min: usize, max: usize, workers: usize) -> Self {
            let now = Instant::now();
            Self { scaler: Scaler::new(ScalerSettings { min, max, idle: IDLE }, workers, now), workers, now }
        }

        /// Applies this load for a time; a new worker is ready at once.
        fn run(&mut self, load: AppLoad, span: Duration) -> usize {
            let end = self.now + span;
            while self.now < end {
                self.now += TICK;
                self.workers = self.scaler.handle_load(load, self.workers, false, self.now);
            }
            self.workers
        }
    }

    fn busy(needed: usize) -> AppLoad {
        AppLoad { needed, begun: 100, ..AppLoad::default() }
    }

    fn waiting() -> AppLoad {
        AppLoad { needed: usize::MAX, oldest: LONG_WAIT, begun: 100, late: 0 }
    }

    #[test]
    fn waiting_requests_add_one_worker_at_a_time_up_to_the_maximum() {
        let mut fixture = Fixture::new(1, 4, 1);
        for expected in [2, 3, 4, 4] {
            assert_eq!(fixture.run(waiting(), TICK), expected);
        }
    }

    #[test]
    fn no_worker_is_added_while_one_starts() {
        let mut fixture = Fixture::new(1, 4, 2);
        for _ in 0..2000 {
            fixture.now += TICK;
            assert_eq!(fixture.scaler.handle_load(waiting(), 2, true, fixture.now), 2);
            assert_eq!(fixture.scaler.handle_load(AppLoad::default(), 2, true, fixture.now), 2);
        }
        assert_eq!(fixture.scaler.handle_load(waiting(), 2, false, fixture.now), 3);
    }

    #[test]
    fn busy_workers_alone_add_none() {
        let mut fixture = Fixture::new(1, 4, 2);
        assert_eq!(fixture.run(busy(2), IDLE * 3), 2);
    }

    #[test]
    fn one_late_request_of_many_adds_none_and_one_in_ten_does() {
        let mut fixture = Fixture::new(1, 4, 2);
        assert_eq!(
            fixture.run(AppLoad { late: 10, ..busy(2) }, TICK),
            2,
            "the ninetieth percentile is in time"
        );
        assert_eq!(fixture.run(AppLoad { late: 11, ..busy(2) }, TICK), 3);
        assert_eq!(fixture.run(AppLoad { late: 1, begun: 1, ..busy(2) }, TICK), 4, "the only one was late");
        let almost = AppLoad { oldest: LONG_WAIT - Duration::from_millis(1), ..busy(4) };
        assert_eq!(Fixture::new(1, 4, 2).run(almost, IDLE), 2);
    }

    #[test]
    fn unneeded_workers_are_removed_after_the_idle_time() {
        let mut fixture = Fixture::new(1, 8, 8);
        assert_eq!(fixture.run(busy(3), IDLE - TICK), 8);
        assert_eq!(fixture.run(busy(3), TICK), 3);
        assert_eq!(fixture.run(busy(3), IDLE * 3), 3);
        assert_eq!(fixture.run(busy(0), IDLE - TICK), 3);
        assert_eq!(fixture.run(busy(0), TICK), 1);
        assert_eq!(fixture.run(busy(0), IDLE * 3), 1, "never below min");
    }

    #[test]
    fn a_peak_keeps_its_workers_for_the_idle_time() {
        let mut fixture = Fixture::new(1, 8, 4);
        for _ in 0..10 {
            assert_eq!(fixture.run(busy(4), TICK), 4);
            assert_eq!(fixture.run(busy(1), IDLE - TICK * 2), 4, "another peak came in time");
        }
        assert_eq!(fixture.run(busy(1), TICK * 2), 1);
    }

    #[test]
    fn a_worker_that_was_just_added_has_its_idle_time() {
        let mut fixture = Fixture::new(1, 8, 1);
        fixture.run(waiting(), TICK);
        assert_eq!(fixture.run(busy(1), IDLE - TICK), 2);
        assert_eq!(fixture.run(busy(1), TICK), 1);
    }

    #[test]
    fn the_floor_of_an_operator_holds() {
        let mut fixture = Fixture::new(1, 4, 1);
        fixture.scaler.set_floor(3, fixture.now);
        fixture.workers = 3;
        assert_eq!(fixture.run(busy(0), IDLE * 3), 3);
        fixture.scaler.set_floor(1, fixture.now);
        assert_eq!(fixture.run(busy(0), IDLE * 2), 1);
        fixture.scaler.set_floor(0, fixture.now);
        assert_eq!(fixture.run(busy(0), IDLE * 2), 1);
        fixture.scaler.set_floor(9, fixture.now);
        assert_eq!(fixture.scaler.max(), 4);
    }
}
