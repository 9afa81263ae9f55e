//! The sockets that a process has open.

use std::fs;

/// Their inodes. None if `/proc` does not tell: of another user's process only root may know, and in a container not even root without `CAP_SYS_PTRACE`.
pub(crate) fn sockets_of(pid: u32) -> impl Iterator<Item = u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}
