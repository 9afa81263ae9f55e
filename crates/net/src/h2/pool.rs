//! The connections to one upstream that speak HTTP/2: one for each thread and endpoint, and more if the server accepts too few calls on one.
//!
//! A connection is never moved, and never leased: it carries calls of its own thread, side by side. The task that drives it ([`super::driver`]) also watches it while it is idle. The pool
//! has a handle on each connection that may be given calls; without it, a connection ends with its last call.
//!
//! Only one connection is dialled at a time for a thread and endpoint, by its own task: later callers wait for the same one, and a caller that gives up leaves it to the
//! others. A new connection takes a single call until the server's SETTINGS state its limit.
//!
//! With fewer slots ([`ConnectionSlots`]) than threads and endpoints, they take turns: a connection in use gets no further calls, ends with those it has, and leaves its
//! slot to a waiter.

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

/// How long a connection that belongs to one client ([`Endpoint::Proxied`]) may be idle: there is one for each client and thread, and most clients do not come again.
/// This number is arbitrary.
const CLIENTS_IDLE: Duration = Duration::from_secs(10);

/// The connections to one upstream. Shared by all threads.
#[derive(Debug)]
pub struct Http2Pool {
    inner: Mutex<Http2PoolInner>,
    metering: PoolCounters,
    /// Takes connections whose server has chosen HTTP/1.1.
    http1: Option<Arc<Pool<Http1>>>,
    pub(super) slots: Arc<ConnectionSlots>,
}

#[derive(Debug)]
struct Http2PoolInner {
    settings: PoolSettings,
    tls: Option<Arc<ClientTls>>,
    /// By endpoint and thread.
    entries: HashMap<Endpoint, Vec<EndpointConnections>>,
    /// When each endpoint closes idle connections.
    keep_alive: HashMap<Endpoint, KeepAlive>,
    /// Warmers so far.
    warmers: u64,
    /// Dials so far: numbers are never reused, though the entries of an endpoint come and go.
    dials: u64,
    /// Waiters so far.
    waiters: u64,
}

impl Http2Pool {
    /// An empty pool.
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        Self::beside(settings, None, ConnectionSlots::new(settings.max_in_all), PoolCounters::default())
    }

    /// An empty pool that shares slots with others. Connections whose server chose HTTP/1.1 go to `http1`.
    pub(crate) fn beside(
        settings: PoolSettings,
        http1: Option<Arc<Pool<Http1>>>,
        slots: Arc<ConnectionSlots>,
        metering: PoolCounters,
    ) -> Arc<Self> {
        let (entries, keep_alive) = (HashMap::new(), HashMap::new());
        let inner =
            Http2PoolInner { settings, tls: None, entries, keep_alive, warmers: 0, dials: 0, waiters: 0 };
        let pool = Arc::new(Self { inner: Mutex::new(inner), metering, http1, slots });
        let giver = Arc::downgrade(&pool);
        pool.slots.add_giver(giver);
        pool
    }

    /// Changes the TLS settings of new connections. Open ones stay open.
    pub fn set_tls(&self, tls: Option<Arc<ClientTls>>) {
        self.lock().tls = tls;
    }

    /// Changes the settings from now on.
    pub fn set_settings(&self, settings: PoolSettings) {
        let mut inner = self.lock();
        inner.settings = settings;
        inner.entries.values_mut().flatten().for_each(EndpointConnections::wake_warmer);
        drop(inner);
        self.slots.set_most(settings.max_in_all);
    }

    /// Gives no further calls to an endpoint's connections. They end when their calls have.
    pub fn forget(&self, endpoint: &Endpoint) {
        let entries: Vec<_> = {
            let mut inner = self.lock();
            inner.keep_alive.remove(endpoint);
            inner.entries.extract_if(|at, _| at.server() == endpoint).collect()
        };
        for mut entry in entries.into_iter().flat_map(|(_, entries)| entries) {
            entry.wake_warmer();
            entry.kept.iter().for_each(|kept| kept.link.retire());
            entry.wake();
        }
    }

    /// Usable connections to an endpoint, and calls on them.
    pub fn count(&self, endpoint: &Endpoint) -> (usize, usize) {
        let inner = self.lock();
        let entries = inner.entries.iter().filter(|(at, _)| at.server() == endpoint);
        let kept = entries.flat_map(|(_, entries)| entries).flat_map(|entry| &entry.kept);
        kept.fold((0, 0), |(connections, calls), kept| (connections + 1, calls + kept.link.open()))
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.lock().settings.connect_timeout
    }

    /// How long a connection to an endpoint may stay idle.
    pub(super) fn idle_limit(&self, endpoint: &Endpoint) -> Duration {
        let inner = self.lock();
        let learnt = inner.keep_alive.get(endpoint.server()).and_then(KeepAlive::keep_for);
        let most = if endpoint.is_proxied() { CLIENTS_IDLE } else { Duration::MAX };
        inner.settings.idle_timeout.min(most).min(learnt.unwrap_or(Duration::MAX))
    }

    /// The connections to an endpoint, or (`None`) to all, by state.
    pub fn state(&self, endpoint: Option<&Endpoint>) -> PoolState {
        let inner = self.lock();
        let mut state = PoolState::default();
        let entries = inner.entries.iter().filter(|(at, _)| endpoint.is_none_or(|it| it == at.server()));
        for entry in entries.flat_map(|(_, entries)| entries) {
            let in_use = entry.kept.iter().filter(|kept| kept.link.open() > 0).count();
            state.in_use += in_use;
            state.idle += entry.kept.len() - in_use;
            state.dialling += usize::from(entry.dialling);
            state.waiting += entry.waiting.len();
        }
        state
    }

    /// Totals so far.
    pub fn totals(&self) -> PoolTotals {
        self.metering.totals()
    }

    fn lock(&self) -> MutexGuard<'_, Http2PoolInner> {
        self.inner.lock().unwrap_or_else(|poisoned| self.begin_anew(poisoned))
    }

    /// A panic left the entries in the middle of a change: their connections get no further calls, and waiters look again.
    #[cold]
    fn begin_anew<'p>(
        &'p self,
        poisoned: PoisonError<MutexGuard<'p, Http2PoolInner>>,
    ) -> MutexGuard<'p, Http2PoolInner> {
        let mut inner = poisoned.into_inner();
        tracing::error!(
            name: "pool_reset",
            "a bug in Keepwarm broke a pool of HTTP/2 connections; pool reset"
        );
        for entry in inner.entries.values_mut().flatten() {
            entry.kept.drain(..).for_each(|kept| kept.link.retire());
            (entry.dialling, entry.failure) = (false, None);
            entry.wake();
            entry.wake_warmer();
        }
        self.inner.clear_poison();
        inner
    }
}

impl Http2PoolInner {
    /// Whether a caller on its thread waits for a connection to its endpoint.
    fn is_wanted(&self, link: &Link) -> bool {
        let entry = self.entries.get(&link.endpoint).and_then(|entries| entries.get(link.thread));
        entry.is_some_and(|entry| !entry.waiting.is_empty())
    }

    fn entry(&mut self, endpoint: &Endpoint, thread: usize) -> &mut EndpointConnections {
        if !self.entries.contains_key(endpoint) {
            self.entries.insert(endpoint.clone(), Vec::new());
        }
        let Some(entries) = self.entries.get_mut(endpoint) else { unreachable!("inserted above") };
        if entries.len() <= thread {
            entries.resize_with(thread + 1, EndpointConnections::default);
        }
        match entries.get_mut(thread) {
            Some(entry) => entry,
            None => unreachable!("made above"),
        }
    }

    /// Gives it no further calls.
    fn retire(&mut self, link: &Link) {
        link.retire();
        let entry = self.entry(&link.endpoint, link.thread);
        entry.kept.retain(|kept| !std::ptr::eq(&*kept.link, link));
        entry.wake();
        if entry.kept.is_empty() {
            entry.wake_warmer();
        }
        self.tidy(&link.endpoint);
    }

    fn learnt(&mut self, endpoint: &Endpoint) -> &mut KeepAlive {
        self.keep_alive.entry(endpoint.server().clone()).or_default()
    }

    fn connections(&self, endpoint: &Endpoint) -> usize {
        let entries = self.entries.get(endpoint).into_iter().flatten();
        entries.map(|entry| entry.kept.len() + usize::from(entry.dialling)).sum()
    }

    fn wake(&mut self, link: &Link) {
        let entry = self.entries.get_mut(&link.endpoint).and_then(|entries| entries.get_mut(link.thread));
        entry.into_iter().for_each(EndpointConnections::wake);
    }

    /// Forgets an endpoint that is unused.
    fn tidy(&mut self, endpoint: &Endpoint) {
        let unused = |entry: &EndpointConnections| {
            entry.kept.is_empty() && !entry.dialling && entry.waiting.is_empty() && entry.warmer.is_none()
        };
        if self.entries.get(endpoint).is_some_and(|entries| entries.iter().all(unused)) {
            self.entries.remove(endpoint);
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
        self.lock().entries.contains_key(endpoint)
    }

    pub(super) fn dials(&self) -> u64 {
        self.lock().dials
    }

    /// As if this dial of the thread had failed now.
    pub(super) fn fail_dial(&self, endpoint: &Endpoint, dial: u64) {
        self.handle_dialled(endpoint, crate::thread_index(), dial, Err(crate::AcquireError::NotHttp2));
    }
}
