//! The life of a server-role connection: idle, head, exchange, then the next request or the end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_http1::Event;
use keepwarm_net::h2::{PREFACE, PREFACE_LINE};
use keepwarm_net::{IdleState, Transport, WaitKind, now};
use keepwarm_telemetry::RequestId;
use keepwarm_telemetry::panics::{Panic, catch_future};
use tokio::time::Instant;

use super::request_body::HEAD_READ;
use super::response::DRAIN_BODY;
use super::stream::{ExchangeState, ResponseState, Stream};
use crate::h2;
use crate::listener::encrypted;
use crate::refusals::{HEAD_TIMEOUT, PANICKED};
use crate::{
    ClientLoss, ConnectionInfo, Exchange, Frontend, ListenerContext, Outcome, Refusal, ResponseOutcome,
};

/// A closing connection is read this long, and this much, for bytes that its client was still sending: if it closed at once, the kernel would
/// reset the connection, which can destroy our last response in flight (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);
/// The fault of a client that speaks TLS to a listener without it.
const TLS_ON_PLAIN: &str = "tls_on_plain";
/// Bytes in one read of discarded data.
const LINGER_READ: usize = 64 * 1024;

/// Serves one connection until it ends or panics: a panic costs this connection, and its current request gets 500 if nothing of a response
/// has left. One `catch_unwind` covers all of it: without a panic it costs two stores for each poll of the task.
pub(crate) async fn serve(io: Transport, peer: ConnectionInfo, context: Arc<ListenerContext>) {
    let mut stream = Stream::new(io, peer, context);
    let served = {
        let requests = pin!(stream.serve_requests());
        catch_future(requests).await
    };
    match served {
        Ok(ConnectionEnd::Over) => stream.rest(now()),
        Ok(ConnectionEnd::Http2) => {
            let connection = pin!(h2::serve(stream.into_http2()));
            if let Err(panic) = catch_future(connection).await {
                panic.report("connection", None, None);
            }
        }
        Err(panic) => {
            let last = pin!(stream.respond_to_panic(&panic));
            if let Err(second) = catch_future(last).await {
                second.report("connection", None, None);
            }
        }
    }
}

/// How HTTP/1 on a connection ends.
enum ConnectionEnd {
    Over,
    /// The client speaks HTTP/2.
    Http2,
}

/// Counts a request in progress.
pub(crate) struct RequestGuard(Arc<ListenerContext>);

impl RequestGuard {
    pub(crate) fn new(context: &Arc<ListenerContext>) -> Self {
        context.open.begin_request();
        Self(Arc::clone(context))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.open.end_request(self.0.draining.load(Ordering::Relaxed));
    }
}

/// The next input on a connection.
enum NextInput {
    Request,
    /// Send this error response and close.
    Refused(Refusal),
    /// The client speaks HTTP/2.
    Http2,
    /// A partial head; the client has left.
    BrokenOff(ClientLoss),
    /// Nothing; close.
    Over,
}

/// Whether a connection begins as HTTP/2.
#[derive(PartialEq, Eq)]
enum PrefaceState {
    /// It does not.
    None,
    /// It does, as far as its bytes go.
    Part,
    /// The preface is complete, or known to be wrong.
    Whole,
}

#[derive(PartialEq, Eq)]
enum Persistence {
    Keep,
    Close,
}

impl Stream {
    async fn serve_requests(&mut self) -> ConnectionEnd {
        loop {
            let next = self.next_request().await;
            let handler = Arc::clone(&self.context.handler);
            let _busy = RequestGuard::new(&self.context);
            match next {
                NextInput::Request => {
                    self.under_way = true;
                    handler.handle(&mut Exchange::http1(self)).await;
                }
                NextInput::Refused(refusal) => self.refuse(&*handler, &refusal),
                NextInput::BrokenOff(gone) => {
                    self.record_broken_head(&*handler, gone);
                    return ConnectionEnd::Over;
                }
                NextInput::Http2 => return ConnectionEnd::Http2,
                NextInput::Over => return ConnectionEnd::Over,
            }
            if self.finish(&*handler).await == Persistence::Close {
                return ConnectionEnd::Over;
            }
        }
    }

    /// Reports a panic, and ends its request: with 500 if no byte of a response has left, else by cutting the response. The connection ends in any case,
    /// and its buffers, which may be in any state, go to no other.
    async fn respond_to_panic(&mut self, panic: &Panic) {
        if !self.under_way {
            return panic.report("connection", None, None);
        }
        let request = &self.request;
        panic.report("request", request.notes.target.as_deref(), Some(RequestId::new(request.number)));
        let handler = Arc::clone(&self.context.handler);
        let _busy = RequestGuard::new(&self.context);
        self.request.notes.routed.response_edits = None;
        self.request.notes.routed.takes_app_pages = false;
        self.request.notes.routed.pending_page = None;
        self.request.set_compression(None);
        self.take_back();
        match self.state.response {
            // A head that is queued, if any, was being written when it panicked.
            ResponseState::None if self.storage.out.is_untouched() => {
                self.storage.out.clear();
                self.state.refused = true;
                PANICKED.respond(&mut Exchange::http1(self));
            }
            _ => self.abort(PANICKED.reason),
        }
        self.finish(&*handler).await;
    }

    async fn next_request(&mut self) -> NextInput {
        loop {
            let quiet = !self.awake || self.storage.read.is_empty();
            if quiet && !poll_fn(|cx| self.poll_first_bytes(cx)).await {
                return NextInput::Over;
            }
            self.request.received = Instant::now();
            let until = self.request.received.checked_add(self.context.limits.head_timeout);
            self.deadlines.set(WaitKind::Read, until);
            let next = poll_fn(|cx| self.poll_head(cx)).await;
            self.deadlines.set(WaitKind::Read, None);
            match next {
                Some(next) => return next,
                None => self.rest(Instant::now()),
            }
        }
    }

    /// Waits, without a buffer, for the first bytes on a connection. `false`: it has ended.
    fn poll_first_bytes(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            // A new connection has usually sent something already.
            if self.awake || self.io.is_fresh() {
                self.wake();
                match self.poll_fill(cx, HEAD_READ) {
                    Poll::Ready(got) => return Poll::Ready(got.is_ok_and(|got| got > 0)),
                    Poll::Pending => self.rest(Instant::now()),
                }
            }
            match self.io.poll_readable(cx) {
                Poll::Ready(Ok(())) => self.wake(),
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending if self.must_leave(cx) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether a silent connection must end: its idle time is over, or it was asked to leave. A client that has sent something by then is served: the socket itself
    /// is checked, since the reactor may be late. Bytes that cross our FIN are lost, as with every close (RFC 9112 §9.6); shutting our side first
    /// would not save them, since no response could be written any more.
    fn must_leave(&mut self, cx: &Context<'_>) -> bool {
        let late = self.deadlines.poll_passed(WaitKind::Read, cx);
        let evicted = self.activity.poll_leave(cx);
        if !self.deadlines.is_set(WaitKind::Read) {
            self.deadlines.set_after(WaitKind::Read, self.context.limits.idle);
        }
        if !(late || evicted) {
            return false;
        }
        if self.io.look() == IdleState::Noisy {
            // Under TLS the look has taken it from the socket: the reactor has nothing to report.
            if self.io.is_fresh() {
                cx.waker().wake_by_ref();
            }
            return false;
        }
        if evicted && !self.is_draining() {
            self.cells.evicted.add(1);
        }
        true
    }

    /// `None`: only an empty line has come, which old clients send after a body (RFC 9112 §2.2). No head has begun, and none is late.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Option<NextInput>> {
        loop {
            let preface = self.preface();
            if preface == PrefaceState::Whole {
                return Poll::Ready(Some(NextInput::Http2));
            }
            // Half of a preface is also half of an HTTP/1 request line.
            let unread = match preface {
                PrefaceState::None => self.storage.read.unread(),
                PrefaceState::Part | PrefaceState::Whole => &[],
            };
            match self.decoder.decode(unread, &mut self.request.head) {
                Ok(decoded) => {
                    self.storage.read.consume(decoded.consumed);
                    match decoded.event {
                        Event::Head => {
                            self.begin();
                            if self.state.body_done {
                                // The end of a message without a body needs no further bytes.
                                let end = self.decoder.decode(&[], &mut self.request.head);
                                debug_assert!(end.is_ok_and(|decoded| decoded.event == Event::End));
                            }
                            return Poll::Ready(Some(NextInput::Request));
                        }
                        Event::NeedMore if decoded.consumed > 0 && self.storage.read.is_empty() => {
                            return Poll::Ready(None);
                        }
                        Event::NeedMore => {}
                        // None of these comes before a head; a decoder that returns one has nothing to serve.
                        Event::Data { .. } | Event::Trailers | Event::End | Event::Informational => {
                            return Poll::Ready(Some(NextInput::Over));
                        }
                    }
                }
                Err(fault) => return Poll::Ready(Some(NextInput::Refused((&fault).into()))),
            }
            match self.poll_fill(cx, HEAD_READ) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Some(self.left_in_head(ClientLoss::Closed))),
                Poll::Ready(Err(_)) => return Poll::Ready(Some(self.left_in_head(ClientLoss::Reset))),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending if self.deadlines.poll_passed(WaitKind::Read, cx) => {
                    let agreed = self.request.peer.tls.is_some();
                    let certain = agreed || self.storage.read.unread().starts_with(PREFACE_LINE);
                    if preface == PrefaceState::Part && certain {
                        return Poll::Ready(Some(NextInput::Http2));
                    }
                    return Poll::Ready(Some(NextInput::Refused(Refusal::of(&HEAD_TIMEOUT, &[]))));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether a new connection begins as HTTP/2 (RFC 9113 §3.4), if that is enabled.
    fn preface(&self) -> PrefaceState {
        let unread = self.storage.read.unread();
        match unread.get(..PREFACE.len()) {
            _ if self.served > 0 || unread.is_empty() => PrefaceState::None,
            // RFC 9113 §3.3: over TLS it is agreed on by ALPN, and only by that.
            _ if self.request.peer.tls.as_ref().map_or(!self.context.limits.http2, |tls| !tls.http2) => {
                PrefaceState::None
            }
            Some(begin) if begin == PREFACE => PrefaceState::Whole,
            None if PREFACE.starts_with(unread) => PrefaceState::Part,
            // A wrong continuation: an error of HTTP/2, not a request of HTTP/1.
            _ if unread.starts_with(PREFACE_LINE) => PrefaceState::Whole,
            // So is anything else where HTTP/2 was agreed on.
            _ if self.request.peer.tls.is_some() => PrefaceState::Whole,
            Some(_) | None => PrefaceState::None,
        }
    }

    /// The connection, with the bytes already read.
    fn into_http2(self) -> h2::NewConnection {
        self.deadlines.set(WaitKind::Read, None);
        h2::NewConnection {
            io: self.io,
            read: self.storage.read,
            peer: self.request.peer,
            context: self.context,
            cells: self.cells,
            activity: self.activity,
            opened: self.opened,
        }
    }

    fn left_in_head(&self, gone: ClientLoss) -> NextInput {
        match self.storage.read.is_empty() {
            true => NextInput::Over,
            false => NextInput::BrokenOff(gone),
        }
    }

    /// Nobody is left to read a response, but the record shows the request that got none.
    fn record_broken_head(&mut self, handler: &dyn Frontend, gone: ClientLoss) {
        // The head is that of the previous request, or partial.
        self.request.head = keepwarm_http1::RequestHead::default();
        self.begin();
        self.request.notes.reason = Some("head_incomplete");
        let elapsed = self.request.received.elapsed();
        handler.finished(
            &self.request,
            &Outcome { status: 0, body_bytes: 0, fate: ResponseOutcome::ClientLost(gone), elapsed },
        );
    }

    /// Responds to a malformed request.
    fn refuse(&mut self, handler: &dyn Frontend, refusal: &Refusal) {
        // After a decode fault the head is that of the previous request, or partial: neither is this request's, and with HEAD, its refusal
        // would be empty.
        self.request.head = keepwarm_http1::RequestHead::default();
        self.begin();
        self.state.refused = true;
        // The end of its body is unknown, and so is whether it has one.
        self.state.body_done = true;
        if refusal.name == TLS_ON_PLAIN {
            encrypted::report_tls_on_plain(&self.request.peer, &self.context.meter.name);
        }
        handler.refuse(&mut Exchange::http1(self), refusal);
    }

    /// Finishes an exchange: writes the rest, and decides whether the connection is kept.
    async fn finish(&mut self, handler: &dyn Frontend) -> Persistence {
        if !self.over() && self.state.websocket.is_none() && !self.state.tunnel {
            self.abort("handler_gave_up");
        }
        // A reset also destroys earlier responses that the client has not read yet (RFC 9112 §9.6): a client may send its next request first.
        let resets = matches!(self.state.response, ResponseState::Cut)
            && !(self.served > 0 && self.state.shows_cut && self.broken.is_none());
        let flushed = match self.state.response {
            ResponseState::Cut if resets => {
                self.io.reset_on_close();
                Ok(())
            }
            _ => poll_fn(|cx| self.poll_flush(cx)).await,
        };
        let fate = match (&self.state.response, flushed) {
            (_, Err(gone)) => ResponseOutcome::ClientLost(gone),
            (ResponseState::Cut, Ok(())) => {
                let gone = self.broken.or(self.state.client_lost);
                gone.map_or(ResponseOutcome::Cut, ResponseOutcome::ClientLost)
            }
            (_, Ok(())) => ResponseOutcome::Complete,
        };
        let ended = Instant::now();
        let outcome = Outcome {
            status: self.state.status,
            body_bytes: self.state.body_sent,
            fate,
            elapsed: ended.saturating_duration_since(self.request.received),
        };
        self.under_way = false;
        handler.finished(&self.request, &outcome);
        if fate != ResponseOutcome::Complete {
            match fate {
                ResponseOutcome::ClientLost(ClientLoss::TooSlow) => {
                    self.cells.too_slow.add(1);
                    self.io.reset_on_close();
                }
                _ if !resets && self.broken.is_none() => self.linger().await,
                _ => {}
            }
            return Persistence::Close;
        }
        self.served += 1;
        if self.state.websocket.as_ref().is_some_and(|socket| socket.may_bring_more()) {
            self.linger().await;
            return Persistence::Close;
        }
        let ResponseState::Ended { keep } = self.state.response else {
            return Persistence::Close;
        };
        let waits_for_body = !self.state.body_done;
        if keep && self.drain_body().await {
            self.continue_or_rest(if waits_for_body { Instant::now() } else { ended });
            return Persistence::Keep;
        }
        if self.state.refused
            || !self.state.body_done
            || !self.storage.read.is_empty()
            || self.more_may_come()
        {
            self.linger().await;
        }
        Persistence::Close
    }

    /// Whether the client, which would have kept the connection, may have sent its next request before it sees the end. Closing then would
    /// reset the connection, and destroy this response (RFC 9112 §9.6).
    fn more_may_come(&self) -> bool {
        self.state.websocket.is_none() && !self.state.tunnel && self.state.facts.wants_persistence()
    }

    /// `now`: when nothing was left to read or to write. The clock is not read again for it.
    fn continue_or_rest(&mut self, now: Instant) {
        self.state = ExchangeState::new(self.state.facts, &self.context.limits);
        if self.storage.read.is_empty() {
            self.rest(now);
            self.deadlines.set(WaitKind::Read, now.checked_add(self.context.limits.idle));
        }
    }

    /// Reads the rest of a body that the response did not wait for. `false`: it did not come, and the connection is unusable.
    async fn drain_body(&mut self) -> bool {
        if self.state.body_done {
            return true;
        }
        self.state.body_limit = Some(self.state.body_received + DRAIN_BODY);
        let mut discard = Vec::new();
        while !self.state.body_done {
            discard.clear();
            if poll_fn(|cx| self.poll_body(cx, &mut discard, HEAD_READ)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Shuts the writing side and reads what the client still sends, for as long as the response may need to arrive (RFC 9112 §9.6): a long body may have more in
    /// flight than any fixed number of bytes.
    async fn linger(&mut self) {
        self.io.shutdown_write();
        self.deadlines.set_after(WaitKind::Read, LINGER);
        loop {
            self.storage.read.reset(usize::MAX);
            let got = poll_fn(|cx| {
                // A close_notify that the socket had no room for.
                let _ = self.io.poll_flush(cx);
                match self.deadlines.poll_passed(WaitKind::Read, cx) {
                    true => Poll::Ready(0),
                    false => self.poll_fill(cx, LINGER_READ).map(|got| got.unwrap_or(0)),
                }
            })
            .await;
            if got == 0 {
                return;
            }
        }
    }
}
