//! The other end of a connection, for scripts: they see bytes, ends and errors, and know nothing of readiness.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use rustix::io::Errno;

use super::bound;
use super::file::Kind;
use super::kernel::with;
use super::socket::{self, Socket};
use crate::Endpoint;

/// One end of a connection.
#[derive(Debug)]
pub struct Peer {
    socket: Socket,
}

/// A socket that a script listens on.
#[derive(Debug)]
pub struct PeerListener {
    socket: Socket,
}

/// A connection: one end for the code under test, one for a script. `unix`: as the kernel makes them between processes.
#[must_use]
pub fn pair(unix: bool) -> (Socket, Peer) {
    let (ours, theirs) = with(|kernel| kernel.new_pair(unix));
    (Socket { file: ours }, Peer { socket: Socket { file: theirs } })
}

/// Listens.
///
/// # Errors
/// The address is in use.
pub fn listen(endpoint: Endpoint) -> io::Result<PeerListener> {
    Ok(PeerListener { socket: bound::listen(endpoint)? })
}

/// Connects, once somebody listens.
///
/// # Errors
/// Nobody listens there.
pub fn connect(endpoint: &Endpoint) -> io::Result<Peer> {
    with(|kernel| {
        let listener = *kernel.listeners.get(endpoint).ok_or(io::ErrorKind::ConnectionRefused)?;
        let (client, server) = kernel.new_pair(matches!(endpoint, Endpoint::Unix(_)));
        kernel.schedule_connected(client, listener, server, true);
        Ok(Peer { socket: Socket { file: client } })
    })
}

impl PeerListener {
    /// The next connection.
    pub async fn accept(&self) -> Peer {
        let file = poll_fn(|cx| {
            with(|kernel| {
                let file = kernel.files.get_mut(&self.socket.file).expect("open for as long as this is");
                if let Kind::Listener { queue, .. } = &mut file.kind
                    && let Some(next) = queue.pop_front()
                {
                    return Poll::Ready(next);
                }
                file.observers.push(cx.waker().clone());
                Poll::Pending
            })
        });
        Peer { socket: Socket { file: file.await } }
    }
}

impl Peer {
    /// Appends what has arrived, `most` bytes at most; waits for a first one. 0: the end.
    ///
    /// # Errors
    /// The connection was reset.
    pub async fn read(&self, into: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, into, most)).await
    }

    /// As [`read`](Self::read).
    ///
    /// # Errors
    /// The connection was reset.
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        with(|kernel| {
            let stream = kernel.stream(self.socket.file).expect("open for as long as this is");
            let count = most.min(stream.incoming.len());
            if count == 0 {
                if stream.error.take().is_some() || stream.broken {
                    return Poll::Ready(Err(Errno::CONNRESET.into()));
                }
                if stream.ended {
                    return Poll::Ready(Ok(0));
                }
                kernel.observe(self.socket.file, cx.waker());
                return Poll::Pending;
            }
            into.extend(stream.incoming.drain(..count));
            kernel.made_room(self.socket.file);
            Poll::Ready(Ok(count))
        })
    }

    /// Writes all of it, as room appears.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = poll_fn(|cx| self.poll_write(cx, bytes)).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Writes as much as fits; waits for room for a first byte.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match socket::send(&self.socket, &[IoSlice::new(bytes)]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                with(|kernel| kernel.observe(self.socket.file, cx.waker()));
                Poll::Pending
            }
            Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            result => Poll::Ready(result),
        }
    }

    /// Sends FIN.
    pub fn shutdown_write(&self) {
        socket::shutdown_write(&self.socket);
    }

    /// Closes with a reset.
    pub fn reset(self) {
        socket::reset_on_close(&self.socket);
    }

    /// Waits until the other side has ended or broken the connection, without reading.
    pub async fn closed(&self) {
        poll_fn(|cx| {
            with(|kernel| {
                let stream = kernel.stream(self.socket.file).expect("open for as long as this is");
                if stream.ended || stream.broken {
                    return Poll::Ready(());
                }
                kernel.observe(self.socket.file, cx.waker());
                Poll::Pending
            })
        })
        .await;
    }

    /// Bytes that were sent.
    #[must_use]
    pub fn sent(&self) -> usize {
        with(|kernel| kernel.stream(self.socket.file).map_or(0, |stream| stream.sent))
    }

    /// Those of them that have arrived, or had when the other side closed, whether it read them or not.
    #[must_use]
    pub fn delivered(&self) -> usize {
        with(|kernel| {
            let Some(stream) = kernel.stream(self.socket.file) else { return 0 };
            let (sent, peer, unarrived) = (stream.sent, stream.peer, stream.unarrived);
            let on_its_way = kernel.stream(peer).map_or(unarrived, |peer| peer.wire.len());
            sent.saturating_sub(on_its_way)
        })
    }

    /// Bytes that have arrived and were not read.
    #[must_use]
    pub fn arrived(&self) -> usize {
        with(|kernel| kernel.stream(self.socket.file).map_or(0, |stream| stream.incoming.len()))
    }
}

impl super::kernel::Kernel {
    fn observe(&mut self, file: u64, waker: &std::task::Waker) {
        if let Some(file) = self.files.get_mut(&file)
            && !file.observers.iter().any(|observer| observer.will_wake(waker))
        {
            file.observers.push(waker.clone());
        }
    }
}
