//! A connection as libraries built on tokio's traits expect it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Transport, WriteProgress};
use crate::ReadBuffer;

/// Read at a time.
const READ: usize = 16 * 1024;

/// A connection, in plaintext or under TLS, as a stream of bytes.
#[derive(Debug)]
pub struct TransportStream {
    transport: Transport,
    read: ReadBuffer,
}

impl From<Transport> for TransportStream {
    fn from(transport: Transport) -> Self {
        Self { transport, read: ReadBuffer::default() }
    }
}

impl AsyncRead for TransportStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { transport, read } = self.get_mut();
        if read.is_empty() && ready!(transport.poll_read(cx, read.storage(READ)))? == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = read.unread();
        let count = into.remaining().min(bytes.len());
        into.put_slice(bytes.get(..count).unwrap_or_default());
        read.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TransportStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let transport = &mut self.get_mut().transport;
        loop {
            match transport.write(&[IoSlice::new(bytes)]) {
                Ok(WriteProgress { taken: taken @ 1.., .. }) => return Poll::Ready(Ok(taken)),
                Ok(WriteProgress { taken: 0, .. }) if bytes.is_empty() => return Poll::Ready(Ok(0)),
                // Bytes taken before went first.
                Ok(WriteProgress { taken: 0, .. }) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(transport.poll_writable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().transport.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let transport = &mut self.get_mut().transport;
        transport.shutdown_write();
        transport.poll_flush(cx)
    }
}
