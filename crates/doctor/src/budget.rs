//! Politeness: how much is asked of a server, at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Connections that are open at once, at most.
pub const CONNECTIONS: usize = 8;

/// Most requests sent in a second by default. So low that no server that serves people notices.
pub const REQUESTS_PER_SECOND: u32 = 40;

/// How long a new connection waits for its place. All are held for longer than this only by a probe that waits for itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// The limits on requests and connections to one server, and their use.
#[derive(Debug)]
pub struct Budget {
    connections: Arc<Semaphore>,
    interval: Duration,
    next: Mutex<Instant>,
    opened: AtomicU64,
    asked: AtomicU64,
}

impl Budget {
    /// A budget of this many requests a second, and [`CONNECTIONS`].
    #[must_use]
    pub fn new(rate: u32) -> Self {
        Self {
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            interval: Duration::from_secs(1) / rate.max(1),
            next: Mutex::new(Instant::now()),
            opened: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        }
    }

    /// Waits until one more connection may be opened; the connection counts until the returned permit is dropped. `None` after half a minute.
    pub async fn connection(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.connections).acquire_owned();
        // The semaphore is never closed.
        let permit = tokio::time::timeout(PATIENCE, place).await.ok()?.ok()?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Some(permit)
    }

    /// Waits until one more request may be sent.
    pub async fn request(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let turn = {
            let mut next = self.next.lock().await;
            let turn = (*next).max(Instant::now());
            *next = turn + self.interval;
            turn
        };
        tokio::time::sleep_until(turn).await;
    }

    /// Connections opened and requests sent so far.
    #[must_use]
    pub fn spent(&self) -> (u64, u64) {
        (self.opened.load(Ordering::Relaxed), self.asked.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_keep_their_distance_and_connections_their_number() {
        let budget = Budget::new(10);
        let begun = Instant::now();
        for _ in 0..11 {
            budget.request().await;
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            held.push(budget.connection().await);
        }
        assert!(tokio::time::timeout(Duration::from_secs(1), budget.connection()).await.is_err());
        assert!(budget.connection().await.is_none(), "nobody waits for ever");
        assert_eq!(budget.spent(), (CONNECTIONS as u64, 11));
        held.pop();
        assert!(tokio::time::timeout(Duration::from_secs(1), budget.connection()).await.is_ok());
    }
}
