//! The disk of the simulation, with the names of `crate::disk`: it is slow, and it fails.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use tokio::time::{Sleep, sleep};

use super::kernel::{turn, with};

/// A file in memory.
#[derive(Debug, Clone)]
pub(crate) struct SpillFile(Arc<Mutex<Vec<u8>>>);

impl SpillFile {
    pub(crate) fn create() -> io::Result<Self> {
        with(|kernel| kernel.lack_of_descriptors(Errno::MFILE))?;
        Ok(Self(Arc::default()))
    }

    pub(crate) fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, length) = (at as usize, file.len());
        file.resize(length.max(at + bytes.len()), 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = file.get(at as usize..at as usize + into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(part);
        Ok(())
    }

    pub(crate) fn truncate(&self, length: u64) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.truncate(length as usize);
        file.shrink_to_fit();
        Ok(())
    }
}

/// Puts a file of these bytes in the simulated directories: they contain nothing else.
pub fn put_file(path: PathBuf, bytes: impl Fn() -> Vec<u8> + 'static) {
    with(|kernel| kernel.on_disk.insert(path, Rc::new(bytes)));
}

/// Looks up a file, which may be in the caches or not. `None`: the simulation does not handle it.
pub fn look_up(folder: &Path, name: &[u8], cached: bool) -> Result<Option<OwnedFd>, Errno> {
    let path = folder.join(OsStr::from_bytes(name));
    let (unknown, file) =
        with(|kernel| (cached && kernel.rng.chance(300), kernel.on_disk.get(&path).cloned()));
    if unknown {
        return Err(Errno::AGAIN);
    }
    let bytes = file.ok_or(Errno::NOENT)?;
    let file = File::from(memfd_create("file", MemfdFlags::CLOEXEC)?);
    let written = file.write_all_at(&bytes(), 0).and_then(|()| file.set_modified(UNIX_EPOCH));
    written.expect("memory for a file");
    Ok(Some(file.into()))
}

/// A call that ends later.
#[derive(Debug)]
pub struct Job<T> {
    later: Pin<Box<Sleep>>,
    result: RefCell<Option<io::Result<T>>>,
}

/// Starts a call.
pub fn spawn<T: Send + 'static>(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> Job<T> {
    let (full, after) = with(|kernel| {
        let chance = kernel.settings.faults.disk_full;
        (kernel.rng.chance(chance), kernel.rng.size(20))
    });
    let result = if full { Err(Errno::NOSPC.into()) } else { call() };
    Job { later: Box::pin(sleep(Duration::from_millis(after as u64))), result: RefCell::new(Some(result)) }
}

impl<T> Future for Job<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        turn();
        if self.later.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // As of a task: polling after completion is a fault of the caller.
        Poll::Ready(self.result.take().expect("polled after completion"))
    }
}

impl<T> Unpin for Job<T> {}
