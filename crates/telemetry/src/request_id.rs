//! Names for requests.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Names one request: 32 lower-case hexadecimal digits, as long as a trace id of W3C Trace Context. The front half is drawn at random once per
/// process, so that ids of a restarted process or of another machine do not collide; the other half counts the process's requests.
///
/// Not a secret: who has seen one id can guess others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    process: u64,
    number: u64,
}

impl RequestId {
    /// Digits of an id.
    pub const LEN: usize = 32;

    /// The id of this process's request of that number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self { process: process(), number }
    }

    /// The id's digits. Allocates nothing.
    #[must_use]
    pub fn digits(self) -> [u8; Self::LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let all = u128::from(self.process) << 64 | u128::from(self.number);
        std::array::from_fn(|place| {
            let nibble = (all >> (124 - 4 * place)) as usize & 0xf;
            DIGITS.get(nibble).copied().unwrap_or(b'0')
        })
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.process, self.number)
    }
}

/// Random for each process: the standard library seeds its hash maps from the system's random numbers.
fn process() -> u64 {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    *PROCESS.get_or_init(|| RandomState::new().hash_one("keepwarm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_process_and_the_number_in_fixed_width() {
        let id = RequestId::new(0xabc);
        let text = id.to_string();
        assert_eq!(text.as_bytes(), id.digits());
        assert!(text.ends_with("0000000000000abc"), "{text}");
        assert_eq!(text.get(..16), RequestId::new(u64::MAX).to_string().get(..16));
    }
}
