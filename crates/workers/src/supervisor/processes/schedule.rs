//! The times of a schedule.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use croner::Cron;
use jiff::Zoned;
use jiff::tz::TimeZone;

/// When a process runs.
#[derive(Clone, Debug)]
pub enum RunSchedule {
    /// Whenever the Unix time is a multiple of this, in whole seconds: restarts do not move the times, and two instances have the same.
    Every(Duration),
    /// A pattern of cron in the local time zone.
    Cron(Box<Cron>),
}

impl RunSchedule {
    /// A pattern of five fields, as the configuration has checked it.
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub fn cron(pattern: &str) -> Result<Self, String> {
        Cron::from_str(pattern).map(|cron| Self::Cron(Box::new(cron))).map_err(|error| error.to_string())
    }

    /// The first time after this one; `None`: there is none.
    pub(super) fn next_after(&self, time: SystemTime) -> Option<SystemTime> {
        self.next_in(time, &TimeZone::system())
    }

    fn next_in(&self, time: SystemTime, zone: &TimeZone) -> Option<SystemTime> {
        match self {
            Self::Every(interval) => {
                let interval = interval.as_secs().max(1);
                let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                let next = (seconds / interval).checked_add(1)?.checked_mul(interval)?;
                UNIX_EPOCH.checked_add(Duration::from_secs(next))
            }
            Self::Cron(cron) => {
                let time = jiff::Timestamp::try_from(time).ok()?;
                let next: Zoned = cron.find_next_occurrence(&time.to_zoned(zone.clone()), false).ok()?;
                Some(next.timestamp().into())
            }
        }
    }
}

impl PartialEq for RunSchedule {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Every(one), Self::Every(another)) => one == another,
            (Self::Cron(one), Self::Cron(another)) => one.as_str() == another.as_str(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SystemTime {
        text.parse::<jiff::Timestamp>().unwrap().into()
    }

    /// The European Union's rules, without a time zone database.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn times(schedule: &RunSchedule, from: &str, count: usize) -> Vec<String> {
        let mut time = at(from);
        (0..count)
            .map(|_| {
                time = schedule.next_in(time, &berlin()).unwrap();
                jiff::Timestamp::try_from(time).unwrap().to_string()
            })
            .collect()
    }

    #[test]
    fn intervals_are_multiples_of_the_unix_time() {
        let five = RunSchedule::Every(Duration::from_secs(300));
        assert_eq!(times(&five, "2026-11-27T12:03:59Z", 2), ["2026-11-27T12:05:00Z", "2026-11-27T12:10:00Z"]);
        assert_eq!(times(&five, "2026-11-27T12:05:00Z", 1), ["2026-11-27T12:10:00Z"]);
    }

    #[test]
    fn fields_are_in_local_time() {
        let daily = RunSchedule::cron("30 3 * * *").unwrap();
        assert_eq!(
            times(&daily, "2026-11-27T12:00:00Z", 2),
            ["2026-11-28T02:30:00Z", "2026-11-29T02:30:00Z"]
        );
        let mondays = RunSchedule::cron("0 9 * * 1").unwrap();
        assert_eq!(times(&mondays, "2026-11-27T12:00:00Z", 1), ["2026-11-30T08:00:00Z"]);
    }

    /// On 2026-03-29 02:00 is followed by 03:00, on 2026-10-25 03:00 by 02:00.
    #[test]
    fn a_fixed_time_runs_once_on_each_day_also_when_clocks_change() {
        let daily = RunSchedule::cron("30 2 * * *").unwrap();
        assert_eq!(
            times(&daily, "2026-03-28T12:00:00Z", 2),
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
            "right after the gap"
        );
        assert_eq!(
            times(&daily, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
            "at the first of the two"
        );
    }

    #[test]
    fn every_half_hour_runs_in_both_hours_when_clocks_are_set_back() {
        let half = RunSchedule::cron("*/30 * * * *").unwrap();
        assert_eq!(
            times(&half, "2026-10-24T23:59:00Z", 5),
            [
                "2026-10-25T00:00:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:00:00Z"
            ]
        );
    }
}
