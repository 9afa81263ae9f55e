//! Log lines about breakers and ejections.

use std::time::Duration;

use keepwarm_policy::breaker::{Cause, Change};
use keepwarm_policy::outlier;

/// A breaker has changed its state.
pub(crate) fn breaker(name: &str, change: &Change) {
    match change {
        Change::Opened(cause, length) => {
            let why = match cause {
                Cause::Consecutive(count) => format!("{count} calls in a row failed"),
                Cause::SuccessRate(percent) => format!("only {percent} % of its calls went well lately"),
                Cause::Probe => "it has failed again".to_owned(),
            };
            tracing::warn!(upstream = name, state = "open", ?length, "the breaker opens: {why}");
        }
        Change::HalfOpened => {
            tracing::info!(upstream = name, state = "half-open", "the breaker lets some calls through");
        }
        Change::Closed => tracing::info!(upstream = name, state = "closed", "the breaker closes"),
    }
}

/// An endpoint is left alone for a while.
pub(crate) fn ejection(upstream: &str, endpoint: &str, cause: &outlier::Cause, length: Duration) {
    let why = match cause {
        outlier::Cause::Consecutive(count) => format!("{count} calls in a row failed"),
        outlier::Cause::SuccessRate { rate, mean } => {
            format!("{} % of its calls went well, of the others' {} %", rate / 10, mean / 10)
        }
    };
    tracing::warn!(upstream, endpoint, ?length, "the endpoint is left alone for a while: {why}");
}
