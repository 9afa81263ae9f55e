//! An upstream: its connections, its endpoints and what is known of them, shared by all threads and outliving reloads.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use keepwarm_net::Calls;

use crate::{EndpointSet, Found, UpstreamSettings};

/// A service that is called.
#[derive(Debug)]
pub struct Upstream {
    /// Its name in the configuration.
    name: Arc<str>,
    settings: ArcSwap<UpstreamSettings>,
    calls: Arc<Calls>,
    endpoints: ArcSwap<EndpointSet>,
}

impl Upstream {
    /// One without endpoints: discovery publishes them ([`Self::publish`]).
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, settings: UpstreamSettings) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            calls: Calls::new(settings.pool, settings.protocol),
            settings: ArcSwap::from_pointee(settings),
            endpoints: ArcSwap::default(),
        })
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How it is called now.
    #[must_use]
    pub fn settings(&self) -> Guard<Arc<UpstreamSettings>> {
        self.settings.load()
    }

    /// Its connections.
    #[must_use]
    pub fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// Its endpoints now.
    #[must_use]
    pub fn endpoints(&self) -> Guard<Arc<EndpointSet>> {
        self.endpoints.load()
    }

    /// Discovery has found these. Endpoints that stay keep what is known of them; connections to those that are gone end with what they carry.
    pub fn publish(&self, found: &[Found]) {
        let before = self.endpoints.load_full();
        let after = Arc::new(EndpointSet::of(found, &before));
        self.endpoints.store(Arc::clone(&after));
        for entry in before.endpoints.iter().filter(|entry| !after.has(&entry.endpoint)) {
            self.calls.forget(&entry.endpoint);
        }
    }
}
