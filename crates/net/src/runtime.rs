//! The data plane: one thread per core, each with a runtime of its own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Makes a task; `None` ends the thread.
type Task = Option<Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>>;

/// The data-plane threads of the process. They end when this is dropped, and their tasks with them.
#[derive(Debug)]
pub struct DataPlane {
    remotes: Vec<Remote>,
    threads: Vec<JoinHandle<()>>,
}

/// A way to start tasks on one data-plane thread from any other.
#[derive(Debug, Clone)]
pub struct Remote {
    tasks: UnboundedSender<Task>,
    /// Which thread, counted from 0.
    pub index: usize,
}

impl DataPlane {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The system gives no thread or no reactor.
    pub fn start(threads: usize) -> io::Result<Self> {
        keepwarm_telemetry::cells::set_threads(threads);
        Self::start_named("keepwarm-data", threads)
    }

    /// The same for threads that serve something else beside the data plane, under a name of their own.
    ///
    /// # Errors
    /// The system gives no thread or no reactor.
    pub fn start_named(name: &str, threads: usize) -> io::Result<Self> {
        let mut plane = Self { remotes: Vec::new(), threads: Vec::new() };
        for index in 0..threads.max(1) {
            let (tasks, queue) = unbounded_channel();
            let runtime = Builder::new_current_thread();
            let thread = std::thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || run(runtime, index, queue))?;
            plane.remotes.push(Remote { tasks, index });
            plane.threads.push(thread);
        }
        Ok(plane)
    }

    /// The threads.
    pub fn remotes(&self) -> &[Remote] {
        &self.remotes
    }

    /// Ends the threads, and whatever they were doing.
    pub fn stop(mut self) {
        // Said, not implied by the end of the queue: tasks hold remotes themselves.
        for remote in self.remotes.drain(..) {
            let _ = remote.tasks.send(None);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Remote {
    /// Makes a future on the thread and runs it there as a task.
    pub fn spawn<F: Future<Output = ()> + 'static>(&self, make: impl FnOnce() -> F + Send + 'static) {
        // Fails only when the thread has ended, and then nobody is left to miss the task.
        let _ = self.tasks.send(Some(Box::new(move || Box::pin(make()))));
    }
}

fn run(mut builder: Builder, index: usize, mut queue: UnboundedReceiver<Task>) {
    let runtime = match builder.enable_io().enable_time().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(thread = index, %error, "a data-plane thread has no reactor");
            return;
        }
    };
    THREAD.set(Some(index));
    runtime.block_on(async move {
        tokio::task::spawn_local(crate::deadline::run_ticker());
        while let Some(Some(task)) = queue.recv().await {
            tokio::task::spawn_local(task());
        }
    });
}

/// The index of this data-plane thread.
pub fn thread_index() -> usize {
    THREAD.get().unwrap_or(0)
}

/// Whether this thread runs tasks of its own for as long as the process lives.
pub(crate) fn is_data_plane() -> bool {
    THREAD.get().is_some() || cfg!(test)
}

thread_local! {
    static THREAD: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}
