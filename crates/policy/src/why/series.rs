//! A bounded history: one step a second for five minutes, one of 10 s for an hour, one of 5 minutes for a day.

use std::collections::VecDeque;

/// Steps of a second that are kept: 5 minutes.
pub const SECONDS: usize = 300;
/// Steps of 10 seconds that are kept: an hour.
pub const TENS: usize = 360;
/// Steps of 5 minutes that are kept: a day.
pub const FIVES: usize = 288;
/// Steps of 10 seconds that are too new to be what is usual: an incident of the last minute must not be its own measure.
const TOO_NEW: usize = 6;

/// What happened in a step of a history.
pub trait Step: Clone + Default {
    /// Adds another step.
    fn merge(&mut self, other: &Self);
}

/// The history of one subject. It holds at most [`SECONDS`] + [`TENS`] + [`FIVES`] + 3 steps: 951.
#[derive(Debug, Default)]
pub struct Series<T> {
    seconds: VecDeque<T>,
    tens: VecDeque<T>,
    fives: VecDeque<T>,
    /// The steps that are not full yet.
    ten: T,
    five: T,
    /// The hour before the last minute; merged with each step of 10 s, not with each question.
    usual: T,
    pushed: u64,
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
            push(&mut self.tens, ten, TENS);
            let old = self.tens.len().saturating_sub(TOO_NEW);
            self.usual = merged(self.tens.iter().take(old));
        }
        if self.pushed.is_multiple_of(300) {
            push(&mut self.fives, std::mem::take(&mut self.five), FIVES);
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

    /// What is usual: the hour before the last minute.
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
