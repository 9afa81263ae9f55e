//! What the encoders of the process hold, and its limit (`server.limits.compression_memory`).
//!
//! A response that streams, or whose client reads slowly, holds an encoder for as long as it lasts. At the limit further responses are sent as
//! they are: larger, but sent.

use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of encoders, in use and kept for the next response.
#[derive(Debug)]
pub struct CompressionMemory {
    held: AtomicU64,
    max: AtomicU64,
}

/// All encoders of the process.
pub static COMPRESSION_MEMORY: CompressionMemory =
    CompressionMemory { held: AtomicU64::new(0), max: AtomicU64::new(128 << 20) };

impl CompressionMemory {
    /// Sets the limit, in bytes. Encoders beyond a new one stay until their responses end.
    pub fn set_limit(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Bytes that encoders hold.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, if there is room.
    pub(super) fn take(&'static self, bytes: u64) -> Option<MemoryShare> {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let share = MemoryShare(bytes);
        // If it does not fit, the share gives it back.
        (before.saturating_add(bytes) <= self.limit()).then_some(share)
    }
}

/// Memory of one encoder, counted until it is dropped.
#[derive(Debug)]
pub(super) struct MemoryShare(u64);

impl Drop for MemoryShare {
    fn drop(&mut self) {
        COMPRESSION_MEMORY.held.fetch_sub(self.0, Ordering::Relaxed);
    }
}
