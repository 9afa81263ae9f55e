//! Adds up what requests have left behind, by route, and decides what of it is kept.
//!
//! The first requests of a route fill caches and load code: they are left out. Whatever grows in more than half of the others, and altogether, is kept. A single
//! request can leave something that the next one replaces; a route that keeps something does so again and again.
//!
//! A framework may keep its last request until the next, of whatever route: a route then seems to add each time what the others take away. So what a route is
//! said to keep must have grown in all routes together, too.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use keepwarm_workers::dispatch::Measurement;
use serde_json::{Value, json};

/// Requests of a route, at each worker, that are left out.
const WARM_UP: u32 = 3;
/// Further requests of a route from which something can be told. The number is arbitrary: with fewer, chance looks like a leak.
pub(super) const ENOUGH: u32 = 5;
/// Bytes that a request must keep on average: less is noise of an allocator.
const BYTES: i64 = 100;
/// Routes; a configuration has fewer, but a method may be any word.
const ROUTES: usize = 500;
/// Names of a route. With names of 512 bytes, 10 MiB for each.
const NAMES: usize = 10_000;
/// Names of all routes together: 25 MiB.
const ALL_NAMES: usize = 50_000;

/// What came of all requests.
#[derive(Debug, Default)]
pub(super) struct Totals {
    routes: BTreeMap<String, Route>,
    /// By name: its changes in the requests of every route, also those that are left out there, but for the first ones of each worker.
    all: HashMap<String, i64>,
    /// Requests by the process id of their worker, of whatever route, up to [`WARM_UP`].
    warm: HashMap<u32, u32>,
    pub(super) requests: u32,
    time: Duration,
    /// Routes or names for which there was no room.
    pub(super) dropped: u64,
}

#[derive(Debug, Default)]
struct Route {
    requests: u32,
    /// Those that are not left out.
    counted: u32,
    /// Requests by the process id of their worker, up to [`WARM_UP`].
    warm: HashMap<u32, u32>,
    names: HashMap<String, Sum>,
    /// By name: what its requests that are left out have added to that of all.
    early: HashMap<String, i64>,
    /// How many those are.
    early_requests: u32,
}

/// The changes of one name.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    total: i64,
    /// Requests in which it has grown.
    grew: u32,
}

impl Totals {
    /// Adds what a request at the worker with this process id has left behind.
    pub(super) fn add(&mut self, worker: u32, measurement: Measurement) {
        self.requests += 1;
        self.time += measurement.time;
        let is_in_all = self.add_other(worker, &measurement);
        if self.routes.len() >= ROUTES && !self.routes.contains_key(&measurement.route) {
            self.dropped += 1;
            return;
        }
        let route = self.routes.entry(measurement.route).or_default();
        route.requests += 1;
        if is_warming(&mut route.warm, worker) {
            route.early_requests += u32::from(is_in_all);
            for (name, change) in measurement.changes.iter().filter(|_| is_in_all) {
                add_within(&mut route.early, name, *change, NAMES);
            }
            return;
        }
        route.counted += 1;
        for (name, change) in measurement.changes {
            let has_room = route.names.len() < NAMES;
            match route.names.get_mut(&name) {
                Some(sum) => sum.add(change),
                None if has_room => route.names.entry(name).or_default().add(change),
                None => self.dropped += 1,
            }
        }
    }

    /// What a route keeps, each time that it has had this number of requests.
    pub(super) fn every(&self, requests: u32, route: &str) -> Option<Value> {
        let known = self.routes.get(route)?;
        known.requests.is_multiple_of(requests).then(|| known.json(route, &self.all))
    }

    /// Adds what a request of a route that is not reported has left behind: it may have taken away what one of another has added. False: it is one of the first.
    pub(super) fn add_other(&mut self, worker: u32, measurement: &Measurement) -> bool {
        if is_warming(&mut self.warm, worker) {
            return false;
        }
        for (name, change) in &measurement.changes {
            add_within(&mut self.all, name, *change, ALL_NAMES);
        }
        true
    }

    /// Whether there is a route of which something can be told.
    #[cfg(test)]
    fn has_verdict(&self) -> bool {
        self.routes.values().any(|route| route.counted >= ENOUGH)
    }

    /// How long a measurement took on average.
    pub(super) fn mean_time(&self) -> Duration {
        self.time / self.requests.max(1)
    }

    /// What each route keeps.
    pub(super) fn json(&self) -> Vec<Value> {
        self.routes.iter().map(|(name, route)| route.json(name, &self.all)).collect()
    }
}

impl Sum {
    fn add(&mut self, change: i64) {
        self.total = self.total.saturating_add(change);
        self.grew += u32::from(change > 0);
    }
}

impl Route {
    fn json(&self, name: &str, all: &HashMap<String, i64>) -> Value {
        let kept: Vec<Value> = self
            .kept(all)
            .into_iter()
            .map(|(name, sum)| {
                let (form, what) = name.split_once(';').unwrap_or((name, ""));
                json!({ "form": form, "name": what, "total": sum.total, "grew": sum.grew })
            })
            .collect();
        let enough = self.counted >= ENOUGH;
        json!({ "route": name, "requests": self.requests, "counted": self.counted, "enough": enough, "kept": kept })
    }

    /// The names that grow, the largest of each form first. `all`: the changes of all routes.
    fn kept(&self, all: &HashMap<String, i64>) -> Vec<(&str, Sum)> {
        if self.counted < ENOUGH {
            return Vec::new();
        }
        let names = self.names.iter().filter(|(_, sum)| 2 * sum.grew > self.counted);
        let rest = names.filter_map(|(name, sum)| Some((name.as_str(), self.rest(name, *sum, all)?)));
        let grows = |(name, sum): &(&str, Sum)| {
            let is_bytes = *name == "memory" || name.starts_with("made;");
            sum.total >= if is_bytes { BYTES.saturating_mul(self.counted.into()) } else { 1 }
        };
        let mut kept: Vec<(&str, Sum)> = rest.filter(grows).collect();
        kept.sort_by_key(|(name, sum)| (form_order(name), std::cmp::Reverse(sum.total), *name));
        kept
    }

    /// What is left of a name's growth when all routes are taken together. None: no more than a request or two add, which the next may take away.
    fn rest(&self, name: &str, sum: Sum, all: &HashMap<String, i64>) -> Option<Sum> {
        let Some(all) = all.get(name).copied() else { return Some(sum) }; // no room for it: nothing is known of the others
        let (counted, early) = (i64::from(self.counted), i64::from(self.early_requests));
        let each = sum.total.saturating_add(counted - 1) / counted.max(1);
        // Of the requests that are left out, as much as if they were like the others: the rest has filled caches.
        let filled =
            self.early.get(name).map_or(0, |change| change.saturating_sub(each.saturating_mul(early)).max(0));
        let left = all.saturating_sub(filled).saturating_mul(counted) / (counted + early).max(1);
        (left >= each.saturating_mul(2)).then_some(Sum { total: sum.total.min(left), ..sum })
    }
}

/// Counts a request of this worker; whether it is one of the first.
fn is_warming(warm: &mut HashMap<u32, u32>, worker: u32) -> bool {
    let requests = warm.entry(worker).or_default();
    let is_first = *requests < WARM_UP;
    *requests += u32::from(is_first);
    is_first
}

/// Adds a change to that of its name, if there is room for it.
fn add_within(sums: &mut HashMap<String, i64>, name: &str, change: i64, limit: usize) {
    if let Some(sum) = sums.get_mut(name) {
        *sum = sum.saturating_add(change);
    } else if sums.len() < limit {
        sums.insert(name.to_owned(), change);
    }
}

/// What a person wants to know first.
fn form_order(name: &str) -> usize {
    const ORDER: [&str; 4] = ["held;", "object;", "memory", "made;"];
    ORDER.iter().position(|form| name.starts_with(form)).unwrap_or(ORDER.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(route: &str, changes: &[(&str, i64)]) -> Measurement {
        let changes = changes.iter().map(|(name, change)| ((*name).to_owned(), *change)).collect();
        Measurement { route: route.to_owned(), time: Duration::from_millis(2), changes }
    }

    fn kept(totals: &Totals, route: &str) -> Vec<(String, i64, u32)> {
        let kept = totals.routes[route].kept(&totals.all);
        kept.into_iter().map(|(name, sum)| (name.to_owned(), sum.total, sum.grew)).collect()
    }

    #[test]
    fn the_first_requests_of_a_route_at_each_worker_are_left_out() {
        let mut totals = Totals::default();
        for worker in [7, 8] {
            for turn in 0..10 {
                let change = if turn < 3 { 1_000 } else { 1 };
                totals.add(worker, measurement("GET /cart", &[("held;shop.cache", change)]));
            }
        }
        assert_eq!(kept(&totals, "GET /cart"), [("held;shop.cache".to_owned(), 14, 14)]);
        assert_eq!((totals.requests, totals.routes["GET /cart"].counted), (20, 14));
    }

    #[test]
    fn what_grows_in_more_than_half_of_the_requests_is_kept() {
        let mut totals = Totals::default();
        for turn in 0..3 + 10 {
            let mut changes = vec![("object;Item", 1)];
            changes.extend((turn % 2 == 0).then_some(("object;Half", 2)));
            changes.push(("object;Up and down", if turn % 3 == 0 { -10 } else { 1 }));
            changes.push(("object;Replaced", if turn % 2 == 0 { 5 } else { -5 }));
            totals.add(1, measurement("GET /", &changes));
        }
        assert_eq!(kept(&totals, "GET /"), [("object;Item".to_owned(), 10, 10)]);
    }

    /// As Symfony keeps the request of its last exception.
    #[test]
    fn what_a_route_adds_and_the_others_take_away_is_not_kept() {
        let mut totals = Totals::default();
        for _ in 0..3 + 10 {
            totals.add(1, measurement("GET /missing", &[("object;Request", 3), ("held;cache", 1)]));
            totals.add(1, measurement("GET /", &[("object;Request", -3)]));
        }
        assert_eq!(kept(&totals, "GET /missing"), [("held;cache".to_owned(), 10, 10)]);
        assert_eq!(kept(&totals, "GET /"), []);
    }

    /// As a leak of one object in a framework that keeps its last two as well.
    #[test]
    fn of_what_is_added_and_taken_away_the_rest_is_kept() {
        let mut totals = Totals::default();
        for _ in 0..3 + 10 {
            totals.add(1, measurement("GET /cart", &[("object;Item", 3)]));
            totals.add(1, measurement("GET /", &[("object;Item", -2)]));
        }
        // 10, less what the other route took away at the end.
        assert_eq!(kept(&totals, "GET /cart"), [("object;Item".to_owned(), 8, 10)]);
    }

    #[test]
    fn what_fills_caches_does_not_count_as_kept() {
        let mut totals = Totals::default();
        for turn in 0..3 + 10 {
            totals.add(1, measurement("GET /cart", &[("object;Item", if turn < 3 { 1_000 } else { 3 })]));
            totals.add(1, measurement("GET /", &[("object;Item", -3)]));
        }
        assert_eq!(kept(&totals, "GET /cart"), []);
    }

    #[test]
    fn routes_that_are_not_reported_take_away_too() {
        let mut totals = Totals::default();
        for _ in 0..3 + 10 {
            totals.add(1, measurement("GET /missing", &[("object;Request", 3), ("held;cache", 1)]));
            totals.add_other(1, &measurement("GET /", &[("object;Request", -3), ("held;cache", 1)]));
        }
        assert_eq!(kept(&totals, "GET /missing"), [("held;cache".to_owned(), 10, 10)]);
    }

    /// In the first requests, a worker loses what its start has left.
    #[test]
    fn what_goes_at_the_start_does_not_hide_what_is_kept() {
        let mut totals = Totals::default();
        for turn in 0..3 + 10 {
            totals.add(1, measurement("GET /", &[("object;String", if turn == 0 { -100 } else { 0 })]));
            totals.add(1, measurement("GET /cart", &[("object;String", 1)]));
        }
        assert_eq!(kept(&totals, "GET /cart"), [("object;String".to_owned(), 10, 10)]);
    }

    #[test]
    fn a_few_bytes_are_noise() {
        let mut totals = Totals::default();
        for _ in 0..3 + 10 {
            totals.add(1, measurement("GET /", &[("memory", 99), ("made;a.py:1", 99), ("made;a.py:2", 100)]));
        }
        assert_eq!(kept(&totals, "GET /"), [("made;a.py:2".to_owned(), 1_000, 10)]);
    }

    #[test]
    fn of_few_requests_nothing_is_told() {
        let mut totals = Totals::default();
        for turn in 1..=WARM_UP + ENOUGH {
            assert!(!totals.has_verdict(), "after {} requests", turn - 1);
            totals.add(1, measurement("GET /", &[("held;x", 1)]));
            assert_eq!(totals.routes["GET /"].kept(&totals.all).is_empty(), turn < WARM_UP + ENOUGH);
        }
        assert!(totals.has_verdict());
    }

    #[test]
    fn forms_stand_in_the_order_in_which_they_say_most() {
        let mut totals = Totals::default();
        let changes =
            [("made;a.py:1", 500), ("memory", 900), ("object;B", 1), ("object;A", 2), ("held;x", 1)];
        (0..10).for_each(|_| totals.add(1, measurement("GET /", &changes)));
        let names: Vec<String> = kept(&totals, "GET /").into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["held;x", "object;A", "object;B", "memory", "made;a.py:1"]);
    }

    #[test]
    fn routes_and_names_are_bounded() {
        let mut totals = Totals::default();
        for number in 0..ROUTES + 10 {
            totals.add(1, measurement(&format!("M{number} /"), &[]));
        }
        assert_eq!((totals.routes.len(), totals.dropped), (ROUTES, 10));
        for number in 0..200_u64 {
            let names: Vec<String> = (0..100).map(|name| format!("held;{number}.{name}")).collect();
            let changes: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
            totals.add(1, measurement("M1 /", &changes));
        }
        assert_eq!(totals.routes["M1 /"].names.len(), NAMES);
        assert!(totals.dropped > 9_000);
    }
}
