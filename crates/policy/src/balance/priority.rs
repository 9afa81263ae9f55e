//! How much of the load each priority gets (Envoy, "Priority levels" and "Panic threshold", with weighted health).
//!
//! A priority bears what its usable endpoints are of all of its endpoints, by weight, times the overprovisioning factor, at most all. The first gets what it bears, the
//! next what it bears of the rest, and so on. When all together do not bear everything, each gets its part, and those of which too few are usable panic.

use super::level::Level;
use super::{Settings, View};
use crate::draws::Draws;

const WHOLE: u32 = 1000;

/// The level that this randomness chooses.
pub(super) fn choose(levels: &[Level], random: u64) -> usize {
    if levels.len() < 2 {
        return 0;
    }
    let mut at = u32::try_from(Draws::new(random).below(u64::from(WHOLE))).unwrap_or(0);
    for (index, level) in levels.iter().enumerate() {
        match at.checked_sub(level.share()) {
            Some(left) => at = left,
            None => return index,
        }
    }
    // What rounding has left.
    levels.iter().position(|level| level.share() > 0).unwrap_or(0)
}

/// Computes all shares anew.
pub(super) fn refresh(settings: &Settings, levels: &[Level], view: impl Fn(usize) -> View) {
    let bears = |level: &Level| (level.usable() * settings.overprovision / 100).min(WHOLE);
    levels.iter().for_each(|level| level.look(&view));
    let total: u32 = levels.iter().map(bears).fold(0, u32::saturating_add);
    let mut left = WHOLE;
    for (at, level) in levels.iter().enumerate() {
        let share = match total {
            0 if at == 0 => WHOLE,
            0 => 0,
            short if short < WHOLE => bears(level) * WHOLE / short,
            _ => bears(level).min(left),
        };
        left = left.saturating_sub(share);
        let panics = total < WHOLE && level.usable() < settings.panic.saturating_mul(WHOLE / 100);
        level.set(share, panics);
    }
}
