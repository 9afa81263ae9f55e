//! Files, and their watchers.

use std::collections::VecDeque;
use std::task::Waker;

use rustix::io::Errno;
use tokio::io::Interest;

#[derive(Debug)]
pub(super) struct File {
    /// Descriptors of it.
    pub(super) descriptors: usize,
    pub(super) kind: Kind,
    /// Scripts that wait for any change.
    pub(super) observers: Vec<Waker>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Stream(Stream),
    Listener { queue: VecDeque<u64>, refuses: bool },
}

/// One end of a connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) peer: u64,
    pub(super) unix: bool,
    /// Bytes that have arrived, and bytes in flight.
    pub(super) incoming: VecDeque<u8>,
    pub(super) wire: VecDeque<u8>,
    pub(super) capacity: usize,
    /// FIN has arrived, or follows the bytes in flight.
    pub(super) ended: bool,
    pub(super) end_comes: bool,
    pub(super) reset_comes: bool,
    /// Reported once to a read or a write.
    pub(super) error: Option<Errno>,
    pub(super) shut: bool,
    pub(super) broken: bool,
    pub(super) peer_gone: bool,
    /// A send has found no room: the edge is due.
    pub(super) no_room: bool,
    pub(super) resets: bool,
    pub(super) connecting: bool,
    pub(super) coming: bool,
    /// Bytes that this end has sent, and how many of them had not arrived when the other closed.
    pub(super) sent: usize,
    pub(super) unarrived: usize,
}

#[derive(Debug)]
pub(super) struct Registration {
    pub(super) file: u64,
    pub(super) interest: Interest,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) read_closed: bool,
    pub(super) write_closed: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) waiting: Vec<Waker>,
}

/// A file has changed: its watchers are notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileEvent {
    Data,
    Room,
    End,
    Reset,
}

impl File {
    pub(super) fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Stream(stream) => stream.incoming.len() + stream.wire.len(),
            Kind::Listener { .. } => 0,
        }
    }
}

impl Stream {
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.incoming.len() + self.wire.len())
    }

    /// The room that Linux requires before it reports any.
    pub(super) fn has_enough_room(&self) -> bool {
        self.room() * 3 >= self.capacity
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.incoming.is_empty() || self.ended || self.error.is_some() || self.broken
    }
}

impl Registration {
    pub(super) fn wake_ready(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        if self.readable || self.read_closed {
            wakers.extend(self.reader.take());
            wakers.append(&mut self.waiting);
        }
        if self.writable || self.write_closed {
            wakers.extend(self.writer.take());
            wakers.append(&mut self.waiting);
        }
        wakers
    }

    pub(super) fn wake_all(&mut self) -> Vec<Waker> {
        let mut wakers: Vec<Waker> = self.reader.take().into_iter().chain(self.writer.take()).collect();
        wakers.append(&mut self.waiting);
        wakers
    }
}
