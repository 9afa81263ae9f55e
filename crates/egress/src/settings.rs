//! The settings of an upstream: the configuration in the form that this crate uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::{Endpoint, PoolSettings, Protocol, Scheme};
use keepwarm_policy::{
    BalanceSettings, BreakerSettings, HedgeSettings, OutlierSettings, RetryBudgetSettings, RetrySettings,
    Timeouts,
};

use keepwarm_serve::ProxyVersion;
use keepwarm_telemetry::spans::Tracer;

use crate::{DiscoveredEndpoint, HealthSettings};

/// How an upstream is called.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamSettings {
    /// In plaintext or over TLS.
    pub scheme: Scheme,
    /// `Host` of every call. `None`: the endpoint's authority for doors, the client's for routes.
    pub host: Option<String>,
    /// Where it is.
    pub sources: Vec<Source>,
    /// Which version of HTTP.
    pub protocol: Protocol,
    /// Each connection begins with a PROXY header of this version.
    pub proxy: Option<ProxyVersion>,
    /// What a door does with `Expect: 100-continue`: passes it on, or says yes at once.
    pub forwards_expectation: bool,
    /// Its connections.
    pub pool: PoolSettings,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// What is tried again.
    pub retry: RetrySettings,
    /// How many of all calls may be tries.
    pub retry_budget: RetryBudgetSettings,
    /// When calls are refused without being tried, of an endpoint and of all of them. `None`: off.
    pub breaker: Option<BreakerSettings>,
    /// When an endpoint is left alone because the others do better. `None`: off.
    pub outlier: Option<OutlierSettings>,
    /// A second attempt beside a slow first one. `None`: off.
    pub hedge: Option<HedgeSettings>,
    /// How an endpoint is chosen.
    pub balance: BalanceSettings,
    /// What decides, for a choice by hash.
    pub hash_key: Option<HashKey>,
    /// How much may be under way.
    pub limits: CallLimits,
    /// How names are looked up.
    pub dns: DnsSettings,
    /// How endpoints are checked. `None`: not at all.
    pub health: Option<HealthSettings>,
    /// How long an endpoint that is new, or was down, gets less than its share. `None`: off.
    pub slow_start: Option<Duration>,
    /// Responses of its doors carry `Server-Timing`.
    pub server_timing: bool,
    /// Keeps the spans of its calls. `None`: they are not traced.
    pub tracer: Option<Arc<Tracer>>,
}

/// Where some endpoints of an upstream are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    /// The address, or a name to look up.
    pub address: SourceAddress,
    /// `host[:port]`, for `Host`.
    pub authority: Arc<str>,
    /// The share of each of its endpoints; SRV has its own.
    pub weight: u32,
    /// The lowest number is used first; SRV has its own, which come behind it.
    pub priority: u32,
}

impl Source {
    /// The endpoint of one that needs no looking up.
    pub(crate) fn found(&self) -> Option<DiscoveredEndpoint> {
        let endpoint = match &self.address {
            SourceAddress::Address(address) => Endpoint::Tcp(*address),
            SourceAddress::Unix(path) => Endpoint::Unix(path.clone()),
            SourceAddress::Name { .. } | SourceAddress::Srv(_) => return None,
        };
        let authority = Arc::clone(&self.authority);
        Some(DiscoveredEndpoint { endpoint, weight: self.weight, priority: self.priority, authority })
    }
}

/// A literal address, or a name to look up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SourceAddress {
    /// A literal address.
    Address(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A name with A or AAAA records.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
    /// A name with SRV records.
    Srv(String),
}

/// What of a call decides which endpoint it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// A field, its name in lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
}

/// How much may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls in work. `None`: no limit.
    pub in_flight: Option<u32>,
    /// Calls that may wait for one of these, or for a connection; more: 503.
    pub queue: u32,
    /// How long a call may wait for the one, and for the other; longer: 503.
    pub queue_timeout: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { in_flight: Some(4096), queue: 1024, queue_timeout: Duration::from_secs(1) }
    }
}

/// How names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsSettings {
    /// A response counts at least so long.
    pub min_ttl: Duration,
    /// And at most so long.
    pub max_ttl: Duration,
    /// Servers to ask. Empty: those of the system.
    pub resolver: Vec<SocketAddr>,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self { min_ttl: Duration::from_secs(5), max_ttl: Duration::from_secs(300), resolver: Vec::new() }
    }
}

impl UpstreamSettings {
    /// Every default.
    #[must_use]
    pub fn new(scheme: Scheme, sources: Vec<Source>) -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        // Each: connecting, and the handshake.
        const CONNECT: Duration = Duration::from_secs(5);
        Self {
            scheme,
            host: None,
            sources,
            protocol: Protocol::Auto,
            proxy: None,
            forwards_expectation: false,
            pool: PoolSettings {
                connect_timeout: CONNECT,
                handshake_timeout: CONNECT,
                ..PoolSettings::default()
            },
            timeouts: Timeouts {
                connect: Some(CONNECT),
                first_byte: Some(MINUTE),
                idle: Some(MINUTE),
                whole: None,
            },
            retry: RetrySettings::default(),
            retry_budget: RetryBudgetSettings::default(),
            breaker: Some(BreakerSettings::default()),
            outlier: Some(OutlierSettings::default()),
            hedge: None,
            balance: BalanceSettings::default(),
            hash_key: None,
            limits: CallLimits::default(),
            dns: DnsSettings::default(),
            health: None,
            slow_start: None,
            server_timing: false,
            tracer: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure of a call names the connect timeout; the pool holds it.
    #[test]
    fn the_time_of_connecting_that_is_told_is_the_one_that_holds() {
        let it = UpstreamSettings::new(Scheme::Https, Vec::new());
        let told = it.timeouts.connect.unwrap();
        assert_eq!((it.pool.connect_timeout, it.pool.handshake_timeout), (told, told));
    }
}
