//! The credit of the other side, and the amount owed to it (spec §6).

use crate::FaultKind;

/// The receiving end of one credit.
///
/// Invariant: `left + owed + held = first`, where held is in the caller's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// The initial value.
    first: u32,
    /// The other side's remaining credit.
    left: u32,
    /// Bytes that have left memory and were not returned yet.
    owed: u32,
}

impl Window {
    pub(super) fn new(first: u32) -> Self {
        Self { first, left: first, owed: 0 }
    }

    /// The other side has sent `bytes`.
    pub(super) fn take(&mut self, bytes: u32) -> Result<(), (FaultKind, u64)> {
        let Some(left) = self.left.checked_sub(bytes) else {
            return Err((FaultKind::CreditSpent, bytes.into()));
        };
        self.left = left;
        Ok(())
    }

    /// `bytes` have left memory; bytes that were not held do not count.
    pub(super) fn release(&mut self, bytes: usize) {
        let held = self.first - self.left - self.owed;
        self.owed += u32::try_from(bytes).unwrap_or(u32::MAX).min(held);
    }

    /// The amount to return now: at least a quarter of the initial value, so that CREDIT frames stay few.
    pub(super) fn due(&self) -> Option<u32> {
        (self.owed >= self.first.div_ceil(4)).then_some(self.owed)
    }

    /// `amount`, which was due, was returned.
    pub(super) fn give(&mut self, amount: u32) {
        self.owed -= amount;
        self.left += amount;
    }
}
