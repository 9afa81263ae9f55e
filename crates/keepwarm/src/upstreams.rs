//! The upstreams of the process: kept over reloads, with their connections and all that is known of their endpoints; and the rate limits of upstreams and
//! routes. Names are looked up and files watched on the control thread; health checks and stores of rate limits have a thread of their own.

pub(crate) mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use keepwarm_config::{self as config, Config};
use keepwarm_egress::{CallLog, Discovery, DnsResolver, RateLimiter, Upstream};
use keepwarm_net::{ClientTls, DataPlane, Protocol, Remote, Scheme, restarted};
use keepwarm_telemetry::spans::Tracer;
use tokio::task::JoinHandle;

use crate::assemble;
use crate::otlp::Tracing;
use crate::rate_limits::{NewStores, RateLimits};

/// The upstreams, by name.
#[derive(Debug)]
pub(crate) struct Upstreams {
    /// The threads that call them.
    threads: Vec<Remote>,
    entries: BTreeMap<String, UpstreamEntry>,
    /// Those that a configuration which is about to serve has in their place or beside them.
    next: BTreeMap<String, UpstreamEntry>,
    /// Resolvers, by the servers they query.
    names: BTreeMap<Vec<SocketAddr>, Arc<DnsResolver>>,
    limits: RateLimits,
    /// Who traces their calls.
    tracing: Option<Tracing>,
    /// Where checks are made and stores are asked; started with the first upstream or store.
    background: Option<DataPlane>,
}

/// An upstream with its configuration and its tasks.
#[derive(Debug)]
struct UpstreamEntry {
    upstream: Arc<Upstream>,
    config: config::Upstream,
    tls: Option<Arc<ClientTls>>,
    discovery: Option<Task>,
    watch: Option<Task>,
}

/// The parts of a new configuration that can fail, prepared before it applies.
#[derive(Default)]
pub(crate) struct PreparedUpstreams {
    /// The TLS settings of its upstreams, by name.
    tls: BTreeMap<String, Option<Arc<ClientTls>>>,
    /// Where their calls are recorded, by name.
    logs: BTreeMap<String, Option<CallLog>>,
    stores: NewStores,
}

/// The settings that cannot change while connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConnectionKind(Scheme, Protocol);

/// A task that ends with its handle.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether the files that the configuration names for TLS can be used; for commands that start nothing.
///
/// # Errors
/// Which file cannot, and why.
pub(crate) fn check(config: &Config) -> Result<(), String> {
    config.upstreams.iter().try_for_each(|upstream| tls::prepare(upstream, None).map(drop))
}

impl Upstreams {
    /// None yet; these threads will call them.
    pub(crate) fn new(threads: &[Remote]) -> Self {
        Self {
            threads: threads.to_vec(),
            entries: BTreeMap::new(),
            next: BTreeMap::new(),
            names: BTreeMap::new(),
            limits: RateLimits::default(),
            tracing: None,
            background: None,
        }
    }

    /// Makes what may fail, before anything is changed.
    ///
    /// # Errors
    /// Which file or store cannot be used, and why.
    pub(crate) fn prepare(&mut self, config: &Config) -> Result<PreparedUpstreams, String> {
        let stores = self.limits.prepare(config)?;
        if self.background.is_none() && (!config.upstreams.is_empty() || !stores.is_empty()) {
            let background = DataPlane::start_named("keepwarm-egress", 1);
            self.background =
                Some(background.map_err(|error| format!("cannot start the thread for upstreams: {error}"))?);
        }
        let prepare = |upstream: &config::Upstream| {
            let before = self.entries.get(&upstream.name).and_then(|entry| entry.tls.as_ref());
            let tls = tls::prepare(upstream, before)?;
            Ok((upstream.name.clone(), tls))
        };
        let tls = config.upstreams.iter().map(prepare).collect::<Result<_, String>>()?;
        let log = |upstream: &config::Upstream| Ok((upstream.name.clone(), assemble::call_log(upstream)?));
        let logs = config.upstreams.iter().map(log).collect::<Result<_, String>>()?;
        Ok(PreparedUpstreams { tls, logs, stores })
    }

    /// Traces calls so, as soon as a configuration is applied or added.
    pub(crate) fn set_tracing(&mut self, tracing: Option<Tracing>) {
        self.tracing = tracing;
    }

    /// Runs a task on the thread for what waits for upstreams; there is one as soon as there are upstreams.
    pub(crate) fn run_in_background<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        if let Some(remote) = self.remote() {
            remote.spawn(make);
        }
    }

    /// Calls them as the configuration says: those that stay keep their connections, others come and go.
    pub(crate) fn apply(&mut self, config: &Config, prepared: &mut PreparedUpstreams) {
        self.connect(&mut prepared.stores);
        self.limits.apply(config);
        let mut before = std::mem::take(&mut self.entries);
        for upstream in &config.upstreams {
            let tls = prepared.tls.get(&upstream.name).cloned().flatten();
            let same =
                |entry: &UpstreamEntry| ConnectionKind::of(&entry.config) == ConnectionKind::of(upstream);
            let old = before.remove(&upstream.name);
            let drained = old.as_ref().map(|entry| entry.upstream.drained()).unwrap_or_default();
            let entry = match (old.filter(same), self.next.remove(&upstream.name)) {
                (Some(entry), _) => self.changed(entry, upstream, tls),
                (None, Some(made)) => made,
                (None, None) => self.made(upstream, tls),
            };
            entry.upstream.inherit_drained(drained);
            entry.upstream.set_log(prepared.logs.get(&upstream.name).cloned().flatten());
            self.entries.insert(upstream.name.clone(), entry);
        }
        let wanted =
            |servers: &Vec<SocketAddr>| config.upstreams.iter().any(|it| it.dns.resolver == *servers);
        self.names.retain(|servers, _| wanted(servers));
        self.next.clear();
    }

    /// Those of a configuration that is about to serve, beside those that are there.
    pub(crate) fn add(&mut self, config: &Config, prepared: &mut PreparedUpstreams) {
        self.connect(&mut prepared.stores);
        self.limits.add(config);
        for upstream in &config.upstreams {
            let same =
                |entry: &UpstreamEntry| ConnectionKind::of(&entry.config) == ConnectionKind::of(upstream);
            if !self.entries.get(&upstream.name).is_some_and(same) {
                let made = self.made(upstream, prepared.tls.get(&upstream.name).cloned().flatten());
                made.upstream.set_log(prepared.logs.get(&upstream.name).cloned().flatten());
                self.next.insert(upstream.name.clone(), made);
            }
        }
    }

    /// The configuration was not applied: upstreams that only it has are removed.
    pub(crate) fn keep_only(&mut self, config: &Config) {
        self.next.clear();
        self.limits.keep_only(config);
    }

    /// The upstream of this name, of a configuration that is about to serve if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.next.get(name).or_else(|| self.entries.get(name)).map(|entry| &entry.upstream)
    }

    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        self.entries.values().map(|entry| Arc::clone(&entry.upstream)).collect()
    }

    /// The rate limits.
    pub(crate) fn limits(&self) -> &RateLimits {
        &self.limits
    }

    /// Starts to ask stores that are new.
    fn connect(&mut self, stores: &mut NewStores) {
        if let Some(remote) = self.remote().cloned() {
            self.limits.connect(std::mem::take(stores), &remote);
        }
    }

    fn remote(&self) -> Option<&Remote> {
        self.background.as_ref()?.remotes().first()
    }

    fn made(&mut self, config: &config::Upstream, tls: Option<Arc<ClientTls>>) -> UpstreamEntry {
        let upstream = Upstream::new(config.name.as_str(), assemble::upstream(config, self.tracer(config)));
        upstream.set_tls(tls.clone());
        upstream.calls().warm_on(&self.threads);
        upstream.set_limiter(self.limiter(config));
        let attended = Arc::downgrade(&upstream);
        if let Some(remote) = self.remote() {
            remote.spawn(move || keepwarm_egress::run_health_checks(attended));
        }
        UpstreamEntry {
            discovery: self.discover(&upstream),
            watch: tls::watch(config, &upstream, tls.as_ref()).map(Task),
            upstream,
            config: config.clone(),
            tls,
        }
    }

    fn changed(
        &mut self,
        mut entry: UpstreamEntry,
        config: &config::Upstream,
        tls: Option<Arc<ClientTls>>,
    ) -> UpstreamEntry {
        let moved = entry.config.endpoints != config.endpoints || entry.config.dns != config.dns;
        entry.upstream.set_settings(assemble::upstream(config, self.tracer(config)));
        entry.upstream.set_limiter(self.limiter(config));
        if moved {
            entry.discovery = None;
            entry.discovery = self.discover(&entry.upstream);
        }
        // The watch may have read files again: compare the configuration, replace what is in use.
        entry.upstream.set_tls(tls.clone());
        entry.watch = tls::watch(config, &entry.upstream, tls.as_ref()).map(Task);
        UpstreamEntry { config: config.clone(), tls, ..entry }
    }

    /// Not of what traces are sent to.
    fn tracer(&self, config: &config::Upstream) -> Option<Arc<Tracer>> {
        let tracing = self.tracing.as_ref().filter(|tracing| tracing.collector != config.name);
        tracing.map(|tracing| Arc::clone(&tracing.tracer))
    }

    fn limiter(&self, config: &config::Upstream) -> Option<Arc<RateLimiter>> {
        config.rate_limit.as_ref().and_then(|name| self.limits.get(name)).cloned()
    }

    /// Finds its endpoints from now on. Those that need no lookup are there at once.
    fn discover(&mut self, upstream: &Arc<Upstream>) -> Option<Task> {
        let settings = upstream.settings();
        if upstream.publish_literal() {
            return None;
        }
        let names = self.names.entry(settings.dns.resolver.clone());
        let discovery = Discovery {
            upstream: Arc::clone(upstream.name()),
            sources: settings.sources.clone(),
            dns: settings.dns.clone(),
            names: Arc::clone(names.or_insert_with(|| DnsResolver::new(&settings.dns.resolver))),
            status: Arc::clone(upstream.discovery()),
        };
        let upstream = Arc::clone(upstream);
        Some(Task(tokio::spawn(async move {
            restarted("discovery", || discovery.run(|found| upstream.publish(found))).await;
        })))
    }
}

impl ConnectionKind {
    fn of(upstream: &config::Upstream) -> Self {
        Self(assemble::scheme(upstream), assemble::protocol(upstream))
    }
}
