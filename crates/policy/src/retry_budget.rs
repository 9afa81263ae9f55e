//! Retry budget: how many requests may be retried.
//!
//! A retry doubles the load of a request that has just cost a worker: an app that every request kills must not be killed twice as
//! fast. The budget follows Finagle's (`RetryBudget`): each request earns a fraction of a retry, a small reserve covers quiet times. An upstream's budget may have a floor
//! as well, a number of retries per second regardless of other calls: Finagle's `minRetriesPerSec`. Finagle forgets what was earned after some seconds; here it is bounded
//! instead, which needs no buckets.

use std::time::{Duration, Instant};

/// Settings of a [`RetryBudget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudgetSettings {
    /// Retries per hundred requests.
    pub percent: u32,
    /// Retries per second that need not be earned; also the limit at once.
    pub per_second: u32,
    /// Retries at the start.
    pub reserve: u32,
    /// Limit on earned retries.
    pub most: u32,
}

impl Default for RetryBudgetSettings {
    /// One in five, ten a second (Finagle's).
    fn default() -> Self {
        Self { percent: 20, per_second: 10, reserve: 0, most: 100 }
    }
}

/// The budget of workers, without a floor, since each retry may cost a worker.
const WORKERS: RetryBudgetSettings =
    RetryBudgetSettings { percent: 20, per_second: 0, reserve: 10, most: 100 };
/// Hundredths that one retry costs.
const COST: u32 = 100;

/// A bucket of retries, filled by requests, and one filled by time.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    settings: RetryBudgetSettings,
    /// In hundredths of a retry.
    earned: u32,
    /// When the floor's bucket is full again; `None`: it is.
    full_at: Option<Instant>,
}

impl Default for RetryBudget {
    /// The budget of an app's workers.
    fn default() -> Self {
        Self::new(WORKERS)
    }
}

impl RetryBudget {
    /// A budget with its reserve.
    #[must_use]
    pub fn new(settings: RetryBudgetSettings) -> Self {
        Self { settings, earned: settings.reserve.saturating_mul(COST), full_at: None }
    }

    /// Changes the settings.
    pub fn set_settings(&mut self, settings: RetryBudgetSettings) {
        self.settings = settings;
        self.earned = self.earned.min(settings.most.saturating_mul(COST));
    }

    /// A request came.
    pub fn handle_request(&mut self) {
        let most = self.settings.most.saturating_mul(COST);
        self.earned = self.earned.saturating_add(self.settings.percent).min(most);
    }

    /// Takes a retry from the budget, without the floor; `false` if there is none.
    pub fn try_retry(&mut self) -> bool {
        let paid = self.earned.checked_sub(COST);
        self.earned = paid.unwrap_or(self.earned);
        paid.is_some()
    }

    /// Takes a retry from the earned ones, else from the floor; `false` if there is none.
    pub fn try_retry_at(&mut self, now: Instant) -> bool {
        self.try_retry() || self.try_floor(now)
    }

    /// A bucket that holds what flows into it in a second.
    fn try_floor(&mut self, now: Instant) -> bool {
        let Some(each) = Duration::from_secs(1).checked_div(self.settings.per_second) else { return false };
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + each;
        let fits = full_at <= now + Duration::from_secs(1);
        if fits {
            self.full_at = Some(full_at);
        }
        fits
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_then_one_in_five() {
        let mut budget = RetryBudget::default();
        assert_eq!((0..50).filter(|_| budget.try_retry()).count(), 10);
        let retried = (0..100)
            .filter(|_| {
                budget.handle_request();
                budget.try_retry()
            })
            .count();
        assert_eq!(retried, 20);
    }

    #[test]
    fn earned_retries_are_bounded() {
        let mut budget = RetryBudget::default();
        (0..1_000_000).for_each(|_| budget.handle_request());
        assert_eq!((0..1000).filter(|_| budget.try_retry()).count(), 100);
    }

    #[test]
    fn the_floor_needs_no_requests_and_saves_up_a_second_of_itself() {
        let (mut budget, mut now) = (RetryBudget::new(RetryBudgetSettings::default()), Instant::now());
        for _ in 0..3 {
            assert_eq!((0..50).filter(|_| budget.try_retry_at(now)).count(), 10);
            now += Duration::from_secs(60);
        }
        while budget.try_retry_at(now) {}
        let over_ten_seconds = (0..1000).filter(|_| {
            now += Duration::from_millis(10);
            budget.try_retry_at(now)
        });
        assert_eq!(over_ten_seconds.count(), 100);
    }

    #[test]
    fn a_floor_of_none_gives_none_and_an_upstream_that_fails_everything_gets_a_fifth_more() {
        let settings = RetryBudgetSettings { per_second: 0, ..RetryBudgetSettings::default() };
        let (mut budget, now) = (RetryBudget::new(settings), Instant::now());
        let retried = (0..100_000).filter(|_| {
            budget.handle_request();
            budget.try_retry_at(now)
        });
        assert_eq!(retried.count(), 20_000);
        budget.set_settings(RetryBudgetSettings { percent: 0, ..settings });
        (0..100).for_each(|_| budget.handle_request());
        assert!(!budget.try_retry_at(now));
    }
}
