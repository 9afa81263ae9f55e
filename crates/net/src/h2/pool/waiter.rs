//! A caller that waits for a connection.

use std::task::Waker;

use super::endpoint_connections::EndpointConnections;
use super::{Http2Pool, Http2PoolInner};
use crate::{Endpoint, thread_index};

/// A caller that waits for a connection of its thread. Dropping it ends the wait: a caller that gave up is not counted, and holds up no decision
/// about whose turn it is.
pub(super) struct StreamWaiter<'a> {
    pool: &'a Http2Pool,
    pub(super) endpoint: &'a Endpoint,
    pub(super) thread: usize,
    /// The dial whose failure is also this caller's.
    pub(super) dial: Option<u64>,
    /// Its key among the waiters, once it has waited.
    number: Option<u64>,
}

impl<'a> StreamWaiter<'a> {
    /// A waiter that waits for nothing yet. Call on a data-plane thread.
    pub(super) fn new(pool: &'a Http2Pool, endpoint: &'a Endpoint) -> Self {
        Self { pool, endpoint, thread: thread_index(), dial: None, number: None }
    }

    /// Registers it to be woken when something changes.
    pub(super) fn wait<'i>(
        &mut self,
        inner: &'i mut Http2PoolInner,
        waker: &Waker,
    ) -> &'i mut EndpointConnections {
        let number = *self.number.get_or_insert_with(|| {
            inner.waiters += 1;
            inner.waiters
        });
        let entry = inner.entry(self.endpoint, self.thread);
        entry.waiting.insert(number, Some(waker.clone()));
        entry
    }
}

impl Drop for StreamWaiter<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut inner = self.pool.lock();
        let entries = inner.entries.get_mut(self.endpoint);
        if let Some(entry) = entries.and_then(|entries| entries.get_mut(self.thread)) {
            entry.waiting.remove(&number);
        }
        inner.tidy(self.endpoint);
    }
}
