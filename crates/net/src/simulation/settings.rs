//! How a world behaves, and what it has come to.

use std::time::Duration;

/// How a world behaves.
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
    /// After the first time the clock is later by the second, all at once: a machine that was suspended.
    pub jump: Option<(Duration, Duration)>,
}

/// How many of a thousand calls fail, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// `ENOBUFS` of a send.
    pub no_buffers: u32,
    /// A send takes less than there is room for.
    pub short_send: u32,
    /// `EMFILE` of accept, connect, and the copy of a descriptor; `ENOSPC` of a registration.
    pub no_descriptor: u32,
    /// `EMFILE` of the copy of a descriptor that is watched already: who wants a second watch of the socket has the first.
    pub no_copy: u32,
    /// A connection is reset when it is written to or read.
    pub reset: u32,
    /// A task is woken, or a socket said to be ready, for nothing.
    pub spurious: u32,
    /// `ENOSPC` of a call to the disk.
    pub disk_full: u32,
    /// A connection is refused.
    pub refused: u32,
    /// A connect never comes to an end.
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

/// What a world has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sockets that somebody holds.
    pub files: usize,
    /// Bytes between them.
    pub bytes: usize,
    /// Events that have happened.
    pub events: u64,
    /// A digest of everything that has happened: equal for equal runs.
    pub digest: u64,
}
