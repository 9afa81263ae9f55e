//! The log for a collector: each event once more, as values, in a bounded queue. Nothing here knows how records are sent.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level};

use super::event_name;
use crate::counters;
use crate::export::{ExportQueue, Exported};

/// Bytes that are kept of a message. What an app prints at once is shorter (`app_output`).
const LONGEST_MESSAGE: usize = 64 << 10;
/// Bytes that are kept of another text.
const LONGEST_VALUE: usize = 1024;

/// Where events go, beside the log.
static EXPORT: ArcSwapOption<LogExport> = ArcSwapOption::const_empty();

/// Keeps the events of the process until they are sent.
#[derive(Debug)]
pub struct LogExport {
    level: LevelFilter,
    queue: ExportQueue<LogRecord>,
}

impl LogExport {
    /// Those at `level` and above that the log has, too. `buffer` is in bytes; `batch` records are sent at once.
    #[must_use]
    pub fn new(level: Level, buffer: usize, batch: usize) -> Self {
        let queue = ExportQueue::new(buffer, batch, &counters::LOG_RECORDS_DROPPED);
        Self { level: level.into(), queue }
    }

    /// Events go here from now on, and nowhere else.
    pub fn begin(self: &Arc<Self>) {
        EXPORT.store(Some(Arc::clone(self)));
    }

    /// Takes nothing more; what is there can still be sent.
    pub fn end(self: &Arc<Self>) {
        let ended = EXPORT.load();
        if ended.as_ref().is_some_and(|current| Arc::ptr_eq(current, self)) {
            EXPORT.compare_and_swap(&ended, None);
        }
        self.queue.close();
    }

    /// What waits to be sent.
    #[must_use]
    pub fn queue(&self) -> &ExportQueue<LogRecord> {
        &self.queue
    }

    fn push(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        if *metadata.level() > self.level {
            return;
        }
        let target = metadata.target();
        let mut record = LogRecord {
            time: SystemTime::now(),
            level: *metadata.level(),
            event: event_name(metadata),
            target: (!target.starts_with("keepwarm")).then_some(target),
            message: String::new(),
            values: Vec::new(),
        };
        event.record(&mut record);
        self.queue.push(record);
    }
}

/// Keeps an event where events are sent.
pub(super) fn keep(event: &Event<'_>) {
    if let Some(export) = &*EXPORT.load() {
        export.push(event);
    }
}

/// An event.
#[derive(Debug)]
pub struct LogRecord {
    /// When it happened.
    pub time: SystemTime,
    /// Its level.
    pub level: Level,
    /// Its stable name; libraries give none.
    pub event: Option<&'static str>,
    /// Where a library logged it; none of Keepwarm's own.
    pub target: Option<&'static str>,
    /// The message, or what an app has printed.
    pub message: String,
    /// Its other fields.
    pub values: Vec<(&'static str, LogValue)>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum LogValue {
    /// A text.
    Text(String),
    /// A number.
    Int(i64),
    /// A fraction.
    Double(f64),
    /// A truth value.
    Bool(bool),
}

impl Exported for LogRecord {
    fn bytes(&self) -> usize {
        let texts = self.values.iter().map(|(_, value)| match value {
            LogValue::Text(text) => text.capacity(),
            LogValue::Int(_) | LogValue::Double(_) | LogValue::Bool(_) => 0,
        });
        let values = self.values.capacity() * size_of::<(&str, LogValue)>();
        size_of::<Self>() + self.message.capacity() + values + texts.sum::<usize>()
    }
}

impl LogRecord {
    fn push(&mut self, field: &Field, value: LogValue) {
        self.values.push((field.name(), value));
    }

    fn push_text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = cut(text, LONGEST_MESSAGE),
            _ => self.push(field, LogValue::Text(cut(text, LONGEST_VALUE))),
        }
    }
}

fn cut(mut text: String, longest: usize) -> String {
    text.truncate(text.floor_char_boundary(longest));
    text.shrink_to_fit();
    text
}

impl Visit for LogRecord {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push_text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_text(field, value.to_owned());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, LogValue::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, LogValue::Int(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, LogValue::Bool(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, LogValue::Double(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests;
