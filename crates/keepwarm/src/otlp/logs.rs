//! Records of the log, as OpenTelemetry has them (<https://opentelemetry.io/docs/specs/otel/logs/data-model/>).

use std::sync::Arc;

use keepwarm_telemetry::counters::{self, Family};
use keepwarm_telemetry::export::ExportQueue;
use keepwarm_telemetry::log::{LogExport, LogRecord, LogValue};
use tracing::Level;

use super::exporter::Batched;
use super::messages::{
    AnyKind, AnyValue, ExportLogsServiceRequest, KeyValue, OtlpLogRecord, Resource, ResourceLogs, ScopeLogs,
    Severity, nanos,
};
use super::resource::{SCHEMA, scope};

/// What the log has, too.
pub(super) struct Logs(pub(super) Arc<LogExport>);

impl Batched for Logs {
    type Record = LogRecord;
    type Message = ExportLogsServiceRequest;

    fn queue(&self) -> &ExportQueue<LogRecord> {
        self.0.queue()
    }

    fn outcomes(&self) -> &'static Family {
        &counters::LOG_RECORDS_EXPORTED
    }

    fn message(&self, records: &[LogRecord], resource: Resource) -> ExportLogsServiceRequest {
        ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                resource: Some(resource),
                scope_logs: vec![ScopeLogs {
                    scope: Some(scope()),
                    log_records: records.iter().map(log_record).collect(),
                }],
                schema_url: SCHEMA.to_owned(),
            }],
        }
    }
}

fn log_record(record: &LogRecord) -> OtlpLogRecord {
    let severity = severity(record.level);
    let mut attributes: Vec<_> = record.values.iter().map(|(name, value)| attribute(name, value)).collect();
    attributes.extend(record.target.map(|target| KeyValue::string("keepwarm.target", target)));
    let time = nanos(record.time);
    OtlpLogRecord {
        time_unix_nano: time,
        severity_number: severity.into(),
        severity_text: record.level.as_str().to_owned(),
        body: Some(AnyValue { value: Some(AnyKind::String(record.message.clone())) }),
        attributes,
        observed_time_unix_nano: time,
        event_name: record.event.unwrap_or_default().to_owned(),
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warn,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        Level::TRACE => Severity::Trace,
    }
}

/// The name that the conventions have, or Keepwarm's own.
fn attribute(name: &str, value: &LogValue) -> KeyValue {
    let name = match name {
        "pid" => "process.pid".to_owned(),
        "stream" => "log.iostream".to_owned(),
        name => format!("keepwarm.{name}"),
    };
    let value = match value {
        LogValue::Text(text) => AnyKind::String(text.clone()),
        LogValue::Int(number) => AnyKind::Int(*number),
        LogValue::Double(number) => AnyKind::Double(*number),
        LogValue::Bool(value) => AnyKind::Bool(*value),
    };
    KeyValue::of(&name, value)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use prost::Message;

    use super::*;

    /// The numbers are those of `logs/v1/logs.proto`, written down by hand.
    #[test]
    fn a_record_is_encoded_with_the_numbers_of_the_specification() {
        let record = LogRecord {
            time: UNIX_EPOCH + Duration::from_nanos(1),
            level: Level::WARN,
            event: Some("app_output"),
            target: None,
            message: "oh".to_owned(),
            values: vec![
                ("pid", LogValue::Int(7)),
                ("stream", LogValue::Text("stderr".to_owned())),
                ("ok", LogValue::Bool(true)),
                ("f", LogValue::Double(0.5)),
            ],
        };
        let attributes = [
            b"\x32\x11\x0a\x0bprocess.pid\x12\x02\x18\x07".to_vec(),
            b"\x32\x18\x0a\x0clog.iostream\x12\x08\x0a\x06stderr".to_vec(),
            b"\x32\x11\x0a\x0bkeepwarm.ok\x12\x02\x10\x01".to_vec(),
            [b"\x32\x17\x0a\x0akeepwarm.f\x12\x09\x21".as_slice(), &0.5_f64.to_le_bytes()].concat(),
        ];
        let expected = [
            [b"\x09".as_slice(), &1_u64.to_le_bytes(), b"\x10\x0d\x1a\x04WARN\x2a\x04\x0a\x02oh"].concat(),
            attributes.concat(),
            [b"\x59".as_slice(), &1_u64.to_le_bytes(), b"\x62\x0aapp_output"].concat(),
        ];
        assert_eq!(log_record(&record).encode_to_vec(), expected.concat());
    }

    #[test]
    fn each_level_has_its_severity() {
        let levels = [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
        assert_eq!(levels.map(|level| i32::from(severity(level))), [1, 5, 9, 13, 17]);
    }

    #[test]
    fn a_record_of_a_library_says_whose_it_is() {
        let record = LogRecord {
            time: UNIX_EPOCH,
            level: Level::DEBUG,
            event: None,
            target: Some("h2::proto"),
            message: String::new(),
            values: Vec::new(),
        };
        let sent = log_record(&record);
        assert_eq!(sent.attributes, [KeyValue::string("keepwarm.target", "h2::proto")]);
        assert_eq!(sent.event_name, "");
    }
}
