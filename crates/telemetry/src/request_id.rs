//! Ids of requests.

use std::fmt;
use std::sync::OnceLock;

/// The id of a request: 32 lower-case hexadecimal digits, as long as a trace id of W3C Trace Context. The first half is random, once per
/// process, so that ids of a restarted process or of another machine do not collide; the other half counts the process's requests.
///
/// Not a secret: one id allows others to be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId(u64);

impl RequestId {
    /// Digits of an id.
    pub const LEN: usize = 32;

    /// The id of this process's request of that number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The id's digits. Allocates nothing.
    #[must_use]
    pub fn digits(self) -> [u8; Self::LEN] {
        let mut all = [0; Self::LEN];
        let (front, back) = all.split_at_mut(16);
        front.copy_from_slice(process());
        back.copy_from_slice(&hex(self.0));
        all
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

/// Random for each process: the standard library seeds its hash maps from the system's random numbers.
fn process() -> &'static [u8; 16] {
    static PROCESS: OnceLock<[u8; 16]> = OnceLock::new();
    PROCESS.get_or_init(|| hex(random()))
}

#[cfg(feature = "simulation")]
fn random() -> u64 {
    0x0123_4567_89ab_cdef
}

#[cfg(not(feature = "simulation"))]
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};

    RandomState::new().hash_one("keepwarm")
}

fn hex(number: u64) -> [u8; 16] {
    std::array::from_fn(|place| match (number >> (60 - 4 * place)) as u8 & 0xf {
        digit @ 0..=9 => b'0' + digit,
        letter => b'a' + letter - 10,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_process_and_the_number_in_fixed_width() {
        let id = RequestId::new(0x0fed_cba9_8765_4321);
        let text = id.to_string();
        assert_eq!(text.as_bytes(), id.digits());
        assert!(text.ends_with("0fedcba987654321"), "{text}");
        assert!(text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{text}");
        assert_eq!(text.get(..16), RequestId::new(u64::MAX).to_string().get(..16));
    }
}
