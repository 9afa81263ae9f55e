//! Meters of calls to upstreams, by upstream and endpoint. As in [`crate::meters`], a meter lives as long as the process.
//!
//! Names that discovery brings come and go, and a series for each would never end: beyond [`ENDPOINTS_MAX`] of an upstream the rest is counted together.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::connections::{ConnectionCounts, ConnectionTotals};
use crate::meters::CLASSES;
use crate::per_thread::{Histogram, HistogramTotals, PerThread, ThreadCounter};

/// Endpoints of one upstream that have meters of their own.
pub const ENDPOINTS_MAX: usize = 100;
/// The name for all other endpoints.
pub const OTHER_ENDPOINTS: &str = "other";

/// The meter of the calls to one endpoint.
#[derive(Debug)]
pub struct EndpointMeter {
    /// The name of the upstream.
    pub upstream: Box<str>,
    /// The endpoint; empty for calls without one.
    pub endpoint: Box<str>,
    /// The connections to it.
    pub connections: ConnectionCounts,
    threads: PerThread<EndpointCells>,
}

/// The part of one thread of an [`EndpointMeter`].
#[derive(Debug, Default)]
struct EndpointCells {
    classes: [ThreadCounter; CLASSES.len()],
    duration: Histogram,
    first_byte: Histogram,
    reused: ThreadCounter,
    dialled: ThreadCounter,
    sent: ThreadCounter,
    received: ThreadCounter,
    hedged: ThreadCounter,
}

/// A call that is over.
#[derive(Debug, Clone, Copy)]
pub struct FinishedCall {
    /// The status of the response to the caller; 0: none.
    pub status: u16,
    /// From the call's head to the end of its response, every attempt included.
    pub elapsed: Duration,
    /// From having a connection to the head of the response; none when there was no response.
    pub first_byte: Option<Duration>,
    /// Whether its connection was kept from another call; none when it had none.
    pub reused: Option<bool>,
    /// Bytes of the request's body.
    pub sent: u64,
    /// Bytes of the response's body.
    pub received: u64,
    /// A second attempt was sent beside the first.
    pub hedged: bool,
}

/// Totals of the calls to an endpoint.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndpointTotals {
    /// Calls by [`CLASSES`].
    pub classes: [u64; CLASSES.len()],
    /// Whole times.
    pub duration: HistogramTotals,
    /// Times until the head of the response.
    pub first_byte: HistogramTotals,
    /// Calls on a connection that was kept.
    pub reused: u64,
    /// Calls that waited for a new one.
    pub dialled: u64,
    /// Bytes of requests' bodies.
    pub sent: u64,
    /// Bytes of responses' bodies.
    pub received: u64,
    /// Calls with a second attempt beside the first.
    pub hedged: u64,
}

impl EndpointMeter {
    /// Counts a call; on the data-plane thread of this index only.
    pub fn count(&self, thread: usize, call: &FinishedCall) {
        let cells = self.threads.of(thread);
        if let Some(class) = cells.classes.get(crate::meters::class_of(call.status)) {
            class.add(1);
        }
        cells.duration.observe(call.elapsed);
        if let Some(first_byte) = call.first_byte {
            cells.first_byte.observe(first_byte);
        }
        match call.reused {
            Some(true) => cells.reused.add(1),
            Some(false) => cells.dialled.add(1),
            None => {}
        }
        cells.sent.add(call.sent);
        cells.received.add(call.received);
        if call.hedged {
            cells.hedged.add(1);
        }
    }

    /// All threads together.
    #[must_use]
    pub fn totals(&self) -> EndpointTotals {
        let mut totals = EndpointTotals::default();
        for cells in self.threads.iter() {
            totals.classes.iter_mut().zip(&cells.classes).for_each(|(sum, cell)| *sum += cell.value());
            totals.duration.add(&cells.duration);
            totals.first_byte.add(&cells.first_byte);
            totals.reused += cells.reused.value();
            totals.dialled += cells.dialled.value();
            totals.sent += cells.sent.value();
            totals.received += cells.received.value();
            totals.hedged += cells.hedged.value();
        }
        totals
    }
}

/// The meter of an endpoint, created if there is none yet and the limit allows it.
#[must_use]
pub fn endpoint(upstream: &str, endpoint: &str) -> &'static EndpointMeter {
    let mut meters = lock();
    let of_upstream = meters.entry(upstream.into()).or_default();
    if let Some(meter) = of_upstream.get(endpoint) {
        return meter;
    }
    // The empty name and `other` are not endpoints, and do not count.
    let known = of_upstream.keys().filter(|name| !name.is_empty() && &***name != OTHER_ENDPOINTS).count();
    let name = if endpoint.is_empty() || known < ENDPOINTS_MAX { endpoint } else { OTHER_ENDPOINTS };
    of_upstream.entry(name.into()).or_insert_with(|| {
        let (upstream, endpoint) = (upstream.into(), name.into());
        Box::leak(Box::new(EndpointMeter {
            upstream,
            endpoint,
            connections: ConnectionCounts::default(),
            threads: PerThread::new(),
        }))
    })
}

/// The connections to all endpoints of an upstream, those that are gone included.
#[must_use]
pub fn connections(upstream: &str) -> ConnectionTotals {
    let meters = lock();
    let of_upstream = meters.get(upstream).into_iter().flat_map(BTreeMap::values);
    of_upstream.fold(ConnectionTotals::default(), |sum, meter| sum + meter.connections.totals())
}

/// All meters, in the order of their names.
#[must_use]
pub fn endpoints() -> Vec<&'static EndpointMeter> {
    lock().values().flat_map(|meters| meters.values().copied()).collect()
}

type Meters = BTreeMap<Box<str>, BTreeMap<Box<str>, &'static EndpointMeter>>;
static METERS: Mutex<Meters> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, Meters> {
    METERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(status: u16, reused: Option<bool>) -> FinishedCall {
        let elapsed = Duration::from_millis(2);
        FinishedCall {
            status,
            elapsed,
            first_byte: reused.map(|_| elapsed),
            reused,
            sent: 3,
            received: 5,
            hedged: false,
        }
    }

    #[test]
    fn calls_are_counted_by_status_and_by_connection() {
        let meter = endpoint("counted", "127.0.0.1:1");
        for finished in [call(200, Some(true)), call(200, Some(false)), call(503, None), call(0, Some(true))]
        {
            meter.count(0, &finished);
        }
        let totals = meter.totals();
        assert_eq!(totals.classes, [1, 0, 2, 0, 0, 1]);
        assert_eq!((totals.reused, totals.dialled), (2, 1));
        assert_eq!((totals.duration.count(), totals.first_byte.count()), (4, 3));
        assert_eq!((totals.sent, totals.received), (12, 20));
    }

    #[test]
    fn there_are_only_so_many_endpoints() {
        for number in 0..2 * ENDPOINTS_MAX {
            let _ = endpoint("many", &number.to_string());
        }
        let names = || endpoints().into_iter().filter(|meter| &*meter.upstream == "many").count();
        assert_eq!(names(), ENDPOINTS_MAX + 1);
        assert_eq!(&*endpoint("many", "199").endpoint, OTHER_ENDPOINTS);
        assert_eq!(&*endpoint("many", "").endpoint, "");
        assert!(std::ptr::eq(endpoint("many", "7"), endpoint("many", "7")));
    }
}
