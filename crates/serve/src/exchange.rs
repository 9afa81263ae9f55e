//! One request and the means to respond to it.

use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use http::Method;
use keepwarm_http1::{AppFields, BadField, Fields, ResponseLength, scan_app_fields};
use keepwarm_net::Deadlines;
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::compression::CompressedBody;
use crate::h1;
use crate::h2::ServerStream;
use crate::websocket::{Message, WebSocketCarrier, WebSocketLimits};
use crate::{BodyError, BodyProgress, ClientLoss, ConnectionLimits, Request, UNSENT_ENOUGH};

/// One request and the means to respond to it, for every version of HTTP.
///
/// Order of calls: any number of [`informational`](Self::informational), one [`head`](Self::head), any number of
/// [`data`](Self::data), one [`end`](Self::end) or [`end_with_trailers`](Self::end_with_trailers). [`poll_flush`](Self::poll_flush)
/// writes queued bytes; a handler calls it when it has nothing more *now*: everything queued at that
/// time leaves in one write. [`poll_body`](Self::poll_body) reads the body at any time, also while the response is sent.
#[derive(Debug)]
pub struct Exchange<'c> {
    carrier: ProtocolStream<'c>,
    /// The body is compressed; the route asks for it.
    compressed: Option<Box<CompressedBody>>,
}

/// A field's name and value.
pub(crate) type FieldRef<'a> = (&'a [u8], &'a [u8]);

/// The fields of a response, listed once: what reads them is then compiled once, and not for the iterator of each handler. Few
/// responses have more than fit on the stack.
pub(crate) type FieldList<'a> = SmallVec<[FieldRef<'a>; 16]>;

/// The result of sending a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileProgress {
    /// This many bytes were sent.
    Sent(usize),
    /// The file ends before them.
    End,
    /// They have to be read, and given to [`Exchange::data`].
    Unsupported,
}

/// The stream that carries it.
#[derive(Debug)]
enum ProtocolStream<'c> {
    Http1(&'c mut h1::Stream),
    Http2(&'c mut ServerStream),
}

/// Both have the same methods.
macro_rules! on {
    ($exchange:ident, $stream:ident => $call:expr) => {
        match &$exchange.carrier {
            ProtocolStream::Http1($stream) => $call,
            ProtocolStream::Http2($stream) => $call,
        }
    };
    (mut $exchange:ident, $stream:ident => $call:expr) => {{
        keepwarm_net::turn();
        match &mut $exchange.carrier {
            ProtocolStream::Http1($stream) => $call,
            ProtocolStream::Http2($stream) => $call,
        }
    }};
}

mod compressed;

impl<'c> Exchange<'c> {
    pub(crate) fn http1(stream: &'c mut h1::Stream) -> Self {
        Self { carrier: ProtocolStream::Http1(stream), compressed: None }
    }

    pub(crate) fn http2(stream: &'c mut ServerStream) -> Self {
        Self { carrier: ProtocolStream::Http2(stream), compressed: None }
    }
}

impl Exchange<'_> {
    /// The request.
    pub fn request(&self) -> &Request {
        on!(self, stream => &stream.request)
    }

    /// The request, to note a route's findings in it.
    pub fn request_mut(&mut self) -> &mut Request {
        on!(mut self, stream => &mut stream.request)
    }

    /// What clients of this listener may do.
    pub fn limits(&self) -> &ConnectionLimits {
        on!(self, stream => stream.limits())
    }

    /// Whether the process is draining.
    pub fn is_draining(&self) -> bool {
        on!(self, stream => stream.is_draining())
    }

    /// The deadlines of this connection's task; [`keepwarm_net::WaitKind::Response`] belongs to the handler.
    pub fn deadlines(&self) -> Deadlines {
        on!(self, stream => stream.deadlines.clone())
    }

    /// Whether the request is `HEAD`.
    pub fn is_head(&self) -> bool {
        on!(self, stream => stream.request.head.method == Method::HEAD)
    }

    /// Bounds the body: beyond `limit` bytes [`Self::poll_body`] gives [`BodyError::TooLarge`]. The edge refuses a declared length
    /// above it before anything is read.
    pub fn limit_body(&mut self, limit: Option<u64>) {
        on!(mut self, stream => stream.state.body_limit = limit)
    }

    /// The connection ends with the response, whatever the request said: further requests on it are not trusted, or not wanted.
    pub fn close_after(&mut self) {
        on!(mut self, stream => stream.state.refused = true)
    }

    /// On this route, a client that shuts its writing side counts as gone.
    pub fn abort_on_half_close(&mut self, yes: bool) {
        on!(mut self, stream => stream.state.half_close_is_gone = yes)
    }

    /// Appends bytes of the request's body to `into`: all that have arrived, up to `max`, at least one unless the body has ended ([`Self::body_done`]). Calls
    /// [`Self::want_body`] first.
    pub fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<BodyProgress, BodyError>> {
        let before = into.len();
        let progress = on!(mut self, stream => stream.poll_body(cx, into, max));
        if let Some(copy) = &mut self.request_mut().notes.routed.body_copy {
            copy.push(into.get(before..).unwrap_or_default());
        }
        progress
    }

    /// Pauses reading the body: the time until the next [`Self::poll_body`] does not count against the client.
    pub fn pause_body(&mut self) {
        on!(mut self, stream => stream.pause_body());
    }

    /// Requests the body: a client that waits for `100 Continue`, and has sent nothing yet, gets it with the next flush.
    pub fn want_body(&mut self) {
        on!(mut self, stream => stream.want_body())
    }

    /// Whether the client still waits for `100 Continue` before it sends its body.
    pub fn awaits_continue(&self) -> bool {
        on!(self, stream => stream.awaits_continue())
    }

    /// Waits for a first byte of the body without requesting it. Ready also when none will come: [`Self::poll_body`] tells.
    pub fn poll_body_begun(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        on!(mut self, stream => stream.poll_body_begun(cx))
    }

    /// Whether the body has been read to its end (true without a body).
    pub fn body_done(&self) -> bool {
        on!(self, stream => stream.state.body_done)
    }

    /// Whether more of the body is available without waiting for the client.
    pub fn body_buffered(&self) -> bool {
        on!(self, stream => stream.body_buffered())
    }

    /// The trailers of the request, once the body is done. None of a request that forges in them what only the route may state.
    pub fn trailers(&self) -> &Fields {
        static NONE: LazyLock<Fields> = LazyLock::new(Fields::new);
        let trailers = on!(self, stream => stream.trailers());
        let withheld = &self.request().notes.routed.withheld_fields;
        let is_forged = |name: &[u8]| withheld.iter().any(|withheld| withheld.matches(name));
        if !withheld.is_empty() && trailers.iter().any(|(name, _)| is_forged(name)) {
            return &NONE;
        }
        trailers
    }

    /// Waits until the client is gone: a reset, or an earlier failed write.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientLoss> {
        on!(mut self, stream => stream.poll_gone(cx))
    }

    /// Whether the client has closed its writing side after the request, as far as [`Self::poll_gone`] has seen: it may be gone, or may still read.
    pub fn is_half_closed(&self) -> bool {
        match &self.carrier {
            ProtocolStream::Http1(stream) => stream.is_half_closed(),
            // Every HTTP/2 request ends its side of the stream; a client that leaves resets it.
            ProtocolStream::Http2(_) => false,
        }
    }

    /// Aborts if the client is known to be gone: for a caller that is about to retry on its behalf. Registers no waker; to wait, poll
    /// [`Self::poll_gone`].
    pub fn abort_if_gone(&mut self) -> bool {
        let gone = self.poll_gone(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(gone) = gone {
            self.abandon(gone);
        }
        gone.is_ready()
    }

    /// Aborts if the request was reset before anything was done for it, often by the flight that it came with (CVE-2023-44487): an app must not pay for
    /// that. Only HTTP/2 can know without a system call.
    pub fn abort_if_reset(&mut self) -> bool {
        matches!(self.carrier, ProtocolStream::Http2(_)) && self.abort_if_gone()
    }

    /// An informational response (1xx, not 101): dropped for HTTP/1.0 and after the head.
    pub fn informational<'a>(&mut self, status: u16, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        on!(mut self, stream => stream.informational(status, fields))
    }

    /// The head of the response. `length`: the body's length if known otherwise than by a `Content-Length` among the fields.
    /// `close`: end the connection after this response. Returns the connection options of the fields, which are not passed on.
    ///
    /// # Errors
    /// An invalid field, or two lengths: nothing has been written, and another head may follow.
    pub fn head<'a>(
        &mut self,
        status: u16,
        length: Option<u64>,
        close: bool,
        fields: impl Iterator<Item = FieldRef<'a>>,
    ) -> Result<AppFields, BadField> {
        // Not `collect`, after which the list is moved: that costs more than to fill it.
        let mut list = FieldList::new();
        list.extend(fields);
        self.listed_head(status, length, close, &list)
    }

    fn listed_head(
        &mut self,
        status: u16,
        length: Option<u64>,
        close: bool,
        fields: &[FieldRef<'_>],
    ) -> Result<AppFields, BadField> {
        if self.awaits_page() {
            return scan_app_fields(fields.iter().copied());
        }
        if status >= 400
            && self.request().notes.routed.intercept_errors
            && let Some(begun) = self.head_with_page(status, close, fields)
        {
            return begun;
        }
        self.plain_head(status, length, close, fields)
    }

    /// As [`Self::head`], without a page in place of an error.
    pub(crate) fn plain_head(
        &mut self,
        status: u16,
        length: Option<u64>,
        close: bool,
        fields: &[FieldRef<'_>],
    ) -> Result<AppFields, BadField> {
        // The route's edits; restored for a head that follows this one (see [`Self::take_back`]).
        let Some(edits) = self.request_mut().notes.routed.response_edits.take() else {
            return self.begin_response(status, length, close, fields);
        };
        let edited: FieldList<'_> = edits.apply(fields.iter().copied()).collect();
        let begun = self.begin_response(status, length, close, &edited);
        drop(edited);
        self.request_mut().notes.routed.response_edits = Some(edits);
        begun
    }

    /// The head of an upstream's response: as [`Self::head`], but its length with 304 is that of the 200 it stands for (RFC 9110 §8.6), and is passed on.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub fn pass_head<'a>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = FieldRef<'a>>,
    ) -> Result<AppFields, BadField> {
        on!(mut self, stream => stream.state.from_upstream = true);
        self.head(status, None, false, fields)
    }

    /// Bytes of the body. Bytes beyond the announced length, or of a response without a body, are dropped.
    pub fn data(&mut self, bytes: &[u8]) {
        if self.request().notes.routed.body_is_replaced {
            return;
        }
        if self.compressed.is_some() {
            return self.compressed_data(bytes);
        }
        on!(mut self, stream => stream.data(bytes))
    }

    /// The response is complete. If it is shorter than announced, it is cut instead.
    pub fn end(&mut self) {
        if let Some(pending) = self.pending_page() {
            pending.is_over = true;
            return;
        }
        if self.compressed.is_none() || self.end_compressed() {
            on!(mut self, stream => stream.end())
        }
    }

    /// The response is complete, with trailers if the client accepts them.
    pub fn end_with_trailers<'a>(&mut self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        if let Some(pending) = self.pending_page() {
            pending.is_over = true;
            return;
        }
        if self.compressed.is_none() || self.end_compressed() {
            on!(mut self, stream => stream.end_with_trailers(fields))
        }
    }

    /// The response cannot be completed: the connection is cut so that the client sees it.
    pub fn abort(&mut self, reason: &'static str) {
        // Without its end: what was sent is incomplete in its coding, too.
        self.compressed = None;
        self.take_pending_page();
        on!(mut self, stream => stream.abort(reason))
    }

    /// Nobody is left to get the rest: ends as [`Self::abort`] does, and is recorded as left by its client, not as cut by us.
    pub fn abandon(&mut self, gone: ClientLoss) {
        self.abort(gone.name());
        on!(mut self, stream => stream.state.client_lost = Some(gone));
    }

    /// Takes back a response of which nothing has been written, so that another can be sent. `false`: there is none, or it cannot be taken back.
    pub fn take_back(&mut self) -> bool {
        if self.awaits_page() {
            let routed = &mut self.request_mut().notes.routed;
            routed.pending_page = None;
            routed.body_is_replaced = false;
            return true;
        }
        let taken = on!(mut self, stream => stream.take_back());
        if taken {
            self.request_mut().notes.routed.body_is_replaced = false;
            self.compressed = None;
        }
        taken
    }

    /// Whether all announced bytes of the response are queued, and only its end is missing: there is no more to hold back.
    pub fn is_given(&self) -> bool {
        if let Some(compressed) = &self.compressed {
            return compressed.is_finished();
        }
        on!(self, stream => stream.is_given())
    }

    /// Whether a head was queued.
    pub fn responded(&self) -> bool {
        self.awaits_page() || on!(self, stream => stream.responded())
    }

    /// Whether the response is over, complete or cut.
    pub fn over(&self) -> bool {
        let is_over = on!(self, stream => stream.over());
        is_over || self.request().notes.routed.pending_page.as_ref().is_some_and(|pending| pending.is_over)
    }

    /// Bytes queued and not yet taken by the socket.
    pub fn unsent(&self) -> usize {
        let unsent = on!(self, stream => stream.unsent());
        match &self.compressed {
            // No more parts in this turn.
            Some(compressed) if compressed.has_had_turn() => unsent.max(UNSENT_ENOUGH),
            _ => unsent,
        }
    }

    /// Writes queued bytes. Ready when the socket has them all. A response whose head is queued and whose body is due at
    /// once may be held for up to 2 ms, so that both leave together.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>> {
        if self.compressed.is_some() {
            return self.poll_flush_compressed(cx);
        }
        on!(mut self, stream => stream.poll_flush(cx))
    }

    /// Whether bytes of a file can follow in the response without being read ([`Self::poll_send_file`]): in HTTP/1 in plaintext.
    pub fn sends_files(&self) -> bool {
        match &self.carrier {
            ProtocolStream::Http1(stream) => {
                self.compressed.is_none()
                    && !stream.request.notes.routed.body_is_replaced
                    && stream.sends_files()
            }
            ProtocolStream::Http2(_) => false,
        }
    }

    /// Writes queued bytes, and then bytes of a file from `at` on, as many as the client takes now, at most `max`. They are part of the body.
    ///
    /// The kernel would wait for bytes that it has to read from a disk: [`crate::OpenFile::is_cached`] tells, before each call.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &crate::OpenFile,
        at: u64,
        max: usize,
    ) -> Poll<Result<FileProgress, ClientLoss>> {
        keepwarm_net::turn();
        match &mut self.carrier {
            ProtocolStream::Http1(stream) => stream.poll_send_file(cx, file.file(), at, max),
            ProtocolStream::Http2(_) => Poll::Ready(Ok(FileProgress::Unsupported)),
        }
    }

    /// Accepts a WebSocket opening (checked by the caller) with `101`, over HTTP/2 with 200, and these fields.
    ///
    /// # Errors
    /// An invalid field.
    pub fn accept_websocket<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        limits: WebSocketLimits,
    ) -> Result<(), BadField> {
        on!(mut self, stream => stream.accept_websocket(fields, limits))
    }

    /// The next part of a message of an accepted WebSocket. After [`Message::Close`] or an error there is none.
    pub fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, ClientLoss>> {
        on!(mut self, stream => stream.poll_message(cx))
    }

    /// Sends the next part of a message on an accepted WebSocket; [`Self::poll_flush`] writes it. `false`: it is marked as text, and is not UTF-8; only a
    /// close may follow.
    #[must_use]
    pub fn send_part(&mut self, text: bool, bytes: &[u8], end: bool) -> bool {
        on!(mut self, stream => stream.send_part(text, bytes, end))
    }

    /// Closes an accepted WebSocket, once; [`Self::poll_flush`] writes it.
    pub fn send_close(&mut self, code: u16, reason: &str) {
        on!(mut self, stream => stream.send_close(code, reason))
    }

    /// Whether this WebSocket has compressed so much that other connections should get their turn. If so, its task has been woken for its next.
    pub fn websocket_turn_is_over(&mut self, cx: &Context<'_>) -> bool {
        on!(mut self, stream => stream.websocket_turn_is_over(cx))
    }

    /// Switches to `protocol` with `101`, over HTTP/2 with 200 to extended CONNECT, and these fields: from now on bytes are passed, until both sides have ended. Only for a request that offered it
    /// and whose body is done.
    ///
    /// # Errors
    /// An invalid field.
    pub fn begin_tunnel(&mut self, protocol: &[u8], fields: &keepwarm_http1::Fields) -> Result<(), BadField> {
        on!(mut self, stream => stream.begin_tunnel(protocol, fields))
    }

    /// Responds to `CONNECT` with 200 and `Via`: from now on bytes are passed, as after [`Self::begin_tunnel`].
    ///
    /// # Errors
    /// `via` is invalid.
    pub fn begin_connected_tunnel(&mut self, via: &[u8]) -> Result<(), BadField> {
        on!(mut self, stream => stream.begin_connected_tunnel(via))
    }

    /// Appends the client's bytes of a tunnel to `into`: `Ok(0)` is its end.
    pub fn poll_tunnel(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
    ) -> Poll<Result<usize, ClientLoss>> {
        on!(mut self, stream => stream.poll_tunnel(cx, into))
    }

    /// Bytes to the client of a tunnel; [`Self::poll_flush`] writes them.
    pub fn send_tunnel(&mut self, bytes: &[u8]) {
        on!(mut self, stream => stream.send_tunnel(bytes))
    }

    /// When the first byte of the request was read.
    pub fn received(&self) -> Instant {
        on!(self, stream => stream.request.received)
    }
}

/// The known length of a response's body: `stated` among its fields, `given` beside them. The same for every version of HTTP.
pub(crate) fn response_length(
    stated: Option<u64>,
    given: Option<u64>,
    bodiless: bool,
    from_upstream: bool,
) -> ResponseLength {
    match stated.or(given.filter(|_| !bodiless)) {
        Some(length) if from_upstream => ResponseLength::Upstream(length),
        Some(length) => ResponseLength::Known(length),
        None if bodiless => ResponseLength::Absent,
        None => ResponseLength::Unknown,
    }
}
