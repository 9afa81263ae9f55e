//! Reproducible random numbers.

/// xorshift64 (Marsaglia 2003).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) // never 0, where it would stay
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }

    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// 0 to `most`, both often.
    pub(super) fn up_to(&mut self, most: usize) -> usize {
        match self.below(4) {
            0 => 0,
            1 => most,
            _ => self.below(most + 1),
        }
    }
}
