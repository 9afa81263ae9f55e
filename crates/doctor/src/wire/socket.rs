//! A connected socket, without anything around it.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use keepwarm_net::{TcpFacts, tcp_facts};
use tokio::net::TcpStream;

use super::Acks;

/// A TCP connection, read and written as bytes come and go.
#[derive(Debug)]
pub(crate) struct Socket(TcpStream);

impl Socket {
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Writes all of it.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.0.writable().await?;
            match self.0.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What has come; `WouldBlock` when nothing has.
    pub(crate) fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }

    /// Says that no more will be sent.
    pub(crate) fn shut_down_writing(&self) -> io::Result<()> {
        rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write).map_err(io::Error::from)
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
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.0, at_once);
        #[cfg(not(target_os = "linux"))]
        let _ = at_once;
    }

    pub(crate) fn facts(&self) -> Option<TcpFacts> {
        tcp_facts(&self.0.as_fd())
    }

    /// Where it leads.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }
}

/// For rustls, which reads and writes by itself.
impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
