//! A fuzzer's bytes as choices: numbers and strings off the front, zeros and empties when there are none left.

/// The bytes not yet used.
pub struct ByteSource<'a>(pub &'a [u8]);

impl<'a> ByteSource<'a> {
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    /// Up to 31 bytes, their number first.
    pub fn string(&mut self) -> &'a [u8] {
        let len = self.below(32).min(self.0.len());
        let (string, rest) = self.0.split_at(len);
        self.0 = rest;
        string
    }

    /// Splits what is left into pieces: one, single bytes, or by sizes drawn from `sizes`.
    pub fn pieces(bytes: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        for size in sizes.iter().cycle().take(if sizes.is_empty() { 0 } else { bytes.len() }) {
            let (piece, after) = rest.split_at(usize::from(*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        pieces
    }
}
