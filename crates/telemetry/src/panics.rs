//! What a panic costs, and what is reported of it.
//!
//! A panic is a bug of ours. It costs the task it happens in and nothing else, where the state that others share was not in its hands ([`caught`], and the
//! runtime, which catches the panics of tasks); a thread or task that others cannot do without is restarted by whoever started it, or ends the process
//! ([`vital`]). ARCHITECTURE.md has the table of who does which.
//!
//! Reported once, at error, with the stack: by whoever catches it, who knows the request; else at once.

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

/// A panic that was caught.
#[derive(Debug)]
#[must_use = "a panic is reported"]
pub struct Panic {
    message: String,
    /// File, line and column.
    place: String,
    stack: String,
}

impl Panic {
    /// One record at error, and one more in the counter. `task`: what it cost, a word of the program.
    pub fn report(&self, task: &'static str, app: Option<&str>, id: Option<RequestId>) {
        counters::PANICS.count(app.unwrap_or_default(), task);
        let thread = std::thread::current();
        let id = id.map(tracing::field::display);
        tracing::error!(
            app,
            id,
            task,
            place = self.place,
            thread = thread.name(),
            stack = self.stack,
            "a bug in Keepwarm: panicked: {}; please report it with this line",
            self.message
        );
    }

    fn of_payload(payload: &(dyn Any + Send)) -> Self {
        Self { message: text(payload), place: String::new(), stack: String::new() }
    }
}

/// Has panics reported in the log. Once in a process, before there are threads.
pub fn install() {
    std::panic::set_hook(Box::new(handle));
}

fn handle(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let stack = match is_due(&place) {
        true => stack::here(&["panicking::panic", "rust_begin_unwind", "begin_panic"]),
        false => "as logged before for this source location".to_owned(),
    };
    let panic = Panic { message: text(info.payload()), place, stack };
    let Ok(earlier) = PENDING.try_with(RefCell::take) else {
        return panic.report("thread", None, None);
    };
    if let Some(earlier) = earlier {
        // A second one while the first unwinds: the process aborts as soon as this returns.
        earlier.report("process", None, None);
        panic.report("process", None, None);
        flush_all(LAST_WORDS);
    } else if CATCHING.get() {
        PENDING.set(Some(panic));
    } else {
        panic.report("task", None, None);
    }
}

/// Whether the stack is taken: that costs time, and a panic that a request can provoke comes again and again.
fn is_due(place: &str) -> bool {
    static TAKEN: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());
    const AGAIN: Duration = Duration::from_secs(60);
    // A map of times is good in any state.
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let due = taken.get(place).is_none_or(|at| at.elapsed() >= AGAIN);
    if due {
        taken.insert(place.to_owned(), Instant::now());
    }
    due
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
        .to_owned()
}

/// Runs `f`, and gives back its panic. What `f` had in its hands is to be thrown away, or is known to be whole.
///
/// # Errors
/// It panicked.
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    // Without an allocation and without a system call: on the way that does not panic this is two stores.
    let outer = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(outer);
    result.map_err(|payload| PENDING.take().unwrap_or_else(|| Panic::of_payload(&*payload)))
}

/// A future, or the panic of its first poll that panicked. It is pinned by the caller, so that it is not moved, and has its place in memory once.
#[derive(Debug)]
pub struct CatchUnwind<'f, F>(Pin<&'f mut F>);

/// Runs a future to its end or its panic (see [`catch`]).
pub fn caught<F: Future>(future: Pin<&mut F>) -> CatchUnwind<'_, F> {
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

/// Runs a thread that the process cannot do without, and that cannot begin anew: its panic ends the process, after it is reported. What supervises Keepwarm starts
/// it again; without the end nobody would.
pub fn vital<R>(what: &'static str, f: impl FnOnce() -> R) -> R {
    // Not `catch`, which would wait with the report of panics that the runtime catches further in.
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| abort(what, &text(&*payload)))
}

/// The same of a future.
pub async fn vital_task<F: Future>(what: &'static str, future: F) -> F::Output {
    let future = std::pin::pin!(future);
    match caught(future).await {
        Ok(output) => output,
        Err(panic) => {
            panic.report(what, None, None);
            abort(what, &panic.message)
        }
    }
}

/// Runs a task that is made anew when it panics, after a `pause`, so that a panic that comes each time does not hold the thread.
pub async fn restarted<F: Future>(
    what: &'static str,
    pause: impl AsyncFn(),
    mut make: impl FnMut() -> F,
) -> F::Output {
    loop {
        let future = std::pin::pin!(make());
        match caught(future).await {
            Ok(output) => return output,
            Err(panic) => panic.report(what, None, None),
        }
        pause().await;
    }
}

/// For logs whose output is slow: the process waits no longer for its last lines.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Ends the process after a panic that was reported.
fn abort(what: &'static str, message: &str) -> ! {
    tracing::error!(task = what, "Keepwarm cannot run without this task; aborting");
    flush_all(LAST_WORDS);
    end_process(what, message)
}

fn end_process(what: &str, why: &str) -> ! {
    // The log may be what has failed.
    let _ = writeln!(std::io::stderr().lock(), "keepwarm: aborted: {what}: {why}");
    std::process::abort()
}

thread_local! {
    /// Whether somebody up the stack catches panics and reports them.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    /// The panic that unwinds towards it.
    static PENDING: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests;
