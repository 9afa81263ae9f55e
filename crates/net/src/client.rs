//! The client's side of a connection that carries one request at a time, whatever the protocol: HTTP/1.1 (see [`crate::Http1`]), FastCGI.
//!
//! [`Codec`] is what a protocol is, sans-IO; [`Client`] drives it over a socket. What was given to a client leaves with the next
//! [`Client::poll_flush`], in one write; the answer comes event by event from [`Client::poll_answer`]. Both are polled at any time, in any order: a server may
//! answer before it has read the request.

use std::io;
use std::task::{Context, Poll, Waker, ready};

use keepwarm_http1::{Decoded, Event, Fields, ResponseHead};
use tokio::time::Instant;

use crate::out::Out;
use crate::{Io, ReadBuffer, now};

/// Read at a time; while a large body comes, more.
const READ: usize = 16 * 1024;
const READ_LARGE: usize = 64 * 1024;
/// Buffers above this many bytes are not kept with an idle connection.
const KEEP: usize = 16 * 1024;

/// The client's side of a protocol that carries one request at a time on a connection: bytes in, events out. How a request begins is
/// the protocol's own (see [`Client::begin`]).
pub trait Codec: Send + 'static {
    /// For a new connection.
    fn new() -> Self;

    /// Appends a part of the request's body, framed. `bytes` is not empty.
    fn encode_body(&mut self, bytes: &[u8], out: &mut Vec<u8>);

    /// Appends what ends the request's body.
    fn encode_end(&mut self, trailers: &Fields, out: &mut Vec<u8>);

    /// The next event of the answer, as [`keepwarm_http1::ResponseDecoder::decode`] gives it: `Informational*`, `Head`, `Data*`, `Trailers?`, `End`. The head is filled in
    /// with `Informational` and `Head`.
    ///
    /// # Errors
    /// The server's. The connection is of no further use.
    fn decode(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Decoded, ServerFault>;

    /// The server has closed: `Some(End)` if that ends the answer, `None` if it was not to come yet.
    ///
    /// # Errors
    /// The answer is cut short by it.
    fn handle_eof(&mut self) -> Result<Option<Event>, ServerFault>;

    /// The trailers, after [`Event::Trailers`].
    fn trailers(&self) -> &Fields;

    /// Whether another request may follow on this connection, once the answer has ended.
    fn keeps_connection(&self) -> bool;

    /// Whether the connection has become a tunnel.
    fn is_tunnel(&self) -> bool {
        false
    }

    /// Seconds after which the server says it closes an idle connection.
    fn keep_alive_timeout(&self) -> Option<u64> {
        None
    }

    /// Takes what the server said beside its answer, for the log (FastCGI's STDERR).
    fn take_words(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// What a server did wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFault {
    /// A stable name, for counters and logs.
    pub name: &'static str,
    /// What, as a sentence that goes on from "the server".
    pub sentence: String,
}

/// Why an answer will not be complete.
#[derive(Debug)]
pub enum ClientError {
    /// The connection ended before a byte of the answer. Whether a byte of the request was sent: [`Client::has_sent`].
    Unanswered(Option<io::Error>),
    /// The server broke the rules, or broke off.
    Fault(ServerFault),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unanswered(None) => {
                f.write_str("the server closed the connection before the first byte of its answer")
            }
            Self::Unanswered(Some(error)) => {
                write!(f, "the connection was lost before the first byte of the answer: {error}")
            }
            Self::Fault(fault) => write!(f, "the server {}", fault.sentence),
        }
    }
}

impl ClientError {
    /// A stable name, for counters and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unanswered(_) => "closed_unanswered",
            Self::Fault(fault) => fault.name,
        }
    }
}

/// A part of an answer.
#[derive(Debug)]
pub enum Answer<'a> {
    /// A 1xx answer, never 101.
    Informational(&'a ResponseHead),
    /// The head of the final answer.
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
    io: Io,
    codec: C,
    read: ReadBuffer,
    out: Out,
    head: ResponseHead,
    opened: Instant,
    /// Requests begun on it.
    requests: u64,
    exchange: Exchange,
}

/// What is known of the request that is under way.
#[derive(Debug, Default, Clone, Copy)]
struct Exchange {
    /// Bytes of it that the socket took.
    sent: u64,
    /// The socket takes no more.
    write_failed: bool,
    /// All of it was given.
    request_ended: bool,
    /// A byte of the answer came.
    heard: bool,
    answer_ended: bool,
    /// The server has shut its side.
    eof: bool,
    /// Bytes at the front of the buffer that were given out.
    given_out: usize,
    /// Room to read with.
    large: bool,
    /// Reads that brought a part of the head that is being read, or was last.
    head_reads: u32,
    head_whole: bool,
}

impl<C: Codec> Client<C> {
    /// Of a connected socket (see [`crate::Endpoint::connect`]).
    pub fn new(io: Io) -> Self {
        Self {
            io,
            codec: C::new(),
            read: ReadBuffer::default(),
            out: Out::default(),
            head: ResponseHead::default(),
            opened: now(),
            requests: 0,
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

    /// The request is complete; `trailers` go where the protocol has them.
    pub fn end(&mut self, trailers: &Fields) {
        if !std::mem::replace(&mut self.exchange.request_ended, true) && !self.exchange.write_failed {
            self.codec.encode_end(trailers, &mut self.out.body);
        }
    }

    /// Bytes given and not yet taken by the socket.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Writes what was given. Ready when the socket has it all, or takes no more: what became of the request then shows in its answer.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.out.is_empty() {
            let (slices, count) = self.out.slices();
            match self.io.write(slices.get(..count).unwrap_or_default()) {
                Ok(sent @ 1..) => {
                    self.exchange.sent += sent as u64;
                    self.out.advance(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if ready!(self.io.poll_writable(cx)).is_err() {
                        self.stop_writing();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It may have answered before it closed: the read tells.
                Ok(_) | Err(_) => self.stop_writing(),
            }
        }
        Poll::Ready(())
    }

    fn stop_writing(&mut self) {
        self.exchange.write_failed = true;
        self.out.clear();
    }

    /// The next part of the answer. After [`Answer::End`] and after an error there is none.
    pub fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer<'_>, ClientError>> {
        let step = ready!(self.poll_step(cx));
        Poll::Ready(step.map(|event| match event {
            Event::Informational => Answer::Informational(&self.head),
            Event::Head => Answer::Head(&self.head),
            Event::Data { start, end } => {
                Answer::Data(self.read.unread().get(start..end).unwrap_or_default())
            }
            Event::Trailers => Answer::Trailers(self.codec.trailers()),
            Event::End | Event::NeedMore => Answer::End,
        }))
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, ClientError>> {
        self.read.consume(std::mem::take(&mut self.exchange.given_out));
        if self.exchange.answer_ended {
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
                        // What is left is of the next head, and came with this one.
                        Event::Informational => self.exchange.head_reads = u32::from(!self.read.is_empty()),
                        Event::Head => self.exchange.head_whole = true,
                        _ => {}
                    }
                    self.exchange.answer_ended = event == Event::End;
                    return Poll::Ready(Ok(event));
                }
            }
            if self.exchange.eof {
                return Poll::Ready(self.handle_eof(None));
            }
            match ready!(self.poll_fill(cx)) {
                Ok(0) => self.exchange.eof = true,
                Ok(_) => {
                    self.exchange.heard = true;
                    self.exchange.head_reads += u32::from(!self.exchange.head_whole);
                }
                Err(error) => return Poll::Ready(self.handle_eof(Some(error))),
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = if self.exchange.large { READ_LARGE } else { READ };
        let got = ready!(self.io.poll_read(cx, self.read.storage(room)));
        self.exchange.large = got.as_ref().is_ok_and(|got| *got >= READ);
        Poll::Ready(got)
    }

    /// The stream of answers is over, by a close or (`lost`) by an error.
    fn handle_eof(&mut self, lost: Option<io::Error>) -> Result<Event, ClientError> {
        if !self.exchange.heard {
            return Err(ClientError::Unanswered(lost));
        }
        let cut = || {
            let sentence = "broke off in the middle of its answer".to_owned();
            ClientError::Fault(ServerFault { name: "truncated", sentence })
        };
        if lost.is_some() {
            // A reset never ends an answer, not even one that a close would end.
            return Err(cut());
        }
        match self.codec.handle_eof().map_err(ClientError::Fault)? {
            Some(_) => {
                self.exchange.answer_ended = true;
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

    /// Bytes into a tunnel; [`Self::poll_flush`] writes them.
    pub fn send_tunnel(&mut self, bytes: &[u8]) {
        if !self.exchange.write_failed {
            self.out.body.extend_from_slice(bytes);
        }
    }

    /// Sends FIN into a tunnel.
    pub fn shutdown_write(&self) {
        self.io.shutdown_write();
    }

    /// The head that came last.
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The protocol's state.
    pub fn codec(&mut self) -> &mut C {
        &mut self.codec
    }

    /// Whether the socket took a byte of the request. If not, it is certain that nobody has begun with it.
    pub fn has_sent(&self) -> bool {
        self.exchange.sent > 0
    }

    /// Whether a byte of the answer came.
    pub fn has_heard(&self) -> bool {
        self.exchange.heard
    }

    /// Whether several reads were needed for the head of the answer, though it is small: the server wrote it in pieces.
    pub fn head_came_in_pieces(&self) -> bool {
        self.exchange.head_reads > 1
    }

    /// When it was opened.
    pub fn opened(&self) -> Instant {
        self.opened
    }

    /// How many requests were begun on it.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether another request may follow: both messages are complete, both sides want it, and no byte waits that nobody asked for.
    pub fn is_reusable(&self) -> bool {
        let Exchange { request_ended, answer_ended, eof, write_failed, given_out, .. } = self.exchange;
        let whole = request_ended && answer_ended && self.out.is_empty();
        let clean = given_out == 0 && self.read.is_empty();
        whole && clean && !eof && !write_failed && !self.codec.is_tunnel() && self.codec.keeps_connection()
    }

    /// Gives large buffers back before it lies idle.
    pub(crate) fn rest(&mut self) {
        self.read.reset(KEEP);
        self.out.clear();
        self.out.shrink(KEEP);
    }

    /// Waits until the server says something nobody asked for, most likely that it closes.
    pub(crate) fn poll_noise(&mut self, cx: &mut Context<'_>) -> Poll<Idleness> {
        self.io.poll_noise(cx)
    }

    /// What an idle connection has to say, without waiting.
    pub(crate) fn look(&self) -> Idleness {
        self.io.look()
    }

    /// The same as far as the reactor of this thread has heard, without a system call.
    pub(crate) fn heard_of(&mut self) -> Idleness {
        match self.io.poll_noise(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Idleness::Quiet,
            Poll::Ready(noise) => noise,
        }
    }

    /// Takes it off its thread's reactor, so that another thread can use it.
    pub(crate) fn leave_thread(self) -> io::Result<Self> {
        let Self { io, .. } = self;
        Ok(Self { io: io.leave_thread()?, ..self })
    }
}

/// What an idle connection has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idleness {
    /// Nothing: it may be used.
    Quiet,
    /// The server has closed it.
    Closed,
    /// Bytes that nobody asked for.
    Noisy,
}
