//! A rate limit for each of many keys, in bounded memory.
//!
//! The slots of keys are in groups of eight; a key's hash selects the group. A key whose burst is complete again need not be stored, because it is equal to a new one. If a group has
//! only keys that owe something, the one that owes least is evicted: an attacker who invents keys to be forgotten evicts those who did least, and finally himself. No key is stored, only its
//! hash under a secret: two keys share a limit once in 2^64, and nobody can choose keys that do.

use std::hash::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use super::{Gcra, RateLimitDecision};

/// Slots of a group: a cache line or two.
const GROUP: usize = 8;

/// A bounded table of keys. One lock each; several tables share the keys by hash where one lock is too few.
#[derive(Debug)]
pub struct GcraTable {
    gcra: Gcra,
    groups: Vec<[Slot; GROUP]>,
    secret: u64,
    /// The TATs are counted from here.
    origin: Instant,
    evicted: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    key: u64,
    tat: u64,
}

impl GcraTable {
    /// A table for about this many keys at once, 16 bytes each. `secret` is random and different for each process.
    #[must_use]
    pub fn new(gcra: Gcra, keys: usize, secret: u64, now: Instant) -> Self {
        let groups = keys.div_ceil(GROUP).max(1).next_power_of_two();
        Self { gcra, groups: vec![[Slot::default(); GROUP]; groups], secret, origin: now, evicted: 0 }
    }

    /// Changes the rate; what keys owe stays.
    pub fn set_gcra(&mut self, gcra: Gcra) {
        self.gcra = gcra;
    }

    /// One request of a key.
    pub fn decide(&mut self, key: &[u8], now: Instant) -> RateLimitDecision {
        let hash = self.hash(key);
        let now = micros(now.saturating_duration_since(self.origin));
        let at = usize::try_from(hash).unwrap_or(0) & (self.groups.len() - 1);
        let Some(group) = self.groups.get_mut(at) else { return self.gcra.admitted(0) };
        // Its own slot, else the one that owes least.
        let slot = match group.iter().position(|slot| slot.key == hash) {
            Some(own) => group.get_mut(own),
            None => group.iter_mut().min_by_key(|slot| slot.tat),
        };
        let Some(slot) = slot else { return self.gcra.admitted(0) };
        if slot.key != hash {
            self.evicted += u64::from(slot.tat > now);
            *slot = Slot { key: hash, tat: 0 };
        }
        let (tat, decision) = self.gcra.decide(slot.tat, now);
        slot.tat = tat;
        decision
    }

    /// Evicted keys that owed something: if it grows, the table is too small.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Keys that owe something.
    #[must_use]
    pub fn owing(&self, now: Instant) -> usize {
        let now = micros(now.saturating_duration_since(self.origin));
        self.groups.iter().flatten().filter(|slot| slot.tat > now).count()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        key.hash(&mut hasher);
        // 0 marks a free slot.
        hasher.finish().max(1)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
