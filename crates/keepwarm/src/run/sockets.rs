//! The sockets of one address: made here, or inherited; and how they end.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use keepwarm_config::Bind;
use keepwarm_net::{BindTo, Bound, StopListening};

use super::inherited::{Inherited, Owner};
use super::occupant;

/// The sockets of one `bind`.
pub(crate) struct Sockets {
    pub(crate) bounds: Vec<Bound>,
    pub(super) owner: Owner,
    /// Bound by another process before this one, which may still serve.
    pub(crate) inherited: bool,
}

/// Sockets that are not yet served. Dropped so, those that are this process's own leave nothing behind.
#[derive(Default)]
pub(crate) struct Opened(BTreeMap<Bind, Sockets>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.files().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

impl Opened {
    /// The names in the file system that were made for them.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter_map(|(bind, sockets)| match bind {
            Bind::Unix(path) if !sockets.inherited => Some(path.as_path()),
            _ => None,
        })
    }

    /// Binds, for this `section` of the configuration, unless it was inherited.
    pub(super) fn open(
        &mut self,
        bind: &Bind,
        section: &str,
        inherited: &mut Inherited,
    ) -> Result<(), String> {
        let sockets = match inherited.take(bind) {
            Some((bounds, owner)) => Sockets { bounds, owner, inherited: true },
            None => {
                let bounds = bind_all(bind).map_err(|error| explain(bind, section, &error))?;
                Sockets { bounds, owner: Owner::Keepwarm, inherited: false }
            }
        };
        self.0.insert(bind.clone(), sockets);
        Ok(())
    }

    /// The sockets of a `bind`.
    pub(super) fn get(&self, bind: &Bind) -> Option<&Sockets> {
        self.0.get(bind)
    }

    /// Gives the sockets of a `bind` away.
    pub(crate) fn take(&mut self, bind: &Bind) -> Option<Sockets> {
        self.0.remove(bind)
    }
}

impl Sockets {
    /// Whether the name of a socket in the file system ends with this process.
    pub(crate) fn is_own(&self) -> bool {
        self.owner == Owner::Keepwarm
    }

    /// The address as a person writes it: with the port that it has, and each that a name stands for.
    pub(crate) fn shown(&self, bind: &Bind) -> Vec<String> {
        match bind {
            Bind::Unix(path) => vec![format!("unix:{}", path.display())],
            _ => self.bounds.iter().filter_map(|bound| Some(format!("http://{}", bound.address?))).collect(),
        }
    }

    /// Ends the listening by `stops`; what had connected is still accepted.
    pub(crate) fn end(&self, bind: &Bind, stops: &[StopListening]) {
        if self.owner == Owner::ServiceManager {
            // It keeps the socket open, for the next start to accept what comes meanwhile.
            return stops.iter().for_each(StopListening::hand_over);
        }
        if let Bind::Unix(path) = bind {
            // First the name, so that nobody new finds the socket.
            let _ = std::fs::remove_file(path);
        }
        self.bounds.iter().for_each(Bound::refuse_new);
        stops.iter().for_each(StopListening::accept_rest);
    }
}

/// A host name can have several addresses; each is listened on.
fn bind_all(bind: &Bind) -> io::Result<Vec<Bound>> {
    match bind {
        Bind::Tcp(address) => Ok(vec![keepwarm_net::bind(BindTo::Tcp(*address))?]),
        Bind::Unix(path) => Ok(vec![keepwarm_net::bind(BindTo::Unix(path))?]),
        Bind::Host { host, port } => {
            let addresses: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs()?.collect();
            addresses.iter().map(|address| keepwarm_net::bind(BindTo::Tcp(*address))).collect()
        }
    }
}

fn explain(bind: &Bind, section: &str, error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let occupant = match bind {
                Bind::Tcp(address) => occupant::of_tcp(*address),
                Bind::Unix(path) => occupant::of_unix(path),
                Bind::Host { host, port } => (host.as_str(), *port)
                    .to_socket_addrs()
                    .ok()
                    .and_then(|mut addresses| addresses.find_map(occupant::of_tcp)),
            };
            let by = occupant.unwrap_or_else(|| "by another process".to_owned());
            format!("the address is in use, {by}; stop that one, or choose another address")
        }
        io::ErrorKind::PermissionDenied => {
            "not permitted; ports below 1024 need the right CAP_NET_BIND_SERVICE, a Unix socket a folder that can be written".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    };
    format!("cannot listen on {bind} ({section}): {what}")
}
