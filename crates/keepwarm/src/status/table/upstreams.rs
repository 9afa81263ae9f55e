//! Upstreams and their endpoints, a line for each.

use serde_json::Value;

use super::{Cell, Color, Table, at, list, time, words};

pub(super) fn table(status: &Value) -> Table {
    let mut table = Table::new(&[
        "UPSTREAM",
        "ENDPOINT",
        "STATE",
        "CALLS",
        "5XX",
        "IN FLIGHT",
        "REUSED",
        "IDLE/OPEN",
        "P50",
        "P99",
        "LAST FAILURE",
    ]);
    for upstream in list(at(status, "/upstreams")) {
        let name = words(at(upstream, "/name"));
        let endpoints = list(at(upstream, "/endpoints"));
        for endpoint in endpoints {
            table.row(endpoint_row(&name, upstream, endpoint));
        }
        if endpoints.is_empty() {
            let why = words(at(upstream, "/lookup_failure"));
            let dash = || Cell::plain("-".to_owned());
            let state = Cell::of(Color::Red, "no endpoint".to_owned());
            let rest = [dash(), dash(), dash(), dash(), dash(), dash(), dash()];
            let [calls, failed, flight, reused, open, p50, p99] = rest;
            let cells = [
                Cell::plain(name),
                dash(),
                state,
                calls,
                failed,
                flight,
                reused,
                open,
                p50,
                p99,
                Cell::plain(why),
            ];
            table.row(cells);
        }
    }
    table
}

fn endpoint_row(name: &str, upstream: &Value, endpoint: &Value) -> [Cell; 11] {
    let own = at(endpoint, "/state").as_str().unwrap_or("-");
    // A call that the upstream's own breaker refuses reaches no endpoint.
    let state = match at(upstream, "/breaker").as_str() {
        Some(breaker) if breaker != "closed" && own == "up" => breaker,
        _ => own,
    };
    let color = match state {
        "up" => Color::Green,
        "down" | "open" | "ejected" => Color::Red,
        _ => Color::Yellow,
    };
    let count = |path| at(endpoint, path).as_u64();
    let reused = match (count("/reused"), count("/dialled")) {
        (Some(reused), Some(dialled)) if reused + dialled > 0 => {
            format!("{}%", 100 * reused / (reused + dialled))
        }
        _ => "-".to_owned(),
    };
    let idle = count("/connections/idle").unwrap_or(0);
    let open = idle + count("/connections/in_use").unwrap_or(0);
    let failure = at(endpoint, "/last_failure");
    let last = match at(failure, "/sentence").as_str() {
        Some(_) => {
            format!("{}, {} ago", words(at(failure, "/sentence")), time(at(failure, "/seconds_ago")))
        }
        None => "-".to_owned(),
    };
    [
        Cell::plain(name.to_owned()),
        Cell::plain(words(at(endpoint, "/name"))),
        Cell::of(color, state.to_owned()),
        Cell::plain(words(at(endpoint, "/calls/total"))),
        Cell::plain(words(at(endpoint, "/calls/5xx"))),
        Cell::plain(words(at(endpoint, "/in_flight"))),
        Cell::plain(reused),
        Cell::plain(format!("{idle}/{open}")),
        Cell::plain(short_time(at(endpoint, "/p50_seconds"))),
        Cell::plain(short_time(at(endpoint, "/p99_seconds"))),
        Cell::plain(last),
    ]
}

/// Seconds, with fractions of a millisecond: `0.4ms`, `12.3ms`.
fn short_time(seconds: &Value) -> String {
    match seconds.as_f64() {
        Some(exact) if exact < 1.0 => format!("{:.1}ms", exact * 1e3),
        _ => time(seconds),
    }
}
