//! Processes that serve no requests.

use std::time::Instant;

use keepwarm_workers::supervisor::{Exit, ProcessEnd, ProcessSetSnapshot, ProcessSnapshot};
use serde_json::{Value, json};

use super::{happened, name, seconds, time};

pub(super) fn json(set: &ProcessSetSnapshot) -> Value {
    json!({
        "name": &*set.name,
        "waits_for": set.waits_for,
        "scheduled": set.is_scheduled,
        "next_run": set.next_run.map(time),
        "processes": set.processes.iter().map(process).collect::<Vec<_>>(),
    })
}

fn process(process: &ProcessSnapshot) -> Value {
    let now = Instant::now();
    let since = |at: Instant| seconds(now.saturating_duration_since(at));
    json!({
        "number": process.number,
        "pid": process.pid,
        "state": process.state.name(),
        "state_seconds": since(process.since),
        "age_seconds": process.started.map(since),
        "restarts": process.restarts,
        "memory": process.memory.map(|memory| json!({ "own_bytes": memory.own, "shared_bytes": memory.shared })),
        "replace_reason": process.leaving.map(name),
        "last_exit": process.last_exit.as_ref().map(|(end, at)| json!({
            "reason": end.to_string(),
            "status": status(end),
            "seconds_ago": since(*at),
        })),
        "replacements": happened(process.replacements.iter().map(|(why, count)| (name(why), count))),
        "failures": happened(process.faults.iter().map(|(why, count)| (name(why), count))),
        "runs": { "succeeded": process.succeeded, "failed": process.failed, "skipped": process.skipped },
    })
}

fn status(end: &ProcessEnd) -> Option<i32> {
    match end {
        ProcessEnd::Exited(Exit::Status(code)) => Some(*code),
        ProcessEnd::Exited(_) | ProcessEnd::NotStarted(_) => None,
    }
}
