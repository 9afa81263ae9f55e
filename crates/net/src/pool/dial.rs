//! Waits for a connection, and dials one meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::endpoint_pool::{Assignment, IdleConnection};
use super::totals::{count_dial, count_failed_dial};
use super::{
    ConnectionNeed, ConnectionSlot, IdleCheck, Lease, Meter, Pool, PoolSettings, QueueWait, SlotPurpose,
    SlotRequest,
};
use crate::client::{Client, Codec};
use crate::connect::{AcquireError, Dial, DialTimes};
use crate::runtime::is_data_plane;
use crate::transport::Transport;
use crate::{Endpoint, thread_index};

/// A caller that waits for a connection: a returned one, or the one being dialled here, whichever is first. Ready with `None`: the result is not usable, look again.
pub(super) struct ConnectionWait<'p, C: Codec> {
    pool: &'p Arc<Pool<C>>,
    endpoint: &'p Endpoint,
    id: u64,
    need: ConnectionNeed,
    dial: Option<PendingDial<C>>,
    waits: QueueWait,
}

/// A connection that is being made, and counted.
struct PendingDial<C: Codec> {
    stage: DialStage,
    permit: DialPermit<C>,
}

enum DialStage {
    /// The limit over all endpoints is reached.
    Waiting(SlotRequest),
    Dialing(DialFuture),
}

type DialFuture = Pin<Box<dyn Future<Output = DialResult> + Send>>;
type DialResult = Result<(Transport, DialTimes), AcquireError>;

/// The slot of a connection being dialled. Released on failure, or when no caller waits for it any more.
struct DialPermit<C: Codec> {
    pool: Arc<Pool<C>>,
    endpoint: Endpoint,
    /// It has no particular caller.
    spare: bool,
    /// The connection has been made, and has the slot.
    used: bool,
}

impl<'p, C: Codec> ConnectionWait<'p, C> {
    pub(super) fn new(
        pool: &'p Arc<Pool<C>>,
        endpoint: &'p Endpoint,
        id: u64,
        need: ConnectionNeed,
        dials: bool,
    ) -> Self {
        let dial = dials.then(|| PendingDial::new(pool, endpoint));
        Self { pool, endpoint, id, need, dial, waits: QueueWait::default() }
    }

    /// A connection came first.
    fn take(&mut self, idle: IdleConnection<C>, meter: Meter, settings: PoolSettings) -> Option<Lease<C>> {
        if let Some(mut dialling) = self.dial.take() {
            dialling.permit.spare = true;
            // Outside the data plane nothing waits for the rest of a dial: it is given up. So is a dial that has no slot yet.
            if let (true, DialStage::Dialing(dialing)) = (is_data_plane(), dialling.stage) {
                drop(crate::spawn_local(run_spare(dialing, dialling.permit)));
            }
        }
        let idled = Instant::now().saturating_duration_since(idle.since);
        let trusted = idle.thread == thread_index() && settings.trusts(idled, self.need);
        self.pool.use_again(self.endpoint, idle, IdleCheck { idled, allowed: true, trusted, meter })
    }
}

impl<C: Codec> Future for ConnectionWait<'_, C> {
    type Output = Option<Result<Lease<C>, AcquireError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut inner = this.pool.lock();
        let settings = inner.settings;
        let (mut given, mut at_limit) = (Poll::Ready((None, None)), false);
        if let Some(entry) = inner.entries.get_mut(this.endpoint) {
            given = entry.poll_given(this.id, cx).map(|given| (given, entry.meter));
            at_limit = given.is_pending() && this.dial.is_none() && entry.is_held_up(this.id, settings.max);
        }
        drop(inner);
        match given {
            Poll::Ready((Some(Assignment::Connection(idle)), meter)) => {
                return Poll::Ready(this.take(idle, meter, settings).map(Ok));
            }
            // The pool was reset; a caller that dials itself does not need it.
            Poll::Ready((None, _)) if this.dial.is_none() => return Poll::Ready(None),
            Poll::Ready((None, _)) => {}
            Poll::Ready((Some(Assignment::Slot), _)) => {
                this.dial = Some(PendingDial::new(this.pool, this.endpoint))
            }
            Poll::Pending => {}
        }
        let dialled = this.dial.as_mut().map_or(Poll::Pending, |dialling| dialling.poll(cx));
        let Poll::Ready(dialled) = dialled else {
            if !this.dial.as_ref().map_or(at_limit, PendingDial::has_no_place) {
                this.waits.stop();
                return Poll::Pending;
            }
            return this.waits.poll(this.pool.slots.queue(), cx).map(|error| Some(Err(error)));
        };
        let permit = this.dial.take().map(|dialling| dialling.permit);
        Poll::Ready(Some(dialled.map(|(transport, times)| {
            if let Some(permit) = permit {
                permit.settle(&times);
            }
            Lease::new(this.pool, this.endpoint, Box::new(Client::new(transport)), None, Some(times))
        })))
    }
}

impl<C: Codec> Drop for ConnectionWait<'_, C> {
    fn drop(&mut self) {
        // What it was given and did not fetch goes to the next waiter.
        let mut inner = self.pool.lock();
        let (most, max) = (inner.settings.idle, inner.settings.max);
        let closed = inner.entries.get_mut(self.endpoint).and_then(|entry| entry.leave(self.id, most, max));
        inner.sweep_out(self.endpoint);
        drop(inner);
        drop(closed);
    }
}

impl<C: Codec> PendingDial<C> {
    fn new(pool: &Arc<Pool<C>>, endpoint: &Endpoint) -> Self {
        Self {
            stage: DialStage::Waiting(pool.slots.slot_request(SlotPurpose::anywhere(endpoint))),
            permit: DialPermit::new(pool, endpoint, false),
        }
    }

    fn has_no_place(&self) -> bool {
        matches!(self.stage, DialStage::Waiting(_))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<DialResult> {
        if let DialStage::Waiting(slot_request) = &mut self.stage {
            let slot = ready!(slot_request.poll(cx));
            self.stage = DialStage::Dialing(make(&self.permit.pool, &self.permit.endpoint, slot));
        }
        match &mut self.stage {
            DialStage::Dialing(dialing) => dialing.as_mut().poll(cx),
            DialStage::Waiting(_) => Poll::Pending,
        }
    }
}

/// Dials a connection, within the limit of slots.
fn make<C: Codec>(pool: &Arc<Pool<C>>, endpoint: &Endpoint, slot: ConnectionSlot) -> DialFuture {
    let (settings, tls) = pool.dials_with();
    let (to, counting) = (endpoint.clone(), Arc::clone(pool));
    Box::pin(async move {
        let dial = Dial {
            endpoint: &to,
            tls: tls.as_deref(),
            connect_timeout: settings.connect_timeout,
            handshake_timeout: settings.handshake_timeout,
        };
        match dial.run().await {
            Ok((mut transport, times)) => {
                transport.hold(slot);
                Ok((transport, times))
            }
            Err(error) => {
                let metering = &counting.metering;
                count_failed_dial(metering.counts(metering.of(&to)), &error);
                Err(error)
            }
        }
    })
}

/// Dials a connection for no particular caller.
async fn run_spare<C: Codec>(making: DialFuture, permit: DialPermit<C>) {
    match making.await {
        Ok((transport, times)) => permit.keep(transport, &times),
        Err(error) => {
            tracing::debug!(
                name: "spare_connection_failed",
                endpoint = %permit.endpoint, %error, "cannot make a spare connection"
            );
            permit.give_up();
        }
    }
}

/// Dials a connection, already counted, for the idle list, if the limit allows it without closing another.
pub(super) fn spawn_spare<C: Codec>(pool: &Arc<Pool<C>>, endpoint: &Endpoint) {
    let permit = DialPermit::new(pool, endpoint, true);
    match pool.slots.take() {
        Some(slot) => drop(crate::spawn_local(run_spare(make(pool, endpoint, slot), permit))),
        None => permit.give_up(),
    }
}

/// Keeps a connection made elsewhere, unless there are enough.
pub(super) fn keep<C: Codec>(
    pool: &Arc<Pool<C>>,
    endpoint: &Endpoint,
    transport: Transport,
    times: &DialTimes,
) {
    let mut inner = pool.lock();
    let max = inner.settings.max;
    let entry = inner.entry(endpoint, &pool.metering);
    entry.forgotten = false;
    if entry.open >= max {
        return;
    }
    entry.begin_spare();
    drop(inner);
    DialPermit::new(pool, endpoint, true).keep(transport, times);
}

impl<C: Codec> DialPermit<C> {
    fn new(pool: &Arc<Pool<C>>, endpoint: &Endpoint, spare: bool) -> Self {
        Self { pool: Arc::clone(pool), endpoint: endpoint.clone(), spare, used: false }
    }

    /// A connection for the idle list is not made. It is retried later.
    fn give_up(self) {
        let pool = Arc::clone(&self.pool);
        if let Some(entry) = pool.lock().entries.get_mut(&self.endpoint) {
            entry.prewarm.handle_failure(Instant::now());
        }
        drop(self);
        let mut inner = pool.lock();
        let wake = inner.wake_now(thread_index());
        drop(inner);
        pool.wake(wake, thread_index());
    }

    /// The connection is made, for no particular caller.
    fn keep(mut self, transport: Transport, times: &DialTimes) {
        self.used = true;
        let meter = self.pool.lock().entries.get(&self.endpoint).and_then(|entry| entry.meter);
        count_dial(self.pool.metering.counts(meter), times);
        self.pool.put_spare(&self.endpoint, Box::new(Client::new(transport)));
    }

    /// The connection is made, for its waiter.
    fn settle(mut self, times: &DialTimes) {
        self.used = true;
        let mut meter = None;
        if let Some(entry) = self.pool.lock().entries.get_mut(&self.endpoint) {
            meter = entry.meter;
            entry.dialled(self.spare);
        }
        count_dial(self.pool.metering.counts(meter), times);
    }
}

impl<C: Codec> Drop for DialPermit<C> {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let mut inner = self.pool.lock();
        let max = inner.settings.max;
        if let Some(entry) = inner.entries.get_mut(&self.endpoint) {
            entry.end_dial(self.spare, max);
        }
        inner.sweep_out(&self.endpoint);
    }
}
