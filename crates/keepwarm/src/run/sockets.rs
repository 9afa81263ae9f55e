//! The sockets of one address: made here, or inherited; and how they end.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use keepwarm_config::Bind;
use keepwarm_net::{BindAddress, ListeningSocket, Remote, Scheme};
use keepwarm_serve::{ListenerContext, StopListening};

use super::inherited::{InheritedSockets, SocketOwner};
use super::occupant;

/// The section whose address may be requested as a free port beside that of a listener.
pub(super) const ADMIN: &str = "admin";

/// The sockets of one `bind`.
pub(crate) struct Sockets {
    pub(crate) bounds: Vec<ListeningSocket>,
    pub(super) owner: SocketOwner,
    /// Bound before it was opened under this `bind`: by another process, which may still serve, or by this one.
    pub(crate) inherited: bool,
}

/// Sockets that are not served yet. Dropping them leaves nothing of this process behind.
#[derive(Default)]
pub(crate) struct OpenedSockets(BTreeMap<Bind, Sockets>);

/// The sockets that this process has while others are opened.
#[derive(Default)]
pub(crate) struct OwnSockets<'s> {
    /// Those whose `bind` the configuration no longer has: another may take them over.
    pub(crate) free: Vec<&'s ListeningSocket>,
    /// Where the others listen, and for which section.
    pub(crate) used: Vec<(SocketAddr, String)>,
}

impl Drop for OpenedSockets {
    fn drop(&mut self) {
        self.files().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

impl OpenedSockets {
    /// The names in the file system that were made for them.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter_map(|(bind, sockets)| match bind {
            Bind::Unix(path) if !sockets.inherited => Some(path.as_path()),
            _ => None,
        })
    }

    /// Binds, for this `section` of the configuration, unless it was inherited or this process has it already.
    pub(super) fn open(
        &mut self,
        bind: &Bind,
        section: &str,
        inherited: &mut InheritedSockets,
        own: &mut OwnSockets<'_>,
    ) -> Result<(), String> {
        let sockets = match inherited.take(bind, section == ADMIN) {
            Some((bounds, owner)) => Sockets { bounds, owner, inherited: true },
            None => bind_all(bind, own).map_err(|error| explain(bind, section, &error, own))?,
        };
        own.note(&sockets, section);
        self.0.insert(bind.clone(), sockets);
        Ok(())
    }

    /// The sockets of a `bind`.
    pub(crate) fn get(&self, bind: &Bind) -> Option<&Sockets> {
        self.0.get(bind)
    }

    /// Hands over the sockets of a `bind`.
    pub(crate) fn take(&mut self, bind: &Bind) -> Option<Sockets> {
        self.0.remove(bind)
    }
}

impl<'s> OwnSockets<'s> {
    /// Adds those of a `bind` that stays (`kept`) or goes. Sockets of the service manager cannot be taken over.
    pub(crate) fn add(&mut self, sockets: &'s Sockets, section: &str, kept: bool) {
        match !kept && sockets.is_own() {
            true => self.free.extend(&sockets.bounds),
            false => self.note(sockets, section),
        }
    }

    /// These are in use, for this section.
    fn note(&mut self, sockets: &Sockets, section: &str) {
        let addresses = sockets.bounds.iter().filter_map(|bound| bound.address);
        self.used.extend(addresses.map(|address| (address, section.to_owned())));
    }

    /// Listens at an address. Reuses a socket that this process already has there, so that no connection is refused meanwhile.
    fn listen(&self, address: SocketAddr) -> io::Result<(Vec<ListeningSocket>, bool)> {
        if let Some(same) = self.free.iter().find(|bound| bound.address == Some(address)) {
            return Ok((vec![same.try_clone()?], true));
        }
        let overlapping: Vec<&ListeningSocket> = self
            .free
            .iter()
            .copied()
            .filter(|bound| bound.address.is_some_and(|other| overlap(address, other)))
            .collect();
        if overlapping.is_empty() {
            return Ok((vec![keepwarm_net::bind(BindAddress::Tcp(address))?], false));
        }
        let mut bounds = vec![keepwarm_net::bind_beside(address, &overlapping)?];
        if address.ip().is_unspecified() {
            // Connections to their addresses go to the narrower ones, as long as they exist.
            for narrower in overlapping {
                bounds.push(narrower.try_clone()?);
            }
        }
        Ok((bounds, false))
    }
}

/// Whether one of two addresses includes the other. `[::]` does not include IPv4 here (`net::bind`).
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port()
        && one.is_ipv4() == other.is_ipv4()
        && (one.ip().is_unspecified() || other.ip().is_unspecified() || one.ip() == other.ip())
}

/// Descriptors for each thread that will accept, made before anything changes.
pub(crate) struct SocketCopies(Vec<(Remote, ListeningSocket)>);

impl SocketCopies {
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn of(sockets: &Sockets, remotes: &[Remote]) -> io::Result<Self> {
        let each = sockets.bounds.iter().flat_map(|bound| remotes.iter().map(move |remote| (remote, bound)));
        each.map(|(remote, bound)| Ok((remote.clone(), bound.try_clone()?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Begins to accept.
    pub(crate) fn serve(self, context: &Arc<ListenerContext>) -> Vec<StopListening> {
        let serve = |(remote, socket): (Remote, ListeningSocket)| {
            let (stop, stopped) = keepwarm_serve::stop_listening();
            let context = Arc::clone(context);
            remote.spawn(move || keepwarm_serve::serve(socket, context, stopped));
            stop
        };
        self.0.into_iter().map(serve).collect()
    }
}

impl Sockets {
    /// Whether the name of a socket in the file system ends with this process.
    pub(crate) fn is_own(&self) -> bool {
        self.owner == SocketOwner::Keepwarm
    }

    /// The address as a person writes it: with the port that it has, and each that a name stands for.
    pub(crate) fn shown(&self, bind: &Bind, scheme: Scheme) -> Vec<String> {
        let scheme = scheme.as_str();
        match bind {
            Bind::Unix(path) => vec![format!("unix:{}", path.display())],
            _ => self
                .bounds
                .iter()
                .filter_map(|bound| Some(format!("{scheme}://{}", bound.address?)))
                .collect(),
        }
    }

    /// Ends the listening by `stops`, which [`SocketCopies::serve`] returned; earlier connections are still accepted. `kept` are taken over under another `bind`.
    pub(crate) fn end(&self, bind: &Bind, stops: &[StopListening], kept: &[SocketAddr]) {
        if self.owner == SocketOwner::ServiceManager {
            // It keeps the socket open, for the next start to accept what comes meanwhile.
            return stops.iter().for_each(StopListening::hand_over);
        }
        if let Bind::Unix(path) = bind {
            // First the name, so that no new client finds the socket.
            let _ = std::fs::remove_file(path);
        }
        let each = stops.len() / self.bounds.len().max(1);
        for (bound, stops) in self.bounds.iter().zip(stops.chunks(each.max(1))) {
            if bound.address.is_some_and(|address| kept.contains(&address)) {
                stops.iter().for_each(StopListening::hand_over);
            } else {
                let refuses = bound.refuse_new();
                stops.iter().for_each(|stop| stop.accept_rest(refuses));
            }
        }
    }
}

/// A host name can have several addresses; each is listened on.
fn bind_all(bind: &Bind, own: &OwnSockets<'_>) -> io::Result<Sockets> {
    let addresses: Vec<SocketAddr> = match bind {
        Bind::Tcp(address) => vec![*address],
        Bind::Host { host, port } => (host.as_str(), *port).to_socket_addrs()?.collect(),
        Bind::Unix(path) => {
            let bounds = vec![keepwarm_net::bind(BindAddress::Unix(path))?];
            return Ok(Sockets { bounds, owner: SocketOwner::Keepwarm, inherited: false });
        }
    };
    let (mut bounds, mut all) = (Vec::new(), true);
    for address in addresses {
        match own.listen(address) {
            Ok((some, inherited)) => {
                bounds.extend(some);
                all &= inherited;
            }
            Err(error) if is_without_ipv6(bind, &error) => tracing::warn!(
                name: "listener_without_ipv6",
                %bind, "this machine has no IPv6: nothing listens on this address"
            ),
            Err(error) => return Err(error),
        }
    }
    Ok(Sockets { bounds, owner: SocketOwner::Keepwarm, inherited: all })
}

/// Whether `[::]`, which `domains` means too, is nothing on this machine: nobody can come that way, and the other address serves.
fn is_without_ipv6(bind: &Bind, error: &io::Error) -> bool {
    let is_any = matches!(bind, Bind::Tcp(address) if address.is_ipv6() && address.ip().is_unspecified());
    is_any && rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::AFNOSUPPORT)
}

fn explain(bind: &Bind, section: &str, error: &io::Error, own: &OwnSockets<'_>) -> String {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => in_use(bind, own),
        io::ErrorKind::PermissionDenied => {
            "not permitted; ports below 1024 need the capability CAP_NET_BIND_SERVICE, a Unix socket needs a writable directory".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    };
    let help = match section.ends_with(":http") {
        true => {
            "; it redirects HTTP to `domains`: give a listener of yours port 80 (with redirect_to_https = 443), or stop what has it"
        }
        false => "",
    };
    format!("cannot listen on {bind} ({section}): {what}{help}")
}

fn in_use(bind: &Bind, own: &OwnSockets<'_>) -> String {
    let addresses: Vec<SocketAddr> = match bind {
        Bind::Tcp(address) => vec![*address],
        Bind::Host { host, port } => {
            (host.as_str(), *port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
        }
        Bind::Unix(_) => Vec::new(),
    };
    let ours = |(used, _): &&(SocketAddr, String)| addresses.iter().any(|&address| overlap(address, *used));
    if let Some((address, section)) = own.used.iter().find(ours) {
        return format!(
            "Keepwarm itself listens on {address} for {section}, and one of the two addresses includes the other; remove one of them, or move them in two reloads"
        );
    }
    let occupant = match bind {
        Bind::Unix(path) => occupant::of_unix(path),
        _ => addresses.iter().copied().find_map(occupant::of_tcp),
    };
    let by = occupant.unwrap_or_else(|| "by another process".to_owned());
    format!("the address is in use, {by}; stop that process, or choose another address")
}
