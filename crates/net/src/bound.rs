//! Listening sockets: bound here, or inherited from another process.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// A bound, listening socket.
#[derive(Debug)]
pub struct ListeningSocket {
    fd: OwnedFd,
    /// The address, for TCP: with the real port when 0 was asked for.
    pub address: Option<SocketAddr>,
}

impl ListeningSocket {
    /// Adopts a socket that another process has bound: the previous instance, or the service manager.
    ///
    /// # Errors
    /// It is not a listening stream socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let socket = SockRef::from(&fd);
        if !socket.is_listener()? || socket.r#type()? != Type::STREAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a listening stream socket"));
        }
        socket.set_nonblocking(true)?;
        socket.set_cloexec(true)?;
        let address = socket.local_addr()?.as_socket();
        if address.is_some() {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(Self { fd, address })
    }

    /// The socket itself.
    #[must_use]
    pub fn into_socket(self) -> OwnedFd {
        self.fd
    }

    /// The path of a Unix socket that has one.
    pub fn path(&self) -> Option<std::path::PathBuf> {
        SockRef::from(&self.fd).local_addr().ok()?.as_pathname().map(Path::to_path_buf)
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, address: self.address })
    }

    /// Takes no new clients from now on: nobody listens for them any more. Clients that are connected and not yet accepted, and those in the midst of their
    /// handshake, stay; closing the socket would reset them. `false`: the system withholds what this needs. The name of a Unix socket must have been removed before.
    #[must_use]
    pub fn refuse_new(&self) -> bool {
        // Packets of new connections come from another interface than this one.
        self.address.is_none()
            || crate::kernel::bind_to_interface(self, i32::MAX).is_ok()
            || self.drop_new().is_ok()
    }

    /// Has the kernel drop the first packet of new clients, which retry. For TCP, Linux lets only `CAP_NET_ADMIN` do so since 6.18.
    fn drop_new(&self) -> io::Result<()> {
        // Classic BPF on a TCP segment: byte 13 holds the flags, 0x02 is SYN. A listening socket sees no segment of accepted connections.
        const LOAD_BYTE: u16 = 0x30;
        const JUMP_IF_SET: u16 = 0x45;
        const RETURN: u16 = 0x06;
        let drop_syn = [
            SockFilter::new(LOAD_BYTE, 0, 0, 13),
            SockFilter::new(JUMP_IF_SET, 0, 1, 0x02),
            SockFilter::new(RETURN, 0, 0, 0),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
        ];
        SockRef::from(&self.fd).attach_filter(&drop_syn)
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Connections waiting to be accepted; the kernel bounds it by `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Where to listen.
#[derive(Debug, Clone, Copy)]
pub enum BindAddress<'a> {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(&'a Path),
}

/// Binds and listens.
///
/// # Errors
/// The system's; `AddrInUse` also for a Unix socket that another process serves.
pub fn bind(to: BindAddress<'_>) -> io::Result<ListeningSocket> {
    match to {
        BindAddress::Tcp(address) => bind_tcp(address, &[]),
        BindAddress::Unix(path) => bind_unix(path),
    }
}

/// Binds and listens on an address that includes those of sockets of this process, or is included in one: connections go to the narrower.
///
/// # Errors
/// As those of [`bind`].
pub fn bind_beside(address: SocketAddr, own: &[&ListeningSocket]) -> io::Result<ListeningSocket> {
    // `SO_REUSEPORT` for this moment only: it must not let in other processes of the same user.
    let share = |on: bool| own.iter().try_for_each(|bound| SockRef::from(&bound.fd).set_reuse_port(on));
    let bound = share(true).and_then(|()| bind_tcp(address, own));
    let _ = share(false);
    bound
}

fn bind_tcp(address: SocketAddr, own: &[&ListeningSocket]) -> io::Result<ListeningSocket> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it: one system call less for each.
    socket.set_tcp_nodelay(true)?;
    if address.is_ipv6() {
        // `[::]` beside `0.0.0.0` is two listeners, wherever `net.ipv6.bindv6only` stands.
        socket.set_only_v6(true)?;
    }
    if !own.is_empty() {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    // Checks again for other sockets on the address.
    socket.listen(BACKLOG)?;
    if !own.is_empty() {
        socket.set_reuse_port(false)?;
    }
    let address = socket.local_addr()?.as_socket();
    Ok(ListeningSocket { fd: socket.into(), address })
}

fn bind_unix(path: &Path) -> io::Result<ListeningSocket> {
    match UnixListener::bind(path) {
        Ok(listener) => Ok(unix_bound(listener)?),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A socket left by a dead process refuses; one in use does not.
            match UnixStream::connect(path) {
                Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                    Ok(unix_bound(UnixListener::bind(path)?)?)
                }
                _ => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

fn unix_bound(listener: UnixListener) -> io::Result<ListeningSocket> {
    listener.set_nonblocking(true)?;
    // The standard library listens with a backlog of its own; listening again only changes that.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(ListeningSocket { fd: listener.into(), address: None })
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_that_takes_no_new_clients_keeps_the_earlier_ones() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            let Ok(bound) = bind(BindAddress::Tcp(address.parse().unwrap())) else { continue };
            let mut there = bound.address.unwrap();
            if there.ip().is_unspecified() {
                there.set_ip([127, 0, 0, 1].into());
            }
            let mut early = TcpStream::connect(there).unwrap();
            assert!(bound.refuse_new(), "{address}");
            let late = TcpStream::connect(there).map(drop).map_err(|error| error.kind());
            assert_eq!(late, Err(io::ErrorKind::ConnectionRefused), "{address}");
            let listener = TcpListener::from(bound.into_socket());
            let mut accepted = listener.accept().unwrap().0;
            early.write_all(b"ping").unwrap();
            let mut block = [0; 4];
            accepted.read_exact(&mut block).unwrap();
            accepted.write_all(&block).unwrap();
            early.read_exact(&mut block).unwrap();
            assert_eq!(&block, b"ping");
            assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
