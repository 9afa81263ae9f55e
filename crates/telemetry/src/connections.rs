//! Counters of connections to servers. The connection pools count here, from any thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::per_thread::nanos;

/// Totals of connections to servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// Uses of a pooled connection.
    pub reused: u64,
    /// New connections.
    pub dialled: u64,
    /// Time for connecting them, without TLS.
    pub connect_time: Duration,
    /// Failed attempts to connect, for any reason.
    pub dials_failed: u64,
    /// Full TLS handshakes.
    pub handshakes_full: u64,
    /// TLS handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Time for both.
    pub handshake_time: Duration,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
    /// Uses of a pooled connection that saved a TLS handshake.
    pub handshakes_avoided: u64,
    /// Bytes of certificates that this, and resumed sessions, saved.
    pub certificate_bytes_avoided: u64,
    /// Idle connections that the server closed.
    pub closed_idle: u64,
    /// Requests lost on a connection that the server closed, and retried.
    pub lost_retried: u64,
    /// Requests lost on such a connection, and failed.
    pub lost_failed: u64,
}

impl std::ops::Add for ConnectionTotals {
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

/// Counters of [`ConnectionTotals`].
#[derive(Debug, Default)]
pub struct ConnectionCounts {
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

/// A TLS handshake.
#[derive(Debug, Clone, Copy)]
pub struct Handshake {
    /// From its first byte to its last.
    pub took: Duration,
    /// It resumed a session.
    pub resumed: bool,
    /// Size of the server's certificates.
    pub certificate_bytes: usize,
}

impl ConnectionCounts {
    /// A connection is reused; `certificate_bytes`: size of the server's certificates, under TLS.
    pub fn reuse(&self, certificate_bytes: Option<usize>) {
        add(&self.reused, 1);
        if let Some(bytes) = certificate_bytes {
            add(&self.handshakes_avoided, 1);
            add(&self.certificate_bytes_avoided, bytes as u64);
        }
    }

    /// A connection was established, without TLS or with a handshake.
    pub fn dial(&self, connect: Duration, handshake: Option<Handshake>) {
        add(&self.dialled, 1);
        add(&self.connect_nanos, nanos(connect));
        let Some(handshake) = handshake else { return };
        add(&self.handshake_nanos, nanos(handshake.took));
        match handshake.resumed {
            true => {
                add(&self.handshakes_resumed, 1);
                add(&self.certificate_bytes_avoided, handshake.certificate_bytes as u64);
            }
            false => add(&self.handshakes_full, 1),
        }
    }

    /// A connection could not be established; `handshake`: because of TLS.
    pub fn dial_failed(&self, handshake: bool) {
        add(&self.dials_failed, 1);
        add(&self.handshakes_failed, u64::from(handshake));
    }

    /// The server closed an idle connection.
    pub fn closed_idle(&self) {
        add(&self.closed_idle, 1);
    }

    /// A request was lost on a connection that the server closed.
    pub fn lost(&self, retried: bool) {
        add(if retried { &self.lost_retried } else { &self.lost_failed }, 1);
    }

    /// The totals so far.
    #[must_use]
    pub fn totals(&self) -> ConnectionTotals {
        ConnectionTotals {
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
