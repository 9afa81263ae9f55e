//! The end of a serving process: readiness fails first, running requests end, then the workers, all within the grace.
//!
//! The grace counts from the signal, so that nothing is added to it: a supervisor that kills after 30 s finds nothing to kill. A step without work takes no time.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keepwarm_net::Remote;
use keepwarm_serve::OpenConnections;
use tokio::time::Instant;

use super::screen;
use super::server::Server;
use super::signals::StopSignals;

/// How a process shuts down.
#[derive(Debug, Clone)]
pub(super) enum ShutdownMode {
    /// SIGTERM: also for the next requests of idle connections, for a little.
    Graceful,
    /// Ctrl-C: for requests only.
    Interactive,
    /// Another process, the `successor`, serves on the sockets of these `bind`s.
    HandedOver { taken: BTreeSet<String>, successor: u32 },
}

/// The last part of the grace is for goodbyes: of what would be cut at its end, a WebSocket can still be closed in order.
const GOODBYE: Duration = Duration::from_secs(5);
/// The last part is for the shutdown of workers whose clients were cut.
const WORKERS: Duration = Duration::from_secs(1);
/// The part of it for a worker's work on SIGTERM.
const TERMINATION: Duration = Duration::from_millis(500);
/// How often idle connections are looked for.
const LOOK: Duration = Duration::from_millis(100);

impl Server {
    /// Stops serving; a second signal stops at once.
    pub(super) async fn stop(&mut self, stop_signals: &mut StopSignals, mode: ShutdownMode) -> ExitCode {
        let grace = self.config.server.shutdown_grace;
        let end = Instant::now() + grace;
        self.readiness.set(false);
        if !matches!(mode, ShutdownMode::HandedOver { .. }) {
            self.service_manager.stopping();
        }
        tracing::info!(name: "stopping", connections = self.listeners.open.count(), ?grace, "stopping");
        let open = Arc::clone(&self.listeners.open);
        // From the first moment on: their jobs may take the whole grace.
        let processes = self.stop_processes(grace);
        let is_asked_here = !matches!(mode, ShutdownMode::HandedOver { .. });
        tokio::select! {
            () = self.drain(mode, processes, end) => {}
            () = screen::report_stop(|| open.count(), grace), if is_asked_here => {}
            () = stop_signals.again() => tracing::warn!(name: "stopping_at_once", "stopping at once"),
        }
        self.supervisor.stop(Duration::ZERO).await;
        self.listeners.end_doors();
        if let Some(file) = &self.pid_file {
            file.remove();
        }
        self.admin.stop();
        tracing::info!(name: "stopped", "stopped");
        ExitCode::SUCCESS
    }

    /// Lets running requests end, in this order: new connections are refused, responses get `Connection: close`, streams and
    /// WebSockets a close message, workers drained; and last the doors, which workers and processes call to their end.
    async fn drain(&mut self, mode: ShutdownMode, processes: impl Future<Output = ()>, end: Instant) {
        match &mode {
            ShutdownMode::HandedOver { taken, .. } => self.listeners.hand_over(taken),
            ShutdownMode::Graceful | ShutdownMode::Interactive => {
                // Readiness has failed: a load balancer has this time to notice, and meets open doors until then.
                let delay = tokio::time::sleep(self.config.server.drain_delay);
                let _ = tokio::time::timeout_at(end, delay).await;
            }
        }
        self.listeners.draining.store(true, Ordering::Relaxed);
        self.listeners.end();
        let left = end.saturating_duration_since(Instant::now());
        let clients_end = end - WORKERS.min(left / 4);
        let left = clients_end.saturating_duration_since(Instant::now());
        let idle = match mode {
            ShutdownMode::Interactive => None,
            ShutdownMode::Graceful | ShutdownMode::HandedOver { .. } => Some(self.config.server.drain_idle),
        };
        let open = Arc::clone(&self.listeners.open);
        let clients = quiet(&open, idle, &self.view.remotes);
        let goodbyes = self.say_goodbyes(left.saturating_sub(GOODBYE.min(left / 4)));
        let all = async {
            tokio::select! {
                () = clients => {}
                () = goodbyes => {}
            }
        };
        if tokio::time::timeout_at(clients_end, all).await.is_err() {
            tracing::info!(
                name: "drain_timeout",
                connections = open.count(),
                "drain timeout reached; cutting the remaining connections"
            );
        }
        let left = end.saturating_duration_since(Instant::now());
        let workers = self.supervisor.stop(left.saturating_sub(TERMINATION.min(left / 2)));
        if tokio::time::timeout_at(end, workers).await.is_err() {
            tracing::info!(name: "drain_timeout", "drain timeout reached; killing the remaining workers");
        }
        if tokio::time::timeout_at(end, processes).await.is_err() {
            tracing::info!(name: "drain_timeout", "drain timeout reached; killing the remaining processes");
        }
        self.listeners.doors_draining.store(true, Ordering::Relaxed);
        self.listeners.end_doors();
        let doors = Arc::clone(&self.listeners.doors_open);
        if tokio::time::timeout_at(end, quiet(&doors, idle, &self.view.remotes)).await.is_err() {
            tracing::info!(
                name: "drain_timeout",
                connections = doors.count(),
                "drain timeout reached; cutting the remaining calls through doors"
            );
        }
        self.otlp.finish(end).await;
    }

    /// Ends the streams and WebSockets of each app when its `drain_timeout` is over, or this `limit`. Does not return.
    async fn say_goodbyes(&self, limit: Duration) {
        let begun = Instant::now();
        let mut due: Vec<(Duration, &str)> =
            self.config.apps.iter().map(|app| (app.drain_timeout.min(limit), app.name.as_str())).collect();
        due.sort();
        for (after, name) in due {
            tokio::time::sleep_until(begun + after).await;
            if let Some(app) = self.links.app(name) {
                app.say_goodbye();
            }
        }
        std::future::pending().await
    }
}

/// Waits until no connection is left, and keeps idle ones for `idle`: a request that is on its way meets no closing socket. `None`: until none has a request.
/// Those of a thread that hangs are not waited for.
async fn quiet(open: &OpenConnections, idle: Option<Duration>, threads: &[Remote]) {
    let is_stuck = |thread: usize| threads.get(thread).is_some_and(Remote::is_stuck);
    let Some(idle) = idle else { return open.none_busy(is_stuck).await };
    let close_idle = async {
        tokio::time::sleep(idle).await;
        loop {
            open.close_idle(idle);
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = open.none_that_can_end(is_stuck) => {}
        () = close_idle => {}
    }
}
