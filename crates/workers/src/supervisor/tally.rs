//! Why workers go, by stable names, and how often each has happened.

use std::fmt;
use std::marker::PhantomData;

/// A kind of event that is counted.
pub trait Reason: Copy + Eq + 'static {
    /// Every kind.
    const ALL: &'static [Self];

    /// The stable name, for logs and metrics.
    fn name(self) -> &'static str;
}

/// Why a healthy worker is replaced or taken away.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecycleReason {
    /// `max_requests`
    Requests,
    /// `max_age`
    Age,
    /// `max_memory`
    Memory,
    /// A watched file has changed.
    Watch,
    /// A reload.
    Reload,
    /// The app needs fewer workers, or was scaled down.
    Scale,
    /// It kept the credit of requests that were over: nothing could be sent to it any more.
    Credit,
    /// The worker asked for it: it was sent SIGTERM, or its app wants to go.
    Requested,
    /// An operator asked for it.
    Operator,
}

/// Why a worker died that should not have.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Death {
    /// It exited itself, with any status.
    Exit,
    /// A signal ended it that Keepwarm had not sent.
    Signal,
    /// Killed: a request took longer than `request_timeout`.
    Timeout,
    /// Killed: it was above `kill_memory`.
    Memory,
    /// Killed: not ready within `boot_timeout`.
    BootTimeout,
    /// Killed: it broke the rules of the wire.
    Wire,
    /// Killed: it did not respond while it was idle, or did not end after its wire had.
    Hang,
    /// Killed: it was to end, and did not finish within `drain_timeout`.
    Drain,
    /// The system could not start it.
    Spawn,
}

impl Reason for RecycleReason {
    const ALL: &'static [Self] = &[
        Self::Requests,
        Self::Age,
        Self::Memory,
        Self::Watch,
        Self::Reload,
        Self::Scale,
        Self::Credit,
        Self::Requested,
        Self::Operator,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Age => "age",
            Self::Memory => "memory",
            Self::Watch => "watch",
            Self::Reload => "reload",
            Self::Scale => "scale",
            Self::Credit => "credit",
            Self::Requested => "requested",
            Self::Operator => "operator",
        }
    }
}

impl Reason for Death {
    const ALL: &'static [Self] = &[
        Self::Exit,
        Self::Signal,
        Self::Timeout,
        Self::Memory,
        Self::BootTimeout,
        Self::Wire,
        Self::Hang,
        Self::Drain,
        Self::Spawn,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::BootTimeout => "boot_timeout",
            Self::Wire => "wire",
            Self::Hang => "hang",
            Self::Drain => "drain",
            Self::Spawn => "spawn",
        }
    }
}

/// The most kinds that a [`Reason`] has.
const KINDS: usize = 9;

/// How often each kind has happened.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Counts<R> {
    /// By the place in [`Reason::ALL`].
    counts: [u64; KINDS],
    of: PhantomData<R>,
}

impl<R: Reason> Counts<R> {
    /// How often this has happened.
    #[must_use]
    pub fn of(&self, reason: R) -> u64 {
        self.iter().find_map(|(kind, count)| (kind == reason).then_some(count)).unwrap_or(0)
    }

    /// How often any has.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Every kind with its count, those that have not happened included.
    pub fn iter(&self) -> impl Iterator<Item = (R, u64)> {
        R::ALL.iter().copied().zip(self.counts)
    }

    pub(super) fn add(&mut self, reason: R) {
        let index = R::ALL.iter().position(|&kind| kind == reason);
        if let Some(count) = index.and_then(|index| self.counts.get_mut(index)) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }
}

impl<R> Default for Counts<R> {
    fn default() -> Self {
        Self { counts: [0; KINDS], of: PhantomData }
    }
}

/// Those that have happened: `{requests: 3, age: 1}`.
impl<R: Reason> fmt::Debug for Counts<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let happened = self.iter().filter(|&(_, count)| count > 0);
        f.debug_map().entries(happened.map(|(kind, count)| (kind.name(), count))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_place_and_a_name_of_its_own() {
        fn check<R: Reason + fmt::Debug + Ord>() {
            assert!(R::ALL.len() <= KINDS);
            let mut counts = Counts::<R>::default();
            for (index, &kind) in R::ALL.iter().enumerate() {
                (0..=index).for_each(|_| counts.add(kind));
            }
            for (index, &kind) in R::ALL.iter().enumerate() {
                assert_eq!(counts.of(kind), index as u64 + 1, "{kind:?}");
            }
            let mut names: Vec<_> = R::ALL.iter().map(|kind| kind.name()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), R::ALL.len());
        }
        check::<RecycleReason>();
        check::<Death>();
    }

    #[test]
    fn counts_are_summed_and_shown() {
        let mut counts = Counts::default();
        counts.add(RecycleReason::Age);
        let mut more = counts;
        more.add(RecycleReason::Reload);
        counts.add_all(&more);
        assert_eq!(format!("{counts:?}"), r#"{"age": 2, "reload": 1}"#);
        assert_eq!(counts.total(), 3);
    }
}
