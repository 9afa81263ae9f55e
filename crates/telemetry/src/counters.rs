//! Counters off the fast path: counting takes a lock. Counters of every request are in [`crate::meters`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Error responses of Keepwarm itself, by reason.
pub static REFUSALS: Family = Family::new();
/// Responses that Keepwarm did not complete, by reason.
pub static INCOMPLETE: Family = Family::new();
/// Copies of requests for a route's `mirror`, by target and outcome.
pub static MIRRORED: Family = Family::new();
/// Requests of a route's `auth_request`, by service and outcome.
pub static AUTH_REQUESTS: Family = Family::new();
/// Stalls removed, by kind; counted by [`crate::stalls::record`].
pub static STALLS: Family = Family::new();
/// Requests retried on another worker, by reason.
pub static RETRIES: Family = Family::new();
/// Retries of calls to upstreams, by the cause of the failed attempt.
pub static CALL_RETRIES: Family = Family::new();
/// Failed calls to upstreams, by the cause of the last attempt.
pub static CALL_FAILURES: Family = Family::new();
/// Calls to upstreams that were refused before any endpoint was tried, by reason.
pub static CALL_REFUSALS: Family = Family::new();
/// Responses of servers whose syntax was normalized, by fault.
pub static NORMALIZED: Family = Family::new();
/// Connections closed for their PROXY header, by listener and reason.
pub static PROXY_HEADERS_REJECTED: Family = Family::new();
/// Responses that waited for their clients because spools were at their limit.
pub static SPILL_FULL: Counter = Counter(AtomicU64::new(0));
/// Responses that were sent uncompressed because the memory of encoders was at its limit.
pub static COMPRESSION_SKIPPED: Counter = Counter::new();
/// Panics, by what they ended.
pub static PANICS: Family = Family::new();
/// Requests that had fields dropped because of their names.
pub static UNSAFE_NAMES: Counter = Counter(AtomicU64::new(0));
/// Spans dropped because the buffer of those that wait to be sent was full.
pub static SPANS_DROPPED: Counter = Counter(AtomicU64::new(0));
/// Spans by what became of sending them.
pub static SPANS_EXPORTED: Family = Family::new();
/// Log records dropped because the buffer of those that wait to be sent was full.
pub static LOG_RECORDS_DROPPED: Counter = Counter(AtomicU64::new(0));
/// Log records by what became of sending them.
pub static LOG_RECORDS_EXPORTED: Family = Family::new();
/// Log lines dropped because the output did not accept them.
pub static LOG_LINES_DROPPED: Counter = Counter(AtomicU64::new(0));

/// A monotonic counter.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The count.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters by app and by a label of the program.
#[derive(Debug)]
pub struct Family(Mutex<BTreeMap<&'static str, BTreeMap<Box<str>, u64>>>);

impl Family {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Counts one; `app` is empty if none is concerned. Returns the count.
    pub fn count(&self, app: &str, label: &'static str) -> u64 {
        self.add(app, label, 1)
    }

    /// Counts several; `app` is empty if none is concerned. Returns the count.
    pub fn add(&self, app: &str, label: &'static str, more: u64) -> u64 {
        let mut labels = self.lock();
        let apps = labels.entry(label).or_default();
        if let Some(count) = apps.get_mut(app) {
            *count += more;
            return *count;
        }
        apps.insert(app.into(), more);
        more
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
        assert_eq!(LABELS.add("", "late", 1), 1);
        assert_eq!((LABELS.value("late"), LABELS.value("early")), (3, 0));
        assert_eq!(
            (LABELS.of("shop", "late"), LABELS.of("shop", "early"), LABELS.of("pub", "late")),
            (2, 0, 0)
        );
        let all = [("".to_owned(), "late", 1), ("shop".to_owned(), "late", 2)];
        assert_eq!(LABELS.values(), all);
    }
}
