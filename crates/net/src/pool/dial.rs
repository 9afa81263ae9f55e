//! Waiting for a connection, and making one meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::shelf::{Given, Idle};
use super::{Lease, Pool, Taken};
use crate::client::{Client, Codec};
use crate::connect::{AcquireError, Dial, DialTimes};
use crate::runtime::is_data_plane;
use crate::transport::Transport;
use crate::{Endpoint, thread_index};

/// Somebody who waits for a connection: for one that comes back, or the one being made here, whichever is first. Ready with `None`: what came is no good, look again.
pub(super) struct Seat<'p, C: Codec> {
    pool: &'p Arc<Pool<C>>,
    endpoint: &'p Endpoint,
    id: u64,
    dial: Option<Dialling<C>>,
}

/// A connection that is being made, and counted.
struct Dialling<C: Codec> {
    dial: Pin<Box<dyn Future<Output = Dialled> + Send>>,
    permit: Permit<C>,
}

type Dialled = Result<(Transport, DialTimes), AcquireError>;

/// The place of a connection that is being made. Given back when that fails, or when nobody waits for it any more.
struct Permit<C: Codec> {
    pool: Arc<Pool<C>>,
    endpoint: Endpoint,
    /// It is for nobody in particular.
    spare: bool,
    /// The connection has been made, and has the place.
    used: bool,
}

impl<'p, C: Codec> Seat<'p, C> {
    pub(super) fn new(pool: &'p Arc<Pool<C>>, endpoint: &'p Endpoint, id: u64, dials: bool) -> Self {
        let dial = dials.then(|| Dialling::new(pool, endpoint, false));
        Self { pool, endpoint, id, dial }
    }

    /// A connection came first.
    fn take(&mut self, idle: Idle<C>) -> Option<Lease<C>> {
        if let Some(mut dialling) = self.dial.take() {
            dialling.permit.spare = true;
            // Elsewhere than on the data plane nothing waits for what it leaves: it is given up.
            if is_data_plane() {
                drop(tokio::task::spawn_local(dialling.run_spare()));
            }
        }
        let now = Instant::now();
        let idled = now.saturating_duration_since(idle.since);
        self.pool.use_again(self.endpoint, idle, Taken { idled, allowed: true, trusted: false })
    }
}

impl<C: Codec> Future for Seat<'_, C> {
    type Output = Option<Result<Lease<C>, AcquireError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let given = match this.pool.lock().shelves.get_mut(this.endpoint) {
            Some(shelf) => shelf.poll_given(this.id, cx),
            None => Poll::Pending,
        };
        match given {
            Poll::Ready(Given::Connection(idle)) => return Poll::Ready(this.take(idle).map(Ok)),
            Poll::Ready(Given::Place) => this.dial = Some(Dialling::new(this.pool, this.endpoint, false)),
            Poll::Pending => {}
        }
        let Some(dialling) = &mut this.dial else { return Poll::Pending };
        let dialled = ready!(dialling.dial.as_mut().poll(cx));
        let permit = this.dial.take().map(|dialling| dialling.permit);
        Poll::Ready(Some(dialled.map(|(transport, times)| {
            if let Some(permit) = permit {
                permit.settle(&times);
            }
            Lease::new(this.pool, this.endpoint, Box::new(Client::new(transport)), None, Some(times))
        })))
    }
}

impl<C: Codec> Drop for Seat<'_, C> {
    fn drop(&mut self) {
        // What it was given and did not fetch is for the next.
        let mut inner = self.pool.lock();
        let (most, max) = (inner.settings.idle, inner.settings.max);
        let closed = inner.shelves.get_mut(self.endpoint).and_then(|shelf| shelf.leave(self.id, most, max));
        inner.sweep_out(self.endpoint);
        drop(inner);
        drop(closed);
    }
}

impl<C: Codec> Dialling<C> {
    fn new(pool: &Arc<Pool<C>>, endpoint: &Endpoint, spare: bool) -> Self {
        let (settings, tls) = pool.dials_with();
        let (to, counting) = (endpoint.clone(), Arc::clone(pool));
        let dial = Box::pin(async move {
            let dial = Dial {
                endpoint: &to,
                tls: tls.as_deref(),
                connect_timeout: settings.connect_timeout,
                handshake_timeout: settings.handshake_timeout,
            };
            let dialled = dial.run().await;
            if let Err(error) = &dialled {
                counting.counts.dial_failed(error);
            }
            dialled
        });
        let permit = Permit { pool: Arc::clone(pool), endpoint: endpoint.clone(), spare, used: false };
        Self { dial, permit }
    }

    /// Makes a connection for nobody in particular.
    async fn run_spare(self) {
        let Self { dial, permit } = self;
        let (pool, endpoint) = (Arc::clone(&permit.pool), permit.endpoint.clone());
        match dial.await {
            Ok((transport, times)) => {
                permit.settle(&times);
                if let Some(shelf) = pool.lock().shelves.get_mut(&endpoint) {
                    shelf.warmth.handle_success();
                }
                pool.put_back(&endpoint, Box::new(Client::new(transport)), None);
            }
            Err(error) => {
                tracing::debug!(%endpoint, %error, "a connection that was to be kept could not be made");
                if let Some(shelf) = pool.lock().shelves.get_mut(&endpoint) {
                    shelf.warmth.handle_failure(Instant::now());
                }
                drop(permit);
                // So that it is tried again in time.
                let mut inner = pool.lock();
                let wake = inner.wake_now(thread_index());
                drop(inner);
                pool.wake(wake, thread_index());
            }
        }
    }
}

/// Makes a connection that has been counted already, for the shelf.
pub(super) fn spawn_spare<C: Codec>(pool: &Arc<Pool<C>>, endpoint: &Endpoint) {
    drop(tokio::task::spawn_local(Dialling::new(pool, endpoint, true).run_spare()));
}

/// Keeps a connection that was made elsewhere, unless there are enough.
pub(super) fn keep<C: Codec>(
    pool: &Arc<Pool<C>>,
    endpoint: &Endpoint,
    transport: Transport,
    times: &DialTimes,
) {
    let mut inner = pool.lock();
    let max = inner.settings.max;
    let shelf = inner.shelves.entry(endpoint.clone()).or_default();
    shelf.forgotten = false;
    if shelf.open >= max {
        return;
    }
    shelf.begin_spare();
    drop(inner);
    let permit = Permit { pool: Arc::clone(pool), endpoint: endpoint.clone(), spare: true, used: false };
    permit.settle(times);
    pool.put_back(endpoint, Box::new(Client::new(transport)), None);
}

impl<C: Codec> Permit<C> {
    /// The connection has been made.
    fn settle(mut self, times: &DialTimes) {
        self.used = true;
        self.pool.counts.dial(times);
        if let Some(shelf) = self.pool.lock().shelves.get_mut(&self.endpoint) {
            shelf.dialled(self.spare);
        }
    }
}

impl<C: Codec> Drop for Permit<C> {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let mut inner = self.pool.lock();
        let max = inner.settings.max;
        if let Some(shelf) = inner.shelves.get_mut(&self.endpoint) {
            shelf.end_dial(self.spare, max);
        }
        inner.sweep_out(&self.endpoint);
    }
}
