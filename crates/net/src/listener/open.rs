//! How many connections are open, in all and of one client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use keepwarm_telemetry::meters::ListenerCells;
use tokio::sync::Notify;

/// Counts the connections of the process against a limit.
#[derive(Debug)]
pub struct OpenConnections {
    count: AtomicUsize,
    /// Those that are reading or answering a request.
    busy: AtomicUsize,
    pub(super) limit: usize,
    closed: Notify,
    by_client: Mutex<HashMap<IpAddr, usize>>,
}

impl OpenConnections {
    /// At most `limit` connections at once.
    pub fn new(limit: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            limit,
            closed: Notify::new(),
            by_client: Mutex::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until there is none.
    pub async fn none(&self) {
        self.until(|| self.count() == 0).await;
    }

    /// Waits, while the process drains, until none has a request.
    pub async fn none_busy(&self) {
        self.until(|| self.busy.load(Ordering::Relaxed) == 0).await;
    }

    pub(super) async fn until(&self, reached: impl Fn() -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.closed.notified());
            // Before the look, or a change between the two would be missed.
            changed.as_mut().enable();
            if reached() {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn begin_request(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_request(&self, draining: bool) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
        if draining {
            self.closed.notify_waiters();
        }
    }

    /// Counts one more of this client, if that is within its limit.
    pub(super) fn enter(
        self: &Arc<Self>,
        client: Option<IpAddr>,
        per_client: usize,
        cells: &'static ListenerCells,
    ) -> Option<Place> {
        let client = client.filter(|_| per_client > 0);
        if let Some(client) = client {
            let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
            let count = by_client.entry(client).or_default();
            if *count >= per_client {
                cells.refused.add(1);
                return None;
            }
            *count += 1;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        cells.accepted.add(1);
        Some(Place { open: Arc::clone(self), client, cells })
    }
}

/// A counted connection; leaves the count when dropped.
pub(super) struct Place {
    open: Arc<OpenConnections>,
    client: Option<IpAddr>,
    cells: &'static ListenerCells,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            let mut by_client = self.open.by_client.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = by_client.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    by_client.remove(&client);
                }
            }
        }
        self.cells.closed.add(1);
        self.open.count.fetch_sub(1, Ordering::Relaxed);
        self.open.closed.notify_waiters();
    }
}
