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
                Cause::SuccessRate(percent) => format!("only {percent} % of its recent calls succeeded"),
                Cause::Probe => "it failed again".to_owned(),
            };
            tracing::warn!(upstream = name, state = "open", ?length, "breaker open: {why}");
        }
        Change::HalfOpened => {
            tracing::info!(
                upstream = name,
                state = "half-open",
                "breaker half-open: lets some calls through"
            );
        }
        Change::Closed => tracing::info!(upstream = name, state = "closed", "breaker closed"),
    }
}

/// An endpoint is ejected.
pub(crate) fn ejection(upstream: &str, endpoint: &str, cause: &outlier::Cause, length: Duration) {
    let why = match cause {
        outlier::Cause::Consecutive(count) => format!("{count} calls in a row failed"),
        outlier::Cause::SuccessRate { rate, mean } => {
            format!("{} % of its calls succeeded, {} % of the others'", rate / 10, mean / 10)
        }
    };
    tracing::warn!(upstream, endpoint, ?length, "endpoint ejected: {why}");
}
