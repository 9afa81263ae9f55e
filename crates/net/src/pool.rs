//! Connections kept for the next request, for one protocol and one origin: an app's workers, an upstream's endpoints.
//!
//! * **Which.** The newest idle connection of the caller's own thread first (it is warm, and the old ones may end), then one of another thread, then a new one.
//!   A socket stays on the reactor of its thread, and using it from another would cost two wake-ups a message: a connection taken by another thread moves
//!   there.
//! * **While one is being dialled** another may be returned: the first is used, and the other is for the next. So there are never more connections than
//!   requests in flight at once, and nobody waits for a handshake that is no longer needed.
//! * **Watching.** A task on each thread with idle connections is woken by their events, nearly always closes: so a close is
//!   learnt at once, and from closes the endpoint's idle timeout ([`KeepAlive`]). A connection in use wakes only its user.
//! * **The limit over all endpoints** ([`slots`]): a dial needs a slot first.
//! * A [`Lease`] that is dropped closes its connection; [`Lease::finish`] returns it if it can be used again.
//!
//! # The race between watcher and taker
//!
//! A server closes an idle connection while a caller takes it. Idle connections are on an idle list under the pool's lock. Each of these steps runs under that lock or touches no shared state:
//!
//! | actor | step | under the lock |
//! |---|---|---|
//! | taker | takes the newest off its idle list, or starts to wait | yes |
//! | taker | looks at the socket: uses the connection if it is quiet | no: it owns it |
//! | taker | otherwise reports that it is gone, and learns from a close | yes |
//! | returner | registers the watcher for its events, and then puts the connection on the idle list, or gives it to a waiter | yes |
//! | watcher | removes those with an event, learns from closes, and registers with the rest | yes |
//!
//! What holds in every order:
//!
//! 1. A connection has one owner: the idle list, a taker, the watcher. The actor that takes it off the idle list owns it from then on, and counted
//!    slots equal owned connections.
//! 2. A connection closed before a taker looked is not used. A close after that look is met by the call, which knows that its connection had been idle.
//! 3. A close that is seen while a connection is idle is learnt once, by the actor that sees it.
//! 4. A connection that is closed while on the idle list does not stay there: the watcher is registered with its socket before it can be found, so that a close before, during or after wakes it.
//! 5. A waiter gets the next returned connection, or the slot of a lost one: nobody waits while there is either.
//!
//! The tests in `model` run the steps in every possible order, those in `stress` many callers against unreliable servers.

mod dial;
mod endpoint_pool;
mod lease;
#[cfg(test)]
mod model;
mod queue;
mod settings;
mod slots;
#[cfg(test)]
mod stress;
#[cfg(test)]
pub(crate) mod tests;
mod totals;
mod watcher;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{Client, Codec, IdleState};
use crate::connect::{AcquireError, DialTimes};
use crate::tls::ClientTls;
use crate::transport::Transport;
use crate::{Endpoint, thread_index};
use dial::ConnectionWait;
use endpoint_pool::{EndpointPool, IdleConnection};
pub(crate) use endpoint_pool::{SHORT_LIFE, warm_again};
pub use lease::Lease;
pub(crate) use queue::QueueWait;
pub use queue::{Queue, QueueGuard};
pub use settings::{ConnectionNeed, PoolSettings};
pub(crate) use slots::{ConnectionSlot, ConnectionSlots, IdleOwner, SlotPurpose, SlotRequest};
pub use totals::{EndpointMeter, PoolState, PoolTotals};
pub(crate) use totals::{Meter, PoolCounters, count_dial, count_failed_dial};

/// The connections to one origin. Shared by all threads.
#[derive(Debug)]
pub struct Pool<C> {
    inner: Mutex<PoolInner<C>>,
    metering: PoolCounters,
    slots: Arc<ConnectionSlots>,
}

#[derive(Debug)]
struct PoolInner<C> {
    settings: PoolSettings,
    tls: Option<Arc<ClientTls>>,
    /// In order: there are few, and to compare costs less than to hash.
    entries: BTreeMap<Endpoint, EndpointPool<C>>,
    /// By thread.
    watchers: BTreeMap<usize, watcher::ThreadWatcher>,
    waiters: u64,
}

/// The result of a look at the idle list.
enum IdleLookup<'p, C: Codec> {
    Lease(Lease<C>),
    Wait(ConnectionWait<'p, C>),
    Nothing,
}

/// How an idle connection was found.
#[derive(Debug, Clone, Copy)]
struct IdleCheck {
    idled: Duration,
    /// It may carry one more request.
    allowed: bool,
    /// It needs no check (see [`PoolSettings::trusts`]).
    trusted: bool,
    /// Its meter.
    meter: Meter,
}

impl<C: Codec> Pool<C> {
    /// An empty pool.
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        Self::within(settings, ConnectionSlots::new(settings.max_in_all), PoolCounters::default())
    }

    /// An empty pool that shares slots with others.
    pub(crate) fn within(
        settings: PoolSettings,
        slots: Arc<ConnectionSlots>,
        metering: PoolCounters,
    ) -> Arc<Self> {
        let inner = PoolInner {
            settings,
            tls: None,
            entries: BTreeMap::new(),
            watchers: BTreeMap::new(),
            waiters: 0,
        };
        let pool = Arc::new(Self { inner: Mutex::new(inner), metering, slots });
        let giver = Arc::downgrade(&pool);
        pool.slots.add_giver(giver);
        pool
    }

    /// Changes the settings from now on.
    pub fn set_settings(&self, settings: PoolSettings) {
        let mut inner = self.lock();
        inner.settings = settings;
        inner.watchers.values().for_each(watcher::ThreadWatcher::wake);
        drop(inner);
        self.slots.set_most(settings.max_in_all);
    }

    /// The queue of callers that wait for a connection because of a limit.
    pub fn queue(&self) -> &Arc<Queue> {
        self.slots.queue()
    }

    /// Changes the TLS settings of new connections. Open ones stay open.
    pub fn set_tls(&self, tls: Option<Arc<ClientTls>>) {
        self.lock().tls = tls;
    }

    /// The settings for new connections.
    pub fn dials_with(&self) -> (PoolSettings, Option<Arc<ClientTls>>) {
        let inner = self.lock();
        (inner.settings, inner.tls.clone())
    }

    /// A connection: a kept or a new one; waits while the limit is reached. Call on a data-plane thread.
    ///
    /// # Errors
    /// The dial failed.
    pub async fn acquire(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        need: ConnectionNeed,
    ) -> Result<Lease<C>, AcquireError> {
        loop {
            match self.find(endpoint, need, true) {
                IdleLookup::Lease(lease) => return Ok(lease),
                IdleLookup::Wait(wait) => {
                    if let Some(result) = wait.await {
                        return result;
                    }
                }
                IdleLookup::Nothing => {}
            }
        }
    }

    /// A kept connection that meets `need`.
    pub fn take(self: &Arc<Self>, endpoint: &Endpoint, need: ConnectionNeed) -> Option<Lease<C>> {
        match self.find(endpoint, need, false) {
            IdleLookup::Lease(lease) => Some(lease),
            IdleLookup::Wait(_) | IdleLookup::Nothing => None,
        }
    }

    /// A kept connection; without one, and if the caller `waits`, a [`ConnectionWait`]. No event is missed between the two.
    fn find<'p>(
        self: &'p Arc<Self>,
        endpoint: &'p Endpoint,
        need: ConnectionNeed,
        waits: bool,
    ) -> IdleLookup<'p, C> {
        let (now, thread) = (Instant::now(), thread_index());
        loop {
            let mut inner = self.lock();
            let settings = inner.settings;
            let Some((idle, wake, meter)) = inner.pop(endpoint, need, thread, now) else {
                if !waits {
                    return IdleLookup::Nothing;
                }
                let surplus = inner.make_room_at_server(endpoint);
                let (id, dials) = inner.wait(endpoint, &self.metering, need, thread, now);
                drop(inner);
                drop(surplus);
                return IdleLookup::Wait(ConnectionWait::new(self, endpoint, id, need, dials));
            };
            drop(inner);
            self.wake(wake, thread);
            let idled = now.saturating_duration_since(idle.since);
            let allowed = settings.allows(&idle.client, now);
            let trusted = idle.thread == thread && settings.trusts(idled, need);
            if let Some(lease) = self.use_again(endpoint, idle, IdleCheck { idled, allowed, trusted, meter })
            {
                return IdleLookup::Lease(lease);
            }
        }
    }

    /// Checks one taken off the idle list; `None`: it is closed, or expired.
    fn use_again(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        mut idle: IdleConnection<C>,
        IdleCheck { idled, allowed, trusted, meter }: IdleCheck,
    ) -> Option<Lease<C>> {
        let state = if trusted { idle.client.heard_of(Waker::noop()) } else { idle.client.look() };
        if allowed && state == IdleState::Quiet {
            if idle.thread != thread_index() {
                idle.client.leave_thread();
            }
            // The first use did not save the handshake, whichever caller waited for it.
            if idle.client.requests() > 0 {
                let facts = idle.client.transport().handshake();
                self.metering.counts(meter).reuse(facts.map(|facts| facts.certificate_bytes));
            }
            return Some(Lease::new(self, endpoint, idle.client, Some(idled), None));
        }
        let mut inner = self.lock();
        if let Some(entry) = inner.entries.get_mut(endpoint).filter(|_| state == IdleState::Closed) {
            entry.keep_alive.handle_close(idled, Instant::now().into_std());
            self.metering.counts(meter).closed_idle();
        }
        inner.left(endpoint);
        drop(inner);
        None
    }

    /// Keeps a new connection that was made elsewhere (see [`crate::Dial`]), unless there are enough. Call on a data-plane thread.
    pub fn keep(self: &Arc<Self>, endpoint: &Endpoint, transport: Transport, times: &DialTimes) {
        dial::keep(self, endpoint, transport, times);
    }

    /// Keeps [`PoolSettings::min_idle`] connections to an endpoint from now on, until it is forgotten. Call on a data-plane thread.
    pub fn warm(self: &Arc<Self>, endpoint: &Endpoint) {
        let thread = thread_index();
        let mut inner = self.lock();
        let entry = inner.entry(endpoint, &self.metering);
        (entry.forgotten, entry.warm) = (false, true);
        let wake = inner.wake_now(thread);
        drop(inner);
        self.wake(wake, thread);
    }

    /// Closes idle connections to an endpoint that is gone or about to be. Connections in use close when their request ends.
    pub fn forget(&self, endpoint: &Endpoint) {
        let mut inner = self.lock();
        let max = inner.settings.max;
        let entries = inner.entries.iter_mut().filter(|(at, _)| at.server() == endpoint);
        let closed: Vec<_> = entries.flat_map(|(_, entry)| entry.forget(max)).collect();
        inner.entries.retain(|at, entry| at.server() != endpoint || !entry.is_over());
        drop(inner);
        drop(closed);
    }

    /// Idle connections to an endpoint, and all of them, including those in use.
    pub fn count(&self, endpoint: &Endpoint) -> (usize, usize) {
        self.lock().count(endpoint)
    }

    /// The connections to an endpoint, or (`None`) to all.
    pub fn state(&self, endpoint: Option<&Endpoint>) -> PoolState {
        let inner = self.lock();
        let mut state = PoolState::default();
        for (at, entry) in inner.entries.iter().filter(|(at, _)| endpoint.is_none_or(|it| it == at.server()))
        {
            state.idle += entry.idle.len();
            // A dial without a slot has not begun.
            state.dialling += entry.dialling.saturating_sub(self.slots.waiting(&SlotPurpose::anywhere(at)));
            state.in_use += entry.open.saturating_sub(entry.idle.len() + entry.dialling);
            state.waiting += entry.waiting();
        }
        state
    }

    /// Totals so far; zero where a meter counts (see [`crate::Calls::metered`]).
    pub fn totals(&self) -> PoolTotals {
        self.metering.totals()
    }

    /// Counts a request that was lost on a connection closed meanwhile ([`Lease::idle`] is some, and its response
    /// [`crate::ClientError::NoResponse`]), and whether it was retried. The pool learns from the lease itself.
    pub fn count_lost(&self, endpoint: &Endpoint, retried: bool) {
        self.metering.counts(self.metering.of(endpoint)).lost(retried);
    }

    /// How long a connection to an endpoint may be idle and still be used, as far as that is known.
    pub fn idle_limit(&self, endpoint: &Endpoint) -> Option<Duration> {
        self.lock().entries.get(endpoint)?.keep_alive.limit()
    }

    /// Takes a connection back.
    fn put_back(self: &Arc<Self>, endpoint: &Endpoint, client: Box<Client<C>>, idle: Option<Duration>) {
        self.put(endpoint, client, idle, false);
    }

    /// Keeps a connection that was dialled for no particular caller. Leaving the dials and joining the idle list is one step: a caller that looked
    /// between the two would find neither, and dial one too many.
    fn put_spare(self: &Arc<Self>, endpoint: &Endpoint, client: Box<Client<C>>) {
        self.put(endpoint, client, None, true);
    }

    fn put(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        mut client: Box<Client<C>>,
        idle: Option<Duration>,
        was_spare: bool,
    ) {
        let (now, thread) = (Instant::now(), thread_index());
        client.rest();
        let mut inner = self.lock();
        let (settings, waker) = (inner.settings, inner.watcher(thread));
        // Registers the watcher, without waking it. A connection that is not quiet now was closed with the response, and teaches nothing.
        let quiet = client.heard_of(waker.as_ref().unwrap_or(Waker::noop())) == IdleState::Quiet;
        let closed = match inner.entries.get_mut(endpoint) {
            None => Some(client),
            Some(entry) => {
                if was_spare {
                    entry.dialled(true);
                }
                entry.handle_responded(client.codec().keep_alive_timeout(), idle, now);
                let purpose = || SlotPurpose::anywhere(endpoint);
                let claimed = || {
                    self.slots.claims(purpose, entry.is_wanted(), now)
                        || (entry.wants_new() && self.slots.waiting_for(purpose) > 0)
                };
                match quiet && settings.allows(&client, now) && !entry.forgotten && !claimed() {
                    true => entry.put(IdleConnection { client, thread, since: now }, settings.idle),
                    false => Some(client),
                }
            }
        };
        if closed.is_some() {
            inner.left(endpoint);
        }
        let surplus = inner.close_surplus(endpoint);
        let wake = inner.watch(thread, now);
        drop(inner);
        drop((closed, surplus));
        self.wake(wake, thread);
    }

    fn wake(self: &Arc<Self>, wake: watcher::WatcherWake, thread: usize) {
        match wake {
            watcher::WatcherWake::Nobody => {}
            watcher::WatcherWake::Watcher(waker) => waker.wake(),
            watcher::WatcherWake::Start => {
                drop(crate::spawn_local(watcher::run(Arc::downgrade(self), thread)))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolInner<C>> {
        self.inner.lock().unwrap_or_else(|poisoned| self.begin_anew(poisoned))
    }

    /// A panic left the entries in the middle of a change: counts and assignments are unreliable. Idle connections are closed, and
    /// waiters look again. Connections in use are no longer counted, so that there may be more than `max` until they end.
    #[cold]
    fn begin_anew<'p>(
        &'p self,
        poisoned: PoisonError<MutexGuard<'p, PoolInner<C>>>,
    ) -> MutexGuard<'p, PoolInner<C>> {
        let mut inner = poisoned.into_inner();
        tracing::error!(name: "pool_reset", "a bug in Keepwarm broke a pool of connections; pool reset");
        inner.entries.values_mut().for_each(EndpointPool::begin_anew);
        self.inner.clear_poison();
        inner
    }
}

impl<C: Codec> IdleOwner for Pool<C> {
    fn idle_since(&self) -> Option<Instant> {
        self.lock().oldest_idle().map(|(_, since)| since)
    }

    fn give_one_up(&self) -> bool {
        let mut inner = self.lock();
        let Some((endpoint, _)) = inner.oldest_idle() else { return false };
        let endpoint = endpoint.clone();
        let closed = inner.entries.get_mut(&endpoint).and_then(EndpointPool::take_oldest);
        inner.left(&endpoint);
        drop(inner);
        closed.is_some()
    }
}

impl<C> Drop for Pool<C> {
    /// The watchers end.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.watchers.values().for_each(watcher::ThreadWatcher::wake);
    }
}

impl<C: Codec> PoolInner<C> {
    /// Takes a suitable connection off its idle list, if it is still quiet and not expired.
    fn pop(
        &mut self,
        endpoint: &Endpoint,
        need: ConnectionNeed,
        thread: usize,
        now: Instant,
    ) -> Option<(IdleConnection<C>, watcher::WatcherWake, Meter)> {
        if need == ConnectionNeed::New {
            return None;
        }
        let settings = self.settings;
        let entry = self.entries.get_mut(endpoint)?;
        let idle = entry.take(thread, need, now)?;
        let lacks = settings.min_idle > 0 && entry.lacks(settings.kept(), settings.max, now).0 > 0;
        let meter = entry.meter;
        let wake = if lacks { self.wake_now(thread) } else { watcher::WatcherWake::Nobody };
        Some((idle, wake, meter))
    }

    /// The wait of a caller that found nothing, and whether it dials itself.
    fn wait(
        &mut self,
        endpoint: &Endpoint,
        metering: &PoolCounters,
        need: ConnectionNeed,
        thread: usize,
        now: Instant,
    ) -> (u64, bool) {
        self.waiters += 1;
        let (number, max) = (self.waiters, self.settings.max);
        let entry = self.entry(endpoint, metering);
        (number, entry.wait(number, need, thread, now, max))
    }

    fn entry(&mut self, endpoint: &Endpoint, metering: &PoolCounters) -> &mut EndpointPool<C> {
        let empty = || EndpointPool::counted(metering.of(endpoint));
        self.entries.entry(endpoint.clone()).or_insert_with(empty)
    }

    /// A connection has been closed.
    fn left(&mut self, endpoint: &Endpoint) {
        let max = self.settings.max;
        if let Some(entry) = self.entries.get_mut(endpoint) {
            entry.left(max);
        }
        self.sweep_out(endpoint);
    }

    /// Idle connections to a server, and all of them, for any client.
    fn count(&self, server: &Endpoint) -> (usize, usize) {
        let entries = self.entries.iter().filter(|(at, _)| at.server() == server);
        entries.fold((0, 0), |(idle, open), (_, entry)| (idle + entry.idle.len(), open + entry.open))
    }

    /// Before one more connection to a server, where each belongs to a client: the limit is the server's, and an idle connection of another client makes room.
    fn make_room_at_server(&mut self, endpoint: &Endpoint) -> Option<Box<Client<C>>> {
        let has_room = !endpoint.is_proxied() || self.count(endpoint.server()).1 < self.settings.max;
        if has_room { None } else { self.take_oldest_of_server(endpoint.server()) }
    }

    /// After a return, where each connection belongs to a client: the limit of idle ones is the server's, too.
    fn close_surplus(&mut self, endpoint: &Endpoint) -> Option<Box<Client<C>>> {
        let fits = !endpoint.is_proxied()
            || self.entries.len() <= self.settings.idle
            || self.count(endpoint.server()).0 <= self.settings.idle;
        if fits { None } else { self.take_oldest_of_server(endpoint.server()) }
    }

    fn take_oldest_of_server(&mut self, server: &Endpoint) -> Option<Box<Client<C>>> {
        let entries = self.entries.iter().filter(|(at, _)| at.server() == server);
        let oldest = entries.filter_map(|(at, entry)| Some((at, entry.idle.first()?.since)));
        let endpoint = oldest.min_by_key(|(_, since)| *since)?.0.clone();
        let closed = self.entries.get_mut(&endpoint).and_then(EndpointPool::take_oldest);
        self.left(&endpoint);
        closed
    }

    fn oldest_idle(&self) -> Option<(&Endpoint, Instant)> {
        let oldest = |(at, entry): (_, &EndpointPool<C>)| Some((at, entry.idle.first()?.since));
        self.entries.iter().filter_map(oldest).min_by_key(|(_, since)| *since)
    }

    /// Drops the data of a removed endpoint with its last connection; and that of a client, who may never come again.
    fn sweep_out(&mut self, endpoint: &Endpoint) {
        let is_over = |entry: &EndpointPool<C>| match endpoint.is_proxied() {
            true => entry.is_deserted(),
            false => entry.is_over(),
        };
        if self.entries.get(endpoint).is_some_and(is_over) {
            self.entries.remove(endpoint);
        }
    }
}
