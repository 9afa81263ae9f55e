//! The table of processes that serve no requests.

use serde_json::Value;

use super::{Cell, Color, Table, at, list, size, time, words};

pub(super) fn table(status: &Value) -> Table {
    let mut table =
        Table::new(&["PROCESS", "PID", "STATE", "AGE", "RESTARTS", "OWN", "NEXT RUN", "LAST EXIT"]);
    for set in list(at(status, "/processes")) {
        for process in list(at(set, "/processes")) {
            let state = at(process, "/state").as_str().unwrap_or("-");
            let color = match state {
                "running" | "scheduled" | "finished" => Color::Green,
                "backing_off" | "failed" => Color::Red,
                _ => Color::Yellow,
            };
            table.row([
                Cell::plain(format!("{}/{}", words(at(set, "/name")), words(at(process, "/number")))),
                Cell::plain(words(at(process, "/pid"))),
                Cell::of(color, state_words(state, set, process)),
                Cell::plain(time(at(process, "/age_seconds"))),
                Cell::plain(words(at(process, "/restarts"))),
                Cell::plain(size(at(process, "/memory/own_bytes"))),
                Cell::plain(next_run(set)),
                Cell::plain(last_exit(process)),
            ]);
        }
    }
    table
}

fn state_words(state: &str, set: &Value, process: &Value) -> String {
    let waits: Vec<String> = list(at(set, "/waits_for")).iter().map(words).collect();
    match (state, at(process, "/replace_reason").as_str()) {
        ("waiting", _) if !waits.is_empty() => format!("waiting for {}", waits.join(", ")),
        ("backing_off", _) => "backing off".to_owned(),
        (state, Some(why)) => format!("{state}, leaves ({why})"),
        (state, None) => state.to_owned(),
    }
}

/// To the second.
fn next_run(set: &Value) -> String {
    let next = words(at(set, "/next_run"));
    next.split('.').next().unwrap_or_default().replace('T', " ")
}

fn last_exit(process: &Value) -> String {
    let last = at(process, "/last_exit");
    match at(last, "/reason").as_str() {
        Some(reason) => format!("{reason}, {} ago", time(at(last, "/seconds_ago"))),
        None => "-".to_owned(),
    }
}
