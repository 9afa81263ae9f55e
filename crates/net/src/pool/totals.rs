//! What a pool counts, and where: in its own counts, or in a meter per endpoint.

use std::fmt;
use std::sync::Arc;

use keepwarm_telemetry::connections::{ConnectionCounts, Handshake};

pub use keepwarm_telemetry::connections::ConnectionTotals as PoolTotals;

use crate::Endpoint;
use crate::connect::{AcquireError, DialTimes};

/// Provides the counts for the connections to an endpoint.
pub type EndpointMeter = dyn Fn(&Endpoint) -> &'static ConnectionCounts + Send + Sync;

/// Where the connections of a pool are counted.
#[derive(Default)]
pub(crate) struct PoolCounters {
    own: ConnectionCounts,
    of: Option<Arc<EndpointMeter>>,
}

/// The counts for one endpoint; none: it is counted with the whole pool.
pub(crate) type Meter = Option<&'static ConnectionCounts>;

impl PoolCounters {
    pub(crate) fn new(of: Option<Arc<EndpointMeter>>) -> Self {
        Self { of, ..Self::default() }
    }

    /// Called once per endpoint: it may look up a name.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Meter {
        self.of.as_ref().map(|of| of(endpoint))
    }

    pub(crate) fn counts(&self, meter: Meter) -> &ConnectionCounts {
        meter.unwrap_or(&self.own)
    }

    /// The counts kept here, and nowhere else.
    pub(crate) fn totals(&self) -> PoolTotals {
        self.own.totals()
    }
}

impl fmt::Debug for PoolCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

/// Counts a successful dial.
pub(crate) fn count_dial(counts: &ConnectionCounts, times: &DialTimes) {
    let handshake = times.handshake.map(|(took, facts)| Handshake {
        took,
        resumed: facts.resumed,
        certificate_bytes: facts.certificate_bytes,
    });
    counts.dial(times.connect, handshake);
}

/// Counts a failed dial.
pub(crate) fn count_failed_dial(counts: &ConnectionCounts, error: &AcquireError) {
    counts.dial_failed(matches!(error, AcquireError::Tls(_) | AcquireError::HandshakeTimeout));
}

impl std::ops::Add for PoolState {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            idle: self.idle + other.idle,
            in_use: self.in_use + other.in_use,
            dialling: self.dialling + other.dialling,
            waiting: self.waiting + other.waiting,
        }
    }
}

/// The connections of a pool, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Kept for the next request.
    pub idle: usize,
    /// Carrying a request.
    pub in_use: usize,
    /// Being made.
    pub dialling: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
}
