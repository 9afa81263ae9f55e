//! Decisions, sans-IO: `now` and randomness are passed in, what to do comes out.

pub mod backoff;
pub mod balance;
pub mod breaker;
mod digest;
mod draws;
mod expectation;
pub mod gcra;
pub mod health;
pub mod hedge;
mod idle;
mod jitter;
mod min_rate;
pub mod outlier;
mod pace;
pub mod retry;
mod retry_budget;
pub mod scale;
pub mod timeout;
pub mod turns;
pub mod vigil;
mod window;

pub use balance::Balancer;
pub use breaker::Breaker;
pub use draws::stable_hash;
pub use expectation::Expectation;
pub use gcra::Gcra;
pub use health::HealthState;
pub use hedge::Hedge;
pub use idle::KeepAlive;
pub use jitter::Jitter;
pub use min_rate::MinRate;
pub use outlier::Outlier;
pub use pace::Pace;
pub use retry_budget::{BudgetSettings, RetryBudget};
pub use timeout::{CallTimer, Timeouts};
pub use turns::Turns;
