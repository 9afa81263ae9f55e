//! An examination for machines. The shape is documented in `docs/guide/check.md`, and stable.

use serde_json::{Value, json};

use crate::examine::{Examination, ProbeResult};
use crate::finding::Finding;

/// The version of the shape: raised when something is renamed or taken away, never when something is added.
const VERSION: u32 = 1;

/// One examination.
#[must_use]
pub fn json(examination: &Examination) -> Value {
    json!({
        "version": VERSION,
        "label": examination.label,
        "url": examination.asked.to_string(),
        "examined": examination.target.to_string(),
        "server": examination.server.name(),
        "reached": examination.reached,
        "verdict": examination.verdict().name(),
        "connections": examination.spent.0,
        "requests": examination.spent.1,
        "seconds": examination.took.as_secs_f64(),
        "probes": examination.results.iter().map(probe).collect::<Vec<Value>>(),
    })
}

fn probe(result: &ProbeResult) -> Value {
    let chief = result.chief();
    json!({
        "id": result.id,
        "title": result.title,
        "verdict": result.verdict().name(),
        "evidence": chief.map(|finding| finding.evidence.clone()),
        "cost": chief.and_then(|finding| finding.cost.clone()),
        "fix": chief.and_then(|finding| finding.fix.clone()),
        "seconds": result.took.as_secs_f64(),
        "findings": result.findings.iter().map(finding).collect::<Vec<Value>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "id": finding.id,
        "verdict": finding.verdict.name(),
        "evidence": finding.evidence,
        "cost": finding.cost,
        "fix": finding.fix,
    })
}
