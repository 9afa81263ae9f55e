//! A connected socket, without anything around it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use keepwarm_net::{TcpFacts, tcp_facts};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use tokio::net::{TcpStream, UnixStream};

use super::Acks;

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket of this machine.
    Unix(PathBuf),
}

/// A connection, read and written as bytes come and go.
#[derive(Debug)]
pub(crate) struct Socket(Stream);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) async fn connect(peer: &PeerAddress) -> io::Result<Self> {
        match peer {
            PeerAddress::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Self(Stream::Tcp(stream)))
            }
            PeerAddress::Unix(path) => Ok(Self(Stream::Unix(UnixStream::connect(path).await?))),
        }
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match &self.0 {
            Stream::Tcp(stream) => stream.readable().await,
            Stream::Unix(stream) => stream.readable().await,
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match &self.0 {
            Stream::Tcp(stream) => stream.writable().await,
            Stream::Unix(stream) => stream.writable().await,
        }
    }

    /// Writes some of it as soon as the kernel takes any: as long as that takes, so the caller bounds the time. Cancelled, it has written nothing.
    pub(crate) async fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.writable().await?;
            match self.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    /// Writes what the kernel takes now; `WouldBlock` when it takes nothing.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// What has come; `WouldBlock` when nothing has.
    pub(crate) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            Stream::Tcp(stream) => stream.try_read(into),
            Stream::Unix(stream) => stream.try_read(into),
        }
    }

    /// The first of what has come, left where it is.
    pub(crate) fn peek(&self, into: &mut [u8]) -> usize {
        // Whatever is wrong with the connection shows when it is read.
        recv(self.as_fd(), into, RecvFlags::PEEK | RecvFlags::DONTWAIT).map_or(0, |(count, _)| count)
    }

    /// Says that no more will be sent.
    pub(crate) fn shut_down_writing(&self) -> io::Result<()> {
        shutdown(self.as_fd(), Shutdown::Write).map_err(io::Error::from)
    }

    /// Chooses how what comes is acknowledged. With `AtOnce` an acknowledgement that waits leaves now.
    pub(crate) fn acknowledge(&self, acks: Acks) {
        let at_once = match acks {
            Acks::AsUsual => return,
            Acks::Late => false,
            Acks::AtOnce => true,
        };
        // Where it cannot be chosen, things go as usual.
        #[cfg(target_os = "linux")]
        let _ = rustix::net::sockopt::set_tcp_quickack(self, at_once);
        #[cfg(not(target_os = "linux"))]
        let _ = at_once;
    }

    pub(crate) fn facts(&self) -> Option<TcpFacts> {
        match &self.0 {
            Stream::Tcp(_) => tcp_facts(&self.as_fd()),
            Stream::Unix(_) => None,
        }
    }

    /// Where it leads, when that is an address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// For rustls, which reads and writes by itself.
impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.try_read(into)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
