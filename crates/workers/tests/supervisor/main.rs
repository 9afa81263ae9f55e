//! The supervisor with real processes. Workers are one-liners; `fake` stands for the dispatching side, and the example
//! `supervised` for Keepwarm's binary.

mod crash;
mod fake;
mod harness;
mod launch;
mod orphans;
mod output;
mod reload;
mod stop;
