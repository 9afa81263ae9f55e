//! Counters of compressed responses, by coding.

use crate::counters::Counter;

/// The counters of one coding.
#[derive(Debug)]
pub struct CodingCounters {
    /// The coding, as `Content-Encoding` names it.
    pub coding: &'static str,
    /// Responses that have ended, complete or not.
    pub responses: Counter,
    /// Bytes of their bodies.
    pub input: Counter,
    /// Bytes that these became.
    pub output: Counter,
}

/// The counters of all codings.
pub static CODINGS: [CodingCounters; 3] =
    [CodingCounters::new("zstd"), CodingCounters::new("br"), CodingCounters::new("gzip")];

impl CodingCounters {
    const fn new(coding: &'static str) -> Self {
        Self { coding, responses: Counter::new(), input: Counter::new(), output: Counter::new() }
    }

    /// Counts a response.
    pub fn count(&self, input: u64, output: u64) {
        self.responses.add(1);
        self.input.add(input);
        self.output.add(output);
    }
}

/// Counts a response in a coding.
pub fn count(coding: &str, input: u64, output: u64) {
    if let Some(counters) = CODINGS.iter().find(|counters| counters.coding == coding) {
        counters.count(input, output);
    }
}
