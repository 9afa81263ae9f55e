//! An upstream that fails or is slow.

use std::sync::Arc;
use std::time::Duration;

use super::{WINDOW, percent, time};
use crate::why::catalog::{UPSTREAM_FAILING, UPSTREAM_SLOW};
use crate::why::history::UpstreamHistory;
use crate::why::{AppCallSample, Finding, Subject, Why};

const CALLS_MIN: u64 = 5;
/// Calls of the hour before, from which a mean is usual.
const USUAL_MIN: u64 = 50;
const WITHOUT_HISTORY: Duration = Duration::from_secs(1);
/// Seconds without any end of a call.
const STALLED: usize = 4;
/// Seconds without an endpoint that takes calls.
const UNAVAILABLE: u64 = 5;

pub(super) fn finding(why: &Why, name: &Arc<str>, history: &UpstreamHistory) -> Option<Finding> {
    // A call that times out is slow and fails: the failure says more.
    failing(why.now, name, history).or_else(|| slow(why, name, history))
}

fn failing(now: u64, name: &Arc<str>, history: &UpstreamHistory) -> Option<Finding> {
    let recent = history.series.recent(WINDOW);
    let calls = recent.calls.count();
    let share = f64::from(recent.failed) / calls.max(1) as f64;
    let is_open = history.open.is_some_and(|open| open + WINDOW as u64 > now);
    let fails = calls >= CALLS_MIN && share >= 0.2;
    let evidence = if fails {
        format!(
            "{} of the calls to upstream \"{name}\" failed in the last {WINDOW} s ({} of {calls})",
            percent(share),
            recent.failed
        )
    } else if history.unavailable >= UNAVAILABLE {
        format!("none of the {} endpoints of upstream \"{name}\" takes calls", history.endpoints)
    } else if is_open {
        format!("the breaker of upstream \"{name}\" is open: its calls are refused")
    } else {
        return None;
    };
    let figures =
        [("calls", calls as f64), ("failed_share", share), ("endpoints_available", history.available.into())];
    Some(Finding::new(&UPSTREAM_FAILING, Subject::upstream(name), evidence, &figures))
}

fn slow(why: &Why, name: &Arc<str>, history: &UpstreamHistory) -> Option<Finding> {
    let (recent, usual) = (history.series.recent(WINDOW), history.series.usual());
    let (now, before) = (recent.calls.mean(), usual.calls.mean());
    let knows = usual.calls.count() >= USUAL_MIN;
    let limit = match knows {
        true => (before * 3).max(before + Duration::from_millis(100)),
        false => WITHOUT_HISTORY,
    };
    let figures = [
        ("mean_seconds", now.as_secs_f64()),
        ("usual_mean_seconds", before.as_secs_f64()),
        ("in_flight", recent.in_flight.into()),
    ];
    if recent.calls.count() >= CALLS_MIN && now >= limit {
        let usually = if knows { format!(", usually {}", time(before)) } else { String::new() };
        let evidence = match share_of_only_app(why, recent.calls.sum_us) {
            Some(share) => format!(
                "{} of the time is spent in calls to upstream \"{name}\": {} each{usually}",
                percent(share),
                time(now)
            ),
            None => format!(
                "calls to upstream \"{name}\" take {}{usually}{}",
                time(now),
                known_shares(why, history)
            ),
        };
        return Some(Finding::new(&UPSTREAM_SLOW, Subject::upstream(name), evidence, &figures));
    }
    let last = history.series.last(STALLED);
    let stalled = history.series.age() >= STALLED as u64
        && last.into_iter().all(|second| second.in_flight >= 2 && second.calls.count() == 0);
    (stalled && why.apps.values().any(super::is_queueing_lately)).then(|| {
        let evidence = format!(
            "{} calls to upstream \"{name}\" are in flight and none has ended for {STALLED} s, while requests wait for a worker",
            history.series.recent(1).in_flight
        );
        Finding::new(&UPSTREAM_SLOW, Subject::upstream(name), evidence, &figures)
    })
}

/// The share of calls in the time of the app, where there is one app only: then all calls are its. Calls at once may take longer than the requests that made them.
fn share_of_only_app(why: &Why, calls_us: u64) -> Option<f64> {
    let mut apps = why.apps.keys();
    let (only, None) = (apps.next()?, apps.next()) else { return None };
    share_of(why, only, calls_us)
}

/// The share of time that calls take of the time of an app, in the last 10 s.
pub(in crate::why) fn share_of(why: &Why, app: &str, calls_us: u64) -> Option<f64> {
    let phases = why.apps.get(app)?.series.recent(WINDOW).phases_us();
    (phases > 0).then(|| (calls_us as f64 / phases as f64).min(1.0))
}

/// Apps that are named with their share.
const NAMED: usize = 3;
/// A smaller share is not what makes an app slow.
const SHARE_MIN: f64 = 0.05;

/// `; of the time of app "shop" at least 68 %`: of calls that are known to be of a request. Others may be as well.
fn known_shares(why: &Why, history: &UpstreamHistory) -> String {
    let share = |known: AppCallSample| {
        let share = share_of(why, &known.app, known.us).filter(|share| *share >= SHARE_MIN)?;
        Some(format!("of app \"{}\" at least {}", known.app, percent(share)))
    };
    let shares: Vec<String> = history.by_app().into_iter().filter_map(share).take(NAMED).collect();
    match shares.is_empty() {
        true => String::new(),
        false => format!("; share of the time {}", shares.join(", ")),
    }
}
