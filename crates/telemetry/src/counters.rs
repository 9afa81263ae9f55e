//! Counters of the process: atomics with static names, read by [`snapshot`].
//!
//! Names follow the conventions of Prometheus: a total of things counted ends in `_total`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Answers, by the class of their status: `1xx` (a switch of protocols) to `5xx`, and `none` when the connection ended before one.
pub static REQUESTS: ByClass = ByClass::new("keepwarm_requests_total");
/// Body bytes of answers handed to sockets.
pub static ANSWER_BYTES: Counter = Counter::new("keepwarm_answer_body_bytes_total");
/// Requests that Keepwarm itself answered with an error, by the name of why.
pub static REFUSALS: Family = Family::new("keepwarm_refusals_total", "reason");
/// Stalls removed, by kind.
pub static STALLS: Family = Family::new("keepwarm_stalls_total", "kind");
/// Requests given to another worker, by the name of why.
pub static RETRIES: Family = Family::new("keepwarm_retries_total", "reason");
/// Lines of a log that were dropped because its output took none.
pub static LOG_LINES_DROPPED: Counter = Counter::new("keepwarm_log_lines_dropped_total");

/// The value of every counter, in a fixed order. Values are read one by one, so that those of a busy process need not fit together.
#[must_use]
pub fn snapshot() -> Vec<Sample> {
    let mut samples = Vec::new();
    REQUESTS.sample(&mut samples);
    ANSWER_BYTES.sample(&mut samples);
    for family in [&REFUSALS, &STALLS, &RETRIES] {
        family.sample(&mut samples);
    }
    LOG_LINES_DROPPED.sample(&mut samples);
    samples
}

/// One value of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The counter's name.
    pub name: &'static str,
    /// Its label and the label's value, if it has one.
    pub label: Option<(&'static str, &'static str)>,
    /// The value.
    pub value: u64,
}

/// A number that grows. On a cache line of its own, so that threads that count different things do not disturb each other.
#[derive(Debug)]
#[repr(align(64))]
pub struct Counter {
    name: &'static str,
    value: AtomicU64,
}

impl Counter {
    const fn new(name: &'static str) -> Self {
        Self { name, value: AtomicU64::new(0) }
    }

    /// Counts `count` more.
    pub fn add(&self, count: u64) {
        self.value.fetch_add(count, Ordering::Relaxed);
    }

    /// The count.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    fn sample(&self, into: &mut Vec<Sample>) {
        into.push(Sample { name: self.name, label: None, value: self.value() });
    }
}

/// Counts statuses by class.
#[derive(Debug)]
pub struct ByClass {
    name: &'static str,
    classes: [Counter; CLASSES.len()],
}

const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

impl ByClass {
    const fn new(name: &'static str) -> Self {
        Self { name, classes: [const { Counter::new("") }; CLASSES.len()] }
    }

    /// Counts an answer of that status; 0: none was given.
    pub fn count(&self, status: u16) {
        if let Some(class) = self.classes.get(usize::from(status / 100)) {
            class.add(1);
        }
    }

    fn sample(&self, into: &mut Vec<Sample>) {
        for (class, counter) in CLASSES.into_iter().zip(&self.classes) {
            into.push(Sample { name: self.name, label: Some(("code", class)), value: counter.value() });
        }
    }
}

/// Counters of one name, told apart by a label whose values are words of the program. For what is off the fast path: counting takes a lock.
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    label: &'static str,
    members: Mutex<BTreeMap<&'static str, u64>>,
}

impl Family {
    const fn new(name: &'static str, label: &'static str) -> Self {
        Self { name, label, members: Mutex::new(BTreeMap::new()) }
    }

    /// Counts one more of `member`.
    pub fn count(&self, member: &'static str) {
        *self.lock().entry(member).or_default() += 1;
    }

    /// The count of `member`.
    #[must_use]
    pub fn value(&self, member: &str) -> u64 {
        self.lock().get(member).copied().unwrap_or_default()
    }

    fn sample(&self, into: &mut Vec<Sample>) {
        into.extend(self.lock().iter().map(|(&member, &value)| Sample {
            name: self.name,
            label: Some((self.label, member)),
            value,
        }));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_counted_by_class() {
        static ANSWERS: ByClass = ByClass::new("answers");
        for status in [0, 101, 200, 299, 404, 503, 600, 999] {
            ANSWERS.count(status);
        }
        let mut samples = Vec::new();
        ANSWERS.sample(&mut samples);
        let counted: Vec<_> = samples.iter().map(|s| (s.label.unwrap().1, s.value)).collect();
        assert_eq!(counted, [("none", 1), ("1xx", 1), ("2xx", 2), ("3xx", 0), ("4xx", 1), ("5xx", 1)]);
    }

    #[test]
    fn a_snapshot_names_every_counter_and_the_members_that_were_counted() {
        STALLS.count("close_added");
        STALLS.count("close_added");
        let samples = snapshot();
        let stall = samples.iter().find(|s| s.name == "keepwarm_stalls_total").unwrap();
        assert_eq!((stall.label, stall.value), (Some(("kind", "close_added")), 2));
        for name in ["keepwarm_requests_total", "keepwarm_answer_body_bytes_total"] {
            assert!(samples.iter().any(|s| s.name == name), "{name}");
        }
    }
}
