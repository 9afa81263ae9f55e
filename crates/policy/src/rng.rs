//! Random numbers from a seed, and a stable hash. Randomness is passed in as one `u64`, and some decisions need several numbers.

/// A generator with a seed of 64 bits: SplitMix64 (Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, 2014).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Any seed gives an even distribution.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// All 64 bits are random.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Evenly from `0..bound`; 0 for an empty range. The bias is `bound` in 2^64 (Lemire, *Fast random integer generation in an interval*, 2019).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = (u128::from(self.next()) * u128::from(bound)) >> 64;
        u64::try_from(wide).unwrap_or(0)
    }

    /// True in `part` of `whole` cases; always if `part` is at least `whole`.
    pub(crate) fn chance(&mut self, part: u32, whole: u32) -> bool {
        part >= whole || self.below(u64::from(whole)) < u64::from(part)
    }
}

/// Mixes all bits; a bijection.
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A hash that is the same on every host and in every version, for keys that stick to an endpoint (FNV-1a, its bits spread). It does not resist
/// chosen keys that collide; they only send an attacker's calls to one endpoint, which a single key does as well.
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    mix(fnv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_below_a_bound_are_even() {
        let mut rng = Rng::new(7);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[usize::try_from(rng.below(10)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|times| (9_500..10_500).contains(times)), "{seen:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
    }

    /// Hosts of different versions send the same key to the same endpoint.
    #[test]
    fn the_hash_never_changes() {
        assert_eq!(stable_hash(b""), 0xF52A_15E9_A9B5_E89B);
        assert_eq!(stable_hash(b"session=1"), stable_hash(b"session=1"));
        assert_ne!(stable_hash(b"session=1"), stable_hash(b"session=2"));
    }
}
