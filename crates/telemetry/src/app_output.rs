//! Assembles the output of an app into records: the lines of one traceback belong together, and its language determines the level.
//!
//! ```text
//! Traceback (most recent call last):        one record, of level error
//!   File "shop.py", line 3, in pay
//! ValueError: no such card
//! 10 items sold                             another, of level info
//! ```
//!
//! A line that begins with white space belongs to the one above it; further rules cover Python, PHP, Ruby, Node, Go and Rust. No line is dropped or
//! changed.
//!
//! An adapter knows where its record ends, and ends each line but the last with byte 0x1F (spec/wire.md §1).

mod level;
mod lines;

use std::borrow::Cow;

use tracing::Level;

/// The target of log events with the output of an app.
pub(crate) const TARGET: &str = "keepwarm::worker";
/// Limit on the size of a record; the rest of a longer one is the next record. Tracebacks of deep recursion are shortened by their languages to far less.
const RECORD_MAX: usize = 64 * 1024;

/// The last byte of a line whose record continues with the next line, regardless of its content.
const CONTINUATION_MARK: u8 = 0x1f;

/// Assembles the lines of an app into records. The caller calls [`RecordAssembler::flush`] after a short silence: only then is a record known to be complete.
#[derive(Debug)]
pub struct RecordAssembler {
    /// The record so far: its lines with `\n` between them. Nothing is held while `kind` is `None`.
    text: Vec<u8>,
    kind: Option<RecordKind>,
    level: Level,
    /// Empty lines after it: they belong to it if the next line does.
    blanks: usize,
    /// The last line was marked: the next one belongs to the record.
    continued: bool,
}

/// The kind of the record so far: it decides which lines may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    /// Any line: those below it that are indented.
    Line,
    /// An error of Ruby's `Logger`, whose further lines have no prefix of their own.
    Logger,
    /// Within Python's traceback: the exception is still to come.
    Traceback,
    /// Python's exception has come: a sentence may join another traceback to it.
    Exception,
    /// That sentence has come.
    ChainedException,
    /// PHP's uncaught exception whose text has several lines: the last names the file and line.
    PhpMessage,
    /// PHP's exception: `Stack trace:`, its calls, `Next …`.
    PhpException,
    /// Go's `panic:`: the goroutines are still to come.
    GoPanic,
    /// Within a goroutine.
    Goroutine,
    /// Node has shown the place with `^` under it: the error follows an empty line.
    NodeSource,
    /// Node's error, behind which stands its version.
    NodeError,
    /// Rust's `panicked at`: the message is still to come.
    RustPanic,
    /// asyncio's report of an error: `future: <Task …>`, and perhaps a traceback.
    AsyncioContext,
    /// A traceback that rich has drawn: the exception follows the box.
    RichTraceback,
    /// Python's own end: its threads are still to come.
    PythonFatal,
    /// Nothing: its end was marked.
    Marked,
}

impl Default for RecordAssembler {
    fn default() -> Self {
        Self { text: Vec::new(), kind: None, level: Level::INFO, blanks: 0, continued: false }
    }
}

impl RecordAssembler {
    /// Whether [`RecordAssembler::flush`] would give anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kind.is_none()
    }

    /// Takes a line without its end; `each` gets the records that it completes.
    pub fn push_line(&mut self, line: &[u8], mut each: impl FnMut(Level, &[u8])) {
        let room = self.text.len() + self.blanks + line.len() < RECORD_MAX;
        let (line, continues) = match line.strip_suffix(&[CONTINUATION_MARK]) {
            Some(line) => (line, true),
            None => (line, false),
        };
        let is_continuation = std::mem::replace(&mut self.continued, continues);
        if is_continuation || continues {
            if is_continuation && room && self.kind.is_some() {
                let first = self.text.split(|&byte| byte == b'\n').next().unwrap_or_default();
                let names_error =
                    lines::is_traceback(line) || level::is_python_group(line) || line.starts_with(b"\tfrom ");
                if names_error && level::find(first).is_none() {
                    self.level = Level::ERROR;
                }
                self.text.push(b'\n');
            } else {
                self.flush(&mut each);
                self.level = level::of(line);
            }
            self.text.extend_from_slice(line);
            self.kind = Some(RecordKind::Marked);
            return;
        }
        if line.is_empty() {
            if room && self.kind.is_some_and(RecordKind::spans_blank_lines) {
                self.blanks += 1;
            } else {
                self.flush(&mut each);
                each(Level::INFO, b"");
            }
            return;
        }
        match self.kind.filter(|_| room).and_then(|kind| self.next(kind, line)) {
            Some(next) => {
                self.text.extend(std::iter::repeat_n(b'\n', self.blanks + 1));
                self.text.extend_from_slice(line);
                self.blanks = 0;
                self.kind = Some(next);
            }
            None => {
                self.flush(&mut each);
                self.begin(line);
            }
        }
    }

    /// The current record is complete.
    pub fn flush(&mut self, mut each: impl FnMut(Level, &[u8])) {
        if self.kind.take().is_some() {
            each(self.level, &self.text);
            (0..std::mem::take(&mut self.blanks)).for_each(|_| each(Level::INFO, b""));
            self.text.clear();
        }
    }

    fn begin(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        (self.kind, self.level) = (Some(RecordKind::of(line)), level::of(line));
    }

    /// The kind of the record with this line; `None`: the line begins another.
    fn next(&mut self, kind: RecordKind, line: &[u8]) -> Option<RecordKind> {
        let indented = line.starts_with(b" ") || line.starts_with(b"\t");
        if kind == RecordKind::Marked {
            return None;
        }
        if self.blanks > 0 {
            return kind.next_after_blank(line);
        }
        let begins =
            level::is_python_place(line) || (level::is_python_group(line) && !self.expects_traceback());
        if indented && (kind != RecordKind::Line || !begins) {
            return Some(self.indented(kind, line));
        }
        match kind {
            RecordKind::Traceback => Some(RecordKind::Exception),
            RecordKind::RustPanic => Some(RecordKind::Line),
            RecordKind::Goroutine if lines::is_go_call(line) => Some(RecordKind::Goroutine),
            RecordKind::GoPanic if line.starts_with(b"goroutine ") => Some(RecordKind::Goroutine),
            RecordKind::GoPanic if line.starts_with(b"[signal ") => Some(RecordKind::GoPanic),
            RecordKind::PhpException if line.starts_with(b"Stack trace:") || lines::is_php_call(line) => {
                Some(RecordKind::PhpException)
            }
            // php-fpm's master drops the empty line in front of it.
            RecordKind::PhpException if line.starts_with(b"Next ") && lines::names_php_place(line) => {
                Some(RecordKind::PhpException)
            }
            RecordKind::PhpMessage if lines::names_php_place(line) => Some(RecordKind::PhpException),
            RecordKind::PhpMessage => Some(RecordKind::PhpMessage),
            RecordKind::ChainedException => lines::is_traceback(line).then_some(RecordKind::Traceback),
            RecordKind::Exception if lines::is_stack(line) || self.continues_exception(line) => {
                Some(RecordKind::Exception)
            }
            RecordKind::Line | RecordKind::AsyncioContext
                if lines::is_context(line) && self.expects_asyncio_context() =>
            {
                self.level = Level::ERROR;
                Some(RecordKind::AsyncioContext)
            }
            RecordKind::AsyncioContext if lines::is_traceback(line) => Some(RecordKind::Traceback),
            RecordKind::RichTraceback if lines::is_box(line) => Some(RecordKind::RichTraceback),
            RecordKind::RichTraceback if lines::is_box_end(self.last()) => Some(RecordKind::Exception),
            RecordKind::Line if self.expects_traceback() && level::is_boxed_traceback(line) => {
                self.level = Level::ERROR;
                Some(RecordKind::RichTraceback)
            }
            RecordKind::Line if lines::is_stack(line) && !self.text.contains(&b'\n') => {
                Some(RecordKind::Line)
            }
            RecordKind::PythonFatal if lines::is_thread(line) => Some(RecordKind::PythonFatal),
            RecordKind::Logger if !level::is_logger(line) => Some(RecordKind::Logger),
            RecordKind::Line
                if self.expects_traceback() && (lines::is_traceback(line) || line == b"Stack trace:") =>
            {
                self.level = Level::ERROR;
                Some(if lines::is_traceback(line) { RecordKind::Traceback } else { RecordKind::PhpException })
            }
            RecordKind::Line | RecordKind::NodeError
                if lines::is_closing_bracket(line) && self.text.contains(&b'\n') =>
            {
                Some(kind)
            }
            RecordKind::Line if self.level == Level::ERROR && lines::is_note(line) => Some(RecordKind::Line),
            _ => None,
        }
    }

    fn indented(&mut self, kind: RecordKind, line: &[u8]) -> RecordKind {
        let inner = line.trim_ascii();
        if matches!(kind, RecordKind::Line | RecordKind::AsyncioContext) && level::is_python_group(line) {
            self.level = Level::ERROR;
            return RecordKind::Exception;
        }
        // Ruby's `from shop.rb:3:in …`; `from shop import card` is the line that a warning of Python's is about.
        let is_ruby_place = inner.starts_with(b"from ") && !inner.windows(8).any(|part| part == b" import ");
        if is_ruby_place || (inner.starts_with(b"at ") && level::names_error(&self.text)) {
            self.level = Level::ERROR;
        }
        match kind {
            RecordKind::Line if !inner.is_empty() && inner.iter().all(|&byte| byte == b'^') => {
                RecordKind::NodeSource
            }
            RecordKind::NodeSource => RecordKind::Line,
            kind => kind,
        }
    }

    /// Whether this is a further line of the text of the exception above: of SQLAlchemy's, or of Pydantic's, which names each field in a line of its own.
    fn continues_exception(&self, line: &[u8]) -> bool {
        const PARTS: [&[u8]; 4] =
            [b"[SQL: ", b"[parameters: ", b"[generated in ", b"(Background on this error at: "];
        let mut fields = 0;
        let errors = self.text.rsplit(|&byte| byte == b'\n').find_map(|line| {
            let errors = lines::validation_errors(line);
            fields += usize::from(errors.is_none() && !line.starts_with(b" "));
            errors
        });
        let is_field = !line.iter().any(u8::is_ascii_whitespace);
        PARTS.iter().any(|part| line.starts_with(part))
            || (is_field && errors.is_some_and(|errors| fields < errors))
    }

    /// Its last line.
    fn last(&self) -> &[u8] {
        self.text.rsplit(|&byte| byte == b'\n').next().unwrap_or_default()
    }

    /// The line of asyncio, and of libraries like it, above the objects that it concerns.
    fn expects_asyncio_context(&self) -> bool {
        const PHRASES: [&[u8]; 3] = [b" was never retrieved", b" but it is pending!", b"Unclosed "];
        let is_phrase = |part: &&[u8]| self.text.windows(part.len()).any(|window| window == *part);
        self.kind == Some(RecordKind::AsyncioContext)
            || self.expects_traceback()
            || PHRASES.iter().any(is_phrase)
    }

    /// A line of a log below which a traceback belongs to it.
    fn expects_traceback(&self) -> bool {
        !self.text.contains(&b'\n') && (self.level <= Level::WARN || level::names_error(&self.text))
    }
}

impl RecordKind {
    fn of(line: &[u8]) -> Self {
        match line {
            _ if lines::is_traceback(line) || level::is_python_place(line) => Self::Traceback,
            _ if level::is_python_group(line) => Self::Exception,
            _ if level::is_boxed_traceback(line) => Self::RichTraceback,
            _ if line.starts_with(level::FATAL) => Self::PythonFatal,
            _ if level::is_go_panic(line) => Self::GoPanic,
            _ if level::is_rust_panic(line) => Self::RustPanic,
            _ if level::is_php_fatal(line) && level::is_uncaught(line) && !lines::names_php_place(line) => {
                Self::PhpMessage
            }
            _ if level::is_php_fatal(line) => Self::PhpException,
            _ if level::is_logger(line) && level::of(line) <= Level::WARN => Self::Logger,
            _ => Self::Line,
        }
    }

    /// Empty lines may stand within what has this shape.
    fn spans_blank_lines(self) -> bool {
        !matches!(
            self,
            Self::Line
                | Self::Logger
                | Self::RustPanic
                | Self::AsyncioContext
                | Self::RichTraceback
                | Self::Marked
        )
    }

    fn next_after_blank(self, line: &[u8]) -> Option<Self> {
        let next = match self {
            Self::Exception => Self::ChainedException,
            Self::ChainedException if level::is_python_group(line) => Self::Exception,
            Self::ChainedException => Self::Traceback,
            // loguru sets the places apart by empty lines, and marks one of them.
            Self::Traceback if line.starts_with(b" ") || line.starts_with(b"> File ") => Self::Traceback,
            Self::Traceback => Self::Exception,
            Self::PythonFatal => Self::PythonFatal,
            Self::PhpMessage if lines::names_php_place(line) => Self::PhpException,
            Self::PhpMessage => Self::PhpMessage,
            Self::PhpException => Self::PhpException,
            Self::GoPanic | Self::Goroutine => Self::Goroutine,
            Self::NodeSource => Self::NodeError,
            Self::NodeError => Self::Line,
            _ => return None,
        };
        let fits = match self {
            Self::Exception => {
                line.starts_with(b"During handling of the above exception")
                    || line.starts_with(b"The above exception was")
            }
            Self::ChainedException => lines::is_traceback(line) || level::is_python_group(line),
            Self::PythonFatal => lines::is_thread(line),
            Self::PhpException => line.starts_with(b"Next "),
            Self::GoPanic | Self::Goroutine => line.starts_with(b"goroutine "),
            Self::NodeError => line.starts_with(b"Node.js v"),
            _ => true,
        };
        fits.then_some(next)
    }
}

/// The bytes that an app meant to print: without the marks of lines whose record continues.
#[must_use]
pub fn strip_record_marks(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes.contains(&CONTINUATION_MARK) {
        true => bytes.iter().copied().filter(|&byte| byte != CONTINUATION_MARK).collect::<Vec<_>>().into(),
        false => bytes.into(),
    }
}

/// What has printed a record.
#[derive(Copy, Clone, Debug)]
pub enum Printer<'a> {
    /// A worker of an app, by its number.
    Worker(&'a str, u32),
    /// A process that serves no requests, by its number.
    Process(&'a str, u32),
    /// A command that runs before a section (`app.shop`) starts.
    Task(&'a str),
}

/// A level must be known when the program is compiled.
macro_rules! log_at {
    ($level:expr, $printer:expr, $pid:expr, $stream:expr, $text:expr) => {{
        let (pid, stream, text) = ($pid, $stream, String::from_utf8_lossy($text));
        match $printer {
            Printer::Worker(app, worker) => tracing::event!(
                name: "app_output", target: TARGET, $level,
                app, worker, pid, stream, "{text}"
            ),
            Printer::Process(process, number) => tracing::event!(
                name: "process_output", target: TARGET, $level,
                process, number, pid, stream, "{text}"
            ),
            Printer::Task(section) => tracing::event!(
                name: "before_start_output", target: TARGET, $level,
                section, pid, stream, "{text}"
            ),
        }
    }};
}
/// Writes a record to the log; `pid` is the process that has printed it.
pub fn log(level: Level, printer: Printer<'_>, pid: u32, stream: &'static str, text: &[u8]) {
    match level {
        Level::ERROR => log_at!(Level::ERROR, printer, pid, stream, text),
        Level::WARN => log_at!(Level::WARN, printer, pid, stream, text),
        _ => log_at!(Level::INFO, printer, pid, stream, text),
    }
}

#[cfg(test)]
mod tests;
