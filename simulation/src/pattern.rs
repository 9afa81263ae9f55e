//! Bytes that show which message they belong to, and where in it.

/// The byte at `at` of the message `id`.
pub(crate) fn byte(id: u64, at: usize) -> u8 {
    let mixed = (id ^ 0x5bd1_e995)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add((at as u64).wrapping_mul(0xff51_afd7_ed55_8ccd));
    (mixed >> 41) as u8
}

/// `count` bytes of it from `from` on.
pub(crate) fn bytes(id: u64, from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| byte(id, at)).collect()
}

/// Letters of it: for what has to be text.
pub(crate) fn text(id: u64, count: usize) -> String {
    (0..count).map(|at| char::from(b'a' + byte(id, at) % 26)).collect()
}

/// Where these bytes differ from the message's, which have come after `from` others.
pub(crate) fn check(id: u64, from: usize, bytes: &[u8]) -> Result<(), usize> {
    match bytes.iter().enumerate().find(|(at, seen)| **seen != byte(id, from + at)) {
        Some((at, _)) => Err(from + at),
        None => Ok(()),
    }
}
