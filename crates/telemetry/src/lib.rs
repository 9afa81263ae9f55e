//! What Keepwarm says about itself: access-log records, log lines, counters and request ids. No listener.

pub mod counters;
pub mod escape;
mod request_id;

pub use request_id::RequestId;
