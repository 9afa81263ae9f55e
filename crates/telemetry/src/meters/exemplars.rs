//! Exemplars: for each bucket of a histogram, a trace that was counted there.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::per_thread::bucket_of;

/// A trace that was counted in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// The index of the bucket in [`crate::per_thread::BOUNDS_US`].
    pub bucket: usize,
    /// The digits of the trace's id.
    pub trace_id: [u8; 32],
    /// What was counted.
    pub value: Duration,
    /// When.
    pub time: SystemTime,
}

/// The newest exemplar of each bucket. Takes no memory before the first; requests that are not sent to a collector do not touch it.
#[derive(Debug, Default)]
pub(super) struct Exemplars(Mutex<Vec<Exemplar>>);

impl Exemplars {
    pub(super) fn note(&self, trace_id: [u8; 32], value: Duration, time: SystemTime) {
        let new = Exemplar { bucket: bucket_of(value), trace_id, value, time };
        let mut kept = self.lock();
        match kept.iter_mut().find(|kept| kept.bucket == new.bucket) {
            Some(kept) => *kept = new,
            None => kept.push(new),
        }
    }

    pub(super) fn all(&self) -> Vec<Exemplar> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Exemplar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_bucket_is_kept() {
        let exemplars = Exemplars::default();
        let note = |digit: u8, millis| {
            exemplars.note([digit; 32], Duration::from_millis(millis), SystemTime::UNIX_EPOCH);
        };
        for (digit, millis) in [(b'1', 3), (b'2', 70_000), (b'3', 5), (b'4', 6)] {
            note(digit, millis);
        }
        let kept: Vec<(usize, u8)> =
            exemplars.all().iter().map(|kept| (kept.bucket, kept.trace_id[0])).collect();
        assert_eq!(kept, [(3, b'3'), (16, b'2'), (4, b'4')]);
    }
}
