//! The end of a worker: who decided it and why, and the requests that the worker held.

use std::sync::Arc;

use super::Link;
use crate::dispatch::activity::RequestSummary;
use crate::dispatch::call::{Call, Item};
use crate::supervisor::{KillReason, LinkEvent};

/// Why a worker is killed, and the request to blame.
#[derive(Debug, Clone)]
pub(in crate::dispatch) struct KillCause {
    pub(in crate::dispatch) kill_reason: KillReason,
    /// The request that is to blame, where it is known.
    pub(in crate::dispatch) culprit: Option<RequestSummary>,
}

/// The requests that a dead worker leaves behind.
pub(in crate::dispatch) struct OrphanedRequests {
    /// The requests that it held, by their streams.
    pub(in crate::dispatch) calls: Vec<(u32, Arc<Call>)>,
    /// The one of them that it had not read to its end.
    pub(in crate::dispatch) unread: Option<u32>,
    pub(in crate::dispatch) kill_cause: Option<KillCause>,
    /// It was made to end, and its requests are not to blame.
    pub(in crate::dispatch) planned: bool,
}

impl Link {
    /// Asks the supervisor to kill the worker.
    pub(in crate::dispatch) fn kill(&self, reason: &str) {
        self.report(LinkEvent::Kill { worker: self.key.clone(), reason: reason.to_owned() });
    }

    /// A request of it has taken too long: has the supervisor see what the worker is doing, and kill it. It gets nothing more.
    pub(in crate::dispatch) fn give_up(&self, culprit: Option<&RequestSummary>, reason: &str) {
        self.expect_kill_for(KillReason::TimedOut, culprit.cloned());
        self.report(LinkEvent::Stuck { worker: self.key.clone(), reason: reason.to_owned() });
    }

    pub(super) fn expect_kill_for(&self, kill_reason: KillReason, culprit: Option<RequestSummary>) {
        self.lock().kill_cause.get_or_insert(KillCause { kill_reason, culprit });
        if let Some(app) = self.app.upgrade() {
            app.remove_before_kill(self);
        }
    }

    /// Nobody reads from it any more, since its thread does not turn: it gets nothing more, what it holds is lost, and it is replaced.
    pub(in crate::dispatch) fn abandon(self: &Arc<Self>) {
        const REASON: &str = "is read by a stuck thread";
        if let Some(app) = self.app.upgrade() {
            app.remove(self);
        }
        self.die(false)
            .calls
            .into_iter()
            .for_each(|(_, call)| call.put(Item::Lost { unprocessed: false, kill_reason: None }));
        self.kill(REASON);
        self.report(LinkEvent::Closed { worker: self.key.clone(), reason: REASON.to_owned() });
    }

    /// The socket has ended: takes what the worker held. `unread`: with bytes of ours that it had not read.
    pub(in crate::dispatch) fn die(&self, unread: bool) -> OrphanedRequests {
        let mut inner = self.lock();
        inner.dead = true;
        inner.pong_waiters.clear();
        inner.leaks = None;
        // The last of the bytes: of a request only if nothing was written behind it.
        let unread = inner.last_written.filter(|_| unread || !inner.unsent.is_empty());
        OrphanedRequests {
            calls: std::mem::take(&mut inner.calls).into_iter().collect(),
            unread,
            kill_cause: inner.kill_cause.take(),
            planned: inner.said_goodbye,
        }
    }
}
