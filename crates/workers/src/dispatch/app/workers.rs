//! The workers of an app as they come and go: who takes requests, who does not yet, and who no more.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use keepwarm_wire::frame::{Capabilities, Hello};

use super::super::link::Link;
use super::super::queue::WorkerDrained;
use super::{App, AppPolicy, AppState};

/// A ready worker that takes no requests until its generation is promoted.
#[derive(Debug)]
pub(super) struct PendingWorker {
    pub(super) link: Arc<Link>,
    capabilities: WorkerCapabilities,
}

impl App {
    /// A worker is ready. One that was retired before it was gets nothing.
    pub(in crate::dispatch) fn welcome_worker(&self, link: &Arc<Link>, capabilities: WorkerCapabilities) {
        let mut state = self.state();
        if link.is_retired() {
            drop(state);
            return link.drain();
        }
        if link.key.generation > state.generation {
            state.pending.push(PendingWorker { link: Arc::clone(link), capabilities });
            return;
        }
        self.enter(&mut state, PendingWorker { link: Arc::clone(link), capabilities });
        drop(state);
        self.fill(link);
    }

    /// A worker takes requests from now on, which are treated as its kind wants it.
    fn enter(&self, state: &mut AppState, worker: PendingWorker) {
        let PendingWorker { link, capabilities } = worker;
        let WorkerCapacity { streams, ahead } = capabilities.slots;
        link.set_in_order(streams == 1);
        *self.description.lock().unwrap_or_else(PoisonError::into_inner) = Some(capabilities.description);
        self.streams.store(streams, Ordering::Relaxed);
        let Capabilities {
            blocking,
            cgi_names,
            websocket,
            half_close,
            hijack,
            user,
            profile: _,
            late_signals: _,
            leaks: _,
        } = capabilities.wire;
        self.blocking.store(blocking, Ordering::Relaxed);
        self.cgi_names.store(cgi_names, Ordering::Relaxed);
        self.user.store(user, Ordering::Relaxed);
        self.websockets.store(websocket, Ordering::Relaxed);
        self.half_close.store(half_close, Ordering::Relaxed);
        self.hijacks.store(hijack, Ordering::Relaxed);
        state.failed = None;
        state.queue.enter(link, streams, ahead);
    }

    /// Workers up to this generation take requests.
    pub(in crate::dispatch) fn promote(&self, generation: u64) {
        self.quarantine.forget();
        // It did start: no page says otherwise once one of its workers serves.
        self.set_unstarted(None);
        if let Some(kind) = self.next_kind().take() {
            let policy = AppPolicy { kind, ..AppPolicy::clone(&self.policy()) };
            self.policy.store(Arc::new(policy));
        }
        let mut state = self.state();
        state.generation = generation;
        let ready: Vec<PendingWorker> =
            state.pending.extract_if(.., |pending| pending.link.key.generation <= generation).collect();
        let links: Vec<Arc<Link>> = ready.iter().map(|pending| Arc::clone(&pending.link)).collect();
        ready.into_iter().for_each(|pending| self.enter(&mut state, pending));
        drop(state);
        links.iter().for_each(|link| self.fill(link));
    }

    /// Gives waiting requests to a worker as long as it has places.
    pub(in crate::dispatch) fn fill(&self, link: &Arc<Link>) {
        loop {
            // The lock is not held while a request is written.
            let Some(job) = self.state().queue.fill(link) else { return };
            link.give(job);
        }
    }

    /// A worker is about to be killed: it gets nothing more.
    pub(in crate::dispatch) fn remove_before_kill(&self, link: &Link) {
        let mut state = self.state();
        state.dismiss(link);
        state.queue.leave_key(&link.key);
    }

    /// A worker is gone.
    pub(in crate::dispatch) fn remove(&self, link: &Arc<Link>) {
        let mut state = self.state();
        state.dismiss(link);
        state.queue.leave(link);
    }

    /// A worker gets no more requests, whether it had any or is not even ready. `true`: it has none now.
    pub(in crate::dispatch) fn retire(&self, link: &Link) -> bool {
        let mut state = self.state();
        state.dismiss(link);
        state.queue.retire(&link.key)
    }

    /// The same for one that has asked for it: what waits is for others.
    pub(in crate::dispatch) fn close(&self, link: &Link) -> bool {
        let mut state = self.state();
        state.dismiss(link);
        state.queue.close(&link.key)
    }

    /// A worker has finished with a request.
    pub(in crate::dispatch) fn place_is_free(&self, link: &Arc<Link>) {
        let next = self.state().queue.free_slot(link);
        match next {
            Ok(Some(job)) => {
                link.give(job);
                // Behind it others may wait.
                self.fill(link);
            }
            Ok(None) if link.awaits_idle() => self.count_if_idle(link),
            Ok(None) => {}
            Err(WorkerDrained) => link.drain(),
        }
    }

    /// A worker that is measured takes its first request.
    pub(in crate::dispatch) fn measure_next(&self, link: &Arc<Link>) {
        self.state().queue.begin_measured(link);
        self.fill(link);
    }
}

impl AppState {
    /// The worker will never take requests again, nor for the first time: every way in looks at this.
    fn dismiss(&mut self, link: &Link) {
        link.set_retired();
        self.pending.retain(|pending| pending.link.key != link.key);
    }
}

/// What a worker is and can do.
#[derive(Debug, Clone)]
pub(in crate::dispatch) struct WorkerCapabilities {
    slots: WorkerCapacity,
    /// Kind and language, as a person reads them.
    description: String,
    wire: Capabilities,
}

impl WorkerCapabilities {
    /// By its HELLO, with the `kind` and the `language` that it names.
    pub(in crate::dispatch) fn of_hello(hello: &Hello<'_>, kind: &str, language: &str) -> Self {
        Self {
            slots: WorkerCapacity { streams: hello.streams as usize, ahead: hello.ahead() as usize },
            description: description(kind, language),
            wire: hello.capabilities(),
        }
    }

    /// For a server that takes `streams` concurrent requests.
    pub(in crate::dispatch) fn of_server(streams: usize, kind: &str, language: &str) -> Self {
        Self {
            slots: WorkerCapacity { streams, ahead: 0 },
            description: description(kind, language),
            wire: Capabilities { blocking: streams == 1, cgi_names: true, ..Capabilities::default() },
        }
    }
}

fn description(kind: &str, language: &str) -> String {
    // `rack` is a word, the others are letters.
    let shown = if kind == "rack" { "Rack".to_owned() } else { kind.to_uppercase() };
    format!("{shown}, {language}")
}

/// How many requests a worker takes at once.
#[derive(Debug, Clone, Copy)]
struct WorkerCapacity {
    /// Requests it works on.
    streams: usize,
    /// Requests that may wait behind them.
    ahead: usize,
}
