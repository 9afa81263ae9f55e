//! Compressed responses.

use keepwarm_serve::COMPRESSION_MEMORY;
use keepwarm_telemetry::compression::{CODINGS, CodingCounters};
use keepwarm_telemetry::counters;
use prometheus_client::registry::Unit;

use super::{counter, gauge};
use crate::admin::exposition::{Family, Row, Value};

pub(super) fn families() -> Vec<Family> {
    let row = |labels, count| Row { labels, value: Value::Count(count) };
    let one = |count| vec![row(Vec::new(), count)];
    let by_coding = |count: fn(&CodingCounters) -> u64| {
        let rows =
            CODINGS.iter().map(|coding| row(vec![("coding", coding.coding.to_owned())], count(coding)));
        rows.collect()
    };
    vec![
        counter(
            "keepwarm_compressed_responses",
            "Compressed responses that have ended, by coding",
            None,
            by_coding(|coding| coding.responses.value()),
        ),
        counter(
            "keepwarm_compression_input",
            "Bytes of compressed responses before compression",
            Some(Unit::Bytes),
            by_coding(|coding| coding.input.value()),
        ),
        counter(
            "keepwarm_compression_output",
            "Bytes of compressed responses after compression",
            Some(Unit::Bytes),
            by_coding(|coding| coding.output.value()),
        ),
        counter(
            "keepwarm_compression_skipped",
            "Responses sent uncompressed because server.limits.compression_memory was reached",
            None,
            one(counters::COMPRESSION_SKIPPED.value()),
        ),
        gauge(
            "keepwarm_compression_memory",
            "Memory of encoders of compressed responses",
            Some(Unit::Bytes),
            one(COMPRESSION_MEMORY.held()),
        ),
    ]
}
