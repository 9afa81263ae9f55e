//! Numbers that follow from a seed.

/// `SplitMix64` (Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, 2014).
pub struct Random(u64);

impl Random {
    /// One of many rows from a seed.
    pub fn new(seed: u64, row: u64) -> Self {
        let mut random = Self(seed ^ row.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.next();
        random
    }

    #[expect(clippy::should_implement_trait, reason = "there is no end of them")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// This many bytes that follow from one number.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        let first = self.next();
        (0..length).map(|at| (first.wrapping_add(at * 7) >> 3) as u8).collect()
    }
}
