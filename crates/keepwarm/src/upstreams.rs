//! The upstreams of the process: kept over reloads, with their connections and all that is known of their endpoints.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::sync::Arc;

use keepwarm_config::{self as config, Config};
use keepwarm_egress::{Found, Place, Upstream, UpstreamSettings};
use keepwarm_net::{Endpoint, Protocol, Scheme};

use crate::assemble;

/// The upstreams, by name.
#[derive(Debug, Default)]
pub(crate) struct Upstreams(BTreeMap<String, Kept>);

#[derive(Debug)]
struct Kept {
    upstream: Arc<Upstream>,
    nature: Nature,
}

/// What cannot change while connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nature(Scheme, Protocol);

impl Upstreams {
    /// Calls them as the configuration says: those that stay keep their connections, others come and go.
    pub(crate) fn apply(&mut self, config: &Config) {
        let mut before = std::mem::take(&mut self.0);
        for upstream in &config.upstreams {
            let kept = match before.remove(&upstream.name).filter(|kept| kept.nature == Nature::of(upstream))
            {
                Some(kept) => {
                    let settings = assemble::upstream(upstream);
                    let found = look_up(&settings);
                    kept.upstream.set_settings(settings);
                    kept.upstream.publish(&found);
                    kept
                }
                None => Kept::new(upstream),
            };
            self.0.insert(upstream.name.clone(), kept);
        }
    }

    /// Those of a configuration that is about to serve, beside those that are there.
    pub(crate) fn add(&mut self, config: &Config) {
        for upstream in &config.upstreams {
            self.0.entry(upstream.name.clone()).or_insert_with(|| Kept::new(upstream));
        }
    }

    /// It did not come to serve: those that it alone has go.
    pub(crate) fn keep_only(&mut self, config: &Config) {
        self.0.retain(|name, _| config.upstream(name).is_some());
    }

    /// The upstream of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.0.get(name).map(|kept| &kept.upstream)
    }
}

impl Kept {
    fn new(config: &config::Upstream) -> Self {
        let settings = assemble::upstream(config);
        let found = look_up(&settings);
        let upstream = Upstream::new(config.name.as_str(), settings);
        upstream.publish(&found);
        Self { upstream, nature: Nature::of(config) }
    }
}

impl Nature {
    fn of(upstream: &config::Upstream) -> Self {
        Self(assemble::scheme(upstream), assemble::protocol(upstream))
    }
}

fn look_up(settings: &UpstreamSettings) -> Vec<Found> {
    let endpoints = |place: &Place| match place {
        Place::Address(address) => vec![Endpoint::Tcp(*address)],
        Place::Unix(path) => vec![Endpoint::Unix(path.clone())],
        Place::Name { host, port } => match (host.as_str(), *port).to_socket_addrs() {
            Ok(addresses) => addresses.map(Endpoint::Tcp).collect(),
            Err(_) => Vec::new(),
        },
        Place::Srv(_) => Vec::new(),
    };
    let mut found = Vec::new();
    for source in &settings.sources {
        for endpoint in endpoints(&source.place) {
            let authority = Arc::clone(&source.authority);
            found.push(Found { endpoint, weight: source.weight, priority: source.priority, authority });
        }
    }
    found
}
