//! What became of requests for certificates.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a name that a client requested, or of its renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDemandResult {
    /// It got a certificate.
    Issued,
    /// The service does not permit it.
    Refused,
    /// It was refused before, and the service was not asked.
    Remembered,
    /// The service was unavailable.
    Unavailable,
    /// Too many others were asked about or ordered.
    Limited,
    /// The limit of names is reached.
    Full,
    /// The order failed.
    Failed,
}

impl OnDemandResult {
    const ALL: [Self; 7] = [
        Self::Issued,
        Self::Refused,
        Self::Remembered,
        Self::Unavailable,
        Self::Limited,
        Self::Full,
        Self::Failed,
    ];

    /// Its name in metrics and in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Refused => "refused",
            Self::Remembered => "remembered",
            Self::Unavailable => "unavailable",
            Self::Limited => "limited",
            Self::Full => "full",
            Self::Failed => "failed",
        }
    }
}

/// How often there was each result.
#[derive(Debug, Default)]
pub(super) struct OnDemandCounters([AtomicU64; OnDemandResult::ALL.len()]);

/// The same, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemandCounts(Vec<(OnDemandResult, u64)>);

impl OnDemandCounters {
    pub(super) fn count(&self, result: OnDemandResult) {
        if let Some(counter) = self.0.get(result as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> OnDemandCounts {
        let counts = self.0.iter().map(|counter| counter.load(Ordering::Relaxed));
        OnDemandCounts(OnDemandResult::ALL.into_iter().zip(counts).collect())
    }
}

impl OnDemandCounts {
    /// Each result, with how often it was.
    pub fn iter(&self) -> impl Iterator<Item = (OnDemandResult, u64)> {
        self.0.iter().copied()
    }
}
