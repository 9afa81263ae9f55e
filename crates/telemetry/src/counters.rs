//! Counters of what is off the fast path: counting takes a lock. What every request counts is in [`crate::meters`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests that Keepwarm itself answered with an error, by the name of why.
pub static REFUSALS: Family = Family::new();
/// Stalls removed, by kind; counted by [`crate::stalls::record`].
pub static STALLS: Family = Family::new();
/// Requests given to another worker, by the name of why.
pub static RETRIES: Family = Family::new();
/// Calls to upstreams that were made once more, by the name of why the attempt before had failed.
pub static CALL_RETRIES: Family = Family::new();
/// Calls to upstreams that failed, by the name of why their last attempt did.
pub static CALL_FAILURES: Family = Family::new();
/// Calls to upstreams that were answered with an error before any endpoint was tried, by the name of why.
pub static CALL_REFUSALS: Family = Family::new();
/// Answers of servers whose syntax was mended, by the fault.
pub static NORMALIZED: Family = Family::new();
/// Responses that waited for their clients, since spools held all they may.
pub static SPILL_FULL: Counter = Counter(AtomicU64::new(0));
/// Panics, by what they cost.
pub static PANICS: Family = Family::new();
/// Requests of which fields were dropped because of their names.
pub static UNSAFE_NAMES: Counter = Counter(AtomicU64::new(0));
/// Lines of a log that were dropped because its output took none.
pub static LOG_LINES_DROPPED: Counter = Counter(AtomicU64::new(0));

/// A number that grows.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `count` more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The count.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters told apart by app and by a label of the program.
#[derive(Debug)]
pub struct Family(Mutex<BTreeMap<&'static str, BTreeMap<Box<str>, u64>>>);

impl Family {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Counts one more; `app` is nothing where none is concerned. Gives the count.
    pub fn count(&self, app: &str, label: &'static str) -> u64 {
        let mut labels = self.lock();
        let apps = labels.entry(label).or_default();
        if let Some(count) = apps.get_mut(app) {
            *count += 1;
            return *count;
        }
        apps.insert(app.into(), 1);
        1
    }

    /// The count of one app and label.
    #[must_use]
    pub fn of(&self, app: &str, label: &str) -> u64 {
        self.lock().get(label).and_then(|apps| apps.get(app)).copied().unwrap_or(0)
    }

    /// The count of a label, of all apps.
    #[must_use]
    pub fn value(&self, label: &str) -> u64 {
        self.lock().get(label).map_or(0, |apps| apps.values().sum())
    }

    /// All counts: app, label, count.
    #[must_use]
    pub fn values(&self) -> Vec<(String, &'static str, u64)> {
        let labels = self.lock();
        let of =
            |(label, apps): (&&'static str, &BTreeMap<Box<str>, u64>)| -> Vec<(String, &'static str, u64)> {
                apps.iter().map(|(app, count)| (app.to_string(), *label, *count)).collect()
            };
        labels.iter().flat_map(of).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, BTreeMap<Box<str>, u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_counts_by_app_and_label() {
        static LABELS: Family = Family::new();
        assert_eq!(LABELS.count("shop", "late"), 1);
        assert_eq!(LABELS.count("shop", "late"), 2);
        assert_eq!(LABELS.count("", "late"), 1);
        assert_eq!((LABELS.value("late"), LABELS.value("early")), (3, 0));
        assert_eq!(
            (LABELS.of("shop", "late"), LABELS.of("shop", "early"), LABELS.of("pub", "late")),
            (2, 0, 0)
        );
        let all = [("".to_owned(), "late", 1), ("shop".to_owned(), "late", 2)];
        assert_eq!(LABELS.values(), all);
    }
}
