//! What active health checks say of an endpoint, and how one that has come back gets its load (HAProxy's `rise` and `fall`, Envoy's slow start).
//!
//! Before the first check an endpoint counts as up: calls are better tried than refused. The first result decides at once. Then [`HealthThresholds::fall`] failures in a row make it
//! down and [`HealthThresholds::rise`] successes in a row make it up again, so that one lost packet does not move load.
//!
//! Checks come each [`HealthThresholds::interval`], a tenth sooner or later at random, so that a fleet does not check in step; the first ones anywhere in the first interval, at most a second.
//! A check of an endpoint on its way from one state to the other comes at a quarter of the interval.

use std::time::{Duration, Instant};

use crate::backoff::fraction;

/// How often, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthThresholds {
    /// Between two checks.
    pub interval: Duration,
    /// Successes in a row that make it up. At least 1 counts.
    pub rise: u32,
    /// Failures in a row that make it down. At least 1 counts.
    pub fall: u32,
}

impl Default for HealthThresholds {
    /// HAProxy's numbers, at 5 s: it has 2 s, which for each of many hosts is much.
    fn default() -> Self {
        Self { interval: Duration::from_secs(5), rise: 2, fall: 3 }
    }
}

/// A change to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthChange {
    /// It responds again.
    Up,
    /// It does not.
    Down,
}

/// The health of one endpoint.
#[derive(Debug, Clone)]
pub struct HealthState {
    settings: HealthThresholds,
    up: bool,
    /// Whether any result came.
    known: bool,
    /// Results in a row that speak against the state.
    against: u32,
}

impl HealthState {
    /// Nothing is known.
    #[must_use]
    pub fn new(settings: HealthThresholds) -> Self {
        Self { settings, up: true, known: false, against: 0 }
    }

    /// Other numbers from now on.
    pub fn set_settings(&mut self, settings: HealthThresholds) {
        self.settings = settings;
    }

    /// A check has ended.
    pub fn handle_check(&mut self, success: bool) -> Option<HealthChange> {
        let first = !std::mem::replace(&mut self.known, true);
        if success == self.up {
            self.against = 0;
            return None;
        }
        self.against = self.against.saturating_add(1);
        let enough = if success { self.settings.rise } else { self.settings.fall };
        if !first && self.against < enough {
            return None;
        }
        self.up = success;
        self.against = 0;
        Some(if success { HealthChange::Up } else { HealthChange::Down })
    }

    /// Whether it may get calls.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Whether any check has ended.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// How long to wait until the next check.
    #[must_use]
    pub fn next_check(&self, random: u64) -> Duration {
        let interval = self.settings.interval;
        if !self.known {
            return fraction(interval.min(Duration::from_secs(1)), random);
        }
        let interval = if self.against > 0 { interval / 4 } else { interval };
        interval * 9 / 10 + fraction(interval / 5, random)
    }
}

/// What an endpoint bears at least, in thousandths of its weight: Envoy's 10 %. With nothing it would never warm up.
const FACTOR_MIN: u32 = 100;

/// How much of its weight an endpoint bears that came (or came back) at `since`, in thousandths: from a tenth up to all of it, in a straight line over `window`.
///
/// A server that has just started is slow: caches are cold, code is not compiled. `None`: it was there from the beginning.
#[must_use]
pub fn slow_start_factor(since: Option<Instant>, window: Duration, now: Instant) -> u32 {
    let Some(since) = since else { return 1000 };
    let elapsed = now.saturating_duration_since(since);
    if elapsed >= window {
        return 1000;
    }
    let part = elapsed.as_nanos() * u128::from(1000 - FACTOR_MIN) / window.as_nanos();
    FACTOR_MIN + u32::try_from(part).unwrap_or(0)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    #[test]
    fn the_first_check_decides_at_once_and_before_it_calls_are_tried() {
        let mut health = HealthState::new(HealthThresholds::default());
        assert!(health.is_up() && !health.is_known());
        assert_eq!(health.handle_check(false), Some(HealthChange::Down));
        let mut health = HealthState::new(HealthThresholds::default());
        assert_eq!(health.handle_check(true), None);
        assert!(health.is_up() && health.is_known());
        assert_eq!(health.handle_check(false), None, "from then on by thresholds");
    }

    #[test]
    fn only_results_in_a_row_change_the_state() {
        let mut health = HealthState::new(HealthThresholds::default());
        let results = [true, false, false, true, false, false, false, true, false, true, true, true];
        let changes: Vec<_> = results.map(|success| health.handle_check(success)).to_vec();
        let mut expected = vec![None; results.len()];
        expected[6] = Some(HealthChange::Down);
        expected[10] = Some(HealthChange::Up);
        assert_eq!(changes, expected);
    }

    #[test]
    fn thresholds_of_none_are_one() {
        let mut health =
            HealthState::new(HealthThresholds { rise: 0, fall: 0, ..HealthThresholds::default() });
        let _ = health.handle_check(true);
        assert_eq!(health.handle_check(false), Some(HealthChange::Down));
        assert_eq!(health.handle_check(true), Some(HealthChange::Up));
    }

    #[test]
    fn checks_are_spread_and_come_sooner_while_something_changes() {
        let mut health = HealthState::new(HealthThresholds::default());
        assert_eq!(
            (health.next_check(0), health.next_check(u64::MAX)),
            (Duration::ZERO, Duration::from_secs(1))
        );
        let _ = health.handle_check(true);
        let range = (health.next_check(0), health.next_check(u64::MAX));
        assert_eq!(range, (Duration::from_millis(4500), Duration::from_millis(5500)));
        let _ = health.handle_check(false);
        let range = (health.next_check(0), health.next_check(u64::MAX));
        assert_eq!(range, (Duration::from_millis(1125), Duration::from_millis(1375)));
    }

    #[test]
    fn warmth_rises_in_a_straight_line() {
        let (now, window) = (Instant::now(), Duration::from_secs(90));
        let after = |seconds| slow_start_factor(Some(now), window, now + Duration::from_secs(seconds));
        assert_eq!([0, 10, 45, 89, 90, 1000].map(after), [100, 200, 550, 990, 1000, 1000]);
        assert_eq!(slow_start_factor(None, window, now), 1000);
        assert_eq!(slow_start_factor(Some(now), Duration::ZERO, now), 1000, "off");
    }
}
