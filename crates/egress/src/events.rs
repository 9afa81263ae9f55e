//! Log lines about breakers and ejections.

use std::time::Duration;

use keepwarm_policy::breaker::{BreakerChange, OpenCause};
use keepwarm_policy::outlier::EjectionCause;

/// A breaker has changed its state.
pub(crate) fn breaker(name: &str, change: &BreakerChange) {
    match change {
        BreakerChange::Opened(cause, length) => {
            let why = match cause {
                OpenCause::Consecutive(count) => format!("{count} calls in a row failed"),
                OpenCause::SuccessRate(percent) => format!("only {percent} % of its recent calls succeeded"),
                OpenCause::Probe => "it failed again".to_owned(),
            };
            tracing::warn!(
                name: "breaker_opened",
                upstream = name, state = "open", ?length, "breaker open: {why}"
            );
        }
        BreakerChange::HalfOpened => {
            tracing::info!(
                name: "breaker_half_opened",
                upstream = name,
                state = "half-open",
                "breaker half-open: lets some calls through"
            );
        }
        BreakerChange::Closed => tracing::info!(
            name: "breaker_closed",
            upstream = name, state = "closed", "breaker closed"
        ),
    }
}

/// An operator has taken an endpoint out of use, or put it back.
pub(crate) fn drained(upstream: &str, endpoint: &str, drained: bool) {
    match drained {
        true => tracing::warn!(
            name: "endpoint_drained",
            upstream, endpoint, "endpoint drained: it gets no more calls"
        ),
        false => {
            tracing::info!(name: "endpoint_ready", upstream, endpoint, "endpoint ready: it gets calls again")
        }
    }
}

/// An endpoint is ejected.
pub(crate) fn ejection(upstream: &str, endpoint: &str, cause: &EjectionCause, length: Duration) {
    let why = match cause {
        EjectionCause::Consecutive(count) => format!("{count} calls in a row failed"),
        EjectionCause::SuccessRate { rate, mean } => {
            format!("{} % of its calls succeeded, {} % of the others'", rate / 10, mean / 10)
        }
    };
    tracing::warn!(name: "endpoint_ejected", upstream, endpoint, ?length, "endpoint ejected: {why}");
}
