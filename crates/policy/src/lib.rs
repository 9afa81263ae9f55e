//! Decisions, sans-IO: `now` and randomness are passed in, what to do comes out.

pub mod backoff;
mod min_rate;

pub use min_rate::MinRate;
