//! Processes that serve no requests.

use keepwarm_workers::supervisor::{
    Counts, ProcessFault, ProcessSetSnapshot, ProcessSnapshot, ProcessState, Reason, ReplaceReason,
};
use prometheus_client::registry::Unit;

use super::{Family, Row, Value, counter, gauge};

pub(super) fn families(sets: &[ProcessSetSnapshot]) -> Vec<Family> {
    let states = sets.iter().flat_map(|set| {
        ProcessState::ALL.iter().map(|state| {
            let here = set.processes.iter().filter(|process| process.state == *state).count();
            row(set, "state", state.name(), here as u64)
        })
    });
    let memory =
        sets.iter().flat_map(|set| set.processes.iter().filter_map(|process| of_memory(set, process)));
    vec![
        gauge("keepwarm_processes", "Processes that serve no requests, by state", None, states.collect()),
        gauge(
            "keepwarm_process_memory",
            "Resident anonymous memory of each process",
            Some(Unit::Bytes),
            memory.collect(),
        ),
        counter(
            "keepwarm_process_replacements",
            "Processes replaced on purpose",
            None,
            reasons::<ReplaceReason>(sets, |process| &process.replacements),
        ),
        counter(
            "keepwarm_process_failures",
            "Processes that failed",
            None,
            reasons::<ProcessFault>(sets, |process| &process.faults),
        ),
        counter(
            "keepwarm_process_runs",
            "Runs of processes with a schedule, by outcome",
            None,
            sets.iter().filter(|set| set.is_scheduled).flat_map(runs).collect(),
        ),
    ]
}

fn row(set: &ProcessSetSnapshot, label: &'static str, word: &str, count: u64) -> Row {
    Row {
        labels: vec![("process", set.name.to_string()), (label, word.to_owned())],
        value: Value::Count(count),
    }
}

/// By number: not by process id, or every restart would make a series.
fn of_memory(set: &ProcessSetSnapshot, process: &ProcessSnapshot) -> Option<Row> {
    Some(row(set, "number", &process.number.to_string(), process.memory?.own))
}

fn reasons<R: Reason>(sets: &[ProcessSetSnapshot], counts: fn(&ProcessSnapshot) -> &Counts<R>) -> Vec<Row> {
    let of_set = |set: &ProcessSetSnapshot| -> Vec<Row> {
        let total = |reason: R| set.processes.iter().map(|process| counts(process).of(reason)).sum();
        R::ALL.iter().map(|&reason| row(set, "reason", reason.name(), total(reason))).collect()
    };
    sets.iter().flat_map(of_set).collect()
}

fn runs(set: &ProcessSetSnapshot) -> Vec<Row> {
    let total = |count: fn(&ProcessSnapshot) -> u64| set.processes.iter().map(count).sum();
    vec![
        row(set, "outcome", "succeeded", total(|process| process.succeeded)),
        row(set, "outcome", "failed", total(|process| process.failed)),
        row(set, "outcome", "skipped", total(|process| process.skipped)),
    ]
}
