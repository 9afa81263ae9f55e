//! Registering descriptors with the runtime's reactor: the only module with `unsafe` in it.
#![expect(
    unsafe_code,
    reason = "AsyncFd's registration leaves it to its caller that the descriptor stays the same"
)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the current runtime watch a descriptor. On failure the descriptor comes back.
///
/// # Errors
/// The reactor refuses it, or has no memory for it.
pub fn watch(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, (OwnedFd, io::Error)> {
    // SAFETY: the descriptor must be open, and `as_raw_fd` must give the same one, for as long as the AsyncFd has the value. An
    // `OwnedFd` owns its descriptor, never changes it, and closes it only when dropped; AsyncFd deregisters it before it drops it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }
        .map_err(tokio::io::unix::AsyncFdRegisterError::into_parts)
}
