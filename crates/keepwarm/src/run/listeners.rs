//! The listening sockets of the process, by address: kept over reloads, so that no connection is lost by one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use keepwarm_config::{Bind, Config, ForwardProxy, Upstream, door_url};
use keepwarm_egress::{CallLog, Names, Resolver};
use keepwarm_net::{Bound, ConnectionLimits, ListenerContext, OpenConnections, Remote, StopListening};

use super::inherited::{Inherited, Owner};
use super::sockets::{Opened, Sockets};
use super::way::{Calls, Terms, Wanted, Way};
use crate::admin::Admin;
use crate::assemble::{self, DoorVariables, Parts};
use crate::upstreams::Upstreams;

/// All that listens.
pub(super) struct Listeners {
    remotes: Vec<Remote>,
    pub(super) open: Arc<OpenConnections>,
    pub(super) draining: Arc<AtomicBool>,
    /// The same of doors, which workers need until they have ended.
    pub(super) doors_open: Arc<OpenConnections>,
    pub(super) doors_draining: Arc<AtomicBool>,
    /// By the `bind` of the configuration.
    serving: BTreeMap<Bind, Serving>,
    /// Sockets that were bound before this process began.
    inherited: Inherited,
    /// Where is listened, for forward proxies that are not to call that.
    own: Arc<ArcSwap<Vec<SocketAddr>>>,
    /// Looks names up for forward proxies, once there is one.
    resolver: Option<Resolver>,
}

struct Serving {
    sockets: Sockets,
    way: Way,
    terms: Terms,
    stops: Vec<StopListening>,
}

impl Listeners {
    pub(super) fn new(remotes: &[Remote], connections: usize, inherited: Inherited) -> Self {
        Self {
            remotes: remotes.to_vec(),
            open: Arc::new(OpenConnections::new(connections)),
            draining: Arc::default(),
            doors_open: Arc::new(OpenConnections::new(connections)),
            doors_draining: Arc::default(),
            serving: BTreeMap::new(),
            inherited,
            own: Arc::default(),
            resolver: None,
        }
    }

    /// Binds what the configuration has and this does not, unless it was inherited.
    pub(super) fn open(&mut self, config: &Config) -> Result<Opened, String> {
        let mut opened = Opened::default();
        let mut seen: BTreeMap<&Bind, String> = BTreeMap::new();
        for (bind, section) in binds(config) {
            // The checker has refused all others.
            if let Some(other) = seen.insert(bind, section.clone()) {
                return Err(format!(
                    "{other} and {section} both listen on {bind}: a free port can be asked for once on an address"
                ));
            }
            if !self.serving.contains_key(bind) {
                opened.open(bind, &section, &mut self.inherited)?;
            }
        }
        self.inherited.drop_rest();
        Ok(opened)
    }

    /// The same for `[admin]`; to be called before [`open`](Self::open), which closes what nobody has asked for.
    pub(super) fn open_admin(&mut self, config: &Config, admin: Option<&Admin>) -> Result<Opened, String> {
        let mut opened = Opened::default();
        let binds = config.admin.iter().flat_map(|admin| &admin.bind);
        for bind in binds.filter(|bind| !admin.is_some_and(|admin| admin.serves(bind))) {
            opened.open(bind, "admin", &mut self.inherited)?;
        }
        Ok(opened)
    }

    /// Serves what the configuration says: kept addresses with their new routes, new ones, and no others.
    pub(super) fn apply(
        &mut self,
        config: &Config,
        mut opened: Opened,
        parts: Parts<'_>,
    ) -> Result<(), String> {
        let wanted: HashSet<&Bind> = binds(config).map(|(bind, _)| bind).collect();
        let gone: Vec<Bind> = self.serving.keys().filter(|bind| !wanted.contains(bind)).cloned().collect();
        for listen in &config.listens {
            for bind in &listen.bind {
                let site = assemble::site(config, listen, parts)?;
                let wanted = match &listen.forward_proxy {
                    None => Wanted::Site(site),
                    Some(proxy) => {
                        let log = assemble::proxy_call_log(listen)?;
                        Wanted::Proxy(site, self.calls(config, proxy, parts.upstreams, log))
                    }
                };
                self.serve(bind, &mut opened, wanted, Terms::of_listener(listen))?;
            }
        }
        for (bind, door, terms) in doors(config, parts.upstreams) {
            self.serve(bind, &mut opened, door, terms)?;
        }
        for bind in gone {
            if let Some(serving) = self.serving.remove(&bind) {
                serving.end(&bind);
            }
        }
        self.note_own();
        Ok(())
    }

    fn calls(
        &mut self,
        config: &Config,
        proxy: &ForwardProxy,
        upstreams: &Upstreams,
        log: Option<CallLog>,
    ) -> Calls {
        let resolver = self.resolver.get_or_insert_with(|| {
            let (resolver, driver) = Resolver::new(Names::new(&[]));
            tokio::spawn(driver.run());
            resolver
        });
        Calls {
            resolver: resolver.clone(),
            rules: assemble::proxy_rules(proxy, Arc::clone(&self.own)),
            upstreams: assemble::by_authority(config, upstreams),
            log,
        }
    }

    /// Forward proxies are not to call what is served here.
    fn note_own(&self) {
        let bounds = self.serving.values().flat_map(|serving| &serving.sockets.bounds);
        self.own.store(Arc::new(bounds.filter_map(|bound| bound.address).collect()));
    }

    /// Serves doors that are not served yet: workers that start may call them.
    pub(super) fn serve_new_doors(
        &mut self,
        config: &Config,
        opened: &mut Opened,
        upstreams: &Upstreams,
    ) -> Result<(), String> {
        for (bind, door, terms) in doors(config, upstreams) {
            if !self.serving.contains_key(bind) {
                self.serve(bind, opened, door, terms)?;
            }
        }
        self.note_own();
        Ok(())
    }

    /// Ends what was begun for a configuration that did not come to serve; `config` goes on.
    pub(super) fn end_new_doors(&mut self, config: &Config) {
        let wanted: HashSet<&Bind> = binds(config).map(|(bind, _)| bind).collect();
        let new = self.serving.extract_if(.., |bind, _| !wanted.contains(bind));
        new.for_each(|(bind, serving)| serving.end(&bind));
    }

    fn serve(
        &mut self,
        bind: &Bind,
        opened: &mut Opened,
        wanted: Wanted,
        terms: Terms,
    ) -> Result<(), String> {
        let serving = match (self.serving.remove(bind), opened.take(bind)) {
            (Some(kept), _) => {
                let way = kept.way.replaced(wanted, &terms);
                match kept.terms == terms {
                    true => Serving { way, ..kept },
                    // New connections get the new terms; the socket stays.
                    false => {
                        let serving = self.start(kept.sockets, way, terms)?;
                        kept.stops.iter().for_each(StopListening::hand_over);
                        serving
                    }
                }
            }
            (None, Some(sockets)) => {
                let way = Way::of(wanted, &terms);
                self.start(sockets, way, terms)?
            }
            (None, None) => return Ok(()),
        };
        self.serving.insert(bind.clone(), serving);
        Ok(())
    }

    fn start(&self, sockets: Sockets, way: Way, terms: Terms) -> Result<Serving, String> {
        let (draining, open) = match terms.is_door {
            true => (&self.doors_draining, &self.doors_open),
            false => (&self.draining, &self.open),
        };
        let context = Arc::new(ListenerContext {
            handler: way.handler(),
            // An app beside us may speak it (gRPC does), and need not say so.
            limits: ConnectionLimits { http2: terms.is_door, ..assemble::connection_limits(&terms.limits) },
            draining: Arc::clone(draining),
            open: Arc::clone(open),
            meter: keepwarm_telemetry::meters::listener(&terms.name),
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
        Ok(Serving { sockets, way, terms, stops })
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

    /// Ends all listening for clients; connections that were made are still accepted first. Doors go on: what workers have still to do may need them.
    pub(super) fn end(&mut self) {
        let listeners = self.serving.extract_if(.., |_, serving| !serving.terms.is_door);
        listeners.for_each(|(bind, serving)| serving.end(&bind));
    }

    /// Ends the doors as well.
    pub(super) fn end_doors(&mut self) {
        for (bind, serving) in std::mem::take(&mut self.serving) {
            serving.end(&bind);
        }
    }

    /// What is listened on for clients, as a person writes it.
    pub(super) fn addresses(&self) -> Vec<String> {
        let listeners = self.serving.iter().filter(|(_, serving)| !serving.terms.is_door);
        listeners.flat_map(|(bind, serving)| serving.sockets.shown(bind)).collect()
    }

    /// The listeners of the configuration, with the addresses they have.
    pub(super) fn by_name(&self, config: &Config) -> Vec<(String, Vec<String>)> {
        config.listens.iter().map(|listen| (listen.name.clone(), self.shown(&listen.bind))).collect()
    }

    /// The upstreams that have doors, with the addresses of these.
    pub(super) fn doors(&self, config: &Config) -> Vec<(String, Vec<String>)> {
        let doors = config.upstreams.iter().filter(|upstream| !upstream.bind.is_empty());
        doors.map(|upstream| (upstream.name.clone(), self.shown(&upstream.bind))).collect()
    }

    /// What workers are told about doors; some of these are open already and not yet served.
    pub(super) fn door_variables(&self, config: &Config, opened: &Opened) -> DoorVariables {
        let url = |upstream: &Upstream| {
            let bind = upstream.bind.first()?;
            let sockets = self.serving.get(bind).map(|serving| &serving.sockets).or(opened.get(bind))?;
            // With port 0 the real one is known only now.
            let address = sockets.bounds.first()?.address;
            let url = match (bind, address) {
                (Bind::Tcp(asked), Some(address)) if asked.port() == 0 => door_url(&Bind::Tcp(address)),
                (Bind::Host { host, port: 0 }, Some(address)) => {
                    door_url(&Bind::Host { host: host.clone(), port: address.port() })
                }
                _ => door_url(bind),
            };
            Some((upstream.variable(), url))
        };
        config.upstreams.iter().filter_map(url).collect()
    }

    fn shown(&self, binds: &[Bind]) -> Vec<String> {
        let serving = binds.iter().filter_map(|bind| Some((bind, self.serving.get(bind)?)));
        serving.flat_map(|(bind, serving)| serving.sockets.shown(bind)).collect()
    }
}

/// All that is to be listened on, and for which section.
fn binds(config: &Config) -> impl Iterator<Item = (&Bind, String)> {
    let listens = config.listens.iter().map(|listen| (&listen.bind, format!("listen.{}", listen.name)));
    let doors =
        config.upstreams.iter().map(|upstream| (&upstream.bind, format!("upstream.{}", upstream.name)));
    listens.chain(doors).flat_map(|(binds, section)| binds.iter().map(move |bind| (bind, section.clone())))
}

/// The doors of the configuration.
fn doors<'c>(
    config: &'c Config,
    upstreams: &'c Upstreams,
) -> impl Iterator<Item = (&'c Bind, Wanted, Terms)> {
    config.upstreams.iter().flat_map(move |upstream| {
        let called = upstreams.get(&upstream.name);
        called.into_iter().flat_map(move |called| {
            upstream.bind.iter().map(move |bind| {
                let terms = Terms::of_door(upstream, bind, &config.server.limits);
                (bind, Wanted::Door(Arc::clone(called)), terms)
            })
        })
    })
}

impl Serving {
    fn end(&self, bind: &Bind) {
        self.sockets.end(bind, &self.stops);
    }
}
