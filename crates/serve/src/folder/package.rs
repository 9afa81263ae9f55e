//! Sites installed by a distribution: Debian lays them out with links, in `/usr/share/NAME` and `/var/lib/NAME`, to files of other packages (jQuery in
//! `/usr/share/javascript`) and to files that the site changes (`/var/lib/NAME`). Only the administrator's package manager and the site itself write to both;
//! links that lead there are followed.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{READ, ROOT, open};

/// The permitted targets of the directory's links, if it belongs to a package. `base` is `/`, except in tests.
pub(super) fn places(folder: &Path, base: &Path) -> Vec<PathBuf> {
    let (share, state) = (base.join("usr/share"), base.join("var/lib"));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let beneath = [&share, &state].into_iter().find_map(|place| folder.strip_prefix(place).ok());
    match beneath.and_then(|rest| rest.components().next()) {
        Some(name) => vec![state.join(name), share],
        None => Vec::new(),
    }
}

/// Opens the target of a link that leads out of the directory, if it is in one of the permitted places.
pub(super) fn look(
    folder: &Path,
    name: &[u8],
    places: &[PathBuf],
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    // Links may lead out; a name never does.
    if name.split(|&byte| byte == b'/').any(|part| part == b"..") {
        return Err(Errno::XDEV);
    }
    let root = open(CWD, folder, ROOT, resolve)?;
    // Only held, whatever it is: nothing outside is opened.
    let held = open(root, name, OFlags::PATH, resolve | ResolveFlags::NO_MAGICLINKS)?;
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    let lies = rustix::fs::readlink(&link, Vec::new())?;
    let lies = Path::new(OsStr::from_bytes(lies.as_bytes()));
    if !places.iter().any(|place| lies.starts_with(place)) {
        return Err(Errno::XDEV);
    }
    rustix::fs::open(link, READ | OFlags::CLOEXEC, Mode::empty())
}
