//! How many connections are open, in total and per client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keepwarm_net::{now, thread_index};
use keepwarm_telemetry::meters::ListenerCells;
use keepwarm_telemetry::per_thread::PerThread;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::activity::{Activity, ActivityRegistry, Eviction, RETRY};

/// A connection this old gives up its slot with its next response while others wait for one: so they take turns, and
/// nobody reconnects for every request.
const TURN: Duration = Duration::from_secs(1);
/// The limit is reported again if it was not reached for this long.
const QUIET: Duration = Duration::from_secs(60);
/// How often stuck threads are checked for.
const STUCK_LOOK: Duration = Duration::from_millis(500);

/// Counts the connections of the process against a limit.
#[derive(Debug)]
pub struct OpenConnections {
    count: AtomicUsize,
    /// The same, of each data-plane thread.
    by_thread: PerThread<AtomicUsize>,
    /// Connections of each thread that have a request in progress.
    busy: PerThread<AtomicUsize>,
    limit: AtomicUsize,
    closed: Notify,
    by_client: Mutex<HashMap<IpAddr, usize>>,
    activities: ActivityRegistry,
    /// A connection waits to be accepted, and none is idle: one response must be the last of its connection.
    wanted: AtomicBool,
    /// When a connection last had to wait for one of the others to end.
    full_at: Mutex<Option<Instant>>,
    /// When a client was last refused for having too many.
    refused_at: Mutex<Option<Instant>>,
}

impl OpenConnections {
    /// At most `limit` connections at once.
    pub fn new(limit: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            by_thread: PerThread::new(),
            busy: PerThread::new(),
            limit: AtomicUsize::new(limit),
            closed: Notify::new(),
            by_client: Mutex::default(),
            activities: ActivityRegistry::default(),
            wanted: AtomicBool::new(false),
            full_at: Mutex::default(),
            refused_at: Mutex::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until there are none.
    pub async fn none(&self) {
        self.until(|| self.count() == 0).await;
    }

    /// Waits until none are left except those of stuck threads, which nobody can end.
    pub async fn none_that_can_end(&self, is_stuck: impl Fn(usize) -> bool) {
        self.none_of_others(&self.by_thread, is_stuck).await;
    }

    /// Waits, while the process drains, until none has a request, except those of stuck threads.
    pub async fn none_busy(&self, is_stuck: impl Fn(usize) -> bool) {
        self.none_of_others(&self.busy, is_stuck).await;
    }

    async fn none_of_others(&self, counts: &PerThread<AtomicUsize>, is_stuck: impl Fn(usize) -> bool) {
        let of_others = || {
            let others = counts.iter().enumerate().filter(|(thread, _)| !is_stuck(*thread));
            others.map(|(_, count)| count.load(Ordering::Relaxed)).sum::<usize>()
        };
        // A thread may be found stuck meanwhile, which no connection reports.
        while tokio::time::timeout(STUCK_LOOK, self.until(|| of_others() == 0)).await.is_err() {}
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

    /// Tracks the activity of a connection of this thread.
    pub(crate) fn track(&self) -> Activity {
        self.activities.add(thread_index())
    }

    /// Asks every connection to leave that has been idle for this long; one with unread bytes is not idle.
    pub fn close_idle(&self, idle_for: Duration) {
        self.activities.close_idle(idle_for);
    }

    /// Changes the limit; existing connections above it are not ended.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.closed.notify_waiters();
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() >= self.limit.load(Ordering::Relaxed)
    }

    /// Ends a connection, so that another can be accepted: the longest idle one, or else one whose turn is over, with its next response.
    /// Waits until one has ended, or it is time to try again. Gives how long none of them was idle meanwhile.
    pub(super) async fn make_room(&self, has_room: impl Fn() -> bool) -> Duration {
        let began = Instant::now();
        let is_blocked = self.activities.evict() == Eviction::NobodyIdle;
        if is_blocked {
            self.wanted.store(true, Ordering::Relaxed);
        }
        let _ = tokio::time::timeout(RETRY, self.until(has_room)).await;
        self.wanted.store(false, Ordering::Relaxed);
        if is_blocked { began.elapsed() } else { Duration::ZERO }
    }

    /// Whether a connection opened at that time must end with the response that begins now, for another that waits.
    pub(crate) fn takes_turn(&self, opened: Instant) -> bool {
        self.wanted.load(Ordering::Relaxed)
            && opened + TURN <= now()
            && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// A connection has to wait for another to end. Logs it once per episode.
    pub(super) fn note_full(&self, listener: &str) {
        if begins(&self.full_at) {
            tracing::warn!(
                name: "connection_limit_reached",
                listener, limit = self.limit.load(Ordering::Relaxed),
                "connection limit reached; new connections wait until others close; raise `server.limits.connections`, \
                 and the limit on open files (systemd: LimitNOFILE) with it"
            );
        }
    }

    /// A client was refused. Logs it once per episode: a client with too many connections keeps trying.
    pub(super) fn note_refused(&self, client: IpAddr, limit: usize, listener: &str) {
        if begins(&self.refused_at) {
            tracing::warn!(
                name: "connections_refused",
                listener, %client, limit,
                "connections refused: this client has `limits.connections_per_client` open; logged once for all clients until none was refused for \
                 {QUIET:?}, keepwarm_connections_refused_total counts them"
            );
        }
    }

    pub(crate) fn begin_request(&self) {
        self.busy.of(thread_index()).fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_request(&self, draining: bool) {
        self.busy.of(thread_index()).fetch_sub(1, Ordering::Relaxed);
        if draining {
            self.closed.notify_waiters();
        }
    }

    /// Counts one more of this client, if its limit allows.
    pub(super) fn enter(
        self: &Arc<Self>,
        client: Option<IpAddr>,
        per_client: usize,
        cells: &'static ListenerCells,
    ) -> Option<ConnectionGuard> {
        let client = match self.count_client(client, per_client) {
            Ok(counted) => counted,
            Err(ClientFull) => {
                cells.refused.add(1);
                return None;
            }
        };
        let thread = thread_index();
        self.count.fetch_add(1, Ordering::Relaxed);
        self.by_thread.of(thread).fetch_add(1, Ordering::Relaxed);
        cells.accepted.add(1);
        Some(ConnectionGuard { open: Arc::clone(self), thread, client, cells })
    }

    /// Counts one more of this client, and returns the client if it is counted at all.
    fn count_client(&self, client: Option<IpAddr>, limit: usize) -> Result<Option<IpAddr>, ClientFull> {
        let Some(client) = client.filter(|_| limit > 0) else { return Ok(None) };
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_client.entry(client).or_default();
        if *count >= limit {
            return Err(ClientFull);
        }
        *count += 1;
        Ok(Some(client))
    }
}

/// The client is at its limit of connections.
struct ClientFull;

/// Whether a new episode begins: it has not happened for [`QUIET`].
pub(super) fn begins(last: &Mutex<Option<Instant>>) -> bool {
    let now = Instant::now();
    let before = last.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
    before.is_none_or(|at| now.saturating_duration_since(at) > QUIET)
}

/// A counted connection; leaves the count when dropped.
pub(super) struct ConnectionGuard {
    open: Arc<OpenConnections>,
    /// The thread it stays on.
    thread: usize,
    client: Option<IpAddr>,
    cells: &'static ListenerCells,
}

impl ConnectionGuard {
    /// Counts a connection of this client, which was not known when it was accepted, if the client's limit allows.
    pub(super) fn count_client(&mut self, client: Option<IpAddr>, limit: usize) -> bool {
        match self.open.count_client(client, limit) {
            Ok(counted) => {
                self.client = counted;
                true
            }
            Err(ClientFull) => {
                self.cells.refused.add(1);
                false
            }
        }
    }
}

impl Drop for ConnectionGuard {
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
        self.open.by_thread.of(self.thread).fetch_sub(1, Ordering::Relaxed);
        self.open.count.fetch_sub(1, Ordering::Relaxed);
        self.open.closed.notify_waiters();
    }
}
