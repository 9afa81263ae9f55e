//! The time that a server has for a request.

use std::sync::Arc;

use keepwarm_net::WaitKind;

use super::super::refusals;
use super::child::Child;
use super::worker_request::WorkerRequest;
use super::{AttemptResult, Dialect, ServerConnection};

impl<C: Dialect> WorkerRequest<'_, '_, '_, C> {
    /// The app's time stands still while it waits for its client.
    pub(super) fn keep_time(&mut self) {
        if self.relay.stream && self.relay.exchange.is_half_closed() {
            // The client may have left for good, which only writing would show.
            self.relay.stream = false;
            self.server_works();
        }
        let deadlines = self.relay.exchange.deadlines();
        if self.relay.response.is_full() || self.starved || self.complete {
            deadlines.set(WaitKind::Response, None);
        } else if !deadlines.is_set(WaitKind::Response) && !deadlines.passed(WaitKind::Response) {
            deadlines.set_after(WaitKind::Response, self.relay.time_limit());
        }
    }

    /// The server has shown that it works: restarts its time.
    pub(super) fn server_works(&self) {
        self.relay.exchange.deadlines().set_after(WaitKind::Response, self.relay.time_limit());
    }

    /// It has taken longer than `slow_log` allows: says so once. A server shows no stack.
    #[cold]
    pub(super) fn is_slow(&mut self) {
        let deadlines = self.relay.exchange.deadlines();
        deadlines.set(WaitKind::Slow, None);
        let (Some(limit), Some(begun)) = (self.relay.app.policy().slow_log, self.relay.call.in_work_since())
        else {
            return;
        };
        if self.complete {
            return;
        }
        if !deadlines.is_set(WaitKind::Response) {
            // It waits for its client.
            return deadlines.set_after(WaitKind::Slow, limit);
        }
        self.relay.logged_slow = true;
        let process = self.child().map(|child| child.pid);
        if let Some(slot) = &self.slot {
            let key = &slot.link.key;
            tracing::warn!(
                name: "slow_request",
                app = %self.relay.app.name, worker = key.number, pid = key.pid, process,
                id = %self.relay.id(), route = %self.relay.call.summary,
                seconds = begun.elapsed().as_secs_f32(),
                "slow request"
            );
        }
    }

    /// The process that works on it, of a server that keeps its own.
    fn child(&self) -> Option<Arc<Child>> {
        Some(Arc::clone(self.lease.as_ref()?.child_guard()?.child()))
    }

    pub(super) fn time_is_over(&mut self) -> AttemptResult {
        let limit = self.relay.time_limit();
        let child = self.child();
        if let Some(slot) = &self.slot {
            let key = &slot.link.key;
            tracing::error!(
                name: "request_timeout",
                app = %self.relay.app.name, worker = key.number, pid = key.pid, id = %self.relay.id(), ?limit,
                "request timed out"
            );
            slot.link.suspect(&self.relay.call.summary, child.as_ref());
        }
        refusals::respond_timed_out(self.relay.exchange);
        AttemptResult::Over
    }
}
