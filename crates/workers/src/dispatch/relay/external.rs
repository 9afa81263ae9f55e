//! A server that another service manager starts and stops: a php-fpm of the system, or of another container.
//!
//! It has no process here, no health to check and no end to wait for: it has its slots for as long as the configuration names it. Each request tries it; while
//! nothing listens there the response is 503 at once, until the first connection is accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use keepwarm_net::{AcquireError, Endpoint, Remote};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::app::{App, WorkerCapabilities};
use super::super::kind::LinkKind;
use super::super::link::Link;
use super::ServerPolicy;
use super::server::Server;
use crate::supervisor::WorkerKey;

/// Between two checks whether something listens again. Only the log and `keepwarm status` wait for it.
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
    pub(in crate::dispatch) server: Server,
    slots: usize,
    /// Nothing listened there at the last try.
    away: AtomicBool,
    /// It was tried without a request.
    looked: AtomicBool,
}

impl ExternalServer {
    /// Gives the app's requests to the server at `endpoint`.
    pub(in crate::dispatch) fn attach(
        app: &Arc<App>,
        endpoint: &Endpoint,
        policy: &ServerPolicy,
        remote: &Remote,
    ) -> Arc<Link> {
        // The generation and the process of no worker, and the key of nobody else: the same server may be left and named again.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let key = WorkerKey { app: Arc::clone(&app.name), number, generation: 0, pid: 0 };
        // Nobody supervises it.
        let (events, _) = mpsc::unbounded_channel();
        let slots = slots(policy);
        let external = Self {
            server: Server::new(endpoint.clone(), policy),
            slots,
            away: AtomicBool::new(false),
            looked: AtomicBool::new(false),
        };
        let link = Arc::new(Link::new(key, app, remote.clone(), LinkKind::External(external), events));
        let language = format!("a server at {endpoint}");
        app.welcome_worker(&link, WorkerCapabilities::of_server(slots, "fastcgi", &language));
        let looking = Arc::downgrade(&link);
        remote.spawn(move || async move {
            while let Some(link) = looking.upgrade() {
                let (Some(app), Some(external)) = (link.app.upgrade(), link.kind.external()) else { return };
                external.look(&app).await;
                drop((link, app));
                tokio::time::sleep(LOOK).await;
            }
        });
        link
    }

    /// Whether it is the one at this endpoint, with the slots of this policy.
    pub(in crate::dispatch) fn is(&self, endpoint: &Endpoint, policy: &ServerPolicy) -> bool {
        self.server.endpoint == *endpoint && self.slots == slots(policy)
    }

    /// What is known of it.
    pub(in crate::dispatch) fn status(&self) -> ExternalServerStatus {
        let away = self.away.load(Ordering::Relaxed);
        ExternalServerStatus { address: self.server.endpoint.clone(), away }
    }

    /// While it is away, and once in the beginning, it is tried without a request.
    async fn look(&self, app: &App) {
        if self.looked.swap(true, Ordering::Relaxed) && !self.away.load(Ordering::Relaxed) {
            return;
        }
        // Nothing is asked: a server whose processes all have a connection of ours hears no other.
        match timeout(PATIENCE, self.server.endpoint.connect()).await {
            Ok(Ok(_)) => self.is_there(app),
            Ok(Err(error)) => self.is_away(app, &AcquireError::Connect(error)),
            Err(_) => self.is_away(app, &AcquireError::Timeout),
        }
    }

    /// It has taken a connection.
    pub(super) fn is_there(&self, app: &App) {
        if self.away.load(Ordering::Relaxed) && self.away.swap(false, Ordering::Relaxed) {
            tracing::info!(
                name: "app_server_recovered",
                app = %app.name, endpoint = %self.server.endpoint, "the app's server accepts connections again"
            );
        }
    }

    /// It has taken none. Said once, until it does again.
    pub(super) fn is_away(&self, app: &App, error: &AcquireError) {
        if !error.is_local() && !self.away.swap(true, Ordering::Relaxed) {
            tracing::error!(name: "app_server_unreachable", app = %app.name, endpoint = %self.server.endpoint, %error,
                "the app's server accepts no connections; its requests get 503 until it does");
        }
    }
}

/// The requests that it is given at once.
fn slots(policy: &ServerPolicy) -> usize {
    policy.concurrency.max(1)
}
