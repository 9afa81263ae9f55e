//! Reading what the kernel shows of a process to its own user, and to those with CAP_SYS_PTRACE: its environment, its program, the map of its pages, where it waits.
//! Root lacks that capability in a container, and its workers have another user.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use rustix::thread::{CapabilitySet, capabilities};

/// What `read` gives, as this process or else as the process's own user.
pub(super) fn with_rights<T>(pid: u32, read: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match read() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && may_change_user() => {
            as_its_user(pid, read)?
        }
        result => result,
    }
}

/// Calls `read` with the rights that the process's user has to files.
///
/// # Errors
/// The process has gone.
pub(super) fn as_its_user<T>(pid: u32, read: impl FnOnce() -> T) -> io::Result<T> {
    let about = std::fs::metadata(format!("/proc/{pid}"))?;
    let _own = FileRights::change(Uid::from_raw(about.uid()), Gid::from_raw(about.gid()));
    Ok(read())
}

/// Without it, a file of another user's process stays unreadable: a sweep of `/proc` would try each in vain.
fn may_change_user() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETUID)))
}

/// The user and group for which the kernel lets this thread access files; those of before when dropped. Without the right to change them (CAP_SETUID, CAP_SETGID)
/// nothing changes. A change takes core files from this process, since the kernel protects what it holds from then on.
struct FileRights {
    user: Uid,
    group: Gid,
}

impl FileRights {
    fn change(user: Uid, group: Gid) -> Self {
        // The group first: what it takes may be lost with the user.
        let group = setfsgid(group);
        Self { user: setfsuid(user), group }
    }
}

impl Drop for FileRights {
    fn drop(&mut self) {
        setfsuid(self.user);
        setfsgid(self.group);
    }
}
