//! Whether threads turn: from a number that each of them raises as long as it does.
//!
//! Modelled on the watchdogs of Envoy (a miss, a "mega miss", a kill) with one difference: who looks may have been stopped as well (a suspended machine, SIGSTOP, a debugger, no
//! processor time for the whole process), and then nothing is known of the others. So a look that comes late counts for no time at all.

use std::time::{Duration, Instant};

/// From when on a thread that does not turn is stuck. Nothing that a thread does on purpose takes a hundredth of it.
pub const STUCK: Duration = Duration::from_secs(5);
/// From when on it is given up. It may take this long to come back from what is slow and not endless.
pub const GIVEN_UP: Duration = Duration::from_secs(10);
/// Between two reports that one is given up, for whoever could do nothing about the first.
const AGAIN: Duration = Duration::from_secs(60);
/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(500);

/// What is known of the threads.
#[derive(Debug)]
pub struct Turns {
    threads: Vec<Thread>,
    looked: Instant,
}

#[derive(Debug)]
struct Thread {
    turns: u64,
    /// For how long it has not turned, as far as was seen.
    stands: Duration,
    is_stuck: bool,
    given_up_at: Option<Duration>,
}

/// What a look has found, about the thread of that index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// It has not turned for [`STUCK`].
    Stuck(usize),
    /// It has not turned for [`GIVEN_UP`], or for another minute since that was found.
    GivenUp(usize),
    /// It was stuck, and turns again after this time.
    Turns(usize, Duration),
}

impl Turns {
    /// Of this many threads, all of which turn.
    #[must_use]
    pub fn new(threads: usize, now: Instant) -> Self {
        let thread = || Thread { turns: 0, stands: Duration::ZERO, is_stuck: false, given_up_at: None };
        Self { threads: (0..threads).map(|_| thread()).collect(), looked: now }
    }

    /// Looks at the numbers of all threads, in their order; to be called every [`LOOK`].
    pub fn handle_look(&mut self, now: Instant, turns: impl Iterator<Item = u64>) -> Vec<Finding> {
        let passed = now.saturating_duration_since(self.looked);
        self.looked = now;
        // Twice the time between two looks: who looks was held up, perhaps with everybody else.
        let passed = if passed > LOOK * 2 { Duration::ZERO } else { passed };
        let mut findings = Vec::new();
        for (index, (thread, turns)) in self.threads.iter_mut().zip(turns).enumerate() {
            findings.extend(thread.look(turns, passed).map(|finding| finding.of(index)));
        }
        findings
    }
}

enum Seen {
    Stuck,
    GivenUp,
    Turns(Duration),
}

impl Seen {
    fn of(self, thread: usize) -> Finding {
        match self {
            Self::Stuck => Finding::Stuck(thread),
            Self::GivenUp => Finding::GivenUp(thread),
            Self::Turns(after) => Finding::Turns(thread, after),
        }
    }
}

impl Thread {
    fn look(&mut self, turns: u64, passed: Duration) -> Option<Seen> {
        if turns != self.turns {
            self.turns = turns;
            self.given_up_at = None;
            let stood = std::mem::take(&mut self.stands);
            return std::mem::take(&mut self.is_stuck).then_some(Seen::Turns(stood));
        }
        self.stands += passed;
        if self.stands >= STUCK && !self.is_stuck {
            self.is_stuck = true;
            return Some(Seen::Stuck);
        }
        let due = self.given_up_at.map_or(GIVEN_UP, |at| at + AGAIN);
        (self.is_stuck && self.stands >= due).then(|| {
            self.given_up_at = Some(self.stands);
            Seen::GivenUp
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    /// Two threads, of which the second turns; what is found while the first does as `turns` says at each look, `LOOK` apart but for one look that comes `late`.
    fn run(looks: u32, late: Option<(u32, Duration)>, turns: impl Fn(u32) -> u64) -> Vec<(u32, Finding)> {
        let mut now = Instant::now();
        let mut all = Turns::new(2, now);
        let mut found = Vec::new();
        for look in 1..=looks {
            now += LOOK + late.filter(|(at, _)| *at == look).map_or(Duration::ZERO, |(_, by)| by);
            let both = [turns(look), u64::from(look)];
            found.extend(all.handle_look(now, both.into_iter()).into_iter().map(|finding| (look, finding)));
        }
        found
    }

    #[test]
    fn a_thread_that_stands_is_stuck_then_given_up_and_again_every_minute() {
        let found = run(150, None, |_| 0);
        let expected = [(10, Finding::Stuck(0)), (20, Finding::GivenUp(0)), (140, Finding::GivenUp(0))];
        assert_eq!(found, expected);
    }

    #[test]
    fn one_that_comes_back_is_reported_once_and_may_be_stuck_again() {
        let found = run(40, None, |look| u64::from(look > 14));
        let stood = LOOK * 14;
        let expected = [
            (10, Finding::Stuck(0)),
            (15, Finding::Turns(0, stood)),
            (25, Finding::Stuck(0)),
            (35, Finding::GivenUp(0)),
        ];
        assert_eq!(found, expected);
        assert_eq!(run(100, None, u64::from), []);
    }

    #[test]
    fn time_in_which_nobody_looked_is_nobodys() {
        // A machine that slept for an hour, and then a thread that needs some seconds to come to.
        let slept = Some((5, Duration::from_secs(3600)));
        assert_eq!(run(13, slept, |look| u64::from(look > 9)), []);
        assert_eq!(run(11, slept, |_| 0), [(11, Finding::Stuck(0))]);
    }
}
