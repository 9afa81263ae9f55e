//! Tasks that must keep running, and that can be restarted.

use std::future::Future;
use std::time::Duration;

use keepwarm_telemetry::panics;

/// Runs a task to its end; after a panic, which is reported, runs it again from the beginning. `what` is a word for log and counter.
pub async fn restarted<F: Future>(what: &'static str, make: impl FnMut() -> F) -> F::Output {
    panics::restart_on_panic(what, restart_pause, make).await
}

/// A pause before a restart after a panic: if it panics each time, other tasks still get their turn.
pub async fn restart_pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}
