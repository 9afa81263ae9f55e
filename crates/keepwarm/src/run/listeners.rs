//! The listening sockets of the process, by address: kept over reloads, so that no connection is lost by one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use keepwarm_config::{Bind, Config, Listen};
use keepwarm_edge::Edge;
use keepwarm_net::{Bound, ListenerContext, OpenConnections, Remote, StopListening};
use keepwarm_workers::dispatch::Links;

use super::inherited::{Inherited, Owner};
use super::sockets::{Opened, Sockets};
use crate::admin::Admin;
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
        let mut opened = Opened::default();
        for listen in &config.listens {
            for bind in listen.bind.iter().filter(|bind| !self.serving.contains_key(bind)) {
                opened.open(bind, &format!("listen.{}", listen.name), &mut self.inherited)?;
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
    pub(super) fn apply(&mut self, config: &Config, mut opened: Opened, links: &Links) -> Result<(), String> {
        let wanted: HashSet<&Bind> = config.listens.iter().flat_map(|listen| &listen.bind).collect();
        let gone: Vec<Bind> = self.serving.keys().filter(|bind| !wanted.contains(bind)).cloned().collect();
        for listen in &config.listens {
            for bind in &listen.bind {
                let site = assemble::site(config, listen, links)?;
                match (self.serving.remove(bind), opened.take(bind)) {
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
            meter: keepwarm_telemetry::meters::listener(&listen.name),
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
        self.serving.iter().flat_map(|(bind, serving)| serving.sockets.shown(bind)).collect()
    }

    /// The listeners of the configuration, with the addresses they have.
    pub(super) fn by_name(&self, config: &Config) -> Vec<(String, Vec<String>)> {
        let of = |listen: &Listen| {
            let serving = listen.bind.iter().filter_map(|bind| Some((bind, self.serving.get(bind)?)));
            serving.flat_map(|(bind, serving)| serving.sockets.shown(bind)).collect()
        };
        config.listens.iter().map(|listen| (listen.name.clone(), of(listen))).collect()
    }
}

impl Serving {
    fn end(&self, bind: &Bind) {
        self.sockets.end(bind, &self.stops);
    }
}
