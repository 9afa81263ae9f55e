//! Bytes read from a socket and not yet used.

/// A read buffer: bytes come in at the back, are looked at as one slice, and leave from the front.
///
/// ```text
///   [ used | unread      | spare capacity ]
///   0      start         len              capacity
/// ```
#[derive(Debug, Default)]
pub struct ReadBuffer {
    bytes: Vec<u8>,
    /// Never above `bytes.len()`.
    start: usize,
}

impl ReadBuffer {
    /// The bytes not yet consumed.
    pub fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Drops the first `count` unread bytes.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// The storage to read into, with at least `room` bytes of spare capacity: unread bytes move to the
    /// front first.
    pub fn storage(&mut self, room: usize) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < room {
            if self.start > 0 {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            self.bytes.reserve(room);
        }
        &mut self.bytes
    }

    /// Forgets everything; keeps the storage unless it has grown beyond `keep` bytes.
    pub fn reset(&mut self, keep: usize) {
        self.bytes.clear();
        self.start = 0;
        if self.bytes.capacity() > keep {
            self.bytes = Vec::new();
        }
    }
}
