//! The limit on all connections of an upstream: to every endpoint, of every thread and version of HTTP.
//!
//! * Each connection holds a [`ConnectionSlot`] from before it is made until its socket is closed; it is stored in the [`Transport`](crate::Transport).
//! * Callers without a slot wait in order of arrival ([`SlotRequest`]), and have an idle connection given up for them, the longest idle first ([`IdleOwner`]).
//! * A returned connection without a waiter at its own endpoint is closed for a waiter for a slot. With a waiter at its endpoint it is given to that one, which
//!   costs no handshake; but once in [`TURN`] a slot waiter that has waited that long goes first, so that a busy endpoint never starves another.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::Queue;
use crate::Endpoint;

/// Minimum wait before a connection wanted by others is closed, and minimum interval between two such closes.
const TURN: Duration = Duration::from_millis(100);

/// The slots of the connections to one upstream.
pub(crate) struct ConnectionSlots {
    state: Mutex<SlotState>,
    /// There is a waiter. Set and read under the lock of a pool or before it is taken, so that one of the two sides always sees the other.
    wanted: AtomicBool,
    /// Callers that wait for a connection, because of this limit or of the limit per endpoint.
    queue: Arc<Queue>,
}

struct SlotState {
    most: usize,
    taken: usize,
    /// The oldest first, including those that were given a slot and have not fetched it.
    waiting: VecDeque<SlotWaiter>,
    tickets: u64,
    /// When a connection that others waited for was last closed.
    turned: Option<Instant>,
    givers: Vec<Weak<dyn IdleOwner>>,
}

#[derive(Debug)]
struct SlotWaiter {
    slot_request: u64,
    purpose: SlotPurpose,
    since: Instant,
    waker: Option<Waker>,
    given: bool,
}

/// The purpose of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotPurpose {
    pub(crate) endpoint: Endpoint,
    /// For HTTP/2, whose connections never move.
    pub(crate) thread: Option<usize>,
}

impl SlotPurpose {
    /// On any thread.
    pub(crate) fn anywhere(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone(), thread: None }
    }
}

/// An owner of connections that may be idle.
pub(crate) trait IdleOwner: Send + Sync {
    /// Since when its oldest idle connection has been idle.
    fn idle_since(&self) -> Option<Instant>;

    /// Closes the oldest idle connection. `false`: there is none.
    fn give_one_up(&self) -> bool;
}

impl fmt::Debug for ConnectionSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let waiting = state.waiting.len();
        write!(f, "ConnectionSlots {{ taken: {}, most: {}, waiting: {waiting} }}", state.taken, state.most)
    }
}

/// The right to one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot(Arc<ConnectionSlots>);

/// A request for a slot. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct SlotRequest {
    slots: Arc<ConnectionSlots>,
    purpose: SlotPurpose,
    number: Option<u64>,
    /// Timer for another look at idle connections: an HTTP/2 connection becomes idle without an event.
    again: Option<Pin<Box<Sleep>>>,
}

impl ConnectionSlots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let (waiting, givers) = (VecDeque::new(), Vec::new());
        let state = SlotState { most, taken: 0, waiting, tickets: 0, turned: None, givers };
        Arc::new(Self { state: Mutex::new(state), wanted: AtomicBool::new(false), queue: Arc::default() })
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Registers an owner whose connections hold slots here.
    pub(crate) fn add_giver(&self, giver: Weak<dyn IdleOwner>) {
        self.lock().givers.push(giver);
    }

    /// Changes the limit. With a lower one, idle connections are closed; those in use exceed it until they end.
    pub(crate) fn set_most(&self, most: usize) {
        let excess = {
            let mut state = self.lock();
            state.most = most;
            self.give(&mut state);
            state.taken.saturating_sub(most)
        };
        let _ = (0..excess).all(|_| self.have_one_given_up());
    }

    /// A free slot, without waiting and without taking it from a waiter.
    pub(crate) fn take(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut state = self.lock();
        let free = state.has_room() && !state.is_wanted();
        state.taken += usize::from(free);
        free.then(|| ConnectionSlot(Arc::clone(self)))
    }

    pub(crate) fn slot_request(self: &Arc<Self>, purpose: SlotPurpose) -> SlotRequest {
        SlotRequest { slots: Arc::clone(self), purpose, number: None, again: None }
    }

    /// The number of waiters for this purpose.
    pub(crate) fn waiting(&self, purpose: &SlotPurpose) -> usize {
        self.waiting_for(|| purpose.clone())
    }

    /// The same, cheaper when nobody waits.
    pub(crate) fn waiting_for(&self, purpose: impl Fn() -> SlotPurpose) -> usize {
        if !self.wanted.load(Relaxed) {
            return 0;
        }
        let purpose = purpose();
        self.lock().waiting.iter().filter(|it| !it.given && it.purpose == purpose).count()
    }

    /// Whether a connection of this kind that has become idle should be closed for another waiter. `wanted_there`: others of its kind wait for it. Call under the lock
    /// of its pool.
    pub(crate) fn claims(&self, purpose: impl Fn() -> SlotPurpose, wanted_there: bool, now: Instant) -> bool {
        if !self.wanted.load(Relaxed) {
            return false;
        }
        let (mut state, purpose) = (self.lock(), purpose());
        let mut waiting = state.waiting.iter().filter(|it| !it.given);
        // Threads that share too few connections to one endpoint take turns, too.
        let shares = |it: &SlotWaiter| it.purpose != purpose && it.purpose.endpoint == purpose.endpoint;
        // A waiter with the same purpose gets it, or another returned one.
        let Some(first) = waiting.find(|it| it.purpose != purpose) else { return false };
        if !wanted_there && !shares(first) {
            return true;
        }
        let over = |since: Instant| now.saturating_duration_since(since) >= TURN;
        let claims = over(first.since) && state.turned.is_none_or(over);
        if claims {
            state.turned = Some(now);
        }
        claims
    }

    /// Whether a waiter was given a slot, which it then owns; if not, it is woken when it is.
    fn fetch(&self, slot_request: u64, waker: &Waker) -> bool {
        let mut state = self.lock();
        let Some(at) = state.waiting.iter().position(|it| it.slot_request == slot_request) else {
            return false;
        };
        if let Some(waiter) = state.waiting.get_mut(at).filter(|it| !it.given) {
            waiter.waker = Some(waker.clone());
            return false;
        }
        state.waiting.remove(at);
        true
    }

    fn have_one_given_up(&self) -> bool {
        // Elsewhere their locks are taken before ours.
        let givers = self.lock().givers.clone();
        let givers = givers.iter().filter_map(Weak::upgrade);
        let oldest = givers.filter_map(|it| Some((it.idle_since()?, it))).min_by_key(|(since, _)| *since);
        oldest.is_some_and(|(_, giver)| giver.give_one_up())
    }

    /// Assigns free slots.
    fn give(&self, state: &mut SlotState) {
        while state.has_room()
            && let Some(waiter) = state.waiting.iter_mut().find(|it| !it.given)
        {
            waiter.given = true;
            waiter.waker.take().into_iter().for_each(Waker::wake);
            state.taken += 1;
        }
        self.wanted.store(state.is_wanted(), Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    fn has_room(&self) -> bool {
        self.taken < self.most
    }

    fn is_wanted(&self) -> bool {
        self.waiting.iter().any(|it| !it.given)
    }
}

impl SlotRequest {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionSlot> {
        let number = match self.number {
            Some(number) => number,
            None => match self.slots.take() {
                Some(slot) => return Poll::Ready(slot),
                None => self.queue(),
            },
        };
        loop {
            if self.slots.fetch(number, cx.waker()) {
                self.number = None;
                return Poll::Ready(ConnectionSlot(Arc::clone(&self.slots)));
            }
            ready!(self.poll_again(cx));
            self.slots.have_one_given_up();
        }
    }

    fn queue(&mut self) -> u64 {
        let mut state = self.slots.lock();
        state.tickets += 1;
        let (slot_request, purpose) = (state.tickets, self.purpose.clone());
        state.waiting.push_back(SlotWaiter {
            slot_request,
            purpose,
            since: Instant::now(),
            waker: None,
            given: false,
        });
        // One may have become free since.
        self.slots.give(&mut state);
        self.number = Some(slot_request);
        slot_request
    }

    /// Ready at once, and then periodically.
    fn poll_again(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.again {
            None => self.again = Some(Box::pin(sleep(TURN))),
            Some(timer) => {
                ready!(timer.as_mut().poll(cx));
                timer.as_mut().reset(Instant::now() + TURN);
            }
        }
        Poll::Ready(())
    }
}

impl Drop for SlotRequest {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut state = self.slots.lock();
        let Some(at) = state.waiting.iter().position(|it| it.slot_request == number) else { return };
        let given = state.waiting.remove(at).is_some_and(|waiter| waiter.given);
        state.taken -= usize::from(given);
        self.slots.give(&mut state);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.taken -= 1;
        self.0.give(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn purpose(port: u16) -> SlotPurpose {
        SlotPurpose { endpoint: Endpoint::Tcp(([127, 0, 0, 1], port).into()), thread: None }
    }

    async fn is_pending(slot_request: &mut SlotRequest) -> bool {
        poll_fn(|cx| Poll::Ready(slot_request.poll(cx).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_given_in_order_and_come_back_from_who_gives_up() {
        let slots = ConnectionSlots::new(1);
        let first = slots.take().unwrap();
        assert!(slots.take().is_none());
        let (mut second, mut third) = (slots.slot_request(purpose(1)), slots.slot_request(purpose(2)));
        assert!(is_pending(&mut second).await && is_pending(&mut third).await);
        assert_eq!(slots.waiting(&purpose(1)), 1);
        drop(first);
        assert!(is_pending(&mut third).await, "it is the other's turn");
        // It was given one and does not fetch it.
        drop(second);
        let slot = poll_fn(|cx| third.poll(cx)).await;
        assert!(slots.take().is_none());
        drop(slot);
        drop(slots.take().unwrap());
        assert_eq!(slots.lock().taken, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_endpoint_gives_one_up_now_and_then() {
        let slots = ConnectionSlots::new(1);
        let _first = slots.take().unwrap();
        assert!(!slots.claims(|| purpose(1), false, Instant::now()), "nobody waits");
        let mut other = slots.slot_request(purpose(2));
        assert!(is_pending(&mut other).await);
        assert!(slots.claims(|| purpose(1), false, Instant::now()), "nobody wants it there");
        assert!(!slots.claims(|| purpose(1), true, Instant::now()), "not yet");
        tokio::time::advance(TURN).await;
        assert!(!slots.claims(|| purpose(2), true, Instant::now()), "it would be closed for its own kind");
        assert!(slots.claims(|| purpose(1), true, Instant::now()));
        assert!(!slots.claims(|| purpose(1), true, Instant::now()), "one at a time");
        tokio::time::advance(TURN).await;
        assert!(slots.claims(|| purpose(1), true, Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_higher_limit_lets_those_in_who_wait() {
        let slots = ConnectionSlots::new(0);
        let mut slot_request = slots.slot_request(purpose(1));
        assert!(is_pending(&mut slot_request).await);
        slots.set_most(1);
        let _place = poll_fn(|cx| slot_request.poll(cx)).await;
    }
}
