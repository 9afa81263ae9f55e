//! From which duration on the requests of a route are slow, where nobody has said so (`slow_log`).
//!
//! What 99 of 100 of its requests usually take (the hour before the last minute, as in `keepwarm why`), so that what was always slow does not hide what has become
//! slow. Never below [`LEAST`] and never above [`MOST`]: an incident that lasts an hour is usual by then, and still slow.

use std::time::Duration;

use keepwarm_policy::why::{AppHistory, Times, Why};
use keepwarm_telemetry::meters::{RouteMeter, SLOW};
use keepwarm_workers::dispatch::Links;

/// Below it a person notices no delay (Nielsen, "Response Times: The 3 Important Limits").
const LEAST: Duration = Duration::from_millis(100);
/// Above it a person's train of thought is interrupted (the same).
const MOST: Duration = SLOW;
/// Requests that a usual duration has to be of. With fewer, 99 of 100 are all of them.
const ENOUGH: u64 = 100;

/// Sets it for the requests of each route from now on.
pub(crate) fn set_slow(meters: &[&'static RouteMeter], links: &Links, why: &Why) {
    for meter in meters.iter().filter(|meter| !meter.app.is_empty()) {
        let history = why.apps().get(&*meter.app);
        let usual = history.and_then(|history: &AppHistory| history.routes.get(&*meter.route));
        let slow_log = links.app(&meter.app).and_then(|app| app.slow_log());
        let usual = usual.map(|series| &series.usual().times);
        meter.set_slow(slow_from(slow_log, usual));
        meter.set_unusual(slow_from(None, usual));
    }
}

fn slow_from(slow_log: Option<Duration>, usual: Option<&Times>) -> Duration {
    if let Some(slow_log) = slow_log {
        return slow_log;
    }
    let usual = usual.filter(|times| times.count() >= ENOUGH).and_then(|times| times.quantile(990));
    usual.map_or(MOST, |usual| usual.clamp(LEAST, MOST))
}

#[cfg(test)]
mod tests {
    use keepwarm_policy::why::BOUNDS_US;

    use super::*;

    /// By bucket, the number of requests.
    fn times(requests: &[(usize, u32)]) -> Times {
        let mut times = Times::default();
        for (bucket, count) in requests {
            times.counts[*bucket] += count;
        }
        times
    }

    fn bucket(milliseconds: u64) -> usize {
        BOUNDS_US.iter().position(|bound| *bound == milliseconds * 1000).unwrap()
    }

    #[test]
    fn the_configured_duration_is_taken_as_it_is() {
        let usual = times(&[(bucket(10), 1000)]);
        for configured in [Duration::from_millis(5), Duration::from_secs(20)] {
            assert_eq!(slow_from(Some(configured), Some(&usual)), configured);
        }
    }

    #[test]
    fn else_it_is_what_99_of_100_usually_take_within_limits() {
        let slow = |requests: &[(usize, u32)]| slow_from(None, Some(&times(requests))).as_millis();
        assert_eq!(slow(&[(bucket(250), 1000)]), 248, "interpolated within its bucket");
        assert_eq!(slow(&[(bucket(1), 1000)]), 100, "nobody notices less");
        assert_eq!(slow(&[(bucket(30_000), 1000)]), 1000, "an incident of an hour is still slow");
        assert_eq!(slow(&[(bucket(1), 990), (bucket(10_000), 10)]), 100);
    }

    #[test]
    fn few_requests_say_nothing_about_what_is_usual() {
        assert_eq!(slow_from(None, Some(&times(&[(bucket(1), 99)]))), Duration::from_secs(1));
        assert_eq!(slow_from(None, None), Duration::from_secs(1));
    }
}
