use std::time::Duration;

use super::{PemFile, Secret};

/// `[rate_limit.NAME]`: how often something may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// NAME, as logs and metrics show it.
    pub name: String,
    /// Requests within `period`; at least 1.
    pub requests: u32,
    /// A second, a minute or an hour.
    pub period: Duration,
    /// Requests that may come at once; from 1 to [`RateLimit::MAX_BURST`].
    pub burst: u32,
    /// What is counted apart.
    pub key: RateKey,
    /// Where it is counted.
    pub store: RateStore,
    /// Who may have signed its certificate, in place of those that the system trusts.
    pub store_ca: Option<PemFile>,
    /// What happens while the store cannot be asked.
    pub on_store_failure: StoreFailureMode,
    /// How long the store may take.
    pub store_timeout: Duration,
}

/// `key`: what is counted apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RateKey {
    /// The address of the client, or what a trusted proxy says of it.
    Client,
    /// A field of the request, lower case; requests without it are counted together.
    Header(String),
    /// A cookie; its case counts. Requests without it are counted together.
    Cookie(String),
    /// Nothing: all requests together.
    All,
}

/// `store`: where requests are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateStore {
    /// In this process.
    Local,
    /// In a Valkey or Redis, together with others that have a rate limit of this name there.
    Redis {
        /// `redis://…`, `rediss://…`, or `redis+unix:/…`, with what it takes to log in.
        url: Secret,
        /// Where it is, without that.
        address: String,
        /// Over TLS: whom its certificate must be for.
        tls: Option<String>,
    },
}

/// `on_store_failure`: what happens while the store cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StoreFailureMode {
    /// This process counts by itself.
    #[default]
    Open,
    /// Every request is refused.
    Closed,
}

impl RateLimit {
    /// The largest burst: what a counter of microseconds holds exactly for the slowest rate.
    pub const MAX_BURST: u32 = 65_536;

    /// A limit with every other default.
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

    /// What one second allows, at least 1.
    pub fn default_burst(requests: u32, period: Duration) -> u32 {
        let seconds = u32::try_from(period.as_secs().max(1)).unwrap_or(u32::MAX);
        (requests / seconds).clamp(1, RateLimit::MAX_BURST)
    }
}
