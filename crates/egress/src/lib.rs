//! The back door: an application calls a door on this machine, and its call goes on over a connection that is kept, shared by all workers and threads, to the
//! service behind it.

mod endpoints;
mod settings;
mod upstream;

pub use endpoints::{EndpointEntry, EndpointSet, EndpointState, Found};
pub use settings::{DnsSettings, Place, Source, Timeouts, UpstreamSettings};
pub use upstream::Upstream;
