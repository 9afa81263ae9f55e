//! Golden files, tests of the definitions, and arbitrary text.
#![expect(clippy::disallowed_methods, reason = "tests read and write the golden files")]

mod arbitrary;
mod directories;
mod environment;
mod fresh;
mod golden;
mod keys;
mod memory_sources;
