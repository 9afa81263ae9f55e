//! Runs IN THE CHILD, the launcher and the guardian: drops what Keepwarm itself was given and did not ask for.

use std::os::fd::RawFd;

/// Closes every descriptor from 3 on. Keepwarm opens its own close-on-exec; these are the ones that the parent of Keepwarm
/// left open (a shell, `make`'s job server), which would otherwise stay open in every worker for ever.
///
/// Call it before this process opens anything. Where `/proc` is missing, it closes nothing.
pub(super) fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok();
    // Collected first, so that the directory itself is closed when its number comes: an error then, and no harm.
    let inherited: Vec<RawFd> = entries.filter_map(number).filter(|&fd| fd > 2).collect();
    for fd in inherited {
        let _ = nix::unistd::close(fd);
    }
}
