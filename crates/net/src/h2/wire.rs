//! The connection as the `h2` crate wants it, and what passes over it as a connection of ours wants to know it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{Frames, PREFACE};
use super::link::Link;
use crate::ReadBuffer;
use crate::transport::{Transport, Written};

/// Read at a time; while much comes, more.
const READ: usize = 16 * 1024;
const READ_LARGE: usize = 64 * 1024;

/// What carries an HTTP/2 connection.
#[derive(Debug)]
pub(super) struct Wire {
    transport: Transport,
    read: ReadBuffer,
    large: bool,
    inbound: Frames,
    outbound: Frames,
    link: Arc<Link>,
}

impl Wire {
    pub(super) fn new(transport: Transport, link: Arc<Link>) -> Self {
        Self {
            transport,
            read: ReadBuffer::default(),
            large: false,
            inbound: Frames::default(),
            outbound: Frames::after(PREFACE),
            link,
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = if self.large { READ_LARGE } else { READ };
        let got = ready!(self.transport.poll_read(cx, self.read.storage(room)))?;
        self.large = got >= READ;
        Poll::Ready(self.link.handle_read(self.read.unread()).map(|()| got))
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
        let link = &self.link;
        for slice in slices {
            let (taken, _) = slice.split_at(sent.min(slice.len()));
            sent -= taken.len();
            self.outbound.feed(taken, |passed| {
                link.handle_sent(passed);
                true
            });
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.link.is_crowded() {
            // Whoever takes a head wakes the driver.
            return Poll::Pending;
        }
        if wire.read.is_empty() && ready!(wire.poll_fill(cx))? == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = wire.read.unread();
        let (bytes, _) = bytes.split_at(into.remaining().min(bytes.len()));
        let link = &wire.link;
        let passed = wire.inbound.feed(bytes, |passed| link.handle_received(passed));
        let (bytes, _) = bytes.split_at(passed);
        into.put_slice(bytes);
        wire.read.consume(passed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
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
        let wire = self.get_mut();
        while wire.transport.unsent() > 0 {
            match wire.transport.write(&[]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(wire.transport.poll_writable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => drop(written?),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().transport.shutdown_write();
        Poll::Ready(Ok(()))
    }
}
