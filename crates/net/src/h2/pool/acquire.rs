//! A slot for a call: on an existing connection, or on a new one.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::endpoint_connections::PooledConnection;
use super::waiter::StreamWaiter;
use super::{Http2Pool, Http2PoolInner};
use crate::h2::stream::Http2Call;
use crate::pool::{QueueWait, SlotPurpose};
use crate::{AcquireError, ConnectionNeed, Endpoint, thread_index};

/// Why there is no slot on a connection.
enum SlotError {
    /// A new connection is needed.
    Short,
    /// A new connection is needed, but the limit is reached.
    Full,
    /// The server allows no stream, on two connections.
    Shut,
    /// An event is pending that may soon provide one.
    Later,
}

impl Http2Pool {
    /// A slot for one call: on an existing connection, or a new one. Call on a data-plane thread.
    ///
    /// [`PoolSettings::max`](crate::PoolSettings::max) bounds additional connections: each thread has one in any case. [`PoolSettings::max_in_all`](crate::PoolSettings::max_in_all) bounds all.
    ///
    /// # Errors
    /// The connection failed; [`AcquireError::NotHttp2`]: it succeeded, and its server chose HTTP/1.1.
    pub async fn acquire(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        need: ConnectionNeed,
    ) -> Result<Http2Call, AcquireError> {
        let (mut waiter, mut slot_request, mut waits) =
            (StreamWaiter::new(self, endpoint), None, QueueWait::default());
        poll_fn(|cx| {
            loop {
                match self.poll_acquire(need, &mut waiter, cx) {
                    Ok(call) => return Poll::Ready(call),
                    Err(SlotError::Short) => {}
                    Err(SlotError::Full) => {
                        slot_request = None;
                        return waits.poll(self.slots.queue(), cx).map(Err);
                    }
                    Err(SlotError::Shut) => {
                        slot_request = None;
                        return waits.poll(self.slots.queue(), cx).map(|over| Err(over.without_streams()));
                    }
                    Err(SlotError::Later) => {
                        slot_request = None;
                        waits.stop();
                        return Poll::Pending;
                    }
                }
                let purpose = || SlotPurpose { endpoint: endpoint.clone(), thread: Some(thread_index()) };
                match slot_request.get_or_insert_with(|| self.slots.slot_request(purpose())).poll(cx) {
                    Poll::Ready(slot) => self.dial(endpoint, need, slot),
                    Poll::Pending => return waits.poll(self.slots.queue(), cx).map(Err),
                }
            }
        })
        .await
    }

    /// The same without waiting: a slot on an existing connection that meets `need`.
    pub fn take(self: &Arc<Self>, endpoint: &Endpoint, need: ConnectionNeed) -> Option<Http2Call> {
        let now = Instant::now();
        let mut inner = self.lock();
        let Http2PoolInner { settings, entries, keep_alive, .. } = &mut *inner;
        let entry = entries.get_mut(endpoint)?.get_mut(thread_index())?;
        let learnt = keep_alive.get(endpoint.server()).copied().unwrap_or_default();
        entry.drop_worn(settings, now);
        let usable = |kept: &&mut PooledConnection| {
            let link = &kept.link;
            let may_use = |repeatable| learnt.may_use(link.idled(now), repeatable, now.into_std());
            let fits =
                link.begun() == 0 || (need != ConnectionNeed::New && may_use(need == ConnectionNeed::Any));
            fits && kept.has_room() && link.is_quiet()
        };
        // The fullest, so that surplus connections become idle; of idle ones, the newest.
        let slot = |kept: &&mut PooledConnection| (kept.link.open(), kept.link.idle_since());
        let kept = entry.kept.iter_mut().filter(usable).max_by_key(slot)?;
        let idle = kept.link.begin_call(now);
        if let Some(idle) = idle {
            self.metering.counts(kept.link.meter).reuse(kept.link.certificate_bytes);
            if let Some(learnt) = keep_alive.get_mut(endpoint.server()) {
                learnt.handle_use(idle, now.into_std());
            }
        }
        Some(Http2Call::new(kept.sender.clone(), Arc::clone(&kept.link), Arc::clone(self), idle))
    }

    /// A slot, or why there is none.
    fn poll_acquire(
        self: &Arc<Self>,
        need: ConnectionNeed,
        waiter: &mut StreamWaiter<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Result<Http2Call, AcquireError>, SlotError> {
        let endpoint = waiter.endpoint;
        if let Some(call) = self.take(endpoint, need) {
            return Ok(Ok(call));
        }
        let mut inner = self.lock();
        let max = inner.settings.max;
        let everywhere = inner.connections(endpoint);
        if let Some(failure) = inner.entry(endpoint, waiter.thread).failure_of(waiter.dial) {
            return Ok(Err(failure));
        }
        let entry = waiter.wait(&mut inner, cx.waker());
        let made = usize::from(everywhere >= max && !entry.dialling && entry.make_room());
        if entry.is_short(need, everywhere - made, max) {
            return Err(SlotError::Short);
        }
        if entry.dialling {
            waiter.dial.get_or_insert(entry.dial);
        }
        if !entry.says_nothing(need) {
            // Its task reads the pending event, a close or nothing of importance: soon, or when the socket takes what must be written first.
            entry.kept.iter().filter(|kept| !kept.link.is_quiet()).for_each(|kept| kept.link.expect());
        }
        Err(match entry.is_short(need, 0, usize::MAX) {
            true => SlotError::Full,
            false if entry.waits_for_server() && !entry.dialling => SlotError::Shut,
            false => SlotError::Later,
        })
    }
}
