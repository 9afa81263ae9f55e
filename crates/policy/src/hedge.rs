//! Hedging: a slow call gets a second attempt, and the first response wins (Dean, Barroso, *The Tail at Scale*, 2013).
//!
//! For idempotent calls only, whose body can be sent twice. The second attempt goes out when the first takes longer than most recent calls (a percentile), or after a
//! fixed time; to another endpoint if there is one. A budget bounds the cost: when the whole upstream becomes slow, every call is late, and second attempts would make it
//! slower still. The percentile alone is a bound only while nothing changes.

use std::time::{Duration, Instant};

use crate::digest::Digest;
use crate::{RetryBudget, RetryBudgetSettings};

/// Delay of the second attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeDelay {
    /// HedgeDelay this time.
    Fixed(Duration),
    /// A quantile of recent calls, in thousandths.
    Quantile(u32),
}

/// Settings of a [`Hedge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HedgeSettings {
    /// The delay.
    pub after: HedgeDelay,
    /// Lower bound of a quantile: a second attempt of a very quick call gains nothing.
    pub least: Duration,
    /// Second attempts for a hundred calls.
    pub percent: u32,
}

impl Default for HedgeSettings {
    /// The paper's: beyond the 95th percentile, 5 % more calls.
    fn default() -> Self {
        Self { after: HedgeDelay::Quantile(950), least: Duration::from_millis(2), percent: 5 }
    }
}

/// Samples before a quantile is used.
const SAMPLES_MIN: u32 = 100;
/// Responses between two computations of the quantile: it moves slowly, and costs a pass over the histogram.
const REFRESH_INTERVAL: u32 = 32;

/// Decides for the calls of one upstream. Order of calls: [`Hedge::handle_call`] for each; when its delay has passed, [`Hedge::try_send`]; with the response to a first attempt,
/// [`Hedge::handle_response`].
#[derive(Debug, Clone)]
pub struct Hedge {
    settings: HedgeSettings,
    digest: Digest,
    budget: RetryBudget,
    responses: u32,
    /// The last computed quantile.
    delay: Option<Duration>,
}

impl Hedge {
    /// Without samples.
    #[must_use]
    pub fn new(settings: HedgeSettings) -> Self {
        Self {
            settings,
            digest: Digest::default(),
            budget: RetryBudget::new(budget(settings)),
            responses: 0,
            delay: None,
        }
    }

    /// Changes the settings.
    pub fn set_settings(&mut self, settings: HedgeSettings) {
        self.budget.set_settings(budget(settings));
        self.settings = settings;
        self.responses = 0;
    }

    /// A call begins. Returns when its second attempt may go out; `None`: there is none. `repeatable`: idempotent, and its body can be sent twice.
    pub fn handle_call(&mut self, repeatable: bool, now: Instant) -> Option<Instant> {
        self.budget.handle_request();
        let delay = match self.settings.after {
            _ if !repeatable => None,
            HedgeDelay::Fixed(delay) => Some(delay),
            HedgeDelay::Quantile(_) => self.delay,
        };
        now.checked_add(delay?)
    }

    /// The delay has passed and no response has begun. Returns whether the second attempt goes out, and takes it from the budget.
    pub fn try_send(&mut self) -> bool {
        self.budget.try_retry()
    }

    /// The response to a first attempt began after this time; if the second was quicker, or neither came, the time of the first until then.
    pub fn handle_response(&mut self, took: Duration) {
        let HedgeDelay::Quantile(thousandths) = self.settings.after else { return };
        self.digest.add(took);
        if self.responses.is_multiple_of(REFRESH_INTERVAL) {
            let known = self.digest.total() >= SAMPLES_MIN;
            let quantile = self.digest.quantile(thousandths).filter(|_| known);
            self.delay = quantile.map(|delay| delay.max(self.settings.least));
        }
        self.responses = self.responses.wrapping_add(1);
    }
}

fn budget(settings: HedgeSettings) -> RetryBudgetSettings {
    RetryBudgetSettings { percent: settings.percent, per_second: 0, reserve: 1, most: 10 }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn a_fixed_time_needs_no_history_and_others_are_not_repeated() {
        let mut hedge =
            Hedge::new(HedgeSettings { after: HedgeDelay::Fixed(50 * MILLI), ..HedgeSettings::default() });
        let now = Instant::now();
        assert_eq!(hedge.handle_call(true, now), Some(now + 50 * MILLI));
        assert_eq!(hedge.handle_call(false, now), None);
    }

    #[test]
    fn a_percentile_needs_enough_samples_and_then_follows_them() {
        let (mut hedge, now) = (Hedge::new(HedgeSettings::default()), Instant::now());
        for _ in 0..SAMPLES_MIN - 1 {
            assert_eq!(hedge.handle_call(true, now), None);
            hedge.handle_response(10 * MILLI);
        }
        for at in 0..10_000 {
            hedge.handle_response(if at % 10 == 0 { 100 * MILLI } else { 10 * MILLI });
        }
        let delay = hedge.handle_call(true, now).unwrap() - now;
        assert!((100 * MILLI..115 * MILLI).contains(&delay), "{delay:?}");
        (0..50_000).for_each(|_| hedge.handle_response(MILLI / 10));
        assert_eq!(hedge.handle_call(true, now), Some(now + 2 * MILLI), "never sooner");
    }

    /// The upstream becomes ten times slower: every call is late, and few are made twice.
    #[test]
    fn the_budget_bounds_second_attempts_to_a_slow_upstream() {
        let (mut hedge, mut rng, now) = (Hedge::new(HedgeSettings::default()), Rng::new(5), Instant::now());
        let mut sent = 0;
        for call in 0..20_000 {
            let slow = if call < 10_000 { 1 } else { 10 };
            let took = Duration::from_micros((1_000 + rng.below(9_000)) * slow);
            let due = hedge.handle_call(true, now);
            if due.is_some_and(|due| now + took > due) && hedge.try_send() {
                sent += 1;
            }
            hedge.handle_response(took);
        }
        assert!((200..=1010).contains(&sent), "{sent}");
    }
}
