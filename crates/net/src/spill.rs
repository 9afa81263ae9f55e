//! What all spools of the process hold, in memory and on disk, and its limit (`server.limits.spill`).
//!
//! Nobody waits here for room. A response that finds none is passed on as fast as its client takes it, like an unbuffered one: the part
//! already kept drains to its client. A request's body that finds none is refused, because bodies that wait for one another, each holding
//! a part of the room, would wait forever. Responses leave a quarter to them: slow readers alone refuse no upload.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Usage and limits of spools.
#[derive(Debug)]
pub struct Spill {
    memory: AtomicU64,
    disk: AtomicU64,
    max: AtomicU64,
    max_memory: AtomicU64,
    /// Spools that were lost to their file.
    failures: AtomicU64,
    /// The log has a report that it is full.
    reported: AtomicBool,
}

/// All spools of the process.
pub static SPILL: Spill = Spill::new(1 << 30, 128 << 20);

/// Bytes that spools hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpillTotals {
    /// In memory, on its way to the disk and back included.
    pub memory: u64,
    /// In files.
    pub disk: u64,
}

impl Spill {
    pub(crate) const fn new(max: u64, max_memory: u64) -> Self {
        Self {
            memory: AtomicU64::new(0),
            disk: AtomicU64::new(0),
            max: AtomicU64::new(max),
            max_memory: AtomicU64::new(max_memory),
            failures: AtomicU64::new(0),
            reported: AtomicBool::new(false),
        }
    }

    /// Sets the limits, in bytes: of memory and disk together, and of memory. Usage beyond new limits drains with its clients.
    pub fn set_limits(&self, max: u64, max_memory: u64) {
        self.max.store(max, Ordering::Relaxed);
        self.max_memory.store(max_memory, Ordering::Relaxed);
    }

    /// The limit on memory and disk together.
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Current usage.
    pub fn totals(&self) -> SpillTotals {
        SpillTotals { memory: self.memory.load(Ordering::Relaxed), disk: self.disk.load(Ordering::Relaxed) }
    }

    /// Spools that were lost because their file could not be made, written or read.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a request's body may take more.
    pub(crate) fn has_room_for_request(&self) -> bool {
        self.has_room(self.max())
    }

    /// Whether a response may take more.
    pub fn has_room_for_response(&self) -> bool {
        let max = self.max();
        self.has_room(max - max / 4)
    }

    /// Whether there is memory for another spool.
    pub fn has_memory(&self) -> bool {
        self.totals().memory < self.max_memory.load(Ordering::Relaxed)
    }

    /// Whether memory is short: spools then use the disk instead, and smaller blocks.
    pub(crate) fn is_memory_short(&self) -> bool {
        self.totals().memory >= self.max_memory.load(Ordering::Relaxed) / 2
    }

    fn has_room(&self, max: u64) -> bool {
        let SpillTotals { memory, disk } = self.totals();
        let held = memory.saturating_add(disk);
        if held < max {
            // Low enough for the next occurrence to be a new one.
            if held < max / 2 && self.reported.load(Ordering::Relaxed) {
                self.reported.store(false, Ordering::Relaxed);
            }
            return true;
        }
        if !self.reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                name: "spill_limit_reached",
                memory, disk, limit = self.max(),
                "spill limit reached: responses wait for their clients, and large request bodies are refused, until slow clients have \
                 read theirs; raise server.limits.spill if the disk allows"
            );
        }
        false
    }

    /// Counts a spool that held `before` and now holds `after`.
    pub(crate) fn account(&self, before: SpillTotals, after: SpillTotals) {
        for (total, before, after) in
            [(&self.memory, before.memory, after.memory), (&self.disk, before.disk, after.disk)]
        {
            match after.cmp(&before) {
                std::cmp::Ordering::Greater => drop(total.fetch_add(after - before, Ordering::Relaxed)),
                std::cmp::Ordering::Less => drop(total.fetch_sub(before - after, Ordering::Relaxed)),
                std::cmp::Ordering::Equal => {}
            }
        }
    }
}
