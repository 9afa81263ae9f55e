//! Jitter on limits.
//!
//! Workers that start together and get equal shares of the requests would all reach their limits at the same moment and be replaced together, at
//! the cost of the requests that wait then. So each draws its own limit, from nine tenths of the configured one up to all of it: never above, because
//! a limit is a promise.

use std::time::Duration;

use crate::rng::Rng;

/// The largest reduction: a tenth of the limit.
const PART: u64 = 10;

/// Draws limits; the same seed gives the same limits.
#[derive(Debug, Clone)]
pub struct Jitter {
    rng: Rng,
}

impl Jitter {
    /// Any seed gives an even distribution.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed) }
    }

    /// At most `limit`, and at least nine tenths of it.
    pub fn lower(&mut self, limit: u64) -> u64 {
        let most = limit / PART + 1;
        limit.saturating_sub(self.rng.below(most))
    }

    /// At most `limit`, and at least nine tenths of it, in steps of a millisecond.
    pub fn lower_duration(&mut self, limit: Duration) -> Duration {
        u64::try_from(limit.as_millis()).map_or(limit, |millis| Duration::from_millis(self.lower(millis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_spread_over_the_last_tenth() {
        let mut jitter = Jitter::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| jitter.lower(1000)).collect();
        assert!(drawn.iter().all(|limit| (900..=1000).contains(limit)));
        for tenth in 0..10_u64 {
            let here = drawn.iter().filter(|&&limit| (limit - 900) / 10 == tenth).count();
            assert!((50..200).contains(&here), "{here} of 1000 in part {tenth}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_limits_and_another_seed_others() {
        let draw = |seed| {
            let mut jitter = Jitter::new(seed);
            [(); 8].map(|()| jitter.lower(1_000_000))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn small_and_large_limits_hold() {
        let mut jitter = Jitter::new(3);
        for limit in [0, 1, 9] {
            assert_eq!(jitter.lower(limit), limit, "nothing to take a tenth of");
        }
        assert!((9..=10).contains(&jitter.lower(10)));
        assert!(jitter.lower(u64::MAX) >= u64::MAX / 10 * 9);
        let hour = jitter.lower_duration(Duration::from_secs(3600));
        assert!((3240..=3600).contains(&hour.as_secs()));
        assert_eq!(jitter.lower_duration(Duration::MAX), Duration::MAX);
    }
}
