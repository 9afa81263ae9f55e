//! The rules: what is measured on the histories, and the verdicts of a moment.

mod app;
mod machine;
mod others;
mod upstream;

use std::time::Duration;

pub(super) use self::upstream::share_of;
use super::catalog::{
    CPU_LIMIT, NOISY_NEIGHBOUR, ROUTE_HOLDS_WORKERS, SLOW_CLIENTS, SPILL_LIMIT, TOO_FEW_CORES,
    TOO_FEW_WORKERS, UPSTREAM_FAILING, UPSTREAM_SLOW, WORKERS_CRASH,
};
use super::history::AppHistory;
use super::{Finding, Why};

/// The seconds that a rule looks at, unless it says otherwise.
pub(super) const WINDOW: usize = 10;
/// A queue that takes less is not a symptom.
const QUEUE_MIN: Duration = Duration::from_millis(100);

/// Causes that keep connections busy for longer than they should be.
const EXPLAIN_BUSY: [&str; 10] = [
    UPSTREAM_FAILING.id,
    UPSTREAM_SLOW.id,
    WORKERS_CRASH.id,
    ROUTE_HOLDS_WORKERS.id,
    TOO_FEW_WORKERS.id,
    TOO_FEW_CORES.id,
    CPU_LIMIT.id,
    NOISY_NEIGHBOUR.id,
    SLOW_CLIENTS.id,
    SPILL_LIMIT.id,
];

/// All verdicts of now. A cause that explains the symptom of another keeps the other from being given.
pub(super) fn findings(why: &Why) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        why.upstreams.iter().filter_map(|(name, history)| upstream::finding(why, name, history)).collect();
    let causes = findings.clone();
    findings.extend(machine::cpu_limit(why));
    for (name, history) in &why.apps {
        findings.extend(app::cause(why, name, history, &causes));
        findings.extend(app::others(why, name, history));
    }
    findings.extend(others::spill_disk(why));
    findings.extend(others::spill(why));
    // What holds up the requests on the open connections holds up those who wait for one, too.
    if !findings.iter().any(|finding| EXPLAIN_BUSY.contains(&finding.rule.id)) {
        findings.extend(others::connection_limit(why));
    }
    findings.extend(why.upstreams.iter().flat_map(|(name, history)| others::upstream(name, history)));
    // The same cause may hold up several apps: it is named once.
    let mut named = std::collections::BTreeSet::new();
    findings.retain(|finding| named.insert((finding.rule.id, finding.subject.clone())));
    findings
}

/// How long the queue of an app takes, if that is a symptom: requests waited in at least 8 of the last 10 s, and wait 100 ms or more.
pub(super) fn queueing(app: &AppHistory) -> Option<Duration> {
    let seconds: Vec<_> = app.series.last(WINDOW).collect();
    let waited = seconds.iter().filter(|second| second.waiting > 0).count();
    if waited < 8 {
        return None;
    }
    let recent = app.series.recent(WINDOW);
    let ended = recent.times.count();
    let measured = Duration::from_micros(recent.queue_us / ended.max(1));
    // Little's law, for those that still wait: as many as there are, at the rate at which requests end.
    let waiting =
        seconds.iter().map(|second| u64::from(second.waiting)).sum::<u64>() as f64 / seconds.len() as f64;
    let rate = ended as f64 / WINDOW as f64;
    let expected = if ended == 0 { WINDOW as f64 } else { waiting / rate };
    let wait = measured.max(Duration::from_secs_f64(expected.min(86_400.0)));
    (wait >= QUEUE_MIN).then_some(wait)
}

/// Whether a request has waited within the last 3 s.
pub(super) fn is_queueing_lately(app: &AppHistory) -> bool {
    app.series.last(3).any(|second| second.waiting > 0)
}

/// The median of the last 10 s and the usual one, if requests take twice their usual median and 50 ms more.
pub(super) fn is_slower(app: &AppHistory) -> Option<(Duration, Duration)> {
    let (recent, usual) = (app.series.recent(WINDOW), app.series.usual());
    if recent.times.count() < 20 || usual.times.count() < 100 {
        return None;
    }
    let (now, before) = (recent.times.quantile(500)?, usual.times.quantile(500)?);
    (now >= before * 2 && now >= before + Duration::from_millis(50)).then_some((now, before))
}

/// `2.4 s`, `310 ms`.
fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 10.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.0} ms", seconds * 1e3),
    }
}

/// `68 %`.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn mib(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}
