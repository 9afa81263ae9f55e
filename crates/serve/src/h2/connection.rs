//! The life of a connection.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use keepwarm_http1::Limits;
use keepwarm_net::h2::{FrameEvent, FrameObserver, FrameTransport, PREFACE, settings};
use keepwarm_net::{Deadlines, ReadBuffer, Transport, WaitKind, now};
use keepwarm_telemetry::meters::{Http2Fault, ListenerCells};
use keepwarm_telemetry::panics::catch_future;
use tokio::time::Instant;

use super::guard::MisuseGuard;
use super::scheduler::Scheduler;
use super::stream::{ConnectionParts, ServerStream};
use super::windows::{BodyWindow, BytesRead};
use crate::h1::RequestGuard;
use crate::listener::Activity;
use crate::{ConnectionInfo, ListenerContext, Outcome, Refusal, Request, ResponseOutcome};

/// How often a connection checks its timeouts: nothing wakes it for them.
const LOOK: Duration = Duration::from_secs(1);
/// How long a connection may take after GOAWAY once no request is in progress.
const GOODBYE: Duration = Duration::from_secs(2);

/// Bytes to read of a client whose preface is invalid.
const LINGER_BYTES: usize = 16 * 1024;

/// A connection whose client has begun to speak HTTP/2.
pub(crate) struct NewConnection {
    pub(crate) io: Transport,
    /// The bytes received so far, the preface first.
    pub(crate) read: ReadBuffer,
    pub(crate) peer: Rc<ConnectionInfo>,
    pub(crate) context: Arc<ListenerContext>,
    pub(crate) cells: &'static ListenerCells,
    pub(crate) activity: Activity,
    pub(crate) opened: Instant,
}

/// Serves a connection to its end.
pub(crate) async fn serve(begun: NewConnection) {
    let NewConnection { io, read, peer, context, cells, activity, opened } = begun;
    if !read.unread().starts_with(PREFACE) {
        cells.count_http2_fault(Http2Fault::Protocol);
        return refuse(io).await;
    }
    cells.http2.add(1);
    let watched = Arc::new(ConnectionObserver::new(cells));
    let handshake = Builder::new()
        .initial_window_size(settings::BODY_WINDOW)
        .initial_connection_window_size(settings::BODIES_WINDOW)
        .max_concurrent_streams(settings::STREAMS as u32)
        .max_header_list_size(list_limit(&context.limits.syntax))
        .max_send_buffer_size(settings::SEND_BUFFER)
        .enable_connect_protocol()
        // The guard counts resets; the crate's own limit of 20 would end a browser's connection that cancels a page.
        .max_pending_accept_reset_streams(settings::STREAMS)
        .handshake(FrameTransport::server(io, read, Arc::clone(&watched)));
    let Ok(Ok(connection)) = tokio::time::timeout(context.limits.head_timeout, handshake).await else {
        return;
    };
    let (mut connection, deadlines) = (connection, Deadlines::new());
    let window = BodyWindow::new(connection.ping_pong());
    let mut serving = ConnectionTask {
        connection,
        window,
        watched,
        peer,
        context,
        deadlines,
        activity,
        cells,
        opened,
        open: Rc::new(Cell::new(0)),
        begun: Vec::new(),
        served: 0,
        refused: 0,
        leaving: None,
    };
    poll_fn(|cx| serving.poll(cx)).await;
    serving.count_refused();
}

/// What the decoder of heads accepts, 32 bytes more for each field (RFC 9113 §6.5.2). Limits below the defaults are compared with the bytes of a complete head, as
/// in HTTP/1.1.
fn list_limit(limits: &Limits) -> u32 {
    let target = limits.request_line.saturating_sub(Limits::REQUEST_LINE);
    let list = limits.header_block.max(Limits::HEADER_BLOCK).saturating_add(target);
    u32::try_from(list).unwrap_or(u32::MAX)
}

/// Ends a connection whose preface is invalid: a connection error (RFC 9113 §3.4), in the version that its client speaks. Our own preface comes first.
async fn refuse(mut io: Transport) {
    /// Empty SETTINGS; GOAWAY for stream 0 with PROTOCOL_ERROR.
    const REFUSAL: [u8; 26] = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    if io.write(&[IoSlice::new(&REFUSAL)]).is_err() {
        return;
    }
    io.shutdown_write();
    // A close while the client still sends would be a reset, and destroy the frames.
    let mut discard = Vec::with_capacity(LINGER_BYTES);
    let rest = async {
        while discard.len() < LINGER_BYTES
            && poll_fn(|cx| io.poll_read(cx, &mut discard)).await.is_ok_and(|got| got > 0)
        {}
    };
    let _ = tokio::time::timeout(GOODBYE, rest).await;
}

struct ConnectionTask {
    connection: Connection<FrameTransport<ConnectionObserver>, Bytes>,
    window: BodyWindow,
    watched: Arc<ConnectionObserver>,
    peer: Rc<ConnectionInfo>,
    context: Arc<ListenerContext>,
    deadlines: Deadlines,
    activity: Activity,
    cells: &'static ListenerCells,
    opened: Instant,
    /// Requests in progress.
    open: Rc<Cell<usize>>,
    /// Requests that have come, and were not looked at.
    begun: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    served: u64,
    /// Heads that came and were refused by the `h2` crate, as counted so far.
    refused: u64,
    /// When GOAWAY was sent, or later, when a request was last in progress.
    leaving: Option<Instant>,
}

impl ConnectionTask {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => self.begin(request, respond),
                Poll::Ready(Some(Err(_)) | None) => {
                    self.serve_begun(cx);
                    return Poll::Ready(());
                }
                Poll::Pending if self.watched.take_misuse() => {
                    let reason = match self.watched.misuse.get() {
                        Some(Http2Fault::Protocol) => Reason::PROTOCOL_ERROR,
                        _ => Reason::ENHANCE_YOUR_CALM,
                    };
                    self.connection.abrupt_shutdown(reason);
                    self.leaving.get_or_insert_with(now);
                }
                // After all that came, so that their responses leave together.
                Poll::Pending if self.serve_begun(cx) => {}
                Poll::Pending if self.window.poll_grow(cx, &self.watched.read, &mut self.connection) => {}
                Poll::Pending => match self.look(cx) {
                    TurnResult::Later => return Poll::Pending,
                    TurnResult::Again => {}
                    TurnResult::Over => return Poll::Ready(()),
                },
            }
        }
    }

    fn begin(&mut self, request: http::Request<RecvStream>, respond: SendResponse<Bytes>) {
        self.served += 1;
        self.activity.set_busy();
        // The time of the next idle period is separate.
        self.deadlines.set(WaitKind::Read, None);
        let (peer, context) = (Rc::clone(&self.peer), Arc::clone(&self.context));
        let shared = ConnectionParts {
            hints: Arc::clone(&self.watched.hints),
            read: Arc::clone(&self.watched.read),
            scheduler: Arc::clone(&self.watched.scheduler),
        };
        let (stream, refusal) = ServerStream::new(request, respond, peer, context, shared);
        let open = StreamGuard::new(&self.open);
        // In a box, because the runtime copies tasks.
        self.begun.push(Box::pin(async move {
            let _open = open;
            serve_stream(stream, refusal).await;
        }));
    }

    /// Serves the requests that have begun since the last time: many get their response at once, and need no task. `false`: there are none.
    fn serve_begun(&mut self, cx: &mut Context<'_>) -> bool {
        let begun = self.begun.len();
        let mut serve = || {
            for mut served in self.begun.drain(..) {
                if served.as_mut().poll(cx).is_pending() {
                    keepwarm_net::spawn_local(served);
                }
            }
        };
        match begun {
            0 | 1 => serve(),
            _ => keepwarm_net::corked(serve),
        }
        begun > 0
    }

    /// Whether a timeout of the connection has passed; every [`LOOK`].
    fn look(&mut self, cx: &mut Context<'_>) -> TurnResult {
        if self.watched.blocked_since().is_none() {
            self.watched.scheduler.handle_idle();
        }
        if self.deadlines.poll_passed(WaitKind::Read, cx) && self.open.get() == 0 {
            // The idle timeout has passed.
            self.deadlines.set(WaitKind::Read, None);
            return self.leave();
        }
        if self.activity.poll_leave(cx) && self.leaving.is_none() {
            // One of many idle ones, evicted because there are too many, or because the process drains.
            self.cells.evicted.add(u64::from(!self.context.draining.load(Ordering::Relaxed)));
            return self.leave();
        }
        if !self.deadlines.poll_passed(WaitKind::Slow, cx) {
            if !self.deadlines.is_set(WaitKind::Slow) {
                self.deadlines.set_after(WaitKind::Slow, LOOK);
            }
            return TurnResult::Later;
        }
        self.deadlines.set_after(WaitKind::Slow, LOOK);
        self.count_refused();
        let (limits, idle) = (&self.context.limits, self.open.get() == 0);
        let late = |since: Instant, limit| now().saturating_duration_since(since) >= limit;
        if self.watched.blocked_since().is_some_and(|since| late(since, limits.write_timeout)) {
            self.cells.count_http2_fault(Http2Fault::WriteTimeout);
            self.watched.gives_up.store(true, Ordering::Relaxed);
            // The transport learns it by its next attempt to write.
            let _ = self.connection.poll_accept(cx);
            return TurnResult::Over;
        }
        // The limit for a whole head, from its first byte: as in HTTP/1. Until it is whole, no other frame can come.
        if self.watched.in_head_since().is_some_and(|since| late(since, limits.head_timeout)) {
            self.watched.judge(Err(Http2Fault::HeadTimeout));
        }
        if let Some(since) = self.leaving {
            if !idle {
                self.leaving = Some(now());
            }
            return if idle && late(since, GOODBYE) { TurnResult::Over } else { TurnResult::Again };
        }
        if self.context.draining.load(Ordering::Relaxed)
            || self.served >= limits.requests
            || late(self.opened, limits.age)
            || self.context.open.takes_turn(self.opened)
        {
            return self.leave();
        }
        match idle {
            true if !self.deadlines.is_set(WaitKind::Read) => {
                self.deadlines.set_after(WaitKind::Read, limits.idle);
                self.activity.set_idle(now(), self.served > 0);
            }
            true => {}
            false => self.deadlines.set(WaitKind::Read, None),
        }
        TurnResult::Again
    }

    /// Counts and records heads that the `h2` crate refused, which it does not report: those that came and were not given to us.
    fn count_refused(&mut self) {
        let unfinished = u64::from(self.watched.in_head_since().is_some());
        let heads = self.watched.heads.load(Ordering::Relaxed).saturating_sub(unfinished);
        let refused = heads.saturating_sub(self.served);
        self.cells.http2_refused.add(refused.saturating_sub(self.refused));
        (self.refused..refused).for_each(|_| self.record_refused());
        self.refused = self.refused.max(refused);
    }

    /// What a malformed request of HTTP/1 leaves, too. The crate keeps its head and the status to itself.
    fn record_refused(&self) {
        let mut request = Request::new(Rc::clone(&self.peer));
        request.http2 = true;
        request.number = self.context.next_request_number();
        request.notes.reason = Some("http2_refused");
        // Whatever the crate has sent (431, a reset) is all of its response: nothing of ours was cut.
        let (fate, elapsed) = (ResponseOutcome::Complete, Duration::ZERO);
        self.context.handler.finished(&request, &Outcome { status: 0, body_bytes: 0, fate, elapsed });
    }

    /// GOAWAY, twice (RFC 9113 §6.8): requests already sent still get a response.
    fn leave(&mut self) -> TurnResult {
        if self.leaving.is_none() {
            self.leaving = Some(now());
            self.connection.graceful_shutdown();
        }
        TurnResult::Again
    }
}

enum TurnResult {
    Later,
    /// Something has changed.
    Again,
    Over,
}

/// Serves one request. A panic costs that request alone: 500 where nothing of a response was handed over, else RST_STREAM.
async fn serve_stream(mut stream: Box<ServerStream>, refusal: Option<Refusal>) {
    let handler = Arc::clone(&stream.context.handler);
    let busy = RequestGuard::new(&stream.context);
    let responded = {
        let responding = pin!(stream.respond(&*handler, refusal));
        catch_future(responding).await
    };
    let Err(panic) = responded else {
        drop(busy);
        return stream.discard_rest().await;
    };
    let last = pin!(stream.respond_to_panic(&*handler, &panic));
    if let Err(second) = catch_future(last).await {
        second.report("request", None, None);
    }
}

/// Counts a request under way on its connection.
struct StreamGuard(Rc<Cell<usize>>);

impl StreamGuard {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Observes the frames of a connection.
struct ConnectionObserver {
    cells: &'static ListenerCells,
    guard: Mutex<MisuseGuard>,
    misuse: OnceLock<Http2Fault>,
    told: Mutex<bool>,
    /// The client has taken nothing for too long.
    gives_up: AtomicBool,
    /// Since when the client has taken nothing.
    blocked: Mutex<Option<Instant>>,
    /// Since when it has been in the middle of a head, or of its preface.
    in_head: Mutex<Option<Instant>>,
    /// Informational responses not yet taken by the socket.
    hints: Arc<AtomicUsize>,
    /// Streams that the client has begun, and the last of them.
    heads: AtomicU64,
    last_stream: AtomicU32,
    /// Bytes of bodies that were read.
    read: Arc<BytesRead>,
    /// The order of the responses.
    scheduler: Arc<Scheduler>,
}

impl ConnectionObserver {
    fn new(cells: &'static ListenerCells) -> Self {
        Self {
            cells,
            guard: Mutex::new(MisuseGuard::new(now())),
            misuse: OnceLock::new(),
            told: Mutex::new(false),
            gives_up: AtomicBool::new(false),
            blocked: Mutex::new(None),
            in_head: Mutex::new(Some(now())),
            hints: Arc::default(),
            heads: AtomicU64::new(0),
            last_stream: AtomicU32::new(0),
            read: Arc::default(),
            scheduler: Arc::default(),
        }
    }

    /// Whether the client was found to misuse the connection; reported once.
    fn take_misuse(&self) -> bool {
        let Some(misuse) = self.misuse.get() else { return false };
        let told = std::mem::replace(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner), true);
        if !told {
            self.cells.count_http2_fault(*misuse);
            tracing::warn!(
                name: "http2_misuse",
                reason = misuse.name(), "client misuses HTTP/2; closing its connection"
            );
        }
        !told
    }

    fn blocked_since(&self) -> Option<Instant> {
        *self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_head_since(&self) -> Option<Instant> {
        *self.in_head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// We send GOAWAY: without a verdict of the guard, for an error that the `h2` crate found.
    fn note_goodbye(&self, code: u32) {
        if code == 0 || self.misuse.get().is_some() {
            return;
        }
        let fault = match Reason::from(code) {
            // The crate's own limits.
            Reason::ENHANCE_YOUR_CALM => Http2Fault::Excess,
            _ => Http2Fault::Protocol,
        };
        self.cells.count_http2_fault(fault);
        tracing::info!(
            name: "http2_error",
            reason = fault.name(), code, "client broke the rules of HTTP/2; closing its connection"
        );
    }

    fn judge(&self, verdict: Result<(), Http2Fault>) -> bool {
        if let Err(misuse) = verdict {
            let _ = self.misuse.set(misuse);
        }
        self.misuse.get().is_none()
    }
}

impl FrameObserver for ConnectionObserver {
    fn handle_read(&self, bytes: &[u8]) -> io::Result<()> {
        self.cells.received.add(bytes.len() as u64);
        Ok(())
    }

    fn handle_received(&self, passed: FrameEvent) -> bool {
        match passed {
            FrameEvent::Reset { stream, .. } => {
                self.cells.http2_client_resets.add(1);
                self.scheduler.handle_reset(stream);
            }
            FrameEvent::PriorityUpdate { stream: stream @ 1.., signal } => {
                self.scheduler.update(stream, signal)
            }
            // The first head of a stream; another one has its trailers.
            FrameEvent::Headers(stream) if self.last_stream.fetch_max(stream, Ordering::Relaxed) < stream => {
                self.heads.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        self.judge(guard.handle_received(passed, now()))
    }

    fn handle_sent(&self, passed: FrameEvent) {
        if let FrameEvent::Headers(_) = passed {
            // It may be another head: then one more of the few that may wait is free.
            let _ =
                self.hints.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        }
        match passed {
            FrameEvent::Data { stream, length } => self.scheduler.handle_sent(stream, length),
            FrameEvent::Reset { stream, code } => {
                self.cells.http2_our_resets.add(u64::from(code != 0));
                self.scheduler.handle_reset(stream);
            }
            FrameEvent::GoAway { code, .. } => self.note_goodbye(code),
            _ => {}
        }
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        self.judge(guard.handle_sent(passed));
    }

    fn handle_in_head(&self, in_head: bool) {
        *self.in_head.lock().unwrap_or_else(PoisonError::into_inner) = in_head.then(now);
    }

    fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Relaxed)
    }

    /// Stops reading from a client that misuses the connection.
    fn holds_back(&self) -> bool {
        self.misuse.get().is_some()
    }

    fn handle_written(&self, count: usize) {
        self.cells.sent.add(count as u64);
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        match count {
            0 => drop(blocked.get_or_insert_with(now)),
            _ => *blocked = None,
        }
    }
}
