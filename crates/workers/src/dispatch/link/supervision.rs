//! What the supervisor has a worker do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Link;
use crate::dispatch::call::{Call, Item};
use crate::dispatch::kind::LinkKind;
use crate::supervisor::{KillReason, LinkEvent, Requests, WorkerLink};

impl WorkerLink for Link {
    fn retire(&self) {
        let has_none = self.app.upgrade().is_none_or(|app| app.retire(self));
        // A worker that is not ready yet has nothing to finish: it gets DRAIN when it is.
        if has_none && self.is_ready() {
            self.drain();
        }
    }

    fn ping(&self) {
        // One that works is watched by the time of its requests.
        let idle = self.lock().session.open_streams() == 0;
        if idle && Self::ping(self) {
            self.listened.store(false, Ordering::Relaxed);
            let listened = Arc::clone(&self.listened);
            self.once_listened(move || listened.store(true, Ordering::Relaxed));
        }
    }

    fn is_silent(&self) -> bool {
        let inner = self.lock();
        // One that measures responds when it has done that, for which the search allows a time.
        let is_measuring = inner.leaks.is_some() && inner.session.is_growth_awaited();
        let without_response =
            inner.session.open_streams() == 0 && inner.session.is_ping_pending() && !is_measuring;
        // The response may lie in the socket of a thread that does not turn: nothing of that is the worker's fault.
        without_response && self.listened.load(Ordering::Relaxed)
    }

    fn is_credit_withheld(&self) -> bool {
        self.lock().session.is_credit_withheld()
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }

    fn expect_kill(&self, kill_reason: KillReason) {
        self.expect_kill_for(kill_reason, None);
    }

    fn say_goodbye(&self) {
        self.say_goodbye();
    }
}

impl Link {
    /// Sends DRAIN: the worker finishes and exits. A server is ended by the supervisor.
    pub(in crate::dispatch) fn drain(&self) {
        match &self.kind {
            LinkKind::Wire(socket) => {
                let mut frame = Vec::new();
                let mut inner = self.lock();
                inner.session.drain(&mut frame);
                return inner.write(Some(socket), &frame);
            }
            LinkKind::Server(_) => self.forget_connections(),
            LinkKind::External(_) => {
                self.forget_connections();
                // No process ends with it.
                if let Some(app) = self.app.upgrade() {
                    app.remove_before_kill(self);
                }
            }
        }
        self.report(LinkEvent::Drained { worker: self.key.clone() });
    }

    /// Whether it has sent HELLO, or responded for the first time.
    fn is_ready(&self) -> bool {
        match &self.kind {
            LinkKind::Wire(_) => self.lock().session.is_ready(),
            LinkKind::Server(process) => process.server().is_some(),
            LinkKind::External(_) => true,
        }
    }

    /// Tells the requests that this worker holds that their time is over.
    pub(in crate::dispatch) fn say_goodbye(&self) {
        let mut inner = self.lock();
        inner.said_goodbye = true;
        let calls: Vec<Arc<Call>> = inner.calls.values().chain(inner.hijacked.values()).cloned().collect();
        drop(inner);
        calls.iter().for_each(|call| call.put(Item::Goodbye));
    }

    /// Has the worker put the stack of what it is doing into the log.
    pub(in crate::dispatch) fn show_stack(&self) {
        self.report(LinkEvent::Slow { worker: self.key.clone() });
    }
}
