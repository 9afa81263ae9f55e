//! Ids of requests.

use std::fmt;
use std::sync::OnceLock;

/// The id of a request: 32 lower-case hexadecimal digits, as long as a trace id of W3C Trace Context. The first half is random, once per
/// process, so that ids of a restarted process or of another machine do not collide; the other half counts the process's requests.
///
/// Not a secret: one id allows others to be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// Digits of an id.
    pub const LEN: usize = 32;

    /// The id of this process's request of that number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number of a request of this process, by the id that somebody names. `None`: no id of this process.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Option<Self> {
        let (front, back) = digits.split_at_checked(16)?;
        if back.len() != 16 || front != process() {
            return None;
        }
        let mut number = 0;
        for &byte in back {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            number = number << 4 | u64::from(digit);
        }
        Some(Self(number))
    }

    /// Its number among the requests of this process.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
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

    #[test]
    fn an_id_of_this_process_is_read_back_and_no_other_text() {
        for number in [0, 1, 0x0fed_cba9_8765_4321, u64::MAX] {
            let id = RequestId::new(number);
            assert_eq!(RequestId::parse(&id.digits()), Some(id));
            let mut foreign = id.digits();
            foreign[0] = if foreign[0] == b'0' { b'1' } else { b'0' };
            assert_eq!(RequestId::parse(&foreign), None);
            assert_eq!(RequestId::parse(&id.digits()[1..]), None);
            assert_eq!(RequestId::parse(&[&id.digits()[..], b"0"].concat()), None);
        }
        let mut capital = RequestId::new(0xa).digits();
        capital[31] = b'A';
        assert_eq!(RequestId::parse(&capital), None);
        for text in ["", "order-17", "\u{fc}"] {
            assert_eq!(RequestId::parse(text.as_bytes()), None);
        }
    }
}
