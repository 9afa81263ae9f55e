//! Files beneath a directory, named by clients: opened so that no name leads out of it, and read without ever holding up a data-plane thread.
//!
//! * **Nothing leads out of it.** The kernel resolves the name beneath the directory (`openat2`, `RESOLVE_BENEATH`): not `..`, not an absolute link, not a link
//!   that points out, and not one that is exchanged meanwhile. Links that stay inside are followed. Files that a distribution's package has installed are the
//!   exception (`package`).
//! * **No disk holds up a thread.** Files in the kernel's caches are opened and read at once (`RESOLVE_CACHED`, `RWF_NOWAIT`); anything else is left to the
//!   runtime's blocking threads.
//! * The directory itself is looked up for each file, so that a deploy can exchange it by moving a link.

mod guard;
mod htaccess;
mod list;
mod name;
mod package;
mod rewrite;

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keepwarm_net::disk;
use rustix::fs::{Advice, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

pub use guard::AccessGuard;
pub use htaccess::Rules;
pub use list::{FolderEntry, FolderListing};
pub use name::file_name;
pub use rewrite::RewrittenQuery;

/// Attempts for a name that another process is moving. This number is arbitrary.
const TRIES: u32 = 4;

/// A pipe without a writer would hold up the open; a file does not mind the flag.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Bytes between two samples of [`OpenFile::is_cached`].
const SAMPLED: usize = 64 * 1024;

/// A directory whose files requests can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// The directory is this one beneath it.
    below: Option<Box<[u8]>>,
    /// Other permitted targets of links.
    places: Vec<PathBuf>,
}

/// The result of looking up a name beneath a directory.
#[derive(Debug)]
pub enum FileLookup {
    /// A file that can be read.
    File(OpenFile),
    /// A directory.
    Folder,
    /// Nothing, or something other than a file.
    Nothing,
    /// The target of a link that leads out of the directory.
    Outside,
    /// Access is denied.
    Denied,
}

/// A file, open for reading.
#[derive(Debug, Clone)]
pub struct OpenFile {
    file: Arc<File>,
    /// Size and times at the moment it was opened.
    pub about: Box<Metadata>,
}

/// Whether a lookup may block on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskAccess {
    /// No: only the kernel's caches.
    Cached,
    /// Yes: on a thread of the blocking pool.
    Disk,
}

impl DiskAccess {
    fn resolve(self) -> ResolveFlags {
        match self {
            Self::Cached => ResolveFlags::CACHED,
            Self::Disk => ResolveFlags::empty(),
        }
    }
}

impl Folder {
    /// The directory at this path, which may be created later.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { places: package::places(&path, Path::new("/")), path, below: None }
    }

    /// The directory `name` (relative, see [`file_name`]) beneath the one at `path`: links in its name stay beneath that.
    #[must_use]
    pub fn below(path: &Path, name: &[u8]) -> Self {
        Self { path: path.to_owned(), below: Some(name.into()), places: Vec::new() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks up `name` (relative, see [`file_name`]). Empty: the directory itself.
    ///
    /// # Errors
    /// The system has no descriptors or no memory left, or the disk fails.
    pub async fn open(&self, name: &[u8]) -> io::Result<FileLookup> {
        match self.look(name, DiskAccess::Cached) {
            Err(Errno::AGAIN | Errno::INVAL) => {}
            other => return sort(other),
        }
        let (folder, name) = (self.clone(), name.to_vec());
        disk::spawn(move || sort(folder.look(&name, DiskAccess::Disk))).await
    }

    fn look(&self, name: &[u8], patience: DiskAccess) -> Result<OwnedFd, Errno> {
        if let Some(below) = &self.below {
            return look_below(&self.path, below, name, patience);
        }
        match look(&self.path, name, patience) {
            Err(Errno::XDEV) if !self.places.is_empty() => {
                package::look(&self.path, name, &self.places, patience.resolve())
            }
            other => other,
        }
    }
}

impl OpenFile {
    /// Its length, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.about.len()
    }

    /// Whether it was changed last when the other was, or later.
    #[must_use]
    pub fn is_as_new_as(&self, other: &Self) -> bool {
        matches!((self.about.modified(), other.about.modified()), (Ok(own), Ok(others)) if own >= others)
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file, for [`crate::Exchange::poll_send_file`].
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Whether the kernel has `length` bytes from `at` on in memory, as far as samples of it show.
    ///
    /// A sample every 64 KiB: pages are read and evicted in larger runs. `None`: the file system cannot tell.
    #[must_use]
    pub fn is_cached(&self, at: u64, length: usize) -> Option<bool> {
        let mut byte = [0_u8];
        let last = length.saturating_sub(1);
        for offset in (0..length).step_by(SAMPLED).chain([last]) {
            let mut into = [IoSliceMut::new(&mut byte)];
            match rustix::io::preadv2(&*self.file, &mut into, at + offset as u64, ReadWriteFlags::NOWAIT) {
                // Shorter than it was: there is nothing to wait for.
                Ok(_) => {}
                Err(Errno::AGAIN) => return Some(false),
                Err(_) => return None,
            }
        }
        Some(true)
    }

    /// Has the kernel read `length` bytes from `at` on, and begin with as many after them.
    ///
    /// # Errors
    /// Those of the disk.
    pub async fn warm(&self, at: u64, length: usize) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        disk::spawn(move || {
            let next = std::num::NonZeroU64::new(length as u64);
            // Only advice.
            let _ = rustix::fs::fadvise(&*file, at + length as u64, next, Advice::WillNeed);
            let (mut block, end) = (vec![0; SAMPLED], at + length as u64);
            let mut at = at;
            while at < end {
                match rustix::io::retry_on_intr(|| rustix::io::pread(&*file, &mut *block, at))? {
                    0 => break,
                    got => at += got as u64,
                }
            }
            Ok(())
        })
        .await
    }

    /// Replaces `into` by the bytes from `at` on, `max` at most; empty at the end of the file.
    ///
    /// # Errors
    /// Those of the disk.
    pub async fn read(&self, into: &mut Vec<u8>, at: u64, max: usize) -> io::Result<()> {
        into.clear();
        into.resize(max, 0);
        let cached =
            rustix::io::preadv2(&*self.file, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT);
        if let Ok(got) = cached {
            into.truncate(got);
            return Ok(());
        }
        let (file, mut block) = (Arc::clone(&self.file), std::mem::take(into));
        *into = disk::spawn(move || {
            let got = rustix::io::retry_on_intr(|| rustix::io::pread(&*file, &mut *block, at))?;
            block.truncate(got);
            Ok(block)
        })
        .await?;
        Ok(())
    }
}

fn look(folder: &Path, name: &[u8], patience: DiskAccess) -> Result<OwnedFd, Errno> {
    #[cfg(feature = "simulation")]
    if let Some(found) =
        keepwarm_net::simulation::disk::look_up(folder, name, patience == DiskAccess::Cached)?
    {
        return Ok(found);
    }
    let flags = patience.resolve();
    let root = open(CWD, folder, OFlags::PATH | OFlags::DIRECTORY, flags)?;
    open_beneath(root, name, READ, flags)
}

fn look_below(folder: &Path, below: &[u8], name: &[u8], patience: DiskAccess) -> Result<OwnedFd, Errno> {
    let (flags, directory) = (patience.resolve(), OFlags::PATH | OFlags::DIRECTORY);
    let root = open(CWD, folder, directory, flags)?;
    open_beneath(open_beneath(root, below, directory, flags)?, name, READ, flags)
}

/// `name`: empty for the directory itself.
fn open_beneath(at: OwnedFd, name: &[u8], flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let name: &[u8] = if name.is_empty() { b"." } else { name };
    open(at, name, flags, resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
}

fn open<P: rustix::path::Arg + Copy>(
    at: impl std::os::fd::AsFd,
    name: P,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut tries = 0;
    loop {
        let opened = rustix::fs::openat2(&at, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        match opened {
            Err(Errno::INTR) => {}
            // A rename beside the name during resolution: the kernel cannot guarantee that it stayed inside.
            Err(Errno::AGAIN) if !resolve.contains(ResolveFlags::CACHED) && tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

fn sort(looked: Result<OwnedFd, Errno>) -> io::Result<FileLookup> {
    let file = match looked {
        Ok(fd) => File::from(fd),
        Err(Errno::ACCESS | Errno::PERM) => return Ok(FileLookup::Denied),
        Err(Errno::XDEV) => return Ok(FileLookup::Outside),
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::NOSYS)) => {
            return Err(error.into());
        }
        // Missing, a parent that is not a directory, too many links, too long a name, a socket.
        Err(_) => return Ok(FileLookup::Nothing),
    };
    let about = file.metadata()?;
    Ok(match about.file_type() {
        kind if kind.is_file() => FileLookup::File(OpenFile { file: Arc::new(file), about: Box::new(about) }),
        kind if kind.is_dir() => FileLookup::Folder,
        _ => FileLookup::Nothing,
    })
}

#[cfg(test)]
mod tests;
