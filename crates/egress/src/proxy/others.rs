//! Origins that are called through a forward proxy and are no upstream of the configuration: pooled all the same, by scheme and authority, for as long as they are called.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use keepwarm_net::{CaSource, ClientTls, Endpoint, Scheme, TlsSettings, TlsVersion};
use tokio::time::Instant;

use crate::endpoints::lock;
use crate::origin::Origin;
use crate::{CallLog, Found, Upstream, UpstreamSettings};

/// Origins that are remembered. The longest unused makes room.
const MOST: usize = 512;

/// Origins, and the connections to them.
#[derive(Debug, Default)]
pub(super) struct Others(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    origins: HashMap<Origin, Other>,
    /// Where calls to them are recorded.
    log: Option<CallLog>,
}

#[derive(Debug)]
struct Other {
    upstream: Arc<Upstream>,
    /// Its addresses count so long.
    until: Instant,
    used: Instant,
}

impl Others {
    /// Records calls there from now on.
    pub(super) fn set_log(&self, log: Option<CallLog>) {
        let mut known = lock(&self.0);
        known.origins.values().for_each(|other| other.upstream.set_log(log.clone()));
        known.log = log;
    }

    /// The origin, if its addresses are known and still count.
    pub(super) fn known(&self, origin: &Origin) -> Option<Arc<Upstream>> {
        let now = Instant::now();
        let mut known = lock(&self.0);
        let other = known.origins.get_mut(origin).filter(|other| other.until > now)?;
        other.used = now;
        Some(Arc::clone(&other.upstream))
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
        let found: Vec<Found> = addresses
            .iter()
            .map(|address| Found {
                endpoint: Endpoint::Tcp(SocketAddr::new(*address, origin.port())),
                weight: 1,
                // Not side by side: one of the families may lead nowhere.
                priority: u32::from(address.is_ipv6()),
                authority: authority.into(),
            })
            .collect();
        let mut known = lock(&self.0);
        let upstream = match known.origins.get_mut(origin) {
            Some(other) => {
                (other.until, other.used) = (until, now);
                Arc::clone(&other.upstream)
            }
            None => {
                make_room(&mut known.origins);
                let upstream =
                    Upstream::new("forward_proxy", UpstreamSettings::new(origin.scheme(), Vec::new()));
                if origin.scheme() == Scheme::Https {
                    upstream.set_tls(Some(encrypted(origin.host())?));
                }
                upstream.set_log(known.log.clone());
                let other = Other { upstream: Arc::clone(&upstream), until, used: now };
                known.origins.insert(origin.clone(), other);
                upstream
            }
        };
        drop(known);
        upstream.publish(&found);
        Ok(upstream)
    }
}

fn make_room(others: &mut HashMap<Origin, Other>) {
    if others.len() < MOST {
        return;
    }
    let oldest = others.iter().min_by_key(|(_, other)| other.used).map(|(origin, _)| origin.clone());
    if let Some(oldest) = oldest {
        others.remove(&oldest);
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
