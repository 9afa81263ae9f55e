//! The end of earlier messages: the bytes that DEFLATE may refer back to from one message to the next (RFC 7692 §7.1.1).

/// The last bytes of one direction, up to a limit. This is all that a WebSocket keeps of its compression between two messages.
#[derive(Debug, Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    most: usize,
}

impl Window {
    pub(super) fn of_bits(bits: u8) -> Self {
        Self { bytes: Vec::new(), most: 1 << bits }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let new = bytes.get(bytes.len().saturating_sub(self.most)..).unwrap_or_default();
        let old = (self.bytes.len() + new.len()).saturating_sub(self.most);
        self.bytes.drain(..old.min(self.bytes.len()));
        let len = self.bytes.len() + new.len();
        if len > self.bytes.capacity() {
            // Never beyond the limit, and not for each message again.
            self.bytes.reserve_exact(len.next_power_of_two() - self.bytes.len());
        }
        self.bytes.extend_from_slice(new);
    }

    pub(super) fn clear(&mut self) {
        self.bytes = Vec::new();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
