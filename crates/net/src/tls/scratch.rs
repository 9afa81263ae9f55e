//! Buffers of the thread that every session on it reads and writes through, so that an idle connection holds none.

use std::cell::RefCell;

/// Read at a time: four full records and the rest of one.
pub(super) const READ: usize = 64 * 1024 + 16 * 1024;
/// Plain bytes encrypted at a time.
pub(super) const WRITE: usize = 64 * 1024;
/// Plain bytes in a record (RFC 8446 §5.1).
pub(super) const RECORD: usize = 16 * 1024;

/// The buffers of a thread.
#[derive(Default)]
pub(super) struct Scratch {
    /// Records that have come in.
    pub(super) incoming: Vec<u8>,
    /// Records that go out.
    pub(super) outgoing: Records,
    /// Head and body, to be one record.
    pub(super) gathered: Vec<u8>,
}

thread_local! {
    pub(super) static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Records on their way out.
///
/// ```text
///   [ written | to be written | storage for more ]
///   0         start           end                bytes.len()
/// ```
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes at the front of the pending output that are TLS's own: a handshake, an alert, a new key. The rest is the request's.
    own: usize,
}

impl Records {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Storage for a record of `size` bytes; [`Self::push`] then states its actual size.
    pub(super) fn room(&mut self, size: usize) -> &mut [u8] {
        if self.bytes.len() < self.end + size {
            self.bytes.resize(self.end + size, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Adds the bytes put into [`Self::room`].
    pub(super) fn push(&mut self, size: usize, own: bool) {
        // After bytes of a request, it only lowers the number known to be sent.
        if own && self.own == self.len() {
            self.own += size;
        }
        self.end += size;
    }

    /// Adds whole bytes.
    pub(super) fn add(&mut self, bytes: &[u8], own: bool) {
        if let Some(room) = self.room(bytes.len()).get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.push(bytes.len(), own);
    }

    /// Drops what the socket took, and returns how much of it was the request's.
    pub(super) fn advance(&mut self, count: usize) -> usize {
        let own = count.min(self.own);
        self.own -= own;
        self.start += count;
        if self.is_empty() {
            self.clear();
        }
        count - own
    }

    /// Takes over the content of another.
    pub(super) fn take(&mut self, other: &mut Self) {
        let size = other.len();
        if let Some(room) = self.room(size).get_mut(..size) {
            room.copy_from_slice(other.unwritten());
        }
        if self.own == self.len() {
            self.own += other.own;
        }
        self.end += size;
        other.clear();
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end, self.own) = (0, 0, 0);
    }

    /// Gives the storage back.
    pub(super) fn free(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}
