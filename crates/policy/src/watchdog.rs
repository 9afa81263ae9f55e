//! Detects threads whose event loop is stuck, by a counter that each thread increments on every turn of its loop.
//!
//! Modelled on Envoy's watchdog (a miss, a "mega miss", a kill) with one difference: the checker may have been stopped as well (a suspended machine, SIGSTOP, a
//! debugger, no processor time for the whole process), and then nothing is known about the others. So a check that comes late counts as no time at all.

use std::time::{Duration, Instant};

/// A thread whose counter has not changed for this long is stuck. Nothing that a thread does on purpose takes a hundredth of it.
pub const STUCK_AFTER: Duration = Duration::from_secs(5);
/// A thread whose counter has not changed for this long is dead. It leaves time to recover from an operation that is slow but finite.
pub const DEAD_AFTER: Duration = Duration::from_secs(10);
/// Interval of repeated reports about a dead thread, for a caller that could not act on the first.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Interval of the checks.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The state of all threads.
#[derive(Debug)]
pub struct Watchdog {
    threads: Vec<ThreadState>,
    checked_at: Instant,
}

#[derive(Debug)]
struct ThreadState {
    turns: u64,
    /// For how long the counter has not changed, as far as was observed.
    silent_for: Duration,
    is_stuck: bool,
    /// `silent_for` at the last report of [`Finding::Dead`].
    reported_at: Option<Duration>,
}

/// Result of a check, with the index of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// No turn for [`STUCK_AFTER`].
    Stuck(usize),
    /// No turn for [`DEAD_AFTER`], or for another minute since the last such finding.
    Dead(usize),
    /// It was stuck for this time, and turns again.
    Recovered(usize, Duration),
}

impl Watchdog {
    /// A watchdog over this many threads, all of which are running.
    #[must_use]
    pub fn new(threads: usize, now: Instant) -> Self {
        let thread =
            || ThreadState { turns: 0, silent_for: Duration::ZERO, is_stuck: false, reported_at: None };
        Self { threads: (0..threads).map(|_| thread()).collect(), checked_at: now }
    }

    /// Compares the counters of all threads, in their order; to be called every [`CHECK_INTERVAL`].
    pub fn handle_check(&mut self, now: Instant, turns: impl Iterator<Item = u64>) -> Vec<Finding> {
        let passed = now.saturating_duration_since(self.checked_at);
        self.checked_at = now;
        // Twice the interval: the checker was held up, perhaps with everybody else.
        let passed = if passed > CHECK_INTERVAL * 2 { Duration::ZERO } else { passed };
        let threads = self.threads.iter_mut().zip(turns).enumerate();
        threads.filter_map(|(index, (thread, turns))| thread.check(index, turns, passed)).collect()
    }
}

impl ThreadState {
    fn check(&mut self, index: usize, turns: u64, passed: Duration) -> Option<Finding> {
        if turns != self.turns {
            self.turns = turns;
            self.reported_at = None;
            let silent_for = std::mem::take(&mut self.silent_for);
            return std::mem::take(&mut self.is_stuck).then_some(Finding::Recovered(index, silent_for));
        }
        self.silent_for += passed;
        if self.silent_for >= STUCK_AFTER && !self.is_stuck {
            self.is_stuck = true;
            return Some(Finding::Stuck(index));
        }
        let due = self.reported_at.map_or(DEAD_AFTER, |at| at + REPORT_INTERVAL);
        (self.is_stuck && self.silent_for >= due).then(|| {
            self.reported_at = Some(self.silent_for);
            Finding::Dead(index)
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    /// The findings about two threads: the first has the counter `turns(check)`, the second always runs. Checks are `CHECK_INTERVAL` apart, but for one that is `late`.
    fn run(looks: u32, late: Option<(u32, Duration)>, turns: impl Fn(u32) -> u64) -> Vec<(u32, Finding)> {
        let mut now = Instant::now();
        let mut all = Watchdog::new(2, now);
        let mut found = Vec::new();
        for look in 1..=looks {
            now += CHECK_INTERVAL + late.filter(|(at, _)| *at == look).map_or(Duration::ZERO, |(_, by)| by);
            let both = [turns(look), u64::from(look)];
            found.extend(all.handle_check(now, both.into_iter()).into_iter().map(|finding| (look, finding)));
        }
        found
    }

    #[test]
    fn a_silent_thread_is_stuck_then_dead_and_reported_every_minute() {
        let found = run(150, None, |_| 0);
        let expected = [(10, Finding::Stuck(0)), (20, Finding::Dead(0)), (140, Finding::Dead(0))];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_recovery_is_reported_once_and_the_thread_may_be_stuck_again() {
        let found = run(40, None, |look| u64::from(look > 14));
        let silent_for = CHECK_INTERVAL * 14;
        let expected = [
            (10, Finding::Stuck(0)),
            (15, Finding::Recovered(0, silent_for)),
            (25, Finding::Stuck(0)),
            (35, Finding::Dead(0)),
        ];
        assert_eq!(found, expected);
        assert_eq!(run(100, None, u64::from), []);
    }

    #[test]
    fn time_without_checks_counts_for_no_thread() {
        // A machine that was suspended for an hour, and then a thread that needs some seconds to continue.
        let suspended = Some((5, Duration::from_secs(3600)));
        assert_eq!(run(13, suspended, |look| u64::from(look > 9)), []);
        assert_eq!(run(11, suspended, |_| 0), [(11, Finding::Stuck(0))]);
    }
}
