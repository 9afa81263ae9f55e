//! The connections to one upstream that speak HTTP/2: one for each thread and endpoint, and more where the server takes too few calls on one.
//!
//! A connection is never moved, and never leased: it carries calls of its own thread, side by side. The task that drives it ([`super::driver`]) also watches it while it is idle. The pool
//! has a handle on each connection that may be given calls; without one, a connection ends when its last call has.
//!
//! Only one connection is dialled at a time for a thread and endpoint, by a task of its own: whoever comes meanwhile waits for that one, and whoever goes away leaves it to the
//! others. A new one takes a single call until the server's SETTINGS say how many it takes.
//!
//! With fewer places for connections ([`ConnectionSlots`]) than threads and endpoints, they take turns: a connection that is in use gets no further calls, ends with those it has, and leaves its
//! place to who has waited for one.

mod acquire;
mod dial;
mod endpoint_connections;
mod events;
mod prewarm;
mod waiter;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keepwarm_policy::KeepAlive;

use super::link::Link;
use crate::pool::{ConnectionSlots, PoolCounters};
use crate::{ClientTls, Endpoint, Http1, Pool, PoolSettings, PoolState, PoolTotals};
use endpoint_connections::EndpointConnections;

/// The connections to one upstream. Shared by all threads.
#[derive(Debug)]
pub struct Http2Pool {
    inner: Mutex<Inner>,
    metering: PoolCounters,
    /// Takes connections whose server has chosen HTTP/1.1.
    http1: Option<Arc<Pool<Http1>>>,
    pub(super) places: Arc<ConnectionSlots>,
}

#[derive(Debug)]
struct Inner {
    settings: PoolSettings,
    tls: Option<Arc<ClientTls>>,
    /// By endpoint and thread.
    shelves: HashMap<Endpoint, Vec<EndpointConnections>>,
    /// When each endpoint closes idle connections.
    keep_alive: HashMap<Endpoint, KeepAlive>,
    /// Warmers that ever were.
    warmers: u64,
    /// Dials that ever were: a number is never given twice, though the shelves of an endpoint come and go.
    dials: u64,
    /// Waiters that ever were.
    waiters: u64,
}

impl Http2Pool {
    /// An empty one.
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        Self::beside(settings, None, ConnectionSlots::new(settings.max_in_all), PoolCounters::default())
    }

    /// An empty one, whose connections have places among others. Those whose server has chosen HTTP/1.1 go to `http1`.
    pub(crate) fn beside(
        settings: PoolSettings,
        http1: Option<Arc<Pool<Http1>>>,
        places: Arc<ConnectionSlots>,
        metering: PoolCounters,
    ) -> Arc<Self> {
        let (shelves, keep_alive) = (HashMap::new(), HashMap::new());
        let inner = Inner { settings, tls: None, shelves, keep_alive, warmers: 0, dials: 0, waiters: 0 };
        let pool = Arc::new(Self { inner: Mutex::new(inner), metering, http1, places });
        let giver = Arc::downgrade(&pool);
        pool.places.add_giver(giver);
        pool
    }

    /// Changes what new connections are encrypted with. What is open stays open.
    pub fn set_tls(&self, tls: Option<Arc<ClientTls>>) {
        self.lock().tls = tls;
    }

    /// Changes the settings, for what comes from now on.
    pub fn set_settings(&self, settings: PoolSettings) {
        let mut inner = self.lock();
        inner.settings = settings;
        inner.shelves.values_mut().flatten().for_each(EndpointConnections::wake_warmer);
        drop(inner);
        self.places.set_most(settings.max_in_all);
    }

    /// Gives no further calls to an endpoint's connections. They end when their calls have.
    pub fn forget(&self, endpoint: &Endpoint) {
        let shelves = {
            let mut inner = self.lock();
            inner.keep_alive.remove(endpoint);
            inner.shelves.remove(endpoint)
        };
        for mut shelf in shelves.into_iter().flatten() {
            shelf.wake_warmer();
            shelf.kept.iter().for_each(|kept| kept.link.retire());
            shelf.wake();
        }
    }

    /// Connections to an endpoint that may be given calls, and calls on them.
    pub fn count(&self, endpoint: &Endpoint) -> (usize, usize) {
        let inner = self.lock();
        let kept = inner.shelves.get(endpoint).into_iter().flatten().flat_map(|shelf| &shelf.kept);
        kept.fold((0, 0), |(connections, calls), kept| (connections + 1, calls + kept.link.open()))
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.lock().settings.connect_timeout
    }

    /// How long a connection to an endpoint may lie idle.
    pub(super) fn idle_limit(&self, endpoint: &Endpoint) -> Duration {
        let inner = self.lock();
        let learnt = inner.keep_alive.get(endpoint).and_then(KeepAlive::keep_for);
        inner.settings.idle_timeout.min(learnt.unwrap_or(Duration::MAX))
    }

    /// The connections to an endpoint, or (`None`) all of them, by what they are doing.
    pub fn state(&self, endpoint: Option<&Endpoint>) -> PoolState {
        let inner = self.lock();
        let mut state = PoolState::default();
        let shelves = inner.shelves.iter().filter(|(at, _)| endpoint.is_none_or(|it| it == *at));
        for shelf in shelves.flat_map(|(_, shelves)| shelves) {
            let in_use = shelf.kept.iter().filter(|kept| kept.link.open() > 0).count();
            state.in_use += in_use;
            state.idle += shelf.kept.len() - in_use;
            state.dialling += usize::from(shelf.dialling);
            state.waiting += shelf.waiting.len();
        }
        state
    }

    /// What has happened so far.
    pub fn totals(&self) -> PoolTotals {
        self.metering.totals()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| self.begin_anew(poisoned))
    }

    /// A panic has left the shelves in the middle of a change: the connections get no further calls, and who waits looks again.
    #[cold]
    fn begin_anew<'p>(&'p self, poisoned: PoisonError<MutexGuard<'p, Inner>>) -> MutexGuard<'p, Inner> {
        let mut inner = poisoned.into_inner();
        tracing::error!(
            name: "pool_reset",
            "a bug in Keepwarm broke a pool of HTTP/2 connections; pool reset"
        );
        for shelf in inner.shelves.values_mut().flatten() {
            shelf.kept.drain(..).for_each(|kept| kept.link.retire());
            (shelf.dialling, shelf.failure) = (false, None);
            shelf.wake();
            shelf.wake_warmer();
        }
        self.inner.clear_poison();
        inner
    }
}

impl Inner {
    /// Whether somebody waits on its thread for a connection to its endpoint.
    fn is_wanted(&self, link: &Link) -> bool {
        let shelf = self.shelves.get(&link.endpoint).and_then(|shelves| shelves.get(link.thread));
        shelf.is_some_and(|shelf| !shelf.waiting.is_empty())
    }

    fn shelf(&mut self, endpoint: &Endpoint, thread: usize) -> &mut EndpointConnections {
        if !self.shelves.contains_key(endpoint) {
            self.shelves.insert(endpoint.clone(), Vec::new());
        }
        let Some(shelves) = self.shelves.get_mut(endpoint) else { unreachable!("inserted above") };
        if shelves.len() <= thread {
            shelves.resize_with(thread + 1, EndpointConnections::default);
        }
        match shelves.get_mut(thread) {
            Some(shelf) => shelf,
            None => unreachable!("made above"),
        }
    }

    /// No further calls on it.
    fn retire(&mut self, link: &Link) {
        link.retire();
        let shelf = self.shelf(&link.endpoint, link.thread);
        shelf.kept.retain(|kept| !std::ptr::eq(&*kept.link, link));
        shelf.wake();
        if shelf.kept.is_empty() {
            shelf.wake_warmer();
        }
        self.tidy(&link.endpoint);
    }

    fn learnt(&mut self, endpoint: &Endpoint) -> &mut KeepAlive {
        self.keep_alive.entry(endpoint.clone()).or_default()
    }

    fn connections(&self, endpoint: &Endpoint) -> usize {
        let shelves = self.shelves.get(endpoint).into_iter().flatten();
        shelves.map(|shelf| shelf.kept.len() + usize::from(shelf.dialling)).sum()
    }

    fn wake(&mut self, link: &Link) {
        let shelf = self.shelves.get_mut(&link.endpoint).and_then(|shelves| shelves.get_mut(link.thread));
        shelf.into_iter().for_each(EndpointConnections::wake);
    }

    /// Forgets an endpoint that nobody has to do with.
    fn tidy(&mut self, endpoint: &Endpoint) {
        let unused = |shelf: &EndpointConnections| {
            shelf.kept.is_empty() && !shelf.dialling && shelf.waiting.is_empty() && shelf.warmer.is_none()
        };
        if self.shelves.get(endpoint).is_some_and(|shelves| shelves.iter().all(unused)) {
            self.shelves.remove(endpoint);
        }
    }
}

#[cfg(test)]
impl Http2Pool {
    /// A panic in the middle of a change.
    pub(super) fn break_lock(&self) {
        crate::pool::tests::break_lock(&self.inner);
    }

    pub(super) fn has_shelves(&self, endpoint: &Endpoint) -> bool {
        self.lock().shelves.contains_key(endpoint)
    }

    pub(super) fn dials(&self) -> u64 {
        self.lock().dials
    }

    /// As if this dial of the thread had failed now.
    pub(super) fn fail_dial(&self, endpoint: &Endpoint, dial: u64) {
        self.handle_dialled(endpoint, crate::thread_index(), dial, Err(crate::AcquireError::NotHttp2));
    }
}
