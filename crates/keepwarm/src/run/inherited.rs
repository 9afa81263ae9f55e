//! Listening sockets that another process has bound: the process before this one, or systemd.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use keepwarm_config::Bind;
use keepwarm_net::ListeningSocket;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Inherited sockets that no listener has claimed yet.
#[derive(Debug, Default)]
pub(super) struct InheritedSockets(Vec<InheritedSocket>);

/// One inherited socket.
#[derive(Debug)]
struct InheritedSocket {
    /// The `bind` it was made for; none from systemd, which knows addresses only.
    bind: Option<String>,
    /// `[admin]` had it, or a listener; none: unknown.
    admin: Option<bool>,
    bound: ListeningSocket,
    owner: SocketOwner,
}

/// The owner that keeps a socket when this process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketOwner {
    /// None: the socket ends with Keepwarm.
    Keepwarm,
    /// systemd, which accepts for it until the next start.
    ServiceManager,
}

/// The first descriptor of those that systemd passes (`sd_listen_fds(3)`).
const FIRST: i32 = 3;

impl InheritedSockets {
    /// The sockets that systemd has passed to this process, if any.
    ///
    /// # Errors
    /// A sentence that names the descriptor that cannot be used.
    pub(super) fn from_service_manager() -> Result<Self, String> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
        let ours = number("LISTEN_PID") == Some(getpid().as_raw_nonzero().get());
        let count = number("LISTEN_FDS").filter(|&count| ours && count > 0).unwrap_or(0);
        let mut inherited = Self::default();
        for fd in FIRST..FIRST.saturating_add(count) {
            let unusable =
                |error: std::io::Error| format!("cannot use descriptor {fd}, passed in LISTEN_FDS: {error}");
            let bound = own(fd).and_then(ListeningSocket::adopt).map_err(unusable)?;
            inherited.0.push(InheritedSocket {
                bind: None,
                admin: None,
                bound,
                owner: SocketOwner::ServiceManager,
            });
        }
        Ok(inherited)
    }

    /// One more, made for this `bind`.
    pub(super) fn add(
        &mut self,
        bind: String,
        admin: Option<bool>,
        bound: ListeningSocket,
        owner: SocketOwner,
    ) {
        self.0.push(InheritedSocket { bind: Some(bind), admin, bound, owner });
    }

    /// The sockets for a `bind` of `[admin]` or of a listener; `None`: they must be created.
    ///
    /// A free port may be requested for both: each then gets its own. What has a port may pass from one to the other.
    pub(super) fn take(&mut self, bind: &Bind, admin: bool) -> Option<(Vec<ListeningSocket>, SocketOwner)> {
        let name = bind.to_string();
        let mut addresses: Vec<SocketAddr> = Vec::new();
        if self.0.iter().any(|socket| socket.bind.is_none()) {
            addresses = match bind {
                Bind::Tcp(address) => vec![*address],
                Bind::Host { host, port } => {
                    (host.as_str(), *port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
                }
                Bind::Unix(_) => Vec::new(),
            };
        }
        let fits = |socket: &InheritedSocket| match (&socket.bind, bind) {
            (Some(made_for), _) => *made_for == name,
            (None, Bind::Unix(path)) => socket
                .bound
                .path()
                .is_some_and(|bound| std::path::absolute(path).is_ok_and(|path| path == bound)),
            (None, _) => socket.bound.address.is_some_and(|address| addresses.contains(&address)),
        };
        let is_free_port = matches!(bind, Bind::Tcp(address) if address.port() == 0)
            || matches!(bind, Bind::Host { port: 0, .. });
        let fits = |socket: &InheritedSocket| {
            fits(socket) && (!is_free_port || socket.admin.is_none_or(|is_admin| is_admin == admin))
        };
        let taken: Vec<InheritedSocket> = self.0.extract_if(.., |socket| fits(socket)).collect();
        let owner = taken.first()?.owner;
        Some((taken.into_iter().map(|socket| socket.bound).collect(), owner))
    }

    /// Reports each socket that is not used, and closes it.
    pub(super) fn drop_rest(&mut self) {
        for socket in self.0.drain(..) {
            if socket.owner == SocketOwner::ServiceManager {
                let place = match (socket.bound.address, socket.bound.path()) {
                    (Some(address), _) => address.to_string(),
                    (None, Some(path)) => format!("unix:{}", path.display()),
                    (None, None) => "a socket without a name".to_owned(),
                };
                tracing::warn!(
                    name: "socket_unused",
                    %place, "systemd passed a socket that no listener binds"
                );
            }
        }
    }
}

/// A descriptor that this process was started with, as one that it owns. Through a pidfd of itself: a number alone cannot be turned into
/// an owned descriptor safely.
fn own(fd: i32) -> std::io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, fd, PidfdGetfdFlags::empty())?)
}
