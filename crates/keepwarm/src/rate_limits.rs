//! The rate limits of the process: kept over reloads, with what has been used up, and with their stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_config::{self as config, Config, RateKey, RateStore, StoreFailureMode};
use keepwarm_egress::{LimitKey, RateLimitSettings, RateLimiter, Store, StoreDriver, StoreSettings};
use keepwarm_net::{CaSource, Remote, TlsSettings, TlsVersion};
use keepwarm_policy::gcra::Quota;

use crate::upstreams::tls;

/// The rate limits, by name.
#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    limiters: BTreeMap<String, Arc<RateLimiter>>,
    stores: BTreeMap<StoreKey, Arc<Store>>,
}

/// Limits that say the same of their store share it: its URL, its authorities, its time.
type StoreKey = (String, Option<Vec<u8>>, Duration);

/// Stores that a configuration has and that are not connected yet.
#[derive(Default)]
pub(crate) struct NewStores(BTreeMap<StoreKey, (Arc<Store>, StoreDriver)>);

impl NewStores {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl RateLimits {
    /// Makes what may fail, before anything is changed.
    ///
    /// # Errors
    /// Which store cannot be used, and why.
    pub(crate) fn prepare(&self, config: &Config) -> Result<NewStores, String> {
        let mut new = NewStores::default();
        for limit in &config.rate_limits {
            let Some((key, settings)) = store(limit) else { continue };
            if !self.stores.contains_key(&key) && !new.0.contains_key(&key) {
                let opened = Store::open(settings);
                new.0.insert(key, opened.map_err(|error| format!("rate_limit.{}: {error}", limit.name))?);
            }
        }
        Ok(new)
    }

    /// Asks new stores from now on, from the thread of `remote`.
    pub(crate) fn connect(&mut self, new: NewStores, remote: &Remote) {
        for (key, (store, driver)) in new.0 {
            self.stores.insert(key, store);
            remote.spawn(move || driver.run());
        }
    }

    /// Counts by the new configuration. Usage of a limit that stays is kept.
    pub(crate) fn apply(&mut self, config: &Config) {
        self.keep_only(config);
        for limit in &config.rate_limits {
            if let Some(limiter) = self.limiters.get(&limit.name) {
                limiter.set_settings(settings(limit), self.store_of(limit));
            }
        }
        self.add(config);
    }

    /// Those of a configuration that is about to serve, beside those that are there.
    pub(crate) fn add(&mut self, config: &Config) {
        for limit in &config.rate_limits {
            if !self.limiters.contains_key(&limit.name) {
                let store = self.store_of(limit);
                let limiter = RateLimiter::new(limit.name.as_str(), settings(limit), store);
                self.limiters.insert(limit.name.clone(), limiter);
            }
        }
    }

    /// Forgets what the configuration does not have. A store ends with the last limit that has it.
    pub(crate) fn keep_only(&mut self, config: &Config) {
        let wanted: Vec<StoreKey> = config.rate_limits.iter().filter_map(store).map(|(key, _)| key).collect();
        self.stores.retain(|key, _| wanted.contains(key));
        self.limiters.retain(|name, _| config.rate_limit(name).is_some());
    }

    fn store_of(&self, limit: &config::RateLimit) -> Option<Arc<Store>> {
        store(limit).and_then(|(key, _)| self.stores.get(&key).cloned())
    }

    /// The limit of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<RateLimiter>> {
        self.limiters.get(name)
    }
}

fn settings(limit: &config::RateLimit) -> RateLimitSettings {
    RateLimitSettings {
        quota: Quota {
            count: u64::from(limit.requests),
            period: limit.period,
            burst: u64::from(limit.burst),
        },
        key: match &limit.key {
            RateKey::Client => LimitKey::Client,
            RateKey::Header(name) => LimitKey::Header(name.clone()),
            RateKey::Cookie(name) => LimitKey::Cookie(name.clone()),
            RateKey::All => LimitKey::All,
        },
        on_store_failure: match limit.on_store_failure {
            StoreFailureMode::Open => keepwarm_egress::OnStoreFailure::Open,
            StoreFailureMode::Closed => keepwarm_egress::OnStoreFailure::Closed,
        },
    }
}

fn store(limit: &config::RateLimit) -> Option<(StoreKey, StoreSettings)> {
    let RateStore::Redis { url, address, tls } = &limit.store else { return None };
    let (url, timeout) = (url.expose().to_owned(), limit.store_timeout);
    let ca = limit.store_ca.as_ref().map(tls::pem);
    let key = (url.clone(), ca.as_ref().map(|ca| ca.text.clone()), timeout);
    let tls = tls.as_ref().map(|host| TlsSettings {
        server_name: host.clone(),
        ca: ca.map_or(CaSource::System, CaSource::Only),
        identity: None,
        min_version: TlsVersion::Tls12,
        alpn: Vec::new(),
    });
    Some((key, StoreSettings { url, tls, address: address.clone(), timeout }))
}
