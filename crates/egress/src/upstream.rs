//! An upstream: its connections, its endpoints and what is known of them, shared by all threads and outliving reloads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use keepwarm_net::{Calls, ClientTls, Endpoint};
use keepwarm_policy::breaker::Outcome;
use keepwarm_policy::{BreakerState, Hedge, HedgeSettings, RetryBudget};
use keepwarm_telemetry::upstreams;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::active::ActiveCalls;
use crate::breaker::UpstreamBreaker;
use crate::drain::Drained;
use crate::ejection::Ejections;
use crate::endpoints::lock;
use crate::gate::Gate;
use crate::stats::UpstreamStats;
use crate::{
    CallLog, DiscoveredEndpoint, DiscoveryStatus, EndpointSet, RateLimiter, Source, UpstreamSettings,
};

/// A service that is called.
#[derive(Debug)]
pub struct Upstream {
    /// Its name in the configuration.
    name: Arc<str>,
    settings: ArcSwap<UpstreamSettings>,
    calls: Arc<Calls>,
    endpoints: ArcSwap<EndpointSet>,
    drained: Drained,
    gate: Gate,
    breaker: UpstreamBreaker,
    budget: Mutex<RetryBudget>,
    ejections: Ejections,
    hedge: Mutex<Option<Hedge>>,
    discovery: Arc<DiscoveryStatus>,
    /// `true`: there are endpoints. Watchers are notified of each change of endpoints, settings and certificates.
    published: watch::Sender<bool>,
    tls: ArcSwapOption<ClientTls>,
    limiter: ArcSwapOption<RateLimiter>,
    stats: UpstreamStats,
    active: ActiveCalls,
}

impl Upstream {
    /// One without endpoints: discovery publishes them ([`Self::publish`]).
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, settings: UpstreamSettings) -> Arc<Self> {
        let name: Arc<str> = name.into();
        let meters = Arc::clone(&name);
        let meter =
            move |endpoint: &Endpoint| &upstreams::endpoint(&meters, &endpoint.to_string()).connections;
        let calls = Calls::metered(settings.pool, settings.protocol, Arc::new(meter));
        let gate = Gate::new(settings.limits, Arc::clone(calls.queue()));
        Arc::new(Self {
            calls,
            endpoints: ArcSwap::default(),
            drained: Drained::default(),
            gate,
            breaker: UpstreamBreaker::new(Arc::clone(&name), settings.breaker),
            name,
            budget: Mutex::new(RetryBudget::new(settings.retry_budget)),
            ejections: Ejections::new(settings.outlier),
            hedge: Mutex::new(settings.hedge.map(Hedge::new)),
            settings: ArcSwap::from_pointee(settings),
            discovery: Arc::default(),
            published: watch::Sender::new(false),
            tls: ArcSwapOption::empty(),
            limiter: ArcSwapOption::empty(),
            stats: UpstreamStats::default(),
            active: ActiveCalls::default(),
        })
    }

    /// Calls it in another way from now on; connections and what is known of endpoints stay. Its protocol cannot change.
    pub fn set_settings(&self, settings: UpstreamSettings) {
        self.calls.set_settings(settings.pool);
        self.gate.set_limits(settings.limits);
        self.breaker.set_settings(settings.breaker);
        lock(&self.budget).set_settings(settings.retry_budget);
        self.ejections.set_settings(settings.outlier);
        set_hedge(&mut lock(&self.hedge), settings.hedge);
        let drained = self.drained.lock();
        let endpoints = self.endpoints.load();
        let ejection = settings.outlier.map_or(Duration::ZERO, |outlier| outlier.longest());
        let ejected_until = Instant::now().into_std() + ejection;
        for entry in &endpoints.endpoints {
            entry.state.set_breaker(settings.breaker);
            entry.state.record().shorten(ejected_until);
        }
        if settings.balance != self.settings.load().balance {
            self.replace_endpoints(endpoints.rebalanced(settings.balance));
        }
        drop(drained);
        self.settings.store(Arc::new(settings));
        endpoints.endpoints.iter().for_each(|entry| self.calls.warm(&entry.endpoint));
        self.published.send_modify(|_| ());
    }

    /// Encrypts new connections with this from now on; what is open stays open.
    pub fn set_tls(&self, tls: Option<Arc<ClientTls>>) {
        self.calls.set_tls(tls.clone());
        self.tls.store(tls);
        self.published.send_modify(|_| ());
    }

    /// Holds calls through its doors to this limit from now on.
    pub fn set_limiter(&self, limiter: Option<Arc<RateLimiter>>) {
        self.limiter.store(limiter);
    }

    /// Records calls there from now on; none are without.
    pub fn set_log(&self, log: Option<CallLog>) {
        self.stats.set_log(log);
    }

    /// Its calls in flight.
    pub(crate) fn active(&self) -> &ActiveCalls {
        &self.active
    }

    pub(crate) fn stats(&self) -> &UpstreamStats {
        &self.stats
    }

    /// What calls through its doors are held to.
    #[must_use]
    pub fn limiter(&self) -> Option<Arc<RateLimiter>> {
        self.limiter.load_full()
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How it is called now.
    #[must_use]
    pub fn settings(&self) -> Arc<UpstreamSettings> {
        self.settings.load_full()
    }

    /// Its connections.
    #[must_use]
    pub fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// Its endpoints now.
    #[must_use]
    pub fn endpoints(&self) -> Arc<EndpointSet> {
        self.endpoints.load_full()
    }

    pub(crate) fn replace_endpoints(&self, endpoints: EndpointSet) {
        self.endpoints.store(Arc::new(endpoints));
    }

    pub(crate) fn drained_names(&self) -> &Drained {
        &self.drained
    }

    /// How looking its names up goes.
    #[must_use]
    pub fn discovery(&self) -> &Arc<DiscoveryStatus> {
        &self.discovery
    }

    /// Calls that are in work, and that wait.
    #[must_use]
    pub fn in_work(&self) -> (usize, usize) {
        self.gate.counts()
    }

    /// What its breaker does with calls; closed without one.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Discovery has found these. Endpoints that stay keep what is known of them; connections to those that are gone end with what they carry.
    pub fn publish(&self, found: &[DiscoveredEndpoint]) {
        let drained = self.drained.lock();
        let before = self.endpoints.load_full();
        let settings = self.settings.load();
        let after = Arc::new(EndpointSet::of(found, &before, settings.balance));
        let (known, found_now) = (before.addresses(), after.addresses());
        let new = || after.endpoints.iter().filter(|entry| !known.contains(&entry.endpoint));
        new().for_each(|entry| entry.state.set_breaker(settings.breaker));
        match drained.is_empty() {
            true => self.endpoints.store(Arc::clone(&after)),
            false => self.apply_drained(&after, &drained),
        }
        drop(drained);
        new().for_each(|entry| self.calls.warm(&entry.endpoint));
        if !found.is_empty() {
            self.published.send_replace(true);
        }
        let gone = before.endpoints.iter().filter(|entry| !found_now.contains(&entry.endpoint));
        gone.for_each(|entry| self.calls.forget(&entry.endpoint));
    }

    /// Publishes what needs no looking up. `true`: that is all there is.
    pub fn publish_literal(&self) -> bool {
        let settings = self.settings.load();
        let found: Vec<DiscoveredEndpoint> = settings.sources.iter().filter_map(Source::found).collect();
        let complete = found.len() == settings.sources.len();
        if complete {
            self.publish(&found);
        }
        complete
    }

    /// Learns of each change: of endpoints, settings, certificates.
    pub(crate) fn news(&self) -> watch::Receiver<bool> {
        self.published.subscribe()
    }

    /// What new connections are encrypted with.
    pub(crate) fn tls(&self) -> Option<Arc<ClientTls>> {
        self.tls.load_full()
    }

    /// Waits until endpoints were found, for the first time; at most so long, and not when looking them up has failed.
    pub(crate) async fn wait_for_endpoints(&self, most: Duration) {
        let mut published = self.published.subscribe();
        let looked_up = async {
            tokio::select! {
                biased;
                _ = published.wait_for(|published| *published) => {}
                () = self.discovery.failed() => self.discovery.look_again(),
            }
        };
        let _ = tokio::time::timeout(most, looked_up).await;
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What lets calls through, or has them wait.
    pub(crate) fn entrance(&self) -> &UpstreamBreaker {
        &self.breaker
    }

    /// A call with the endpoint at `index` has ended so.
    pub(crate) fn note_outcome(&self, endpoints: &EndpointSet, index: usize, outcome: Outcome, now: Instant) {
        self.ejections.note(&self.name, endpoints, index, outcome, now);
    }

    /// Asks for second attempts; `None`: they are off.
    pub(crate) fn hedge<T>(&self, ask: impl FnOnce(&mut Hedge) -> T) -> Option<T> {
        lock(&self.hedge).as_mut().map(ask)
    }

    pub(crate) fn budget(&self) -> std::sync::MutexGuard<'_, RetryBudget> {
        lock(&self.budget)
    }
}

fn set_hedge(slot: &mut Option<Hedge>, settings: Option<HedgeSettings>) {
    match (slot.as_mut(), settings) {
        (Some(hedge), Some(settings)) => hedge.set_settings(settings),
        (None, Some(settings)) => *slot = Some(Hedge::new(settings)),
        (_, None) => *slot = None,
    }
}
