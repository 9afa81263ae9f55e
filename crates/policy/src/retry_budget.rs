//! How many requests may be given a second time.
//!
//! A retry doubles the load of a request that has just cost a worker: an app that dies of every request must not be killed twice as
//! fast. The budget follows Finagle's: each request earns a fraction of a retry, a small reserve covers quiet times.

/// A bucket of retries, filled by requests. In tenths of a retry.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    tenths: u32,
}

/// Tenths of a retry that a request earns: one retry in five requests.
const EARNED: u32 = 2;
/// Tenths that one retry costs.
const COST: u32 = 10;
/// The reserve at the start: ten retries.
const RESERVE: u32 = 100;
/// What can be saved up: a hundred retries.
const MOST: u32 = 1000;

impl Default for RetryBudget {
    fn default() -> Self {
        Self { tenths: RESERVE }
    }
}

impl RetryBudget {
    /// A request came.
    pub fn handle_request(&mut self) {
        self.tenths = (self.tenths + EARNED).min(MOST);
    }

    /// Whether one may be retried; if so, it is paid for.
    pub fn try_retry(&mut self) -> bool {
        let paid = self.tenths.checked_sub(COST);
        self.tenths = paid.unwrap_or(self.tenths);
        paid.is_some()
    }
}

#[cfg(test)]
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
    fn quiet_times_save_up_only_so_much() {
        let mut budget = RetryBudget::default();
        (0..1_000_000).for_each(|_| budget.handle_request());
        assert_eq!((0..1000).filter(|_| budget.try_retry()).count(), 100);
    }
}
