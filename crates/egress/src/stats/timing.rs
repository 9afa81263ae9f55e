//! `Server-Timing` (<https://www.w3.org/TR/server-timing/>): what a call cost, for the app that made it.

use std::io::Write;
use std::time::Duration;

/// The name of the field.
pub(crate) const SERVER_TIMING: &str = "server-timing";

/// The value of the field, on the stack: `egress;dur=12.3;desc="reused"`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerTiming {
    bytes: [u8; 96],
    len: usize,
}

impl ServerTiming {
    /// So long, in milliseconds, from the head of the call to the head of its response; `what`: a word of ours.
    pub(crate) fn new(elapsed: Duration, what: &str) -> Self {
        let tenths = elapsed.as_micros() / 100;
        let mut bytes = [0; 96];
        let mut rest = bytes.as_mut_slice();
        // Words of ours are short; one that is not would be left out.
        let _ = write!(rest, "egress;dur={}.{};desc=\"{what}\"", tenths / 10, tenths % 10);
        let left = rest.len();
        Self { bytes, len: 96 - left }
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_and_a_word() {
        for (micros, word, value) in [
            (12_345, "reused", "egress;dur=12.3;desc=\"reused\""),
            (49, "new", "egress;dur=0.0;desc=\"new\""),
            (61_000_000, "first_byte_timeout", "egress;dur=61000.0;desc=\"first_byte_timeout\""),
        ] {
            let timing = ServerTiming::new(Duration::from_micros(micros), word);
            assert_eq!(timing.value(), value.as_bytes());
        }
    }
}
