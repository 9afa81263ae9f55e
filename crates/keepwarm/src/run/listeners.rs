//! The listening sockets of the process, by address: kept over reloads, so that no connection is lost by one.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use keepwarm_config::{Bind, Config, Listen};
use keepwarm_edge::Edge;
use keepwarm_net::{BindTo, Bound, ListenerContext, OpenConnections, Remote, StopListening};
use keepwarm_workers::dispatch::Links;

use crate::assemble;

/// All that listens.
pub(super) struct Listeners {
    remotes: Vec<Remote>,
    pub(super) open: Arc<OpenConnections>,
    pub(super) draining: Arc<AtomicBool>,
    /// By the `bind` of the configuration.
    serving: BTreeMap<Bind, Serving>,
}

struct Serving {
    bounds: Vec<Bound>,
    edge: Arc<Edge>,
    listen: Listen,
    stops: Vec<StopListening>,
}

/// New sockets, bound and not yet served.
pub(super) struct Opened(BTreeMap<Bind, Vec<Bound>>);

impl Listeners {
    pub(super) fn new(remotes: &[Remote], connections: usize) -> Self {
        Self {
            remotes: remotes.to_vec(),
            open: Arc::new(OpenConnections::new(connections)),
            draining: Arc::default(),
            serving: BTreeMap::new(),
        }
    }

    /// Binds what the configuration has and this does not.
    pub(super) fn open(&self, config: &Config) -> Result<Opened, String> {
        let mut opened = BTreeMap::new();
        for listen in &config.listens {
            for bind in listen.bind.iter().filter(|bind| !self.serving.contains_key(bind)) {
                opened.insert(bind.clone(), open(bind, &format!("listen.{}", listen.name))?);
            }
        }
        Ok(Opened(opened))
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
                        let serving = self.start(kept.bounds, kept.edge, listen)?;
                        kept.stops.iter().for_each(StopListening::hand_over);
                        self.serving.insert(bind.clone(), serving);
                    }
                    (None, Some(bounds)) => {
                        let edge = Arc::new(Edge::new(site));
                        let serving = self.start(bounds, edge, listen)?;
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

    fn start(&self, bounds: Vec<Bound>, edge: Arc<Edge>, listen: &Listen) -> Result<Serving, String> {
        let context = Arc::new(ListenerContext {
            handler: Arc::clone(&edge) as _,
            limits: assemble::connection_limits(&listen.limits),
            draining: Arc::clone(&self.draining),
            open: Arc::clone(&self.open),
            meter: keepwarm_telemetry::meters::listener(&listen.name),
        });
        let mut stops = Vec::new();
        for bound in &bounds {
            for remote in &self.remotes {
                let socket = bound.try_clone().map_err(|error| error.to_string())?;
                let (stop, stopped) = keepwarm_net::stop_listening();
                let context = Arc::clone(&context);
                remote.spawn(move || keepwarm_net::serve(socket, context, stopped));
                stops.push(stop);
            }
        }
        Ok(Serving { bounds, edge, listen: listen.clone(), stops })
    }

    /// Ends all listening; connections that were made are still accepted first.
    pub(super) fn end(&mut self) {
        for (bind, serving) in std::mem::take(&mut self.serving) {
            serving.end(&bind);
        }
    }

    /// What is listened on, as a person writes it.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.serving.iter().flat_map(|(bind, serving)| shown(bind, &serving.bounds)).collect()
    }

    /// The listeners of the configuration, with the addresses they have.
    pub(super) fn by_name(&self, config: &Config) -> Vec<(String, Vec<String>)> {
        let of = |listen: &Listen| {
            let serving = listen.bind.iter().filter_map(|bind| Some((bind, self.serving.get(bind)?)));
            serving.flat_map(|(bind, serving)| shown(bind, &serving.bounds)).collect()
        };
        config.listens.iter().map(|listen| (listen.name.clone(), of(listen))).collect()
    }
}

/// An address as a person writes it: with the port that it has, and each that a name stands for.
pub(crate) fn shown(bind: &Bind, bounds: &[Bound]) -> Vec<String> {
    match bind {
        Bind::Unix(path) => vec![format!("unix:{}", path.display())],
        _ => bounds.iter().filter_map(|bound| Some(format!("http://{}", bound.address?))).collect(),
    }
}

impl Serving {
    fn end(&self, bind: &Bind) {
        if let Bind::Unix(path) = bind {
            // First the name, so that nobody new finds the socket.
            let _ = std::fs::remove_file(path);
        }
        self.bounds.iter().for_each(Bound::refuse_new);
        self.stops.iter().for_each(StopListening::accept_rest);
    }
}

/// Binds, for the `section` of the configuration.
pub(super) fn open(bind: &Bind, section: &str) -> Result<Vec<Bound>, String> {
    bind_all(bind).map_err(|error| explain(bind, section, &error))
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
        io::ErrorKind::AddrInUse => "somebody listens there already; stop it, or choose another address".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "not permitted; ports below 1024 need the right CAP_NET_BIND_SERVICE, a Unix socket a folder that can be written".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    };
    format!("cannot listen on {bind} ({section}): {what}")
}
