//! A route that leads to several apps or upstreams, each with a share of the requests.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};

use keepwarm_serve::{Exchange, Handler, Request};
use keepwarm_telemetry::meters::{self, RouteMeter};

use crate::maintenance;

/// Several targets of a route.
pub struct Split {
    /// Each with its share in percent.
    others: Vec<(SplitTarget, u32)>,
    /// Of all other requests.
    main: SplitTarget,
    key: Option<SplitKey>,
}

/// A target, as the route's own would be.
pub struct SplitTarget {
    name: Arc<str>,
    handler: Arc<dyn Handler>,
    /// The meter of the route and this target: once a request has named the route.
    meter: OnceLock<&'static RouteMeter>,
}

/// What keeps a client at its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitKey {
    /// Its address; of IPv6 the first 64 bits, the least that one subscriber has (RFC 6177).
    Client,
    /// A field, its name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
}

impl SplitTarget {
    /// A target of this name, in logs and metrics.
    #[must_use]
    pub fn new(name: Arc<str>, handler: Arc<dyn Handler>) -> Self {
        Self { name, handler, meter: OnceLock::new() }
    }
}

impl Split {
    /// `others` get their shares, in percent, and `main` the rest. Without a `key`, each request is assigned at random.
    #[must_use]
    pub fn new(main: SplitTarget, others: Vec<(SplitTarget, u32)>, key: Option<SplitKey>) -> Self {
        Self { others, main, key }
    }

    /// The target of the request. A share that grows keeps the clients that it had, if it is the first.
    fn target(&self, request: &Request) -> &SplitTarget {
        let keyed = self.key.as_ref().and_then(|key| key.hash(request));
        let mut at = u32::try_from(keyed.unwrap_or_else(|| random(request)) % 100).unwrap_or(0);
        for (target, share) in &self.others {
            match at.checked_sub(*share) {
                None => return target,
                Some(rest) => at = rest,
            }
        }
        &self.main
    }
}

impl SplitKey {
    /// `None`: the request does not have it.
    pub(crate) fn hash(&self, request: &Request) -> Option<u64> {
        let fields = &request.head.fields;
        match self {
            Self::Client => Some(match request.client_address() {
                Some(IpAddr::V4(address)) => hash(&address.octets()),
                Some(IpAddr::V6(address)) => hash(address.octets().get(..8).unwrap_or_default()),
                None => hash(b""),
            }),
            Self::Header(name) => fields.first(name).map(hash),
            Self::Cookie(name) => {
                let mut crumbs = fields.all("cookie").flat_map(|line| line.split(|&byte| byte == b';'));
                crumbs.find_map(|crumb| {
                    let value = crumb.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                    Some(hash(value))
                })
            }
        }
    }
}

/// FNV-1a and the finalizer of MurmurHash3: the same in every version and instance, and evenly spread. A client that chooses its value chooses its target; it could
/// just as well ask again.
fn hash(bytes: &[u8]) -> u64 {
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }))
}

/// Not for secrets.
pub(crate) fn random(request: &Request) -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    mix(request.number().wrapping_add(*SEED))
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

impl Handler for Split {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let target = self.target(exchange.request());
        let notes = &mut exchange.request_mut().notes;
        notes.target = Some(Arc::clone(&target.name));
        if let Some(route) = &notes.route {
            notes.meter = Some(*target.meter.get_or_init(|| meters::route(&target.name, route)));
        }
        if maintenance::refuses_app(exchange, &target.name) {
            return Box::pin(std::future::ready(()));
        }
        target.handler.handle(exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_evenly_and_always_in_the_same_way() {
        let counts =
            (0..10_000_u32).filter(|number| hash(format!("session-{number}").as_bytes()) % 100 < 5).count();
        assert!((400..600).contains(&counts), "{counts}");
        let addresses = (0..=u16::MAX).filter(|number| {
            let [high, low] = number.to_be_bytes();
            hash(&[10, 0, high, low]) % 100 < 5
        });
        let share = addresses.count();
        assert!((2900..3700).contains(&share), "{share}");
        // In every instance, whatever its version.
        assert_eq!(hash(b""), mix(0xcbf2_9ce4_8422_2325));
        assert_eq!(mix(1), 0xb456_bcfc_34c2_cb2c);
    }
}
