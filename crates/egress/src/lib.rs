//! The back door: an application calls a door on this machine, and its call goes on over a connection that is kept, shared by all workers and threads, to the
//! service behind it.

mod discovery;
mod endpoints;
mod settings;
mod upstream;

pub use discovery::{Discovery, DiscoveryStatus, LookupFailure, Names};
pub use endpoints::{EndpointEntry, EndpointSet, EndpointState, Found};
pub use settings::{DnsSettings, Place, Source, Timeouts, UpstreamSettings};
pub use upstream::Upstream;

/// A number nobody can foresee, for jitter.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
