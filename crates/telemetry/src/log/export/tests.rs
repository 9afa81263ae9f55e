use super::*;
use crate::log::tests::logged;
use crate::{Format, app_output};

/// The records of what `act` logs. One test at a time has the export: there is one in a process.
fn exported(level: Level, act: impl FnOnce()) -> Vec<LogRecord> {
    let export = Arc::new(LogExport::new(level, 1 << 20, 100));
    export.begin();
    logged(Format::Text, Level::INFO, act);
    export.end();
    export.queue().take().records
}

/// Other tests of this process log, too.
fn ours(records: Vec<LogRecord>) -> Vec<LogRecord> {
    let is_ours = |record: &LogRecord| record.values.iter().any(|(name, _)| *name == "export_test");
    records.into_iter().filter(is_ours).collect()
}

#[test]
fn an_event_is_kept_as_values() {
    let long = "ü".repeat(LONGEST_VALUE);
    let records = ours(exported(Level::WARN, || {
        tracing::warn!(
            name: "worker_ended",
            export_test = true, status = 1, share = 0.5, app = "shop", many = u64::MAX, long, "the worker {}\u{1b}", "ended"
        );
        tracing::error!(target: "h2::proto", export_test = true, debug = ?Some("é"), "of others");
        tracing::info!(export_test = true, "below the level");
        app_output::log(
            Level::ERROR,
            app_output::Printer::Worker("shop", 2),
            7,
            "stderr",
            b"Traceback\n  two",
        );
    }));
    let [ended, foreign] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((ended.event, ended.target, ended.level), (Some("worker_ended"), None, Level::WARN));
    assert_eq!(ended.message, "the worker ended\u{1b}");
    let value = |name| ended.values.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone());
    assert_eq!(value("status"), Some(LogValue::Int(1)));
    assert_eq!(value("share"), Some(LogValue::Double(0.5)));
    assert_eq!(value("app"), Some(LogValue::Text("shop".to_owned())));
    assert_eq!(value("many"), Some(LogValue::Int(i64::MAX)));
    assert_eq!(value("long"), Some(LogValue::Text("ü".repeat(LONGEST_VALUE / 2))));
    assert_eq!((foreign.event, foreign.target), (None, Some("h2::proto")));
    assert!(foreign.bytes() > size_of::<LogRecord>() + "of others".len());
    // What was begun last is what events go to, and what was ended gets none.
    let [first, second] = [(); 2].map(|()| Arc::new(LogExport::new(Level::INFO, 1 << 20, 100)));
    first.begin();
    second.begin();
    first.end();
    logged(Format::Text, Level::INFO, || tracing::info!(export_test = true, "to the second"));
    second.end();
    logged(Format::Text, Level::INFO, || tracing::info!(export_test = true, "to none"));
    assert_eq!(ours(first.queue().take().records).len(), 0);
    assert_eq!(ours(second.queue().take().records).len(), 1);
}
