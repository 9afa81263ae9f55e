//! Tasks that others cannot do without for long, and that can begin anew.

use std::future::Future;
use std::time::Duration;

use keepwarm_telemetry::panics;

/// Runs a task to its end; after a panic, which is reported, once more from its beginning. `what` is a word for log and counter.
pub async fn restarted<F: Future>(what: &'static str, make: impl FnMut() -> F) -> F::Output {
    panics::restart_on_panic(what, restart_pause, make).await
}

/// Before what has panicked begins anew: when it panics each time, others have their turn.
pub async fn restart_pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}
