//! A queue of bytes that begins in memory and goes on in a file.
//!
//! What a slow client sends, or takes, is kept here so that no worker waits for it (`http-rules` §7). The file has no name, so it
//! goes with the process, however that ends; reading and writing it happen on the runtime's blocking threads.
//!
//! ```text
//!   out  <-  front (memory)  <-  file  <-  tail (memory)  <-  in
//! ```

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;

/// Bytes moved to or from the file at a time.
const BLOCK: usize = 256 * 1024;

/// A queue of bytes: memory first, then a file.
#[derive(Debug)]
pub struct Spool {
    front: Vec<u8>,
    front_read: usize,
    file: Option<Arc<File>>,
    /// The file's unread bytes are `read_at..write_at`.
    read_at: u64,
    write_at: u64,
    tail: Vec<u8>,
    job: Option<Job>,
    /// Bytes of memory before the file is used.
    memory: usize,
}

#[derive(Debug)]
enum Job {
    /// With the number of bytes on their way.
    Write(JoinHandle<io::Result<()>>, u64),
    Read(JoinHandle<io::Result<Vec<u8>>>),
}

/// The file could not be made, written or read.
#[derive(Debug)]
pub struct SpoolError(pub io::Error);

impl std::fmt::Display for SpoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the spill file in {}: {}", std::env::temp_dir().display(), self.0)
    }
}

impl Spool {
    /// An empty queue that uses a file beyond `memory` bytes.
    pub fn new(memory: usize) -> Self {
        Self {
            front: Vec::new(),
            front_read: 0,
            file: None,
            read_at: 0,
            write_at: 0,
            tail: Vec::new(),
            job: None,
            memory,
        }
    }

    /// Bytes in the queue, those on their way to the file included.
    pub fn len(&self) -> u64 {
        let writing = match &self.job {
            Some(Job::Write(_, count)) => *count,
            _ => 0,
        };
        let memory = (self.front.len() - self.front_read + self.tail.len()) as u64;
        memory + (self.write_at - self.read_at) + writing
    }

    /// Whether nothing is in the queue.
    pub fn is_empty(&self) -> bool {
        self.job.is_none() && self.len() == 0
    }

    /// All of the queue, if none of it has gone to the file and nothing was read.
    pub fn in_memory(&self) -> Option<&[u8]> {
        let untouched = self.job.is_none() && self.tail.is_empty() && self.read_at == self.write_at;
        untouched.then(|| self.front.get(self.front_read..).unwrap_or_default())
    }

    /// The storage to append to directly while everything is in memory and `room` more bytes fit there.
    pub fn memory(&mut self, room: usize) -> Option<&mut Vec<u8>> {
        let fits = self.in_memory().is_some() && self.front.len() + room <= self.memory;
        fits.then_some(&mut self.front)
    }

    /// Appends bytes. Ask [`Self::poll_ready`] first: this never waits, and so holds in memory what it is given.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.in_memory().is_some() && self.front.len() + bytes.len() <= self.memory {
            self.front.extend_from_slice(bytes);
        } else {
            self.tail.extend_from_slice(bytes);
        }
    }

    /// Ready when the queue takes more: writes to the file what has become too much for memory.
    ///
    /// # Errors
    /// The file failed.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        loop {
            if self.tail.len() < BLOCK {
                return Poll::Ready(Ok(()));
            }
            match &mut self.job {
                Some(_) => ready!(self.poll_job(cx))?,
                None => self.begin_write()?,
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
            let unread = self.front.get(self.front_read..).unwrap_or_default();
            if !unread.is_empty() {
                let part = unread.get(..max).unwrap_or(unread);
                into.extend_from_slice(part);
                let count = part.len();
                self.front_read += count;
                if self.front_read == self.front.len() {
                    self.front.clear();
                    self.front_read = 0;
                }
                return Poll::Ready(Ok(count));
            }
            if self.job.is_some() {
                ready!(self.poll_job(cx))?;
            } else if self.read_at < self.write_at {
                self.begin_read();
            } else if !self.tail.is_empty() {
                std::mem::swap(&mut self.front, &mut self.tail);
            } else {
                return Poll::Ready(Ok(0));
            }
        }
    }

    fn begin_write(&mut self) -> Result<(), SpoolError> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(nameless_file().map_err(SpoolError)?))),
        };
        let (block, at) = (std::mem::take(&mut self.tail), self.write_at);
        let count = block.len() as u64;
        let write = tokio::task::spawn_blocking(move || file.write_all_at(&block, at));
        self.job = Some(Job::Write(write, count));
        Ok(())
    }

    fn begin_read(&mut self) {
        let Some(file) = self.file.clone() else { return };
        let (at, left) = (self.read_at, self.write_at - self.read_at);
        self.job = Some(Job::Read(tokio::task::spawn_blocking(move || {
            let mut block = vec![0; usize::try_from(left).unwrap_or(BLOCK).min(BLOCK)];
            file.read_exact_at(&mut block, at)?;
            Ok(block)
        })));
    }

    fn poll_job(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        match &mut self.job {
            Some(Job::Write(job, count)) => {
                ready!(Pin::new(job).poll(cx)).map_err(gone)?.map_err(SpoolError)?;
                self.write_at += *count;
            }
            Some(Job::Read(job)) => {
                let block = ready!(Pin::new(job).poll(cx)).map_err(gone)?.map_err(SpoolError)?;
                self.read_at += block.len() as u64;
                self.front = block;
                self.front_read = 0;
            }
            None => {}
        }
        self.job = None;
        Poll::Ready(Ok(()))
    }
}

fn gone(error: tokio::task::JoinError) -> SpoolError {
    SpoolError(io::Error::other(error))
}

/// A file without a name (`O_TMPFILE`), or, where the file system has none, one whose name goes at once.
fn nameless_file() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let folder = std::env::temp_dir();
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(&folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let path = folder.join(format!("keepwarm-{}-{:x}", std::process::id(), unique()));
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            let file = rustix::fs::open(&path, flags, mode)?;
            rustix::fs::unlink(&path)?;
            Ok(file.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn unique() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::thread::current().id())
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
            if poll_fn(|cx| spool.poll_read(cx, &mut out, BLOCK)).await.unwrap() == 0 {
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
        assert_eq!(spool.in_memory(), Some(&b"abcdef"[..]));
        assert!(spool.file.is_none());
    }
}
