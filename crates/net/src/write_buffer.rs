//! Bytes waiting to be written: heads in front, body after, written together.

use std::io::IoSlice;

/// Bytes on their way out. Heads (informational ones, then the final one) come before the body, so two buffers are
/// enough for one system call without moving either.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    /// Heads, encoded.
    pub head: Vec<u8>,
    /// The body, framed.
    pub body: Vec<u8>,
    /// Bytes of head, then of body, already written.
    sent: usize,
}

impl WriteBuffer {
    /// Bytes not yet written.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len() - self.sent
    }

    /// Whether all is written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether none of it has been written.
    pub fn is_untouched(&self) -> bool {
        self.sent == 0
    }

    /// The rest, in order. A small body is appended to its head: one buffer is cheaper to write than two.
    pub fn slices(&mut self) -> ([IoSlice<'_>; 2], usize) {
        if self.sent < self.head.len() && self.body.len() <= JOIN {
            self.head.append(&mut self.body);
        }
        let head = self.head.get(self.sent..).unwrap_or_default();
        let body = self.body.get(self.sent.saturating_sub(self.head.len())..).unwrap_or_default();
        match (head.is_empty(), body.is_empty()) {
            (true, _) => ([IoSlice::new(body), IoSlice::new(&[])], 1),
            (false, true) => ([IoSlice::new(head), IoSlice::new(&[])], 1),
            (false, false) => ([IoSlice::new(head), IoSlice::new(body)], 2),
        }
    }

    /// Drops what the socket took.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.head.len() + self.body.len() {
            self.clear();
        } else if self.sent > self.head.len() + COMPACT_AT {
            // Long streams: the written front of the body is not kept.
            self.body.drain(..self.sent - self.head.len());
            self.sent = self.head.len();
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
        self.sent = 0;
    }

    /// Frees large storage.
    pub fn shrink(&mut self, keep: usize) {
        for buffer in [&mut self.head, &mut self.body] {
            if buffer.capacity() > keep {
                *buffer = Vec::new();
            }
        }
    }
}

const COMPACT_AT: usize = 256 * 1024;

/// Copying this many bytes costs less than a second slice in a system call.
const JOIN: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn left(out: &mut WriteBuffer) -> Vec<u8> {
        let (slices, count) = out.slices();
        slices.iter().take(count).flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn any_partial_write_leaves_the_rest_in_order() {
        for first in 0..=10 {
            for second in 0..=10 - first {
                let mut out = WriteBuffer { head: b"head".to_vec(), body: b"bodily".to_vec(), sent: 0 };
                out.advance(first);
                out.advance(second);
                assert_eq!(left(&mut out), b"headbodily"[first + second..]);
                assert_eq!(out.len(), 10 - first - second);
            }
        }
    }
}
