//! A bounded history: one step a second for five minutes, one of 10 s for an hour, one of 5 minutes for a day.
//!
//! What is usual is a sum over the hour, to which each step of 10 s is added and from which the one that leaves is taken: two steps, not 354. Once an hour
//! it is summed again, because a count that has reached its limit, a rounded share or a largest value cannot be taken away.

use std::collections::VecDeque;

/// Steps of a second that are kept: 5 minutes.
pub const SECONDS: usize = 300;
/// Steps of 10 seconds that are kept: an hour.
pub const TENS: usize = 360;
/// Seconds of those.
const HOUR: u64 = 10 * TENS as u64;
/// Steps of 5 minutes that are kept: a day.
pub const FIVES: usize = 288;
/// Steps of 10 seconds that are too new to be what is usual: an incident of the last minute must not be its own measure.
const TOO_NEW: usize = 6;

/// What happened in a step of a history.
pub trait Step: Clone + Default {
    /// Adds another step.
    fn merge(&mut self, other: &Self);

    /// Takes away a step that was added. The largest values stay: what was the next largest is not known.
    fn take_away(&mut self, other: &Self);
}

/// The history of one subject. It holds at most [`SECONDS`] + [`TENS`] + [`FIVES`] + 3 steps: 951.
#[derive(Debug, Default)]
pub struct Series<T> {
    pub(super) seconds: VecDeque<T>,
    pub(super) tens: VecDeque<T>,
    pub(super) fives: VecDeque<T>,
    /// The steps that are not full yet.
    pub(super) ten: T,
    pub(super) five: T,
    /// The sum of the hour before the last minute. Largest values may be older.
    usual: T,
    pub(super) pushed: u64,
}

impl<T: Step> Series<T> {
    /// The next second.
    pub fn push(&mut self, step: T) {
        self.ten.merge(&step);
        push(&mut self.seconds, step, SECONDS);
        self.pushed += 1;
        if self.pushed.is_multiple_of(10) {
            let ten = std::mem::take(&mut self.ten);
            self.five.merge(&ten);
            self.push_ten(ten);
        }
        if self.pushed.is_multiple_of(300) {
            push(&mut self.fives, std::mem::take(&mut self.five), FIVES);
        }
    }

    /// The history that had these steps when it was saved.
    pub(super) fn restored([seconds, tens, fives]: [VecDeque<T>; 3], ten: T, five: T, pushed: u64) -> Self {
        let usual = usual(&tens);
        Self { seconds, tens, fives, ten, five, usual, pushed }
    }

    /// How many steps it holds in memory.
    pub(super) fn steps(&self) -> usize {
        /// Those that are not full, and the sum.
        const ALWAYS: usize = 3;
        self.seconds.len() + self.tens.len() + self.fives.len() + ALWAYS
    }

    fn push_ten(&mut self, ten: T) {
        if self.tens.len() == TENS
            && let Some(oldest) = self.tens.pop_front()
        {
            self.usual.take_away(&oldest);
        }
        self.tens.push_back(ten);
        if self.pushed.is_multiple_of(HOUR) {
            self.usual = usual(&self.tens);
        } else if let Some(old_enough) = self.tens.iter().rev().nth(TOO_NEW) {
            self.usual.merge(old_enough);
        }
    }

    /// The last seconds, together.
    #[must_use]
    pub fn recent(&self, seconds: usize) -> T {
        merged(self.last(seconds))
    }

    /// The last seconds, the newest first.
    pub fn last(&self, seconds: usize) -> impl Iterator<Item = &T> {
        self.seconds.iter().rev().take(seconds)
    }

    /// The last steps of 10 s, the newest first.
    pub fn last_tens(&self, steps: usize) -> impl Iterator<Item = &T> {
        self.tens.iter().rev().take(steps)
    }

    /// The last steps of 5 minutes, the oldest first.
    pub fn fives(&self) -> impl Iterator<Item = &T> {
        self.fives.iter()
    }

    /// What is usual: the hour before the last minute. Only its counts and sums are of exactly that hour.
    #[must_use]
    pub fn usual(&self) -> &T {
        &self.usual
    }

    /// Seconds since the history began.
    #[must_use]
    pub fn age(&self) -> u64 {
        self.pushed
    }
}

/// The sum of the steps of 10 s that are old enough.
fn usual<T: Step>(tens: &VecDeque<T>) -> T {
    merged(tens.iter().take(tens.len().saturating_sub(TOO_NEW)))
}

/// Keeps the last `most` of what came.
pub(super) fn push<T>(ring: &mut VecDeque<T>, last: T, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(last);
}

fn merged<'s, T: Step + 's>(steps: impl Iterator<Item = &'s T>) -> T {
    steps.fold(T::default(), |mut sum, step| {
        sum.merge(step);
        sum
    })
}
