//! What the charts show: a point for each snapshot, for five minutes. The same figures as on the page of `[admin]` (admin/page/history.js).

use std::collections::VecDeque;

use serde_json::Value;

use crate::status::table::{at, list};

/// Seconds that are kept.
pub(super) const SECONDS: u64 = 300;
/// A second snapshot that comes at once has counted too little for a rate.
const SHORTEST: f64 = 0.5;

/// The figures of one second; NaN: not measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Seconds since the first point, as the instances count them.
    second: u64,
    /// Requests that ended, per second.
    pub(super) rate: f64,
    /// 99 of 100 requests of the last 10 s took no longer, in seconds.
    pub(super) p99: f64,
    /// Requests that wait for a worker.
    pub(super) queue: f64,
    /// Requests with a 5xx, per second.
    pub(super) errors: f64,
}

/// The points, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Point>,
    before: Option<Totals>,
}

#[derive(Debug, Clone, PartialEq)]
struct Totals {
    pid: Value,
    started: Value,
    uptime: f64,
    requests: f64,
    errors: f64,
}

impl History {
    /// The next snapshot.
    pub(super) fn handle_snapshot(&mut self, snapshot: &Value) {
        let now = Totals::of(snapshot);
        let same_process =
            self.before.as_ref().filter(|then| (&then.pid, &then.started) == (&now.pid, &now.started));
        let passed = same_process.map(|then| now.uptime - then.uptime);
        if passed.is_some_and(|passed| passed < SHORTEST) {
            return;
        }
        let per_second = |now: f64, then: fn(&Totals) -> f64| match (same_process, passed) {
            (Some(before), Some(passed)) => (now - then(before)) / passed,
            _ => f64::NAN,
        };
        let last = self.points.back().map(|point| point.second);
        let step = passed.map_or(1, |passed| passed.round().max(1.0) as u64);
        let queues = list(at(snapshot, "/status/apps")).iter().filter_map(|app| at(app, "/queue").as_f64());
        let point = Point {
            second: last.map_or(0, |last| last.saturating_add(step)),
            rate: per_second(now.requests, |then| then.requests),
            p99: at(snapshot, "/now/p99_seconds").as_f64().unwrap_or(f64::NAN),
            queue: queues.sum(),
            errors: per_second(now.errors, |then| then.errors),
        };
        self.points.push_back(point);
        while self.points.front().is_some_and(|first| point.second - first.second >= SECONDS) {
            self.points.pop_front();
        }
        self.before = Some(now);
    }

    /// The newest point.
    pub(super) fn newest(&self) -> Option<&Point> {
        self.points.back()
    }

    /// The highest value of each part of the five minutes, divided into `parts`, the newest last; NaN: none was measured. A part begins at a multiple
    /// of its length, so that a value stays in its part from one second to the next.
    pub(super) fn highest(&self, parts: usize, value: fn(&Point) -> f64) -> Vec<f64> {
        let mut highest = vec![f64::NAN; parts];
        let (Some(newest), true) = (self.newest(), parts > 0) else { return highest };
        let length = SECONDS.div_ceil(parts as u64);
        for point in &self.points {
            let ago = newest.second / length - point.second / length;
            let place = usize::try_from(ago).ok().and_then(|ago| (parts - 1).checked_sub(ago));
            if let Some(most) = place.and_then(|place| highest.get_mut(place)) {
                // The larger, and the other one of NaN.
                *most = most.max(value(point));
            }
        }
        highest
    }
}

impl Totals {
    fn of(snapshot: &Value) -> Self {
        let sum = |path: &str| -> f64 {
            list(at(snapshot, "/routes")).iter().filter_map(|route| at(route, path).as_f64()).sum()
        };
        Self {
            pid: at(snapshot, "/status/pid").clone(),
            started: at(snapshot, "/status/started").clone(),
            uptime: at(snapshot, "/status/uptime_seconds").as_f64().unwrap_or(0.0),
            requests: sum("/requests/total"),
            errors: sum("/requests/5xx"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(pid: u32, uptime: f64, total: u32, failed: u32) -> Value {
        json!({
            "now": { "p99_seconds": 0.2 },
            "routes": [{ "requests": { "total": total, "5xx": failed } }, { "requests": { "total": 1, "5xx": 0 } }],
            "status": { "pid": pid, "started": "then", "uptime_seconds": uptime, "apps": [{ "queue": 2 }, { "queue": 3 }] },
        })
    }

    #[test]
    fn rates_are_differences_of_one_process() {
        let mut history = History::default();
        history.handle_snapshot(&snapshot(7, 10.0, 100, 5));
        let first = *history.newest().unwrap();
        assert!(first.rate.is_nan() && first.errors.is_nan());
        assert_eq!((first.p99, first.queue), (0.2, 5.0));
        history.handle_snapshot(&snapshot(7, 12.0, 150, 6));
        let second = *history.newest().unwrap();
        assert_eq!((second.rate, second.errors), (25.0, 0.5));
        history.handle_snapshot(&snapshot(7, 12.1, 160, 6));
        assert_eq!(*history.newest().unwrap(), second, "too soon for a rate");
        // Totals of another process begin at 0.
        history.handle_snapshot(&snapshot(8, 1.0, 3, 0));
        assert!(history.newest().unwrap().rate.is_nan());
        history.handle_snapshot(&snapshot(8, 2.0, 4, 0));
        assert_eq!(history.newest().unwrap().rate, 1.0);
    }

    #[test]
    fn five_minutes_are_kept_and_peaks_are_seen_in_few_columns() {
        let mut history = History::default();
        for second in 0..1000_u32 {
            // 100 in one second, 50 s ago.
            let total = second + if second >= 950 { 99 } else { 0 };
            history.handle_snapshot(&snapshot(7, second.into(), total, 0));
        }
        assert_eq!(history.points.len() as u64, SECONDS);
        for parts in [1, 7, 30, 300, 1000] {
            let rates = history.highest(parts, |point| point.rate);
            assert_eq!(rates.len(), parts);
            assert_eq!(rates.iter().copied().fold(f64::NAN, f64::max), 100.0, "{parts}");
        }
        let rates = history.highest(30, |point| point.rate);
        assert_eq!(rates.iter().position(|rate| *rate == 100.0), Some(25));
        assert!(history.highest(1000, |point| point.rate)[..700].iter().all(|rate| rate.is_nan()));
        assert!(history.highest(0, |point| point.rate).is_empty());
        assert!(History::default().highest(3, |point| point.rate).iter().all(|rate| rate.is_nan()));
    }

    #[test]
    fn seconds_without_a_snapshot_are_a_gap() {
        let mut history = History::default();
        for uptime in [0.0, 1.0, 41.0, 42.0] {
            history.handle_snapshot(&snapshot(7, uptime, uptime as u32, 0));
        }
        let queues = history.highest(300, |point| point.queue);
        let measured: Vec<usize> = (0..300).filter(|at| !queues[*at].is_nan()).collect();
        assert_eq!(measured, [257, 258, 298, 299]);
    }
}
