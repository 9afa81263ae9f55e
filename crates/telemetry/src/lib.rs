//! Telemetry: access-log records, log lines, counters and request ids. No listener.
//!
//! Nothing here blocks the calling thread: lines go into memory, and a thread for each output writes them ([`Sink`]).

pub mod access;
pub mod app_output;
pub mod compression;
pub mod connections;
pub mod counters;
pub mod escape;
pub mod log;
pub mod meters;
pub mod panics;
pub mod per_thread;
mod request_id;
pub mod sink;
pub mod stack;
pub mod stalls;
mod timestamp;
pub mod trace;
pub mod upstreams;

pub use access::{AccessRecord, CallAccessRecord, CallFailure, CallPhases};
pub use request_id::RequestId;
pub use sink::{Output, Sink, flush_all, reopen_all};
pub use timestamp::timestamp;
pub use trace::TraceContext;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}
