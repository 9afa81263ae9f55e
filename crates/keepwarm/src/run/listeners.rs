//! The listening sockets of the process, by address: kept over reloads, so that no connection is lost by one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use keepwarm_config::{Bind, Config, ForwardProxy, Upstream, door_url};
use keepwarm_egress::{CallTelemetry, DnsResolver, Resolver};
use keepwarm_net::{ListeningSocket, Remote, Scheme};
use keepwarm_serve::{ConnectionLimits, ListenerContext, ListenerTls, OpenConnections, StopListening};

use super::connection_limit;
use super::inherited::{InheritedSockets, SocketOwner};
use super::listener_handler::{ListenerHandler, ListenerSettings, ListenerTarget, ProxySettings};
use super::plan::{ListenPlan, PlannedListener};
use super::sockets::{ADMIN, OpenedSockets, OwnSockets, SocketCopies, Sockets};
use crate::acme::ChallengeResponder;
use crate::admin::Admin;
use crate::assemble::{self, DoorVariables, RouteTargets};
use crate::tls::{ListenersTls, PreparedTls};
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
    serving: BTreeMap<Bind, ActiveListener>,
    /// Doors that the configuration does not have any more, and the first generation of workers that does not know of them.
    leaving: BTreeMap<Bind, (ActiveListener, u64)>,
    pub(super) tls: ListenersTls,
    /// Sockets that were bound before this process began.
    inherited: InheritedSockets,
    /// Where is listened, for forward proxies that are not to call that.
    own: Arc<ArcSwap<Vec<SocketAddr>>>,
    /// Looks names up for forward proxies, once there is one.
    resolver: Option<Resolver>,
}

/// One address that is served.
struct ActiveListener {
    sockets: Sockets,
    handler: ListenerHandler,
    settings: ListenerSettings,
    stops: Vec<StopListening>,
}

impl Listeners {
    pub(super) fn new(
        remotes: &[Remote],
        connections: usize,
        inherited: InheritedSockets,
        tls: ListenersTls,
    ) -> Self {
        Self {
            remotes: remotes.to_vec(),
            open: Arc::new(OpenConnections::new(connections)),
            draining: Arc::default(),
            doors_open: Arc::new(OpenConnections::new(connections)),
            doors_draining: Arc::default(),
            serving: BTreeMap::new(),
            leaving: BTreeMap::new(),
            tls,
            inherited,
            own: Arc::default(),
            resolver: None,
        }
    }

    /// Binds what the configuration has and this does not, unless it was inherited.
    pub(super) fn open(&mut self, config: &Config, admin: Option<&Admin>) -> Result<OpenedSockets, String> {
        let mut opened = OpenedSockets::default();
        let mut seen: BTreeMap<&Bind, String> = BTreeMap::new();
        let mut own = own(&self.serving, config);
        self.leaving.values().for_each(|(door, _)| own.add(&door.sockets, &door.settings.name, false));
        own.used.extend(admin.into_iter().flat_map(Admin::used));
        for (bind, section) in binds(config) {
            // The checker has refused all others.
            if let Some(other) = seen.insert(bind, section.clone()) {
                return Err(format!(
                    "{other} and {section} both listen on {bind}: a free port can be requested only once per address"
                ));
            }
            if !self.serving.contains_key(bind) && !self.leaving.contains_key(bind) {
                opened.open(bind, &section, &mut self.inherited, &mut own)?;
            }
        }
        self.inherited.drop_rest();
        Ok(opened)
    }

    /// The same for `[admin]`; to be called before [`open`](Self::open), which closes unused sockets.
    pub(super) fn open_admin(
        &mut self,
        config: &Config,
        admin: Option<&Admin>,
    ) -> Result<OpenedSockets, String> {
        let mut opened = OpenedSockets::default();
        let binds = config.admin.iter().flat_map(|admin| &admin.bind);
        let mut own = admin.map(|admin| admin.own(config.admin.as_ref())).unwrap_or_default();
        let names = self.serving.values().map(|serving| (&serving.sockets, &serving.settings.name));
        names.for_each(|(sockets, name)| own.add(sockets, name, true));
        for bind in binds.filter(|bind| !admin.is_some_and(|admin| admin.serves(bind))) {
            opened.open(bind, ADMIN, &mut self.inherited, &mut own)?;
        }
        Ok(opened)
    }

    /// Makes all that is served as the configuration says, before anything is changed.
    ///
    /// # Errors
    /// In words: a log cannot be opened, or the system refuses a descriptor.
    pub(super) fn plan(
        &mut self,
        config: &Config,
        opened: OpenedSockets,
        targets: RouteTargets<'_>,
        tls: PreparedTls,
    ) -> Result<ListenPlan, String> {
        let mut plan = ListenPlan::new(opened, tls);
        for listen in &config.listeners {
            for bind in &listen.bind {
                let site = assemble::site(config, listen, targets)?;
                let wanted = match &listen.forward_proxy {
                    None => ListenerTarget::Site(site),
                    Some(proxy) => {
                        let telemetry = CallTelemetry {
                            log: assemble::proxy_call_log(listen)?,
                            tracer: targets.tracing.map(|tracing| Arc::clone(&tracing.tracer)),
                        };
                        ListenerTarget::Proxy(
                            site,
                            self.proxy_settings(config, proxy, targets.upstreams, telemetry),
                        )
                    }
                };
                self.plan_address(&mut plan, bind, wanted, ListenerSettings::of_listener(listen, config))?;
            }
        }
        for (bind, door, settings) in doors(config, targets.upstreams) {
            self.plan_address(&mut plan, bind, door, settings)?;
        }
        Ok(plan)
    }

    fn plan_address(
        &self,
        plan: &mut ListenPlan,
        bind: &Bind,
        wanted: ListenerTarget,
        settings: ListenerSettings,
    ) -> Result<(), String> {
        let sockets = match self.at(bind) {
            // The listener there keeps running.
            Some(kept) if kept.settings == settings => None,
            Some(kept) => Some(&kept.sockets),
            None => plan.opened.get(bind),
        };
        let copies = sockets.map(|sockets| SocketCopies::of(sockets, &self.remotes)).transpose();
        let copies =
            copies.map_err(|error| format!("cannot listen on {bind} ({}): {error}", settings.name))?;
        plan.addresses.insert(bind.clone(), PlannedListener { wanted, settings, copies });
        Ok(())
    }

    /// Serves what was planned: kept addresses with their new routes, new ones, and no others.
    /// Workers of generations before this one may still need a door that is gone: it stays until [`Self::end_left`].
    pub(super) fn apply(&mut self, config: &Config, mut plan: ListenPlan, generation: u64) {
        let connections = connection_limit::derive(config);
        connection_limit::warn_of_lowered(config, connections);
        self.open.set_limit(connections);
        self.doors_open.set_limit(connections);
        self.tls.apply(std::mem::take(&mut plan.tls));
        for (bind, planned) in std::mem::take(&mut plan.addresses) {
            self.serve(bind, planned, &mut plan.opened);
        }
        let wanted: HashSet<&Bind> = binds(config).map(|(bind, _)| bind).collect();
        let doors =
            self.serving.extract_if(.., |bind, serving| serving.settings.is_door && !wanted.contains(bind));
        self.leaving.extend(doors.map(|(bind, door)| (bind, (door, generation))));
        self.end_where(|bind, _| !wanted.contains(bind));
        self.note_own();
    }

    /// Whether a door stays only for workers that are about to go.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The generations before this one are over: no worker needs the doors that were gone by then.
    pub(super) fn end_left(&mut self, generation: u64) {
        let gone = self.leaving.extract_if(.., |_, (_, first)| *first <= generation);
        let gone = gone.map(|(bind, (door, _))| (bind, door)).collect();
        self.end_all(gone);
        self.note_own();
    }

    /// The listener at an address now.
    fn at(&self, bind: &Bind) -> Option<&ActiveListener> {
        self.serving.get(bind).or_else(|| self.leaving.get(bind).map(|(door, _)| door))
    }

    fn all(&self) -> impl Iterator<Item = (&Bind, &ActiveListener)> {
        self.serving.iter().chain(self.leaving.iter().map(|(bind, (door, _))| (bind, door)))
    }

    /// Ends what listens there, unless its sockets have been taken over by others.
    fn end_where(&mut self, which: impl Fn(&Bind, &ActiveListener) -> bool) {
        let gone = self.serving.extract_if(.., |bind, serving| which(bind, serving)).collect();
        self.end_all(gone);
    }

    fn end_all(&self, gone: Vec<(Bind, ActiveListener)>) {
        let left = self.all().flat_map(|(_, serving)| &serving.sockets.bounds);
        let kept: Vec<SocketAddr> = left.filter_map(|bound| bound.address).collect();
        gone.iter().for_each(|(bind, serving)| serving.end(bind, &kept));
    }

    fn proxy_settings(
        &mut self,
        config: &Config,
        proxy: &ForwardProxy,
        upstreams: &Upstreams,
        telemetry: CallTelemetry,
    ) -> ProxySettings {
        let resolver = self.resolver.get_or_insert_with(|| {
            let (resolver, driver) = Resolver::new(DnsResolver::new(&[]));
            tokio::spawn(driver.run());
            resolver
        });
        ProxySettings {
            resolver: resolver.clone(),
            rules: assemble::proxy_rules(proxy, Arc::clone(&self.own)),
            upstreams: assemble::by_authority(config, upstreams),
            telemetry,
        }
    }

    /// Keeps forward proxies from calling our own listeners.
    fn note_own(&self) {
        let bounds = self.all().flat_map(|(_, serving)| &serving.sockets.bounds);
        self.own.store(Arc::new(bounds.filter_map(|bound| bound.address).collect()));
    }

    /// Serves doors that are not served yet: workers that start may call them.
    pub(super) fn serve_new_doors(&mut self, plan: &mut ListenPlan) {
        let is_new =
            |bind: &Bind, planned: &mut PlannedListener| planned.settings.is_door && self.at(bind).is_none();
        let new: Vec<(Bind, PlannedListener)> = plan.addresses.extract_if(.., is_new).collect();
        for (bind, planned) in new {
            self.serve(bind, planned, &mut plan.opened);
        }
        self.note_own();
    }

    /// Ends what was begun for a configuration that was not applied; `config` stays active.
    pub(super) fn end_new_doors(&mut self, config: &Config) {
        let wanted: HashSet<&Bind> = binds(config).map(|(bind, _)| bind).collect();
        self.end_where(|bind, _| !wanted.contains(bind));
        self.note_own();
    }

    fn serve(&mut self, bind: Bind, planned: PlannedListener, opened: &mut OpenedSockets) {
        let PlannedListener { wanted, settings, copies } = planned;
        let kept = self.serving.remove(&bind).or_else(|| self.leaving.remove(&bind).map(|(door, _)| door));
        let handler = match &kept {
            Some(kept) => kept.handler.replaced(wanted, &settings),
            None => ListenerHandler::of(wanted, &settings),
        };
        let serving = match (kept, copies) {
            (Some(kept), None) => ActiveListener { handler, settings, ..kept },
            // New connections get the new terms; the socket stays.
            (Some(kept), Some(copies)) => {
                let stops = self.start(copies, &handler, &settings);
                kept.stops.iter().for_each(StopListening::hand_over);
                ActiveListener { sockets: kept.sockets, handler, settings, stops }
            }
            (None, Some(copies)) => {
                let Some(sockets) = opened.take(&bind) else { return };
                ActiveListener { sockets, stops: self.start(copies, &handler, &settings), handler, settings }
            }
            // It was not opened.
            (None, None) => return,
        };
        self.serving.insert(bind, serving);
    }

    fn start(
        &self,
        copies: SocketCopies,
        handler: &ListenerHandler,
        settings: &ListenerSettings,
    ) -> Vec<StopListening> {
        let (draining, open) = match settings.is_door {
            true => (&self.doors_draining, &self.doors_open),
            false => (&self.draining, &self.open),
        };
        let handler = match settings.answers_challenges {
            true => Arc::new(ChallengeResponder::new(&self.tls.authority.challenges, handler.handler())),
            false => handler.handler(),
        };
        copies.serve(&Arc::new(ListenerContext {
            #[cfg(not(feature = "fault-injection"))]
            handler,
            #[cfg(feature = "fault-injection")]
            handler: Arc::new(crate::faults::FaultyHandler(handler)),
            limits: ConnectionLimits {
                http2: settings.http2,
                ..assemble::connection_limits(&settings.limits)
            },
            proxy_protocol: assemble::proxy_protocol(&settings.proxy_protocol),
            draining: Arc::clone(draining),
            open: Arc::clone(open),
            meter: keepwarm_telemetry::meters::listener(&settings.name),
            tls: settings.tls.and_then(|handshake_timeout| {
                Some(ListenerTls { tls: self.tls.of(&settings.name)?, handshake_timeout })
            }),
        }))
    }

    /// The sockets that another process needs to listen in place of this one: each `bind`, whether the service manager keeps its sockets, and these.
    pub(super) fn offers(&self) -> impl Iterator<Item = (String, bool, &[ListeningSocket])> {
        self.serving.iter().map(|(bind, serving)| {
            let sockets = &serving.sockets;
            (bind.to_string(), sockets.owner == SocketOwner::ServiceManager, sockets.bounds.as_slice())
        })
    }

    /// The `bind`s that are served.
    pub(super) fn binds(&self) -> BTreeSet<String> {
        self.serving.keys().map(Bind::to_string).collect()
    }

    /// Ends all listening for clients: of those that another process has taken at once, since it accepts what comes; of others as [`end`](Self::end) does.
    /// Doors that it has not taken stay: the workers of this process may need them to their end.
    pub(super) fn hand_over(&mut self, taken: &BTreeSet<String>) {
        let taken = |bind: &Bind| taken.contains(&bind.to_string());
        for (_, serving) in self.serving.extract_if(.., |bind, _| taken(bind)) {
            serving.stops.iter().for_each(StopListening::hand_over);
        }
        self.end();
    }

    /// Stops listening because this process will not serve: inherited sockets are not touched.
    pub(super) fn abandon(&mut self) {
        let inherited =
            |(bind, serving): (&Bind, &ActiveListener)| serving.sockets.inherited.then(|| bind.to_string());
        self.hand_over(&self.serving.iter().filter_map(inherited).collect());
        self.end_doors();
    }

    /// The names of sockets in the file system that end with this process.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let own = self.all().filter(|(_, serving)| serving.sockets.owner == SocketOwner::Keepwarm);
        own.filter_map(|(bind, _)| match bind {
            Bind::Unix(path) => Some(path.clone()),
            _ => None,
        })
        .collect()
    }

    /// Ends all listening for clients; connections that were made are still accepted first. Doors go on: what workers have still to do may need them.
    pub(super) fn end(&mut self) {
        self.end_where(|_, serving| !serving.settings.is_door);
    }

    /// Ends the doors as well.
    pub(super) fn end_doors(&mut self) {
        let mut gone: Vec<(Bind, ActiveListener)> = std::mem::take(&mut self.serving).into_iter().collect();
        gone.extend(std::mem::take(&mut self.leaving).into_iter().map(|(bind, (door, _))| (bind, door)));
        self.end_all(gone);
    }

    /// The addresses for clients, as text.
    pub(super) fn addresses(&self) -> Vec<String> {
        let listeners = self.serving.iter().filter(|(_, serving)| !serving.settings.is_door);
        listeners.flat_map(|(bind, serving)| serving.shown(bind)).collect()
    }

    /// The listeners of the configuration, with the addresses they have.
    pub(super) fn by_name(&self, config: &Config) -> Vec<(String, Vec<String>)> {
        config.listeners.iter().map(|listen| (listen.name.clone(), self.shown(&listen.bind))).collect()
    }

    /// The upstreams that have doors, with the addresses of these.
    pub(super) fn doors(&self, config: &Config) -> Vec<(String, Vec<String>)> {
        let doors = config.upstreams.iter().filter(|upstream| !upstream.bind.is_empty());
        doors.map(|upstream| (upstream.name.clone(), self.shown(&upstream.bind))).collect()
    }

    /// The variables for workers about doors; some of these are open already and not yet served.
    pub(super) fn door_variables(&self, config: &Config, opened: &OpenedSockets) -> DoorVariables {
        let url = |upstream: &Upstream| {
            let bind = upstream.bind.first()?;
            let sockets = self.at(bind).map(|serving| &serving.sockets).or(opened.get(bind))?;
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
        serving.flat_map(|(bind, serving)| serving.shown(bind)).collect()
    }
}

/// Where is listened, and which of that the configuration does not have any more.
fn own<'s>(serving: &'s BTreeMap<Bind, ActiveListener>, config: &Config) -> OwnSockets<'s> {
    let wanted: HashSet<&Bind> = binds(config).map(|(bind, _)| bind).collect();
    let mut own = OwnSockets::default();
    for (bind, serving) in serving {
        own.add(&serving.sockets, &serving.settings.name, wanted.contains(bind));
    }
    own
}

/// Every address to listen on, and for which section.
fn binds(config: &Config) -> impl Iterator<Item = (&Bind, String)> {
    let listeners = config.listeners.iter().map(|listen| (&listen.bind, format!("listen.{}", listen.name)));
    let doors =
        config.upstreams.iter().map(|upstream| (&upstream.bind, format!("upstream.{}", upstream.name)));
    listeners.chain(doors).flat_map(|(binds, section)| binds.iter().map(move |bind| (bind, section.clone())))
}

/// The Unix sockets that the configuration has, those of doors and of `[admin]` too.
pub(super) fn socket_files(config: &Config) -> impl Iterator<Item = &Path> {
    let admin = config.admin.iter().flat_map(|admin| &admin.bind);
    binds(config).map(|(bind, _)| bind).chain(admin).filter_map(|bind| match bind {
        Bind::Unix(path) => Some(path.as_path()),
        _ => None,
    })
}

/// The doors of the configuration.
fn doors<'c>(
    config: &'c Config,
    upstreams: &'c Upstreams,
) -> impl Iterator<Item = (&'c Bind, ListenerTarget, ListenerSettings)> {
    config.upstreams.iter().flat_map(move |upstream| {
        let called = upstreams.get(&upstream.name);
        called.into_iter().flat_map(move |called| {
            upstream.bind.iter().map(move |bind| {
                let settings = ListenerSettings::of_door(upstream, bind, &config.server.limits);
                (bind, ListenerTarget::Door(Arc::clone(called)), settings)
            })
        })
    })
}

impl ActiveListener {
    fn shown(&self, bind: &Bind) -> Vec<String> {
        self.sockets.shown(bind, if self.settings.tls.is_some() { Scheme::Https } else { Scheme::Http })
    }

    fn end(&self, bind: &Bind, kept: &[SocketAddr]) {
        self.sockets.end(bind, &self.stops, kept);
    }
}
