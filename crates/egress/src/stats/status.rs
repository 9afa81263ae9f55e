//! An upstream as those see it who look: metrics, status.

use std::sync::Arc;

use keepwarm_net::{Endpoint, PoolState, PoolTotals};
use keepwarm_policy::BreakerState;
use keepwarm_telemetry::upstreams::{self, ENDPOINTS_MAX, EndpointTotals};

use crate::endpoints::EndpointEntry;
use crate::{ActiveCall, CheckFailure, LastFailure, LookupFailure, Upstream};

/// Calls in flight that are shown of an upstream.
const ACTIVE_CALLS_MAX: usize = 20;

/// An upstream at one moment.
#[derive(Debug, Clone)]
pub struct UpstreamStatus {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Calls that are in work.
    pub in_flight: usize,
    /// Calls that wait for a place among those.
    pub queue: usize,
    /// The oldest of the calls in flight, and of those that wait.
    pub active_calls: Vec<ActiveCall>,
    /// What its own breaker does.
    pub breaker: BreakerState,
    /// What has happened to its connections.
    pub totals: PoolTotals,
    /// How many endpoints it has.
    pub found: usize,
    /// The first of them.
    pub endpoints: Vec<EndpointStatus>,
    /// Names looked up.
    pub lookups: u64,
    /// How many of them failed.
    pub lookup_failures: u64,
    /// How often its set of endpoints has changed.
    pub changes: u64,
    /// What is wrong with its names now.
    pub trouble: Option<LookupFailure>,
}

/// An endpoint at one moment.
#[derive(Debug, Clone)]
pub struct EndpointStatus {
    /// What logs and metrics call it.
    pub name: Arc<str>,
    /// The lowest number is used first.
    pub priority: u32,
    /// Its share of the calls among those of its priority.
    pub weight: u32,
    /// What active health checks say; true without any.
    pub healthy: bool,
    /// Why the last of them failed.
    pub check_failure: Option<CheckFailure>,
    /// An operator has taken it out of use.
    pub drained: bool,
    /// It is ejected, because the others do better.
    pub ejected: bool,
    /// How much of its weight it bears, in thousandths.
    pub warmth: u32,
    /// What its breaker does.
    pub breaker: BreakerState,
    /// Calls that are with it.
    pub in_flight: u32,
    /// Its connections.
    pub connections: PoolState,
    /// Totals of its connections; none when there are too many endpoints, which are counted together.
    pub totals: Option<PoolTotals>,
    /// Totals of its calls; none when there are too many endpoints, which are counted together.
    pub calls: Option<EndpointTotals>,
    /// The last failure.
    pub last_failure: Option<LastFailure>,
}

impl EndpointStatus {
    /// What it does with calls, in a word: `drained` (an operator has taken it out of use), `up`, `warming` (bears less than its share), `half-open`, `open` (its breaker), `ejected` (worse than others), `down` (its
    /// health checks).
    #[must_use]
    pub fn state(&self) -> &'static str {
        if self.drained {
            return "drained";
        }
        match (self.healthy, self.breaker) {
            (false, _) => "down",
            (true, BreakerState::Closed | BreakerState::HalfOpen) if self.ejected => "ejected",
            (true, BreakerState::Closed) if self.warmth < 1000 => "warming",
            (true, BreakerState::Closed) => "up",
            (true, state) => state.name(),
        }
    }
}

impl Upstream {
    /// How it is now. As many endpoints as have counts of their own; the rest only counts.
    #[must_use]
    pub fn look(&self) -> UpstreamStatus {
        let endpoints = self.endpoints();
        let (in_flight, queue) = self.in_work();
        let discovery = self.discovery();
        UpstreamStatus {
            name: Arc::clone(self.name()),
            in_flight,
            queue,
            active_calls: self.active().oldest(ACTIVE_CALLS_MAX),
            breaker: self.breaker(),
            totals: self.connection_totals(),
            found: endpoints.endpoints.len(),
            endpoints: endpoints
                .endpoints
                .iter()
                .take(ENDPOINTS_MAX)
                .map(|entry| self.look_at(entry))
                .collect(),
            lookups: discovery.lookups(),
            lookup_failures: discovery.failures(),
            changes: discovery.changes(),
            trouble: discovery.trouble(),
        }
    }

    fn look_at(&self, entry: &EndpointEntry) -> EndpointStatus {
        let state = &entry.state;
        let meter = state.stats().meter(self.name(), state.name());
        let own = *meter.endpoint == **state.name();
        EndpointStatus {
            name: Arc::clone(state.name()),
            priority: entry.priority,
            weight: entry.weight,
            healthy: state.is_healthy(),
            check_failure: state.check_failure(),
            drained: state.is_drained(),
            ejected: state.is_ejected(),
            warmth: state.warmth(),
            breaker: state.breaker(),
            in_flight: state.load().outstanding(),
            connections: self.connections(Some(&entry.endpoint)),
            totals: own.then(|| meter.connections.totals()),
            calls: own.then(|| meter.totals()),
            last_failure: state.last_failure(),
        }
    }

    /// The connections to an endpoint, or (`None`) all of them, by what they are doing.
    #[must_use]
    pub fn connections(&self, endpoint: Option<&Endpoint>) -> PoolState {
        self.calls().state(endpoint)
    }

    /// What has happened to its connections, those to endpoints that are gone included.
    #[must_use]
    pub fn connection_totals(&self) -> PoolTotals {
        upstreams::connections(self.name())
    }
}
