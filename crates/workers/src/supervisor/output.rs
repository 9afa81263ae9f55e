//! What workers print, as records of the log: `keepwarm_telemetry::app_output` says which lines belong together.
//!
//! One thread with a small runtime of its own reads the pipes of all workers. It takes 8 KiB of one worker at a time, and
//! nothing more before those lines are in the log: a worker that prints faster than the log takes it fills its pipe and
//! waits, and so does this thread when the log itself blocks, but nothing else.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::Level;

use keepwarm_telemetry::app_output::{Printer, RecordAssembler, strip_record_marks};

/// The longest line in the log, and the most that is read at once. A longer line becomes several.
const LINE_MAX: usize = 8 * 1024;
/// A record is whole when nothing has come behind it for so long: a language prints a traceback without a pause, if in several writes. The number is arbitrary.
const WHOLE_AFTER: Duration = Duration::from_millis(100);
/// How much of its standard error is kept for a worker that cannot boot: far more than a traceback.
const KEPT_MAX: usize = 64 * 1024;
/// How long a line of a worker in its first boot is held back from the log, in case the worker dies of what it says: then
/// it is shown as it was printed, and once. An interpreter ends well within this after its last word; the number is arbitrary.
const HOLD: Duration = Duration::from_secs(1);

/// The process that prints.
#[derive(Clone, Debug)]
pub(super) struct OutputSource {
    kind: SourceKind,
    /// Of its app, its `[process.NAME]`, or the section that a command belongs to.
    pub(super) name: Arc<str>,
    pub(super) number: u32,
    pub(super) pid: u32,
}

#[derive(Copy, Clone, Debug)]
enum SourceKind {
    Worker,
    Process,
    Task,
}

impl OutputSource {
    pub(super) fn worker(name: Arc<str>, number: u32, pid: u32) -> Self {
        Self { kind: SourceKind::Worker, name, number, pid }
    }

    pub(super) fn process(name: Arc<str>, number: u32, pid: u32) -> Self {
        Self { kind: SourceKind::Process, name, number, pid }
    }

    pub(super) fn task(section: Arc<str>, pid: u32) -> Self {
        Self { kind: SourceKind::Task, name: section, number: 0, pid }
    }

    fn printer(&self) -> Printer<'_> {
        match self.kind {
            SourceKind::Worker => Printer::Worker(&self.name, self.number),
            SourceKind::Process => Printer::Process(&self.name, self.number),
            SourceKind::Task => Printer::Task(&self.name),
        }
    }
}

/// Waits for a line that contains a text.
#[derive(Clone, Debug)]
pub(super) struct LineWatch {
    text: Arc<str>,
    found: mpsc::UnboundedSender<()>,
}

impl LineWatch {
    /// The receiver gets something for each line with this text; it ends when the output does.
    pub(super) fn new(text: Arc<str>) -> (Self, mpsc::UnboundedReceiver<()>) {
        let (found, receiver) = mpsc::unbounded_channel();
        (Self { text, found }, receiver)
    }

    fn look(&self, line: &[u8]) {
        if !self.found.is_closed() && String::from_utf8_lossy(line).contains(&*self.text) {
            // An error: nobody waits any more.
            let _ = self.found.send(());
        }
    }
}

/// What else is done with the output of a process than to log it.
#[derive(Clone, Debug)]
pub(super) enum Capture {
    /// Standard error of a worker, until it has booted.
    Boot(BootOutput),
    /// All output of a command that ends, for the report of its failure.
    All(BootOutput),
    /// A line shows that the process is ready.
    Line(LineWatch),
    Nothing,
}

/// The thread, from outside. It ends when all clones of this are dropped and every pipe has ended.
#[derive(Clone)]
pub(super) struct Output {
    jobs: mpsc::UnboundedSender<OutputJob>,
}

/// The pipes of one process, to be read by the output thread.
struct OutputJob {
    source: OutputSource,
    stdout: OwnedFd,
    stderr: OwnedFd,
    capture: Capture,
    ended: oneshot::Sender<()>,
}

/// Nothing is printed.
#[cfg(feature = "simulation")]
impl Output {
    #[expect(clippy::unnecessary_wraps, reason = "the other one starts a thread")]
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { jobs: mpsc::unbounded_channel().0 })
    }

    pub(super) fn attach(
        &self,
        _: OutputSource,
        _: OwnedFd,
        _: OwnedFd,
        _: Capture,
    ) -> oneshot::Receiver<()> {
        oneshot::channel().1
    }
}

#[cfg(not(feature = "simulation"))]
impl Output {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, mut receiver) = mpsc::unbounded_channel::<OutputJob>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        std::thread::Builder::new().name("worker-output".to_owned()).spawn(move || {
            // Workers whose output nobody reads stand still. A task's panic costs the output of its worker alone, whose pipes are closed.
            keepwarm_telemetry::panics::abort_on_panic("the reader of what workers print", || {
                runtime.block_on(read_all(&mut receiver))
            });
        })?;
        Ok(Self { jobs })
    }

    /// Reads both pipes to their ends; the receiver resolves then.
    pub(super) fn attach(
        &self,
        source: OutputSource,
        stdout: OwnedFd,
        stderr: OwnedFd,
        capture: Capture,
    ) -> oneshot::Receiver<()> {
        let (ended, receiver) = oneshot::channel();
        // The thread outlives `self`.
        let _ = self.jobs.send(OutputJob { source, stdout, stderr, capture, ended });
        receiver
    }
}

async fn read_all(receiver: &mut mpsc::UnboundedReceiver<OutputJob>) {
    let mut readers = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            biased;
            job = receiver.recv() => match job {
                Some(job) => drop(readers.spawn(job.run())),
                None => break,
            },
            Some(_) = readers.join_next() => {}
        }
    }
    while readers.join_next().await.is_some() {}
}

impl OutputJob {
    async fn run(self) {
        let Self { source, stdout, stderr, capture, ended } = self;
        let of_stdout = if matches!(capture, Capture::Boot(_)) { &Capture::Nothing } else { &capture };
        tokio::join!(
            log_errors(&source, "stdout", read(stdout, "stdout", &source, of_stdout)),
            log_errors(&source, "stderr", read(stderr, "stderr", &source, &capture)),
        );
        // The worker's keeper may have stopped waiting.
        let _ = ended.send(());
    }
}

async fn log_errors(
    source: &OutputSource,
    stream: &'static str,
    reading: impl Future<Output = io::Result<()>>,
) {
    if let Err(error) = reading.await {
        let OutputSource { name, number, pid, .. } = source;
        tracing::error!(
            name: "output_read_failed", target: "keepwarm::supervisor",
            name = %name, number, pid, stream, %error,
            "cannot read the output of a process"
        );
    }
}

/// Reads to the end.
async fn read(
    pipe: OwnedFd,
    stream: &'static str,
    source: &OutputSource,
    capture: &Capture,
) -> io::Result<()> {
    let boot_output = match capture {
        Capture::Boot(boot_output) | Capture::All(boot_output) => Some(boot_output),
        Capture::Line(_) | Capture::Nothing => None,
    };
    let mut pipe = Receiver::from_owned_fd(pipe)?;
    let mut lines = LineSplitter::default();
    let mut records = RecordAssembler::default();
    let mut whole_at = None;
    let mut bytes = vec![0; LINE_MAX];
    let tell = |level: Level, text: &[u8]| match boot_output {
        Some(boot_output) => boot_output.handle_record(source, stream, level, text),
        None => log(source, stream, level, text),
    };
    let see = |line: &[u8]| {
        if let Capture::Line(watch) = capture {
            watch.look(line);
        }
    };
    loop {
        let hold_until = boot_output.and_then(BootOutput::hold_until);
        let length = tokio::select! {
            biased;
            read = pipe.read(&mut bytes) => read?,
            () = sleep_until(whole_at.unwrap_or_else(Instant::now)), if whole_at.is_some() => {
                records.flush(tell);
                whole_at = None;
                continue;
            }
            () = sleep_until(hold_until.unwrap_or_else(Instant::now)), if hold_until.is_some() => {
                boot_output.inspect(|boot_output| boot_output.release(source));
                continue;
            }
        };
        let Some(bytes) = bytes.get(..length).filter(|bytes| !bytes.is_empty()) else {
            lines.finish(|line| {
                see(line);
                records.push_line(line, tell);
            });
            records.flush(tell);
            return Ok(());
        };
        boot_output.inspect(|boot_output| boot_output.handle_bytes(bytes));
        lines.handle_bytes(bytes, |line| {
            see(line);
            records.push_line(line, tell);
        });
        whole_at = (!records.is_empty()).then(|| Instant::now() + WHOLE_AFTER);
        // The others have their turn between two reads.
        tokio::task::yield_now().await;
    }
}

fn log(source: &OutputSource, stream: &'static str, level: Level, text: &[u8]) {
    keepwarm_telemetry::app_output::log(level, source.printer(), source.pid, stream, text);
}

/// The standard error of a worker while it boots. Shared by the thread, which fills it, and the control task.
#[derive(Clone, Debug)]
pub(super) struct BootOutput(Arc<Mutex<BootOutputState>>);

/// The state of [`BootOutput`], under its lock.
#[derive(Default, Debug)]
struct BootOutputState {
    /// False once the worker is ready: nothing is kept any more.
    booting: bool,
    /// Lines wait in `held` for the end of the boot, or for [`HOLD`].
    holding: bool,
    /// The last bytes, at most [`KEPT_MAX`].
    bytes: VecDeque<u8>,
    /// Bytes were dropped at the front, so that it is not the beginning of a line.
    cut: bool,
    /// Records that are not in the log yet, at most [`KEPT_MAX`] bytes in all.
    held: Vec<(Level, Vec<u8>)>,
    held_bytes: usize,
    /// When the first of `held` goes to the log.
    hold_until: Option<Instant>,
    /// Who wants to hear what is printed from now on.
    listeners: Vec<mpsc::UnboundedSender<Vec<u8>>>,
}

impl BootOutput {
    /// For a worker that boots; `hold`: its standard error is held back from the log.
    pub(super) fn new(hold: bool) -> Self {
        Self(Arc::new(Mutex::new(BootOutputState {
            booting: true,
            holding: hold,
            ..BootOutputState::default()
        })))
    }

    /// The boot is over: what was held goes to the log, what was kept is forgotten.
    pub(super) fn finish_boot(&self, source: &OutputSource) {
        let held = {
            let mut state = self.lock();
            state.booting = false;
            state.holding = false;
            state.bytes = VecDeque::new();
            state.take_held()
        };
        log_all(source, held);
    }

    /// What was held goes to the log.
    pub(super) fn release(&self, source: &OutputSource) {
        let held = self.lock().take_held();
        log_all(source, held);
    }

    /// The last bytes, from the beginning of a line. What was held will not be in the log.
    pub(super) fn take_bytes(&self) -> Vec<u8> {
        let mut state = self.lock();
        drop(state.take_held());
        let bytes: Vec<u8> = std::mem::take(&mut state.bytes).into();
        let start =
            if state.cut { bytes.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1) } else { 0 };
        bytes.get(start..).unwrap_or_default().to_vec()
    }

    /// What it prints on standard error from now on, until the receiver is dropped.
    pub(super) fn listen(&self) -> mpsc::UnboundedReceiver<Vec<u8>> {
        let (listener, printed) = mpsc::unbounded_channel();
        self.lock().listeners.push(listener);
        printed
    }

    fn handle_bytes(&self, bytes: &[u8]) {
        let bytes = &*strip_record_marks(bytes);
        let mut state = self.lock();
        state.listeners.retain(|listener| listener.send(bytes.to_vec()).is_ok());
        if state.booting {
            state.bytes.extend(bytes);
            let over = state.bytes.len().saturating_sub(KEPT_MAX);
            if over > 0 {
                state.bytes.drain(..over);
                state.cut = true;
            }
        }
    }

    fn handle_record(&self, source: &OutputSource, stream: &'static str, level: Level, text: &[u8]) {
        let held = {
            let mut state = self.lock();
            if !state.holding {
                drop(state);
                return log(source, stream, level, text);
            }
            state.held.push((level, text.to_vec()));
            state.held_bytes += text.len().max(1);
            state.hold_until.get_or_insert_with(|| Instant::now() + HOLD);
            if state.held_bytes <= KEPT_MAX {
                return;
            }
            state.take_held()
        };
        log_all(source, held);
    }

    fn hold_until(&self) -> Option<Instant> {
        self.lock().hold_until
    }

    /// Nothing that panics runs under the lock; if something did, the state would still be whole.
    fn lock(&self) -> std::sync::MutexGuard<'_, BootOutputState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BootOutputState {
    fn take_held(&mut self) -> Vec<(Level, Vec<u8>)> {
        self.held_bytes = 0;
        self.hold_until = None;
        std::mem::take(&mut self.held)
    }
}

fn log_all(source: &OutputSource, records: Vec<(Level, Vec<u8>)>) {
    for (level, text) in records {
        log(source, "stderr", level, &text);
    }
}

/// Cuts a stream of bytes into lines of at most [`LINE_MAX`] bytes; what follows in a longer one is the next line.
#[derive(Default)]
struct LineSplitter {
    /// The beginning of a line whose end has not come; shorter than `LINE_MAX`.
    rest: Vec<u8>,
}

impl LineSplitter {
    fn handle_bytes(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let room = LINE_MAX - self.rest.len();
            let window = bytes.get(..room).unwrap_or(bytes);
            if let Some(end) = window.iter().position(|&byte| byte == b'\n') {
                let (head, tail) = bytes.split_at(end);
                self.rest.extend_from_slice(head);
                line(self.rest.strip_suffix(b"\r").unwrap_or(&self.rest));
                self.rest.clear();
                bytes = tail.get(1..).unwrap_or_default();
            } else {
                self.rest.extend_from_slice(window);
                bytes = bytes.get(window.len()..).unwrap_or_default();
                if self.rest.len() == LINE_MAX {
                    let cut = character_boundary(&self.rest);
                    line(self.rest.get(..cut).unwrap_or_default());
                    self.rest.drain(..cut);
                }
            }
        }
    }

    /// The stream has ended: what is there is the last line.
    fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            line(&self.rest);
            self.rest.clear();
        }
    }
}

/// Where to cut so that no UTF-8 character is cut in two: at most three bytes before the end.
fn character_boundary(bytes: &[u8]) -> usize {
    let start = bytes.iter().rposition(|&byte| byte & 0xC0 != 0x80).unwrap_or(0);
    let whole = match bytes.get(start).copied().unwrap_or(0) {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if start > 0 && bytes.len() - start < whole { start } else { bytes.len() }
}

#[cfg(test)]
mod tests;
