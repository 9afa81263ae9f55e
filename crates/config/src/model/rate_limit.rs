use std::time::Duration;

use super::{PemFile, Secret};

/// `[rate_limit.NAME]`: a limit for the rate of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// NAME, as in logs and metrics.
    pub name: String,
    /// Requests within `period`; at least 1.
    pub requests: u32,
    /// A second, a minute or an hour.
    pub period: Duration,
    /// Requests allowed at once, from 1 to [`RateLimit::MAX_BURST`].
    pub burst: u32,
    /// The property that requests are counted by.
    pub key: RateKey,
    /// The store of the counters.
    pub store: RateStore,
    /// Certificate authorities for the store, in place of the system's.
    pub store_ca: Option<PemFile>,
    /// What to do while the store is slow or down.
    pub on_store_failure: StoreFailureMode,
    /// Time limit for a response of the store.
    pub store_timeout: Duration,
}

/// `key`: the property that requests are counted by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RateKey {
    /// The address of the client, or the address that a trusted proxy reports.
    Client,
    /// A header, in lower case. Requests without it are counted together.
    Header(String),
    /// A cookie, whose name is case-sensitive. Requests without it are counted together.
    Cookie(String),
    /// All requests are counted together.
    All,
}

/// `store`: the store of the counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateStore {
    /// This process.
    Local,
    /// A Valkey or Redis, shared with every Keepwarm that has a rate limit of this name there.
    Redis {
        /// `redis://…`, `rediss://…`, or `redis+unix:/…`, with user and password.
        url: Secret,
        /// Its address, without user and password.
        address: String,
        /// The name in its certificate. `None`: not over TLS.
        tls: Option<String>,
    },
}

/// `on_store_failure`: what to do while the store is slow or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StoreFailureMode {
    /// This process counts on its own.
    #[default]
    Open,
    /// Every request is rejected.
    Closed,
}

impl RateLimit {
    /// The largest burst: a counter of microseconds is exact up to this number at the slowest rate.
    pub const MAX_BURST: u32 = 65_536;

    /// A limit with all other defaults.
    pub fn new(name: String, requests: u32, period: Duration) -> RateLimit {
        RateLimit {
            name,
            requests,
            period,
            burst: RateLimit::default_burst(requests, period),
            key: RateKey::Client,
            store: RateStore::Local,
            store_ca: None,
            on_store_failure: StoreFailureMode::Open,
            store_timeout: Duration::from_millis(50),
        }
    }

    /// The number of requests that one second allows, at least 1.
    pub fn default_burst(requests: u32, period: Duration) -> u32 {
        let seconds = u32::try_from(period.as_secs().max(1)).unwrap_or(u32::MAX);
        (requests / seconds).clamp(1, RateLimit::MAX_BURST)
    }
}
