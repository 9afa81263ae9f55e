//! How many connections a pool keeps, and how long.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::{Client, Codec};

/// How many connections are kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Connections to one endpoint at once, idle and in use; more wait. The server's own limit is the reason to lower it.
    pub max: usize,
    /// The same to all endpoints together, of every thread and version of HTTP.
    pub max_in_all: usize,
    /// Idle connections to one endpoint; one more is closed.
    pub idle: usize,
    /// As many lie idle at any time, made before they are asked for, as far as `max` and `idle` allow.
    pub min_idle: usize,
    /// A connection is not used again beyond this age, so that load moves on to new addresses and memory that grew with it is given back.
    pub max_age: Duration,
    /// Nor after so many requests.
    pub max_requests: u64,
    /// An idle connection is closed after this time; earlier when the endpoint is known to.
    pub idle_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// And the TLS handshake after it.
    pub handshake_timeout: Duration,
    /// The servers close no idle connection but by ending. What was used a moment ago is then used again without asking the kernel whether it is still open: what the
    /// reactor has heard is enough.
    pub trusts: bool,
}

/// See [`PoolSettings::trusts`]. A busy reactor hears of everything several times in it.
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

    /// Whether one that was idle for so long on the thread that takes it may be used without a look.
    pub(super) fn trusts(&self, idled: Duration, need: ConnectionNeed) -> bool {
        self.trusts && need == ConnectionNeed::Any && idled < MOMENT
    }

    /// How many lie idle at least.
    pub(super) fn kept(&self) -> usize {
        self.min_idle.min(self.idle)
    }
}

/// What a request needs of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionNeed {
    /// Any will do: the request can be sent again should the connection turn out to be closed.
    Any,
    /// One that is almost certainly open: the request cannot be sent again (see [`keepwarm_policy::KeepAlive::may_use`]).
    Fresh,
    /// A new one.
    New,
}
