//! The listening sockets of the process, by address: kept over reloads, so that no connection is lost by one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use keepwarm_config::{Bind, Config, Listen};
use keepwarm_edge::Edge;
use keepwarm_net::{BindTo, Bound, ListenerContext, OpenConnections, Remote, StopListening};
use keepwarm_workers::dispatch::Links;

use super::inherited::{Inherited, Owner};
use super::occupant;
use crate::assemble;

/// All that listens.
pub(super) struct Listeners {
    remotes: Vec<Remote>,
    pub(super) open: Arc<OpenConnections>,
    pub(super) draining: Arc<AtomicBool>,
    /// By the `bind` of the configuration.
    serving: BTreeMap<Bind, Serving>,
    /// Sockets that were bound before this process began.
    inherited: Inherited,
}

struct Serving {
    sockets: Sockets,
    edge: Arc<Edge>,
    listen: Listen,
    stops: Vec<StopListening>,
}

/// The sockets of one `bind`.
struct Sockets {
    bounds: Vec<Bound>,
    owner: Owner,
    /// Bound by another process before this one, which may still serve.
    inherited: bool,
}

/// Sockets that are not yet served. Dropped so, those that are this process's own leave nothing behind.
pub(super) struct Opened(BTreeMap<Bind, Sockets>);

impl Drop for Opened {
    fn drop(&mut self) {
        for (bind, sockets) in &self.0 {
            if let (Bind::Unix(path), false) = (bind, sockets.inherited) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Listeners {
    pub(super) fn new(remotes: &[Remote], connections: usize, inherited: Inherited) -> Self {
        Self {
            remotes: remotes.to_vec(),
            open: Arc::new(OpenConnections::new(connections)),
            draining: Arc::default(),
            serving: BTreeMap::new(),
            inherited,
        }
    }

    /// Binds what the configuration has and this does not, unless it was inherited.
    pub(super) fn open(&mut self, config: &Config) -> Result<Opened, String> {
        let mut opened = Opened(BTreeMap::new());
        for listen in &config.listens {
            for bind in listen.bind.iter().filter(|bind| !self.serving.contains_key(bind)) {
                let sockets = match self.inherited.take(bind) {
                    Some((bounds, owner)) => Sockets { bounds, owner, inherited: true },
                    None => {
                        let bounds = open(bind).map_err(|error| explain(bind, listen, &error))?;
                        Sockets { bounds, owner: Owner::Keepwarm, inherited: false }
                    }
                };
                opened.0.insert(bind.clone(), sockets);
            }
        }
        self.inherited.drop_rest();
        Ok(opened)
    }

    /// Serves what the configuration says: kept addresses with their new routes, new ones, and no others.
    pub(super) fn apply(&mut self, config: &Config, mut opened: Opened, links: &Links) -> Result<(), String> {
        let wanted: HashSet<&Bind> = config.listens.iter().flat_map(|listen| &listen.bind).collect();
        let gone: Vec<Bind> = self.serving.keys().filter(|bind| !wanted.contains(bind)).cloned().collect();
        for listen in &config.listens {
            for bind in &listen.bind {
                let site = assemble::site(config, listen, links)?;
                match (self.serving.remove(bind), opened.0.remove(bind)) {
                    (Some(kept), _)
                        if kept.listen.limits == listen.limits
                            && kept.listen.access_log == listen.access_log =>
                    {
                        kept.edge.replace(site);
                        self.serving.insert(bind.clone(), Serving { listen: listen.clone(), ..kept });
                    }
                    // New connections get the new limits; the socket stays.
                    (Some(kept), _) => {
                        kept.edge.replace(site);
                        let serving = self.start(kept.sockets, kept.edge, listen)?;
                        kept.stops.iter().for_each(StopListening::hand_over);
                        self.serving.insert(bind.clone(), serving);
                    }
                    (None, Some(sockets)) => {
                        let edge = Arc::new(Edge::new(site));
                        let serving = self.start(sockets, edge, listen)?;
                        self.serving.insert(bind.clone(), serving);
                    }
                    (None, None) => {}
                }
            }
        }
        for bind in gone {
            if let Some(serving) = self.serving.remove(&bind) {
                serving.end(&bind);
            }
        }
        Ok(())
    }

    fn start(&self, sockets: Sockets, edge: Arc<Edge>, listen: &Listen) -> Result<Serving, String> {
        let context = Arc::new(ListenerContext {
            handler: Arc::clone(&edge) as _,
            limits: assemble::connection_limits(&listen.limits),
            draining: Arc::clone(&self.draining),
            open: Arc::clone(&self.open),
        });
        let mut stops = Vec::new();
        for bound in &sockets.bounds {
            for remote in &self.remotes {
                let socket = bound.try_clone().map_err(|error| error.to_string())?;
                let (stop, stopped) = keepwarm_net::stop_listening();
                let context = Arc::clone(&context);
                remote.spawn(move || keepwarm_net::serve(socket, context, stopped));
                stops.push(stop);
            }
        }
        Ok(Serving { sockets, edge, listen: listen.clone(), stops })
    }

    /// What another process needs to listen in place of this one: each `bind`, whether the service manager keeps its sockets, and these.
    pub(super) fn offers(&self) -> impl Iterator<Item = (String, bool, &[Bound])> {
        self.serving.iter().map(|(bind, serving)| {
            let sockets = &serving.sockets;
            (bind.to_string(), sockets.owner == Owner::ServiceManager, sockets.bounds.as_slice())
        })
    }

    /// The `bind`s that are served.
    pub(super) fn binds(&self) -> BTreeSet<String> {
        self.serving.keys().map(Bind::to_string).collect()
    }

    /// Ends all listening: of those that another process has taken at once, since it accepts what comes; of others as [`end`](Self::end) does.
    pub(super) fn hand_over(&mut self, taken: &BTreeSet<String>) {
        for (bind, serving) in std::mem::take(&mut self.serving) {
            match taken.contains(&bind.to_string()) {
                true => serving.stops.iter().for_each(StopListening::hand_over),
                false => serving.end(&bind),
            }
        }
    }

    /// Ends all listening because this process does not come to serve: what it inherited is not touched.
    pub(super) fn abandon(&mut self) {
        let inherited =
            |(bind, serving): (&Bind, &Serving)| serving.sockets.inherited.then(|| bind.to_string());
        self.hand_over(&self.serving.iter().filter_map(inherited).collect());
    }

    /// The names of sockets in the file system that end with this process.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let own = self.serving.iter().filter(|(_, serving)| serving.sockets.owner == Owner::Keepwarm);
        own.filter_map(|(bind, _)| match bind {
            Bind::Unix(path) => Some(path.clone()),
            _ => None,
        })
        .collect()
    }

    /// Ends all listening; connections that were made are still accepted first.
    pub(super) fn end(&mut self) {
        for (bind, serving) in std::mem::take(&mut self.serving) {
            serving.end(&bind);
        }
    }

    /// What is listened on, as a person writes it.
    pub(super) fn addresses(&self) -> Vec<String> {
        let shown = |(bind, serving): (&Bind, &Serving)| match bind {
            Bind::Unix(path) => vec![format!("unix:{}", path.display())],
            _ => serving
                .sockets
                .bounds
                .iter()
                .filter_map(|bound| Some(format!("http://{}", bound.address?)))
                .collect(),
        };
        self.serving.iter().flat_map(shown).collect()
    }
}

impl Serving {
    fn end(&self, bind: &Bind) {
        if self.sockets.owner == Owner::ServiceManager {
            // It keeps the socket open, for the next start to accept what comes meanwhile.
            return self.stops.iter().for_each(StopListening::hand_over);
        }
        if let Bind::Unix(path) = bind {
            // First the name, so that nobody new finds the socket.
            let _ = std::fs::remove_file(path);
        }
        self.sockets.bounds.iter().for_each(Bound::refuse_new);
        self.stops.iter().for_each(StopListening::accept_rest);
    }
}

/// A host name can have several addresses; each is listened on.
fn open(bind: &Bind) -> io::Result<Vec<Bound>> {
    match bind {
        Bind::Tcp(address) => Ok(vec![keepwarm_net::bind(BindTo::Tcp(*address))?]),
        Bind::Unix(path) => Ok(vec![keepwarm_net::bind(BindTo::Unix(path))?]),
        Bind::Host { host, port } => {
            let addresses: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs()?.collect();
            addresses.iter().map(|address| keepwarm_net::bind(BindTo::Tcp(*address))).collect()
        }
    }
}

fn explain(bind: &Bind, listen: &Listen, error: &io::Error) -> String {
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
    format!("cannot listen on {bind} (listen.{}): {what}", listen.name)
}
