//! Buffers log lines in memory, and writes them to an output in a thread of its own.
//!
//! A thread appends to a buffer of its own, which only the sink's writer thread also locks, at most ten times a second. The writer collects
//! the buffers 100 ms after the first line came, or sooner when one is full, writes them, and sleeps for good when there is nothing. An output that blocks
//! delays the writer alone: up to 8 MiB wait in memory, then lines are dropped and counted, and one line says how many.
//!
//! Nothing is lost when a thread ends (its buffer belongs to the sink as well), nor at the end of the process if that calls [`flush_all`].

#[cfg(test)]
pub(crate) mod tests;
mod writer;

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::panics::abort_on_panic;
use crate::{Format, counters};

/// A thread's buffer is handed over when it holds this many bytes: a write of this size costs no more per byte than a larger one.
const BUFFER_MAX: usize = 128 * 1024;
/// Bytes that may wait for an output, besides those in the threads' buffers.
const QUEUE_MAX: usize = 8 * 1024 * 1024;
/// How long a line may wait for others.
const WRITE_DELAY: Duration = Duration::from_millis(100);

/// The output of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, created if it does not exist, in append mode.
    File(PathBuf),
}

impl Output {
    /// Whether a person reads it.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
            Self::File(_) => false,
        }
    }

    fn open(&self) -> io::Result<File> {
        match self {
            Self::Stdout => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Self::Stderr => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
            Self::File(path) => OpenOptions::new().append(true).create(true).open(path),
        }
    }
}

/// A handle to the buffered lines of an output. Cheap to clone; when the last clone is dropped, what waits is still written.
#[derive(Debug, Clone)]
pub struct Sink(Arc<Handle>);

impl Sink {
    /// The sink of an output: always the same one, so that lines never mix. `format` is that of the line that reports
    /// dropped lines.
    ///
    /// # Errors
    /// The file cannot be opened, or the system refuses a thread.
    pub fn open(output: Output, format: Format) -> io::Result<Self> {
        let mut all = all();
        all.retain(|sink| sink.shared.strong_count() > 0);
        let handles = all.iter().filter_map(|sink| sink.handle.upgrade());
        let same = handles.into_iter().find(|handle| handle.0.output.as_ref() == Some(&output));
        if let Some(handle) = same {
            return Ok(Self(handle));
        }
        let file = output.open()?;
        let sink = Self::start(Some(output), file, format)?;
        all.push(OpenSink::of(&sink));
        Ok(sink)
    }

    fn start(output: Option<Output>, file: File, format: Format) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            output,
            format,
            threads: Mutex::default(),
            queue: Mutex::default(),
            urgent: Condvar::new(),
            written: Condvar::new(),
            asleep: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        });
        let handle = Arc::new(Handle(Arc::clone(&shared)));
        std::thread::Builder::new()
            .name("keepwarm-log".to_owned())
            .spawn(move || abort_on_panic("the writer of a log", || writer::run(&shared, file)))?;
        Ok(Self(handle))
    }

    /// Appends what `write` writes, which is whole lines and ends with a line end. Does not wait for the output. `write` must not log.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut write = Some(write);
        let mut append = |buffer: &Buffer| {
            if let Some(write) = write.take() {
                self.0.0.append(buffer, write);
            }
        };
        // Fails while the thread is ending, when its own buffers are gone.
        let done = BUFFERS.try_with(|buffers| {
            if let Some(buffer) = buffers.borrow().find(&self.0.0) {
                return append(buffer);
            }
            let buffer = buffers.borrow_mut().add(&self.0.0);
            append(&buffer);
        });
        if done.is_err() {
            append(&self.0.0.new_buffer());
        }
    }

    /// Writes what was appended before, by any thread, and waits for that; `false` when the output did not take it in time.
    pub fn flush(&self, wait: Duration) -> bool {
        let ticket = self.0.0.request_flush();
        self.0.0.wait_for_flush(ticket, Instant::now() + wait)
    }

    /// Reopens the file, for a log that was moved away. Lines appended before may go to either.
    pub fn reopen(&self) {
        self.0.0.lock_queue().reopen = true;
        self.0.0.urgent.notify_one();
    }
}

/// Writes what was appended to any sink before, as the last thing a process does. For files the limit is five times `wait`: a busy disk
/// takes the lines in the end, while a pipe may never be read. `false` when some of it was not taken.
pub fn flush_all(wait: Duration) -> bool {
    let now = Instant::now();
    // Also those whose last handle is gone: their writers may still be at work.
    let sinks: Vec<_> = all().iter().filter_map(|sink| sink.shared.upgrade()).collect();
    // All flushes are requested before the first wait, so that a blocked sink does not delay the others.
    let tickets: Vec<_> = sinks.iter().map(|sink| sink.request_flush()).collect();
    let until =
        |sink: &Shared| now + if matches!(sink.output, Some(Output::File(_))) { wait * 5 } else { wait };
    sinks.iter().zip(tickets).filter(|(sink, ticket)| !sink.wait_for_flush(*ticket, until(sink))).count() == 0
}

/// Reopens every file ([`Sink::reopen`]).
pub fn reopen_all() {
    let sinks: Vec<_> = all().iter().filter_map(|sink| sink.handle.upgrade()).collect();
    sinks.into_iter().for_each(|sink| Sink(sink).reopen());
}

/// An open sink: its handle, and what its writer holds for as long as it runs.
struct OpenSink {
    handle: Weak<Handle>,
    shared: Weak<Shared>,
}

impl OpenSink {
    fn of(sink: &Sink) -> Self {
        Self { handle: Arc::downgrade(&sink.0), shared: Arc::downgrade(&sink.0.0) }
    }
}

fn all() -> MutexGuard<'static, Vec<OpenSink>> {
    static ALL: Mutex<Vec<OpenSink>> = Mutex::new(Vec::new());
    lock(&ALL)
}

/// Counts the users of a sink, without its writer.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock_queue().closed = true;
        self.0.urgent.notify_one();
    }
}

/// State shared by appenders and the writer.
#[derive(Debug)]
struct Shared {
    output: Option<Output>,
    format: Format,
    /// The buffers of all threads that have appended.
    threads: Mutex<Vec<Arc<Buffer>>>,
    queue: Mutex<Queue>,
    /// Something cannot wait for [`WRITE_DELAY`], or something came while the writer slept.
    urgent: Condvar,
    written: Condvar,
    /// The writer waits for a first line. It says so before it looks at the buffers for the last time, and a line is in its buffer before this is looked at:
    /// one of both sees the other.
    asleep: AtomicBool,
    /// Lines dropped and not yet reported.
    dropped: AtomicU64,
}

type Buffer = Mutex<Vec<u8>>;

#[derive(Debug, Default)]
struct Queue {
    full: Vec<Vec<u8>>,
    /// Bytes in `full` and in the writer's hands.
    held: usize,
    /// Empty buffers, kept for the next.
    spare: Vec<Vec<u8>>,
    closed: bool,
    reopen: bool,
    /// Flushes requested and done, as increasing numbers.
    flushes_requested: u64,
    flushes_done: u64,
}

impl Queue {
    fn is_urgent(&self) -> bool {
        !self.full.is_empty() || self.closed || self.reopen || self.flushes_requested > self.flushes_done
    }
}

impl Shared {
    fn append(&self, buffer: &Buffer, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = lock(buffer);
        if buffer.len() >= BUFFER_MAX && !self.hand_over(&mut buffer) {
            self.count_dropped(1);
            return;
        }
        let is_first = buffer.is_empty();
        write(&mut buffer);
        drop(buffer);
        if is_first && self.asleep.swap(false, Ordering::SeqCst) {
            // With the lock, or the writer might be between looking and waiting.
            drop(self.lock_queue());
            self.urgent.notify_one();
        }
    }

    /// Counts at once: an output that is blocked takes no report either.
    fn count_dropped(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
        counters::LOG_LINES_DROPPED.add(lines);
    }

    /// `false`: there is no room.
    fn hand_over(&self, buffer: &mut Vec<u8>) -> bool {
        let mut queue = self.lock_queue();
        if queue.held + buffer.len() > QUEUE_MAX {
            return false;
        }
        queue.held += buffer.len();
        let empty = queue.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_MAX + BUFFER_MAX / 4));
        queue.full.push(std::mem::replace(buffer, empty));
        self.urgent.notify_one();
        true
    }

    fn request_flush(&self) -> u64 {
        let mut queue = self.lock_queue();
        queue.flushes_requested += 1;
        self.urgent.notify_one();
        queue.flushes_requested
    }

    /// `false`: not until then.
    fn wait_for_flush(&self, ticket: u64, until: Instant) -> bool {
        let mut queue = self.lock_queue();
        while queue.flushes_done < ticket {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.written.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The writer has written everything, and ends.
    fn end(&self) {
        self.lock_queue().flushes_done = u64::MAX;
        self.written.notify_all();
    }

    fn new_buffer(&self) -> Arc<Buffer> {
        let buffer = Arc::new(Buffer::default());
        lock(&self.threads).push(Arc::clone(&buffer));
        buffer
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

/// The buffers of a thread, one for each sink it has appended to.
struct Buffers(Vec<(Weak<Shared>, Arc<Buffer>)>);

impl Buffers {
    fn find(&self, sink: &Arc<Shared>) -> Option<&Buffer> {
        // What a Weak points to is not given to others, so that the address tells sinks apart.
        let own = self.0.iter().find(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(sink)));
        own.map(|(_, buffer)| &**buffer)
    }

    fn add(&mut self, sink: &Arc<Shared>) -> Arc<Buffer> {
        self.0.retain(|(of, _)| of.strong_count() > 0);
        let buffer = sink.new_buffer();
        self.0.push((Arc::downgrade(sink), Arc::clone(&buffer)));
        buffer
    }
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = const { RefCell::new(Buffers(Vec::new())) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
