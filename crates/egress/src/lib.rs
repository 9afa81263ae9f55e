//! The back door: an application calls a door on this machine, and its call continues over a persistent connection, shared by all workers and threads, to the
//! upstream.

mod active;
mod breaker;
mod callers;
mod discovery;
mod door;
mod drain;
mod ejection;
mod endpoints;
mod events;
mod forward;
mod gate;
mod guard;
mod health;
mod origin;
mod proxy;
mod rate_limit;
mod refusals;
mod settings;
mod stats;
mod upstream;

pub use active::{ActiveCall, CallPhase};
pub use callers::{CallerEnd, UnnamedCaller, UnnamedCallers};
pub use discovery::{Discovery, DiscoveryStatus, DnsResolver, LookupFailure};
pub use door::{Door, OwnCalls, UpstreamRoute};
pub use drain::DrainError;
pub use endpoints::{DiscoveredEndpoint, EndpointEntry, EndpointSet, EndpointState};
pub use forward::FAILURES;
pub use health::{CheckFailure, HealthSettings, Probe, run_health_checks};
pub use origin::Origin;
pub use proxy::{AllowEntry, AllowHost, Proxy, ProxyRules, Resolver, ResolverDriver};
pub use rate_limit::{
    Decision, LimitKey, OnStoreFailure, RateLimitHandler, RateLimitSettings, RateLimiter, Store, StoreDriver,
    StoreFailure, StoreSettings,
};
pub use refusals::ERROR_RESPONSES;
pub use settings::{CallLimits, DnsSettings, HashKey, Source, SourceAddress, UpstreamSettings};
pub use stats::{CallLog, CallTelemetry, EndpointStatus, LastFailure, UpstreamStatus};
pub use upstream::Upstream;

#[cfg(feature = "simulation")]
pub(crate) use keepwarm_net::simulation::random;
#[cfg(not(feature = "simulation"))]
pub(crate) use keepwarm_telemetry::trace::random;
