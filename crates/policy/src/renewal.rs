//! When a certificate is renewed, and when a failed order is repeated.
//!
//! The authority may suggest a window ("ARI", RFC 9773). Otherwise a certificate is renewed when a third of its lifetime is left, one of less than
//! ten days when half of it is left: the same fractions as Let's Encrypt recommends, so that certificates of 90, 45 and 6 days are all renewed with time for
//! several attempts. Times are wall-clock times, because those of a certificate are.

use std::time::{Duration, SystemTime};

use crate::backoff::fraction;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate with a shorter lifetime is renewed at half of it.
const SHORT_LIVED: Duration = Duration::from_secs(10 * 24 * 60 * 60);
/// Certificates that were issued together are renewed within a thirtieth of their lifetime of one another.
const SPREAD: u32 = 30;
/// Whatever the authority suggests, renewal begins with at least this part of the lifetime left: a twelfth.
const LATEST: u32 = 12;

/// Waits after a failed order. Let's Encrypt allows five failed validations of a name in an hour; these are four.
const WAITS: [Duration; 7] =
    [mul(MINUTE, 2), mul(MINUTE, 10), mul(MINUTE, 30), HOUR, mul(HOUR, 2), mul(HOUR, 4), mul(HOUR, 6)];
/// The shortest wait once several orders have failed, however soon the certificate expires.
const LEAST_WAIT: Duration = mul(MINUTE, 25);

/// How soon and how late the window is fetched again (RFC 9773 §4.3.2).
const POLL: (Duration, Duration) = (MINUTE, DAY);
/// The interval if the authority gives none.
const USUAL_POLL: Duration = mul(HOUR, 6);

const fn mul(duration: Duration, by: u32) -> Duration {
    match duration.checked_mul(by) {
        Some(product) => product,
        None => Duration::MAX,
    }
}

/// A span of wall-clock time: the validity of a certificate, or a window for its renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Its first moment.
    pub start: SystemTime,
    /// Its last moment.
    pub end: SystemTime,
}

impl Period {
    /// From its start to its end; zero if they are reversed.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.end.duration_since(self.start).unwrap_or_default()
    }
}

/// When to renew a certificate of this validity. `window` is the authority's suggestion; one that ends before it starts is ignored (RFC 9773 §4.2).
/// `random` is drawn once for each certificate.
#[must_use]
pub fn renewal_time(validity: Period, window: Option<Period>, random: u64) -> SystemTime {
    let lifetime = validity.length();
    let latest = before(validity.end, lifetime / LATEST);
    match window.filter(|window| window.end > window.start) {
        Some(window) => after(window.start, fraction(window.length(), random)).min(latest),
        None => {
            let left = if lifetime < SHORT_LIVED { lifetime / 2 } else { lifetime / 3 };
            after(before(validity.end, left), fraction(lifetime / SPREAD, random)).min(latest)
        }
    }
}

/// How long to wait after this many failed orders in a row, the present one included. `left`: until the certificate expires, zero without one. `told`:
/// the authority's `Retry-After`, which is never undercut.
#[must_use]
pub fn retry_wait(failures: u32, left: Duration, told: Option<Duration>, random: u64) -> Duration {
    let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
    let usual = WAITS.get(index).or(WAITS.last()).copied().unwrap_or(HOUR);
    // A certificate that expires soon is worth more attempts, as far as the authority's limits go.
    let urgent = (left / 4).max(LEAST_WAIT);
    let wait = if left.is_zero() || index == 0 { usual } else { usual.min(urgent) };
    // At most a tenth is added, so that names that failed together are not repeated together.
    let wait = wait + fraction(wait / 10, random);
    told.map_or(wait, |told| wait.max(told.min(mul(DAY, 7))))
}

/// How long to wait after this many attempts in a row that did not reach the authority: 10 s, doubled up to 10 minutes, since its limits do not count them.
#[must_use]
pub fn unreachable_wait(failures: u32, random: u64) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = mul(Duration::from_secs(10), doubled).min(mul(MINUTE, 10));
    wait + fraction(wait / 10, random)
}

/// When to fetch the window for renewal again. `told`: the authority's `Retry-After`.
#[must_use]
pub fn window_poll(told: Option<Duration>) -> Duration {
    told.map_or(USUAL_POLL, |told| told.clamp(POLL.0, POLL.1))
}

fn after(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_add(by).unwrap_or(time)
}

fn before(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_sub(by).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(days: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + mul(DAY, u32::try_from(days).unwrap())
    }

    fn period(start: u64, end: u64) -> Period {
        Period { start: at(start), end: at(end) }
    }

    #[test]
    fn certificates_of_every_lifetime_are_renewed_in_time() {
        for (lifetime, due) in [(398, 265), (90, 60), (45, 30), (10, 6), (6, 3), (1, 0)] {
            let early = renewal_time(period(1000, 1000 + lifetime), None, 0);
            let late = renewal_time(period(1000, 1000 + lifetime), None, u64::MAX);
            assert!(early >= at(1000 + due), "{lifetime} days: at the earliest after {due}");
            assert!(
                late < at(1000 + lifetime) - mul(DAY, 1) * u32::try_from(lifetime).unwrap() / 4,
                "{lifetime} days"
            );
            assert!(early < late, "they are spread");
        }
    }

    #[test]
    fn the_authoritys_window_comes_first() {
        let window = period(1010, 1012);
        assert_eq!(renewal_time(period(1000, 1090), Some(window), 0), at(1010));
        assert_eq!(renewal_time(period(1000, 1090), Some(window), u64::MAX), at(1012));
        assert_eq!(
            renewal_time(period(1000, 1090), Some(period(900, 901)), 0),
            at(900),
            "in the past: at once"
        );
        let reversed = period(1012, 1010);
        let usual = renewal_time(period(1000, 1090), None, 7);
        assert_eq!(renewal_time(period(1000, 1090), Some(reversed), 7), usual);
    }

    #[test]
    fn no_window_lets_a_certificate_expire() {
        let late = renewal_time(period(1000, 1012), Some(period(1020, 1030)), u64::MAX);
        assert_eq!(late, at(1011));
    }

    #[test]
    fn fewer_than_five_orders_fail_in_an_hour() {
        for left in [Duration::ZERO, MINUTE, HOUR, mul(DAY, 30)] {
            let mut now = Duration::ZERO;
            let mut failures = Vec::new();
            for count in 1..40 {
                failures.push(now);
                now += retry_wait(count, left, None, 0);
            }
            for start in &failures {
                let within = failures.iter().filter(|at| *at >= start && **at < *start + HOUR).count();
                assert!(within < 5, "{within} with {left:?} left");
            }
        }
    }

    #[test]
    fn waits_grow_to_six_hours_and_shrink_before_the_expiry() {
        let wait = |failures, left| retry_wait(failures, left, None, 0);
        assert_eq!(wait(1, Duration::ZERO), mul(MINUTE, 2));
        assert_eq!(wait(100, Duration::ZERO), mul(HOUR, 6));
        assert_eq!(wait(100, mul(DAY, 30)), mul(HOUR, 6));
        assert_eq!(wait(100, mul(HOUR, 4)), HOUR);
        assert_eq!(wait(100, MINUTE), LEAST_WAIT);
        assert_eq!(wait(0, Duration::ZERO), mul(MINUTE, 2));
    }

    #[test]
    fn the_authority_is_not_asked_before_its_time() {
        assert_eq!(retry_wait(1, Duration::ZERO, Some(HOUR), 0), HOUR);
        assert_eq!(retry_wait(1, Duration::ZERO, Some(MINUTE), 0), mul(MINUTE, 2));
        assert_eq!(
            retry_wait(1, Duration::ZERO, Some(Duration::MAX), 0),
            mul(DAY, 7),
            "a broken clock is no reason for ever"
        );
        assert_eq!(window_poll(None), mul(HOUR, 6));
        assert_eq!(window_poll(Some(Duration::ZERO)), MINUTE);
        assert_eq!(window_poll(Some(mul(DAY, 9))), DAY);
    }

    #[test]
    fn an_authority_that_is_down_is_tried_soon() {
        let waits: Vec<u64> = (0..12).map(|failures| unreachable_wait(failures, 0).as_secs()).collect();
        assert_eq!(waits, [10, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600]);
        assert_eq!(unreachable_wait(u32::MAX, 0).as_secs(), 600);
    }

    #[test]
    fn reversed_and_extreme_times_do_not_overflow() {
        let broken = Period { start: at(2000), end: at(1000) };
        assert_eq!(renewal_time(broken, None, u64::MAX), at(1000));
        assert_eq!(broken.length(), Duration::ZERO);
    }
}
