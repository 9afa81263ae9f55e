//! Where a server listens, and connecting to it.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
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
    /// At one of these, for one client, of which a PROXY header tells it.
    Proxied(Arc<ProxiedEndpoint>),
}

/// A server, and the PROXY header with which each connection to it begins. To a pool, the same server with another header is another one: no request is sent on the
/// connection of another client.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxiedEndpoint {
    server: Endpoint,
    header: Box<[u8]>,
}

/// How long to wait before a Unix socket whose queue is full is tried again: unlike TCP's, its connect does not wait by itself.
const FULL: Duration = Duration::from_millis(2);

impl Endpoint {
    /// The same server; connections to it begin with this.
    #[must_use]
    pub fn proxied(&self, header: Vec<u8>) -> Self {
        let server = self.server().clone();
        Self::Proxied(Arc::new(ProxiedEndpoint { server, header: header.into() }))
    }

    /// Where the server listens, for any client.
    pub fn server(&self) -> &Self {
        match self {
            Self::Tcp(_) | Self::Unix(_) => self,
            Self::Proxied(proxied) => &proxied.server,
        }
    }

    pub(crate) fn is_proxied(&self) -> bool {
        matches!(self, Self::Proxied(_))
    }

    /// Connects. Put a timeout around it: an overloaded TCP server may never accept.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::ConnectionRefused`] or [`io::ErrorKind::NotFound`] when nobody listens.
    pub async fn connect(&self) -> io::Result<Io> {
        let mut io = loop {
            match connect(self.server())? {
                ConnectStart::Connected(fd) => break Io::new(fd),
                ConnectStart::UnderWay(fd) => break wait(fd).await.map(Io::new)?,
                ConnectStart::Full => tokio::time::sleep(FULL).await,
            }
        };
        if let Self::Proxied(proxied) = self {
            send(&mut io, &proxied.header).await?;
        }
        Ok(io)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Proxied(proxied) => proxied.server.fmt(f),
        }
    }
}

/// Writes the first bytes of a connection.
async fn send(io: &mut Io, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|cx| io.poll_write(cx, &[IoSlice::new(bytes)])).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
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
