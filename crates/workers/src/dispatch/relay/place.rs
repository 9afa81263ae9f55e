//! The places of a server: waiting for one, having one, giving it back.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use keepwarm_net::{Endpoint, Wait, thread_index};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::app::{App, Overload};
use super::super::call::{Call, Item};
use super::super::link::Link;
use super::super::queue::Job;
use super::{Dialect, Relay};
use crate::supervisor::{Addresses, LinkEvent, WorkerLink};

/// A worker that listens by itself.
#[derive(Debug)]
pub(in crate::dispatch) struct Server {
    pub(super) addresses: Addresses,
    /// Where it answers, once it does.
    endpoint: OnceLock<Endpoint>,
    /// Something asks for a look at its health, or it has gone.
    pub(super) look: Notify,
}

impl Server {
    pub(in crate::dispatch) fn new(addresses: Addresses) -> Self {
        Self { addresses, endpoint: OnceLock::new(), look: Notify::new() }
    }

    pub(super) fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    pub(super) fn found_at(&self, endpoint: Endpoint) {
        // It is found once.
        let _ = self.endpoint.set(endpoint);
    }

    /// Nothing will be asked of it any more: kept connections are closed.
    pub(in crate::dispatch) fn forget(&self, app: Option<&Arc<App>>) {
        if let (Some(app), Some(endpoint)) = (app, self.endpoint()) {
            app.servers.forget(endpoint);
        }
    }
}

/// A server as the supervisor holds it: dropped when its process has been reaped.
pub(in crate::dispatch) struct ServerLink(pub(in crate::dispatch) Arc<Link>);

impl WorkerLink for ServerLink {
    fn retire(&self) {
        self.0.retire();
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Link {
    /// Gives a place to a request, for which the caller has taken it.
    pub(in crate::dispatch) fn offer(self: &Arc<Self>, call: &Arc<Call>) {
        let mut inner = self.lock();
        if inner.dead {
            drop(inner);
            return call.put(Item::Lost { unprocessed: true });
        }
        inner.places = inner.places.wrapping_add(1);
        let place = inner.places;
        if !call.give_to(self, place) {
            // Its client left between the queue and here.
            drop(inner);
            return self.free_place();
        }
        inner.calls.insert(place, Arc::clone(call));
        drop(inner);
        call.begin_work();
        call.wake();
    }

    fn free_place(self: &Arc<Self>) {
        if let Some(app) = self.app.upgrade() {
            app.place_is_free(self);
        }
    }

    /// It takes no requests any more; those it has find out by themselves.
    pub(super) fn leave(self: &Arc<Self>) {
        let app = self.app.upgrade();
        if let Some(app) = &app {
            app.remove(self);
        }
        drop(self.die());
        if let Some(server) = &self.server {
            server.forget(app.as_ref());
            server.look.notify_one();
        }
    }

    /// It does not accept connections any more: its process is expected to end.
    pub(super) fn refuses(self: &Arc<Self>, reason: String) {
        let was_dead = self.lock().dead;
        self.leave();
        if !was_dead {
            self.report(LinkEvent::Closed { worker: self.key.clone(), reason });
        }
    }
}

/// A place that a request has. Dropped, it is free.
pub(super) struct Place {
    pub(super) link: Arc<Link>,
    number: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        let was_there = self.link.lock().calls.remove(&self.number).is_some();
        if was_there {
            self.link.free_place();
        }
    }
}

impl<C: Dialect> Relay<'_, '_, C> {
    /// Waits until a worker has a place. `None`: the request was answered, or its client has gone.
    pub(super) async fn wait_for_place(&mut self) -> Option<Place> {
        if !self.submit() {
            return None;
        }
        let place = poll_fn(|cx| {
            loop {
                if let Some((link, number)) = self.call.given() {
                    return Poll::Ready(Some(Place { link, number }));
                }
                match self.call.poll_item(cx) {
                    Poll::Ready(Item::Refused(reason)) => {
                        self.refuse_failed(&reason);
                        return Poll::Ready(None);
                    }
                    // The worker had gone before it could be given to it.
                    Poll::Ready(_) if !self.submit() => return Poll::Ready(None),
                    Poll::Ready(_) => {}
                    Poll::Pending if self.call.given().is_some() => {}
                    Poll::Pending => break,
                }
            }
            if let Poll::Ready(gone) = self.exchange.poll_gone(cx) {
                self.exchange.abort(gone.name());
                return Poll::Ready(None);
            }
            if self.exchange.deadlines().poll_passed(Wait::Answer, cx) {
                self.fail_later(503, "queue_timeout", "No worker was free in time.", 1);
                return Poll::Ready(None);
            }
            Poll::Pending
        });
        let place = place.await;
        self.exchange.deadlines().set(Wait::Answer, None);
        place
    }

    /// Takes a place, or joins the queue. `false`: it was refused, and answered.
    fn submit(&mut self) -> bool {
        let again = self.given > 0;
        self.given = self.given.saturating_add(1);
        if again {
            // Back to the state of one that waits.
            drop(self.call.take_frame());
        } else {
            self.since = Instant::now();
        }
        let job = Job {
            call: Arc::clone(&self.call),
            frame: Vec::new(),
            websocket: false,
            thread: thread_index(),
            since: self.since,
        };
        match self.app.submit(job, again) {
            Ok(()) => {
                let end = Instant::now().checked_add(self.app.policy().queue_timeout);
                self.exchange.deadlines().set(Wait::Answer, end);
                true
            }
            Err(Overload::QueueFull) => {
                let sentence = "Too many requests are waiting for this application.";
                self.fail_later(503, "queue_full", sentence, 1);
                false
            }
            Err(Overload::Failed(reason)) => {
                self.refuse_failed(&reason);
                false
            }
        }
    }

    fn refuse_failed(&mut self, reason: &str) {
        let sentence = format!("The application is not running: {reason}.");
        self.fail_later(503, "app_failed", &sentence, 10);
    }
}

impl<C: Dialect> Drop for Relay<'_, '_, C> {
    /// Whoever still waits for a place waits no more; one that was given meanwhile is free again.
    fn drop(&mut self) {
        use super::super::call::Place as At;
        match self.call.abandon() {
            At::Waiting => self.app.forget(&self.call),
            At::Given(link, number) => drop(Place { link, number }),
            At::Abandoned => {}
        }
    }
}
