//! One end of a connection as scripts use it, in plaintext or under TLS.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use keepwarm_net::Endpoint;
use keepwarm_net::simulation::{self, Peer};

use crate::response::Broken;

/// A connection in plaintext to this address.
pub(crate) async fn connect(address: SocketAddr) -> Result<Box<dyn Line>, Broken> {
    match simulation::connect(&Endpoint::Tcp(address)) {
        Ok(peer) => Ok(Box::new(peer)),
        Err(_) => Err(Broken::Unreached),
    }
}

/// One end of a connection.
pub(crate) trait Line {
    /// Appends what has arrived, `most` bytes at most; 0: the end.
    fn poll_read(&self, cx: &mut Context<'_>, into: &mut Vec<u8>, most: usize) -> Poll<io::Result<usize>>;

    /// Takes what there is room for.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Ready: what was taken has left.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends this side, after the bytes taken so far.
    fn shutdown_write(&self);

    /// Waits for FIN after the end that was read.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Closes with a reset.
    fn reset(self: Box<Self>);

    /// The connection below it.
    fn peer(&self) -> &Peer;
}

impl dyn Line + '_ {
    /// As [`Line::poll_read`]; waits for a first byte.
    pub(crate) async fn read(&self, into: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, into, most)).await
    }

    /// Writes all of it, as there is room.
    pub(crate) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = poll_fn(|cx| self.poll_write(cx, bytes)).await?;
            bytes = &bytes[count..];
        }
        poll_fn(|cx| self.poll_flush(cx)).await
    }
}

impl Line for Peer {
    fn poll_read(&self, cx: &mut Context<'_>, into: &mut Vec<u8>, most: usize) -> Poll<io::Result<usize>> {
        Peer::poll_read(self, cx, into, most)
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Peer::poll_write(self, cx, bytes)
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn shutdown_write(&self) {
        Peer::shutdown_write(self);
    }

    fn poll_end(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn reset(self: Box<Self>) {
        Peer::reset(*self);
    }

    fn peer(&self) -> &Peer {
        self
    }
}
