//! Random ids of traces and spans.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    static TURNS: [Cell<u64>; 2] = seeds().map(Cell::new);
}

/// Random for each thread. Two of them, so that the ids of a fleet have 128 bits to differ in.
fn seeds() -> [u64; 2] {
    if cfg!(feature = "simulation") {
        return [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
    }
    // Seeded from the system's random numbers.
    [0, 1].map(|seed| RandomState::new().hash_one(seed))
}

/// A number for an id: not a secret.
#[must_use]
pub fn random() -> u64 {
    TURNS.with(|[turn, other]| {
        let next = turn.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        // They take turns.
        turn.set(other.get());
        other.set(next);
        mix(next)
    })
}

/// SplitMix64's finaliser, over Weyl's sequence.
fn mix(turn: u64) -> u64 {
    let mixed = (turn ^ (turn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_of_all_threads_differ_and_are_spread() {
        let numbers = || (0..10_000).map(|_| random()).collect::<Vec<_>>();
        let (mut all, more) = (numbers(), std::thread::spawn(numbers).join().unwrap());
        all.extend(more);
        let different: BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
        for bit in 0..64 {
            let set = all.iter().filter(|number| *number >> bit & 1 == 1).count();
            // Ten standard deviations.
            assert!((9_293..=10_707).contains(&set), "bit {bit}: {set}");
        }
    }
}
