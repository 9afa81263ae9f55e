//! The connections to one endpoint.

use std::collections::VecDeque;
use std::task::Waker;

use tokio::time::Instant;

use crate::client::Client;

/// The connections to one endpoint: those that lie idle, and how many there are.
#[derive(Debug)]
pub(super) struct Shelf<C> {
    /// In the order they came back: the newest is the last.
    pub(super) idle: Vec<Idle<C>>,
    /// Idle, in use and being made.
    pub(super) open: usize,
    /// Those who wait for one, the oldest first.
    waiting: VecDeque<Waker>,
    /// Nothing is kept any more.
    pub(super) forgotten: bool,
}

/// An idle connection.
#[derive(Debug)]
pub(super) struct Idle<C> {
    pub(super) client: Box<Client<C>>,
    /// On whose reactor it is.
    pub(super) thread: usize,
    pub(super) since: Instant,
}

impl<C> Default for Shelf<C> {
    fn default() -> Self {
        Self { idle: Vec::new(), open: 0, waiting: VecDeque::new(), forgotten: false }
    }
}

impl<C> Shelf<C> {
    /// The newest of this thread, else the newest of another.
    pub(super) fn take(&mut self, thread: usize) -> Option<Idle<C>> {
        match self.idle.iter().rposition(|idle| idle.thread == thread) {
            Some(at) => Some(self.idle.remove(at)),
            None => self.idle.pop(),
        }
    }

    /// Undoes a take: the order is by age.
    pub(super) fn put_back(&mut self, idle: Idle<C>) {
        let at = self.idle.partition_point(|other| other.since <= idle.since);
        self.idle.insert(at, idle);
    }

    /// Keeps a connection; gives the one that is to be closed for it, if there are `most` already.
    pub(super) fn put(&mut self, idle: Idle<C>, most: usize) -> Option<Box<Client<C>>> {
        self.idle.push(idle);
        self.wake_waiting();
        (self.idle.len() > most).then(|| self.idle.remove(0).client)
    }

    /// Closes the oldest idle one and hands its place to the caller.
    pub(super) fn close_oldest(&mut self) -> bool {
        if self.idle.is_empty() {
            return false;
        }
        self.idle.remove(0);
        true
    }

    /// A connection was closed, or not made.
    pub(super) fn left(&mut self) {
        self.open = self.open.saturating_sub(1);
        self.wake_waiting();
    }

    /// Closes the idle ones, and keeps no more.
    pub(super) fn forget(&mut self) {
        self.forgotten = true;
        self.open = self.open.saturating_sub(self.idle.len());
        self.idle.clear();
        self.waiting.drain(..).for_each(Waker::wake);
    }

    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            self.waiting.push_back(waker.clone());
        }
    }

    /// Each looks again, and those who find nothing wait once more. Were only one woken, it might have gone, and what it leaves be forgotten.
    fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}
