//! The task that reads from one worker, on the data-plane thread that owns it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_net::{Deadlines, Io, ReadBuffer, Socket, WaitKind};
use keepwarm_telemetry::panics::{catch, catch_future};
use keepwarm_wire::WireFault;
use keepwarm_wire::frame::{FromWorker, Hello, OwnedStrings, Response};
use keepwarm_wire::session::SessionEvent;
use rustix::io::Errno;

use super::activity::RequestSummary;
use super::app::{App, WorkerCapabilities};
use super::call::{Call, Item};
use super::leaks::AfterGrowth;
use super::link::{FlushResult, KillCause, Link, LinkInner, OrphanedRequests, PostResponseWork};
use super::profile::Adapter;
use crate::supervisor::LinkEvent;

/// Read at a time: a whole largest frame, so that a body block costs one read.
const READ: usize = 128 * 1024;
/// Read at a time from a worker whose responses have been small.
const READ_SMALL: usize = 16 * 1024;

/// Pause before a retry when the kernel lacks a resource. Arbitrary: long enough not to spin, short compared to any timeout.
const AGAIN: Duration = Duration::from_millis(100);

/// Reads what a worker says until its socket ends; then everything that it held is lost.
pub(super) async fn drive(link: Arc<Link>, socket: Socket) {
    let Some(app) = link.app.upgrade() else { return };
    let mut driver = Driver {
        link: Arc::clone(&link),
        app,
        io: Io::new(socket),
        buffer: ReadBuffer::default(),
        room: READ_SMALL,
        deadlines: Deadlines::new(),
        post_response: None,
        sockets: Vec::new(),
    };
    let served = {
        let serving = pin!(driver.serve());
        catch_future(serving).await
    };
    let end = served.unwrap_or_else(|panic| {
        panic.report("worker_link", Some(&link.key.app), None);
        DisconnectReason::Panicked
    });
    if let Err(panic) = catch(|| driver.finish(end)) {
        panic.report("worker_link", Some(&link.key.app), None);
        // Whatever was not done of it: the worker is gone for everybody.
        link.kill(PANICKED);
        link.report(LinkEvent::Closed { worker: link.key.clone(), reason: PANICKED.to_owned() });
    }
}

/// Why a worker is killed that nobody reads from any more.
const PANICKED: &str = "lost its link through a bug in Keepwarm";

struct Driver {
    link: Arc<Link>,
    app: Arc<App>,
    io: Io,
    buffer: ReadBuffer,
    room: usize,
    deadlines: Deadlines,
    /// The worker's work after a response.
    post_response: Option<PostResponseWork>,
    /// Those that the worker has passed, for HIJACK frames that have not come whole.
    sockets: Vec<Socket>,
}

/// Why the socket of a worker is closed.
enum DisconnectReason {
    /// It was closed.
    Closed,
    /// It was closed with bytes of ours unread: the process died before it had looked at them.
    ClosedUnread,
    /// The worker broke the rules.
    Fault(WireFault),
    /// We did.
    Panicked,
}

impl Driver {
    async fn serve(&mut self) -> DisconnectReason {
        self.welcome();
        poll_fn(|cx| self.poll(cx)).await
    }

    fn welcome(&self) {
        let number = self.link.key.number.to_string();
        let workers = self.app.policy().workers.to_string();
        let software = concat!("keepwarm/", env!("CARGO_PKG_VERSION"));
        let fields: [(&str, &str); 4] =
            [("app", &self.link.key.app), ("worker", &number), ("workers", &workers), ("software", software)];
        let mut frame = Vec::new();
        let pairs = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        if self.link.lock().session.welcome(pairs, &mut frame).is_ok() {
            self.link.write(&frame);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<DisconnectReason> {
        loop {
            if self.post_response.is_some() && self.deadlines.poll_passed(WaitKind::Response, cx) {
                self.tail_is_late();
            }
            let room = self.room;
            match self.poll_read(cx, room) {
                Poll::Ready(Ok(0)) => return Poll::Ready(DisconnectReason::Closed),
                Poll::Ready(Ok(got)) => {
                    self.room = if got >= READ_SMALL { READ } else { READ_SMALL };
                    if let Err(fault) = self.read_frames() {
                        return Poll::Ready(DisconnectReason::Fault(fault));
                    }
                    continue;
                }
                // Linux: the peer of a Unix socket that dies with bytes unread leaves ECONNRESET.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Poll::Ready(DisconnectReason::ClosedUnread);
                }
                // The reactor takes no watch for now. The worker is well.
                Poll::Ready(Err(error)) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
                    self.try_later(cx);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(DisconnectReason::Closed),
                Poll::Pending => {}
            }
            // Room to write is the other thing waited for.
            match self.link.flush(cx.waker()) {
                FlushResult::Nothing => self.io.forget_writable(),
                FlushResult::ForRoom => match self.io.poll_writable(cx) {
                    Poll::Ready(Ok(())) => continue,
                    // The reactor takes no watch, not even in the place of the one that there is: it may later.
                    Poll::Ready(Err(_)) => self.try_later(cx),
                    Poll::Pending => {}
                },
                FlushResult::ForLater => self.try_later(cx),
            }
            return Poll::Pending;
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        match self.link.hijacks() {
            true => self.io.poll_read_with_sockets(cx, self.buffer.storage(room), &mut self.sockets),
            false => self.io.poll_read(cx, self.buffer.storage(room)),
        }
    }

    /// Nothing will tell when there is room, or something to read: tries again after a while.
    fn try_later(&self, cx: &Context<'_>) {
        self.deadlines.set_after(WaitKind::Write, AGAIN);
        self.deadlines.poll_passed(WaitKind::Write, cx);
    }

    /// Handles all frames that have come whole, under one lock of the link.
    fn read_frames(&mut self) -> Result<(), WireFault> {
        let (mut used, mut freed) = (0, 0_usize);
        let mut inner = self.link.lock();
        inner.heard += 1;
        let result = loop {
            let rest = self.buffer.unread().get(used..).unwrap_or_default();
            let (frame, length) = match FromWorker::decode(rest) {
                Ok(Some(decoded)) => decoded,
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault),
            };
            used += length;
            let passed = match frame {
                FromWorker::Hijack { .. } if !self.sockets.is_empty() => Some(self.sockets.remove(0)),
                _ => None,
            };
            match handle(&mut inner, frame, passed) {
                Ok(Handled::Done) => {}
                Ok(Handled::SlotFree) => freed += 1,
                Ok(Handled::Connection(event)) => {
                    drop(inner);
                    connection_event(&self.link, &self.app, event);
                    inner = self.link.lock();
                }
                Err(fault) => break Err(fault),
            }
        };
        let mut frames = Vec::new();
        inner.session.poll_credit(&mut frames);
        inner.write(self.link.kind.socket(), &frames);
        let post_response = inner.post_response.clone();
        drop(inner);
        self.buffer.consume(used);
        if self.buffer.is_empty() {
            self.buffer.reset(READ_SMALL);
        }
        if result.is_ok() {
            // At once, before the clients' tasks have their turn: the worker waits.
            (0..freed).for_each(|_| self.app.place_is_free(&self.link));
        }
        self.keep_time_of(post_response);
        result
    }

    /// The request timeout applies to work after a response, too: nothing else would notice that it never ends.
    fn keep_time_of(&mut self, post_response: Option<PostResponseWork>) {
        match (&self.post_response, &post_response) {
            (None, None) => return,
            (Some(known), Some(post_response)) if known.stream == post_response.stream => return,
            (_, Some(_)) => self.deadlines.set_after(WaitKind::Response, self.app.policy().request_timeout),
            (Some(_), None) => self.deadlines.set(WaitKind::Response, None),
        }
        self.post_response = post_response;
    }

    fn tail_is_late(&mut self) {
        self.deadlines.set(WaitKind::Response, None);
        let summary = self
            .post_response
            .as_ref()
            .and_then(|post_response| post_response.call.as_ref())
            .map(|call| &call.summary);
        tracing::error!(
            name: "worker_hung",
            app = %self.app.name, worker = self.link.key.number, pid = self.link.key.pid,
            id = summary.map(|summary| tracing::field::display(&summary.id)),
            route = summary.map(tracing::field::display), limit = ?self.app.policy().request_timeout,
            "worker still busy after its response"
        );
        self.link.give_up(summary, "did not finish its work after a response");
    }

    fn finish(self, end: DisconnectReason) {
        let unprocessed = matches!(end, DisconnectReason::ClosedUnread);
        let reason = match end {
            DisconnectReason::Closed | DisconnectReason::ClosedUnread => "closed its wire".to_owned(),
            DisconnectReason::Fault(fault) => {
                tracing::error!(
                    name: "wire_fault",
                    app = %self.link.key.app, worker = self.link.key.number, pid = self.link.key.pid,
                    fault = fault.name(),
                    "{fault}"
                );
                let reason = format!("violated the wire protocol: {fault}");
                self.link.kill(&reason);
                reason
            }
            DisconnectReason::Panicked => {
                self.link.kill(PANICKED);
                PANICKED.to_owned()
            }
        };
        self.app.remove(&self.link);
        let OrphanedRequests { calls, unread, kill_cause, planned } = self.link.die(unprocessed);
        // Those that waited behind another had not begun (`spec/wire.md` §4).
        let begun = |(stream, call): &(u32, Arc<Call>)| call.is_in_work() && unread != Some(*stream);
        let suspects: Vec<RequestSummary> = match &kill_cause {
            Some(KillCause { culprit: Some(culprit), .. }) => vec![culprit.clone()],
            // It was ended, after all the time that it had to finish.
            _ if planned => Vec::new(),
            _ => calls.iter().filter(|call| begun(call)).map(|(_, call)| call.summary.clone()).collect(),
        };
        // Before anybody gives one of them again.
        if !suspects.is_empty() {
            self.app.handle_death(&suspects);
        }
        let kill_reason = kill_cause.map(|kill_cause| kill_cause.kill_reason);
        for held in calls {
            held.1.put(Item::Lost { unprocessed: !begun(&held), kill_reason });
        }
        self.link.report(LinkEvent::Closed { worker: self.link.key.clone(), reason });
    }
}

/// What is left to do of a frame when the link's lock is given up.
enum Handled<'f> {
    /// Nothing.
    Done,
    /// A slot of the worker is free: it can get another request.
    SlotFree,
    /// An event of the connection.
    Connection(SessionEvent<'f>),
}

/// Passes a frame on to the request that it is about, with the socket that came with it.
fn handle<'f>(
    inner: &mut LinkInner,
    frame: FromWorker<'f>,
    passed: Option<Socket>,
) -> Result<Handled<'f>, WireFault> {
    let event = inner.session.handle_frame(frame)?;
    let stream = event.stream();
    match event {
        SessionEvent::Busy { end } => return Ok(Handled::free(inner.set_busy(!end))),
        SessionEvent::Credit { stream: 0 } => {
            inner.wake_calls();
            return Ok(Handled::Done);
        }
        event if stream == 0 => return Ok(Handled::Connection(event)),
        _ => {}
    }
    let (call, freed) = match event.ended() {
        Some(stream) => inner.end_stream(stream),
        None => (inner.calls.get(&stream).cloned(), false),
    };
    let Some(call) = call else { return Ok(Handled::free(freed)) };
    match event {
        SessionEvent::Hijack { stream } => inner.hijack(stream, &call, passed),
        SessionEvent::Credit { .. } => call.wake(),
        SessionEvent::Inform { status, fields, .. } => {
            call.put_hint(Item::Inform(status, OwnedStrings::new(fields, &[])));
        }
        event => {
            if let Some(item) = item(event) {
                call.put(item);
            }
        }
    }
    Ok(Handled::free(freed))
}

impl Handled<'_> {
    fn free(freed: bool) -> Self {
        if freed { Self::SlotFree } else { Self::Done }
    }
}

fn connection_event(link: &Arc<Link>, app: &Arc<App>, event: SessionEvent<'_>) {
    match event {
        SessionEvent::Hello(hello) => ready_now(link, app, hello),
        SessionEvent::Pong { .. } => link.ponged(),
        SessionEvent::Samples(samples) => link.handle_samples(&samples),
        SessionEvent::Growth(growth) => match link.handle_growth(&growth) {
            AfterGrowth::Ready => app.measure_next(link),
            AfterGrowth::SlotFree => app.place_is_free(link),
            AfterGrowth::Nothing => {}
        },
        SessionEvent::Drain => {
            if app.close(link) {
                link.drain();
            }
            link.report(LinkEvent::WantsDrain { worker: link.key.clone() });
        }
        _ => {}
    }
}

fn ready_now(link: &Arc<Link>, app: &Arc<App>, hello: Hello<'_>) {
    let text = |name: &str| String::from_utf8_lossy(hello.about(name).unwrap_or(b"unknown")).into_owned();
    let kind = text("kind");
    link.lock().in_order = hello.streams == 1;
    link.set_hijacks(hello.capabilities().hijack);
    link.set_adapter(Adapter::of_hello(&text("adapter"), hello.capabilities()));
    app.add_to_profile(link);
    app.welcome_worker(link, WorkerCapabilities::of_hello(&hello, &kind, &text("language")));
    link.report(LinkEvent::Ready {
        worker: link.key.clone(),
        adapter: text("adapter"),
        kind,
        language: text("language"),
        streams: hello.streams,
    });
}

/// What an event is to the client's task; `None`: nothing.
fn item(event: SessionEvent<'_>) -> Option<Item> {
    Some(match event {
        SessionEvent::Response(Response { status, fields, body, end, close, .. }) => {
            Item::Response { status, end, close, fields: OwnedStrings::new(fields, body) }
        }
        SessionEvent::Trailers { fields, .. } => Item::Trailers(OwnedStrings::new(fields, &[])),
        // Costs its worker no credit: it would be kept without bound for a client that reads nothing.
        SessionEvent::Data { bytes: [], over: false, .. } => return None,
        SessionEvent::Data { bytes, over, .. } => Item::Data { bytes: bytes.to_vec(), over },
        SessionEvent::Want { .. } => Item::Want,
        SessionEvent::Text { bytes, end, .. } => Item::Message { text: true, bytes: bytes.to_vec(), end },
        SessionEvent::Binary { bytes, end, .. } => Item::Message { text: false, bytes: bytes.to_vec(), end },
        SessionEvent::Close { code, reason, .. } => Item::Close(code, reason.to_owned()),
        SessionEvent::Reset { code, reason, unprocessed, .. } => {
            Item::Reset { code, reason: reason.to_owned(), unprocessed }
        }
        SessionEvent::Hello(_)
        | SessionEvent::Pong { .. }
        | SessionEvent::Drain
        | SessionEvent::Busy { .. }
        | SessionEvent::Credit { .. }
        | SessionEvent::Inform { .. }
        | SessionEvent::Hijack { .. }
        | SessionEvent::Samples(_)
        | SessionEvent::Growth(_)
        | SessionEvent::Dropped { .. } => return None,
    })
}

/// What a driver does with the frames of a worker that a test plays.
#[cfg(test)]
pub(super) fn hear(link: &Arc<Link>, app: &Arc<App>, bytes: &[u8]) {
    let (frame, length) = FromWorker::decode(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len(), "one frame");
    let mut inner = link.lock();
    let handled = handle(&mut inner, frame, None).unwrap();
    drop(inner);
    match handled {
        Handled::Done => {}
        Handled::SlotFree => app.place_is_free(link),
        Handled::Connection(event) => connection_event(link, app, event),
    }
}
