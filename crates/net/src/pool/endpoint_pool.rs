//! The connections to one endpoint, and the callers that wait for one.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use keepwarm_policy::KeepAlive;
use tokio::time::Instant;

use super::{ConnectionNeed, Meter};
use crate::client::Client;

/// A waiter of another thread goes first once it has waited this long: before that, moving a connection does not pay.
const PATIENCE: Duration = Duration::from_millis(1);

/// The connections to one endpoint: the idle ones, and counts of all.
#[derive(Debug)]
pub(super) struct EndpointPool<C> {
    /// In order of return: the newest is last.
    pub(super) idle: Vec<IdleConnection<C>>,
    /// Idle, in use and being made.
    pub(super) open: usize,
    /// Being made.
    pub(super) dialling: usize,
    /// Being dialled for no particular caller: for the idle list, or by a caller that got another connection meanwhile.
    spare: usize,
    /// In order of arrival, including those that were given something and have not fetched it.
    waiters: VecDeque<ConnectionWaiter<C>>,
    /// Nothing is kept any more.
    pub(super) forgotten: bool,
    /// When this endpoint closes what is idle.
    pub(super) keep_alive: KeepAlive,
    /// Some are made beforehand.
    pub(super) warm: bool,
    pub(super) prewarm: PrewarmState,
    /// The meter of its connections.
    pub(super) meter: Meter,
    /// Since when it has been unused, as far as was seen.
    deserted: Option<Instant>,
}

/// How long the data of an unused endpoint is kept.
const REMEMBER: Duration = Duration::from_secs(10 * 60);

/// An idle connection.
#[derive(Debug)]
pub(super) struct IdleConnection<C> {
    /// In a box: it changes hands twice per use.
    pub(super) client: Box<Client<C>>,
    /// The thread of its reactor.
    pub(super) thread: usize,
    pub(super) since: Instant,
}

/// A caller that waits for a connection.
#[derive(Debug)]
struct ConnectionWaiter<C> {
    id: u64,
    need: ConnectionNeed,
    thread: usize,
    since: Instant,
    waker: Option<Waker>,
    /// It dials one itself.
    dials: bool,
    given: Option<Assignment<C>>,
}

/// What a waiter gets.
#[derive(Debug)]
pub(super) enum Assignment<C> {
    /// One that was returned, or dialled for no particular caller.
    Connection(IdleConnection<C>),
    /// The slot for a new one.
    Slot,
}

/// Connections made beforehand.
#[derive(Debug, Default)]
pub(super) struct PrewarmState {
    failures: u32,
    not_before: Option<Instant>,
}

impl<C> Default for EndpointPool<C> {
    fn default() -> Self {
        Self {
            idle: Vec::new(),
            open: 0,
            dialling: 0,
            spare: 0,
            waiters: VecDeque::new(),
            forgotten: false,
            keep_alive: KeepAlive::default(),
            warm: false,
            prewarm: PrewarmState::default(),
            meter: None,
            deserted: None,
        }
    }
}

impl<C> EndpointPool<C> {
    /// An empty one.
    pub(super) fn counted(meter: Meter) -> Self {
        Self { meter, ..Self::default() }
    }

    /// The newest suitable one of this thread, else the newest of all: if that one is not suitable, none is. One that has been idle too long stays: it may suit another
    /// request, or teach from its close.
    pub(super) fn take(
        &mut self,
        thread: usize,
        need: ConnectionNeed,
        now: Instant,
    ) -> Option<IdleConnection<C>> {
        let Self { idle, keep_alive, .. } = self;
        if let Some(oldest) = idle.first() {
            keep_alive.handle_idle(now.saturating_duration_since(oldest.since));
        }
        let local = idle.iter().rposition(|idle| idle.thread == thread);
        let mut at = local.into_iter().chain(idle.len().checked_sub(1));
        let at = at.find(|at| {
            let idled = idle.get(*at).map(|idle| now.saturating_duration_since(idle.since));
            idled.is_some_and(|idled| keep_alive.may_use(idled, need == ConnectionNeed::Any, now.into_std()))
        })?;
        let taken = idle.remove(at);
        keep_alive.handle_use(now.saturating_duration_since(taken.since), now.into_std());
        Some(taken)
    }

    /// Keeps a connection, or gives it to a waiter; returns the one to close in exchange, if there are `most` already.
    pub(super) fn put(&mut self, idle: IdleConnection<C>, most: usize) -> Option<Box<Client<C>>> {
        if let Some(at) = self.next_waiter(idle.thread, idle.since)
            && let Some(waiter) = self.waiters.get_mut(at)
        {
            waiter.give(Assignment::Connection(idle));
            return None;
        }
        if self.waiters.iter().any(|it| it.waits_for_place()) {
            // For a new one, which needs its slot.
            return Some(idle.client);
        }
        self.idle.push(idle);
        (self.idle.len() > most).then(|| self.idle.remove(0).client)
    }

    /// The waiter that should get a connection of that thread: the oldest, or the oldest of the thread itself as long as no other has waited for long.
    fn next_waiter(&self, thread: usize, now: Instant) -> Option<usize> {
        let mut takers = self
            .waiters
            .iter()
            .enumerate()
            .filter(|(_, it)| it.given.is_none() && it.need != ConnectionNeed::New);
        let (oldest, waiter) = takers.next()?;
        if waiter.thread == thread || now.saturating_duration_since(waiter.since) >= PATIENCE {
            return Some(oldest);
        }
        Some(takers.find(|(_, it)| it.thread == thread).map_or(oldest, |(at, _)| at))
    }

    /// The one that has been idle longest.
    pub(super) fn take_oldest(&mut self) -> Option<Box<Client<C>>> {
        (!self.idle.is_empty()).then(|| self.idle.remove(0).client)
    }

    /// Whether a waiter would take a returned connection.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiters.iter().any(|it| it.given.is_none() && it.need != ConnectionNeed::New)
    }

    /// Whether a waiter would not.
    pub(super) fn wants_new(&self) -> bool {
        self.waiters.iter().any(|it| it.given.is_none() && it.need == ConnectionNeed::New)
    }

    /// Adds a waiter. Returns whether it should dial itself: only if the spare dials do not suffice, and there is room.
    pub(super) fn wait(
        &mut self,
        id: u64,
        need: ConnectionNeed,
        thread: usize,
        now: Instant,
        max: usize,
    ) -> bool {
        self.forgotten = false;
        let dials = (need == ConnectionNeed::New || self.spare() <= self.queued()) && self.make_room(max);
        if dials {
            self.begin_dial();
        }
        self.waiters.push_back(ConnectionWaiter {
            id,
            need,
            thread,
            since: now,
            waker: None,
            dials,
            given: None,
        });
        dials
    }

    /// Whether one more is allowed. An idle one was not suitable for the caller, and makes room.
    fn make_room(&mut self, max: usize) -> bool {
        if self.open >= max && !self.idle.is_empty() {
            self.idle.remove(0);
            self.open = self.open.saturating_sub(1);
        }
        self.open < max
    }

    /// Waiters that depend on others to make or return a connection.
    fn queued(&self) -> usize {
        self.waiters.iter().filter(|it| it.waits_for_place() && it.need != ConnectionNeed::New).count()
    }

    /// Whether a waiter is held up by the limit, and not by a dial in progress.
    pub(super) fn is_held_up(&self, id: u64, max: usize) -> bool {
        let before = self.waiters.iter().take_while(|it| it.id != id);
        self.open >= max && before.filter(|it| it.waits_for_place()).count() >= self.spare()
    }

    /// Dials in progress that will serve the next waiter.
    fn spare(&self) -> usize {
        self.spare + self.waiters.iter().filter(|it| it.given.is_some() && it.dials).count()
    }

    /// All waiters.
    pub(super) fn waiting(&self) -> usize {
        self.waiters.iter().filter(|it| it.given.is_none()).count()
    }

    /// Whether it is empty, unused and forgotten.
    pub(super) fn is_over(&self) -> bool {
        self.forgotten && self.is_deserted()
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.open == 0 && self.waiters.is_empty()
    }

    /// The same, or that it has been unused for so long that its data may be dropped.
    pub(super) fn is_stale(&mut self, now: Instant) -> bool {
        if !self.is_deserted() || self.warm {
            self.deserted = None;
            return false;
        }
        let since = *self.deserted.get_or_insert(now);
        self.forgotten || now.saturating_duration_since(since) >= REMEMBER
    }

    /// Drops all connections, and has all waiters look again; what was learnt of the endpoint is kept.
    pub(super) fn begin_anew(&mut self) {
        self.waiters.iter_mut().filter_map(|it| it.waker.take()).for_each(Waker::wake);
        self.waiters.clear();
        self.idle.clear();
        (self.open, self.dialling, self.spare) = (0, 0, 0);
    }

    /// What a waiter was given; `None`: it is no longer among the waiters (see [`Self::begin_anew`]).
    pub(super) fn poll_given(&mut self, id: u64, cx: &mut Context<'_>) -> Poll<Option<Assignment<C>>> {
        let Some(at) = self.waiters.iter().position(|it| it.id == id) else { return Poll::Ready(None) };
        let Some(waiter) = self.waiters.get_mut(at) else { return Poll::Ready(None) };
        match waiter.given.take() {
            Some(Assignment::Slot) => {
                waiter.dials = true;
                Poll::Ready(Some(Assignment::Slot))
            }
            Some(given) => {
                // Its own dial becomes a spare.
                self.spare += usize::from(waiter.dials);
                self.waiters.remove(at);
                Poll::Ready(Some(given))
            }
            None => {
                waiter.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// A waiter leaves, with or without its own connection; what it was given and did not fetch goes to others. Returns a connection to close, if any.
    pub(super) fn leave(&mut self, id: u64, most: usize, max: usize) -> Option<Box<Client<C>>> {
        let at = self.waiters.iter().position(|it| it.id == id)?;
        match self.waiters.remove(at)?.given? {
            Assignment::Connection(idle) if self.forgotten => {
                self.left(max);
                Some(idle.client)
            }
            Assignment::Connection(idle) => {
                let closed = self.put(idle, most);
                if closed.is_some() {
                    self.left(max);
                }
                closed
            }
            Assignment::Slot => {
                self.end_dial(false, max);
                None
            }
        }
    }

    /// A request got its response on a connection that had been idle, or (`None`) was new. The response may `state` for how many seconds a connection is kept.
    pub(super) fn handle_responded(&mut self, stated: Option<u64>, idle: Option<Duration>, now: Instant) {
        self.prewarm.handle_success();
        self.keep_alive.handle_header(stated.map(Duration::from_secs));
        if let Some(idle) = idle {
            self.keep_alive.handle_success(idle, now.into_std());
        }
    }

    /// A dial begins.
    fn begin_dial(&mut self) {
        self.open += 1;
        self.dialling += 1;
    }

    /// A dial for no particular caller begins.
    pub(super) fn begin_spare(&mut self) {
        self.begin_dial();
        self.spare += 1;
    }

    /// The dial succeeded: the connection is open.
    pub(super) fn dialled(&mut self, spare: bool) {
        self.dialling = self.dialling.saturating_sub(1);
        self.spare = self.spare.saturating_sub(usize::from(spare));
    }

    /// The dial failed.
    pub(super) fn end_dial(&mut self, spare: bool, max: usize) {
        self.dialled(spare);
        self.left(max);
    }

    /// A connection was closed, or not made: its slot goes to a waiter for one, unless a spare dial will serve it.
    pub(super) fn left(&mut self, max: usize) {
        self.open = self.open.saturating_sub(1);
        if self.open >= max {
            return;
        }
        let enough = self.spare() >= self.queued();
        let next = self
            .waiters
            .iter_mut()
            .find(|it| it.waits_for_place() && (it.need == ConnectionNeed::New || !enough));
        if let Some(waiter) = next {
            waiter.give(Assignment::Slot);
            self.begin_dial();
        }
    }

    /// Takes the idle ones, to be closed, and keeps no more.
    pub(super) fn forget(&mut self, max: usize) -> Vec<IdleConnection<C>> {
        (self.forgotten, self.warm) = (true, false);
        let idle = std::mem::take(&mut self.idle);
        idle.iter().for_each(|_| self.left(max));
        idle
    }

    /// How many to dial now so that `least` usable ones are idle; or when to look again.
    pub(super) fn lacks(&self, least: usize, max: usize, now: Instant) -> (usize, Option<Instant>) {
        if least == 0 || !self.warm {
            return (0, None);
        }
        let limit = self.keep_alive.limit().unwrap_or(Duration::MAX);
        let ends = self.idle.iter().filter_map(|idle| idle.since.checked_add(limit));
        let over = ends.clone().filter(|end| *end <= now).count();
        let usable = self.idle.len().saturating_sub(over) + self.spare().saturating_sub(self.queued());
        let lack = least.saturating_sub(usable).min(max.saturating_sub(self.open));
        match self.prewarm.not_before {
            Some(at) if lack > 0 && at > now => (0, Some(at)),
            _ => (lack, ends.filter(|end| *end > now).min()),
        }
    }
}

impl<C> ConnectionWaiter<C> {
    /// It does not dial itself, and has been given nothing.
    fn waits_for_place(&self) -> bool {
        self.given.is_none() && !self.dials
    }

    fn give(&mut self, given: Assignment<C>) {
        self.given = Some(given);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl PrewarmState {
    /// A connection was made, and lasts.
    pub(super) fn handle_success(&mut self) {
        *self = Self::default();
    }

    /// The dial failed: the next is delayed, by half a minute at most. Nobody waits for it. Dials that begin together fail together: one failure.
    pub(super) fn handle_failure(&mut self, now: Instant) {
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.not_before = now.checked_add(warm_again(self.failures));
        self.failures += 1;
    }
}

/// A prewarmed connection that closes within this time is a failure, too: a server that closes each at once must not be called in a loop.
pub(crate) const SHORT_LIFE: Duration = Duration::from_secs(1);

/// The delay before the next prewarming dial, after this many failures in a row.
pub(crate) fn warm_again(failures: u32) -> Duration {
    Duration::from_millis(250).saturating_mul(1 << failures.min(7))
}
