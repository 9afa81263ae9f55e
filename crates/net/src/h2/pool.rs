//! The connections to one upstream that speak HTTP/2: one for each thread and endpoint, and more where the server takes too few calls on one.
//!
//! A connection is never moved, and never leased: it carries calls of its own thread, side by side. The task that drives it ([`super::driver`]) also watches it while it is idle. The pool
//! has a handle on each connection that may be given calls; without one, a connection ends when its last call has.
//!
//! Only one connection is dialled at a time for a thread and endpoint, by a task of its own: whoever comes meanwhile waits for that one, and whoever goes away leaves it to the
//! others. A new one takes a single call until the server's SETTINGS say how many it takes.
//!
//! With fewer places for connections ([`Places`]) than threads and endpoints, they take turns: a connection that is in use gets no further calls, ends with those it has, and leaves its
//! place to who has waited for one.

mod dial;
mod waiter;
mod warmth;

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use keepwarm_policy::KeepAlive;
use tokio::time::Instant;

use super::link::Link;
use super::settings;
use super::stream::Http2Call;
use crate::pool::{Metering, Place, Places, Seeks, Waits};
use crate::{
    AcquireError, ClientTls, Endpoint, Http1, Need, Pool, PoolSettings, PoolState, PoolTotals, thread_index,
};
use waiter::Waiter;
use warmth::Warmer;

/// The connections to one upstream. Shared by all threads.
#[derive(Debug)]
pub struct Http2Pool {
    inner: Mutex<Inner>,
    metering: Metering,
    /// Takes connections whose server has chosen HTTP/1.1.
    http1: Option<Arc<Pool<Http1>>>,
    pub(super) places: Arc<Places>,
}

#[derive(Debug)]
struct Inner {
    settings: PoolSettings,
    tls: Option<Arc<ClientTls>>,
    /// By endpoint and thread.
    shelves: HashMap<Endpoint, Vec<Shelf>>,
    /// When each endpoint closes idle connections.
    keep_alive: HashMap<Endpoint, KeepAlive>,
    /// Warmers that ever were.
    warmers: u64,
    /// Dials that ever were: a number is never given twice, though the shelves of an endpoint come and go.
    dials: u64,
    /// Waiters that ever were.
    waiters: u64,
}

/// Why there is no place on a connection.
enum NoPlace {
    /// A connection is to be made.
    Short,
    /// One would be, were there not as many as there may be.
    Full,
    /// It comes to something soon.
    Later,
}

/// The connections of one thread to one endpoint.
#[derive(Debug, Default)]
struct Shelf {
    kept: Vec<Kept>,
    dialling: bool,
    /// Which dial is under way, or was last.
    dial: u64,
    /// The last dial failed.
    failure: Option<AcquireError>,
    /// By number: the oldest first.
    waiting: BTreeMap<u64, Waker>,
    /// Who keeps a connection there, whether there are calls or not.
    warmer: Option<Warmer>,
}

/// A connection that may be given calls.
#[derive(Debug)]
struct Kept {
    sender: SendRequest<Bytes>,
    link: Arc<Link>,
}

impl Http2Pool {
    /// An empty one.
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        Self::beside(settings, None, Places::new(settings.max_in_all), Metering::default())
    }

    /// An empty one, whose connections have places among others. Those whose server has chosen HTTP/1.1 go to `http1`.
    pub(crate) fn beside(
        settings: PoolSettings,
        http1: Option<Arc<Pool<Http1>>>,
        places: Arc<Places>,
        metering: Metering,
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
        inner.shelves.values_mut().flatten().for_each(Shelf::wake_warmer);
        drop(inner);
        self.places.set_most(settings.max_in_all);
    }

    /// A place for one call on a connection: one that is there, or a new one. To be called on a data-plane thread.
    ///
    /// [`PoolSettings::max`] bounds connections that are opened beside others: each thread has one in any case. [`PoolSettings::max_in_all`] bounds all.
    ///
    /// # Errors
    /// No connection could be made; [`AcquireError::NotHttp2`]: one could, and its server chose HTTP/1.1.
    pub async fn acquire(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        need: Need,
    ) -> Result<Http2Call, AcquireError> {
        let (mut waiter, mut ticket, mut waits) = (Waiter::new(self, endpoint), None, Waits::default());
        poll_fn(|cx| {
            loop {
                match self.poll_acquire(need, &mut waiter, cx) {
                    Ok(call) => return Poll::Ready(call),
                    Err(NoPlace::Short) => {}
                    Err(NoPlace::Full) => {
                        ticket = None;
                        return waits.poll(self.places.queue(), cx).map(Err);
                    }
                    Err(NoPlace::Later) => {
                        ticket = None;
                        waits.stop();
                        return Poll::Pending;
                    }
                }
                let seeks = || Seeks { endpoint: endpoint.clone(), thread: Some(thread_index()) };
                match ticket.get_or_insert_with(|| self.places.ticket(seeks())).poll(cx) {
                    Poll::Ready(place) => self.dial(endpoint, need, place),
                    Poll::Pending => return waits.poll(self.places.queue(), cx).map(Err),
                }
            }
        })
        .await
    }

    /// The same without waiting: a place on a connection that is there, if one will do.
    pub fn take(self: &Arc<Self>, endpoint: &Endpoint, need: Need) -> Option<Http2Call> {
        let now = Instant::now();
        let mut inner = self.lock();
        let Inner { settings, shelves, keep_alive, .. } = &mut *inner;
        let shelf = shelves.get_mut(endpoint)?.get_mut(thread_index())?;
        let learnt = keep_alive.get(endpoint).copied().unwrap_or_default();
        shelf.drop_worn(settings, now);
        let usable = |kept: &&mut Kept| {
            let link = &kept.link;
            let may_use = |repeatable| learnt.may_use(link.idled(now), repeatable, now.into_std());
            let fits = link.begun() == 0 || (need != Need::New && may_use(need == Need::Any));
            fits && kept.has_room() && link.is_quiet()
        };
        // The fullest, so that those which are needed no more become idle; of idle ones, the newest.
        let place = |kept: &&mut Kept| (kept.link.open(), kept.link.idle_since());
        let kept = shelf.kept.iter_mut().filter(usable).max_by_key(place)?;
        let idle = kept.link.begin_call(now);
        if let Some(idle) = idle {
            self.metering.counts(kept.link.meter).reuse(kept.link.certificate_bytes);
            if let Some(learnt) = keep_alive.get_mut(endpoint) {
                learnt.handle_use(idle, now.into_std());
            }
        }
        Some(Http2Call::new(kept.sender.clone(), Arc::clone(&kept.link), Arc::clone(self), idle))
    }

    /// A place, or why there is none.
    fn poll_acquire(
        self: &Arc<Self>,
        need: Need,
        waiter: &mut Waiter<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Result<Http2Call, AcquireError>, NoPlace> {
        let endpoint = waiter.endpoint;
        if let Some(call) = self.take(endpoint, need) {
            return Ok(Ok(call));
        }
        let mut inner = self.lock();
        let max = inner.settings.max;
        let everywhere = inner.connections(endpoint);
        if let Some(failure) = inner.shelf(endpoint, waiter.thread).failure_of(waiter.dial) {
            return Ok(Err(failure));
        }
        let shelf = waiter.wait(&mut inner, cx.waker());
        if shelf.is_short(need, everywhere, max) {
            return Err(NoPlace::Short);
        }
        if shelf.dialling {
            waiter.dial.get_or_insert(shelf.dial);
        }
        if !shelf.says_nothing(need) {
            // Its task is about to read what it says: that it closes, or nothing of importance.
            cx.waker().wake_by_ref();
        }
        Err(match shelf.is_short(need, 0, usize::MAX) {
            true => NoPlace::Full,
            false => NoPlace::Later,
        })
    }

    /// Makes a connection for this thread, if it is still wanted.
    fn dial(self: &Arc<Self>, endpoint: &Endpoint, need: Need, place: Place) {
        let mut inner = self.lock();
        let max = inner.settings.max;
        let everywhere = inner.connections(endpoint);
        let number = inner.dials + 1;
        let shelf = inner.shelf(endpoint, thread_index());
        if !shelf.is_short(need, everywhere, max) {
            drop(inner);
            return drop(place);
        }
        shelf.dialling = true;
        shelf.dial = number;
        shelf.failure = None;
        inner.dials = number;
        crate::spawn_local(dial::dial(Arc::clone(self), endpoint.clone(), number, place));
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
        let learnt = inner.keep_alive.get(endpoint).and_then(KeepAlive::keeps);
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

    /// A call on a connection that had been idle was answered, or lost without a word.
    pub(super) fn handle_proof(&self, endpoint: &Endpoint, idle: Duration, answered: bool) {
        let now = Instant::now().into_std();
        let mut inner = self.lock();
        match answered {
            // Where nothing was ever lost or closed there is nothing to take back.
            true => drop(inner.keep_alive.get_mut(endpoint).map(|it| it.handle_success(idle, now))),
            false => inner.learnt(endpoint).handle_lost(idle, now),
        }
    }

    /// A call is over.
    pub(super) fn handle_call_end(&self, link: &Link) {
        link.end_call();
        let mut inner = self.lock();
        let seeks = || Seeks { endpoint: link.endpoint.clone(), thread: Some(link.thread) };
        // Those who have been told that there is room on it wait no more, but for a place of their own.
        let wanted = link.open() > 0 || inner.is_wanted(link) || self.places.waiting_for(seeks) > 0;
        let claimed = !link.is_retired() && self.places.claims(seeks, wanted, Instant::now());
        inner.wake(link);
        // In one step: another thread must not give up the same one for somebody else.
        if claimed {
            inner.retire(link);
        }
    }

    /// The server's settings have come.
    pub(super) fn handle_settled(&self, link: &Link) {
        self.lock().wake(link);
    }

    /// The server takes no further streams.
    pub(super) fn handle_goaway(&self, link: &Link) {
        self.learn(link);
        self.retire(link);
    }

    /// No further calls on it.
    pub(super) fn retire(&self, link: &Link) {
        self.lock().retire(link);
    }

    /// The connection is closed.
    pub(super) fn handle_end(&self, link: &Link) {
        if !link.is_retired() {
            self.learn(link);
        }
        self.retire(link);
    }

    /// The server has ended a connection: if that was idle, it shows how long it keeps them.
    fn learn(&self, link: &Link) {
        let now = Instant::now();
        if link.open() == 0 && link.begun() > 0 {
            self.metering.counts(link.meter).closed_idle();
            self.lock().learnt(&link.endpoint).handle_close(link.idled(now), now.into_std());
        }
    }

    /// A dial has ended. Of an endpoint that was forgotten meanwhile, its connection is not kept; who waits there now waits for another dial.
    fn handle_dialled(
        &self,
        endpoint: &Endpoint,
        thread: usize,
        dial: u64,
        dialled: Result<Kept, AcquireError>,
    ) {
        let mut inner = self.lock();
        let shelf = inner.shelves.get_mut(endpoint).and_then(|shelves| shelves.get_mut(thread));
        let Some(shelf) = shelf.filter(|shelf| shelf.dial == dial) else {
            return drop(dialled.map(|kept| kept.link.retire()));
        };
        shelf.dialling = false;
        match dialled {
            Ok(kept) => shelf.kept.push(kept),
            Err(failure) => shelf.failure = Some(failure),
        }
        shelf.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| self.begin_anew(poisoned))
    }

    /// A panic has left the shelves in the middle of a change: the connections get no further calls, and who waits looks again.
    #[cold]
    fn begin_anew<'p>(&'p self, poisoned: PoisonError<MutexGuard<'p, Inner>>) -> MutexGuard<'p, Inner> {
        let mut inner = poisoned.into_inner();
        tracing::error!("a bug in Keepwarm has broken a pool of HTTP/2 connections: it begins anew");
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
        self.handle_dialled(endpoint, thread_index(), dial, Err(AcquireError::NotHttp2));
    }
}

impl Inner {
    /// Whether somebody waits on its thread for a connection to its endpoint.
    fn is_wanted(&self, link: &Link) -> bool {
        let shelf = self.shelves.get(&link.endpoint).and_then(|shelves| shelves.get(link.thread));
        shelf.is_some_and(|shelf| !shelf.waiting.is_empty())
    }

    fn shelf(&mut self, endpoint: &Endpoint, thread: usize) -> &mut Shelf {
        if !self.shelves.contains_key(endpoint) {
            self.shelves.insert(endpoint.clone(), Vec::new());
        }
        let Some(shelves) = self.shelves.get_mut(endpoint) else { unreachable!("inserted above") };
        if shelves.len() <= thread {
            shelves.resize_with(thread + 1, Shelf::default);
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
        shelf.into_iter().for_each(Shelf::wake);
    }

    /// Forgets an endpoint that nobody has to do with.
    fn tidy(&mut self, endpoint: &Endpoint) {
        let unused = |shelf: &Shelf| {
            shelf.kept.is_empty() && !shelf.dialling && shelf.waiting.is_empty() && shelf.warmer.is_none()
        };
        if self.shelves.get(endpoint).is_some_and(|shelves| shelves.iter().all(unused)) {
            self.shelves.remove(endpoint);
        }
    }
}

impl Shelf {
    /// Takes those off that are too old, or have carried enough.
    fn drop_worn(&mut self, settings: &PoolSettings, now: Instant) {
        self.kept.retain(|Kept { link, .. }| {
            let keep = !link.goes_away()
                && link.begun() < settings.max_requests
                && now.saturating_duration_since(link.opened) < settings.max_age;
            if !keep {
                link.retire();
            }
            keep
        });
    }

    /// Whether one is to be made.
    fn is_short(&self, need: Need, everywhere: usize, max: usize) -> bool {
        let full = everywhere >= max && !self.kept.is_empty();
        !self.dialling && !full && self.says_nothing(need) && (need == Need::New || self.is_settled())
    }

    /// Whether it is known of every connection how many calls it takes.
    fn is_settled(&self) -> bool {
        self.kept.iter().all(|kept| kept.link.is_settled())
    }

    /// Whether no idle connection has something to say that may yet make it one to use.
    fn says_nothing(&self, need: Need) -> bool {
        need == Need::New || self.kept.iter().all(|kept| kept.link.is_quiet())
    }

    /// Why the dial that somebody waits for has failed.
    fn failure_of(&self, waits_for: Option<u64>) -> Option<AcquireError> {
        let failure = self.failure.as_ref().filter(|_| waits_for.is_some_and(|dial| dial <= self.dial))?;
        Some(failure.told_again())
    }

    /// Each looks again, and those who find nothing wait once more.
    fn wake(&mut self) {
        std::mem::take(&mut self.waiting).into_values().for_each(Waker::wake);
    }
}

impl Kept {
    fn has_room(&self) -> bool {
        let most = match self.link.is_settled() {
            true => self.sender.current_max_send_streams().min(settings::STREAMS),
            false => 1,
        };
        self.link.open() < most
    }
}
