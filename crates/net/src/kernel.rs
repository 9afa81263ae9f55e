//! What no crate offers in safe code: registering a descriptor with the runtime's reactor, the kernel's data on a TCP connection and on the process
//! behind a Unix socket, and the stack of another thread. The only module with `unsafe` in it.
#![expect(
    unsafe_code,
    reason = "AsyncFd's registration, socket options that no crate has, and a signal handler that walks a stack"
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

/// Binds a socket to the network interface of this number, whether there is one or not (`SO_BINDTOIFINDEX`, Linux 5.0; it takes no rights).
///
/// # Errors
/// The system has no such option, or the socket is bound to an interface already.
#[cfg(not(feature = "simulation"))]
pub(crate) fn bind_to_interface(socket: &impl AsFd, number: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel reads one int at the pointer.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTOIFINDEX,
            (&raw const number).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The process that connected a Unix socket. The kernel says 0 for one that this namespace does not have, which `rustix` has no value for.
#[cfg(not(feature = "simulation"))]
pub(crate) fn peer_process(socket: &impl AsFd) -> Option<u32> {
    peer(socket).and_then(|peer| u32::try_from(peer.pid).ok()).filter(|pid| *pid != 0)
}

/// The user at the other end of a Unix socket: who connected it, or who listened.
#[cfg(not(feature = "simulation"))]
pub fn peer_user(socket: &impl AsFd) -> Option<u32> {
    peer(socket).map(|peer| peer.uid)
}

/// `SO_PEERCRED`, see unix(7).
#[cfg(not(feature = "simulation"))]
fn peer(socket: &impl AsFd) -> Option<libc::ucred> {
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
    (status == 0).then_some(peer)
}

/// The process that sent the next byte of a Unix socket, which is not taken (`SCM_CREDENTIALS`, see unix(7)). `None` at the end of the stream, and where
/// the kernel says 0: of bytes that were sent before the socket asked for their sender, and of a process that this namespace does not have. `rustix` has
/// no value for 0.
///
/// # Errors
/// The socket's.
#[cfg(not(feature = "simulation"))]
pub(crate) fn sender(socket: &impl AsFd) -> io::Result<Option<u32>> {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Words, as the kernel's headers must be aligned, and more than one message of credentials needs.
    let mut beside = [0_u64; 8];
    // SAFETY: all bytes 0 are a value of this struct of integers and pointers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut beside).cast();
    message.msg_controllen = size_of_val(&beside) as _;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes within the lengths given, which are those of the buffers.
    while unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: the kernel has set the length of what it wrote, and the header is read only if it is whole.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let is_sender = |header: &&libc::cmsghdr| {
        header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_CREDENTIALS
    };
    let sender = header.filter(is_sender).map(|header| {
        // SAFETY: a message of this kind has such a struct of integers.
        unsafe { libc::CMSG_DATA(header).cast::<libc::ucred>().read_unaligned() }
    });
    Ok(sender.and_then(|sender| u32::try_from(sender.pid).ok()).filter(|pid| *pid != 0))
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

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_sender_of_a_byte_is_known_if_it_was_sent_after_the_question() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let mut byte = [0];
        theirs.write_all(b"x").unwrap();
        rustix::net::sockopt::set_socket_passcred(&ours, true).unwrap();
        assert_eq!(sender(&ours).unwrap(), None, "the kernel says 0");
        ours.read_exact(&mut byte).unwrap();
        assert_eq!(sender(&ours).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        theirs.write_all(b"y").unwrap();
        assert_eq!(sender(&ours).unwrap(), Some(std::process::id()));
        ours.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"y", "the question has not taken it");
        drop(theirs);
        assert_eq!(sender(&ours).unwrap(), None, "the end of the stream");
    }
}
