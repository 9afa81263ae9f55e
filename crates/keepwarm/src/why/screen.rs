//! The verdicts as a person reads them: made from the JSON. Lines that have nothing to say are left out.

use std::time::{Duration, SystemTime};

use keepwarm_telemetry::local_minute;
use serde_json::Value;

use crate::status::table::{Cell, Color, Paint, Table, at, list, size, time, words};

/// Before that, a time of day would not say which day.
const DAY: u64 = 24 * 60 * 60;

/// The whole screen, with or without colors.
pub(super) fn text(why: &Value, colors: bool) -> String {
    let now = SystemTime::now();
    text_at(why, colors, &|ago| local_minute(now - ago))
}

/// The local time of day, so long ago.
type Clock<'c> = &'c dyn Fn(Duration) -> String;

fn text_at(why: &Value, colors: bool, clock: Clock<'_>) -> String {
    let paint = Paint(colors);
    let (apps, upstreams) = (list(at(why, "/apps")), list(at(why, "/upstreams")));
    let findings = list(at(why, "/findings"));
    let mut blocks = Vec::new();
    for app in apps {
        // With one app, what is wrong is wrong with it.
        let own =
            findings.iter().filter(|finding| apps.len() == 1 || at(finding, "/app") == at(app, "/name"));
        blocks.push(app_block(why, app, &own.collect::<Vec<_>>(), &paint, clock));
    }
    if apps.len() != 1 {
        blocks.extend(
            findings
                .iter()
                .filter(|finding| at(finding, "/app").is_null())
                .map(|finding| other_block(finding, &paint, clock)),
        );
    }
    if apps.is_empty() {
        blocks.extend(upstreams.iter().map(|upstream| heading(upstream, &[], &paint, clock)));
    }
    blocks.push(next(why, &paint));
    blocks.retain(|block| !block.is_empty());
    if blocks.is_empty() {
        return "healthy: no app and no upstream has been observed yet\n".to_owned();
    }
    blocks.join("")
}

fn app_block(why: &Value, app: &Value, findings: &[&Value], paint: &Paint, clock: Clock<'_>) -> String {
    let mut out = heading(app, findings, paint, clock);
    out.extend(findings.iter().map(|finding| line("WHY", &words(at(finding, "/evidence")), paint)));
    if !findings.iter().any(|finding| is_fault(finding)) {
        return out;
    }
    out.push_str(&mean(app, paint));
    out.push_str(&now(app, paint));
    out.push_str(&since(why, paint, clock));
    // A verdict about it has said that.
    if !findings.iter().any(|finding| state(finding) == "GROWING") {
        out.push_str(&memory(app, paint));
    }
    out.push_str(&routes(app).text(paint));
    out
}

/// `shop  SLOW since 14:02   12.0 req/s   p50 20ms   p99 2.4s, usually 180ms`
fn heading(subject: &Value, findings: &[&Value], paint: &Paint, clock: Clock<'_>) -> String {
    let faults = findings.iter().filter(|finding| is_fault(finding));
    let oldest = faults.max_by_key(|finding| at(finding, "/seconds").as_u64());
    let state = match oldest {
        Some(finding) => paint.with(Color::Red, &state_since(finding, clock)),
        None => paint.with(Color::Green, "healthy"),
    };
    let mut parts = vec![format!("{}  {state}", words(at(subject, "/name")))];
    match at(subject, "/now/per_second").as_f64() {
        Some(rate) => {
            parts.push(format!("{rate:.1} req/s"));
            parts.push(format!("p50 {}", time(at(subject, "/now/p50_seconds"))));
            parts.push(format!("p99 {}{}", time(at(subject, "/now/p99_seconds")), usually(subject)));
        }
        None => parts.push("no request has ended in 10 s".to_owned()),
    }
    format!("{}\n", parts.join("   "))
}

fn usually(subject: &Value) -> String {
    match at(subject, "/usual/p99_seconds") {
        Value::Null => String::new(),
        usual => format!(", usually {}", time(usual)),
    }
}

fn is_fault(finding: &Value) -> bool {
    at(finding, "/severity") == "fault"
}

/// What the symptom is.
fn state(finding: &Value) -> &'static str {
    match at(finding, "/id").as_str() {
        Some("upstream_failing" | "app_failing" | "workers_crash" | "spill_disk") => "FAILING",
        Some("memory_growth" | "leak_after_reload") => "GROWING",
        Some("boot_per_request" | "handshakes_per_call" | "timeout_ladder") => "WASTEFUL",
        _ => "SLOW",
    }
}

/// `SLOW since 14:02`, or `SLOW for 1d03h`
fn state_since(finding: &Value, clock: Clock<'_>) -> String {
    let seconds = at(finding, "/seconds");
    match time_of_day(seconds, clock) {
        Some(clock) => format!("{} since {clock}", state(finding)),
        None => format!("{} for {}", state(finding), time(seconds)),
    }
}

/// `14:02`
fn time_of_day(seconds_ago: &Value, clock: Clock<'_>) -> Option<String> {
    seconds_ago.as_u64().filter(|ago| *ago < DAY).map(|ago| clock(Duration::from_secs(ago)))
}

/// A verdict about an upstream or the machine, beside several apps.
fn other_block(finding: &Value, paint: &Paint, clock: Clock<'_>) -> String {
    let name = match at(finding, "/upstream").as_str() {
        Some(upstream) => format!("upstream {upstream}"),
        None => "machine".to_owned(),
    };
    format!(
        "{name}  {}\n{}",
        paint.with(Color::Red, &state_since(finding, clock)),
        line("WHY", &words(at(finding, "/evidence")), paint)
    )
}

fn line(name: &str, text: &str, paint: &Paint) -> String {
    format!("{}{text}\n", paint.with(Color::Dim, &format!("{name:<6}")))
}

/// `MEAN  read 1ms · queue 310ms · app 90ms · write 4ms`, without phases of nothing.
fn mean(app: &Value, paint: &Paint) -> String {
    let phases = ["read", "queue", "app", "write"].into_iter().filter_map(|phase| {
        let mean = at(app, &format!("/mean_seconds/{phase}"));
        (mean.as_f64()? >= 0.001).then(|| format!("{phase} {}", time(mean)))
    });
    let phases: Vec<String> = phases.collect();
    if phases.is_empty() { String::new() } else { line("MEAN", &phases.join(" · "), paint) }
}

fn now(app: &Value, paint: &Paint) -> String {
    let (most, waiting) = (at(app, "/most"), at(app, "/waiting").as_u64().unwrap_or(0));
    if most.is_null() {
        return String::new();
    }
    let mut text = format!(
        "{} holds {} of {} requests at workers; oldest {}, {}/{}",
        words(at(most, "/route")),
        words(at(most, "/requests")),
        words(at(app, "/held")),
        time(at(most, "/oldest_seconds")),
        words(at(app, "/name")),
        words(at(most, "/worker")),
    );
    if waiting > 0 {
        text.push_str(&format!("; {waiting} wait"));
    }
    line("NOW", &text, paint)
}

/// The last events, the newest first.
fn since(why: &Value, paint: &Paint, clock: Clock<'_>) -> String {
    const SHOWN: usize = 4;
    let events: Vec<String> = list(at(why, "/events"))
        .iter()
        .rev()
        .take(SHOWN)
        .map(|event| {
            let ago = at(event, "/seconds_ago");
            let when = time_of_day(ago, clock).unwrap_or_else(|| format!("{} ago", time(ago)));
            format!("{when} {}: {}", words(at(event, "/subject")), words(at(event, "/text")))
        })
        .collect();
    if events.is_empty() { String::new() } else { line("SINCE", &events.join(" · "), paint) }
}

/// `MEM   shop/2 +180.0 MiB in 1h00m, mostly during /import`
fn memory(app: &Value, paint: &Paint) -> String {
    let memory = at(app, "/memory");
    if memory.is_null() {
        return String::new();
    }
    let during = match at(memory, "/route") {
        Value::Null => String::new(),
        route => format!(", mostly during {}", words(route)),
    };
    let text = format!(
        "{}/{} +{} in {}{during}",
        words(at(app, "/name")),
        words(at(memory, "/worker")),
        size(at(memory, "/growth_bytes")),
        time(at(memory, "/seconds")),
    );
    line("MEM", &text, paint)
}

fn routes(app: &Value) -> Table {
    let mut table = Table::new(&["ROUTE", "REQ/S", "P50", "P99", "5XX", "USUAL P50"]);
    for route in list(at(app, "/routes")) {
        let rate = at(route, "/now/per_second").as_f64().unwrap_or(0.0);
        let failed = at(route, "/now/failed").as_f64().unwrap_or(0.0);
        table.row([
            Cell::plain(words(at(route, "/route"))),
            Cell::plain(format!("{rate:.1}")),
            Cell::plain(time(at(route, "/now/p50_seconds"))),
            Cell::plain(time(at(route, "/now/p99_seconds"))),
            Cell::plain(format!("{:.0}%", failed * 100.0)),
            Cell::plain(time(at(route, "/usual/p50_seconds"))),
        ]);
    }
    table
}

/// What to read, and certificates that will expire.
fn next(why: &Value, paint: &Paint) -> String {
    let mut parts: Vec<String> = list(at(why, "/findings"))
        .iter()
        .map(|finding| format!("keepwarm explain {}", words(at(finding, "/id"))))
        .collect();
    for certificate in list(at(why, "/certificates")) {
        let name = list(at(certificate, "/names")).first().map_or_else(|| "-".to_owned(), words);
        let left = time(at(certificate, "/expires_in_seconds"));
        parts.push(format!("certificate of {name} expires in {left}"));
    }
    parts.dedup();
    if parts.is_empty() { String::new() } else { line("NEXT", &parts.join(" · "), paint) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slow() -> Value {
        json!({
            "healthy": false,
            "findings": [{ "id": "upstream_slow", "severity": "fault", "app": null, "upstream": "search", "seconds": 192,
                           "evidence": "68 % of the time is spent in calls to upstream \"search\": 860 ms each, usually 40 ms" }],
            "apps": [{
                "name": "shop",
                "now": { "per_second": 12.0, "p50_seconds": 0.9, "p99_seconds": 2.4, "failed": 0.0 },
                "usual": { "per_second": 30.0, "p50_seconds": 0.05, "p99_seconds": 0.18, "failed": 0.0 },
                "mean_seconds": { "read": 0.0002, "queue": 0.31, "app": 0.95, "write": 0.004 },
                "waiting": 3, "held": 16,
                "most": { "route": "/search/*", "requests": 12, "oldest_seconds": 8.1, "worker": 3 },
                "memory": { "worker": 2, "growth_bytes": 188_743_680, "seconds": 3600, "route": "/import" },
                "routes": [{ "route": "/search/*", "now": { "per_second": 10.0, "p50_seconds": 0.95, "p99_seconds": 2.4, "failed": 0.01 },
                             "usual": { "p50_seconds": 0.06 } }]
            }],
            "upstreams": [],
            "events": [{ "seconds_ago": 720, "subject": "search", "text": "4 → 2 endpoints" },
                       { "seconds_ago": 200, "subject": "shop", "text": "reload, generation 7" }],
            "certificates": [{ "names": ["shop.example"], "expires_in_seconds": 777_600 }]
        })
    }

    /// It is ten past two.
    fn text(why: &Value, colors: bool) -> String {
        let now = 14 * 3600 + 10 * 60;
        text_at(why, colors, &|ago| {
            let second = now - ago.as_secs();
            format!("{:02}:{:02}", second / 3600, second / 60 % 60)
        })
    }

    #[test]
    fn the_verdict_stands_before_its_evidence() {
        let expected = "\
shop  SLOW since 14:06   12.0 req/s   p50 900ms   p99 2.4s, usually 180ms
WHY   68 % of the time is spent in calls to upstream \"search\": 860 ms each, usually 40 ms
MEAN  queue 310ms · app 950ms · write 4ms
NOW   /search/* holds 12 of 16 requests at workers; oldest 8.1s, shop/3; 3 wait
SINCE 14:06 shop: reload, generation 7 · 13:58 search: 4 → 2 endpoints
MEM   shop/2 +180.0 MiB in 1h00m, mostly during /import

ROUTE       REQ/S   P50     P99    5XX   USUAL P50
/search/*   10.0    950ms   2.4s   1%    60ms
NEXT  keepwarm explain upstream_slow · certificate of shop.example expires in 9d00h
";
        assert_eq!(text(&slow(), false), expected);
        assert!(text(&slow(), true).contains("\x1b[31mSLOW since 14:06\x1b[0m"));
    }

    #[test]
    fn what_began_the_day_before_has_no_time_of_day() {
        let mut why = slow();
        why["findings"][0]["seconds"] = 97_200.into();
        why["findings"][0]["id"] = "memory_growth".into();
        why["events"][0]["seconds_ago"] = 97_200.into();
        let shown = text(&why, false);
        assert!(shown.starts_with("shop  GROWING for 1d03h   12.0 req/s"), "{shown}");
        assert!(
            shown.contains("14:06 shop: reload, generation 7 · 1d03h ago search: 4 → 2 endpoints"),
            "{shown}"
        );
        assert!(!shown.contains("MEM "), "the verdict says it: {shown}");
    }

    #[test]
    fn a_healthy_app_has_one_line_and_no_control_characters() {
        let why = json!({ "healthy": true, "findings": [], "apps": [{ "name": "a\x1b[2Jb", "now": null }] });
        assert_eq!(text(&why, false), "a?[2Jb  healthy   no request has ended in 10 s\n");
        assert_eq!(text(&json!({}), false), "healthy: no app and no upstream has been observed yet\n");
    }

    #[test]
    fn beside_several_apps_an_upstream_has_a_block_of_its_own() {
        let mut why = slow();
        let mut blog = why["apps"][0].clone();
        blog["name"] = "blog".into();
        why["apps"].as_array_mut().unwrap().push(blog);
        let shown = text(&why, false);
        assert!(shown.contains("shop  healthy") && shown.contains("blog  healthy"), "{shown}");
        assert!(shown.contains("upstream search  SLOW since 14:06\nWHY   68 %"), "{shown}");
    }
}
