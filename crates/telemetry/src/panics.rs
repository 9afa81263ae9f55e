//! Catches and reports panics.
//!
//! A panic is a bug in Keepwarm. It ends the task it happens in and nothing else, unless that task held shared state ([`catch_future`], and the
//! runtime, which catches the panics of tasks); an indispensable thread or task is restarted by its starter, or ends the process
//! ([`abort_on_panic`]). ARCHITECTURE.md has the table.
//!
//! A panic is reported once, at error, with the stack: by the code that catches it, which knows the request; otherwise at once.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::{RequestId, counters, flush_all, stack};

/// A caught panic.
#[derive(Debug)]
#[must_use = "a panic is reported"]
pub struct Panic {
    message: String,
    /// File, line and column.
    location: String,
    stack: String,
}

impl Panic {
    /// Logs it at error, and counts it. `task`: what it ended, a fixed name.
    pub fn report(&self, task: &'static str, app: Option<&str>, id: Option<RequestId>) {
        counters::PANICS.count(app.unwrap_or_default(), task);
        let thread = std::thread::current();
        let id = id.map(tracing::field::display);
        tracing::error!(
            name: "panicked",
            app,
            id,
            task,
            place = self.location,
            thread = thread.name(),
            stack = self.stack,
            "a bug in Keepwarm: panicked: {}; please report it with this line",
            self.message
        );
    }

    fn of_payload(payload: &(dyn Any + Send)) -> Self {
        Self { message: text(payload), location: String::new(), stack: String::new() }
    }
}

/// Installs the hook that logs panics. Once in a process, before there are threads.
pub fn install() {
    std::panic::set_hook(Box::new(handle));
}

fn handle(info: &PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let stack = match is_stack_due(&location) {
        true => stack::capture(&["panicking::panic", "rust_begin_unwind", "begin_panic"]),
        false => "as logged before for this source location".to_owned(),
    };
    let panic = Panic { message: text(info.payload()), location, stack };
    let Ok(earlier) = PENDING.try_with(RefCell::take) else {
        return panic.report("thread", None, None);
    };
    if let Some(earlier) = earlier {
        // A second one while the first unwinds: the process aborts as soon as this returns.
        earlier.report("process", None, None);
        panic.report("process", None, None);
        flush_all(FLUSH_TIMEOUT);
    } else if CATCHING.get() {
        PENDING.set(Some(panic));
    } else {
        panic.report("task", None, None);
    }
}

/// Whether the stack is reported: that costs time, and a panic that a request can provoke comes again and again.
fn is_stack_due(location: &str) -> bool {
    static REPORTED: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());
    const STACK_INTERVAL: Duration = Duration::from_secs(60);
    // A map of times is good in any state.
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    let due = reported.get(location).is_none_or(|at| at.elapsed() >= STACK_INTERVAL);
    if due {
        reported.insert(location.to_owned(), Instant::now());
    }
    due
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
        .to_owned()
}

/// Runs `f`, and returns its panic. The caller discards the state that `f` used, or knows it to be consistent.
///
/// # Errors
/// It panicked.
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    // Without an allocation and without a system call: where nothing panics this is two stores.
    let outer = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(outer);
    result.map_err(|payload| PENDING.take().unwrap_or_else(|| Panic::of_payload(&*payload)))
}

/// A future that resolves to its output or its panic. The caller pins it, so that it is not moved or copied.
#[derive(Debug)]
pub struct CatchUnwind<'f, F>(Pin<&'f mut F>);

/// Runs a future to its end or its panic (see [`catch`]).
pub fn catch_future<F: Future>(future: Pin<&mut F>) -> CatchUnwind<'_, F> {
    CatchUnwind(future)
}

impl<F: Future> Future for CatchUnwind<'_, F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch(|| self.0.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// Runs an indispensable thread that cannot be restarted: its panic ends the process, after it is reported. The service manager then restarts
/// Keepwarm; a process without that thread would not be restarted.
pub fn abort_on_panic<R>(what: &'static str, f: impl FnOnce() -> R) -> R {
    // Not `catch`, which would wait with the report of panics that the runtime catches further in.
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| abort(what, &text(&*payload)))
}

/// The same for a future.
pub async fn abort_on_panic_task<F: Future>(what: &'static str, future: F) -> F::Output {
    let future = std::pin::pin!(future);
    match catch_future(future).await {
        Ok(output) => output,
        Err(panic) => {
            panic.report(what, None, None);
            abort(what, &panic.message)
        }
    }
}

/// Runs a task that is restarted when it panics, after a `pause`, so that a repeated panic does not occupy the thread.
pub async fn restart_on_panic<F: Future>(
    what: &'static str,
    pause: impl AsyncFn(),
    mut make: impl FnMut() -> F,
) -> F::Output {
    loop {
        let future = std::pin::pin!(make());
        match catch_future(future).await {
            Ok(output) => return output,
            Err(panic) => panic.report(what, None, None),
        }
        pause().await;
    }
}

/// How long the process waits for a slow output to take its last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends the process after a panic that was reported.
fn abort(what: &'static str, message: &str) -> ! {
    tracing::error!(name: "aborting", task = what, "Keepwarm cannot run without this task; aborting");
    flush_all(FLUSH_TIMEOUT);
    end_process(what, message)
}

fn end_process(what: &str, why: &str) -> ! {
    // The log may be what has failed.
    let _ = writeln!(std::io::stderr().lock(), "keepwarm: aborted: {what}: {why}");
    std::process::abort()
}

thread_local! {
    /// Whether a caller up the stack catches panics and reports them.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    /// The panic that unwinds towards it.
    static PENDING: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests;
