//! A TLS session over a socket, driven by its reader and writer.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::channel::{Channel, SessionEnd};
use super::scratch::{SCRATCH, Scratch};
use super::{ClientTls, TlsError};
use crate::client::IdleState;
use crate::connect::AcquireError;
use crate::io::Io;
use crate::socket::look;
use crate::transport::WriteProgress;

/// The result of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// It resumed an earlier session: no certificate was sent.
    pub resumed: bool,
    /// Bytes of the server's certificates, which a full handshake transfers.
    pub certificate_bytes: usize,
}

/// A TLS session over a socket.
pub(crate) struct Session {
    io: Io,
    channel: Channel,
    facts: HandshakeFacts,
    /// Our side ends after the pending output.
    ends: bool,
    /// The end shows that something is missing: no close_notify.
    is_cut: bool,
}

impl Session {
    /// Makes a session with the server at the other end. The caller must bound it by a timeout.
    ///
    /// # Errors
    /// The server's identity is wrong, it refuses, or it breaks off.
    pub(crate) async fn handshake(io: Io, tls: &ClientTls) -> Result<Self, AcquireError> {
        let channel = Channel::client(tls).map_err(AcquireError::Tls)?;
        let facts = HandshakeFacts { resumed: false, certificate_bytes: 0 };
        let mut session = Self { io, channel, facts, ends: false, is_cut: false };
        poll_fn(|cx| session.poll_handshake(cx)).await.map_err(AcquireError::Tls)?;
        session.facts = session.channel.facts();
        Ok(session)
    }

    /// A session of a server whose handshake is not done.
    pub(super) fn of_server(io: Io, channel: Channel) -> Self {
        let facts = HandshakeFacts { resumed: false, certificate_bytes: 0 };
        Self { io, channel, facts, ends: false, is_cut: false }
    }

    pub(super) fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// The handshake is done.
    pub(super) fn note_facts(&mut self) {
        self.facts = self.channel.facts();
    }

    /// The socket, to be used without TLS from now on.
    pub(super) fn abandon(&mut self) -> &mut Io {
        self.is_cut = true;
        &mut self.io
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TlsError>> {
        loop {
            // The fault has become an alert, which goes out first.
            if ready!(self.poll_outgoing(cx)).is_err() {
                // The server may have sent its reason before it closed.
                self.channel.outgoing.clear();
            }
            match self.channel.end() {
                Some(SessionEnd::Broken(error)) => return Poll::Ready(Err(error.clone())),
                Some(SessionEnd::Closed | SessionEnd::CutOff) => {
                    let sentence = "the server closed the connection during the TLS handshake";
                    return Poll::Ready(Err(TlsError::new("tls_broken_off", sentence)));
                }
                None if !self.channel.is_handshaking() => return Poll::Ready(Ok(())),
                None => {}
            }
            if let Err(error) = ready!(self.poll_records(cx, None)) {
                let sentence = format!("the connection was lost during the TLS handshake: {error}");
                return Poll::Ready(Err(TlsError::new("tls_broken_off", sentence)));
            }
        }
    }

    /// Writes pending output.
    pub(super) fn poll_outgoing(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.channel.outgoing.is_empty() {
            match self.write_outgoing() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.io.poll_writable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => drop(result?),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes once, now. Returns how many bytes of a request left with it.
    fn write_outgoing(&mut self) -> io::Result<usize> {
        let outgoing = &mut self.channel.outgoing;
        if outgoing.is_empty() {
            return Ok(0);
        }
        let written = self.io.write(&[IoSlice::new(outgoing.unwritten())])?;
        let left = outgoing.advance(written);
        if self.ends && outgoing.is_empty() {
            self.io.shutdown_write();
        }
        Ok(left)
    }

    /// Appends what has arrived, decrypted. `Ok(0)` is the end of the stream, [`io::ErrorKind::UnexpectedEof`] one without a close_notify.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let before = into.len();
        self.channel.take_early(into);
        loop {
            if into.len() > before {
                return Poll::Ready(Ok(into.len() - before));
            }
            match self.channel.end() {
                None => ready!(self.poll_records(cx, Some(into)))?,
                Some(SessionEnd::Closed) => return Poll::Ready(Ok(0)),
                Some(SessionEnd::CutOff) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Some(SessionEnd::Broken(error)) => return Poll::Ready(Err(io::Error::other(error.clone()))),
            }
        }
    }

    /// Reads once, and processes the records.
    pub(super) fn poll_records(
        &mut self,
        cx: &mut Context<'_>,
        into: Option<&mut Vec<u8>>,
    ) -> Poll<io::Result<()>> {
        let had_output = !self.channel.outgoing.is_empty();
        ready!(SCRATCH.with_borrow_mut(|Scratch { incoming, .. }| {
            self.channel.prepare(incoming);
            match ready!(self.io.poll_read(cx, incoming))? {
                0 => self.channel.handle_eof(),
                _ => self.channel.handle_incoming(incoming, into),
            }
            Poll::Ready(Ok::<(), io::Error>(()))
        }))?;
        // The alert, for the peer's log. Without an end: a reply of the session itself (a refused renegotiation, a new key), which nothing else may follow.
        let replies = !had_output && !self.channel.outgoing.is_empty();
        if replies || matches!(self.channel.end(), Some(SessionEnd::Broken(_))) {
            let _ = self.write_outgoing();
        }
        Poll::Ready(Ok(()))
    }

    /// Encrypts as much of `slices` as possible, and writes it, now. Bytes that the socket has no room for are kept, and go first the next time.
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<WriteProgress> {
        if !self.channel.outgoing.is_empty() {
            return Ok(WriteProgress { taken: 0, left: self.write_outgoing()? });
        }
        if slices.iter().all(|slice| slice.is_empty()) {
            // No bytes become no record.
            return Ok(WriteProgress { taken: 0, left: 0 });
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.outgoing.clear();
            let taken = self.channel.encrypt(slices, scratch)?;
            let outgoing = &mut scratch.outgoing;
            if !self.channel.outgoing.is_empty() {
                // The session's own output that must not be overtaken.
                self.channel.outgoing.take(outgoing);
                return Ok(WriteProgress { taken, left: 0 });
            }
            let left = match self.io.write(&[IoSlice::new(outgoing.unwritten())]) {
                Ok(written) => outgoing.advance(written),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    0
                }
                Err(error) => {
                    // These records are lost, and no other may follow them.
                    self.is_cut = true;
                    return Err(error);
                }
            };
            self.channel.outgoing.take(outgoing);
            Ok(WriteProgress { taken, left })
        })
    }

    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_writable(cx)
    }

    pub(crate) fn forget_writable(&mut self) {
        self.io.forget_writable();
    }

    /// Encrypted bytes that the socket has not taken.
    pub(crate) fn unsent(&self) -> usize {
        self.channel.outgoing.len()
    }

    /// Drops them: the socket takes no more.
    pub(crate) fn forget_unsent(&mut self) {
        self.channel.outgoing.clear();
    }

    /// Ends our side: close_notify, then FIN. Bytes that the socket has no room for go with the next flush, and FIN after them.
    pub(crate) fn shutdown_write(&mut self) {
        self.channel.shut();
        self.ends = true;
        match self.channel.outgoing.is_empty() {
            // A broken session sends no close_notify, and none is sent twice.
            true => self.io.shutdown_write(),
            false => drop(self.write_outgoing()),
        }
    }

    /// The state of an idle connection, without waiting.
    pub(crate) fn look(&mut self) -> IdleState {
        self.channel.look(self.io.fd())
    }

    /// Waits until an idle connection has an event.
    pub(crate) fn poll_noise(&mut self, cx: &mut Context<'_>) -> Poll<IdleState> {
        let Self { io, channel, .. } = self;
        io.poll_noise(cx, |fd| channel.look(fd))
    }

    /// Waits until the peer has left, or has sent more, which stays unread.
    pub(super) fn poll_unread(&mut self, cx: &mut Context<'_>) -> Poll<IdleState> {
        self.io.poll_noise(cx, look)
    }

    /// Whether the server's side is open, as far as has been read.
    pub(crate) fn is_open(&self) -> bool {
        self.channel.end().is_none()
    }

    /// Frees storage before it becomes idle.
    pub(crate) fn rest(&mut self) {
        self.channel.rest();
    }

    pub(crate) fn io(&self) -> &Io {
        &self.io
    }

    /// Waits until a read could find something, without needing a buffer.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.channel.has_early() || self.channel.end().is_some() {
            true => Poll::Ready(Ok(())),
            false => self.io.poll_readable(cx),
        }
    }

    /// Whether something may be read without waiting.
    pub(crate) fn is_fresh(&self) -> bool {
        self.channel.has_early() || self.channel.end().is_some() || self.io.is_fresh()
    }

    /// Waits until something of `slices`, or of what was taken before, has left. Bytes taken before go first.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<WriteProgress>> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        if self.channel.outgoing.is_empty() {
            let progress = self.write(slices)?;
            budget.made_progress();
            return Poll::Ready(Ok(progress));
        }
        drop(budget);
        let outgoing = &mut self.channel.outgoing;
        let written = match ready!(self.io.poll_write(cx, &[IoSlice::new(outgoing.unwritten())]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            written => written,
        };
        let left = outgoing.advance(written);
        if self.ends && outgoing.is_empty() {
            self.io.shutdown_write();
        }
        Poll::Ready(Ok(WriteProgress { taken: 0, left }))
    }

    /// Makes the close a reset, without a close_notify: the peer cannot take a part for the whole message (RFC 8446 §6.1).
    pub(crate) fn reset_on_close(&mut self) {
        self.is_cut = true;
        self.io.reset_on_close();
    }

    /// See [`Io::poll_reset`].
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_reset(cx)
    }

    pub(crate) fn leave_thread(&mut self) {
        self.io.leave_thread();
    }

    pub(crate) fn facts(&self) -> HandshakeFacts {
        self.facts
    }

    /// The negotiated protocol.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.channel.alpn()
    }
}

impl Drop for Session {
    /// A clean close sends close_notify. Not after a partial record: it would corrupt that.
    fn drop(&mut self) {
        let listens = matches!(self.channel.end(), None | Some(SessionEnd::Closed));
        if listens && !self.is_cut && self.channel.outgoing.is_empty() {
            self.channel.shut();
            let _ = self.write_outgoing();
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("io", &self.io).field("facts", &self.facts).finish_non_exhaustive()
    }
}
