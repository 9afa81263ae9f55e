//! The border to the side that speaks to workers: the supervisor gives it the socket of every worker it spawns, and it
//! says what it learns about them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keepwarm_net::Socket;
use keepwarm_policy::scaler::AppLoad;
use tokio::sync::mpsc::UnboundedSender;

use super::Addresses;

/// Names one process of an app for as long as it lives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WorkerKey {
    /// The app's name in the configuration.
    pub app: Arc<str>,
    /// Its place among the app's workers, from 1. A replacement has the number of the one it replaces.
    pub number: u32,
    /// Goes up by one with every reload.
    pub generation: u64,
    /// Its process id.
    pub pid: u32,
}

/// Takes over the sockets of new workers. Called on the control thread; must not block.
pub trait WorkerLinks: Send + Sync {
    /// A worker has been spawned; `socket` is Keepwarm's end of the wire: close-on-exec, non-blocking, nothing written
    /// yet. What happens on it is reported through `events` until [`LinkEvent::Closed`], the last one.
    fn adopt(
        &self,
        worker: WorkerKey,
        socket: Socket,
        events: UnboundedSender<LinkEvent>,
    ) -> Arc<dyn WorkerLink>;

    /// A worker that listens itself has been spawned with these addresses. It is ready when it responds at one of them.
    fn adopt_server(
        &self,
        worker: WorkerKey,
        addresses: Addresses,
        events: UnboundedSender<LinkEvent>,
    ) -> Arc<dyn WorkerLink>;

    /// A reload of these apps has succeeded: their workers up to this generation take requests from now on. Those of a later one wait, since they may yet be
    /// ended as a whole. The first generation takes requests at once.
    fn promote(&self, apps: &BTreeSet<Arc<str>>, generation: u64);

    /// What the requests of an app have met since this was asked last.
    fn load(&self, app: &str) -> AppLoad;

    /// `Some`: no worker of this app runs or will be tried before the next reload, for this reason. `None`: it has
    /// workers again.
    fn set_failed(&self, app: &str, reason: Option<String>);
}

/// One worker's wire, or its server. Dropped once the process has been reaped.
pub trait WorkerLink: Send + Sync {
    /// Sends no new requests to it; to a worker that is not ready yet, none at all. The link sends DRAIN itself once its streams are over. May be called more than
    /// once.
    fn retire(&self);

    /// The process is about to be killed. The reason decides what happens to its lost requests that may have begun.
    fn expect_kill(&self, _kill_reason: KillReason) {}

    /// Its drain timeout is reached: streams that have begun are ended, WebSockets closed with 1001. Comes before the worker is
    /// stopped.
    fn say_goodbye(&self);

    /// Asks it for a sign of life, if it has nothing to do and does not owe one already.
    fn ping(&self);

    /// Whether it owes a sign of life, and has nothing to do that could hold it up.
    fn is_silent(&self) -> bool;

    /// Stops this process of a worker that manages its own, at once or (`gently`) after its current request. `false`: it is unknown here, or is already stopping.
    fn end_child(&self, _pid: u32, _gently: bool) -> bool {
        false
    }

    /// Whether it holds the credit of requests that are over, so that nothing can be sent to it. It may be about to release it.
    fn is_credit_withheld(&self) -> bool {
        false
    }

    /// Whether a request of it is sampled: it gets signals meanwhile ([`LinkEvent::Sampled`]).
    fn is_sampled(&self) -> bool {
        false
    }

    /// Whether it handles signals after the call that they interrupt.
    fn handles_signals_late(&self) -> bool {
        false
    }

    /// The count of its requests. The link counts there, and reports [`LinkEvent::RequestsReached`] when [`Requests::count`] returns `true`.
    fn requests(&self) -> &Requests;
}

/// The requests that one worker was given: counted where they are given, read and limited by the supervisor.
#[derive(Debug)]
pub struct Requests {
    given: AtomicU64,
    limit: AtomicU64,
}

impl Requests {
    /// Counts a request. `true`, once: the limit is reached.
    pub fn count(&self) -> bool {
        let before = self.given.fetch_add(1, Ordering::Relaxed);
        before.saturating_add(1) == self.limit.load(Ordering::Relaxed)
    }

    /// How many so far.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// How many are allowed. To be called before the first is given.
    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }
}

impl Default for Requests {
    /// None so far, without a limit.
    fn default() -> Self {
        Self { given: AtomicU64::new(0), limit: AtomicU64::new(u64::MAX) }
    }
}

/// Why a worker that may hold requests is killed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum KillReason {
    /// One of its requests took too long.
    TimedOut,
    /// It has taken too much memory.
    Memory,
}

/// What the wire tells about a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// HELLO came.
    Ready {
        /// Who.
        worker: WorkerKey,
        /// The adapter and its version, as it says (`python/0.1.0`).
        adapter: String,
        /// The kind of app (`wsgi`).
        kind: String,
        /// The language and its version (`CPython 3.11.7`).
        language: String,
        /// How many requests it takes at once.
        streams: u32,
    },
    /// The wire has ended; the process is expected to end too, and is killed if it does not.
    Closed {
        /// Who.
        worker: WorkerKey,
        /// Why, for the log.
        reason: String,
    },
    /// The process must be killed now: a request timed out, or it broke the rules of the wire.
    Kill {
        /// Who.
        worker: WorkerKey,
        /// Why, for the log.
        reason: String,
    },
    /// A request's time is over: the worker says where it stands, in its own language's words, and is then killed.
    Stuck {
        /// Who.
        worker: WorkerKey,
        /// Why, for the log.
        reason: String,
    },
    /// A retired worker that does not end by itself has nothing left to do.
    Drained {
        /// Who.
        worker: WorkerKey,
    },
    /// A request takes long: the worker's stack is requested, and it keeps running.
    Slow {
        /// Who.
        worker: WorkerKey,
    },
    /// A request takes longer than is usual: the worker gets signals of a profile until [`WorkerLink::is_sampled`] says that it is over.
    Sampled {
        /// Who.
        worker: WorkerKey,
    },
    /// The worker asked for no more requests: it is retired once a replacement is ready.
    WantsDrain {
        /// Who.
        worker: WorkerKey,
    },
    /// It has reached its limit of requests: it is replaced, and keeps serving until the replacement is ready.
    RequestsReached {
        /// Who.
        worker: WorkerKey,
    },
}

impl LinkEvent {
    /// The worker of this event.
    #[must_use]
    pub fn worker(&self) -> &WorkerKey {
        match self {
            Self::Ready { worker, .. }
            | Self::Closed { worker, .. }
            | Self::Kill { worker, .. }
            | Self::Stuck { worker, .. }
            | Self::Drained { worker }
            | Self::Slow { worker }
            | Self::Sampled { worker }
            | Self::WantsDrain { worker }
            | Self::RequestsReached { worker } => worker,
        }
    }
}
