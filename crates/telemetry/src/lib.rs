//! Telemetry: access-log records, log lines, counters and request ids. No listener.
//!
//! Nothing here blocks the calling thread: lines go into memory, and a thread for each output writes them ([`Sink`]).

pub mod access;
pub mod app_output;
pub mod compression;
pub mod connections;
pub mod counters;
pub mod escape;
pub mod export;
pub mod log;
pub mod meters;
pub mod panics;
pub mod per_thread;
mod request_id;
pub mod sink;
pub mod spans;
pub mod stack;
pub mod stalls;
mod terminal;
pub mod timelines;
mod timestamp;
pub mod trace;
pub mod upstreams;

pub use access::{AccessRecord, CallAccessRecord, CallFailure, CallPhases};
pub use request_id::RequestId;
pub use sink::{Output, Sink, flush_all, reopen_all};
pub use terminal::local_minute;
pub use timestamp::timestamp;
pub use trace::TraceContext;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
    /// Text for a person at a terminal: local time, short access lines, the lines of apps as they were written.
    Terminal {
        /// In color.
        color: bool,
    },
}

impl Format {
    /// This format on an output: text becomes [`Format::Terminal`] where the output is a terminal, in color unless `NO_COLOR` is set
    /// (<https://no-color.org>).
    #[must_use]
    pub fn on(self, output: &Output) -> Self {
        match self == Self::Text && output.is_terminal() {
            true => {
                let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                Self::Terminal { color: !no_color }
            }
            false => self,
        }
    }
}
