//! The log of the process: writes each `tracing` event as a line, through a [`Sink`].
//!
//! ```text
//! 2026-01-01T00:00:00.000Z WARN  app=shop worker=2 the worker ended status=1 after=3.2s
//! ```
//!
//! `app` and `worker` come before the message, the other fields after it. JSON has the event's stable name as well. A multi-line output of an app
//! ([`crate::app_output`]) is one record: in text its further lines follow, each indented by four spaces. Spans are not recorded: Keepwarm uses none.
//!
//! On a terminal the line is for a person (`terminal.rs`): `app` and `worker` are one prefix, and what an app prints has no field behind it.

mod export;

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::escape::{push_json, push_readable};
use crate::terminal::{self, Paint};
use crate::{Format, Output, Sink, app_output, timestamp};

pub use export::{LogExport, LogRecord, LogValue};

/// Sends the events of the process, at `level` and above, to `output`. Once in a process. Returns the sink, for [`Sink::flush`] and [`Sink::reopen`].
///
/// Text on a terminal is [`Format::Terminal`].
///
/// # Errors
/// The output cannot be opened, or there is a log already.
pub fn init(format: Format, level: Level, output: Output) -> io::Result<Sink> {
    let format = format.on(&output);
    let sink = Sink::open(output, format)?;
    let log = LogSubscriber { sink: sink.clone(), format, level: level.into() };
    tracing::subscriber::set_global_default(log).map_err(io::Error::other)?;
    Ok(sink)
}

/// Writes events as lines.
struct LogSubscriber {
    sink: Sink,
    format: Format,
    level: LevelFilter,
}

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        LINE.with(|line| match line.try_borrow_mut() {
            Ok(mut line) => self.write(event, &mut line),
            // A value that logs while it is being logged.
            Err(_) => self.write(event, &mut LogLine::default()),
        });
        export::keep(event);
    }

    fn new_span(&self, _attributes: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}
    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}
    fn enter(&self, _span: &span::Id) {}
    fn exit(&self, _span: &span::Id) {}
}

impl LogSubscriber {
    /// Formats before it appends, because formatting runs foreign code.
    fn write(&self, event: &Event<'_>, line: &mut LogLine) {
        let metadata = event.metadata();
        line.clear(self.format, metadata.target() == app_output::TARGET);
        event.record(line);
        let time = timestamp(SystemTime::now());
        let level = *metadata.level();
        self.sink.append(|out| match self.format {
            Format::Text => {
                out.extend_from_slice(&time);
                out.push(b' ');
                out.extend_from_slice(level_name(level));
                out.extend_from_slice(&line.front);
                out.push(b' ');
                out.extend_from_slice(&line.message);
                out.extend_from_slice(&line.rest);
                if !metadata.target().starts_with("keepwarm") {
                    out.extend_from_slice(b" target=");
                    push_readable(out, metadata.target());
                }
                out.push(b'\n');
                out.extend_from_slice(&line.further);
            }
            Format::Json => {
                out.extend_from_slice(b"{\"time\":\"");
                out.extend_from_slice(&time);
                out.extend_from_slice(b"\",\"level\":\"");
                out.extend_from_slice(level_name(level).trim_ascii_end().to_ascii_lowercase().as_slice());
                out.push(b'"');
                if let Some(name) = event_name(metadata) {
                    out.extend_from_slice(b",\"event\":\"");
                    out.extend_from_slice(name.as_bytes());
                    out.push(b'"');
                }
                out.extend_from_slice(&line.front);
                out.extend_from_slice(b",\"message\":\"");
                out.extend_from_slice(&line.message);
                out.extend_from_slice(b"\",\"target\":\"");
                push_json(out, metadata.target().as_bytes());
                out.push(b'"');
                out.extend_from_slice(&line.rest);
                out.extend_from_slice(b"}\n");
            }
            Format::Terminal { color } => line.write_to_terminal(out, metadata, color),
        });
    }
}

/// The stable name of the event (`docs/reference/log-events.md`). Libraries give none: theirs is where they log, which contains spaces.
fn event_name(metadata: &Metadata<'static>) -> Option<&'static str> {
    Some(metadata.name()).filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

fn level_name(level: Level) -> &'static [u8] {
    match level {
        Level::ERROR => b"ERROR",
        Level::WARN => b"WARN ",
        Level::INFO => b"INFO ",
        Level::DEBUG => b"DEBUG",
        Level::TRACE => b"TRACE",
    }
}

fn paint_of(level: Level) -> Paint {
    match level {
        Level::ERROR => Paint::Red,
        Level::WARN => Paint::Yellow,
        Level::INFO => Paint::Green,
        _ => Paint::Dim,
    }
}

/// The formatted fields of an event, by their position in the line.
#[derive(Default)]
struct LogLine {
    json: bool,
    /// For a person: whether in color.
    terminal: Option<bool>,
    /// The message is the output of an app.
    is_app_output: bool,
    front: Vec<u8>,
    message: Vec<u8>,
    rest: Vec<u8>,
    /// The lines of the message after the first, with their ends; in text only.
    further: Vec<u8>,
    /// Buffer for a value before it is escaped.
    value: String,
}

impl LogLine {
    fn clear(&mut self, format: Format, is_app_output: bool) {
        self.json = format == Format::Json;
        self.terminal = match format {
            Format::Terminal { color } => Some(color),
            Format::Text | Format::Json => None,
        };
        self.is_app_output = is_app_output;
        self.further.clear();
        self.front.clear();
        self.message.clear();
        self.rest.clear();
    }

    fn push_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            match self.json {
                true => push_json(&mut self.message, value.as_bytes()),
                false if self.is_app_output => self.push_app_text(value),
                false => push_readable(&mut self.message, value),
            }
            return;
        }
        let json = self.json;
        let out = self.begin(field);
        match json {
            true => {
                out.push(b'"');
                push_json(out, value.as_bytes());
                out.push(b'"');
            }
            false => push_token(out, value),
        }
    }

    /// Indents further lines, so that none can be mistaken for the beginning of a record.
    fn push_app_text(&mut self, text: &str) {
        if let Some(color) = self.terminal {
            return self.push_app_text_to_terminal(text, color);
        }
        let mut lines = text.split('\n');
        push_app_line(&mut self.message, lines.next().unwrap_or_default());
        for line in lines {
            self.further.extend_from_slice(b"    ");
            push_app_line(&mut self.further, line);
            self.further.push(b'\n');
        }
    }

    /// Each line has its end here, since its prefix is not known before the last field.
    fn push_app_text_to_terminal(&mut self, text: &str, color: bool) {
        for line in text.split('\n') {
            terminal::push_app_line(&mut self.further, line, color);
            self.further.push(b'\n');
        }
    }

    /// `14:03:07 WARN  shop/2 MESSAGE key=value`, or for the output of an app `14:03:07 shop/2 | LINE` for each of its lines.
    fn write_to_terminal(&self, out: &mut Vec<u8>, metadata: &Metadata<'_>, color: bool) {
        let level = *metadata.level();
        let prefix = self.front.trim_ascii_start();
        if self.is_app_output {
            let paint = match level {
                Level::ERROR | Level::WARN => paint_of(level),
                _ => Paint::of_worker(prefix),
            };
            for (number, line) in self.further.split_inclusive(|&byte| byte == b'\n').enumerate() {
                match number {
                    0 => terminal::push_clock(out, SystemTime::now(), color),
                    _ => out.extend_from_slice(terminal::NO_TIME),
                }
                paint.over(out, color, |out| {
                    out.extend_from_slice(prefix);
                    out.extend_from_slice(b" |");
                });
                if line != b"\n" {
                    out.push(b' ');
                }
                out.extend_from_slice(line);
            }
            return;
        }
        terminal::push_clock(out, SystemTime::now(), color);
        paint_of(level).over(out, color, |out| out.extend_from_slice(level_name(level)));
        if !prefix.is_empty() {
            out.push(b' ');
            Paint::Bold.over(out, color, |out| out.extend_from_slice(prefix));
        }
        out.push(b' ');
        out.extend_from_slice(&self.message);
        let is_foreign = !metadata.target().starts_with("keepwarm");
        if !self.rest.is_empty() || is_foreign {
            Paint::Dim.over(out, color, |out| {
                out.extend_from_slice(&self.rest);
                if is_foreign {
                    out.extend_from_slice(b" target=");
                    push_readable(out, metadata.target());
                }
            });
        }
        out.push(b'\n');
    }

    /// A number or a boolean, the same in both formats.
    fn push_bare(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing into memory cannot fail.
        let _ = self.begin(field).write_fmt(value);
    }

    /// Writes the field's name and returns the buffer for its value.
    fn begin(&mut self, field: &Field) -> &mut Vec<u8> {
        let out = match field.name() {
            "app" | "process" if self.terminal.is_some() => {
                self.front.push(b' ');
                return &mut self.front;
            }
            "worker" | "number" if self.terminal.is_some() => {
                self.front.push(b'/');
                return &mut self.front;
            }
            "app" | "worker" | "process" | "number" => &mut self.front,
            _ => &mut self.rest,
        };
        let name = field.name().as_bytes();
        let (before, after): (&[u8], &[u8]) = if self.json { (b",\"", b"\":") } else { (b" ", b"=") };
        for part in [before, name, after] {
            out.extend_from_slice(part);
        }
        out
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = std::mem::take(&mut self.value);
        text.clear();
        let _ = write!(text, "{value:?}");
        self.push_str(field, &text);
        self.value = text;
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_str(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_bare(field, format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_bare(field, format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_bare(field, format_args!("{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match self.json && !value.is_finite() {
            true => self.push_bare(field, format_args!("null")),
            false => self.push_bare(field, format_args!("{value}")),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Keeps tabs, which indent traces.
fn push_app_line(out: &mut Vec<u8>, line: &str) {
    for (number, part) in line.split('\t').enumerate() {
        if number > 0 {
            out.push(b'\t');
        }
        push_readable(out, part);
    }
}

/// A value of a text line: quoted if its end would be ambiguous.
fn push_token(out: &mut Vec<u8>, value: &str) {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(is_plain) {
        return push_readable(out, value);
    }
    out.push(b'"');
    // Each part but the last ends with the one that needs a backslash.
    for part in value.split_inclusive(['"', '\\']) {
        let bare = part.trim_end_matches(['"', '\\']);
        push_readable(out, bare);
        if let Some(special) = part.as_bytes().get(bare.len()) {
            out.extend_from_slice(&[b'\\', *special]);
        }
    }
    out.push(b'"');
}

thread_local! {
    static LINE: RefCell<LogLine> = RefCell::default();
}

#[cfg(test)]
mod tests;
