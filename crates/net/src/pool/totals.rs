//! What a pool counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::connect::{AcquireError, DialTimes};

/// What has happened in a pool since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolTotals {
    /// Uses of a connection that was there.
    pub reused: u64,
    /// Connections that were made.
    pub dialled: u64,
    /// What connecting them took, without TLS.
    pub connect_time: Duration,
    /// Connections that could not be made, for whatever reason.
    pub dials_failed: u64,
    /// Full TLS handshakes.
    pub handshakes_full: u64,
    /// TLS handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// What both took.
    pub handshake_time: Duration,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
    /// Uses of a connection that would have cost a TLS handshake, had there been none.
    pub handshakes_avoided: u64,
    /// Bytes of certificates that were not sent to us for that, or because a session was resumed.
    pub certificate_bytes_avoided: u64,
    /// Idle connections that the server closed.
    pub closed_idle: u64,
    /// Requests that were lost on a connection which the server closed meanwhile, and were sent again.
    pub lost_retried: u64,
    /// The same, and the caller was told of a failure.
    pub lost_failed: u64,
}

impl std::ops::Add for PoolTotals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reused: self.reused + other.reused,
            dialled: self.dialled + other.dialled,
            connect_time: self.connect_time + other.connect_time,
            dials_failed: self.dials_failed + other.dials_failed,
            handshakes_full: self.handshakes_full + other.handshakes_full,
            handshakes_resumed: self.handshakes_resumed + other.handshakes_resumed,
            handshake_time: self.handshake_time + other.handshake_time,
            handshakes_failed: self.handshakes_failed + other.handshakes_failed,
            handshakes_avoided: self.handshakes_avoided + other.handshakes_avoided,
            certificate_bytes_avoided: self.certificate_bytes_avoided + other.certificate_bytes_avoided,
            closed_idle: self.closed_idle + other.closed_idle,
            lost_retried: self.lost_retried + other.lost_retried,
            lost_failed: self.lost_failed + other.lost_failed,
        }
    }
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

/// The connections of a pool, by what they are doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Kept for the next request.
    pub idle: usize,
    /// Carrying one.
    pub in_use: usize,
    /// Being made.
    pub dialling: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
}

/// [`PoolTotals`] as they grow.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    reused: AtomicU64,
    dialled: AtomicU64,
    connect_nanos: AtomicU64,
    dials_failed: AtomicU64,
    handshakes_full: AtomicU64,
    handshakes_resumed: AtomicU64,
    handshake_nanos: AtomicU64,
    handshakes_failed: AtomicU64,
    handshakes_avoided: AtomicU64,
    certificate_bytes_avoided: AtomicU64,
    closed_idle: AtomicU64,
    lost_retried: AtomicU64,
    lost_failed: AtomicU64,
}

impl Counts {
    /// A connection is used again; `certificate_bytes`: of its server, under TLS.
    pub(crate) fn reuse(&self, certificate_bytes: Option<usize>) {
        add(&self.reused, 1);
        if let Some(bytes) = certificate_bytes {
            add(&self.handshakes_avoided, 1);
            add(&self.certificate_bytes_avoided, bytes as u64);
        }
    }

    pub(crate) fn dial(&self, times: &DialTimes) {
        add(&self.dialled, 1);
        add(&self.connect_nanos, nanos(times.connect));
        let Some((took, facts)) = times.handshake else { return };
        add(&self.handshake_nanos, nanos(took));
        match facts.resumed {
            true => {
                add(&self.handshakes_resumed, 1);
                add(&self.certificate_bytes_avoided, facts.certificate_bytes as u64);
            }
            false => add(&self.handshakes_full, 1),
        }
    }

    pub(crate) fn dial_failed(&self, error: &AcquireError) {
        add(&self.dials_failed, 1);
        if matches!(error, AcquireError::Tls(_) | AcquireError::HandshakeTimeout) {
            add(&self.handshakes_failed, 1);
        }
    }

    pub(crate) fn closed_idle(&self) {
        add(&self.closed_idle, 1);
    }

    pub(crate) fn lost(&self, retried: bool) {
        add(if retried { &self.lost_retried } else { &self.lost_failed }, 1);
    }

    pub(crate) fn totals(&self) -> PoolTotals {
        PoolTotals {
            reused: get(&self.reused),
            dialled: get(&self.dialled),
            connect_time: Duration::from_nanos(get(&self.connect_nanos)),
            dials_failed: get(&self.dials_failed),
            handshakes_full: get(&self.handshakes_full),
            handshakes_resumed: get(&self.handshakes_resumed),
            handshake_time: Duration::from_nanos(get(&self.handshake_nanos)),
            handshakes_failed: get(&self.handshakes_failed),
            handshakes_avoided: get(&self.handshakes_avoided),
            certificate_bytes_avoided: get(&self.certificate_bytes_avoided),
            closed_idle: get(&self.closed_idle),
            lost_retried: get(&self.lost_retried),
            lost_failed: get(&self.lost_failed),
        }
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
