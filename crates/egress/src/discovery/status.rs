//! How the discovery of an upstream goes, for who shows it, and who has no endpoint to call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::LookupFailure;
use crate::endpoints::lock;

/// How the discovery of one upstream goes. Kept across reloads, as the upstream is.
pub struct DiscoveryStatus {
    lookups: AtomicU64,
    failures: AtomicU64,
    changes: AtomicU64,
    /// What is wrong now, by the number of the source.
    troubles: Mutex<BTreeMap<usize, LookupFailure>>,
    look_again: Notify,
    /// How many sources there are.
    sources: AtomicUsize,
    /// All of them fail: calls need not wait for an endpoint.
    fails: watch::Sender<bool>,
}

impl Default for DiscoveryStatus {
    fn default() -> Self {
        Self {
            lookups: AtomicU64::default(),
            failures: AtomicU64::default(),
            changes: AtomicU64::default(),
            troubles: Mutex::default(),
            look_again: Notify::default(),
            sources: AtomicUsize::default(),
            fails: watch::Sender::new(false),
        }
    }
}

impl DiscoveryStatus {
    /// Names looked up so far.
    #[must_use]
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// How many of them failed, or had no address.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How often the set of endpoints has changed; the first counts.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// What is wrong now: the stable name, and the sentence for people.
    #[must_use]
    pub fn trouble(&self) -> Option<LookupFailure> {
        lock(&self.troubles).values().next().cloned()
    }

    /// Looks names up again soon: their addresses take no connections, and may be of yesterday. Never sooner after the last time than the floor of their time to live.
    pub fn look_again(&self) {
        self.look_again.notify_waiters();
    }

    pub(super) fn note_lookup(&self, source: usize, trouble: Option<&LookupFailure>) {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mut troubles = lock(&self.troubles);
        match trouble {
            Some(trouble) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                troubles.insert(source, trouble.clone());
            }
            None => drop(troubles.remove(&source)),
        }
        let all = troubles.len() >= self.sources.load(Ordering::Relaxed);
        self.fails.send_replace(all && troubles.values().all(|trouble| trouble.name != "dns_late"));
    }

    /// Waits until all that was looked up has failed.
    pub(crate) async fn failed(&self) {
        if self.fails.subscribe().wait_for(|fails| *fails).await.is_err() {
            std::future::pending().await
        }
    }

    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// A discovery begins: what an earlier one had to say is over.
    pub(super) fn restart(&self, sources: usize) {
        let mut troubles = lock(&self.troubles);
        troubles.clear();
        self.sources.store(sources, Ordering::Relaxed);
        self.fails.send_replace(false);
    }

    /// Waits until then, or until it is to look again.
    pub(super) async fn wait_until(&self, then: Instant, floor: Duration) {
        let soonest = (Instant::now() + floor).min(then);
        tokio::select! {
            biased;
            () = sleep_until(then) => {}
            () = self.look_again.notified() => sleep_until(soonest).await,
        }
    }
}

impl fmt::Debug for DiscoveryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryStatus")
            .field("lookups", &self.lookups())
            .field("failures", &self.failures())
            .field("changes", &self.changes())
            .field("trouble", &self.trouble())
            .finish_non_exhaustive()
    }
}
