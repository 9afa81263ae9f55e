//! What no crate offers in safe code: registering a descriptor with the runtime's reactor, the kernel's data on a TCP connection and on the process
//! behind a Unix socket, and the stack of another thread. The only module with `unsafe` in it.
#![expect(
    unsafe_code,
    reason = "AsyncFd's registration, getsockopt into a struct of the kernel's, and a signal handler that walks a stack"
)]

mod stack;

use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd};

#[cfg(not(feature = "simulation"))]
use {std::io, std::os::fd::OwnedFd, tokio::io::Interest, tokio::io::unix::AsyncFd};

pub(crate) use self::stack::{stack_of, thread_id};

/// Registers a descriptor with the current runtime. On failure the descriptor is returned.
///
/// # Errors
/// The reactor refuses it, or has no memory for it.
#[cfg(not(feature = "simulation"))]
pub fn watch(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, (OwnedFd, io::Error)> {
    // SAFETY: the descriptor must be open, and `as_raw_fd` must give the same one, for as long as the AsyncFd has the value. An
    // `OwnedFd` owns its descriptor, never changes it, and closes it only when dropped; AsyncFd deregisters it before it drops it.
    unsafe { AsyncFd::register_with_interest(fd, interest) }
        .map_err(tokio::io::unix::AsyncFdRegisterError::into_parts)
}

/// Bytes written to a stream socket that its peer has not received: of TCP not acknowledged, a FIN among them, of a Unix socket not read (`SIOCOUTQ`, see tcp(7)).
#[cfg(not(feature = "simulation"))]
pub(crate) fn queued(socket: &impl AsFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes one int at the pointer.
    let status = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if status == 0 { usize::try_from(count).unwrap_or(0) } else { 0 }
}

/// The process that connected a Unix socket (`SO_PEERCRED`, see unix(7)). The kernel says 0 for one that this namespace does not have, which `rustix` has no value for.
#[cfg(not(feature = "simulation"))]
pub(crate) fn peer_process(socket: &impl AsFd) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes at most `len` bytes at the pointer, which are integers.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    if status == 0 { u32::try_from(peer.pid).ok().filter(|pid| *pid != 0) } else { None }
}

/// The kernel's counts of a TCP connection (`TCP_INFO`, see tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFacts {
    /// Data segments received.
    pub data_segments_in: u32,
    /// The largest segment the peer sends, in bytes.
    pub receive_mss: u32,
    /// The smoothed round-trip time, in microseconds.
    pub round_trip: u32,
}

/// The kernel's data on a TCP connection; none where it is too old to count (before Linux 4.6) or the socket is of another kind.
#[must_use]
pub fn tcp_facts(socket: &impl AsFd) -> Option<TcpFacts> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes at most `len` bytes at the pointer.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let counted = offset_of!(libc::tcp_info, tcpi_data_segs_in) + size_of::<u32>();
    if status != 0 || (len as usize) < counted {
        return None;
    }
    // SAFETY: all of it was zeroed before the kernel wrote, and any bytes are a value of each of its fields, which are integers.
    let info = unsafe { info.assume_init() };
    Some(TcpFacts {
        data_segments_in: info.tcpi_data_segs_in,
        receive_mss: info.tcpi_rcv_mss,
        round_trip: info.tcpi_rtt,
    })
}
