//! Checks whether an app can take a request: through the wire, as a request would come; a worker without our wire gets a health check.

use std::slice;
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

/// How long one idle worker has to respond before the others are asked, too. With many workers, to ask all of them would be most of their work.
const FIRST: Duration = Duration::from_millis(50);

async fn ask(links: &[Arc<Link>], begun: Instant, bound: Duration) -> AppHealth {
    let first = links.iter().find(|link| !link.is_at_work()).or(links.first());
    let responds = |asked: &[Arc<Link>], bound: Duration| {
        let (responded, mut responses) = mpsc::channel(1);
        for link in asked {
            link.ask(responded.clone());
        }
        // Those that have died drop theirs: without any left there is nothing to wait for.
        drop(responded);
        async move { timeout(bound, responses.recv()).await == Ok(Some(())) }
    };
    if responds(first.map(slice::from_ref).unwrap_or_default(), FIRST.min(bound)).await
        || responds(links, bound.saturating_sub(FIRST)).await
    {
        return AppHealth::Responded(begun.elapsed());
    }
    match links.iter().filter(|link| link.is_at_work()).count() {
        0 => AppHealth::Silent(links.len()),
        busy => AppHealth::Busy(busy),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::link::tests::Bench;
    use super::*;

    const BOUND: Duration = Duration::from_secs(60);

    fn is_asked(bench: &mut Bench) -> bool {
        bench.worker.set_nonblocking(true).unwrap();
        bench.worker.read(&mut [0; 4096]).is_ok()
    }

    #[tokio::test]
    async fn one_idle_worker_is_asked_before_the_others() {
        let [mut busy, mut idle, mut other] = [Bench::new(1), Bench::new(1), Bench::new(1)];
        let _call = busy.give(10);
        assert!(is_asked(&mut busy), "it has its request");
        let links = [&busy, &idle, &other].map(|bench| Arc::clone(&bench.link));
        let mut health = std::pin::pin!(ask(&links, Instant::now(), BOUND));
        assert!(timeout(Duration::ZERO, &mut health).await.is_err());
        assert_eq!([&mut busy, &mut idle, &mut other].map(is_asked), [false, true, false]);
        idle.link.ponged();
        assert!(matches!(health.await, AppHealth::Responded(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn where_the_first_is_silent_the_others_are_asked() {
        let [mut silent, mut other] = [Bench::new(1), Bench::new(1)];
        let links = [&silent, &other].map(|bench| Arc::clone(&bench.link));
        let mut health = std::pin::pin!(ask(&links, Instant::now(), BOUND));
        assert!(timeout(2 * FIRST, &mut health).await.is_err());
        assert_eq!([&mut silent, &mut other].map(is_asked), [true, true]);
        other.link.ponged();
        assert!(matches!(health.await, AppHealth::Responded(_)));
    }

    #[tokio::test]
    async fn where_the_first_has_died_the_others_are_asked_at_once() {
        let [dead, mut other] = [Bench::new(1), Bench::new(1)];
        dead.link.die(false);
        let links = [&dead, &other].map(|bench| Arc::clone(&bench.link));
        let mut health = std::pin::pin!(ask(&links, Instant::now(), BOUND));
        assert!(timeout(Duration::ZERO, &mut health).await.is_err());
        assert!(is_asked(&mut other));
        other.link.ponged();
        assert!(matches!(health.await, AppHealth::Responded(_)));
    }
}
