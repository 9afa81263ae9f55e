//! Passwords that were correct a moment ago.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};
use keepwarm_net::now;
use tokio::time::Instant;

/// How long a password is believed without hashing it.
const LIFETIME: Duration = Duration::from_secs(60);
/// How many are remembered.
const MOST: usize = 1024;

pub(super) type Digest = [u8; 32];

/// Digests of names and passwords, by a key that only this process has and that no file or log contains.
pub(super) struct Remembered {
    key: [u8; 32],
    until: Mutex<HashMap<Digest, Instant>>,
}

impl Default for Remembered {
    fn default() -> Self {
        let mut key = [0; 32];
        // Without random bytes nothing is remembered that could be found: see `insert`.
        let is_random = getrandom::fill(&mut key).is_ok();
        if !is_random {
            key = [0; 32];
        }
        Self { key, until: Mutex::default() }
    }
}

impl Remembered {
    pub(super) fn digest(&self, user: &str, password: &[u8]) -> Digest {
        let mut mac = Blake2sMac256::new(&self.key.into());
        // The length keeps `a` and `bc` apart from `ab` and `c`.
        mac.update(&(user.len() as u64).to_le_bytes());
        mac.update(user.as_bytes());
        mac.update(password);
        mac.finalize().into_bytes().into()
    }

    pub(super) fn contains(&self, digest: &Digest) -> bool {
        self.lock().get(digest).is_some_and(|until| *until > now())
    }

    pub(super) fn insert(&self, digest: Digest) {
        if self.key == [0; 32] {
            return;
        }
        let now = now();
        let mut until = self.lock();
        if until.len() >= MOST {
            until.retain(|_, until| *until > now);
        }
        if until.len() >= MOST {
            until.clear();
        }
        until.insert(digest, now + LIFETIME);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Remembered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Remembered(...)")
    }
}
