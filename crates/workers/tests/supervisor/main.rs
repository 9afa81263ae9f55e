//! The supervisor with real processes. Workers are one-liners; `fake` stands for the dispatching side, and the example
//! `supervised` for Keepwarm's binary.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod crash;
mod fake;
mod harness;
mod launch;
mod orphans;
mod output;
mod processes;
mod recycle;
mod reload;
mod stop;
