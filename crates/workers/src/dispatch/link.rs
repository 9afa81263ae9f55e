//! One worker's socket: writing to it, from any thread, and the session that says what may be written.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use keepwarm_net::{Remote, Socket, send};
use keepwarm_wire::encode::{encode_close, encode_data, encode_trailers};
use keepwarm_wire::frame::{HEADER_LEN, ResetCode, flags, message_cost};
use keepwarm_wire::session::{Session, SessionConfig};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::activity::{About, WorkerActivity};
use super::app::App;
use super::call::{Call, Item};
use super::queue::Job;
use super::relay::Server;
use crate::supervisor::{LinkEvent, Requests, Verdict, WorkerKey, WorkerLink};

/// Where a frame's stream id stands.
const STREAM_AT: std::ops::Range<usize> = 6..HEADER_LEN;
/// Where its flags stand.
const FLAGS_AT: usize = 5;

/// What Keepwarm holds of one worker's answers ahead of their clients: per stream, and in all. The second bounds memory; it is
/// large, so that a few clients which read slowly cannot hold up the others of an ASGI worker.
const CREDIT: SessionConfig =
    SessionConfig { stream_credit: 256 * 1024, connection_credit: 32 * 1024 * 1024 };

/// A worker, as dispatch sees it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) key: WorkerKey,
    pub(super) app: Weak<App>,
    remote: Remote,
    /// For writing; the driver reads from a duplicate. None of a server.
    socket: Option<Socket>,
    /// A worker that listens by itself: whoever has a place there speaks to it.
    pub(super) server: Option<Server>,
    events: UnboundedSender<LinkEvent>,
    requests: Requests,
    /// Its thread has had its turn since the worker was last asked for a sign of life.
    listened: Arc<AtomicBool>,
    /// It gets no more requests, or never any. Changed and looked at while the app's state is locked.
    retired: AtomicBool,
    inner: Mutex<LinkInner>,
}

#[derive(Debug)]
pub(super) struct LinkInner {
    pub(super) session: Session,
    pub(super) calls: HashMap<u32, Arc<Call>>,
    /// What the socket did not take.
    unsent: Vec<u8>,
    /// It did not for want of memory.
    short_of_memory: bool,
    /// The driver, which writes the rest when the socket takes more.
    driver: Option<Waker>,
    /// The worker takes its requests one after the other, in the order of their streams.
    pub(super) in_order: bool,
    /// The worker has something to do behind the answer that ends next, or has ended (`spec/wire.md` §8).
    pub(super) busy: bool,
    /// That answer has ended: its place is free once the worker is.
    pub(super) tail: Option<Tail>,
    /// The socket is dead: nothing can be given to this worker.
    pub(super) dead: bool,
    /// Requests it was given.
    pub(super) taken: u64,
    /// Those who wait for the PONG.
    pulses: Vec<mpsc::Sender<()>>,
    /// Reads that brought something from it.
    pub(super) heard: u64,
    /// The stream whose REQUEST is the last that was written to it.
    last_written: Option<u32>,
    /// It is about to be killed.
    pub(super) condemned: Option<Condemned>,
    /// The time it had to finish is over.
    said_goodbye: bool,
}

/// What a worker does behind an answer.
#[derive(Debug, Clone)]
pub(super) struct Tail {
    pub(super) stream: u32,
    /// The request; none when its client had gone.
    pub(super) call: Option<Arc<Call>>,
}

/// Why a worker is killed.
#[derive(Debug, Clone)]
pub(super) struct Condemned {
    pub(super) verdict: Verdict,
    /// The request that is to blame, where it is known.
    pub(super) culprit: Option<About>,
}

/// What a worker leaves behind.
pub(super) struct Remains {
    /// The requests that it held, by their streams.
    pub(super) calls: Vec<(u32, Arc<Call>)>,
    /// The one of them that it had not read to its end.
    pub(super) unread: Option<u32>,
    pub(super) condemned: Option<Condemned>,
    /// It was made to end, and its requests are not to blame.
    pub(super) planned: bool,
}

impl Link {
    pub(super) fn new(
        key: WorkerKey,
        app: &Arc<App>,
        remote: Remote,
        socket: Option<Socket>,
        server: Option<Server>,
        events: UnboundedSender<LinkEvent>,
    ) -> Self {
        let inner = LinkInner {
            session: Session::new(CREDIT),
            calls: HashMap::new(),
            unsent: Vec::new(),
            short_of_memory: false,
            driver: None,
            in_order: false,
            busy: false,
            tail: None,
            dead: false,
            taken: 0,
            pulses: Vec::new(),
            heard: 0,
            last_written: None,
            condemned: None,
            said_goodbye: false,
        };
        Self {
            key,
            app: Arc::downgrade(app),
            remote,
            socket,
            server,
            events,
            requests: Requests::default(),
            retired: AtomicBool::new(false),
            listened: Arc::default(),
            inner: Mutex::new(inner),
        }
    }

    /// The data-plane thread that reads from this worker.
    pub(super) fn thread(&self) -> usize {
        self.remote.index
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    pub(super) fn set_retired(&self) {
        self.retired.store(true, Ordering::Relaxed);
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
        inner.tail = None;
        inner.dead = true;
        self.inner.clear_poison();
        self.kill("a bug in Keepwarm has broken the link to it");
        inner
    }

    /// Tells the supervisor.
    pub(super) fn report(&self, event: LinkEvent) {
        // Fails only when the supervisor has ended, and with it every worker.
        let _ = self.events.send(event);
    }

    /// Asks the supervisor to kill the worker.
    pub(super) fn kill(&self, reason: &str) {
        self.report(LinkEvent::Kill { worker: self.key.clone(), reason: reason.to_owned() });
    }

    /// Sends a request, for which the caller has taken a place.
    pub(super) fn give(self: &Arc<Self>, mut job: Job) {
        match (&self.server, job.frame.is_empty()) {
            (Some(_), true) => return self.offer(&job.call),
            (None, false) => {}
            // The last reload has made another kind of app of it.
            (Some(_), false) | (None, true) => return self.refuse(&job.call),
        }
        if job.websocket && self.app.upgrade().is_none_or(|app| app.is_blocking()) {
            // It gets the opening as the plain request that it also is.
            job.websocket = false;
            if let Some(bits) = job.frame.get_mut(FLAGS_AT) {
                *bits &= !flags::WEBSOCKET;
            }
        }
        let mut inner = self.lock();
        let stream = match job.websocket {
            true => inner.session.open_websocket(),
            false => inner.session.open(),
        };
        let Some(stream) = stream.filter(|_| !inner.dead) else {
            let dead = inner.dead;
            drop(inner);
            job.call.keep_frame(job.frame);
            job.call.put(Item::Lost { unprocessed: true, verdict: None });
            if !dead {
                self.take_no_more();
            }
            return;
        };
        if let Some(id) = job.frame.get_mut(STREAM_AT) {
            id.copy_from_slice(&stream.to_be_bytes());
        }
        if !job.call.give_to(self, stream) {
            // Its client left between the queue and here. The place is taken: it is free when the worker has let go of the stream.
            let mut frames = job.frame;
            inner.session.reset(stream, ResetCode::CANCELLED, "the client has gone", &mut frames);
            inner.write(&self.socket, &frames);
            return;
        }
        if !inner.in_order || (inner.session.open_streams() == 1 && inner.tail.is_none()) {
            job.call.begin_work();
        }
        inner.taken += 1;
        inner.calls.insert(stream, Arc::clone(&job.call));
        inner.write(&self.socket, &job.frame);
        inner.last_written = Some(stream);
        drop(inner);
        if job.frame.get(FLAGS_AT).is_some_and(|bits| bits & flags::END == 0) {
            // It may have waited in the queue; the rest of its body can come now.
            job.call.wake();
        }
        job.call.keep_frame(job.frame);
        if self.requests.count() {
            self.report(LinkEvent::RequestsReached { worker: self.key.clone() });
        }
    }

    /// A place was taken, and the worker takes no request: its DRAIN has crossed, or it has used up its stream ids. The place is free again, and the last of all.
    fn take_no_more(self: &Arc<Self>) {
        let Some(app) = self.app.upgrade() else { return };
        app.close(self);
        app.place_is_free(self);
        self.report(LinkEvent::WantsDrain { worker: self.key.clone() });
    }

    /// A request of it has taken too long: has the supervisor see what the worker is doing, and kill it. It gets nothing more.
    pub(super) fn give_up(&self, culprit: Option<&About>, reason: &str) {
        self.condemn_for(Verdict::TimedOut, culprit.cloned());
        self.report(LinkEvent::Stuck { worker: self.key.clone(), reason: reason.to_owned() });
    }

    /// Has the worker put the stack of what it is doing into the log.
    pub(super) fn show_stack(&self) {
        self.report(LinkEvent::Slow { worker: self.key.clone() });
    }

    /// Asks for a sign of life; [`Self::heard`] is another number once one has come. `false`: none was asked for, or it has been before.
    pub(super) fn ping(&self) -> bool {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        let heard = inner.heard;
        // One that is under way serves as well.
        let asked = inner.session.ping(heard.to_be_bytes(), &mut frame);
        inner.write(&self.socket, &frame);
        asked
    }

    /// Runs `then` on the thread that reads from it, once that has read what lay in its sockets.
    pub(super) fn once_listened(&self, then: impl FnOnce() + Send + 'static) {
        self.remote.spawn(move || async move {
            tokio::time::sleep(LISTEN).await;
            then();
        });
    }

    /// How often something has come from it.
    pub(super) fn heard(&self) -> u64 {
        self.lock().heard
    }

    fn condemn_for(&self, verdict: Verdict, culprit: Option<About>) {
        self.lock().condemned.get_or_insert(Condemned { verdict, culprit });
        if let Some(app) = self.app.upgrade() {
            app.remove_condemned(self);
        }
    }

    /// How many bytes of a body may be sent on the stream now: 0 also while much of what was sent before waits for the socket.
    pub(super) fn send_credit(&self, stream: u32) -> usize {
        let inner = self.lock();
        if inner.unsent.len() > UNSENT_ENOUGH { 0 } else { inner.session.send_credit(stream) as usize }
    }

    /// How many bytes of a message may be sent on the stream now; `None`: no frame of one may.
    pub(super) fn message_credit(&self, stream: u32) -> Option<usize> {
        let inner = self.lock();
        inner.session.message_credit(stream).filter(|_| inner.unsent.len() <= UNSENT_ENOUGH)
    }

    /// Sends a frame of a body or a message, of at most [`Self::send_credit`] or [`Self::message_credit`] bytes behind its head.
    pub(super) fn send_body(&self, kind: BodyKind, stream: u32, bytes: &[u8], end: bool) {
        let mut frame = Vec::with_capacity(HEADER_LEN + bytes.len());
        let encoded = match kind {
            BodyKind::Data => encode_data(&mut frame, stream, bytes, end),
            BodyKind::Text => keepwarm_wire::encode::encode_text(&mut frame, stream, bytes, end),
            BodyKind::Binary => keepwarm_wire::encode::encode_binary(&mut frame, stream, bytes, end),
        };
        debug_assert!(encoded.is_ok(), "a body frame of ours is within its limits");
        let mut inner = self.lock();
        let cost = if kind == BodyKind::Data { bytes.len() } else { message_cost(bytes.len()) };
        inner.session.spent(stream, cost);
        inner.write(&self.socket, &frame);
    }

    /// Sends the trailers of a request.
    pub(super) fn send_trailers<'f>(&self, stream: u32, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        let mut frame = Vec::new();
        if encode_trailers(&mut frame, stream, fields).is_err() {
            // More than a frame holds cannot pass the limits of http1; a body without them is still a body.
            frame.clear();
            let _ = encode_data(&mut frame, stream, &[], true);
        }
        self.lock().write(&self.socket, &frame);
    }

    /// Closes a WebSocket.
    pub(super) fn send_close(&self, stream: u32, code: u16, reason: &str) {
        let mut frame = Vec::new();
        if encode_close(&mut frame, stream, code, reason).is_ok() {
            self.lock().write(&self.socket, &frame);
        }
    }

    /// Whether the worker has not let go of this stream.
    pub(super) fn is_held(&self, stream: u32) -> bool {
        let inner = self.lock();
        !inner.dead && !inner.session.is_over(stream)
    }

    /// Whether it may be working on this stream now: one that takes requests in their order works on the first.
    pub(super) fn is_at_work_on(&self, stream: u32) -> bool {
        let inner = self.lock();
        !inner.in_order || !inner.session.is_open_before(stream)
    }

    /// Gives credit back for bytes that have left memory.
    pub(super) fn release(&self, stream: u32, bytes: usize) {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        inner.session.release(stream, bytes, &mut frame);
        inner.write(&self.socket, &frame);
    }

    /// Nobody waits for this answer any more.
    pub(super) fn reset(&self, stream: u32, code: ResetCode, reason: &str) {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        inner.calls.remove(&stream);
        inner.session.reset(stream, code, reason, &mut frame);
        inner.write(&self.socket, &frame);
    }

    /// Sends DRAIN: the worker finishes and exits. A server is ended by the supervisor.
    pub(super) fn drain(&self) {
        if let Some(server) = &self.server {
            let app = self.app.upgrade();
            server.forget(app.as_ref());
            if let Some(app) = app.filter(|_| server.is_standing()) {
                // No process ends with it.
                app.remove_condemned(self);
            }
            return self.report(LinkEvent::Drained { worker: self.key.clone() });
        }
        let mut frame = Vec::new();
        let mut inner = self.lock();
        inner.session.drain(&mut frame);
        inner.write(&self.socket, &frame);
    }

    /// Whether it has said HELLO, or answered for the first time.
    fn is_ready(&self) -> bool {
        match &self.server {
            Some(server) => server.endpoint().is_some(),
            None => self.lock().session.is_ready(),
        }
    }

    /// Tells the requests that this worker holds that their time is over.
    pub(super) fn say_goodbye(&self) {
        let mut inner = self.lock();
        inner.said_goodbye = true;
        let calls: Vec<Arc<Call>> = inner.calls.values().cloned().collect();
        drop(inner);
        calls.iter().for_each(|call| call.put(Item::Goodbye));
    }

    /// Writes frames that the driver has made.
    pub(super) fn write(&self, frames: &[u8]) {
        self.lock().write(&self.socket, frames);
    }

    /// Writes what was left. From now on, and not a moment later, `driver` is woken when something is left again.
    pub(super) fn flush(&self, driver: &Waker) -> Left {
        let mut inner = self.lock();
        let rest = std::mem::take(&mut inner.unsent);
        inner.driver = None;
        inner.write(&self.socket, &rest);
        inner.driver = Some(driver.clone());
        let left = match (inner.unsent.is_empty(), inner.short_of_memory) {
            (true, _) => Left::Nothing,
            (false, false) => Left::ForRoom,
            (false, true) => Left::ForLater,
        };
        if rest.len() > UNSENT_ENOUGH && inner.unsent.len() <= UNSENT_ENOUGH {
            // They had no credit while there was so much (see [`Self::send_credit`]), and no frame of the worker says that they have some now.
            let calls: Vec<Arc<Call>> = inner.calls.values().cloned().collect();
            drop(inner);
            calls.iter().for_each(|call| call.wake());
        }
        left
    }

    /// What it is doing.
    pub(super) fn activity(&self) -> WorkerActivity {
        let inner = self.lock();
        let mut calls: Vec<(u32, Arc<Call>)> =
            inner.calls.iter().map(|(stream, call)| (*stream, Arc::clone(call))).collect();
        let taken = inner.taken;
        drop(inner);
        calls.sort_unstable_by_key(|(stream, _)| *stream);
        let in_hand = calls.iter().map(|(_, call)| call.in_hand()).collect();
        WorkerActivity { worker: self.key.clone(), taken, in_hand }
    }

    /// Asks the worker for a sign of life, which goes to `answered`; dropped when none can come.
    pub(super) fn ask(&self, answered: mpsc::Sender<()>) {
        const PAYLOAD: [u8; 8] = *b"keepwarm";
        let mut frame = Vec::new();
        let mut inner = self.lock();
        if inner.dead {
            return;
        }
        inner.pulses.retain(|waiting| !waiting.is_closed());
        inner.pulses.push(answered);
        if let Some(server) = &self.server {
            return server.look.notify_one();
        }
        // One that is under way already answers for both.
        if inner.session.ping(PAYLOAD, &mut frame) {
            inner.write(&self.socket, &frame);
        }
    }

    /// The worker has answered a PING.
    pub(super) fn ponged(&self) {
        for waiting in std::mem::take(&mut self.lock().pulses) {
            // Full: another worker was first.
            let _ = waiting.try_send(());
        }
    }

    /// Nobody reads from it any more, since its thread does not turn: it gets nothing more, what it holds is lost, and it is replaced.
    pub(super) fn abandon(self: &Arc<Self>) {
        const REASON: &str = "the thread that reads from it does not turn";
        if let Some(app) = self.app.upgrade() {
            app.remove(self);
        }
        self.die(false)
            .calls
            .into_iter()
            .for_each(|(_, call)| call.put(Item::Lost { unprocessed: false, verdict: None }));
        self.kill(REASON);
        self.report(LinkEvent::Closed { worker: self.key.clone(), reason: REASON.to_owned() });
    }

    /// Whether it holds a request.
    pub(super) fn is_at_work(&self) -> bool {
        let inner = self.lock();
        !inner.calls.is_empty() || inner.tail.is_some()
    }

    /// The socket has ended: takes what the worker held. `unread`: with bytes of ours that it had not read.
    pub(super) fn die(&self, unread: bool) -> Remains {
        let mut inner = self.lock();
        inner.dead = true;
        inner.pulses.clear();
        // The last of the bytes: of a request only if nothing was written behind it.
        let unread = inner.last_written.filter(|_| unread || !inner.unsent.is_empty());
        Remains {
            calls: inner.calls.drain().collect(),
            unread,
            condemned: inner.condemned.take(),
            planned: inner.said_goodbye,
        }
    }
}

impl WorkerLink for Link {
    fn retire(&self) {
        let has_none = self.app.upgrade().is_none_or(|app| app.retire(self));
        // One that is not ready yet has nothing to finish: it is told so when it is.
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
        let unanswered = inner.session.open_streams() == 0 && inner.session.is_ping_pending();
        // The answer may lie in the socket of a thread that does not turn: nothing of that is the worker's fault.
        unanswered && self.listened.load(Ordering::Relaxed)
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }

    fn condemn(&self, verdict: Verdict) {
        self.condemn_for(verdict, None);
    }

    fn say_goodbye(&self) {
        self.say_goodbye();
    }
}

impl LinkInner {
    /// The worker has ended a request: it goes on with the next.
    pub(super) fn begin_next(&mut self) {
        if self.in_order
            && let Some((_, call)) = self.calls.iter().min_by_key(|(stream, _)| **stream)
        {
            call.begin_work();
        }
    }

    /// Whether the worker is busy behind its answer. `true`: the place of that answer is free now.
    pub(super) fn set_busy(&mut self, busy: bool) -> bool {
        self.busy = busy && self.in_order;
        let freed = !self.busy && self.tail.take().is_some();
        if freed {
            self.begin_next();
        }
        freed
    }

    /// One write; what the socket does not take waits for the driver.
    fn write(&mut self, socket: &Option<Socket>, bytes: &[u8]) {
        let Some(socket) = socket.as_ref().filter(|_| !bytes.is_empty() && !self.dead) else { return };
        self.last_written = None;
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return;
        }
        self.short_of_memory = false;
        let sent = match send(socket, &[IoSlice::new(bytes)]) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            // The socket lives, and the worker would wait for the rest of a frame.
            Err(error) if is_shortage(&error) => {
                self.short_of_memory = true;
                0
            }
            // The driver learns it from its read, with all requests that are lost by it.
            Err(_) => return,
        };
        let rest = bytes.get(sent..).unwrap_or_default();
        if !rest.is_empty() {
            self.unsent.extend_from_slice(rest);
            if let Some(driver) = self.driver.take() {
                driver.wake();
            }
        }
    }
}

/// What is left to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// The socket is full.
    ForRoom,
    /// The kernel has no memory for it now, and does not tell when it has.
    ForLater,
}

fn is_shortage(error: &io::Error) -> bool {
    let short = [rustix::io::Errno::NOBUFS, rustix::io::Errno::NOMEM];
    short.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The time in which a thread that turns has read what lay in its sockets. The number is arbitrary.
const LISTEN: Duration = Duration::from_millis(100);

/// What a body frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Data,
    Text,
    Binary,
}

/// Bytes that may wait for a worker's socket before no more are added.
const UNSENT_ENOUGH: usize = 256 * 1024;

#[cfg(test)]
mod tests;
