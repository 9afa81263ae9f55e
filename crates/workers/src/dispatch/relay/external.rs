//! A server that runs already, and that somebody else starts and ends: a php-fpm of the system, or of another container.
//!
//! It has no process here, no health to look after and no end to wait for: it has its places for as long as the configuration names it. Each request tries it; while
//! nobody listens there the response is 503 at once, and the first connection that is taken is the end of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use keepwarm_net::{AcquireError, Endpoint, Remote};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::app::{App, WorkerCapabilities, WorkerCapacity};
use super::super::link::Link;
use super::ServerPolicy;
use super::server::Server;
use crate::supervisor::{WorkerKey, WorkerLink};

/// Between two looks whether somebody listens again. Only the log and `keepwarm status` wait for it.
const LOOK: Duration = Duration::from_millis(250);
/// How long it may take to accept a connection at such a look.
const PATIENCE: Duration = Duration::from_secs(5);

/// The status of an external server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalServerStatus {
    /// Where it listens.
    pub address: Endpoint,
    /// It took no connection when it was last tried.
    pub away: bool,
}

/// A server that Keepwarm does not start, such as a running php-fpm.
#[derive(Debug)]
pub(in crate::dispatch) struct ExternalServer {
    endpoint: Endpoint,
    slots: usize,
    link: Arc<Link>,
}

impl ExternalServer {
    /// Gives the app's requests to the server at `endpoint`, so many at once.
    pub(in crate::dispatch) fn begin(
        app: &Arc<App>,
        endpoint: &Endpoint,
        policy: &ServerPolicy,
        remote: &Remote,
    ) -> Self {
        // The generation and the process of no worker, and the key of nobody else: the same server may be left and named again.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let key = WorkerKey { app: Arc::clone(&app.name), number, generation: 0, pid: 0 };
        // Nobody supervises it.
        let (events, _) = mpsc::unbounded_channel();
        let server = Server::external(endpoint.clone());
        server.settle(policy);
        let link = Arc::new(Link::new(key, app, remote.clone(), None, Some(server), events));
        let slots = policy.concurrency.max(1);
        let language = format!("a server at {endpoint}");
        app.welcome_worker(
            &link,
            WorkerCapabilities::new(WorkerCapacity { streams: slots, ahead: 0 }, "fastcgi", &language),
        );
        let looking = Arc::downgrade(&link);
        remote.spawn(move || async move {
            while let Some(link) = looking.upgrade() {
                let Some(app) = link.app.upgrade() else { return };
                look(&link, &app).await;
                drop((link, app));
                tokio::time::sleep(LOOK).await;
            }
        });
        Self { endpoint: endpoint.clone(), slots, link }
    }

    /// Whether it is this one.
    pub(in crate::dispatch) fn is(&self, endpoint: Option<&Endpoint>, slots: usize) -> bool {
        Some(&self.endpoint) == endpoint && self.slots == slots.max(1)
    }

    /// It gets no more requests; those that it has are answered.
    pub(in crate::dispatch) fn end(self) {
        self.link.retire();
    }

    /// What is known of it.
    pub(in crate::dispatch) fn state(&self) -> ExternalServerStatus {
        let away = self.link.server.as_ref().is_some_and(|server| server.away.load(Ordering::Relaxed));
        ExternalServerStatus { address: self.endpoint.clone(), away }
    }
}

/// While it is away, and once in the beginning, it is tried without a request.
async fn look(link: &Link, app: &App) {
    let Some(server) = &link.server else { return };
    let Some(endpoint) = server.endpoint().filter(|_| server.is_unknown()) else { return };
    // Nothing is asked: a server whose processes all have a connection of ours hears no other.
    match timeout(PATIENCE, endpoint.connect()).await {
        Ok(Ok(_)) => server.is_there(app),
        Ok(Err(error)) => server.is_away(app, &AcquireError::Connect(error)),
        Err(_) => server.is_away(app, &AcquireError::Timeout),
    }
}

impl Server {
    /// Whether it might be there or not.
    fn is_unknown(&self) -> bool {
        !self.looked.swap(true, Ordering::Relaxed) || self.away.load(Ordering::Relaxed)
    }

    /// It has taken a connection.
    pub(super) fn is_there(&self, app: &App) {
        if self.away.load(Ordering::Relaxed)
            && self.away.swap(false, Ordering::Relaxed)
            && let Some(endpoint) = self.endpoint()
        {
            tracing::info!(
                name: "app_server_recovered",
                app = %app.name, %endpoint, "the app's server accepts connections again"
            );
        }
    }

    /// It has taken none. Said once, until it does again.
    pub(super) fn is_away(&self, app: &App, error: &AcquireError) {
        if !error.is_local()
            && !self.away.swap(true, Ordering::Relaxed)
            && let Some(endpoint) = self.endpoint()
        {
            tracing::error!(name: "app_server_unreachable", app = %app.name, %endpoint, %error,
                "the app's server accepts no connections; its requests get 503 until it does");
        }
    }
}
