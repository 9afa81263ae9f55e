//! What an app prints, as records: the lines of one traceback belong together, and its language says how bad it is.
//!
//! ```text
//! Traceback (most recent call last):        one record, of level error
//!   File "shop.py", line 3, in pay
//! ValueError: no such card
//! 10 items sold                             another, of level info
//! ```
//!
//! A line that begins with white space belongs to the one above it; what else does is known of Python, PHP, Ruby, Node, Go and Rust. No line is dropped or
//! changed, whatever is made of it.

mod level;

use tracing::Level;

/// Of the log's events, those that an app has printed.
pub(crate) const TARGET: &str = "keepwarm::worker";
/// The longest record; what follows in a longer one is the next. Tracebacks of deep recursion are shortened by their languages to far less.
const RECORD_MAX: usize = 64 * 1024;

/// Puts lines together. Whoever feeds it calls [`Records::flush`] when nothing has come for a moment: only then is it known that a record is whole.
#[derive(Debug)]
pub struct Records {
    /// The record so far: its lines with `\n` between them. Nothing is held while `shape` is `None`.
    text: Vec<u8>,
    shape: Option<Shape>,
    level: Level,
    /// Empty lines that came behind it: they belong to it if what follows does.
    blanks: usize,
}

/// What may follow what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Any line: those below it that are indented.
    Line,
    /// An error of Ruby's `Logger`, whose further lines have no prefix of their own.
    Logger,
    /// Within Python's traceback: the exception is still to come.
    Traceback,
    /// Python's exception has come: a sentence may join another traceback to it.
    Exception,
    /// That sentence has come.
    Joined,
    /// PHP's exception: `Stack trace:`, its calls, `Next …`.
    Uncaught,
    /// Go's `panic:`: the goroutines are still to come.
    Panic,
    /// Within a goroutine.
    Goroutine,
    /// Node has shown the place with `^` under it: the error follows an empty line.
    Caret,
    /// Node's error, behind which stands its version.
    Thrown,
    /// Rust's `panicked at`: the message is still to come.
    Panicked,
}

impl Default for Records {
    fn default() -> Self {
        Self { text: Vec::new(), shape: None, level: Level::INFO, blanks: 0 }
    }
}

impl Records {
    /// Whether [`Records::flush`] would give anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.is_none()
    }

    /// Takes a line without its end; `each` gets the records that it completes.
    pub fn line(&mut self, line: &[u8], mut each: impl FnMut(Level, &[u8])) {
        let room = self.text.len() + self.blanks + line.len() < RECORD_MAX;
        if line.is_empty() {
            if room && self.shape.is_some_and(Shape::bridges) {
                self.blanks += 1;
            } else {
                self.flush(&mut each);
                each(Level::INFO, b"");
            }
            return;
        }
        match self.shape.filter(|_| room).and_then(|shape| self.next(shape, line)) {
            Some(next) => {
                self.text.extend(std::iter::repeat_n(b'\n', self.blanks + 1));
                self.text.extend_from_slice(line);
                self.blanks = 0;
                self.shape = Some(next);
            }
            None => {
                self.flush(&mut each);
                self.begin(line);
            }
        }
    }

    /// What is held is whole.
    pub fn flush(&mut self, mut each: impl FnMut(Level, &[u8])) {
        if self.shape.take().is_some() {
            each(self.level, &self.text);
            (0..std::mem::take(&mut self.blanks)).for_each(|_| each(Level::INFO, b""));
            self.text.clear();
        }
    }

    fn begin(&mut self, line: &[u8]) {
        self.text.extend_from_slice(line);
        (self.shape, self.level) = (Some(Shape::of(line)), level::of(line));
    }

    /// What the record becomes with this line; `None`: the line begins another.
    fn next(&mut self, shape: Shape, line: &[u8]) -> Option<Shape> {
        let indented = line.starts_with(b" ") || line.starts_with(b"\t");
        if self.blanks > 0 {
            return shape.next_after_blank(line);
        }
        if indented && (shape != Shape::Line || !level::is_python_place(line)) {
            return Some(self.indented(shape, line));
        }
        match shape {
            Shape::Traceback => Some(Shape::Exception),
            Shape::Panicked => Some(Shape::Line),
            Shape::Goroutine if is_go_call(line) => Some(Shape::Goroutine),
            Shape::Panic if line.starts_with(b"goroutine ") => Some(Shape::Goroutine),
            Shape::Panic if line.starts_with(b"[signal ") => Some(Shape::Panic),
            Shape::Uncaught if line.starts_with(b"Stack trace:") || is_php_call(line) => {
                Some(Shape::Uncaught)
            }
            Shape::Joined => is_traceback(line).then_some(Shape::Traceback),
            Shape::Logger if !level::is_logger(line) => Some(Shape::Logger),
            Shape::Line if self.announces() && (is_traceback(line) || line == b"Stack trace:") => {
                self.level = Level::ERROR;
                Some(if is_traceback(line) { Shape::Traceback } else { Shape::Uncaught })
            }
            Shape::Line | Shape::Thrown if closes(line) && self.text.contains(&b'\n') => Some(shape),
            Shape::Line if self.level == Level::ERROR && is_note(line) => Some(Shape::Line),
            _ => None,
        }
    }

    fn indented(&mut self, shape: Shape, line: &[u8]) -> Shape {
        let inner = line.trim_ascii();
        if inner.starts_with(b"from ") || (inner.starts_with(b"at ") && level::names_error(&self.text)) {
            self.level = Level::ERROR;
        }
        match shape {
            Shape::Line if !inner.is_empty() && inner.iter().all(|&byte| byte == b'^') => Shape::Caret,
            Shape::Caret => Shape::Line,
            shape => shape,
        }
    }

    /// A line of a log below which a traceback belongs to it.
    fn announces(&self) -> bool {
        !self.text.contains(&b'\n') && (self.level <= Level::WARN || level::names_error(&self.text))
    }
}

impl Shape {
    fn of(line: &[u8]) -> Self {
        match line {
            _ if is_traceback(line) || level::is_python_place(line) => Self::Traceback,
            _ if level::is_go_panic(line) => Self::Panic,
            _ if level::is_rust_panic(line) => Self::Panicked,
            _ if level::is_php_fatal(line) => Self::Uncaught,
            _ if level::is_logger(line) && level::of(line) <= Level::WARN => Self::Logger,
            _ => Self::Line,
        }
    }

    /// Empty lines may stand within what has this shape.
    fn bridges(self) -> bool {
        !matches!(self, Self::Line | Self::Logger | Self::Traceback | Self::Panicked)
    }

    fn next_after_blank(self, line: &[u8]) -> Option<Self> {
        let next = match self {
            Self::Exception => Self::Joined,
            Self::Joined => Self::Traceback,
            Self::Uncaught => Self::Uncaught,
            Self::Panic | Self::Goroutine => Self::Goroutine,
            Self::Caret => Self::Thrown,
            Self::Thrown => Self::Line,
            _ => return None,
        };
        let fits = match self {
            Self::Exception => {
                line.starts_with(b"During handling of the above exception")
                    || line.starts_with(b"The above exception was")
            }
            Self::Joined => is_traceback(line),
            Self::Uncaught => line.starts_with(b"Next "),
            Self::Panic | Self::Goroutine => line.starts_with(b"goroutine "),
            Self::Thrown => line.starts_with(b"Node.js v"),
            _ => true,
        };
        fits.then_some(next)
    }
}

fn is_traceback(line: &[u8]) -> bool {
    line.starts_with(b"Traceback (most recent call last)")
}

/// `#0 shop.php(3): pay()`
fn is_php_call(line: &[u8]) -> bool {
    line.strip_prefix(b"#").and_then(|rest| rest.first()).is_some_and(u8::is_ascii_digit)
}

/// `main.pay(...)`, `created by main.main in goroutine 1`
fn is_go_call(line: &[u8]) -> bool {
    line.ends_with(b")") || line.starts_with(b"created by ") || line.starts_with(b"goroutine ")
}

/// The end of something whose inside was indented.
fn closes(line: &[u8]) -> bool {
    line.iter().all(|byte| b"}])>,;".contains(byte))
}

/// What Rust says below a panic.
fn is_note(line: &[u8]) -> bool {
    line.starts_with(b"note: ") || line.starts_with(b"stack backtrace:")
}

/// Writes a record of a worker (its app, number and process) to the log.
pub fn log(level: Level, (app, worker, pid): (&str, u32, u32), stream: &'static str, text: &[u8]) {
    macro_rules! log_at {
        ($level:expr) => {
            tracing::event!(target: TARGET, $level, app, worker, pid, stream, "{}", String::from_utf8_lossy(text))
        };
    }
    match level {
        Level::ERROR => log_at!(Level::ERROR),
        Level::WARN => log_at!(Level::WARN),
        _ => log_at!(Level::INFO),
    }
}

#[cfg(test)]
mod tests;
