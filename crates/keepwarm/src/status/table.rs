//! The status as a person reads it: made from the JSON, so that what a newer or an older Keepwarm says is shown as far as it is understood.

mod processes;
mod upstreams;

use std::fmt::Write as _;

use serde_json::Value;

/// The whole of it, with or without colors.
pub(crate) fn text(status: &Value, colors: bool) -> String {
    let paint = Paint(colors);
    let mut out = heading(status, &paint);
    out.push_str(&maintenance(status, &paint));
    out.push_str(&apps(status).text(&paint));
    out.push_str(&workers(status).text(&paint));
    out.push_str(&processes::table(status).text(&paint));
    out.push_str(&upstreams::table(status).text(&paint));
    out.push_str(&listeners(status).text(&paint));
    out.push_str(&certificates(status).text(&paint));
    out
}

fn heading(status: &Value, paint: &Paint) -> String {
    let ready = match at(status, "/ready").as_bool() {
        Some(true) => paint.with(Color::Green, "ready"),
        _ => paint.with(Color::Yellow, "not ready"),
    };
    format!(
        "keepwarm {}   process {}   up {}   generation {}   {ready}\n",
        words(at(status, "/version")),
        words(at(status, "/pid")),
        time(at(status, "/uptime_seconds")),
        words(at(status, "/generation")),
    )
}

fn maintenance(status: &Value, paint: &Paint) -> String {
    let line = |one: &Value| {
        let of = match (at(one, "/scope/app").as_str(), at(one, "/scope/listener").as_str()) {
            (Some(app), _) => format!("app {app}"),
            (None, Some(listener)) => format!("listener {listener}"),
            (None, None) => "everything".to_owned(),
        };
        let allowed: Vec<String> = list(at(one, "/allow")).iter().map(words).collect();
        let but =
            if allowed.is_empty() { String::new() } else { format!(", except for {}", allowed.join(", ")) };
        format!("{}\n", paint.with(Color::Yellow, &format!("under maintenance: {of}{but}")))
    };
    list(at(status, "/maintenance")).iter().map(line).collect()
}

fn apps(status: &Value) -> Table {
    let mut table = Table::new(&["APP", "WORKERS", "QUEUE", "REQUESTS", "5XX", "RESTARTS", "LAST"]);
    for app in list(at(status, "/apps")) {
        let serving = at(app, "/workers/serving").as_u64().unwrap_or(0);
        let target = at(app, "/workers/target").as_u64().unwrap_or(0);
        let failed = at(app, "/failed").as_str();
        let server = at(app, "/server/address").as_str();
        let unreachable = at(app, "/server/unreachable").as_bool().unwrap_or(false);
        let color =
            match (failed.is_some() || unreachable || (serving == 0 && server.is_none()), serving < target) {
                (true, _) => Color::Red,
                (_, true) => Color::Yellow,
                _ => Color::Green,
            };
        let deaths: u64 = at(app, "/deaths")
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(_, count)| count.as_u64())
            .sum();
        let death = at(app, "/last_death");
        let last = match (failed, at(death, "/reason").as_str()) {
            (Some(reason), _) => format!("given up: {reason}"),
            (None, _) if unreachable => {
                format!("no server accepts connections at {}", server.unwrap_or_default())
            }
            (None, Some(reason)) => {
                format!(
                    "worker {} {reason}, {} ago",
                    words(at(death, "/worker")),
                    time(at(death, "/seconds_ago"))
                )
            }
            (None, None) => "-".to_owned(),
        };
        table.row([
            Cell::plain(words(at(app, "/name"))),
            Cell::of(color, if server.is_some() { "-".to_owned() } else { format!("{serving}/{target}") }),
            Cell::plain(words(at(app, "/queue"))),
            Cell::plain(words(at(app, "/requests/total"))),
            Cell::plain(words(at(app, "/requests/5xx"))),
            Cell::plain(deaths.to_string()),
            Cell::plain(last),
        ]);
    }
    table
}

fn workers(status: &Value) -> Table {
    let mut table = Table::new(&["WORKER", "PID", "STATE", "AGE", "REQUESTS", "OWN", "SHARED", "DOING"]);
    for worker in list(at(status, "/workers")) {
        let state = at(worker, "/state").as_str().unwrap_or("-");
        let color = match state {
            "ready" => Color::Green,
            "dead" => Color::Red,
            _ => Color::Yellow,
        };
        let state = match at(worker, "/recycle_reason").as_str() {
            Some(why) => format!("{state}, leaves ({why})"),
            None => state.to_owned(),
        };
        table.row([
            Cell::plain(format!("{}/{}", words(at(worker, "/app")), words(at(worker, "/number")))),
            Cell::plain(words(at(worker, "/pid"))),
            Cell::of(color, state),
            Cell::plain(time(at(worker, "/age_seconds"))),
            Cell::plain(words(at(worker, "/requests"))),
            Cell::plain(size(at(worker, "/memory/own_bytes"))),
            Cell::plain(size(at(worker, "/memory/shared_bytes"))),
            Cell::plain(active_requests(list(at(worker, "/active_requests")))),
        ]);
    }
    table
}

/// The oldest of its requests, and how many more.
fn active_requests(requests: &[Value]) -> String {
    let Some(first) = requests.first() else { return "-".to_owned() };
    let mut text = format!(
        "{} {} {}",
        words(at(first, "/method")),
        words(at(first, "/route")),
        time(at(first, "/seconds"))
    );
    if requests.len() > 1 {
        let _ = write!(text, " (+{})", requests.len() - 1);
    }
    text
}

fn listeners(status: &Value) -> Table {
    let mut table = Table::new(&["LISTENER", "OPEN", "ACCEPTED", "IN", "OUT", "ADDRESS"]);
    for listener in list(at(status, "/listeners")) {
        let addresses: Vec<String> = list(at(listener, "/addresses")).iter().map(words).collect();
        table.row([
            Cell::plain(words(at(listener, "/name"))),
            Cell::plain(words(at(listener, "/open_connections"))),
            Cell::plain(words(at(listener, "/accepted_connections"))),
            Cell::plain(size(at(listener, "/received_bytes"))),
            Cell::plain(size(at(listener, "/sent_bytes"))),
            Cell::plain(addresses.join(", ")),
        ]);
    }
    table
}

fn certificates(status: &Value) -> Table {
    /// A certificate that ends sooner was not renewed: tools renew at a third of 90 days.
    const SOON: f64 = 14.0 * 86400.0;
    let mut table =
        Table::new(&["CERTIFICATE", "LISTENER", "EXPIRES", "LEFT", "RENEWAL", "ISSUER", "SOURCE", "ERROR"]);
    for certificate in list(at(status, "/certificates")) {
        let names: Vec<String> = list(at(certificate, "/names")).iter().map(words).collect();
        let left = at(certificate, "/expires_in_seconds").as_f64();
        let color = match left {
            Some(..=0.0) | None => Color::Red,
            Some(..SOON) => Color::Yellow,
            Some(_) => Color::Green,
        };
        let left = match left {
            Some(left @ 0.0..) => time(&left.into()),
            _ => "expired".to_owned(),
        };
        table.row([
            Cell::plain(if names.is_empty() { "-".to_owned() } else { names.join(", ") }),
            Cell::plain(words(at(certificate, "/listener"))),
            Cell::plain(words(at(certificate, "/expires")).split('T').next().unwrap_or_default().to_owned()),
            Cell::of(color, left),
            Cell::plain(renewal(certificate)),
            Cell::plain(words(at(certificate, "/issuer"))),
            Cell::plain(words(at(certificate, "/source"))),
            Cell::plain(words(match at(certificate, "/error") {
                Value::Null => at(certificate, "/acme/error"),
                error => error,
            })),
        ]);
    }
    table
}

/// When a certificate from an authority is renewed; with the time where attempts fail.
fn renewal(certificate: &Value) -> String {
    let next = words(at(certificate, "/acme/next_attempt"));
    match at(certificate, "/acme/failures_in_a_row").as_u64() {
        Some(1..) => next.split('.').next().unwrap_or_default().replace('T', " "),
        _ => next.split('T').next().unwrap_or_default().to_owned(),
    }
}

/// Rows under names, each column as wide as its widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

pub(crate) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    pub(crate) fn plain(text: String) -> Self {
        Self { text, color: None }
    }

    pub(crate) fn of(color: Color, text: String) -> Self {
        Self { text, color: Some(color) }
    }
}

impl Table {
    pub(crate) fn new(names: &[&str]) -> Self {
        Self { rows: vec![names.iter().map(|name| Cell::of(Color::Dim, (*name).to_owned())).collect()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// Nothing for a table without rows.
    pub(crate) fn text(&self, paint: &Paint) -> String {
        if self.rows.len() < 2 {
            return String::new();
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| Some(row.get(column)?.text.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::from("\n");
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(
                    &cell.color.map_or_else(|| cell.text.clone(), |color| paint.with(color, &cell.text)),
                );
                line.push_str(&" ".repeat(width - cell.text.chars().count() + 3));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Color {
    Dim,
    Green,
    Yellow,
    Red,
}

pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    pub(crate) fn with(&self, color: Color, text: &str) -> String {
        let code = match color {
            Color::Dim => 2,
            Color::Green => 32,
            Color::Yellow => 33,
            Color::Red => 31,
        };
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The value at a path; null when there is none.
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value in words; control characters, which an app's words may hold, as `?`.
pub(crate) fn words(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
        other => other.to_string(),
    }
}

/// Seconds as `12ms`, `3.2s`, `5m12s`, `3h07m`, `2d04h`.
pub(crate) fn time(seconds: &Value) -> String {
    let Some(exact) = seconds.as_f64() else { return "-".to_owned() };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of this machine")]
    let whole = exact as u64;
    match whole {
        0 => format!("{:.0}ms", exact * 1e3),
        1..10 => format!("{exact:.1}s"),
        10..60 => format!("{whole}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86400 => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d{:02}h", whole / 86400, whole % 86400 / 3600),
    }
}

/// Bytes as `11.2 MiB`.
pub(crate) fn size(bytes: &Value) -> String {
    let Some(mut rest) = bytes.as_f64() else { return "-".to_owned() };
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if rest < 1024.0 || unit == "GiB" {
            return if unit == "B" { format!("{rest:.0} B") } else { format!("{rest:.1} {unit}") };
        }
        rest /= 1024.0;
    }
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_and_sizes_in_words() {
        for (seconds, expected) in [
            (0.012, "12ms"),
            (3.21, "3.2s"),
            (59.9, "59s"),
            (312.0, "5m12s"),
            (11_220.0, "3h07m"),
            (187_200.0, "2d04h"),
        ] {
            assert_eq!(time(&json!(seconds)), expected);
        }
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (11_744_051, "11.2 MiB")] {
            assert_eq!(size(&json!(bytes)), expected);
        }
        assert_eq!((time(&Value::Null), size(&Value::Null)), ("-".to_owned(), "-".to_owned()));
    }

    #[test]
    fn a_status_as_a_person_reads_it() {
        let status = json!({
            "version": "0.1.0", "pid": 4, "uptime_seconds": 75.0, "generation": 2, "ready": true,
            "apps": [{
                "name": "shop", "workers": { "serving": 1, "target": 2 }, "queue": 3, "failed": null,
                "requests": { "total": 120, "5xx": 1 }, "deaths": { "signal": 1, "exit": 1 },
                "last_death": { "worker": 2, "reason": "was killed by signal 9 (SIGKILL)", "seconds_ago": 5.0 }
            }],
            "workers": [
                { "app": "shop", "number": 1, "pid": 17, "state": "ready", "age_seconds": 70.0, "requests": 119, "recycle_reason": "age",
                  "memory": { "own_bytes": 11_744_051, "shared_bytes": 1536 },
                  "active_requests": [{ "method": "GET", "route": "/x/*\u{1b}", "seconds": 0.5 }, {}] },
                { "app": "shop", "number": 2, "pid": null, "state": "dead", "requests": 0, "active_requests": [] }
            ],
            "upstreams": [
                { "name": "search", "breaker": "closed", "endpoints": [
                    { "name": "10.0.0.7:9243", "state": "up", "calls": { "total": 400, "5xx": 3 }, "in_flight": 2, "reused": 399, "dialled": 1,
                      "connections": { "idle": 1, "in_use": 2 }, "p50_seconds": 0.0004, "p99_seconds": 1.25,
                      "last_failure": { "sentence": "upstream closed an idle connection after 5.0 s", "seconds_ago": 4.0 } },
                    { "name": "10.0.0.8:9243", "state": "down", "calls": { "total": 0, "5xx": 0 }, "in_flight": 0, "reused": 0, "dialled": 0,
                      "connections": { "idle": 0, "in_use": 0 }, "last_failure": null }] },
                { "name": "mail", "breaker": "closed", "endpoints": [], "lookup_failure": "no such host" }
            ],
            "listeners": [{ "name": "main", "open_connections": 1, "accepted_connections": 9, "received_bytes": 10,
                            "sent_bytes": 2048, "addresses": ["http://127.0.0.1:80", "unix:/x"] }],
            "certificates": [
                { "listener": "main", "names": ["shop.example", "*.shop.example"], "issuer": "R3", "expires": "2027-01-02T00:00:00.000Z",
                  "expires_in_seconds": 187_200.0, "source": "/etc/ssl/shop.pem", "error": null },
                { "listener": "main", "names": [], "issuer": "R3", "expires": "2020-01-02T00:00:00.000Z",
                  "expires_in_seconds": -5.0, "source": "/old.pem", "error": "cannot read /old.pem" },
                { "listener": "main", "names": ["www.shop.example"], "issuer": "R3", "expires": "2027-01-02T00:00:00.000Z",
                  "expires_in_seconds": 187_200.0, "source": "/acme/www.pem", "error": null,
                  "acme": { "next_attempt": "2026-12-01T10:20:30.000Z", "failures_in_a_row": 0, "error": null } },
                { "listener": "main", "names": ["new.shop.example"], "issuer": "R3", "expires": "2027-01-02T00:00:00.000Z",
                  "expires_in_seconds": 187_200.0, "source": "/acme/new.pem", "error": null,
                  "acme": { "next_attempt": "2026-12-01T10:20:30.000Z", "failures_in_a_row": 2, "error": "rate limited" } }
            ]
        });
        let expected = "\
keepwarm 0.1.0   process 4   up 1m15s   generation 2   ready

APP    WORKERS   QUEUE   REQUESTS   5XX   RESTARTS   LAST
shop   1/2       3       120        1     2          worker 2 was killed by signal 9 (SIGKILL), 5.0s ago

WORKER   PID   STATE                 AGE     REQUESTS   OWN        SHARED    DOING
shop/1   17    ready, leaves (age)   1m10s   119        11.2 MiB   1.5 KiB   GET /x/*? 500ms (+1)
shop/2   -     dead                  -       0          -          -         -

UPSTREAM   ENDPOINT        STATE         CALLS   5XX   IN FLIGHT   REUSED   IDLE/OPEN   P50     P99    LAST FAILURE
search     10.0.0.7:9243   up            400     3     2           99%      1/3         0.4ms   1.2s   upstream closed an idle connection after 5.0 s, 4.0s ago
search     10.0.0.8:9243   down          0       0     0           -        0/0         -       -      -
mail       -               no endpoint   -       -     -           -        -           -       -      no such host

LISTENER   OPEN   ACCEPTED   IN     OUT       ADDRESS
main       1      9          10 B   2.0 KiB   http://127.0.0.1:80, unix:/x

CERTIFICATE                    LISTENER   EXPIRES      LEFT      RENEWAL               ISSUER   SOURCE              ERROR
shop.example, *.shop.example   main       2027-01-02   2d04h     -                     R3       /etc/ssl/shop.pem   -
-                              main       2020-01-02   expired   -                     R3       /old.pem            cannot read /old.pem
www.shop.example               main       2027-01-02   2d04h     2026-12-01            R3       /acme/www.pem       -
new.shop.example               main       2027-01-02   2d04h     2026-12-01 10:20:30   R3       /acme/new.pem       rate limited
";
        assert_eq!(text(&status, false), expected);
        let colored = text(&status, true);
        assert!(colored.contains("\x1b[32mready") && colored.contains("\x1b[31mdead\x1b[0m"));
        let plain = ["\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"]
            .iter()
            .fold(colored, |text, code| text.replace(code, ""));
        assert_eq!(plain, expected);
    }

    #[test]
    fn what_is_missing_is_a_dash() {
        assert!(
            text(&json!({}), false).starts_with("keepwarm -   process -   up -   generation -   not ready\n")
        );
    }
}
