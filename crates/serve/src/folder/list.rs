//! The entries of a directory, for a listing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keepwarm_net::disk;
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

use super::{DiskAccess, Folder};

/// Bounds the memory of a listing and the time that it takes; the number is arbitrary.
const MAX_ENTRIES: usize = 10_000;

/// The entries of a directory that requests can name.
#[derive(Debug, Default)]
pub struct FolderListing {
    /// In no order.
    pub entries: Vec<FolderEntry>,
    /// There are more entries than these.
    pub is_cut: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its name, which need not be UTF-8.
    pub name: Vec<u8>,
    /// Whether it is a directory, or a link to one.
    pub is_folder: bool,
    /// In bytes; 0 for a directory.
    pub length: u64,
    /// When it was changed last; whole seconds.
    pub modified: SystemTime,
}

impl Folder {
    /// Lists the files and directories in the directory `name` (relative; empty, or ends with a slash) that requests can name: not those that begin with a
    /// dot, no sockets, and no links whose target [`Folder::open`] would refuse. `None`: there is no such directory, or it may not be read.
    ///
    /// # Errors
    /// Those of [`Folder::open`].
    pub async fn list(&self, name: &[u8]) -> io::Result<Option<FolderListing>> {
        let (folder, name) = (self.clone(), name.to_vec());
        disk::spawn(move || folder.list_now(&name)).await
    }

    fn list_now(&self, name: &[u8]) -> io::Result<Option<FolderListing>> {
        let fd = match self.look(name, DiskAccess::Disk) {
            Ok(fd) => fd,
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::NOSYS)) => {
                return Err(error.into());
            }
            Err(_) => return Ok(None),
        };
        let mut listing = FolderListing::default();
        let directory = match Dir::read_from(&fd) {
            Ok(directory) => directory,
            Err(_) => return Ok(None),
        };
        for entry in directory {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::NOTDIR) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let own = entry.file_name().to_bytes();
            if own.first() == Some(&b'.') {
                continue;
            }
            if listing.entries.len() == MAX_ENTRIES {
                listing.is_cut = true;
                break;
            }
            let found = stat(&fd, own).and_then(|stat| match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => self.stat_target(&[name, own].concat()),
                _ => Some(stat),
            });
            // Gone meanwhile, or a link that leads nowhere or out.
            listing.entries.extend(found.and_then(|stat| entry_of(own, &stat)));
        }
        Ok(Some(listing))
    }

    /// The target of a link, if it is inside of the directory.
    fn stat_target(&self, name: &[u8]) -> Option<Stat> {
        let fd = self.look(name, DiskAccess::Disk).ok()?;
        rustix::fs::fstat(&fd).ok()
    }
}

fn stat(folder: &OwnedFd, name: &[u8]) -> Option<Stat> {
    rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn entry_of(name: &[u8], stat: &Stat) -> Option<FolderEntry> {
    let is_folder = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => false,
        FileType::Directory => true,
        _ => return None,
    };
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    Some(FolderEntry {
        name: name.to_vec(),
        is_folder,
        length: if is_folder { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) },
        modified: UNIX_EPOCH + Duration::from_secs(seconds),
    })
}
