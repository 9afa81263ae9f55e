//! Where a server listens, and connecting to it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::Io;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// At a TCP port.
    Tcp(SocketAddr),
    /// At a Unix socket.
    Unix(PathBuf),
}

/// How long to wait before a Unix socket whose queue is full is tried again: unlike TCP's, its connect does not wait by itself.
const FULL: Duration = Duration::from_millis(2);

impl Endpoint {
    /// Connects. Bound it by a time-out: a TCP server that is overwhelmed answers nothing.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::ConnectionRefused`] or [`io::ErrorKind::NotFound`] when nobody listens.
    pub async fn connect(&self) -> io::Result<Io> {
        loop {
            match self.begin()? {
                Begun::Connected(fd) => return Ok(Io::new(fd)),
                Begun::UnderWay(fd) => return wait(fd).await.map(Io::new),
                Begun::Full => tokio::time::sleep(FULL).await,
            }
        }
    }

    pub(crate) fn begin(&self) -> io::Result<Begun> {
        let (domain, address) = match self {
            Self::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
            Self::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), None)?;
        if let Self::Tcp(_) = self {
            socket.set_tcp_nodelay(true)?;
            socket.set_tcp_keepalive(&alive())?;
        }
        match socket.connect(&address) {
            Ok(()) => Ok(Begun::Connected(socket.into())),
            Err(error) if is(&error, rustix::io::Errno::INPROGRESS) => Ok(Begun::UnderWay(socket.into())),
            Err(error) if is(&error, rustix::io::Errno::AGAIN) => Ok(Begun::Full),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What beginning to connect came to.
pub(crate) enum Begun {
    Connected(OwnedFd),
    UnderWay(OwnedFd),
    /// The queue of a Unix socket.
    Full,
}

/// A peer that has vanished is found out by the kernel also where nothing is sent and no time-out of ours is set: a stream that is received, a tunnel. After 90 s.
fn alive() -> TcpKeepalive {
    let interval = Duration::from_secs(10);
    TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(interval).with_retries(3)
}

fn is(error: &io::Error, errno: rustix::io::Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Waits until the handshake is over, one way or the other.
async fn wait(fd: OwnedFd) -> io::Result<OwnedFd> {
    let watch = under_way(fd)?;
    watch.writable().await?.retain_ready();
    let fd = watch.into_inner();
    rustix::net::sockopt::socket_error(&fd)??;
    Ok(fd)
}

/// Becomes writable when the handshake is over.
pub(crate) fn under_way(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    crate::watch(fd, Interest::WRITABLE).map_err(|(_, error)| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_looks_whether_a_silent_peer_is_still_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let io = Endpoint::Tcp(listener.local_addr().unwrap()).connect().await.unwrap();
        let socket = socket2::SockRef::from(io.fd());
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
    }
}
