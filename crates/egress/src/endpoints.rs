//! The endpoints of an upstream: what discovery finds, and what is known of each.
//!
//! [`EndpointSet`] is a snapshot: never changed, replaced whole. An endpoint that is in the next one as well keeps its [`EndpointState`], and with it all that was
//! learnt of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keepwarm_net::Endpoint;
use keepwarm_policy::Expectation;

/// What an upstream consists of at one time.
#[derive(Debug, Default)]
pub struct EndpointSet {
    /// The endpoints, each once.
    pub endpoints: Vec<EndpointEntry>,
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
    /// What is known of it.
    pub state: Arc<EndpointState>,
}

/// An endpoint that is to be in a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub endpoint: Endpoint,
    /// Its share of the calls among those of its priority.
    pub weight: u32,
    /// The lowest number is used first.
    pub priority: u32,
}

impl EndpointSet {
    /// Of what was found; endpoints that are in `before` as well keep their state. One that was found twice is one endpoint, with both shares.
    #[must_use]
    pub fn of(found: &[Found], before: &Self) -> Self {
        let mut endpoints: Vec<EndpointEntry> = Vec::with_capacity(found.len());
        for Found { endpoint, weight, priority } in found {
            if let Some(twin) =
                endpoints.iter_mut().find(|it| it.endpoint == *endpoint && it.priority == *priority)
            {
                twin.weight = twin.weight.saturating_add(*weight);
                continue;
            }
            let known = endpoints.iter().chain(&before.endpoints).find(|entry| entry.endpoint == *endpoint);
            let state =
                known.map_or_else(|| Arc::new(EndpointState::new(endpoint)), |it| Arc::clone(&it.state));
            let (endpoint, weight, priority) = (endpoint.clone(), *weight, *priority);
            endpoints.push(EndpointEntry { endpoint, weight, priority, state });
        }
        Self { endpoints }
    }

    /// Whether it has this endpoint.
    #[must_use]
    pub fn has(&self, endpoint: &Endpoint) -> bool {
        self.endpoints.iter().any(|entry| entry.endpoint == *endpoint)
    }
}

/// What is known of an endpoint. Shared by all threads, and by every set that has the endpoint.
pub struct EndpointState {
    /// What logs and metrics call it.
    name: Arc<str>,
    /// Calls that are with it.
    in_flight: AtomicU32,
    /// What active health checks say; true without any.
    healthy: AtomicBool,
    /// Its share of its weight, in per cent: less than 100 during a slow start.
    share: AtomicU32,
    expectation: Mutex<Expectation>,
    /// It was said that its answers have to be mended.
    told_mended: AtomicBool,
}

impl EndpointState {
    /// Of an endpoint of which nothing is known.
    #[must_use]
    pub fn new(endpoint: &Endpoint) -> Self {
        Self {
            name: endpoint.to_string().into(),
            in_flight: AtomicU32::new(0),
            healthy: AtomicBool::new(true),
            share: AtomicU32::new(100),
            expectation: Mutex::default(),
            told_mended: AtomicBool::new(false),
        }
    }

    /// What logs and metrics call it.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Calls that are with it.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// What active health checks say; true without any.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// An active health check has decided.
    pub fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    /// Its share of its weight, in per cent.
    #[must_use]
    pub fn share(&self) -> u32 {
        self.share.load(Ordering::Relaxed)
    }

    /// It is starting slowly: `share` per cent of its weight, 1 to 100.
    pub fn set_share(&self, share: u32) {
        self.share.store(share.clamp(1, 100), Ordering::Relaxed);
    }

    /// What it does with expectations.
    pub(crate) fn expectation(&self) -> MutexGuard<'_, Expectation> {
        lock(&self.expectation)
    }

    /// Whether it is to be said now that its answers have to be mended: once.
    pub(crate) fn tells_mended(&self) -> bool {
        !self.told_mended.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }
}

impl fmt::Debug for EndpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointState")
            .field("name", &self.name)
            .field("in_flight", &self.in_flight())
            .field("healthy", &self.is_healthy())
            .finish_non_exhaustive()
    }
}

/// A call that is with an endpoint, until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<EndpointState>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
