//! The client's side of a connection that carries one request at a time, whatever the protocol: HTTP/1.1 (see [`crate::Http1`]), FastCGI.
//!
//! [`Codec`] is the sans-IO part of a protocol; [`Client`] drives it over a socket. Queued bytes leave with the next
//! [`Client::poll_flush`], in one write; the response comes event by event from [`Client::poll_response`]. Poll both at any time, in any order: a server may
//! respond before it has read the request.

mod codec;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};

use keepwarm_http1::{Event, Fields, ResponseHead};
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use crate::transport::Transport;
use crate::write_buffer::WriteBuffer;
use crate::{ReadBuffer, now};
pub use codec::{ClientError, Codec, ServerFault};

/// Read at a time; while a large body comes, more.
const READ: usize = 16 * 1024;
const READ_LARGE: usize = 64 * 1024;
/// Buffers above this many bytes are not kept with an idle connection.
const KEEP: usize = 16 * 1024;

/// A part of a response.
#[derive(Debug)]
pub enum ResponsePart<'a> {
    /// A 1xx response, never 101.
    Informational(&'a ResponseHead),
    /// The head of the final response.
    Head(&'a ResponseHead),
    /// Bytes of its body.
    Data(&'a [u8]),
    /// Trailers.
    Trailers(&'a Fields),
    /// It is complete.
    End,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client<C> {
    transport: Transport,
    codec: C,
    read: ReadBuffer,
    out: WriteBuffer,
    head: ResponseHead,
    opened: Instant,
    /// Requests begun on it.
    requests: u64,
    /// Its socket has acknowledgements, as far as is known: not a Unix socket.
    has_acknowledgements: bool,
    exchange: Exchange,
}

/// The request in progress.
#[derive(Debug, Default, Clone, Copy)]
struct Exchange {
    /// Bytes of it that the socket took, encrypted or not. TLS's own bytes do not count.
    sent: u64,
    /// The socket takes no more.
    write_failed: bool,
    /// A write met a reset or another loss of the connection. A read does not see it again: the response seems to end as if by a FIN.
    lost: bool,
    /// The whole request is queued.
    request_ended: bool,
    /// A byte of the response came.
    heard: bool,
    /// The connection ended before the response began.
    without_response: bool,
    response_ended: bool,
    /// The server has shut its side.
    eof: bool,
    /// Bytes at the front of the buffer that the caller holds.
    given_out: usize,
    /// Room to read with.
    large: bool,
    /// Reads that brought a part of the current head, or of the last one.
    head_reads: u32,
    head_whole: bool,
    /// The first part of the response was acknowledged without the usual delay.
    acknowledged: bool,
}

impl<C: Codec> Client<C> {
    /// A client of a connected socket or an encrypted connection (see [`crate::Dial`]).
    pub fn new(transport: impl Into<Transport>) -> Self {
        Self {
            transport: transport.into(),
            codec: C::new(),
            read: ReadBuffer::default(),
            out: WriteBuffer::default(),
            head: ResponseHead::default(),
            opened: now(),
            requests: 0,
            has_acknowledgements: true,
            exchange: Exchange::default(),
        }
    }

    /// Begins a request: `encode` appends its head. Only on a new connection, or one that [`is_reusable`](Self::is_reusable).
    pub fn begin(&mut self, encode: impl FnOnce(&mut C, &mut Vec<u8>)) {
        self.exchange = Exchange::default();
        self.requests += 1;
        encode(&mut self.codec, &mut self.out.head);
    }

    /// Bytes of the request's body.
    pub fn send(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && !self.exchange.write_failed {
            self.codec.encode_body(bytes, &mut self.out.body);
        }
    }

    /// The request is complete; `trailers` are sent where the protocol has them.
    pub fn end(&mut self, trailers: &Fields) {
        if !std::mem::replace(&mut self.exchange.request_ended, true) && !self.exchange.write_failed {
            self.codec.encode_end(trailers, &mut self.out.body);
        }
    }

    /// Bytes queued and not yet taken by the socket.
    pub fn unsent(&self) -> usize {
        self.out.len() + self.transport.unsent()
    }

    /// Writes queued bytes. Ready when the socket has them all, or takes no more: the response then shows the outcome of the request.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.out.is_empty() || self.transport.unsent() > 0 {
            let (slices, count) = self.out.slices();
            match self.transport.write(slices.get(..count).unwrap_or_default()) {
                Ok(written) => {
                    self.exchange.sent += written.left as u64;
                    self.out.advance(written.taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = ready!(self.transport.poll_writable(cx)) {
                        self.stop_writing(&error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It may have responded before it closed: the next read shows that.
                Err(error) => self.stop_writing(&error),
            }
        }
        self.transport.forget_writable();
        Poll::Ready(())
    }

    /// Tells a server that waits for the rest that none comes.
    fn stop_writing(&mut self, error: &io::Error) {
        self.exchange.write_failed = true;
        // EPIPE: it has closed, and all that it sent is here (a Unix socket; TCP in the state CLOSE_WAIT).
        self.exchange.lost = error.kind() != io::ErrorKind::BrokenPipe;
        self.transport.cut_write();
        self.out.clear();
        self.transport.forget_unsent();
    }

    /// The next part of the response. After [`ResponsePart::End`] and after an error there is none.
    pub fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponsePart<'_>, ClientError>> {
        let step = ready!(self.poll_step(cx));
        Poll::Ready(step.map(|event| match event {
            Event::Informational => ResponsePart::Informational(&self.head),
            Event::Head => ResponsePart::Head(&self.head),
            Event::Data { start, end } => {
                ResponsePart::Data(self.read.unread().get(start..end).unwrap_or_default())
            }
            Event::Trailers => ResponsePart::Trailers(self.codec.trailers()),
            Event::End | Event::NeedMore => ResponsePart::End,
        }))
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, ClientError>> {
        self.read.consume(std::mem::take(&mut self.exchange.given_out));
        if self.exchange.response_ended {
            return Poll::Ready(Ok(Event::End));
        }
        loop {
            let decoded =
                self.codec.decode(self.read.unread(), &mut self.head).map_err(ClientError::Fault)?;
            match decoded.event {
                Event::NeedMore => self.read.consume(decoded.consumed),
                Event::Data { .. } => {
                    // Consumed with the next call: until then the bytes are the caller's to look at.
                    self.exchange.given_out = decoded.consumed;
                    return Poll::Ready(Ok(decoded.event));
                }
                event => {
                    self.read.consume(decoded.consumed);
                    match event {
                        // The rest belongs to the next head, and came with this one.
                        Event::Informational => self.exchange.head_reads = u32::from(!self.read.is_empty()),
                        Event::Head => self.exchange.head_whole = true,
                        _ => {}
                    }
                    if event == Event::End {
                        self.look_behind()?;
                    }
                    self.exchange.response_ended = event == Event::End;
                    return Poll::Ready(Ok(event));
                }
            }
            if self.exchange.eof {
                return Poll::Ready(self.handle_eof(None));
            }
            let filled = self.poll_fill(cx);
            if filled.is_pending() {
                self.acknowledge();
            }
            match ready!(filled) {
                Ok(0) if self.exchange.lost => {
                    return Poll::Ready(self.handle_eof(Some(io::ErrorKind::ConnectionReset.into())));
                }
                Ok(0) => self.exchange.eof = true,
                Ok(_) => {
                    self.exchange.heard = true;
                    self.exchange.head_reads += u32::from(!self.exchange.head_whole);
                }
                Err(error) => return Poll::Ready(self.handle_eof(Some(error))),
            }
        }
    }

    /// A server that writes its head and its body apart, without `TCP_NODELAY`, sends the second part only when the first is acknowledged (RFC 896). The
    /// kernel delays that by 40 ms, in the hope of a request that could carry it.
    fn acknowledge(&mut self) {
        let has_begun = self.exchange.head_whole || !self.read.is_empty();
        if has_begun && !self.exchange.acknowledged && self.has_acknowledgements {
            self.exchange.acknowledged = true;
            self.has_acknowledgements = self.transport.acknowledge();
        }
    }

    /// Bytes that arrive together with the end of a response put all of it in doubt (`spec/http.md` §5). Later ones belong to no response.
    fn look_behind(&mut self) -> Result<(), ClientError> {
        let behind = self.read.unread();
        if behind.is_empty() || self.codec.is_tunnel() {
            return Ok(());
        }
        self.codec.fault_behind(behind).map_or(Ok(()), |fault| Err(ClientError::Fault(fault)))
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = if self.exchange.large { READ_LARGE } else { READ };
        let got = ready!(self.transport.poll_read(cx, self.read.storage(room)));
        self.exchange.large = got.as_ref().is_ok_and(|got| *got >= READ);
        Poll::Ready(got)
    }

    /// The stream of responses is over, by a close or (`lost`) by an error.
    fn handle_eof(&mut self, lost: Option<io::Error>) -> Result<Event, ClientError> {
        let unannounced = lost.as_ref().is_some_and(|lost| lost.kind() == io::ErrorKind::UnexpectedEof);
        if !self.exchange.heard {
            self.exchange.without_response = true;
            return Err(ClientError::NoResponse(lost.filter(|_| !unannounced)));
        }
        let cut = || {
            let sentence = match unannounced {
                true => {
                    "broke off in the middle of its response: the connection was closed without TLS close_notify"
                }
                false => "broke off in the middle of its response",
            };
            ClientError::Fault(ServerFault { name: "truncated", sentence: sentence.to_owned() })
        };
        if lost.is_some() {
            // A reset never ends a response, not even one that a close would end. Nor does a FIN under TLS: any network node can send one (RFC 9112 §9.8).
            return Err(cut());
        }
        match self.codec.handle_eof().map_err(ClientError::Fault)? {
            Some(_) => {
                self.exchange.response_ended = true;
                Ok(Event::End)
            }
            None => Err(cut()),
        }
    }

    /// Bytes of a tunnel. `Ok(&[])` is its end.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.read.consume(std::mem::take(&mut self.exchange.given_out));
        if self.read.is_empty() && !self.exchange.eof {
            self.exchange.eof = ready!(self.poll_fill(cx))? == 0;
        }
        self.exchange.given_out = self.read.unread().len();
        Poll::Ready(Ok(self.read.unread()))
    }

    /// Queues bytes for a tunnel; [`Self::poll_flush`] writes them.
    pub fn send_tunnel(&mut self, bytes: &[u8]) {
        if !self.exchange.write_failed {
            self.out.body.extend_from_slice(bytes);
        }
    }

    /// Ends our side of a tunnel: FIN, and under TLS close_notify before it.
    pub fn shutdown_write(&mut self) {
        self.transport.shutdown_write();
    }

    /// Reads no more of the response, which is not complete: the server's next write fails, and what it has not read of the request stays for it
    /// ([`Client::unread`]). The connection cannot be reused. `false`: over TCP no server can be told, and nothing has changed.
    pub fn shutdown_read(&mut self) -> bool {
        self.transport.shutdown_read()
    }

    /// The latest head.
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The protocol's state, to look at.
    pub fn protocol(&self) -> &C {
        &self.codec
    }

    /// The protocol's state.
    pub fn codec(&mut self) -> &mut C {
        &mut self.codec
    }

    /// Whether the socket took a byte of the request. If not, no server has begun to process it.
    pub fn has_sent(&self) -> bool {
        self.exchange.sent > 0
    }

    /// Whether a byte of the response came.
    pub fn has_heard(&self) -> bool {
        self.exchange.heard
    }

    /// Whether several reads were needed for the head of the response, though it is small: the server wrote it in pieces.
    pub fn head_came_in_pieces(&self) -> bool {
        self.exchange.head_reads > 1
    }

    /// Waits for the next byte of a response on a Unix socket, and returns the process that sent it. Only after [`Io::name_senders`](crate::Io::name_senders).
    pub fn poll_sender(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u32>>> {
        self.transport.poll_sender(cx)
    }

    /// Bytes of requests that a server on a Unix socket has not read. PHP leaves the empty record that ends a request's body unread until it is
    /// ready for the next request.
    pub fn unread(&self) -> usize {
        self.transport.queued()
    }

    /// When it was opened.
    pub fn opened(&self) -> Instant {
        self.opened
    }

    /// How many requests were begun on it.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether another request may follow: both messages are complete, both sides allow it, and no unsolicited byte is waiting.
    pub fn is_reusable(&self) -> bool {
        let Exchange { request_ended, response_ended, eof, write_failed, given_out, .. } = self.exchange;
        let whole = request_ended && response_ended && self.unsent() == 0 && self.transport.is_open();
        let clean = given_out == 0 && self.read.is_empty();
        whole && clean && !eof && !write_failed && !self.codec.is_tunnel() && self.codec.keeps_connection()
    }

    /// Frees large buffers before it becomes idle.
    pub(crate) fn rest(&mut self) {
        self.read.reset(KEEP);
        self.out.clear();
        self.out.shrink(KEEP);
        self.transport.rest();
    }

    /// Whether the connection ended before a byte of the response to the last request.
    pub(crate) fn is_without_response(&self) -> bool {
        self.exchange.without_response
    }

    /// The transport.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Waits until the server sends unsolicited bytes or, more likely, closes.
    pub(crate) fn poll_noise(&mut self, cx: &mut Context<'_>) -> Poll<IdleState> {
        self.transport.poll_noise(cx)
    }

    /// The state of an idle connection, without waiting.
    pub(crate) fn look(&mut self) -> IdleState {
        self.transport.look()
    }

    /// The state that this thread's reactor knows, without a system call if nothing has happened; later events wake `waker`.
    pub(crate) fn heard_of(&mut self, waker: &Waker) -> IdleState {
        // Not bounded by the task's budget: once it is used up, each would seem quiet.
        let heard = pin!(unconstrained(poll_fn(|cx| self.transport.poll_noise(cx))));
        match heard.poll(&mut Context::from_waker(waker)) {
            Poll::Pending => IdleState::Quiet,
            Poll::Ready(noise) => noise,
        }
    }

    /// Removes it from its thread's reactor, so that another thread can use it.
    pub(crate) fn leave_thread(&mut self) {
        self.transport.leave_thread();
    }
}

/// The state of an idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleState {
    /// No event: it may be used.
    Quiet,
    /// The server has closed it.
    Closed,
    /// It sent unsolicited bytes.
    Noisy,
}
