//! The connection as the `h2` crate wants it, and what passes over it as a connection of ours wants to know it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{Frames, PREFACE, Passed};
use crate::ReadBuffer;
use crate::transport::{Transport, Written};

/// Read at a time; while much comes, more.
const READ: usize = 16 * 1024;
const READ_LARGE: usize = 64 * 1024;

/// Who wants to know what passes.
pub(super) trait Watch {
    /// Bytes came; none: the end.
    ///
    /// # Errors
    /// They end the connection.
    fn handle_read(&self, bytes: &[u8]) -> io::Result<()>;

    /// A frame passes to the `h2` crate. `false`: what follows it does not yet.
    fn handle_received(&self, passed: Passed) -> bool;

    /// A frame of ours, or its front, was taken.
    fn handle_sent(&self, passed: Passed);

    /// Whether nothing passes to the `h2` crate for now. Whoever ends that wakes the connection's task.
    fn holds_back(&self) -> bool;

    /// Bytes were taken; none: they have to wait.
    fn handle_written(&self, _count: usize) {}
}

/// What carries an HTTP/2 connection.
#[derive(Debug)]
pub(super) struct Wire<W> {
    transport: Transport,
    read: ReadBuffer,
    large: bool,
    inbound: Frames,
    outbound: Frames,
    watch: Arc<W>,
}

impl<W: Watch> Wire<W> {
    /// Of the client's side.
    pub(super) fn client(transport: Transport, watch: Arc<W>) -> Self {
        let (inbound, outbound) = (Frames::default(), Frames::after(PREFACE));
        Self { transport, read: ReadBuffer::default(), large: false, inbound, outbound, watch }
    }

    /// Of the server's side; `read` has come already.
    pub(super) fn server(transport: Transport, read: ReadBuffer, watch: Arc<W>) -> Self {
        let (inbound, outbound) = (Frames::after(PREFACE), Frames::default());
        Self { transport, read, large: false, inbound, outbound, watch }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = if self.large { READ_LARGE } else { READ };
        let got = ready!(self.transport.poll_read(cx, self.read.storage(room)))?;
        self.large = got >= READ;
        Poll::Ready(self.watch.handle_read(self.read.unread()).map(|()| got))
    }

    /// Waits until something of `slices` is taken.
    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            match self.transport.write(slices) {
                Ok(Written { taken: taken @ 1.., .. }) => {
                    // Under TLS, it may have left only later: to be in doubt about it errs on the safe side.
                    self.follow(slices, taken);
                    return Poll::Ready(Ok(taken));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.watch.handle_written(0);
                    ready!(self.transport.poll_writable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
                // What was taken before went first.
                Ok(Written { taken: 0, .. }) => {}
            }
        }
    }

    fn follow(&mut self, slices: &[IoSlice<'_>], mut sent: usize) {
        let watch = &self.watch;
        watch.handle_written(sent);
        for slice in slices {
            let (taken, _) = slice.split_at(sent.min(slice.len()));
            sent -= taken.len();
            self.outbound.feed(taken, |passed| {
                watch.handle_sent(passed);
                true
            });
        }
    }
}

impl<W: Watch> AsyncRead for Wire<W> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.watch.holds_back() {
            return Poll::Pending;
        }
        if wire.read.is_empty() && ready!(wire.poll_fill(cx))? == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = wire.read.unread();
        let (bytes, _) = bytes.split_at(into.remaining().min(bytes.len()));
        let watch = &wire.watch;
        let passed = wire.inbound.feed(bytes, |passed| watch.handle_received(passed));
        let (bytes, _) = bytes.split_at(passed);
        into.put_slice(bytes);
        wire.read.consume(passed);
        Poll::Ready(Ok(()))
    }
}

impl<W: Watch> AsyncWrite for Wire<W> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().transport.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().transport.shutdown_write();
        Poll::Ready(Ok(()))
    }
}
