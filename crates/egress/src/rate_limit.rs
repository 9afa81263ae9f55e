//! Rate limits: a number of requests for each key; requests over the limit are rejected with 429.
//!
//! * **Local**: each limit has its own tables ([`keepwarm_policy::gcra::GcraTable`]), shared by all threads and bounded: a flood of keys displaces keys, and takes no memory.
//! * **Shared**: with a [`Store`], several Keepwarms share one limit through a Valkey or Redis. A request then waits for one round trip. A store that is
//!   slow or down costs the requests in flight its timeout, once; after that it gets no queries until it has proved healthy in the background ([`store`]). Meanwhile each process counts
//!   alone, or every request is rejected, as configured.
//!
//! [`RateLimitHandler`] puts a limit in front of any handler.

mod handler;
mod key;
mod local;
mod store;

use std::sync::Arc;

use arc_swap::ArcSwap;
use keepwarm_policy::Gcra;
use keepwarm_policy::gcra::{Quota, RateLimitDecision};
use keepwarm_serve::Request;

pub use handler::RateLimitHandler;
pub use key::LimitKey;
pub use store::{Driver as StoreDriver, Store, StoreFailure, StoreSettings};

use self::local::Tables;

/// The settings of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// The rate, its period, and the burst.
    pub quota: Quota,
    /// What is counted separately.
    pub key: LimitKey,
    /// What happens while the store is unavailable.
    pub on_store_failure: OnStoreFailure,
}

/// What happens while the store is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// Requests continue; each process counts alone.
    #[default]
    Open,
    /// Requests are rejected.
    Closed,
}

/// A rate limit. Shared by all threads, and kept across reloads: what was used up stays used up.
#[derive(Debug)]
pub struct RateLimiter {
    name: Arc<str>,
    rule: ArcSwap<Rule>,
    tables: Tables,
}

#[derive(Debug)]
struct Rule {
    settings: RateLimitSettings,
    gcra: Gcra,
    store: Option<Arc<Store>>,
}

/// The decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The request is within the limit.
    Allowed(RateLimitDecision),
    /// The request is over the limit.
    Limited(RateLimitDecision),
    /// The count is unknown, and the configuration rejects requests then.
    StoreUnavailable(StoreFailure),
}

impl RateLimiter {
    /// A limit of this name. With a store it is shared with every Keepwarm that has a limit of the same name there.
    #[must_use]
    pub fn new(
        name: impl Into<Arc<str>>,
        settings: RateLimitSettings,
        store: Option<Arc<Store>>,
    ) -> Arc<Self> {
        let gcra = Gcra::new(settings.quota);
        let rule = ArcSwap::from_pointee(Rule { settings, gcra, store });
        Arc::new(Self { name: name.into(), rule, tables: Tables::new(gcra) })
    }

    /// Other settings from now on. What was used up stays used up.
    pub fn set_settings(&self, settings: RateLimitSettings, store: Option<Arc<Store>>) {
        let gcra = Gcra::new(settings.quota);
        self.tables.set_gcra(gcra);
        self.rule.store(Arc::new(Rule { settings, gcra, store }));
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Keys that were evicted for others: quick growth means that a client invents keys.
    #[must_use]
    pub fn displaced(&self) -> u64 {
        self.tables.displaced()
    }

    /// The arithmetic, for the fields of a response.
    #[must_use]
    pub fn gcra(&self) -> Gcra {
        self.rule.load().gcra
    }

    /// Counts a request, if that needs no waiting.
    pub fn check_now(&self, request: &Request) -> Option<Decision> {
        let rule = self.rule.load();
        let decide = |key: &[u8]| Decision::of(self.tables.decide(key));
        match &rule.store {
            None => Some(rule.settings.key.with(request, decide)),
            Some(store) if store.is_up() => None,
            Some(store) => Some(self.without(&rule, request, store.failure())),
        }
    }

    /// Counts a request. Waits for the store, if there is one, at most for its timeout.
    pub async fn check(&self, request: &Request) -> Decision {
        let rule = self.rule.load_full();
        let Some(store) = &rule.store else {
            return rule.settings.key.with(request, |key| Decision::of(self.tables.decide(key)));
        };
        let key = rule.settings.key.with(request, |key| store::key(&self.name, &rule.settings.key, key));
        match store.count(key, &rule.gcra).await {
            Ok(verdict) => Decision::of(verdict),
            Err(failure) => self.without(&rule, request, failure),
        }
    }

    /// The store cannot be asked.
    fn without(&self, rule: &Rule, request: &Request, failure: StoreFailure) -> Decision {
        match rule.settings.on_store_failure {
            OnStoreFailure::Open => {
                rule.settings.key.with(request, |key| Decision::of(self.tables.decide(key)))
            }
            OnStoreFailure::Closed => Decision::StoreUnavailable(failure),
        }
    }
}

impl Decision {
    fn of(verdict: RateLimitDecision) -> Self {
        match verdict.allowed {
            true => Self::Allowed(verdict),
            false => Self::Limited(verdict),
        }
    }
}
