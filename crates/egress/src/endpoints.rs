//! The endpoints of an upstream: what discovery finds, and what is known of each.
//!
//! [`EndpointSet`] is a snapshot: never changed, replaced whole. An endpoint that is in the next one as well keeps its [`EndpointState`], and with it all that was
//! learnt of it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepwarm_net::Endpoint;
use keepwarm_policy::balance::{EndpointLoad, FailedMembers, Member, MemberStatus, Pick, PickContext};
use keepwarm_policy::breaker::{Outcome, Permit};
use keepwarm_policy::outlier::EndpointRecord;
use keepwarm_policy::{
    BalanceSettings, Balancer, Breaker, BreakerSettings, BreakerState, ExpectSupport, stable_hash,
};
use tokio::time::Instant;

use crate::stats::EndpointStats;
use crate::{CheckFailure, LastFailure};

/// What an upstream consists of at one time.
#[derive(Debug)]
pub struct EndpointSet {
    /// The endpoints, each once in a priority.
    pub endpoints: Vec<EndpointEntry>,
    balancer: Balancer,
    /// No more than one of them gets calls.
    is_single: bool,
}

/// An endpoint and its share.
#[derive(Debug, Clone)]
pub struct EndpointEntry {
    /// Where.
    pub endpoint: Endpoint,
    /// Its share of the calls among those of its priority.
    pub weight: u32,
    /// The lowest number is used first.
    pub priority: u32,
    /// `host[:port]`, for `Host`.
    pub authority: Arc<str>,
    /// What is known of it.
    pub state: Arc<EndpointState>,
}

/// An endpoint that discovery found, before it has state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredEndpoint {
    /// Where.
    pub endpoint: Endpoint,
    /// Its share of the calls among those of its priority.
    pub weight: u32,
    /// The lowest number is used first.
    pub priority: u32,
    /// `host[:port]`, for `Host`.
    pub authority: Arc<str>,
}

impl EndpointEntry {
    /// The weight it is chosen by; 0: it gets no calls, not even where no other is usable.
    pub(crate) fn share(&self) -> u32 {
        if self.state.is_drained() { 0 } else { self.weight }
    }
}

impl Default for EndpointSet {
    fn default() -> Self {
        Self::balanced(Vec::new(), BalanceSettings::default())
    }
}

impl EndpointSet {
    /// Of what was found; endpoints that are in `before` as well keep their state. One that was found twice is one endpoint, with both shares.
    #[must_use]
    pub fn of(found: &[DiscoveredEndpoint], before: &Self, settings: BalanceSettings) -> Self {
        let mut endpoints: Vec<EndpointEntry> = Vec::with_capacity(found.len());
        let mut places: HashMap<(&Endpoint, u32), usize> = HashMap::with_capacity(found.len());
        let known = before.endpoints.iter().map(|entry| (&entry.endpoint, Arc::clone(&entry.state)));
        let mut states: HashMap<&Endpoint, Arc<EndpointState>> = known.collect();
        for DiscoveredEndpoint { endpoint, weight, priority, authority } in found {
            let place = *places.entry((endpoint, *priority)).or_insert(endpoints.len());
            if let Some(twin) = endpoints.get_mut(place) {
                twin.weight = twin.weight.saturating_add(*weight);
                continue;
            }
            let state = states.entry(endpoint).or_insert_with(|| Arc::new(EndpointState::new(endpoint)));
            endpoints.push(EndpointEntry {
                endpoint: endpoint.clone(),
                weight: *weight,
                priority: *priority,
                authority: Arc::clone(authority),
                state: Arc::clone(state),
            });
        }
        Self::balanced(endpoints, settings)
    }

    /// The same endpoints, chosen among in another way.
    pub(crate) fn rebalanced(&self, settings: BalanceSettings) -> Self {
        Self::balanced(self.endpoints.clone(), settings)
    }

    fn balanced(endpoints: Vec<EndpointEntry>, settings: BalanceSettings) -> Self {
        let members = endpoints.iter().map(|entry| Member {
            weight: entry.share(),
            priority: entry.priority,
            identity: stable_hash(entry.state.name.as_bytes()),
        });
        let balancer = Balancer::new(settings, &members.collect::<Vec<_>>());
        let is_single = endpoints.iter().filter(|entry| entry.share() > 0).count() < 2;
        Self { endpoints, balancer, is_single }
    }

    /// The endpoint for a call. `silent`: endpoints that gave no response at all; they are chosen again only if there is no other, healthy or not.
    pub(crate) fn pick(
        &self,
        hash: Option<u64>,
        tried: &FailedMembers,
        silent: &FailedMembers,
        now: Instant,
        random: u64,
    ) -> Option<Pick> {
        let view = |index: usize| match self.endpoints.get(index) {
            Some(entry) => {
                let view = entry.state.view(now);
                MemberStatus { usable: view.usable && !silent.contains(index), ..view }
            }
            None => MemberStatus {
                usable: false,
                outstanding: 0,
                average: std::time::Duration::ZERO,
                slow_start_factor: 1000,
            },
        };
        self.balancer.pick(view, PickContext { hash, tried, random })
    }

    /// Whether another than this one can be called now: then what this one does says nothing of all of them.
    pub(crate) fn has_another(&self, index: usize, now: Instant) -> bool {
        let others =
            self.endpoints.iter().enumerate().filter(|(at, entry)| *at != index && entry.share() > 0);
        others.into_iter().any(|(_, entry)| entry.state.view(now).usable)
    }

    /// A call is given to this one.
    pub(crate) fn enter(&self, entry: &EndpointEntry, now: Instant) -> EndpointAttempt {
        entry.state.enter(self.is_single, now)
    }

    /// Where an endpoint is among them.
    pub(crate) fn position_of(&self, state: &Arc<EndpointState>) -> Option<usize> {
        self.endpoints.iter().position(|entry| Arc::ptr_eq(&entry.state, state))
    }

    /// Where all of them are.
    pub(crate) fn addresses(&self) -> HashSet<&Endpoint> {
        self.endpoints.iter().map(|entry| &entry.endpoint).collect()
    }
}

/// What is known of an endpoint. Shared by all threads, and by every set that has the endpoint.
pub struct EndpointState {
    /// What logs and metrics call it.
    name: Arc<str>,
    /// Calls that are with it, and how long responses take.
    load: EndpointLoad,
    /// What active health checks say; true without any.
    healthy: AtomicBool,
    check_failure: Mutex<Option<CheckFailure>>,
    /// An operator has taken it out of use. Sets that were made before go on giving it calls.
    drained: AtomicBool,
    /// How much of its weight it bears, in thousandths: less than 1000 during a slow start.
    warmth: AtomicU32,
    breaker: Mutex<Option<Breaker>>,
    /// How its calls went, for the comparison with others.
    record: EndpointRecord,
    expectation: Mutex<ExpectSupport>,
    /// It was logged that its responses must be normalized.
    told_mended: AtomicBool,
    stats: EndpointStats,
}

impl EndpointState {
    /// Of an endpoint of which nothing is known.
    #[must_use]
    pub fn new(endpoint: &Endpoint) -> Self {
        Self {
            name: endpoint.to_string().into(),
            load: EndpointLoad::new(Instant::now().into_std()),
            healthy: AtomicBool::new(true),
            check_failure: Mutex::default(),
            drained: AtomicBool::new(false),
            warmth: AtomicU32::new(1000),
            breaker: Mutex::default(),
            record: EndpointRecord::new(Instant::now().into_std()),
            expectation: Mutex::default(),
            told_mended: AtomicBool::new(false),
            stats: EndpointStats::default(),
        }
    }

    /// What logs and metrics call it.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Calls that are with it, and how long responses take.
    #[must_use]
    pub fn load(&self) -> &EndpointLoad {
        &self.load
    }

    /// How a call to it failed, the last time; none has since it is known.
    #[must_use]
    pub fn last_failure(&self) -> Option<LastFailure> {
        self.stats.last_failure()
    }

    /// What counts its calls.
    pub(crate) fn stats(&self) -> &EndpointStats {
        &self.stats
    }

    /// What active health checks say; true without any.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Why the last active health check failed; `None`: it did not, or there was none.
    #[must_use]
    pub fn check_failure(&self) -> Option<CheckFailure> {
        lock(&self.check_failure).clone()
    }

    /// An active health check has ended, and this is what is decided now.
    pub(crate) fn note_check(&self, healthy: bool, failure: Option<CheckFailure>) {
        *lock(&self.check_failure) = failure;
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    /// It has no checker any more: it counts as healthy and warm.
    pub(crate) fn forget_health(&self) {
        self.note_check(true, None);
        self.set_warmth(1000);
    }

    /// Whether an operator has taken it out of use.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }

    /// Takes it out of use in sets that are made from now on, or (`false`) puts it back.
    pub(crate) fn set_drained(&self, drained: bool) {
        self.drained.store(drained, Ordering::Relaxed);
    }

    /// How much of its weight it bears, in thousandths.
    #[must_use]
    pub fn warmth(&self) -> u32 {
        self.warmth.load(Ordering::Relaxed)
    }

    /// It starts slowly, and bears so much of its weight: 1 to 1000 thousandths.
    pub fn set_warmth(&self, warmth: u32) {
        self.warmth.store(warmth.clamp(1, 1000), Ordering::Relaxed);
    }

    /// What its breaker does with calls; closed without one.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        let now = Instant::now().into_std();
        lock(&self.breaker).as_ref().map_or(BreakerState::Closed, |breaker| breaker.state(now))
    }

    /// Whether it is ejected, because the others do better.
    #[must_use]
    pub fn is_ejected(&self) -> bool {
        self.record.is_ejected(Instant::now().into_std())
    }

    pub(crate) fn record(&self) -> &EndpointRecord {
        &self.record
    }

    /// Its breaker by these settings from now on.
    pub(crate) fn set_breaker(&self, settings: Option<BreakerSettings>) {
        set_breaker(&mut lock(&self.breaker), settings);
    }

    fn view(&self, now: Instant) -> MemberStatus {
        let now = now.into_std();
        let passes = lock(&self.breaker).as_ref().is_none_or(|breaker| breaker.would_permit(now));
        MemberStatus {
            usable: self.is_healthy() && passes && !self.record.is_ejected(now),
            outstanding: self.load.outstanding(),
            average: self.load.average(now),
            slow_start_factor: self.warmth(),
        }
    }

    /// What it does with expectations.
    pub(crate) fn expectation(&self) -> MutexGuard<'_, ExpectSupport> {
        lock(&self.expectation)
    }

    /// Whether to log now that its responses must be normalized: once.
    pub(crate) fn tells_mended(&self) -> bool {
        !self.told_mended.swap(true, Ordering::Relaxed)
    }

    /// Gives it a call, even if its breaker is open: then there is no other endpoint.
    fn enter(self: &Arc<Self>, is_single: bool, now: Instant) -> EndpointAttempt {
        let pass = match &mut *lock(&self.breaker) {
            Some(breaker) => breaker.try_acquire(now.into_std()).ok(),
            None => None,
        };
        if let Some((_, Some(change))) = &pass {
            crate::events::breaker(&self.name, change);
        }
        self.load.handle_begin();
        EndpointAttempt { state: Arc::clone(self), pass: pass.map(|(pass, _)| pass), is_single }
    }
}

impl fmt::Debug for EndpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointState")
            .field("name", &self.name)
            .field("load", &self.load)
            .field("healthy", &self.is_healthy())
            .finish_non_exhaustive()
    }
}

/// An attempt in flight at an endpoint; it holds the pass of the endpoint's breaker.
#[derive(Debug)]
pub(crate) struct EndpointAttempt {
    state: Arc<EndpointState>,
    /// What its breaker gave; none when that is off, or refuses and the call went all the same.
    pass: Option<Permit>,
    /// There is no other endpoint.
    is_single: bool,
}

/// What an attempt shows about its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptSignals {
    /// Whether it did its part.
    pub(crate) outcome: Outcome,
    /// Whether it is there at all: a response of any status is a sign of life, and so is a connection that it closes. Where there is nowhere else to go, nothing else counts
    /// ([`keepwarm_policy::breaker`]).
    pub(crate) alive: Outcome,
}

impl AttemptSignals {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self { outcome: Outcome::Unknown, alive: Outcome::Unknown };
    /// It could not be reached, or said nothing in time.
    pub(crate) const SILENT: Self = Self { outcome: Outcome::Failure, alive: Outcome::Failure };
    /// It has failed, and is there.
    pub(crate) const FAILED: Self = Self { outcome: Outcome::Failure, alive: Outcome::Success };
    /// It did its part.
    pub(crate) const WELL: Self = Self { outcome: Outcome::Success, alive: Outcome::Success };
}

impl EndpointAttempt {
    /// At which endpoint.
    pub(crate) fn state(&self) -> &Arc<EndpointState> {
        &self.state
    }

    /// The head of a response came, or the endpoint has failed.
    pub(crate) fn note(&mut self, signals: AttemptSignals, took: std::time::Duration, now: Instant) {
        let failed = signals.outcome == Outcome::Failure;
        if signals.outcome != Outcome::Unknown {
            self.state.load.handle_response(took, failed, now.into_std());
        }
        self.give_back(if self.is_single { signals.alive } else { signals.outcome }, now);
    }

    fn give_back(&mut self, outcome: Outcome, now: Instant) {
        let Some(pass) = self.pass.take() else { return };
        let change = match &mut *lock(&self.state.breaker) {
            Some(breaker) => breaker.handle_result(pass, outcome, now.into_std(), crate::random()),
            None => None,
        };
        if let Some(change) = &change {
            crate::events::breaker(&self.state.name, change);
        }
    }
}

impl Drop for EndpointAttempt {
    fn drop(&mut self) {
        if self.pass.is_some() {
            self.give_back(Outcome::Unknown, Instant::now());
        }
        self.state.load.handle_end();
    }
}

/// Makes, changes or removes a breaker.
pub(crate) fn set_breaker(slot: &mut Option<Breaker>, settings: Option<BreakerSettings>) {
    let now = Instant::now().into_std();
    match (slot.as_mut(), settings) {
        (Some(breaker), Some(settings)) => breaker.set_settings(settings, now),
        (None, Some(settings)) => *slot = Some(Breaker::new(settings, now)),
        (_, None) => *slot = None,
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
