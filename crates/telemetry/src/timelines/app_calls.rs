//! What calls to upstreams cost each app, as far as they are known to be its: for `keepwarm why`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use super::calls::RequestCalls;
use super::lock;

/// Pairs of an app and an upstream that are counted. The configuration has fewer, but a forward proxy may have any number.
const PAIRS: usize = 4096;

/// Calls that an app has made to an upstream, as far as they are known to be its, for requests that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppCalls {
    /// How many.
    pub count: u64,
    /// The sum of their durations.
    pub time: Duration,
}

/// The name of an app, and of an upstream.
pub type AppUpstream = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct AppCallTotals(BTreeMap<AppUpstream, AppCalls>);

impl AppCallTotals {
    fn note(&mut self, app: &Arc<str>, calls: &RequestCalls) {
        for (upstream, &(count, time)) in &calls.by_upstream {
            let pair = (Arc::clone(app), Arc::clone(upstream));
            if self.0.len() >= PAIRS && !self.0.contains_key(&pair) {
                continue;
            }
            let sum = self.0.entry(pair).or_default();
            sum.count += u64::from(count);
            sum.time += time;
        }
    }
}

static APP_CALLS: LazyLock<Mutex<AppCallTotals>> = LazyLock::new(Mutex::default);

/// Counts the calls of a request of this app.
pub fn note_app_calls(app: &Arc<str>, calls: &RequestCalls) {
    lock(&APP_CALLS).note(app, calls);
}

/// The totals since the start.
#[must_use]
pub fn app_calls() -> Vec<(AppUpstream, AppCalls)> {
    lock(&APP_CALLS).0.iter().map(|(names, calls)| (names.clone(), *calls)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::calls::{Attribution, CallTimeline};
    use super::*;

    fn calls(upstreams: &[&str]) -> RequestCalls {
        let mut calls = RequestCalls::default();
        for upstream in upstreams {
            let call = CallTimeline::of_test(5, Instant::now());
            calls.add(Attribution::Trace, CallTimeline { upstream: (*upstream).into(), ..call });
        }
        calls
    }

    #[test]
    fn an_app_has_the_sums_of_its_requests() {
        let (mut totals, app) = (AppCallTotals::default(), Arc::from("shop"));
        for _ in 0..3 {
            totals.note(&app, &calls(&["search", "search", "mail"]));
        }
        let sum = |count, milliseconds| AppCalls { count, time: Duration::from_millis(milliseconds) };
        let of = |upstream: &str| totals.0[&(Arc::clone(&app), upstream.into())];
        assert_eq!((of("search"), of("mail"), totals.0.len()), (sum(6, 30), sum(3, 15), 2));
    }

    #[test]
    fn pairs_are_bounded_and_those_that_are_there_are_counted_on() {
        let (mut totals, app) = (AppCallTotals::default(), Arc::from("shop"));
        for number in 0..2 * PAIRS {
            totals.note(&app, &calls(&["search", &format!("host{number}")]));
        }
        assert_eq!(totals.0.len(), PAIRS);
        assert_eq!(totals.0[&(Arc::clone(&app), "search".into())].count, 2 * PAIRS as u64);
    }
}
