//! A rate limit for each of many keys, in memory that does not grow.
//!
//! Places of keys are in groups of eight; a key's hash says which group. A key that is full again is forgotten by itself, for it is as good as one that was never seen. When a group has
//! nothing but keys that owe, the one that owes least makes room: whoever invents keys to be forgotten displaces those who did least, and in the end himself. No key is kept, only its hash
//! under a secret: two keys share a limit once in 2^64, and nobody can choose his so that they do.

use std::hash::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use super::{Gcra, Verdict};

/// Places of a group: a cache line or two.
const GROUP: usize = 8;

/// A bounded table of keys. One lock each; several tables share the keys by hash where one lock is too few.
#[derive(Debug)]
pub struct Table {
    gcra: Gcra,
    groups: Vec<[Place; GROUP]>,
    secret: u64,
    /// The TATs are counted from here.
    origin: Instant,
    displaced: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    key: u64,
    tat: u64,
}

impl Table {
    /// For about so many keys at once, 16 bytes each. `secret` is random, and another for each process.
    #[must_use]
    pub fn new(gcra: Gcra, keys: usize, secret: u64, now: Instant) -> Self {
        let groups = keys.div_ceil(GROUP).max(1).next_power_of_two();
        Self { gcra, groups: vec![[Place::default(); GROUP]; groups], secret, origin: now, displaced: 0 }
    }

    /// Another rate from now on; what keys owe stays.
    pub fn set_gcra(&mut self, gcra: Gcra) {
        self.gcra = gcra;
    }

    /// One request of a key.
    pub fn decide(&mut self, key: &[u8], now: Instant) -> Verdict {
        let hash = self.hash(key);
        let now = micros(now.saturating_duration_since(self.origin));
        let at = usize::try_from(hash).unwrap_or(0) & (self.groups.len() - 1);
        let Some(group) = self.groups.get_mut(at) else { return self.gcra.admitted(0) };
        // Its own place, else the one that owes least.
        let place = match group.iter().position(|place| place.key == hash) {
            Some(own) => group.get_mut(own),
            None => group.iter_mut().min_by_key(|place| place.tat),
        };
        let Some(place) = place else { return self.gcra.admitted(0) };
        if place.key != hash {
            self.displaced += u64::from(place.tat > now);
            *place = Place { key: hash, tat: 0 };
        }
        let (tat, verdict) = self.gcra.decide(place.tat, now);
        place.tat = tat;
        verdict
    }

    /// Keys that owed something and had to make room: when it grows, the table is too small.
    #[must_use]
    pub fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Keys that owe something.
    #[must_use]
    pub fn owing(&self, now: Instant) -> usize {
        let now = micros(now.saturating_duration_since(self.origin));
        self.groups.iter().flatten().filter(|place| place.tat > now).count()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        key.hash(&mut hasher);
        // 0 marks a free place.
        hasher.finish().max(1)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
