//! One worker's socket, and the session that says what may be written to it.

mod death;
mod give;
mod hijack;
mod ping;
mod stream;
mod supervision;
mod usage;
mod write;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;

use keepwarm_net::{Remote, Socket};
use keepwarm_telemetry::timelines::{EnteredProcess, TimelineWorker};
use keepwarm_wire::session::{Session, SessionConfig};
use tokio::sync::mpsc::{self, UnboundedSender};

use self::usage::ProcessUsage;
use super::activity::WorkerActivity;
use super::app::App;
use super::call::Call;
use super::kind::LinkKind;
use super::leaks::LinkLeaks;
use super::profile::{Adapter, LinkProfile, RequestSamples};
use crate::supervisor::{LinkEvent, Requests, WorkerKey};
pub(super) use death::{KillCause, OrphanedRequests};
pub(super) use stream::BodyKind;
pub(super) use usage::Usage;
pub(super) use write::FlushResult;

/// What Keepwarm holds of one worker's responses ahead of their clients: per stream, and in all. The second bounds memory; it is
/// large, so that a few clients which read slowly cannot hold up the others of an ASGI worker.
const CREDIT: SessionConfig =
    SessionConfig { stream_credit: 256 * 1024, connection_credit: 32 * 1024 * 1024 };

/// A worker, as dispatch sees it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) key: WorkerKey,
    pub(super) app: Weak<App>,
    remote: Remote,
    pub(super) kind: LinkKind,
    events: UnboundedSender<LinkEvent>,
    requests: Requests,
    /// Its thread has had its turn since the worker was last asked for a sign of life.
    listened: Arc<AtomicBool>,
    /// It may pass sockets on which its application responds by itself.
    hijacks: AtomicBool,
    /// It has one request at a time.
    is_in_order: AtomicBool,
    /// Its calls to upstreams are attributed by its process.
    process: OnceLock<EnteredProcess>,
    /// From its HELLO.
    adapter: OnceLock<Adapter>,
    /// It gets no more requests, or never any. Changed and looked at while the app's state is locked.
    retired: AtomicBool,
    /// It will be measured when the requests that it has are over.
    awaits_idle: AtomicBool,
    inner: Mutex<LinkInner>,
}

#[derive(Debug)]
pub(super) struct LinkInner {
    pub(super) session: Session,
    pub(super) calls: BTreeMap<u32, Arc<Call>>,
    /// Requests that its application responds by itself (`spec/wire.md` §5, HIJACK), by the streams that they had.
    hijacked: BTreeMap<u32, Arc<Call>>,
    /// What the socket did not take.
    unsent: Vec<u8>,
    /// It did not for want of memory.
    short_of_memory: bool,
    /// The driver, which writes the rest when the socket takes more.
    driver: Option<Waker>,
    /// The worker takes its requests one after the other, in the order of their streams.
    pub(super) in_order: bool,
    /// The worker has work to do after the response that ends next, or has ended (`spec/wire.md` §8).
    pub(super) busy: bool,
    /// That response has ended: its place is free once the worker is.
    pub(super) post_response: Option<PostResponseWork>,
    /// The socket is dead: nothing can be given to this worker.
    pub(super) dead: bool,
    /// Requests it was given.
    pub(super) taken: u64,
    /// Those who wait for the PONG.
    pong_waiters: Vec<mpsc::Sender<()>>,
    /// Reads that brought something from it.
    pub(super) heard: u64,
    /// The stream whose REQUEST is the last that was written to it.
    last_written: Option<u32>,
    /// It is about to be killed.
    pub(super) kill_cause: Option<KillCause>,
    /// The time it had to finish is over.
    said_goodbye: bool,
    process_usage: ProcessUsage,
    /// Its app is being profiled.
    pub(super) profile: Option<Box<LinkProfile>>,
    /// Its requests that take longer than is usual, by their streams.
    pub(super) sampled: BTreeMap<u32, RequestSamples>,
    /// What its requests leave behind is measured.
    pub(super) leaks: Option<Box<LinkLeaks>>,
}

/// Work that a worker continues after the end of its response.
#[derive(Debug, Clone)]
pub(super) struct PostResponseWork {
    pub(super) stream: u32,
    /// The request; none when its client had gone.
    pub(super) call: Option<Arc<Call>>,
}

impl Link {
    pub(super) fn new(
        key: WorkerKey,
        app: &Arc<App>,
        remote: Remote,
        kind: LinkKind,
        events: UnboundedSender<LinkEvent>,
    ) -> Self {
        let inner = LinkInner {
            session: Session::new(CREDIT),
            calls: BTreeMap::new(),
            hijacked: BTreeMap::new(),
            unsent: Vec::new(),
            short_of_memory: false,
            driver: None,
            in_order: false,
            busy: false,
            post_response: None,
            dead: false,
            taken: 0,
            pong_waiters: Vec::new(),
            heard: 0,
            last_written: None,
            kill_cause: None,
            said_goodbye: false,
            process_usage: ProcessUsage::new(key.pid),
            profile: None,
            sampled: BTreeMap::new(),
            leaks: None,
        };
        Self {
            key,
            app: Arc::downgrade(app),
            remote,
            kind,
            events,
            requests: Requests::default(),
            hijacks: AtomicBool::new(false),
            is_in_order: AtomicBool::new(false),
            process: OnceLock::new(),
            adapter: OnceLock::new(),
            retired: AtomicBool::new(false),
            awaits_idle: AtomicBool::new(false),
            listened: Arc::default(),
            inner: Mutex::new(inner),
        }
    }

    /// The data-plane thread that reads from this worker.
    pub(super) fn thread(&self) -> usize {
        self.remote.index
    }

    /// Sets how many requests it has at once, from its HELLO or its app's policy.
    pub(super) fn set_in_order(&self, is_in_order: bool) {
        self.is_in_order.store(is_in_order, Ordering::Relaxed);
        if self.key.pid != 0 {
            self.process.get_or_init(|| EnteredProcess::enter(self.key.pid, &self.key.app, is_in_order));
        }
    }

    /// As the record of a request names it.
    pub(super) fn timeline_worker(&self) -> TimelineWorker {
        TimelineWorker {
            number: self.key.number,
            pid: self.key.pid,
            is_in_order: self.is_in_order.load(Ordering::Relaxed),
        }
    }

    /// What its HELLO says about its adapter.
    pub(super) fn set_adapter(&self, adapter: Adapter) {
        // An error: a second HELLO, which is a fault.
        let _ = self.adapter.set(adapter);
    }

    /// Its adapter; none before its HELLO.
    pub(super) fn adapter(&self) -> Option<&Adapter> {
        self.adapter.get()
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    pub(super) fn set_retired(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether it will be measured when it has no request any more.
    pub(super) fn awaits_idle(&self) -> bool {
        self.awaits_idle.load(Ordering::Relaxed)
    }

    pub(super) fn set_awaits_idle(&self, awaits: bool) {
        self.awaits_idle.store(awaits, Ordering::Relaxed);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LinkInner> {
        self.inner.lock().unwrap_or_else(|poisoned| self.break_off(poisoned))
    }

    /// A panic has left the link in the middle of a change: which streams are open, and how much of a frame was written, is not known any more. Nothing more is
    /// written; the worker is replaced, and its end takes the requests that it holds to their fate.
    #[cold]
    fn break_off<'l>(
        &'l self,
        poisoned: PoisonError<MutexGuard<'l, LinkInner>>,
    ) -> MutexGuard<'l, LinkInner> {
        let mut inner = poisoned.into_inner();
        inner.session = Session::new(CREDIT);
        inner.unsent.clear();
        inner.post_response = None;
        inner.leaks = None;
        inner.dead = true;
        self.inner.clear_poison();
        self.kill("lost its link through a bug in Keepwarm");
        inner
    }

    /// Tells the supervisor.
    pub(super) fn report(&self, event: LinkEvent) {
        // Fails only when the supervisor has ended, and with it every worker.
        let _ = self.events.send(event);
    }

    /// Whether it holds a request.
    pub(super) fn is_at_work(&self) -> bool {
        let inner = self.lock();
        !inner.calls.is_empty() || inner.post_response.is_some()
    }

    /// What it is doing.
    pub(super) fn activity(&self) -> WorkerActivity {
        let inner = self.lock();
        let mut calls: Vec<(u32, Arc<Call>)> = inner
            .calls
            .iter()
            .chain(&inner.hijacked)
            .map(|(stream, call)| (*stream, Arc::clone(call)))
            .collect();
        let taken = inner.taken;
        drop(inner);
        calls.sort_unstable_by_key(|(stream, _)| *stream);
        let active_requests = calls.iter().map(|(_, call)| call.active_requests()).collect();
        WorkerActivity { worker: self.key.clone(), taken, active_requests }
    }
}

impl LinkInner {
    /// The worker is measured no more.
    pub(super) fn end_leaks(&mut self, socket: Option<&Socket>) {
        let mut frame = Vec::new();
        self.leaks = None;
        if self.session.end_leaks(&mut frame) {
            self.write(socket, &frame);
        }
    }

    /// What the worker has used so far. `None`: it works on several requests at once, so that nobody knows which used it.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.in_order.then(|| self.process_usage.read()).flatten()
    }

    /// The worker has ended a request and continues with the next.
    pub(super) fn begin_next(&mut self) {
        if self.in_order
            && let Some((_, call)) = self.calls.first_key_value()
        {
            call.begin_work(|| self.usage());
        }
    }

    /// Wakes the clients' tasks of all requests: they may have credit now.
    pub(super) fn wake_calls(&self) {
        self.calls.values().for_each(|call| call.wake());
    }

    /// A stream has ended: the request that it carried, and whether its slot is free.
    pub(super) fn end_stream(&mut self, stream: u32) -> (Option<Arc<Call>>, bool) {
        let call = self.calls.remove(&stream);
        if let (Some(profile), Some(call)) = (&mut self.profile, &call) {
            profile.remember(stream, &call.summary);
        }
        if let Some(leaks) = &mut self.leaks {
            leaks.end(stream, call.as_ref());
        }
        if !self.busy {
            self.begin_next();
            return (call, self.frees_slot());
        }
        // One that was withdrawn while it waited behind that response has ended before it.
        if self.session.is_open_before(stream) {
            return (call, true);
        }
        self.post_response = Some(PostResponseWork { stream, call: call.clone() });
        (call, false)
    }

    /// Sets whether the worker is busy after its response. Returns `true` if the slot of that response is free now.
    pub(super) fn set_busy(&mut self, busy: bool) -> bool {
        self.busy = busy && self.in_order;
        let freed = !self.busy && self.post_response.take().is_some();
        if freed {
            self.begin_next();
        }
        freed && self.frees_slot()
    }
}

#[cfg(test)]
pub(super) mod tests;
