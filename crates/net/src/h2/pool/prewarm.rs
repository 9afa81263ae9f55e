//! Connections without a call: made beforehand, and given up for others.

use std::future::poll_fn;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::endpoint_connections::EndpointConnections;
use super::waiter::StreamWaiter;
use super::{Http2Pool, Http2PoolInner};
use crate::h2::link::Link;
use crate::pool::IdleOwner;
use crate::{AcquireError, ConnectionNeed, Endpoint, thread_index};

/// A task that makes connections beforehand: see [`Http2Pool::begin_warmth`].
#[derive(Debug)]
pub(super) struct PrewarmTask {
    number: u64,
    waker: Option<Waker>,
}

impl Http2Pool {
    /// Registers a task that keeps a connection of this thread to an endpoint; `None`: there already is one. Call on a data-plane thread.
    pub(crate) fn begin_warmth(&self, endpoint: &Endpoint) -> Option<u64> {
        let mut inner = self.lock();
        inner.warmers += 1;
        let number = inner.warmers;
        let entry = inner.entry(endpoint, thread_index());
        if entry.warmer.is_some() {
            return None;
        }
        entry.warmer = Some(PrewarmTask { number, waker: None });
        Some(number)
    }

    /// Ends that task's registration.
    pub(crate) fn end_warmth(&self, endpoint: &Endpoint, number: u64) {
        let mut inner = self.lock();
        inner.entry(endpoint, thread_index()).warmer.take_if(|warmer| warmer.number == number);
        inner.tidy(endpoint);
    }

    /// Whether the task should continue: the endpoint exists, and the settings ask for it. If not, the registration has ended.
    pub(crate) fn is_warmed(&self, endpoint: &Endpoint, number: u64) -> bool {
        let mut inner = self.lock();
        let wanted = inner.settings.min_idle > 0;
        let entry = inner.entries.get_mut(endpoint).and_then(|entries| entries.get_mut(thread_index()));
        let Some(entry) = entry else { return false };
        let ours = entry.warmer.as_ref().is_some_and(|warmer| warmer.number == number);
        if ours && !wanted {
            entry.warmer = None;
            inner.tidy(endpoint);
        }
        ours && wanted
    }

    /// Waits until this thread has no connection to an endpoint, or no longer needs one.
    pub(crate) fn poll_lost(pool: &Weak<Self>, endpoint: &Endpoint, cx: &mut Context<'_>) -> Poll<()> {
        let Some(pool) = pool.upgrade() else { return Poll::Ready(()) };
        let mut inner = pool.lock();
        let wanted = inner.settings.min_idle > 0;
        let entry = inner.entries.get_mut(endpoint).and_then(|entries| entries.get_mut(thread_index()));
        let Some(entry) = entry.filter(|entry| wanted && !entry.kept.is_empty()) else {
            return Poll::Ready(());
        };
        let Some(warmer) = &mut entry.warmer else { return Poll::Ready(()) };
        warmer.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ensures a connection of this thread to an endpoint, without a call: an existing or a new one. `false`: the limit over all endpoints is reached.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub(crate) async fn warm_up(self: &Arc<Self>, endpoint: &Endpoint) -> Result<bool, AcquireError> {
        let mut waiter = StreamWaiter::new(self, endpoint);
        poll_fn(|cx| {
            let mut inner = self.lock();
            let next_dial = inner.dials + 1;
            let entry = inner.entry(endpoint, thread_index());
            if !entry.kept.is_empty() {
                return Poll::Ready(Ok(true));
            }
            if let Some(failure) = entry.failure_of(waiter.dial) {
                return Poll::Ready(Err(failure));
            }
            let entry = waiter.wait(&mut inner, cx.waker());
            if entry.dialling {
                waiter.dial.get_or_insert(entry.dial);
                return Poll::Pending;
            }
            waiter.dial = Some(next_dial);
            drop(inner);
            let Some(slot) = self.slots.take() else { return Poll::Ready(Ok(false)) };
            self.dial(endpoint, ConnectionNeed::Any, slot);
            Poll::Pending
        })
        .await
    }
}

impl Drop for Http2Pool {
    /// The prewarming task ends.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.entries.values_mut().flatten().for_each(EndpointConnections::wake_warmer);
    }
}

impl IdleOwner for Http2Pool {
    fn idle_since(&self) -> Option<Instant> {
        Some(self.lock().oldest_idle()?.idle_since())
    }

    fn give_one_up(&self) -> bool {
        let mut inner = self.lock();
        // It ends at once, as it has no call. Finding and retiring it is one step, so that no other thread gives up the same, or begins a call on it.
        let oldest = inner.oldest_idle().map(Arc::clone);
        oldest.inspect(|link| inner.retire(link)).is_some()
    }
}

impl Http2PoolInner {
    fn oldest_idle(&self) -> Option<&Arc<Link>> {
        let kept = self.entries.values().flatten().flat_map(|entry| &entry.kept);
        kept.map(|kept| &kept.link).filter(|link| link.open() == 0).min_by_key(|link| link.idle_since())
    }
}

impl EndpointConnections {
    pub(super) fn wake_warmer(&mut self) {
        let waker = self.warmer.as_mut().and_then(|warmer| warmer.waker.take());
        waker.into_iter().for_each(Waker::wake);
    }
}
