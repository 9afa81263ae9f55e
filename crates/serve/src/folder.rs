//! Files beneath a directory, named by clients: opened so that no name leads out of it, and read without ever holding up a data-plane thread.
//!
//! * **Nothing leads out of it.** The kernel resolves the name beneath the directory (`openat2`, `RESOLVE_BENEATH`): not `..`, not an absolute link, not a link
//!   that points out, and not one that is exchanged meanwhile. Links that stay inside are followed. Files that a distribution's package has installed are the
//!   exception (`package`).
//! * **No disk holds up a thread.** Files in the kernel's caches are opened and read at once (`RESOLVE_CACHED`, `RWF_NOWAIT`); anything else is left to the
//!   runtime's blocking threads. A part that the kernel had in memory within the last second is not asked about again ([`OpenFile::is_cached`]).
//! * The directory itself is looked up for each file, so that a deploy can exchange it by moving a link: together with the name where there is no link in
//!   either (`RESOLVE_NO_SYMLINKS`), which then leads nowhere else.

mod guard;
mod htaccess;
mod list;
mod name;
mod package;
mod recent;
mod rewrite;
mod script_handling;

use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keepwarm_net::{disk, now};
use rustix::fs::{Advice, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

pub use guard::AccessGuard;
pub use htaccess::Rules;
pub use list::{FolderEntry, FolderListing};
pub use name::file_name;
pub use rewrite::RewrittenQuery;

use recent::RecentParts;

/// Attempts for a name that another process is moving. This number is arbitrary.
const TRIES: u32 = 4;

/// A pipe without a writer would hold up the open; a file does not mind the flag.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A directory that is only looked in.
const ROOT: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// Bytes between two samples of [`OpenFile::is_cached`]: what Linux reads ahead by default.
const SAMPLED: usize = 128 * 1024;

thread_local! {
    static RECENT: RefCell<RecentParts> = const { RefCell::new(RecentParts::new()) };
}

/// A directory whose files requests can name.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    /// There is a link in `path`, or was: a lookup in one step would fail.
    is_linked: Arc<AtomicBool>,
    /// The directory is this one beneath it.
    below: Option<Box<[u8]>>,
    /// Other permitted targets of links.
    places: Vec<PathBuf>,
}

impl PartialEq for Folder {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.below, &self.places) == (&other.path, &other.below, &other.places)
    }
}

impl Eq for Folder {}

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
        let places = package::places(&path, Path::new("/"));
        Self { path, below: None, is_linked: Arc::default(), places }
    }

    /// The directory `name` (relative, see [`file_name`]) beneath the one at `path`: links in its name stay beneath that.
    #[must_use]
    pub fn below(path: &Path, name: &[u8]) -> Self {
        Self {
            path: path.to_owned(),
            below: Some(name.into()),
            is_linked: Arc::default(),
            places: Vec::new(),
        }
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
            return look_below(&self.path, below, name, patience.resolve());
        }
        match self.look_beneath(name, patience) {
            Err(Errno::XDEV) if !self.places.is_empty() => {
                package::look(&self.path, name, &self.places, patience.resolve())
            }
            other => other,
        }
    }

    fn look_beneath(&self, name: &[u8], patience: DiskAccess) -> Result<OwnedFd, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(found) =
            keepwarm_net::simulation::disk::look_up(&self.path, name, patience == DiskAccess::Cached)?
        {
            return Ok(found);
        }
        let resolve = patience.resolve();
        if !self.is_linked.load(Ordering::Relaxed)
            && let Some(looked) = look_without_links(&self.path, name, resolve)
        {
            return looked;
        }
        self.look_in_steps(name, resolve)
    }

    /// The directory, then the name.
    fn look_in_steps(&self, name: &[u8], resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        let root = match self.is_linked.load(Ordering::Relaxed) {
            false => match open(CWD, &self.path, ROOT, resolve | ResolveFlags::NO_SYMLINKS) {
                Err(Errno::LOOP) => {
                    self.is_linked.store(true, Ordering::Relaxed);
                    open(CWD, &self.path, ROOT, resolve)
                }
                root => root,
            },
            true => open(CWD, &self.path, ROOT, resolve),
        }?;
        open_beneath(root, name, READ, resolve)
    }
}

/// One step for the directory and the name in it. `None`: there are links, or `..`, and it takes two.
fn look_without_links(folder: &Path, name: &[u8], resolve: ResolveFlags) -> Option<Result<OwnedFd, Errno>> {
    if name.first() == Some(&b'/') || name.windows(2).any(|pair| pair == b"..") {
        return None;
    }
    let folder = folder.as_os_str().as_bytes();
    let mut path = Vec::with_capacity(folder.len() + name.len() + 2);
    path.extend_from_slice(folder);
    path.push(b'/');
    path.extend_from_slice(if name.is_empty() { b"." } else { name });
    match open(CWD, path.as_slice(), READ, resolve | ResolveFlags::NO_SYMLINKS) {
        // Together they may be too long.
        Err(Errno::LOOP | Errno::NAMETOOLONG) => None,
        looked => Some(looked),
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
    /// A sample every 128 KiB: pages are read and evicted in larger runs. They are believed for a second. `None`: the file system cannot tell.
    #[must_use]
    pub fn is_cached(&self, at: u64, length: usize) -> Option<bool> {
        let (part, now) = (recent::part(&self.about, at, length), now());
        if RECENT.with_borrow(|recent| recent.has(part, now)) {
            return Some(true);
        }
        let cached = self.sample(at, length);
        if cached == Some(true) {
            RECENT.with_borrow_mut(|recent| recent.note(part, now));
        }
        cached
    }

    fn sample(&self, at: u64, length: usize) -> Option<bool> {
        let mut byte = [0_u8];
        for offset in (0..length).step_by(SAMPLED) {
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

/// The directory, the one beneath it, then the name.
fn look_below(folder: &Path, below: &[u8], name: &[u8], resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    if let Some(looked) = look_without_links(folder, &[below, b"/", name].concat(), resolve) {
        return looked;
    }
    let root = open(CWD, folder, ROOT, resolve)?;
    open_beneath(open_beneath(root, below, ROOT, resolve)?, name, READ, resolve)
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
