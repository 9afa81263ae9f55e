//! The transport of a connection: a socket, in plaintext or under TLS, or none, within the process.

mod stream;

use std::fs::File;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use crate::Io;
use crate::client::IdleState;
use crate::memory_stream::{self, MemoryStream};
use crate::pool::ConnectionSlot;
use crate::tls::{HandshakeFacts, Session};
pub use stream::TransportStream;

/// A connected stream, in plaintext or encrypted.
#[derive(Debug)]
pub struct Transport {
    kind: Kind,
    /// Its connection slot. Released after the socket is closed.
    slot: Option<ConnectionSlot>,
}

#[derive(Debug)]
enum Kind {
    Plain(Io),
    Tls(Box<Session>),
    /// Of a request of Keepwarm itself.
    Memory(Box<MemoryStream>),
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteProgress {
    /// Bytes of the input that need not be given again.
    pub taken: usize,
    /// Bytes, of this or earlier input, that have left with this write.
    pub left: usize,
}

impl From<Io> for Transport {
    fn from(io: Io) -> Self {
        Self { kind: Kind::Plain(io), slot: None }
    }
}

impl From<Session> for Transport {
    fn from(session: Session) -> Self {
        Self { kind: Kind::Tls(Box::new(session)), slot: None }
    }
}

impl Transport {
    /// Two connected ends within this process: no descriptor, no system call.
    #[must_use]
    pub fn pair_in_memory() -> (Self, Self) {
        let (one, other) = memory_stream::pair();
        let transport = |end| Self { kind: Kind::Memory(Box::new(end)), slot: None };
        (transport(one), transport(other))
    }

    /// Appends what has arrived to `into`: about its spare capacity (which must not be 0), under TLS also more. `Ok(0)` is the end of the stream; under TLS, an end without a
    /// close_notify is [`io::ErrorKind::UnexpectedEof`].
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match &mut self.kind {
            Kind::Plain(io) => io.poll_read(cx, into),
            Kind::Tls(session) => session.poll_read(cx, into),
            Kind::Memory(stream) => stream.poll_read(cx, into),
        }
    }

    /// Writes once, now: first the bytes taken before, then as much as possible of `slices`.
    ///
    /// # Errors
    /// The socket's; [`io::ErrorKind::WouldBlock`]: see [`Self::poll_writable`].
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<WriteProgress> {
        match &mut self.kind {
            Kind::Plain(io) => match io.write(slices)? {
                0 if slices.iter().any(|slice| !slice.is_empty()) => Err(io::ErrorKind::WriteZero.into()),
                count => Ok(WriteProgress { taken: count, left: count }),
            },
            Kind::Tls(session) => session.write(slices),
            Kind::Memory(stream) => {
                stream.write(slices).map(|count| WriteProgress { taken: count, left: count })
            }
        }
    }

    /// Whether [`Self::poll_send_file`] is possible: it needs a socket, and bytes under TLS have to be read first, to be encrypted.
    pub fn sends_files(&self) -> bool {
        matches!(self.kind, Kind::Plain(_))
    }

    /// Writes once, now, what [`Self::poll_send_file`] follows at once: it leaves with the first bytes of the file.
    ///
    /// # Errors
    /// As of [`Self::write`]; [`io::ErrorKind::Unsupported`] unless [`Self::sends_files`].
    pub fn write_before_file(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.kind {
            Kind::Plain(io) => io.write_before_file(bytes),
            Kind::Tls(_) | Kind::Memory(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends bytes of a file without reading them (see [`Io::poll_send_file`]).
    ///
    /// # Errors
    /// As of [`Io::poll_send_file`]; [`io::ErrorKind::Unsupported`] unless [`Self::sends_files`].
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        at: u64,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        match &mut self.kind {
            Kind::Plain(io) => io.poll_send_file(cx, file, at, max),
            Kind::Tls(_) | Kind::Memory(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Waits until something of `slices`, or of what was taken before, has left.
    #[inline]
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<WriteProgress>> {
        match &mut self.kind {
            Kind::Plain(io) => match ready!(io.poll_write(cx, slices))? {
                0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => Poll::Ready(Ok(WriteProgress { taken: count, left: count })),
            },
            Kind::Tls(session) => session.poll_write(cx, slices),
            Kind::Memory(stream) => {
                let written = ready!(stream.poll_write(cx, slices));
                Poll::Ready(written.map(|count| WriteProgress { taken: count, left: count }))
            }
        }
    }

    /// Waits until a read may find something, without needing a buffer.
    #[inline]
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(io) => io.poll_readable(cx),
            Kind::Tls(session) => session.poll_readable(cx),
            Kind::Memory(stream) => stream.poll_readable(cx).map(Ok),
        }
    }

    /// Whether something may be read without waiting: it was never waited for, or decrypted bytes are there.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        match &self.kind {
            Kind::Plain(io) => io.is_fresh(),
            Kind::Tls(session) => session.is_fresh(),
            Kind::Memory(stream) => stream.is_readable(),
        }
    }

    /// Waits for a reset of a connection whose read side has ended (see [`Io::poll_reset`]).
    pub fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.kind {
            Kind::Plain(io) => io.poll_reset(cx),
            Kind::Tls(session) => session.poll_reset(cx),
            Kind::Memory(stream) => stream.poll_closed(cx),
        }
    }

    /// Makes the close a reset, so that the peer cannot take a part for the whole message.
    pub fn reset_on_close(&mut self) {
        match &mut self.kind {
            Kind::Plain(io) => io.reset_on_close(),
            Kind::Tls(session) => session.reset_on_close(),
            Kind::Memory(stream) => stream.reset_on_close(),
        }
    }

    /// Waits until a write would succeed.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(io) => io.poll_writable(cx),
            Kind::Tls(session) => session.poll_writable(cx),
            Kind::Memory(stream) => stream.poll_writable(cx).map(Ok),
        }
    }

    /// Writes bytes that were taken and have not left.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent() > 0 {
            match self.write(&[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_writable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => drop(written?),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Everything has been written: stops waiting for room.
    pub(crate) fn forget_writable(&mut self) {
        match &mut self.kind {
            Kind::Plain(io) => io.forget_writable(),
            Kind::Tls(session) => session.forget_writable(),
            Kind::Memory(stream) => stream.forget_writable(),
        }
    }

    /// Bytes that were taken and have not left.
    pub fn unsent(&self) -> usize {
        match &self.kind {
            Kind::Plain(_) | Kind::Memory(_) => 0,
            Kind::Tls(session) => session.unsent(),
        }
    }

    /// Bytes that have left and that the peer has not received, as far as the kernel knows.
    pub(crate) fn queued(&self) -> usize {
        match &self.kind {
            Kind::Plain(io) => io.queued(),
            Kind::Tls(session) => session.io().queued(),
            Kind::Memory(stream) => stream.queued(),
        }
    }

    /// Drops them.
    pub(crate) fn forget_unsent(&mut self) {
        if let Kind::Tls(session) = &mut self.kind {
            session.forget_unsent();
        }
    }

    /// Ends our side, with what has been written before it still delivered. Under TLS that takes a flush when the socket is full.
    pub fn shutdown_write(&mut self) {
        match &mut self.kind {
            Kind::Plain(io) => io.shutdown_write(),
            Kind::Tls(session) => session.shutdown_write(),
            Kind::Memory(stream) => stream.shutdown_write(),
        }
    }

    /// The state of an idle connection, without waiting.
    pub fn look(&mut self) -> IdleState {
        match &mut self.kind {
            Kind::Plain(io) => io.look(),
            Kind::Tls(session) => session.look(),
            Kind::Memory(stream) => stream.look(),
        }
    }

    /// Waits until an idle connection has an event.
    pub(crate) fn poll_noise(&mut self, cx: &mut Context<'_>) -> Poll<IdleState> {
        match &mut self.kind {
            Kind::Plain(io) => io.poll_noise(cx, crate::socket::look),
            Kind::Tls(session) => session.poll_noise(cx),
            Kind::Memory(stream) => stream.poll_readable(cx).map(|()| stream.look()),
        }
    }

    /// Whether the server has not announced a close beside its response.
    pub(crate) fn is_open(&self) -> bool {
        match &self.kind {
            Kind::Plain(_) | Kind::Memory(_) => true,
            Kind::Tls(session) => session.is_open(),
        }
    }

    /// Frees storage before it becomes idle.
    pub fn rest(&mut self) {
        if let Kind::Tls(session) = &mut self.kind {
            session.rest();
        }
    }

    /// Removes it from its thread's reactor, so that another thread can use it.
    pub(crate) fn leave_thread(&mut self) {
        match &mut self.kind {
            Kind::Plain(io) => io.leave_thread(),
            Kind::Tls(session) => session.leave_thread(),
            // It belongs to no reactor.
            Kind::Memory(_) => {}
        }
    }

    /// The result of the handshake; `None`: plaintext.
    pub fn handshake(&self) -> Option<HandshakeFacts> {
        match &self.kind {
            Kind::Plain(_) | Kind::Memory(_) => None,
            Kind::Tls(session) => Some(session.facts()),
        }
    }

    /// The negotiated protocol (ALPN).
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::Plain(_) | Kind::Memory(_) => None,
            Kind::Tls(session) => session.alpn(),
        }
    }

    /// Holds this connection slot for as long as it is open.
    pub(crate) fn hold(&mut self, slot: ConnectionSlot) {
        self.slot = Some(slot);
    }

    /// Waits for the next byte of a Unix socket, and returns the process that sent it (see [`Io::poll_sender`]).
    pub(crate) fn poll_sender(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u32>>> {
        match &mut self.kind {
            Kind::Plain(io) => io.poll_sender(cx),
            Kind::Tls(_) | Kind::Memory(_) => Poll::Ready(Ok(None)),
        }
    }

    /// The socket, unless it is within the process.
    pub fn io(&self) -> Option<&Io> {
        match &self.kind {
            Kind::Plain(io) => Some(io),
            Kind::Tls(session) => Some(session.io()),
            Kind::Memory(_) => None,
        }
    }

    /// Nothing is read any more, and the peer's next write fails. What was written before is still delivered. `false`: no peer is told (TCP), and nothing
    /// has changed.
    pub(crate) fn shutdown_read(&self) -> bool {
        match &self.kind {
            Kind::Plain(io) => io.shutdown_read(),
            Kind::Tls(session) => session.io().shutdown_read(),
            Kind::Memory(stream) => {
                stream.shutdown_read();
                true
            }
        }
    }

    /// Acknowledges what has been read at once. `false`: the connection has no acknowledgements.
    pub(crate) fn acknowledge(&self) -> bool {
        match &self.kind {
            Kind::Plain(io) => io.acknowledge(),
            Kind::Tls(session) => session.io().acknowledge(),
            Kind::Memory(_) => false,
        }
    }

    /// Ends our side as it is, under TLS without a close_notify.
    pub(crate) fn cut_write(&self) {
        match &self.kind {
            Kind::Plain(io) => io.shutdown_write(),
            Kind::Tls(session) => session.io().shutdown_write(),
            Kind::Memory(stream) => stream.shutdown_write(),
        }
    }
}
