//! The disk: the unnamed file of a spool, and blocking calls on threads made for them.
//!
//! Every system call of a spool is here, and the blocking calls of `folder` start here, so that a simulation can replace this module.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

/// A file in the temporary directory that disappears with the process, however that ends.
#[derive(Debug, Clone)]
pub(crate) struct SpillFile(Arc<File>);

impl SpillFile {
    /// A file without a name (`O_TMPFILE`), or, where the file system has none, one whose name is removed at once.
    pub(crate) fn create() -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let folder = std::env::temp_dir();
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match rustix::fs::open(&folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let path = folder.join(format!("keepwarm-{}-{:x}", std::process::id(), unique()));
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                let file = rustix::fs::open(&path, flags, mode)?;
                rustix::fs::unlink(&path)?;
                file
            }
            opened => opened?,
        };
        Ok(Self(Arc::new(file.into())))
    }

    pub(crate) fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    pub(crate) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(into, at)
    }

    /// Releases everything after `length` to the file system.
    pub(crate) fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

fn unique() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::thread::current().id())
}

/// A call in progress on a blocking thread. It runs to its end even if this is dropped.
#[derive(Debug)]
pub struct Job<T>(JoinHandle<io::Result<T>>);

/// Starts a call.
pub fn spawn<T: Send + 'static>(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> Job<T> {
    #[cfg(test)]
    let call = fault::before(call);
    Job(tokio::task::spawn_blocking(call))
}

impl<T> Future for Job<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| ended.unwrap_or_else(|error| Err(io::Error::other(error))))
    }
}

/// Calls that fail, for tests.
#[cfg(test)]
pub(crate) mod fault {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static AFTER: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// After `calls` successes, each call that this thread starts fails as on a full disk.
    pub(crate) fn disk_full_after(calls: u32) {
        AFTER.set(Some(calls));
    }

    pub(super) fn before<T>(call: impl FnOnce() -> io::Result<T>) -> impl FnOnce() -> io::Result<T> {
        let full = AFTER.get() == Some(0);
        AFTER.set(AFTER.get().map(|calls| calls.saturating_sub(1)));
        move || if full { Err(rustix::io::Errno::NOSPC.into()) } else { call() }
    }
}
