//! One request between the task of its client and the driver of its worker.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use keepwarm_net::Socket;
use keepwarm_telemetry::timelines::kept_path;
use keepwarm_wire::frame::{OwnedStrings, ResetCode, message_cost, request_path};
use tokio::time::Instant;

use super::activity::{ActiveRequest, RequestSummary};
use super::link::{Link, Usage};
use crate::supervisor::KillReason;

/// What the driver and the client's task share about a request. The driver puts [`Item`]s in, the client's task takes them out.
#[derive(Debug)]
pub(super) struct Call {
    /// What it is.
    pub(super) summary: RequestSummary,
    /// Its path, if no frame has it.
    path: Option<Box<str>>,
    /// Its worker has begun to respond.
    is_responding: AtomicBool,
    inner: Mutex<CallInner>,
}

/// The state of a call, under its lock.
#[derive(Debug, Default)]
struct CallInner {
    /// The next item; nearly always the only one, and so not worth a queue's allocation.
    first: Option<Item>,
    /// Those behind it.
    more: VecDeque<Item>,
    waker: Option<Waker>,
    state: CallState,
    /// The client has closed its writing side: the worker that gets the request should learn it.
    half_closed: bool,
    /// The worker that last had it, and its stream.
    last: Option<(Arc<Link>, u32)>,
    /// Since when its worker may be working on it; none while it waits behind another.
    begun: Option<Instant>,
    /// Note what its worker has used when it begins.
    is_measured: bool,
    usage: Option<Usage>,
    /// The REQUEST frame that was sent, to be sent once more if it is certain or harmless.
    frame: Vec<u8>,
}

/// Items that may lie here before informational responses are dropped. The number is arbitrary: far above what an application gives hints in.
const HINTS: usize = 64;

/// Where a request is: queued, with a worker, or abandoned.
#[derive(Debug, Default, Clone)]
pub(super) enum CallState {
    /// In the app's queue, or not yet given.
    #[default]
    Waiting,
    /// With a worker, as this stream.
    Given(Arc<Link>, u32),
    /// Its client has stopped waiting.
    Abandoned,
}

/// What a worker says about a request, or what became of the worker.
#[derive(Debug)]
pub(super) enum Item {
    /// The head of a response, and the first bytes of its body.
    Response {
        /// 200 to 999, or 101.
        status: u16,
        /// The response is complete.
        end: bool,
        /// The client's connection ends after it.
        close: bool,
        /// Its fields, and after them the bytes of the body.
        fields: OwnedStrings,
    },
    /// An informational response.
    Inform(u16, OwnedStrings),
    /// The trailers of a response, which is complete with them.
    Trailers(OwnedStrings),
    /// Bytes of the body; to be released. `over`: the last.
    Data {
        /// At most 64 KiB.
        bytes: Vec<u8>,
        /// The response is complete.
        over: bool,
    },
    /// The application wants the body.
    Want,
    /// Part of a WebSocket message; the receiver releases its credit.
    Message {
        /// Text, else binary.
        text: bool,
        /// At most 64 KiB.
        bytes: Vec<u8>,
        /// The last part.
        end: bool,
    },
    /// The WebSocket closes.
    Close(u16, String),
    /// The application responds by itself, on this socket; `None`: it could not be had.
    Hijacked(Option<Socket>),
    /// The worker gives up on this request.
    Reset {
        /// Why.
        code: ResetCode,
        /// For the log.
        reason: String,
        /// It had not begun.
        unprocessed: bool,
    },
    /// The worker is gone.
    Lost {
        /// It certainly had not begun with this request: its bytes were never read.
        unprocessed: bool,
        /// Why it was killed, if we did it.
        kill_reason: Option<KillReason>,
    },
    /// The route is refused for this long: it kills workers.
    Quarantined(Duration),
    /// No worker will come: the app has failed, for this reason.
    Refused(Arc<str>),
    /// Keepwarm or the worker is about to end: a stream that has begun, and a WebSocket, end now.
    Goodbye,
}

impl Item {
    /// The credit that it cost its worker.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Data { bytes, .. } => bytes.len(),
            Self::Message { bytes, .. } => message_cost(bytes.len()),
            _ => 0,
        }
    }
}

impl Call {
    pub(super) fn new(summary: RequestSummary) -> Arc<Self> {
        Arc::new(Self { summary, path: None, is_responding: AtomicBool::new(false), inner: Mutex::default() })
    }

    /// One that has no frame: it is sent in another protocol.
    pub(super) fn with_path(summary: RequestSummary, path: Box<str>) -> Arc<Self> {
        Arc::new(Self {
            summary,
            path: Some(path),
            is_responding: AtomicBool::new(false),
            inner: Mutex::default(),
        })
    }

    /// Its path without the query; `frame`: the REQUEST, if there is one.
    pub(super) fn path(&self, frame: &[u8]) -> Option<Box<str>> {
        self.path.clone().or_else(|| request_path(frame).map(kept_path))
    }

    /// Its worker has begun to respond.
    pub(super) fn note_response(&self) {
        self.is_responding.store(true, Ordering::Relaxed);
    }

    /// The driver's side: adds an item, and wakes the client's task.
    pub(super) fn put(&self, item: Item) {
        if matches!(item, Item::Response { .. }) {
            self.note_response();
        }
        Self::add(self.lock(), item);
    }

    /// The same, if the client's task is there to take it. `false`: it was dropped.
    pub(super) fn put_if_waiting(&self, item: Item) -> bool {
        let inner = self.lock();
        let waiting = !matches!(inner.state, CallState::Abandoned);
        if waiting {
            Self::add(inner, item);
        }
        waiting
    }

    fn add(mut inner: MutexGuard<'_, CallInner>, item: Item) {
        if inner.first.is_none() && inner.more.is_empty() {
            inner.first = Some(item);
        } else {
            inner.more.push_back(item);
        }
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The same for an informational response, which costs its worker no credit: those that nobody takes are not kept without bound.
    pub(super) fn put_hint(&self, item: Item) {
        if self.lock().more.len() < HINTS {
            self.put(item);
        }
    }

    /// The client's side: the next item.
    pub(super) fn poll_item(&self, cx: &Context<'_>) -> Poll<Item> {
        let mut inner = self.lock();
        if let Some(item) = inner.first.take() {
            inner.first = inner.more.pop_front();
            return Poll::Ready(item);
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Has the client's task woken by the next item, although it takes none now: there is no room for what it may be, yet with credit ([`Self::wake`]) the rest of the
    /// request can go on.
    pub(super) fn wake_on_item(&self, cx: &Context<'_>) {
        let mut inner = self.lock();
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
    }

    /// Notes which worker has it. `false`: nobody waits for it any more.
    pub(super) fn give_to(&self, link: &Arc<Link>, stream: u32) -> bool {
        let mut inner = self.lock();
        if matches!(inner.state, CallState::Abandoned) {
            return false;
        }
        inner.state = CallState::Given(Arc::clone(link), stream);
        inner.last = Some((Arc::clone(link), stream));
        inner.begun = None;
        true
    }

    /// Has the client's task look again: it has something to send.
    pub(super) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self.lock().state, CallState::Abandoned)
    }

    /// The client's side: it stops waiting. Tells where the request is.
    pub(super) fn abandon(&self) -> CallState {
        std::mem::replace(&mut self.lock().state, CallState::Abandoned)
    }

    /// The client has closed its writing side. Returns the worker that has the request; if a worker gets it later, the client's task is woken ([`Self::is_half_closed`]).
    pub(super) fn note_half_close(&self) -> Option<(Arc<Link>, u32)> {
        self.lock().half_closed = true;
        self.given()
    }

    pub(super) fn is_half_closed(&self) -> bool {
        self.lock().half_closed
    }

    /// The worker that has it, and the stream.
    pub(super) fn given(&self) -> Option<(Arc<Link>, u32)> {
        match &self.lock().state {
            CallState::Given(link, stream) => Some((Arc::clone(link), *stream)),
            CallState::Waiting | CallState::Abandoned => None,
        }
    }

    /// The worker that last had it, also once it was abandoned.
    pub(super) fn last_given(&self) -> Option<(Arc<Link>, u32)> {
        self.lock().last.clone()
    }

    /// Has [`Self::begin_work`] note what the worker has used.
    pub(super) fn measure(&self) {
        self.lock().is_measured = true;
    }

    /// What the worker had used when it began with this request.
    pub(super) fn usage_before(&self) -> Option<Usage> {
        self.lock().usage
    }

    /// The application's time begins: the worker has it, and nothing before it. `usage`: of a worker that has no other request.
    pub(super) fn begin_work(&self, usage: impl FnOnce() -> Option<Usage>) {
        let mut inner = self.lock();
        if inner.begun.is_none() {
            inner.begun = Some(Instant::now());
            if inner.is_measured {
                inner.usage = usage();
            }
        }
    }

    /// Since when the worker may be working on it.
    pub(super) fn in_work_since(&self) -> Option<Instant> {
        self.lock().begun
    }

    /// Whether the worker may be working on it.
    pub(super) fn is_in_work(&self) -> bool {
        self.in_work_since().is_some()
    }

    /// As a status shows it.
    pub(super) fn active_requests(&self) -> ActiveRequest {
        let inner = self.lock();
        ActiveRequest {
            summary: self.summary.clone(),
            path: self.path(&inner.frame),
            age: inner.begun.map(|since| since.elapsed()),
            is_responding: self.is_responding.load(Ordering::Relaxed),
        }
    }

    /// Keeps the frame that was sent.
    pub(super) fn keep_frame(&self, frame: Vec<u8>) {
        self.lock().frame = frame;
    }

    /// Takes the frame back, to send it once more to another worker.
    pub(super) fn take_frame(&self) -> Vec<u8> {
        let mut inner = self.lock();
        inner.state = CallState::Waiting;
        inner.begun = None;
        std::mem::take(&mut inner.frame)
    }

    fn lock(&self) -> MutexGuard<'_, CallInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
