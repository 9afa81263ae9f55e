//! Events of a connection, reported by its driver and its calls.

use std::time::Duration;

use tokio::time::Instant;

use super::Http2Pool;
use crate::h2::error::ended;
use crate::h2::link::Link;
use crate::pool::SlotPurpose;
use crate::{AcquireError, Endpoint};

impl Http2Pool {
    /// A call on a connection that had been idle got its response, or was lost without one.
    pub(in crate::h2) fn handle_proof(&self, endpoint: &Endpoint, idle: Duration, responded: bool) {
        let now = Instant::now().into_std();
        let mut inner = self.lock();
        match responded {
            // Without an earlier loss or close there is nothing to take back.
            true => drop(inner.keep_alive.get_mut(endpoint.server()).map(|it| it.handle_success(idle, now))),
            false => inner.learnt(endpoint).handle_loss(idle, now),
        }
    }

    /// A call is over.
    pub(in crate::h2) fn handle_call_end(&self, link: &Link) {
        link.end_call();
        let mut inner = self.lock();
        let purpose = || SlotPurpose { endpoint: link.endpoint.clone(), thread: Some(link.thread) };
        // Waiters woken for room on it no longer count, unless they want a slot of their own.
        let wanted = link.open() > 0 || inner.is_wanted(link) || self.slots.waiting_for(purpose) > 0;
        let claimed = !link.is_retired() && self.slots.claims(purpose, wanted, Instant::now());
        inner.wake(link);
        // In one step: another thread must not give up the same one for another waiter.
        if claimed {
            inner.retire(link);
        }
    }

    /// The server changed its stream limit, or its connection was checked for callers that wait for a pending event.
    pub(in crate::h2) fn handle_news(&self, link: &Link) {
        self.lock().wake(link);
    }

    /// The server accepts no further streams.
    pub(in crate::h2) fn handle_goaway(&self, link: &Link) {
        self.learn(link);
        self.end(link, None);
    }

    /// Gives it no further calls.
    pub(in crate::h2) fn retire(&self, link: &Link) {
        self.lock().retire(link);
    }

    /// The connection is closed.
    pub(in crate::h2) fn handle_end(&self, link: &Link, error: Option<h2::Error>) {
        if link.is_retired() {
            return self.retire(link);
        }
        self.learn(link);
        self.end(link, error);
    }

    /// The server ended it. Before it carried a call, that is a failure of its dial: callers that wait would otherwise dial again and again, as fast as the server closes.
    fn end(&self, link: &Link, error: Option<h2::Error>) {
        let mut inner = self.lock();
        let entry = inner.entry(&link.endpoint, link.thread);
        if link.begun() == 0 && !entry.dialling {
            entry.failure = Some(AcquireError::Ended(ended(error, link)));
        }
        inner.retire(link);
    }

    /// The server ended a connection: if it was idle, that shows how long the server keeps them.
    fn learn(&self, link: &Link) {
        let now = Instant::now();
        if link.open() == 0 && link.begun() > 0 {
            self.metering.counts(link.meter).closed_idle();
            self.lock().learnt(&link.endpoint).handle_close(link.idled(now), now.into_std());
        }
    }
}
