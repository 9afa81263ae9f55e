//! Connections to servers that are kept for the next request, for one protocol and one origin: an app's workers, an upstream's endpoints.
//!
//! * **Which.** The newest idle connection of the caller's own thread first (it is warm, and the old ones may end), then one of another thread, then a new one.
//!   A socket stays on the reactor of its thread, and using it from another would cost two wake-ups a message: one that is taken by another thread moves
//!   there.
//! * **Watching.** A task on each thread that has idle connections is woken when one of them says something, which is nearly always that it closes: so a close is
//!   learnt at once, and from closes the origin's idle time-out ([`KeepAlive`]). A connection that is in use wakes nobody but its user.
//! * **The race between watcher and taker.** Idle connections are on a shelf under the pool's lock. Whoever takes one off, watcher or taker, does so under that
//!   lock, and owns it from then on. The taker looks once more whether it is quiet ([`super::client::Idleness`]), for the close may have come since.
//! * A [`Lease`] that is dropped closes its connection; [`Lease::finish`] puts it back if it can be used again.

mod shelf;
#[cfg(test)]
mod tests;
mod watcher;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use keepwarm_policy::KeepAlive;
use tokio::time::Instant;

use crate::client::{Client, Codec, Idleness};
use crate::{Endpoint, thread_index};
use shelf::{Idle, Shelf};

/// How many connections are kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Connections to one endpoint at once, idle and in use; more wait. The server's own limit is the reason to lower it.
    pub max: usize,
    /// Idle connections to one endpoint; one more is closed.
    pub idle: usize,
    /// A connection is not used again beyond this age, so that load moves on to new addresses and memory that grew with it is given back.
    pub max_age: Duration,
    /// Nor after so many requests.
    pub max_requests: u64,
    /// An idle connection is closed after this time; earlier when the origin is known to.
    pub idle_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// The servers close no idle connection but by ending. What was used a moment ago is then used again without asking the kernel whether it is still open: what the
    /// reactor has heard is enough.
    pub trusts: bool,
}

impl Default for PoolSettings {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            max: usize::MAX,
            idle: 64,
            max_age: HOUR,
            max_requests: 10_000,
            idle_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            trusts: false,
        }
    }
}

/// What a request needs of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Any will do: the request can be sent again should the connection turn out to be closed.
    Any,
    /// One that is almost certainly open: the request cannot be sent again (see [`KeepAlive::may_use`]).
    Fresh,
    /// A new one.
    New,
}

/// See [`PoolSettings::trusts`]. A busy reactor hears of everything several times in it.
const MOMENT: Duration = Duration::from_millis(1);

/// Why there is no connection.
#[derive(Debug)]
pub enum AcquireError {
    /// The system's error.
    Connect(io::Error),
    /// The server did not answer the connect in time.
    Timeout,
}

impl AcquireError {
    /// Nobody listens there.
    pub fn is_refused(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(self, Self::Connect(error) if matches!(error.kind(), ConnectionRefused | NotFound))
    }
}

impl std::fmt::Display for AcquireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Timeout => f.write_str("connecting took too long"),
        }
    }
}

/// The connections to one origin. Shared by all threads.
#[derive(Debug)]
pub struct Pool<C> {
    inner: Mutex<Inner<C>>,
}

#[derive(Debug)]
struct Inner<C> {
    settings: PoolSettings,
    shelves: HashMap<Endpoint, Shelf<C>>,
    keep_alive: KeepAlive,
    /// By thread.
    watchers: HashMap<usize, watcher::Slot>,
}

/// A connection that is in use. Dropped, it is closed.
#[derive(Debug)]
pub struct Lease<C: Codec> {
    /// None only once it was put back. In a box: it goes from hand to hand.
    client: Option<Box<Client<C>>>,
    pool: Arc<Pool<C>>,
    endpoint: Endpoint,
    /// How long it had been idle; `None`: it is new.
    idle: Option<Duration>,
}

impl<C: Codec> Pool<C> {
    /// An empty one.
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        let inner = Inner {
            settings,
            shelves: HashMap::new(),
            keep_alive: KeepAlive::default(),
            watchers: HashMap::new(),
        };
        Arc::new(Self { inner: Mutex::new(inner) })
    }

    /// Changes the settings, for what comes from now on.
    pub fn set_settings(&self, settings: PoolSettings) {
        self.lock().settings = settings;
    }

    /// A connection: one that is kept, or a new one; waits while there are as many as there may be. To be called on a data-plane thread.
    ///
    /// # Errors
    /// No connection could be made.
    pub async fn acquire(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        need: Need,
    ) -> Result<Lease<C>, AcquireError> {
        if let Some(lease) = self.take(endpoint, need) {
            return Ok(lease);
        }
        // Between the two looks nothing can be missed: a shelf without room wakes whoever waits when it has some.
        if let Some(lease) = poll_fn(|cx| self.poll_room(endpoint, need, cx)).await {
            return Ok(lease);
        }
        let permit = Permit { pool: self, endpoint };
        let limit = self.lock().settings.connect_timeout;
        let io = match tokio::time::timeout(limit, endpoint.connect()).await {
            Ok(Ok(io)) => io,
            Ok(Err(error)) => return Err(AcquireError::Connect(error)),
            Err(_) => return Err(AcquireError::Timeout),
        };
        std::mem::forget(permit);
        Ok(self.lease(endpoint, Box::new(Client::new(io)), None))
    }

    /// A kept connection, if there is one that will do.
    pub fn take(self: &Arc<Self>, endpoint: &Endpoint, need: Need) -> Option<Lease<C>> {
        if need == Need::New {
            return None;
        }
        let now = Instant::now();
        loop {
            let mut inner = self.lock();
            let keep_alive = inner.keep_alive;
            let settings = inner.settings;
            let shelf = inner.shelves.get_mut(endpoint)?;
            let mut idle = shelf.take(thread_index())?;
            let idled = now.saturating_duration_since(idle.since);
            let usable =
                settings.allows(&idle.client, now) && keep_alive.may_use(idled, true, now.into_std());
            if usable && need == Need::Fresh && !keep_alive.may_use(idled, false, now.into_std()) {
                // The others are older still. A request that can be repeated may have it.
                shelf.put_back(idle);
                return None;
            }
            drop(inner);
            let state =
                match settings.trusts && need == Need::Any && idled < MOMENT && idle.thread == thread_index()
                {
                    true => idle.client.heard_of(),
                    false => idle.client.look(),
                };
            if usable && state == Idleness::Quiet {
                let thread = idle.thread;
                let client = match thread == thread_index() {
                    true => Ok(idle.client),
                    false => idle.client.leave_thread().map(Box::new),
                };
                if let Ok(client) = client {
                    return Some(self.lease(endpoint, client, Some(idled)));
                }
            }
            let mut inner = self.lock();
            if state == Idleness::Closed {
                inner.keep_alive.handle_close(idled, now.into_std());
            }
            inner.left(endpoint);
        }
    }

    /// A place for a new connection (`None`), or one that has become free meanwhile.
    fn poll_room(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        need: Need,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Lease<C>>> {
        if let Some(lease) = self.take(endpoint, need) {
            return Poll::Ready(Some(lease));
        }
        let mut inner = self.lock();
        let max = inner.settings.max;
        let shelf = inner.shelves.entry(endpoint.clone()).or_default();
        if shelf.open < max {
            shelf.open += 1;
            return Poll::Ready(None);
        }
        if need != Need::Any && shelf.close_oldest() {
            // It may not use one that lies there: that makes room.
            return Poll::Ready(None);
        }
        shelf.wait(cx.waker());
        Poll::Pending
    }

    /// Closes what is kept to an endpoint, which is gone or about to be. What is in use is closed when it is finished.
    pub fn forget(&self, endpoint: &Endpoint) {
        let mut inner = self.lock();
        if let Some(shelf) = inner.shelves.get_mut(endpoint) {
            shelf.forget();
            if shelf.open == 0 {
                inner.shelves.remove(endpoint);
            }
        }
    }

    /// Idle connections to an endpoint, and all of them, those in use included.
    pub fn count(&self, endpoint: &Endpoint) -> (usize, usize) {
        self.lock().shelves.get(endpoint).map_or((0, 0), |shelf| (shelf.idle.len(), shelf.open))
    }

    /// How long a connection may lie idle, as far as that is known.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.lock().keep_alive.limit(Instant::now().into_std())
    }

    fn lease(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        client: Box<Client<C>>,
        idle: Option<Duration>,
    ) -> Lease<C> {
        Lease { client: Some(client), pool: Arc::clone(self), endpoint: endpoint.clone(), idle }
    }

    /// Takes a connection back.
    fn put_back(self: &Arc<Self>, endpoint: &Endpoint, mut client: Box<Client<C>>) {
        let (now, thread) = (Instant::now(), thread_index());
        client.rest();
        let mut inner = self.lock();
        let stated = client.codec().keep_alive_timeout().map(Duration::from_secs);
        inner.keep_alive.handle_stated(stated);
        let (settings, waker) = (inner.settings, inner.watcher(thread));
        // Registers the watcher, without waking it. What is not quiet now was closed with the answer, and teaches nothing.
        let mut cx = Context::from_waker(waker.as_ref().unwrap_or(Waker::noop()));
        let quiet = client.poll_noise(&mut cx).is_pending();
        let closed = match inner.shelves.get_mut(endpoint) {
            Some(shelf) if quiet && settings.allows(&client, now) && !shelf.forgotten => {
                shelf.put(Idle { client, thread, since: now }, settings.idle)
            }
            _ => Some(client),
        };
        if closed.is_some() {
            inner.left(endpoint);
        }
        let wake = inner.watch(thread, now);
        drop(inner);
        drop(closed);
        match wake {
            watcher::Wake::Nobody => {}
            watcher::Wake::Watcher(waker) => waker.wake(),
            watcher::Wake::Start => {
                drop(tokio::task::spawn_local(watcher::run(Arc::downgrade(self), thread)))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Drop for Pool<C> {
    /// The watchers end.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.watchers.values().for_each(watcher::Slot::wake);
    }
}

impl<C> Inner<C> {
    /// A connection has been closed.
    fn left(&mut self, endpoint: &Endpoint) {
        if let Some(shelf) = self.shelves.get_mut(endpoint) {
            shelf.left();
            if shelf.open == 0 && shelf.forgotten {
                self.shelves.remove(endpoint);
            }
        }
    }
}

impl PoolSettings {
    /// Whether a connection may carry one more request.
    fn allows<C: Codec>(&self, client: &Client<C>, now: Instant) -> bool {
        client.requests() < self.max_requests && now.saturating_duration_since(client.opened()) < self.max_age
    }
}

impl<C: Codec> Lease<C> {
    /// How long the connection had been idle before this use; `None`: it is new.
    pub fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// The use is over: the connection is kept if it can be.
    pub fn finish(mut self) {
        if let Some(client) = self.client.take_if(|client| client.is_reusable()) {
            self.pool.put_back(&self.endpoint, client);
        }
    }

    fn client(&self) -> &Client<C> {
        match &self.client {
            Some(client) => client,
            None => unreachable!("taken by `finish` only, which has the lease"),
        }
    }

    fn client_mut(&mut self) -> &mut Client<C> {
        match &mut self.client {
            Some(client) => client,
            None => unreachable!("taken by `finish` only, which has the lease"),
        }
    }
}

impl<C: Codec> Deref for Lease<C> {
    type Target = Client<C>;

    fn deref(&self) -> &Client<C> {
        self.client()
    }
}

impl<C: Codec> DerefMut for Lease<C> {
    fn deref_mut(&mut self) -> &mut Client<C> {
        self.client_mut()
    }
}

impl<C: Codec> Drop for Lease<C> {
    fn drop(&mut self) {
        if self.client.take().is_some() {
            self.pool.lock().left(&self.endpoint);
        }
    }
}

/// A counted connection that is being made. Given back when that fails, or when nobody waits for it any more.
struct Permit<'a, C: Codec> {
    pool: &'a Arc<Pool<C>>,
    endpoint: &'a Endpoint,
}

impl<C: Codec> Drop for Permit<'_, C> {
    fn drop(&mut self) {
        self.pool.lock().left(self.endpoint);
    }
}
