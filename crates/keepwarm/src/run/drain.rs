//! The end of a serving process: readiness fails first, what is under way ends, then the workers, all within the grace.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keepwarm_net::OpenConnections;
use tokio::time::Instant;

use super::server::Server;
use super::signals::Ends;

/// How much an end waits for.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    /// SIGTERM: also for idle connections, up to the grace.
    Graceful,
    /// Ctrl-C: for requests only.
    Interactive,
    /// Another process serves on the sockets of these `bind`s.
    HandedOver(BTreeSet<String>),
}

/// The last part of the grace is for goodbyes: of what would be cut at its end, a WebSocket can still be closed in order.
const GOODBYE: Duration = Duration::from_secs(5);

impl Server {
    /// Ends what is served; a second signal ends it at once.
    pub(super) async fn stop(&mut self, ends: &mut Ends, ending: Ending) -> ExitCode {
        let grace = self.config.server.shutdown_grace;
        self.readiness.set(false);
        if !matches!(ending, Ending::HandedOver(_)) {
            self.service_manager.stopping();
        }
        tracing::info!(connections = self.listeners.open.count(), ?grace, "stopping");
        tokio::select! {
            () = self.drain(ending, grace) => {}
            _ = ends.next() => tracing::warn!("stopping at once"),
        }
        self.supervisor.stop(Duration::ZERO).await;
        self.listeners.end_doors();
        if let Some(file) = &self.pid_file {
            file.remove();
        }
        self.admin.stop();
        tracing::info!("stopped");
        ExitCode::SUCCESS
    }

    /// Lets what is under way end, in this order: new connections are refused, requests answered with `Connection: close`, streams and
    /// WebSockets told goodbye, workers drained; and last the doors, which workers call to their end.
    async fn drain(&mut self, ending: Ending, grace: Duration) {
        match &ending {
            Ending::HandedOver(taken) => self.listeners.hand_over(taken),
            Ending::Graceful | Ending::Interactive => {
                // Readiness has failed: a load balancer has this time to notice, and meets open doors until then.
                tokio::time::sleep(self.config.server.drain_delay).await;
            }
        }
        let end = Instant::now() + grace;
        self.listeners.draining.store(true, Ordering::Relaxed);
        self.listeners.end();
        let open = Arc::clone(&self.listeners.open);
        let patient = !matches!(ending, Ending::Interactive);
        let clients = quiet(&open, patient);
        let goodbyes = self.say_goodbyes(grace.saturating_sub(GOODBYE.min(grace / 4)));
        let all = async {
            tokio::select! {
                () = clients => {}
                () = goodbyes => {}
            }
        };
        if tokio::time::timeout_at(end, all).await.is_err() {
            tracing::info!(connections = open.count(), "the grace is over; what is left is cut");
        }
        self.supervisor
            .stop(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(500)))
            .await;
        self.listeners.doors_draining.store(true, Ordering::Relaxed);
        self.listeners.end_doors();
        let doors = Arc::clone(&self.listeners.doors_open);
        if tokio::time::timeout_at(end, quiet(&doors, patient)).await.is_err() {
            tracing::info!(
                connections = doors.count(),
                "the grace is over; calls through doors that are left are cut"
            );
        }
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

/// Waits until no connection is left, or (unless `patient`) none with a request: an idle one lives until its next request or the end of the grace, so that no request
/// meets a closing socket.
async fn quiet(open: &OpenConnections, patient: bool) {
    match patient {
        true => open.none().await,
        false => open.none_busy().await,
    }
}
