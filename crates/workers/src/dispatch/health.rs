//! Checks whether an app can take a request: through the wire, as a request would come; a worker without our wire gets a health check.

use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::Endpoint;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::app::App;
use super::link::Link;
use super::relay::ExternalServerStatus;

/// The result of a health check of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppHealth {
    /// A worker responded, after this time.
    Responded(Duration),
    /// None responded, and this many are busy with requests: they respond after those.
    Busy(usize),
    /// None of this many responded in time, and they are idle.
    Silent(usize),
    /// The app's server, which runs by itself, takes no connection at this address.
    Away(Endpoint),
    /// There is no worker; why, when the app was given up.
    NoWorker(Option<Arc<str>>),
}

impl AppHealth {
    /// Whether a request would find a worker.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Responded(_) | Self::Busy(_))
    }
}

impl App {
    /// Asks all workers that take requests for a sign of life, and waits for the first for at most `bound`.
    pub async fn check_health(&self, bound: Duration) -> AppHealth {
        let begun = Instant::now();
        if let Some(ExternalServerStatus { address, .. }) = self.external() {
            // Nothing is asked: a server whose processes all have a connection of ours hears no other.
            return match timeout(bound, address.connect()).await {
                Ok(Ok(_)) => AppHealth::Responded(begun.elapsed()),
                Ok(Err(_)) | Err(_) => AppHealth::Away(address),
            };
        }
        loop {
            let (links, failed) = self.serving();
            let health = match links.is_empty() {
                true => AppHealth::NoWorker(failed),
                false => ask(&links, begun, bound).await,
            };
            // Asked on its way out, while another took its place: that one counts.
            let news =
                || self.serving().0.iter().any(|link| !links.iter().any(|asked| Arc::ptr_eq(asked, link)));
            if health.is_good() || begun.elapsed() >= MOST * bound || !news() {
                return health;
            }
        }
    }

    fn serving(&self) -> (Vec<Arc<Link>>, Option<Arc<str>>) {
        let state = self.state();
        (state.queue.serving().cloned().collect(), state.failed.clone())
    }
}

/// How many times the bound it may take, when workers come and go while they are asked.
const MOST: u32 = 3;

async fn ask(links: &[Arc<Link>], begun: Instant, bound: Duration) -> AppHealth {
    let (responded, mut responses) = mpsc::channel(1);
    for link in links {
        link.ask(responded.clone());
    }
    // Those that have died drop theirs: without any left there is nothing to wait for.
    drop(responded);
    if let Ok(Some(())) = timeout(bound, responses.recv()).await {
        return AppHealth::Responded(begun.elapsed());
    }
    match links.iter().filter(|link| link.is_at_work()).count() {
        0 => AppHealth::Silent(links.len()),
        busy => AppHealth::Busy(busy),
    }
}
