//! The tables of one limit, shared by the threads of this process.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use keepwarm_policy::Gcra;
use keepwarm_policy::gcra::{GcraTable, RateLimitDecision};
use tokio::time::Instant;

use crate::endpoints::lock;

/// Keys that are known at once: 1 MiB for each limit.
const KEYS: usize = 65_536;
/// Locks that share them: more than threads, so that two seldom meet.
const SHARDS: usize = 16;

/// Tables that share the keys by hash.
#[derive(Debug)]
pub(super) struct Tables {
    shards: Vec<Mutex<GcraTable>>,
    hasher: RandomState,
}

impl Tables {
    pub(super) fn new(gcra: Gcra) -> Self {
        let hasher = RandomState::new();
        let now = Instant::now().into_std();
        let table = |shard: usize| {
            // Another secret than the one that chooses the shard: its keys must spread over the whole table.
            Mutex::new(GcraTable::new(gcra, KEYS / SHARDS, hasher.hash_one((shard, "secret")), now))
        };
        Self { shards: (0..SHARDS).map(table).collect(), hasher }
    }

    pub(super) fn set_gcra(&self, gcra: Gcra) {
        self.shards.iter().for_each(|shard| lock(shard).set_gcra(gcra));
    }

    pub(super) fn displaced(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).evicted()).sum()
    }

    /// One request of a key.
    pub(super) fn decide(&self, key: &[u8]) -> RateLimitDecision {
        let number = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        let Some(shard) = self.shards.get(number) else { unreachable!("less than their number") };
        lock(shard).decide(key, Instant::now().into_std())
    }
}
