//! A queue of bytes that begins in memory and continues in a file.
//!
//! Bytes that a slow client sends or takes are kept here so that no worker waits for it (`spec/http.md` §7). The file has no name, so it
//! disappears with the process, however that ends; the runtime's blocking threads read and write it.
//!
//! ```text
//!   out  <-  front (memory)  <-  file  <-  tail (memory)  <-  in
//! ```
//!
//! The file is a set of slots of one size. A read slot is reused before the file grows, so an endless response takes no more of the disk than was held
//! at once; when no slot is in use the file is truncated to zero. (Punching holes would bound the disk as well, but not every file system can, and offsets would grow without bound.)
//!
//! An error is final: the affected bytes are lost, and later ones would follow a hole.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::disk::{self, Job, SpillFile};
use crate::spill::{SPILL, Spill, SpillTotals};

/// The unit of the file.
const SLOT: usize = 64 * 1024;
/// Slots that are written or read at a time, unless memory is short: then one.
const RUN: usize = 4;

/// A queue of bytes: memory first, then a file.
#[derive(Debug)]
pub struct Spool {
    front: Vec<u8>,
    front_read: usize,
    file: Option<SpillFile>,
    /// Slots with bytes of the queue, in its order.
    used: VecDeque<u32>,
    /// Slots whose bytes were read.
    free: Vec<u32>,
    /// Slots in total.
    slots: u32,
    tail: Vec<u8>,
    work: Option<SpoolJob>,
    failed: Option<SpoolError>,
    /// Bytes of memory before the file is used.
    memory: usize,
    spill: &'static Spill,
    /// The usage accounted to the process.
    accounted: SpillTotals,
}

#[derive(Debug)]
enum SpoolJob {
    /// With the slots that receive the block.
    Write(Job<SpillFile>, Vec<u32>),
    /// With the number of slots, the first in use.
    Read(Job<Vec<u8>>, usize),
}

/// Why bytes cannot be kept.
#[derive(Debug, Clone)]
pub enum SpoolError {
    /// The file could not be created, written or read. Its bytes are lost.
    Failed(Arc<io::Error>),
    /// All spools of the process together have reached their limit (`server.limits.spill`).
    Full,
}

impl std::fmt::Display for SpoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "spill file in {}: {error}", std::env::temp_dir().display()),
            Self::Full => f.write_str("server.limits.spill is reached"),
        }
    }
}

impl Spool {
    /// An empty queue that uses a file beyond `memory` bytes.
    pub fn new(memory: usize) -> Self {
        Self::within(memory, &SPILL)
    }

    fn within(memory: usize, spill: &'static Spill) -> Self {
        Self {
            front: Vec::new(),
            front_read: 0,
            file: None,
            used: VecDeque::new(),
            free: Vec::new(),
            slots: 0,
            tail: Vec::new(),
            work: None,
            failed: None,
            memory,
            spill,
            accounted: SpillTotals::default(),
        }
    }

    /// Bytes in the queue, those on their way to the file included.
    pub fn len(&self) -> u64 {
        let writing = match &self.work {
            Some(SpoolJob::Write(_, slots)) => slots.len(),
            _ => 0,
        };
        let memory = self.front.len() - self.front_read + self.tail.len();
        (memory + (self.used.len() + writing) * SLOT) as u64
    }

    /// Whether nothing is in the queue.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes. Call [`Self::poll_ready`] first: this never waits, and so holds its input in memory.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let memory = if self.spill.is_memory_short() { 0 } else { self.memory };
        let only_front = self.work.is_none() && self.used.is_empty() && self.tail.is_empty();
        if only_front && self.front.len() + bytes.len() <= memory {
            self.front.extend_from_slice(bytes);
        } else {
            self.tail.extend_from_slice(bytes);
        }
        self.account();
    }

    /// Ready when the queue of a request's body takes more.
    ///
    /// # Errors
    /// The file failed, or there is no room for more ([`SpoolError::Full`]).
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        if !self.spill.has_room_for_request() || (self.is_empty() && !self.spill.has_memory()) {
            return Poll::Ready(Err(SpoolError::Full));
        }
        self.poll_spill(cx)
    }

    /// Ready when memory takes more: writes the excess to the file.
    ///
    /// # Errors
    /// The file failed.
    pub fn poll_spill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        loop {
            if let Some(error) = &self.failed {
                return Poll::Ready(Err(error.clone()));
            }
            if self.tail.len() < self.run() * SLOT {
                return Poll::Ready(Ok(()));
            }
            match &mut self.work {
                Some(_) => ready!(self.poll_work(cx))?,
                None => self.begin_write(),
            }
        }
    }

    /// Moves up to `max` bytes from the front of the queue to `into`: 0 when it is empty.
    ///
    /// # Errors
    /// The file failed.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<usize, SpoolError>> {
        loop {
            if let Some(error) = &self.failed {
                return Poll::Ready(Err(error.clone()));
            }
            let unread = self.front.get(self.front_read..).unwrap_or_default();
            if !unread.is_empty() {
                let part = unread.get(..max).unwrap_or(unread);
                into.extend_from_slice(part);
                let count = part.len();
                self.front_read += count;
                if self.front_read == self.front.len() {
                    // Its storage too: a client that pauses holds nothing but the bytes not taken.
                    (self.front, self.front_read) = (Vec::new(), 0);
                    self.account();
                }
                return Poll::Ready(Ok(count));
            }
            if self.work.is_some() {
                ready!(self.poll_work(cx))?;
            } else if !self.used.is_empty() {
                self.begin_read();
            } else if !self.tail.is_empty() {
                std::mem::swap(&mut self.front, &mut self.tail);
            } else {
                return Poll::Ready(Ok(0));
            }
        }
    }

    fn run(&self) -> usize {
        if self.spill.is_memory_short() { 1 } else { RUN }
    }

    fn begin_write(&mut self) {
        let count = self.tail.len() / SLOT;
        let rest = self.tail.split_off(count * SLOT);
        let block = std::mem::replace(&mut self.tail, rest);
        let slots: Vec<u32> = (0..count).map(|_| self.free_slot()).collect();
        let (file, at) = (self.file.clone(), slots.clone());
        let write = disk::spawn(move || {
            let file = file.map_or_else(SpillFile::create, Ok)?;
            for (part, slot) in block.chunks(SLOT).zip(at) {
                file.write_all_at(part, offset(slot))?;
            }
            Ok(file)
        });
        self.work = Some(SpoolJob::Write(write, slots));
        self.account();
    }

    fn free_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    fn begin_read(&mut self) {
        let Some(file) = self.file.clone() else { return };
        let count = self.run().min(self.used.len());
        let slots: Vec<u32> = self.used.iter().take(count).copied().collect();
        let last = count == self.used.len();
        let read = disk::spawn(move || {
            let mut block = vec![0; slots.len() * SLOT];
            for (part, slot) in block.chunks_mut(SLOT).zip(slots) {
                file.read_exact_at(part, offset(slot))?;
            }
            if last {
                file.truncate(0)?;
            }
            Ok(block)
        });
        self.work = Some(SpoolJob::Read(read, count));
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        let done = match &mut self.work {
            Some(SpoolJob::Write(job, _)) => {
                ready!(Pin::new(job).poll(cx)).map(|file| self.file = Some(file))
            }
            Some(SpoolJob::Read(job, _)) => ready!(Pin::new(job).poll(cx)).map(|block| self.front = block),
            None => Ok(()),
        };
        // Before anything else: a call that has ended must not be polled again.
        let work = self.work.take();
        if let Err(error) = done {
            return Poll::Ready(Err(self.fail(error)));
        }
        match work {
            Some(SpoolJob::Write(_, slots)) => self.used.extend(slots),
            Some(SpoolJob::Read(_, count)) => {
                self.front_read = 0;
                self.free.extend(self.used.drain(..count.min(self.used.len())));
                if self.used.is_empty() {
                    // The file was truncated to zero.
                    self.free.clear();
                    self.slots = 0;
                }
            }
            None => {}
        }
        self.account();
        Poll::Ready(Ok(()))
    }

    /// Records the error, and at once releases bytes that will not be read: the disk may be full.
    fn fail(&mut self, error: io::Error) -> SpoolError {
        self.spill.count_failure();
        let error = SpoolError::Failed(Arc::new(error));
        self.failed = Some(error.clone());
        (self.front, self.front_read, self.tail, self.file) = (Vec::new(), 0, Vec::new(), None);
        (self.used, self.free, self.slots) = (VecDeque::new(), Vec::new(), 0);
        self.account();
        error
    }

    fn account(&mut self) {
        let working = match &self.work {
            Some(SpoolJob::Write(_, slots)) => slots.len() * SLOT,
            Some(SpoolJob::Read(_, count)) => count * SLOT,
            None => 0,
        };
        let now = SpillTotals {
            memory: (self.front.capacity() + self.tail.capacity() + working) as u64,
            disk: u64::from(self.slots) * SLOT as u64,
        };
        self.spill.account(std::mem::replace(&mut self.accounted, now), now);
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.spill.account(self.accounted, SpillTotals::default());
    }
}

fn offset(slot: u32) -> u64 {
    u64::from(slot) * SLOT as u64
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Random pushes and reads against a plain queue.
    #[tokio::test]
    async fn gives_back_what_it_was_given_in_order_whatever_the_sizes() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let mut spool = Spool::new(100_000);
        let (mut given, mut taken) = (0_u64, 0_u64);
        let byte = |at: u64| (at % 251) as u8;
        for _ in 0..400 {
            if random(5) < 3 && given < 8_000_000 {
                let bytes: Vec<u8> = (given..given + random(60_000)).map(byte).collect();
                poll_fn(|cx| spool.poll_ready(cx)).await.unwrap();
                spool.push(&bytes);
                given += bytes.len() as u64;
            } else {
                let mut out = Vec::new();
                let max = 1 + random(90_000) as usize;
                poll_fn(|cx| spool.poll_read(cx, &mut out, max)).await.unwrap();
                assert!(out.iter().enumerate().all(|(at, seen)| *seen == byte(taken + at as u64)));
                taken += out.len() as u64;
            }
        }
        loop {
            let mut out = Vec::new();
            if poll_fn(|cx| spool.poll_read(cx, &mut out, SLOT)).await.unwrap() == 0 {
                break;
            }
            assert!(out.iter().enumerate().all(|(at, seen)| *seen == byte(taken + at as u64)));
            taken += out.len() as u64;
        }
        assert_eq!(given, taken);
        assert!(given > 3_000_000, "the file was used");
        assert!(spool.is_empty());
    }

    #[tokio::test]
    async fn a_small_body_never_leaves_memory() {
        let mut spool = Spool::new(1000);
        spool.push(b"abc");
        spool.push(b"def");
        poll_fn(|cx| spool.poll_ready(cx)).await.unwrap();
        assert_eq!(spool.len(), 6);
        assert!(spool.file.is_none());
        assert_eq!(take(&mut spool, 100).await.unwrap(), b"abcdef");
    }

    /// A failed call is not polled again, and bytes after a hole are not returned.
    #[tokio::test]
    async fn a_failed_write_is_final() {
        let spill = spill(1 << 30, 1 << 30);
        let mut spool = Spool::within(0, spill);
        disk::fault::disk_full_after(1);
        // The first block is written, the second is lost, the third would follow a hole.
        for _ in 0..3 {
            fill(&mut spool, RUN).await.unwrap();
        }
        let error = fill(&mut spool, RUN).await.unwrap_err().to_string();
        assert!(error.contains("os error 28"), "{error}");
        for _ in 0..3 {
            assert!(fill(&mut spool, RUN).await.is_err());
            assert!(take(&mut spool, SLOT).await.is_err());
        }
        assert_eq!(spill.totals(), SpillTotals::default(), "nothing is held that nobody will read");
    }

    #[tokio::test]
    async fn a_failed_read_is_final() {
        let mut spool = Spool::within(0, spill(1 << 30, 1 << 30));
        disk::fault::disk_full_after(1);
        fill(&mut spool, RUN).await.unwrap();
        fill(&mut spool, 1).await.unwrap();
        for _ in 0..3 {
            assert!(take(&mut spool, SLOT).await.is_err());
        }
    }

    /// An endless stream to a slow client.
    #[tokio::test]
    async fn the_file_is_no_larger_than_what_was_held_at_once() {
        let spill = spill(1 << 30, 1 << 30);
        let mut spool = Spool::within(0, spill);
        for _ in 0..4 {
            fill(&mut spool, RUN).await.unwrap();
        }
        let (mut most, mut taken) = (0, 0);
        for _ in 0..100 {
            fill(&mut spool, RUN).await.unwrap();
            while spool.len() > 5 * (RUN * SLOT) as u64 {
                taken += take(&mut spool, SLOT).await.unwrap().len();
            }
            most = most.max(spill.totals().disk);
        }
        assert!(taken > 90 * RUN * SLOT);
        assert!(most <= 6 * (RUN * SLOT) as u64, "{most}");
        while !take(&mut spool, SLOT).await.unwrap().is_empty() {}
        assert_eq!(spill.totals(), SpillTotals::default(), "all was read: the disk has it back");
        fill(&mut spool, RUN).await.unwrap();
        fill(&mut spool, 1).await.unwrap();
        assert_eq!(take(&mut spool, SLOT).await.unwrap().len(), SLOT);
        drop(spool);
        assert_eq!(spill.totals(), SpillTotals::default());
    }

    #[tokio::test]
    async fn at_the_limit_a_body_is_refused_and_what_is_kept_can_be_read() {
        let spill = spill(1 << 20, 1 << 30);
        let (mut first, mut second) = (Spool::within(0, spill), Spool::within(0, spill));
        for spool in [&mut first, &mut second] {
            fill(spool, 2 * RUN).await.unwrap();
        }
        for spool in [&mut first, &mut second] {
            assert!(matches!(fill(spool, 1).await, Err(SpoolError::Full)));
        }
        assert_eq!(take(&mut first, 1 << 20).await.unwrap().len(), 2 * RUN * SLOT);
        fill(&mut second, 1).await.unwrap();
    }

    #[tokio::test]
    async fn where_memory_is_short_the_disk_is_used_at_once() {
        let spill = spill(1 << 30, 1 << 20);
        let mut large = Spool::within(1 << 20, spill);
        large.push(&[0; 600 << 10]);
        let mut small = Spool::within(1 << 20, spill);
        fill(&mut small, 2).await.unwrap();
        fill(&mut small, 0).await.unwrap();
        assert_eq!(spill.totals().disk, 2 * SLOT as u64);
        large.push(&[0; 600 << 10]);
        let mut third = Spool::within(1 << 20, spill);
        assert!(matches!(fill(&mut third, 1).await, Err(SpoolError::Full)), "memory has a limit of its own");
    }

    fn spill(max: u64, max_memory: u64) -> &'static Spill {
        let spill = Box::leak(Box::new(Spill::new(1, 1)));
        spill.set_limits(max, max_memory);
        spill
    }

    /// Waits for room, then adds `slots` slots' worth.
    async fn fill(spool: &mut Spool, slots: usize) -> Result<(), SpoolError> {
        poll_fn(|cx| spool.poll_ready(cx)).await?;
        spool.push(&vec![7; slots * SLOT]);
        Ok(())
    }

    async fn take(spool: &mut Spool, max: usize) -> Result<Vec<u8>, SpoolError> {
        let mut out = Vec::new();
        poll_fn(|cx| spool.poll_read(cx, &mut out, max)).await?;
        Ok(out)
    }
}
