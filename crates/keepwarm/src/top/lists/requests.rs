//! Requests in flight, and the last slow and failed ones.

use serde_json::Value;

use super::{Cell, Row, colored, name, number, text};
use crate::status::table::{Color, at, list, time, words};

/// Those at workers, the first of each queue, and the oldest at each upstream.
pub(super) fn in_flight(snapshot: &Value) -> Vec<Row> {
    let at_worker = |worker: &Value| {
        let shown = format!("{}/{}", words(at(worker, "/app")), words(at(worker, "/number")));
        let row = |request: &Value| row(request, phase(request), shown.clone());
        list(at(worker, "/active_requests")).iter().map(row).collect::<Vec<_>>()
    };
    let in_queue = |app: &Value| {
        let row = |request: &Value| row(request, "queue", words(at(app, "/name")));
        list(at(app, "/waiting_requests")).iter().map(row).collect::<Vec<_>>()
    };
    let at_upstream = |upstream: &Value| {
        let shown = words(at(upstream, "/name"));
        let row = |call: &Value| row(call, at(call, "/phase").as_str().unwrap_or("-"), shown.clone());
        list(at(upstream, "/active_calls")).iter().map(row).collect::<Vec<_>>()
    };
    let workers = list(at(snapshot, "/status/workers")).iter().flat_map(at_worker);
    let queues = list(at(snapshot, "/status/apps")).iter().flat_map(in_queue);
    let upstreams = list(at(snapshot, "/status/upstreams")).iter().flat_map(at_upstream);
    workers.chain(queues).chain(upstreams).collect()
}

fn phase(request: &Value) -> &'static str {
    match (at(request, "/seconds").is_null(), at(request, "/responding") == true) {
        (true, _) => "waits",
        (false, true) => "responds",
        (false, false) => "app",
    }
}

fn row(request: &Value, phase: &str, place: String) -> Row {
    // One that is on its way to its worker has no path for a moment.
    let path = Some(at(request, "/path")).filter(|path| !path.is_null()).unwrap_or(at(request, "/route"));
    vec![
        name(at(request, "/request_id")),
        text(format!("{} {}", words(at(request, "/method")), words(path))),
        text(phase.to_owned()),
        number(at(request, "/seconds"), time),
        text(place),
        name(at(request, "/route")),
    ]
}

/// Both lists as one, the newest first.
pub(super) fn recent(snapshot: &Value) -> Vec<Row> {
    let of = |path: &str, what: Cell| {
        let row = |request: &Value| {
            (at(request, "/seconds_ago").as_f64().unwrap_or(f64::MAX), ended(request, what.clone()))
        };
        list(at(snapshot, path)).iter().map(row).collect::<Vec<_>>()
    };
    let mut rows = of("/recent/slow", colored(Color::Yellow, "slow".to_owned()));
    rows.extend(of("/recent/failed", colored(Color::Red, "failed".to_owned())));
    rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn ended(request: &Value, what: Cell) -> Row {
    let doing = match at(request, "/path") {
        Value::Null => "unreadable request".to_owned(),
        path => format!("{} {}", words(at(request, "/method")), words(path)),
    };
    let worker = match at(request, "/worker") {
        Value::Null => "-".to_owned(),
        worker => format!("{}/{}", words(at(request, "/app")), words(worker)),
    };
    let calls = |seconds: &Value| match at(request, "/call_count").as_u64() {
        None | Some(0) => "-".to_owned(),
        Some(count) => format!("{count}, {}", time(seconds)),
    };
    vec![
        text(doing),
        what,
        text(format!("{} ago", time(at(request, "/seconds_ago")))),
        name(at(request, "/status")),
        name(at(request, "/reason")),
        number(at(request, "/seconds"), time),
        text(longest(at(request, "/phases"))),
        number(at(request, "/call_seconds"), calls),
        text(worker),
        name(at(request, "/route")),
    ]
}

/// The part of a request that took longest.
fn longest(phases: &Value) -> String {
    let part = |name: &'static str| {
        let seconds = phases.get(format!("{name}_seconds"))?;
        Some((name, seconds, seconds.as_f64()?))
    };
    let parts = ["read", "retry", "queue", "app", "body", "write"].into_iter().filter_map(part);
    // The first of equal ones, as on the page.
    let longest = parts.reduce(|most, part| if part.2 > most.2 { part } else { most });
    longest.map_or_else(|| "-".to_owned(), |(name, seconds, _)| format!("{name} {}", time(seconds)))
}
