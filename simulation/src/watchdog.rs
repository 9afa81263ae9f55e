//! The one thing with real time: a world that never comes back is a loop that even the simulation cannot see.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A seed takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The progress of a thread: the number of worlds it has begun, and the seed.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    count: AtomicU64,
    seed: AtomicU64,
}

thread_local! {
    static PROGRESS: Cell<Option<&'static Progress>> = const { Cell::new(None) };
}

/// This thread begins to play a plan of this seed.
pub(crate) fn begin(seed: u64) {
    if let Some(progress) = PROGRESS.get() {
        progress.seed.store(seed, Ordering::Relaxed);
        progress.count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Progress {
    /// Receives the progress of this thread.
    pub(crate) fn listen(&'static self) {
        PROGRESS.set(Some(self));
    }

    fn now(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.seed.load(Ordering::Relaxed))
    }
}

/// Ends the process with the seed of a thread that does not get on.
pub(crate) fn watch(threads: &[Progress], over: &AtomicU64) {
    let mut seen: Vec<_> = threads.iter().map(|progress| (progress.now(), Instant::now())).collect();
    while over.load(Ordering::Relaxed) < threads.len() as u64 {
        std::thread::sleep(Duration::from_millis(20));
        for (progress, (was, since)) in threads.iter().zip(&mut seen) {
            if progress.now() != *was {
                (*was, *since) = (progress.now(), Instant::now());
            } else if was.0 > 0 && over.load(Ordering::Relaxed) == 0 && since.elapsed() > TIMEOUT {
                eprintln!(
                    "seed {}: never comes back: a loop without a step that the simulation counts",
                    was.1
                );
                std::process::exit(1);
            }
        }
    }
}
