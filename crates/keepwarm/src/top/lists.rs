//! The lists of the screen: their columns, and their rows of a snapshot.

mod requests;

use serde_json::Value;

use crate::status::table::{Color, at, list, size, time, words};

/// One of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Apps,
    Workers,
    Requests,
    Recent,
    Routes,
    Upstreams,
    Listeners,
    Certificates,
}

impl Tab {
    pub(super) const ALL: [Self; 8] = [
        Self::Apps,
        Self::Workers,
        Self::Requests,
        Self::Recent,
        Self::Routes,
        Self::Upstreams,
        Self::Listeners,
        Self::Certificates,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Apps => "Apps",
            Self::Workers => "Workers",
            Self::Requests => "Requests",
            Self::Recent => "Slow and failed",
            Self::Routes => "Routes",
            Self::Upstreams => "Upstreams",
            Self::Listeners => "Listeners",
            Self::Certificates => "Certificates",
        }
    }

    /// The columns, the most important first: those that do not fit are left out from the right.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Apps => {
                &["APP", "WORKERS", "QUEUE", "REQ/S", "P50", "P99", "5XX", "HELD", "REQUESTS", "LAST"]
            }
            Self::Workers => &["WORKER", "STATE", "DOING", "FOR", "OWN", "1 MIN", "REQUESTS", "AGE", "PID"],
            Self::Requests => &["REQUEST", "DOING", "PHASE", "FOR", "HELD BY", "ROUTE"],
            Self::Recent => {
                &["DOING", "WHAT", "ENDED", "STATUS", "REASON", "TOOK", "WHERE", "CALLS", "WORKER", "ROUTE"]
            }
            Self::Routes => &["ROUTE", "REQ/S", "P99", "P90", "P50", "5XX", "REQUESTS", "APP"],
            Self::Upstreams => &[
                "UPSTREAM",
                "ENDPOINT",
                "STATE",
                "IN FLIGHT",
                "P99",
                "P50",
                "CALLS",
                "5XX",
                "IDLE/OPEN",
                "QUEUE",
                "LAST FAILURE",
            ],
            Self::Listeners => &["LISTENER", "OPEN", "ACCEPTED", "IN", "OUT", "ADDRESS"],
            Self::Certificates => &["CERTIFICATE", "LEFT", "EXPIRES", "LISTENER", "ISSUER", "ERROR"],
        }
    }

    /// The column by which rows are sorted before a key is pressed; `None`: as the configuration has them.
    pub(super) fn first_order(self) -> Option<usize> {
        match self {
            Self::Routes => Some(1),
            Self::Requests => Some(3),
            _ => None,
        }
    }

    pub(super) fn rows(self, snapshot: &Value) -> Vec<Row> {
        match self {
            Self::Apps => list(at(snapshot, "/status/apps")).iter().map(|one| app(one, snapshot)).collect(),
            Self::Workers => workers(snapshot),
            Self::Requests => requests::in_flight(snapshot),
            Self::Recent => requests::recent(snapshot),
            Self::Routes => list(at(snapshot, "/routes")).iter().map(route).collect(),
            Self::Upstreams => list(at(snapshot, "/status/upstreams")).iter().flat_map(upstream).collect(),
            Self::Listeners => list(at(snapshot, "/status/listeners")).iter().map(listener).collect(),
            Self::Certificates => {
                list(at(snapshot, "/status/certificates")).iter().map(certificate).collect()
            }
        }
    }
}

/// Cells in the order of [`Tab::columns`].
pub(super) type Row = Vec<Cell>;

/// What one cell shows.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) color: Option<Color>,
    /// By which numbers are sorted, the largest first; `None`: by the text.
    pub(super) number: Option<f64>,
}

fn text(text: String) -> Cell {
    Cell { text, color: None, number: None }
}

fn name(value: &Value) -> Cell {
    text(words(value))
}

fn colored(color: Color, shown: String) -> Cell {
    Cell { color: Some(color), ..text(shown) }
}

fn number(value: &Value, show: impl Fn(&Value) -> String) -> Cell {
    // What is not known comes after all that is.
    Cell { text: show(value), color: None, number: Some(value.as_f64().unwrap_or(f64::NEG_INFINITY)) }
}

fn rate(value: &Value) -> Cell {
    number(value, |value| value.as_f64().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")))
}

fn share(value: &Value) -> Cell {
    let cell = number(value, |value| {
        value.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
    });
    let color = value.as_f64().filter(|share| *share > 0.0).map(|_| Color::Red);
    Cell { color, ..cell }
}

fn app(app: &Value, snapshot: &Value) -> Row {
    let is_same = |one: &&Value| at(one, "/name") == at(app, "/name");
    let why = list(at(snapshot, "/why/apps")).iter().find(is_same).unwrap_or(&Value::Null);
    let count = |path: &str| at(app, path).as_u64().unwrap_or(0);
    let (serving, target) = (count("/workers/serving"), count("/workers/target"));
    let failed = at(app, "/failed");
    let color = match (failed.is_null() && (serving > 0 || target == 0), serving < target) {
        (false, _) => Color::Red,
        (_, true) => Color::Yellow,
        _ => Color::Green,
    };
    let last = match failed {
        Value::Null => words(at(app, "/last_death/reason")),
        reason => format!("given up: {}", words(reason)),
    };
    vec![
        name(at(app, "/name")),
        colored(color, format!("{serving}/{target}")),
        number(at(app, "/queue"), words),
        rate(at(why, "/now/per_second")),
        number(at(why, "/now/p50_seconds"), time),
        number(at(why, "/now/p99_seconds"), time),
        share(at(why, "/now/failed")),
        number(at(why, "/held"), words),
        number(at(app, "/requests/total"), words),
        text(last),
    ]
}

fn workers(snapshot: &Value) -> Vec<Row> {
    let changes: std::collections::HashMap<Option<u64>, &Value> = list(at(snapshot, "/memory"))
        .iter()
        .map(|one| (at(one, "/pid").as_u64(), at(one, "/change_bytes")))
        .collect();
    let change = |worker: &Value| changes.get(&at(worker, "/pid").as_u64()).copied().unwrap_or(&Value::Null);
    list(at(snapshot, "/status/workers")).iter().map(|one| worker(one, change(one))).collect()
}

fn worker(worker: &Value, change: &Value) -> Row {
    let state = at(worker, "/state").as_str().unwrap_or("-");
    let color = match state {
        "ready" => Color::Green,
        "dead" => Color::Red,
        _ => Color::Yellow,
    };
    let leaves =
        at(worker, "/recycle_reason").as_str().map(|why| format!(", leaves ({why})")).unwrap_or_default();
    let requests = list(at(worker, "/active_requests"));
    let doing = requests.first().unwrap_or(&Value::Null);
    let more = if requests.len() > 1 { format!(" (+{})", requests.len() - 1) } else { String::new() };
    let shown = match doing {
        Value::Null => "-".to_owned(),
        doing => format!("{} {}{more}", words(at(doing, "/method")), words(at(doing, "/route"))),
    };
    vec![
        text(format!("{}/{}", words(at(worker, "/app")), words(at(worker, "/number")))),
        colored(color, format!("{state}{leaves}")),
        text(shown),
        number(at(doing, "/seconds"), time),
        number(at(worker, "/memory/own_bytes"), size),
        number(change, signed_size),
        number(at(worker, "/requests"), words),
        number(at(worker, "/age_seconds"), time),
        number(at(worker, "/pid"), words),
    ]
}

/// `+1.2 MiB`, `-3.0 KiB`.
fn signed_size(bytes: &Value) -> String {
    match bytes.as_i64() {
        None => "-".to_owned(),
        Some(0) => "0".to_owned(),
        Some(bytes) => format!("{}{}", if bytes < 0 { '-' } else { '+' }, size(&bytes.unsigned_abs().into())),
    }
}

fn route(route: &Value) -> Row {
    let shown = |path: &str| name(at(route, path));
    vec![
        shown("/route"),
        rate(at(route, "/now/per_second")),
        number(at(route, "/now/p99_seconds"), time),
        number(at(route, "/now/p90_seconds"), time),
        number(at(route, "/now/p50_seconds"), time),
        share(at(route, "/now/failed")),
        number(at(route, "/requests/total"), words),
        shown("/app"),
    ]
}

/// A row for each endpoint; one without where there is none.
fn upstream(upstream: &Value) -> Vec<Row> {
    let endpoints = list(at(upstream, "/endpoints"));
    match endpoints {
        [] => vec![endpoint(upstream, &Value::Null)],
        all => all.iter().map(|one| endpoint(upstream, one)).collect(),
    }
}

fn endpoint(upstream: &Value, endpoint: &Value) -> Row {
    let state = at(endpoint, "/state").as_str().unwrap_or("no endpoint");
    let color = match state {
        "up" => Color::Green,
        "warming" | "half-open" => Color::Yellow,
        _ => Color::Red,
    };
    let idle = at(endpoint, "/connections/idle").as_u64().unwrap_or(0);
    let open = idle + at(endpoint, "/connections/in_use").as_u64().unwrap_or(0);
    let failure = match endpoint {
        Value::Null => at(upstream, "/lookup_failure"),
        endpoint => at(endpoint, "/last_failure/sentence"),
    };
    vec![
        name(at(upstream, "/name")),
        name(at(endpoint, "/name")),
        colored(color, state.to_owned()),
        number(at(endpoint, "/in_flight"), words),
        number(at(endpoint, "/p99_seconds"), time),
        number(at(endpoint, "/p50_seconds"), time),
        number(at(endpoint, "/calls/total"), words),
        number(at(endpoint, "/calls/5xx"), words),
        text(format!("{idle}/{open}")),
        number(at(upstream, "/queue"), words),
        name(failure),
    ]
}

fn listener(listener: &Value) -> Row {
    vec![
        name(at(listener, "/name")),
        number(at(listener, "/open_connections"), words),
        number(at(listener, "/accepted_connections"), words),
        number(at(listener, "/received_bytes"), size),
        number(at(listener, "/sent_bytes"), size),
        text(joined(at(listener, "/addresses"))),
    ]
}

fn certificate(certificate: &Value) -> Row {
    /// As in the status.
    const SOON: f64 = 14.0 * 86400.0;
    let left = at(certificate, "/expires_in_seconds");
    let color = match left.as_f64() {
        Some(..=0.0) | None => Color::Red,
        Some(..SOON) => Color::Yellow,
        Some(_) => Color::Green,
    };
    let shown = |left: &Value| if left.as_f64() > Some(0.0) { time(left) } else { "expired".to_owned() };
    vec![
        text(joined(at(certificate, "/names"))),
        Cell { color: Some(color), ..number(left, shown) },
        text(words(at(certificate, "/expires")).split('T').next().unwrap_or_default().to_owned()),
        name(at(certificate, "/listener")),
        name(at(certificate, "/issuer")),
        name(at(certificate, "/error")),
    ]
}

fn joined(names: &Value) -> String {
    let names: Vec<String> = list(names).iter().map(words).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A person who knows one knows the other.
    #[test]
    fn the_page_of_admin_has_the_same_columns() {
        let page = concat!(include_str!("../admin/page/lists.js"), include_str!("../admin/page/timeline.js"));
        for tab in Tab::ALL {
            let title = format!("title: {:?},", tab.title());
            let of_list = page.split(&title).nth(1).unwrap_or_else(|| panic!("{title} is missing"));
            let columns = of_list.split("rows: ").next().unwrap();
            let headings: Vec<&str> = columns
                .lines()
                .filter_map(|line| line.trim_start().strip_prefix("[\"")?.split('"').next())
                .collect();
            assert_eq!(headings, tab.columns(), "{title}");
        }
    }
}
