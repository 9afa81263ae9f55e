//! Where a server listens, and connecting to it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::Interest;

use crate::Io;
use crate::socket::{ConnectStart, Socket, WatchedSocket, connect, take_error, watch};

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// On a TCP port.
    Tcp(SocketAddr),
    /// On a Unix socket.
    Unix(PathBuf),
}

/// How long to wait before a Unix socket whose queue is full is tried again: unlike TCP's, its connect does not wait by itself.
const FULL: Duration = Duration::from_millis(2);

impl Endpoint {
    /// Connects. Put a timeout around it: an overloaded TCP server may never accept.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::ConnectionRefused`] or [`io::ErrorKind::NotFound`] when nobody listens.
    pub async fn connect(&self) -> io::Result<Io> {
        loop {
            match connect(self)? {
                ConnectStart::Connected(fd) => return Ok(Io::new(fd)),
                ConnectStart::UnderWay(fd) => return wait(fd).await.map(Io::new),
                ConnectStart::Full => tokio::time::sleep(FULL).await,
            }
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

/// Waits until the handshake has ended, in success or failure.
async fn wait(fd: Socket) -> io::Result<Socket> {
    let watch = under_way(fd)?;
    watch.writable().await?.retain_ready();
    let fd = watch.into_inner();
    take_error(&fd)?;
    Ok(fd)
}

/// Becomes writable when the handshake is over.
pub(crate) fn under_way(fd: Socket) -> io::Result<WatchedSocket> {
    watch(fd, Interest::WRITABLE).map_err(|(_, error)| error)
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
