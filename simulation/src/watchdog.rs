//! The one thing with real time: a world that never comes back is a loop that even the simulation cannot see.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A seed takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a thread is at: the number of worlds it has begun, and the seed.
#[derive(Debug, Default)]
pub(crate) struct Beat {
    count: AtomicU64,
    seed: AtomicU64,
}

thread_local! {
    static BEAT: Cell<Option<&'static Beat>> = const { Cell::new(None) };
}

/// This thread begins to play a plan of this seed.
pub(crate) fn begin(seed: u64) {
    if let Some(beat) = BEAT.get() {
        beat.seed.store(seed, Ordering::Relaxed);
        beat.count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Beat {
    /// What this thread begins is told here.
    pub(crate) fn listen(&'static self) {
        BEAT.set(Some(self));
    }

    fn now(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.seed.load(Ordering::Relaxed))
    }
}

/// Ends the process with the seed of a thread that does not get on.
pub(crate) fn watch(beats: &[Beat], over: &AtomicU64) {
    let mut seen: Vec<_> = beats.iter().map(|beat| (beat.now(), Instant::now())).collect();
    while over.load(Ordering::Relaxed) < beats.len() as u64 {
        std::thread::sleep(Duration::from_millis(20));
        for (beat, (was, since)) in beats.iter().zip(&mut seen) {
            if beat.now() != *was {
                (*was, *since) = (beat.now(), Instant::now());
            } else if was.0 > 0 && over.load(Ordering::Relaxed) == 0 && since.elapsed() > PATIENCE {
                eprintln!(
                    "seed {}: never comes back: a loop without a step that the simulation counts",
                    was.1
                );
                std::process::exit(1);
            }
        }
    }
}
