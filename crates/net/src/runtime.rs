//! The data plane: one thread per core, each with a runtime of its own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use keepwarm_telemetry::panics::abort_on_panic;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::kernel;

/// Makes a task; `None` ends the thread.
type Task = Option<Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>>;

/// The data-plane threads of the process. They end when this is dropped, and their tasks with them.
#[derive(Debug)]
pub struct DataPlane {
    remotes: Vec<Remote>,
    threads: Vec<JoinHandle<()>>,
}

/// A handle to start tasks on one data-plane thread from any other.
#[derive(Debug, Clone)]
pub struct Remote {
    tasks: UnboundedSender<Task>,
    state: Arc<ThreadState>,
    /// Which thread, counted from 0.
    pub index: usize,
}

/// The state of a thread, visible to others.
#[derive(Debug, Default)]
struct ThreadState {
    /// Goes up with every tick of its deadlines, ten times a second: the thread pays nothing else for it.
    turns: AtomicU64,
    /// The kernel's id; 0 until it runs.
    id: AtomicI32,
    is_stuck: AtomicBool,
}

impl DataPlane {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The system provides no thread or no reactor.
    pub fn start(threads: usize) -> io::Result<Self> {
        keepwarm_telemetry::per_thread::set_threads(threads);
        Self::start_named("keepwarm-data", threads)
    }

    /// The same for threads that serve another purpose beside the data plane, under their own name.
    ///
    /// # Errors
    /// The system provides no thread or no reactor.
    pub fn start_named(name: &str, threads: usize) -> io::Result<Self> {
        let mut plane = Self { remotes: Vec::new(), threads: Vec::new() };
        for index in 0..threads.max(1) {
            let (tasks, queue) = unbounded_channel();
            let runtime = Builder::new_current_thread();
            let state = Arc::new(ThreadState::default());
            let own = Arc::clone(&state);
            let thread = std::thread::Builder::new().name(format!("{name}-{index}")).spawn(move || {
                abort_on_panic("a thread of the data plane", || run(runtime, index, own, queue))
            })?;
            plane.remotes.push(Remote { tasks, state, index });
            plane.threads.push(thread);
        }
        Ok(plane)
    }

    /// The threads.
    pub fn remotes(&self) -> &[Remote] {
        &self.remotes
    }

    /// Stops the threads and their tasks; a stuck thread ends with the process.
    pub fn stop(mut self) {
        let stuck: Vec<bool> = self.remotes.iter().map(Remote::is_stuck).collect();
        // Sent explicitly, not implied by the end of the queue: tasks hold remotes themselves.
        for remote in self.remotes.drain(..) {
            let _ = remote.tasks.send(None);
        }
        for (thread, _) in self.threads.drain(..).zip(stuck).filter(|(_, is_stuck)| !is_stuck) {
            let _ = thread.join();
        }
    }
}

impl Remote {
    /// How often the thread has looked at its deadlines. The same number half a second later: it is stuck.
    pub fn turns(&self) -> u64 {
        self.state.turns.load(Ordering::Relaxed)
    }

    /// Whether it was found stuck ([`Self::set_stuck`]).
    pub fn is_stuck(&self) -> bool {
        self.state.is_stuck.load(Ordering::Relaxed)
    }

    /// Records that the thread is stuck, or runs again.
    pub fn set_stuck(&self, is_stuck: bool) {
        self.state.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// The stack of the thread, as one line of a log; `None`: it does not respond. Takes up to a second: call it where that holds nobody up.
    pub fn stack(&self) -> Option<String> {
        let thread = Some(self.state.id.load(Ordering::Relaxed)).filter(|id| *id != 0)?;
        kernel::stack_of(thread).map(|stack| keepwarm_telemetry::stack::describe(&stack))
    }

    /// Creates a future on the thread and runs it there as a task.
    pub fn spawn<F: Future<Output = ()> + 'static>(&self, make: impl FnOnce() -> F + Send + 'static) {
        // Fails only when the thread has ended, and then the task is not missed.
        let _ = self.tasks.send(Some(Box::new(move || Box::pin(make()))));
    }
}

#[cfg(feature = "simulation")]
impl Remote {
    /// This thread, within its current runtime, as a data-plane thread of this index: one of several, where others are created here, too. Tasks outside
    /// [`on_thread`](crate::simulation::on_thread) belong to the last.
    #[must_use]
    pub fn here(index: usize) -> Self {
        let (tasks, queue) = unbounded_channel();
        let state = Arc::<ThreadState>::default();
        begin(index, Arc::clone(&state));
        tokio::task::spawn_local(crate::simulation::on_thread(index, run_tasks(queue)));
        Self { tasks, state, index }
    }
}

/// Has the blocking threads of a runtime stay, so that it has one ([`start_blocking_thread`]) whenever it needs one: where the system starts no more threads
/// (`pids.max`, `TasksMax=`, `ulimit -u`), tokio panics if it has none, and otherwise lets the call wait for one.
pub fn keep_blocking_threads(builder: &mut Builder) -> &mut Builder {
    builder.thread_name("keepwarm-block").thread_keep_alive(Duration::from_secs(365 * 24 * 60 * 60))
}

/// Starts the first blocking thread of this runtime.
pub fn start_blocking_thread() {
    drop(tokio::task::spawn_blocking(|| ()));
}

/// Blocking threads of a thread of the data plane, as many as nginx has for each of its processes (`thread_pool`): they stay.
const BLOCKING_THREADS: usize = 32;

fn run(mut builder: Builder, index: usize, state: Arc<ThreadState>, queue: UnboundedReceiver<Task>) {
    keep_blocking_threads(&mut builder).max_blocking_threads(BLOCKING_THREADS);
    let runtime = match builder.enable_io().enable_time().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(
                name: "event_loop_failed",
                thread = index, %error, "cannot start the event loop of a data-plane thread"
            );
            return;
        }
    };
    begin(index, state);
    runtime.block_on(async {
        start_blocking_thread();
        run_tasks(queue).await;
    });
}

/// This is a data-plane thread from now on.
fn begin(index: usize, state: Arc<ThreadState>) {
    THREAD.set(Some(index));
    state.id.store(kernel::thread_id(), Ordering::Relaxed);
    STATE.set(Some(state));
}

/// Starts a task of this data-plane thread.
#[cfg(not(feature = "simulation"))]
pub use tokio::task::spawn_local;

/// The same, where one thread stands for several of them.
#[cfg(feature = "simulation")]
pub fn spawn_local<T: 'static>(task: impl Future<Output = T> + 'static) -> tokio::task::JoinHandle<T> {
    tokio::task::spawn_local(crate::simulation::on_thread(thread_index(), task))
}

/// Until `run` ends, its tasks belong to this thread.
#[cfg(feature = "simulation")]
pub(crate) fn as_thread<T>(index: usize, run: impl FnOnce() -> T) -> T {
    let before = THREAD.replace(Some(index));
    let result = run();
    // A panic leaves the thread as it is: its world has ended.
    THREAD.set(before);
    result
}

async fn run_tasks(mut queue: UnboundedReceiver<Task>) {
    // If one deadline panics, the next look handles the other due ones.
    spawn_local(crate::restarted("deadlines", crate::deadline::run_ticker));
    while let Some(Some(make)) = queue.recv().await {
        // Made in the task: a panic there is the task's, not the thread's.
        spawn_local(async move { make().await });
    }
}

/// The index of this data-plane thread.
pub fn thread_index() -> usize {
    THREAD.get().unwrap_or(0)
}

/// Runs `f`, in which several requests are given to workers: what it writes to a worker leaves in one write, by the task that drives the worker's socket, soon after.
pub fn corked<R>(f: impl FnOnce() -> R) -> R {
    struct Uncork(bool);
    impl Drop for Uncork {
        fn drop(&mut self) {
            CORKED.set(self.0);
        }
    }
    let _before = Uncork(CORKED.replace(true));
    f()
}

/// Whether this thread is in [`corked`].
pub fn is_corked() -> bool {
    CORKED.get()
}

/// Counts a turn of this thread.
pub(crate) fn note_turn() {
    STATE.with_borrow(|state| {
        if let Some(state) = state {
            state.turns.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Whether this thread runs tasks of its own for as long as the process lives.
pub(crate) fn is_data_plane() -> bool {
    THREAD.get().is_some() || cfg!(test)
}

thread_local! {
    static CORKED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static THREAD: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
    static STATE: std::cell::RefCell<Option<Arc<ThreadState>>> = const { std::cell::RefCell::new(None) };
}
