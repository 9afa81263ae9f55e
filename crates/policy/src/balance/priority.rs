//! The share of the load of each priority (Envoy, "Priority levels" and "Panic threshold", with weighted health).
//!
//! The capacity of a priority is the usable part of its endpoints, by weight, times the overprovisioning factor, at most all. The first gets its capacity, the next gets its
//! capacity of the rest, and so on. If all together cannot bear the load, each gets its part, and those with too few usable endpoints panic.

use super::level::Level;
use super::{BalanceSettings, MemberStatus};
use crate::rng::Rng;

const WHOLE: u32 = 1000;

/// A random level, by the shares.
pub(super) fn choose(levels: &[Level], random: u64) -> usize {
    if levels.len() < 2 {
        return 0;
    }
    let mut at = u32::try_from(Rng::new(random).below(u64::from(WHOLE))).unwrap_or(0);
    for (index, level) in levels.iter().enumerate() {
        match at.checked_sub(level.share()) {
            Some(left) => at = left,
            None => return index,
        }
    }
    // The remainder of rounding.
    levels.iter().position(|level| level.share() > 0).unwrap_or(0)
}

/// Computes all shares.
pub(super) fn refresh(settings: &BalanceSettings, levels: &[Level], view: impl Fn(usize) -> MemberStatus) {
    let capacity = |level: &Level| (level.usable() * settings.overprovision / 100).min(WHOLE);
    levels.iter().for_each(|level| level.refresh(&view));
    let total: u32 = levels.iter().map(capacity).fold(0, u32::saturating_add);
    let mut left = WHOLE;
    for (at, level) in levels.iter().enumerate() {
        let share = match total {
            0 if at == 0 => WHOLE,
            0 => 0,
            short if short < WHOLE => capacity(level) * WHOLE / short,
            _ => capacity(level).min(left),
        };
        left = left.saturating_sub(share);
        let panics = total < WHOLE && level.usable() < settings.panic.saturating_mul(WHOLE / 100);
        level.set(share, panics);
    }
}
