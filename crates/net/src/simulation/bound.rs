//! Listening sockets of the simulation, with the names of `crate::bound`.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::file::Kind;
use super::kernel::with;
use super::socket::Socket;
use crate::Endpoint;

/// A bound, listening socket.
#[derive(Debug)]
pub struct ListeningSocket {
    fd: Socket,
    /// The address, for TCP.
    pub address: Option<SocketAddr>,
    path: Option<PathBuf>,
}

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
/// The address is in use.
pub fn bind(to: BindAddress<'_>) -> io::Result<ListeningSocket> {
    match to {
        BindAddress::Tcp(address) => {
            let fd = listen(Endpoint::Tcp(address))?;
            Ok(ListeningSocket { fd, address: Some(address), path: None })
        }
        BindAddress::Unix(path) => {
            let fd = listen(Endpoint::Unix(path.to_owned()))?;
            Ok(ListeningSocket { fd, address: None, path: Some(path.to_owned()) })
        }
    }
}

pub(super) fn listen(endpoint: Endpoint) -> io::Result<Socket> {
    with(|kernel| {
        if kernel.listeners.contains_key(&endpoint) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let file = kernel.new_file(Kind::Listener { queue: VecDeque::new(), refuses: false });
        kernel.listeners.insert(endpoint, file);
        Ok(Socket { file })
    })
}

impl ListeningSocket {
    /// The socket itself.
    #[must_use]
    pub fn into_socket(self) -> Socket {
        self.fd
    }

    /// The path of a Unix socket.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, address: self.address, path: self.path.clone() })
    }

    /// Takes no new clients from now on.
    pub fn refuse_new(&self) -> bool {
        with(|kernel| {
            if let Some(Kind::Listener { refuses, .. }) =
                kernel.files.get_mut(&self.fd.file).map(|file| &mut file.kind)
            {
                *refuses = true;
            }
        });
        true
    }
}

/// As [`bind`]: an address includes no other here.
///
/// # Errors
/// As those of [`bind`].
pub fn bind_beside(address: SocketAddr, _: &[&ListeningSocket]) -> io::Result<ListeningSocket> {
    bind(BindAddress::Tcp(address))
}
