//! What Keepwarm needs of the system, and some containers and sandboxes withhold.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

/// Says what is missing, before anything is started.
///
/// # Errors
/// Nothing can run.
pub(crate) fn check() -> Result<(), String> {
    // Keepwarm starts itself again, for its guardian and each worker.
    std::fs::read_link("/proc/self/exe").map_err(|error| {
        format!("cannot read /proc/self/exe: {error}; Keepwarm requires that /proc is mounted")
    })?;
    pidfd_open(getpid(), PidfdFlags::empty()).map_err(|error| {
        format!("pidfd_open(2) fails: {error}; Keepwarm requires Linux 5.10 or later, and a container or sandbox that permits this system call")
    })?;
    if let Err(error) =
        openat2(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty())
    {
        tracing::warn!(
            name: "files_unavailable",
            %error,
            "openat2(2) fails: no files can be served; Keepwarm requires Linux 5.10 or later, and a container or sandbox that permits this system call"
        );
    }
    Ok(())
}
