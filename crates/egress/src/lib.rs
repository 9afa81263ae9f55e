//! The back door: an application calls a door on this machine, and its call goes on over a connection that is kept, shared by all workers and threads, to the
//! service behind it.

mod endpoints;
mod gate;
mod origin;
mod settings;
mod told;
mod upstream;

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub use endpoints::{EndpointEntry, EndpointSet, EndpointState, Found};
pub use origin::Origin;
pub use settings::{CallLimits, DnsSettings, HashKey, Place, Source, UpstreamSettings};
pub use upstream::Upstream;

/// Randomness for decisions: not for secrets.
pub(crate) fn random() -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static TURN: AtomicU64 = AtomicU64::new(0);
    SEED.hash_one(TURN.fetch_add(1, Ordering::Relaxed))
}
