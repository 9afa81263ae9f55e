//! Every system call that the data plane makes on a connected or listening socket.
//!
//! The simulation (`simulation/`, feature `simulation`) replaces this module with one of the same names. Nothing else in the crate that
//! moves bytes knows a descriptor. A call interrupted by a signal is repeated here: callers never see `EINTR`.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown, SocketFlags,
};
use socket2::{Domain, SockAddr, TcpKeepalive, Type};
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::Endpoint;
use crate::client::IdleState;
pub use crate::kernel::watch;
pub(crate) use crate::kernel::{queued, sender};

/// A non-blocking stream socket, connected or listening.
pub type Socket = OwnedFd;

/// One that the reactor of this thread watches ([`watch`]).
pub type WatchedSocket = AsyncFd<Socket>;

/// Appends what has arrived to `into`, at most its spare capacity (which must not be 0), now.
pub(crate) fn receive(socket: &Socket, into: &mut Vec<u8>) -> io::Result<usize> {
    let receive =
        || rustix::net::recv(socket, rustix::buffer::spare_capacity(&mut *into), RecvFlags::empty());
    let (_, got) = retry_on_intr(receive)?;
    Ok(got)
}

/// The same for a Unix socket whose peer passes sockets with its bytes: the kernel ends a read after the byte that carried one. Passed sockets are added to
/// `sockets`.
pub(crate) fn receive_with_sockets(
    socket: &Socket,
    into: &mut Vec<u8>,
    sockets: &mut Vec<Socket>,
) -> io::Result<usize> {
    let held = into.len();
    into.resize(into.capacity(), 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let got = retry_on_intr(|| {
        let room = into.get_mut(held..).unwrap_or_default();
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(room)], &mut beside, RecvFlags::CMSG_CLOEXEC)
    });
    into.truncate(held + got.as_ref().map_or(0, |got| got.bytes));
    let got = got?.bytes;
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            // A socket that cannot be made non-blocking would hold up its thread.
            sockets.extend(passed.filter(|socket| rustix::io::ioctl_fionbio(socket, true).is_ok()));
        }
    }
    Ok(got)
}

/// Sockets that come with one byte, at most; more are closed.
const PASSED: usize = 4;

/// Whether something has arrived, without taking it.
pub(crate) fn look(socket: &Socket) -> IdleState {
    let mut byte = [0_u8; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match retry_on_intr(|| rustix::net::recv(socket, byte.as_mut_slice(), flags)) {
        Err(rustix::io::Errno::AGAIN) => IdleState::Quiet,
        Ok((_, 1..)) => IdleState::Noisy,
        Ok((_, 0)) | Err(_) => IdleState::Closed,
    }
}

/// Enables or disables the sender's process id on bytes that arrive at a Unix socket.
pub(crate) fn name_senders(socket: &Socket, wanted: bool) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_passcred(socket, wanted)?)
}

/// Writes what the socket takes now. SIGPIPE is ignored by the binary (Rust's runtime does so at start), so `writev` to a closed peer is EPIPE.
///
/// # Errors
/// The socket's; [`io::ErrorKind::WouldBlock`]: it has no room.
pub fn send(socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    match slices {
        // The extra work of `writev` is for files.
        [one] => Ok(retry_on_intr(|| rustix::net::send(socket, one, SendFlags::NOSIGNAL))?),
        _ => Ok(retry_on_intr(|| rustix::io::writev(socket, slices))?),
    }
}

/// The same for bytes that [`send_file`] follows at once: the kernel sends both together (`MSG_MORE`).
///
/// # Errors
/// As of [`send`].
pub(crate) fn send_before_file(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::MORE))?)
}

/// Sends at most `max` bytes of a file, from `at` on, as far as the socket takes them now; 0 at the end of the file. The kernel waits for pages that it has to
/// read from a disk: the caller makes sure that it has them.
///
/// # Errors
/// As of [`send`]; those of the disk; `EINVAL`, if the file system does not support it.
pub(crate) fn send_file(socket: &Socket, file: &File, at: u64, max: usize) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut { at }), max))?)
}

/// Whether a socket is ready for writing only because both sides have ended, or it was reset.
pub(crate) fn is_over(guard: &AsyncFdReadyGuard<'_, Socket>) -> bool {
    guard.ready().is_write_closed()
}

/// Sends FIN.
pub(crate) fn shutdown_write(socket: &Socket) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Nothing is read any more: on a Unix socket the peer's next write fails with `EPIPE`. `false`: it is another socket, and nothing has changed.
pub(crate) fn shutdown_read(socket: &Socket) -> bool {
    let domain = rustix::net::sockopt::socket_domain(socket);
    domain == Ok(AddressFamily::UNIX) && rustix::net::shutdown(socket, Shutdown::Read).is_ok()
}

/// Acknowledges what has been read, and what comes next, at once. `false`: the socket has no acknowledgements.
pub(crate) fn acknowledge(socket: &Socket) -> bool {
    rustix::net::sockopt::set_tcp_quickack(socket, true).is_ok()
}

/// Makes the close a reset.
pub(crate) fn reset_on_close(socket: &Socket) {
    let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// The error that ended the handshake of a connection, if one did.
pub(crate) fn take_error(socket: &Socket) -> io::Result<()> {
    Ok(rustix::net::sockopt::socket_error(socket)??)
}

/// The result of starting to connect.
pub(crate) enum ConnectStart {
    Connected(Socket),
    UnderWay(Socket),
    /// The queue of a Unix socket is full.
    Full,
}

/// Begins to connect.
pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<ConnectStart> {
    let (domain, address) = match endpoint {
        Endpoint::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
        Endpoint::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        Endpoint::Proxied(_) => return connect(endpoint.server()),
    };
    let socket = socket2::Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
    if let Endpoint::Tcp(_) = endpoint {
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(&keepalive())?;
    }
    match socket.connect(&address) {
        Ok(()) => Ok(ConnectStart::Connected(socket.into())),
        Err(error) if is(&error, rustix::io::Errno::INPROGRESS) => Ok(ConnectStart::UnderWay(socket.into())),
        Err(error) if is(&error, rustix::io::Errno::AGAIN) => Ok(ConnectStart::Full),
        Err(error) => Err(error),
    }
}

fn is(error: &io::Error, errno: rustix::io::Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// The kernel detects a vanished peer after 90 s, even if nothing is sent and we set no timeout: a response stream being received, a tunnel.
fn keepalive() -> TcpKeepalive {
    let interval = Duration::from_secs(10);
    TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(interval).with_retries(3)
}

/// Whether a connection waits to be accepted.
pub fn has_waiting(listener: &Socket) -> bool {
    let mut poll = [PollFd::new(listener, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut poll, Some(&now)) != Ok(0)
}

/// Accepts one connection, now, and returns the client's address.
pub fn accept(listener: &Socket) -> io::Result<(Socket, Option<SocketAddr>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, client) = retry_on_intr(|| rustix::net::acceptfrom_with(listener, flags))?;
    Ok((socket, client.and_then(|client| SocketAddr::try_from(client).ok())))
}

/// The address that its client connected to.
pub fn local_address(socket: &Socket) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket.as_fd()).ok()?).ok()
}

/// The process that connected a Unix socket, by its id here; none if it is of another namespace.
pub fn peer_process(socket: &Socket) -> Option<u32> {
    crate::kernel::peer_process(socket)
}

/// A socket that another part of the process has made.
pub fn adopt(fd: OwnedFd) -> Socket {
    fd
}
