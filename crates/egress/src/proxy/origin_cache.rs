//! Origins that are called through a forward proxy and are no upstream of the configuration: pooled all the same, by scheme and authority, for as long as they are called.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use keepwarm_net::{CaSource, ClientTls, Endpoint, Scheme, TlsSettings, TlsVersion};
use tokio::time::Instant;

use crate::endpoints::lock;
use crate::origin::Origin;
use crate::{CallTelemetry, DiscoveredEndpoint, Upstream, UpstreamSettings};

/// Origins that are remembered. The longest unused makes room.
const MOST: usize = 512;

/// Origins that are called through a forward proxy, with their connections.
#[derive(Debug, Default)]
pub(super) struct OriginCache(Mutex<CachedOrigins>);

#[derive(Debug, Default)]
struct CachedOrigins {
    origins: HashMap<Origin, CachedOrigin>,
    telemetry: CallTelemetry,
}

#[derive(Debug)]
struct CachedOrigin {
    upstream: Arc<Upstream>,
    /// Its addresses count so long.
    until: Instant,
    used: Instant,
}

impl OriginCache {
    /// Keeps this of calls from now on.
    pub(super) fn set_telemetry(&self, telemetry: CallTelemetry) {
        let mut cache = lock(&self.0);
        let is_traced_so = cache.telemetry.tracer == telemetry.tracer;
        for cached in cache.origins.values() {
            cached.upstream.set_log(telemetry.log.clone());
            if !is_traced_so {
                let settings = UpstreamSettings::clone(&cached.upstream.settings());
                cached
                    .upstream
                    .set_settings(UpstreamSettings { tracer: telemetry.tracer.clone(), ..settings });
            }
        }
        cache.telemetry = telemetry;
    }

    /// The origin, if its addresses are known and still count.
    pub(super) fn get(&self, origin: &Origin) -> Option<Arc<Upstream>> {
        let now = Instant::now();
        let mut cache = lock(&self.0);
        let cached = cache.origins.get_mut(origin).filter(|cached| cached.until > now)?;
        cached.used = now;
        Some(Arc::clone(&cached.upstream))
    }

    /// The origin has these addresses, which were checked.
    ///
    /// # Errors
    /// It cannot be spoken to over TLS, in a sentence.
    pub(super) fn learn(
        &self,
        origin: &Origin,
        authority: &str,
        addresses: &[IpAddr],
        until: Instant,
    ) -> Result<Arc<Upstream>, String> {
        let now = Instant::now();
        let found: Vec<DiscoveredEndpoint> = addresses
            .iter()
            .map(|address| DiscoveredEndpoint {
                endpoint: Endpoint::Tcp(SocketAddr::new(*address, origin.port())),
                weight: 1,
                // Not side by side: one of the families may lead nowhere.
                priority: u32::from(address.is_ipv6()),
                authority: authority.into(),
            })
            .collect();
        let mut cache = lock(&self.0);
        let upstream = match cache.origins.get_mut(origin) {
            Some(cached) => {
                (cached.until, cached.used) = (until, now);
                Arc::clone(&cached.upstream)
            }
            None => {
                make_room(&mut cache.origins);
                let settings = UpstreamSettings {
                    tracer: cache.telemetry.tracer.clone(),
                    ..UpstreamSettings::new(origin.scheme(), Vec::new())
                };
                let upstream = Upstream::new("forward_proxy", settings);
                if origin.scheme() == Scheme::Https {
                    upstream.set_tls(Some(encrypted(origin.host())?));
                }
                upstream.set_log(cache.telemetry.log.clone());
                let cached = CachedOrigin { upstream: Arc::clone(&upstream), until, used: now };
                cache.origins.insert(origin.clone(), cached);
                upstream
            }
        };
        drop(cache);
        upstream.publish(&found);
        Ok(upstream)
    }
}

fn make_room(origins: &mut HashMap<Origin, CachedOrigin>) {
    if origins.len() < MOST {
        return;
    }
    let oldest = origins.iter().min_by_key(|(_, cached)| cached.used).map(|(origin, _)| origin.clone());
    if let Some(oldest) = oldest {
        origins.remove(&oldest);
    }
}

fn encrypted(host: &str) -> Result<Arc<ClientTls>, String> {
    let settings = TlsSettings {
        server_name: host.to_owned(),
        ca: CaSource::System,
        identity: None,
        min_version: TlsVersion::Tls12,
        alpn: Vec::new(),
    };
    ClientTls::new(&settings).map_err(|error| error.to_string())
}
