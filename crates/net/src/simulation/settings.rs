//! The behavior of a world, and its totals.

use std::time::Duration;

/// The behavior of a world.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes that a pipe holds: drawn between these for each direction.
    pub capacity: (usize, usize),
    /// The longest time that a piece takes to arrive.
    pub latency: Duration,
    /// Pieces arrive whole, or in parts of any size.
    pub in_pieces: bool,
    /// What fails.
    pub faults: Faults,
    /// Once the first duration has passed, the clock jumps by the second: a machine that was suspended.
    pub jump: Option<(Duration, Duration)>,
}

/// Failures per thousand calls, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// `ENOBUFS` of a send.
    pub no_buffers: u32,
    /// A send takes less than there is room for.
    pub short_send: u32,
    /// `EMFILE` of accept, connect, and the copy of a descriptor; `ENOSPC` of a registration.
    pub no_descriptor: u32,
    /// `EMFILE` of the copy of a descriptor that is watched already: a caller that wants a second watch of the socket uses the first.
    pub no_copy: u32,
    /// A connection is reset when it is written to or read.
    pub reset: u32,
    /// A task is woken, or a socket reported ready, for nothing.
    pub spurious: u32,
    /// `ENOSPC` of a call to the disk.
    pub disk_full: u32,
    /// A connection is refused.
    pub refused: u32,
    /// A connect never completes.
    pub silent: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity: (64 * 1024, 64 * 1024),
            latency: Duration::ZERO,
            in_pieces: false,
            faults: Faults::default(),
            jump: None,
        }
    }
}

/// The totals of a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sockets in use.
    pub files: usize,
    /// Bytes in flight between them.
    pub bytes: usize,
    /// Events that have happened.
    pub events: u64,
    /// A digest of everything that has happened: equal for equal runs.
    pub digest: u64,
}
