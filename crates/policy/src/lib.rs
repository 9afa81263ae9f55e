//! Decisions, sans-IO: `now` and randomness are passed in, what to do comes out.

pub mod backoff;
mod min_rate;
mod pace;
mod retry_budget;
mod vigil;

pub use min_rate::MinRate;
pub use pace::Pace;
pub use retry_budget::RetryBudget;
pub use vigil::{Admission, Vigil};
