//! Decisions, sans-IO: `now` and randomness are passed in, what to do comes out.

pub mod backoff;
mod expectation;
mod idle;
mod jitter;
mod min_rate;
mod pace;
mod retry_budget;
pub mod scale;
mod vigil;

pub use expectation::Expectation;
pub use idle::KeepAlive;
pub use jitter::Jitter;
pub use min_rate::MinRate;
pub use pace::Pace;
pub use retry_budget::RetryBudget;
pub use vigil::{Admission, Vigil};
