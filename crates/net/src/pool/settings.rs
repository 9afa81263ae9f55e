//! How many connections a pool keeps, and how long.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::{Client, Codec};

/// How many connections are kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Connections to one endpoint at once, idle and in use; more wait. The server's own limit is the reason to lower it.
    pub max: usize,
    /// Connections to all endpoints together, of every thread and version of HTTP.
    pub max_in_all: usize,
    /// Idle connections to one endpoint; one more is closed.
    pub idle: usize,
    /// Idle connections to keep at any time, made beforehand, within `max` and `idle`.
    pub min_idle: usize,
    /// Maximum age for another use, so that load moves to new addresses and memory that grew with a connection is freed.
    pub max_age: Duration,
    /// Maximum number of requests.
    pub max_requests: u64,
    /// An idle connection is closed after this time; earlier when the endpoint is known to.
    pub idle_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// The same for the TLS handshake.
    pub handshake_timeout: Duration,
    /// The servers close idle connections only by exiting. A connection used a moment ago is then reused without asking the kernel whether it is still open: the
    /// reactor's knowledge is enough.
    pub trusts: bool,
}

/// See [`PoolSettings::trusts`]. A busy reactor polls several times within it.
const MOMENT: Duration = Duration::from_millis(1);

impl Default for PoolSettings {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            max: usize::MAX,
            max_in_all: usize::MAX,
            idle: 64,
            min_idle: 0,
            max_age: HOUR,
            max_requests: 10_000,
            idle_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(10),
            trusts: false,
        }
    }
}

impl PoolSettings {
    /// Whether a connection may carry one more request.
    pub(super) fn allows<C: Codec>(&self, client: &Client<C>, now: Instant) -> bool {
        client.requests() < self.max_requests && now.saturating_duration_since(client.opened()) < self.max_age
    }

    /// Whether a connection that was idle this long on the taker's own thread may be used without a check.
    pub(super) fn trusts(&self, idled: Duration, need: ConnectionNeed) -> bool {
        self.trusts && need == ConnectionNeed::Any && idled < MOMENT
    }

    /// The minimum number of idle connections.
    pub(super) fn kept(&self) -> usize {
        self.min_idle.min(self.idle)
    }
}

/// What a request needs of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionNeed {
    /// Any: the request can be retried if the connection turns out to be closed.
    Any,
    /// One that is almost certainly open: the request cannot be retried (see [`keepwarm_policy::KeepAlive::may_use`]).
    Fresh,
    /// A new one.
    New,
}
