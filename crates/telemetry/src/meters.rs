//! Meters of routes and listeners. A meter is created when a configuration with its route or listener is applied, and lives as long as the process, so that
//! a reload loses no count; there are as many as routes and listeners were ever configured.

mod handshakes;

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::handshakes::{HANDSHAKE_FAILURES, HandshakeCells, HandshakeTotals};
use crate::per_thread::{Histogram, HistogramTotals, PerThread, ThreadCounter};

/// Classes of statuses: `none` is a connection that ended before a response.
pub const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The meter of the requests of one route.
#[derive(Debug)]
pub struct RouteMeter {
    /// The app; empty if none responds.
    pub app: Box<str>,
    /// The pattern of the route, as configured; empty for requests without one.
    pub route: Box<str>,
    threads: PerThread<RouteCells>,
}

#[derive(Debug, Default)]
struct RouteCells {
    classes: [ThreadCounter; CLASSES.len()],
    duration: Histogram,
    queue: Histogram,
    app: Histogram,
    write: Histogram,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy)]
pub struct FinishedRequest {
    /// The status; 0: none was sent.
    pub status: u16,
    /// From the first byte of the head to the last byte of the response taken by the socket.
    pub elapsed: Duration,
    /// Its phases, if an app had it.
    pub phases: Option<RequestPhases>,
}

/// Duration of the phases of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestPhases {
    /// Waiting for a worker.
    pub queue: Duration,
    /// In the worker.
    pub app: Duration,
    /// After that, writing the rest of the response to the client.
    pub write: Duration,
}

/// Totals of the requests of a route.
#[derive(Debug, Clone, Copy, Default)]
pub struct RouteTotals {
    /// Requests by [`CLASSES`].
    pub classes: [u64; CLASSES.len()],
    /// Whole times.
    pub duration: HistogramTotals,
    /// Times in the queue.
    pub queue: HistogramTotals,
    /// Times in the app.
    pub app: HistogramTotals,
    /// Times of the writes.
    pub write: HistogramTotals,
}

impl RouteMeter {
    /// Counts a request; on the data-plane thread of this index only.
    pub fn count(&self, thread: usize, request: &FinishedRequest) {
        let cells = self.threads.of(thread);
        if let Some(class) = cells.classes.get(class_of(request.status)) {
            class.add(1);
        }
        cells.duration.observe(request.elapsed);
        if let Some(phases) = &request.phases {
            cells.queue.observe(phases.queue);
            cells.app.observe(phases.app);
            cells.write.observe(phases.write);
        }
    }

    /// All threads together.
    #[must_use]
    pub fn totals(&self) -> RouteTotals {
        let mut totals = RouteTotals::default();
        for cells in self.threads.iter() {
            totals.classes.iter_mut().zip(&cells.classes).for_each(|(sum, cell)| *sum += cell.value());
            totals.duration.add(&cells.duration);
            totals.queue.add(&cells.queue);
            totals.app.add(&cells.app);
            totals.write.add(&cells.write);
        }
        totals
    }
}

/// The meter of the connections of one listener.
#[derive(Debug)]
pub struct ListenerMeter {
    /// Its name in the configuration.
    pub name: Box<str>,
    threads: PerThread<ListenerCells>,
}

/// The part of one thread of a [`ListenerMeter`].
#[derive(Debug, Default)]
pub struct ListenerCells {
    /// Connections that were accepted.
    pub accepted: ThreadCounter,
    /// Those of them that have ended.
    pub closed: ThreadCounter,
    /// Connections refused because their client has too many.
    pub refused: ThreadCounter,
    /// Idle connections closed to make room for others.
    pub evicted: ThreadCounter,
    /// Times that accepting had to wait for a connection to end.
    pub waited: ThreadCounter,
    /// Bytes read from clients.
    pub received: ThreadCounter,
    /// Bytes that sockets took for clients.
    pub sent: ThreadCounter,
    /// TLS handshakes.
    pub handshakes: HandshakeCells,
}

/// Totals of the connections of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenerTotals {
    /// Accepted so far.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Refused.
    pub refused: u64,
    /// Closed while idle, to make room.
    pub evicted: u64,
    /// Times that accepting had to wait.
    pub waited: u64,
    /// Bytes in.
    pub received: u64,
    /// Bytes out.
    pub sent: u64,
    /// TLS handshakes.
    pub handshakes: HandshakeTotals,
}

impl ListenerMeter {
    /// The cells of the data-plane thread of this index.
    #[must_use]
    pub fn of(&self, thread: usize) -> &ListenerCells {
        self.threads.of(thread)
    }

    /// All threads together.
    #[must_use]
    pub fn totals(&self) -> ListenerTotals {
        // Closed connections first: then each of them is counted as accepted, too.
        let closed: u64 = self.threads.iter().map(|cells| cells.closed.value()).sum();
        let sum = |cell: fn(&ListenerCells) -> &ThreadCounter| -> u64 {
            self.threads.iter().map(|cells| cell(cells).value()).sum()
        };
        let accepted = sum(|cells| &cells.accepted);
        ListenerTotals {
            accepted,
            open: accepted.saturating_sub(closed),
            refused: sum(|cells| &cells.refused),
            evicted: sum(|cells| &cells.evicted),
            waited: sum(|cells| &cells.waited),
            received: sum(|cells| &cells.received),
            sent: sum(|cells| &cells.sent),
            handshakes: self.threads.iter().map(|cells| &cells.handshakes).collect(),
        }
    }
}

/// The meter of a route, created if there is none yet.
#[must_use]
pub fn route(app: &str, route: &str) -> &'static RouteMeter {
    lock(&ROUTES).entry((app.into(), route.into())).or_insert_with(|| {
        Box::leak(Box::new(RouteMeter { app: app.into(), route: route.into(), threads: PerThread::new() }))
    })
}

/// The meters of all routes, in the order of their names.
#[must_use]
pub fn routes() -> Vec<&'static RouteMeter> {
    lock(&ROUTES).values().copied().collect()
}

/// The meter of a listener, created if there is none yet.
#[must_use]
pub fn listener(name: &str) -> &'static ListenerMeter {
    lock(&LISTENERS).entry(name.into()).or_insert_with(|| {
        Box::leak(Box::new(ListenerMeter { name: name.into(), threads: PerThread::new() }))
    })
}

/// A meter that is in no list, for listeners that are not part of the service.
#[must_use]
pub fn unlisted() -> &'static ListenerMeter {
    static UNLISTED: LazyLock<ListenerMeter> =
        LazyLock::new(|| ListenerMeter { name: "".into(), threads: PerThread::new() });
    &UNLISTED
}

/// The meters of all listeners, in the order of their names.
#[must_use]
pub fn listeners() -> Vec<&'static ListenerMeter> {
    lock(&LISTENERS).values().copied().collect()
}

type Routes = BTreeMap<(Box<str>, Box<str>), &'static RouteMeter>;
static ROUTES: Mutex<Routes> = Mutex::new(BTreeMap::new());
static LISTENERS: Mutex<BTreeMap<Box<str>, &'static ListenerMeter>> = Mutex::new(BTreeMap::new());

fn lock<T>(meters: &Mutex<T>) -> MutexGuard<'_, T> {
    meters.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Index of the class of a status: 0 for none, 1xx to 5xx. A status above those counts as a 5xx (RFC 9110 §15).
pub(crate) fn class_of(status: u16) -> usize {
    usize::from(status / 100).min(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_counted_by_class() {
        let meter = route("classes", "/*");
        for status in [0, 101, 200, 299, 404, 503, 600, 999] {
            meter.count(0, &FinishedRequest { status, elapsed: Duration::from_millis(1), phases: None });
        }
        let totals = meter.totals();
        assert_eq!(totals.classes, [1, 1, 2, 0, 1, 3]);
        assert_eq!((totals.duration.count(), totals.queue.count()), (8, 0));
    }

    #[test]
    fn a_meter_is_found_again() {
        assert!(std::ptr::eq(route("again", "/x"), route("again", "/x")));
        assert!(routes().iter().any(|meter| &*meter.app == "again" && &*meter.route == "/x"));
        assert!(std::ptr::eq(listener("again"), listener("again")));
    }

    #[test]
    fn open_connections_are_those_that_have_not_ended() {
        let meter = listener("open");
        meter.of(0).accepted.add(3);
        meter.of(0).closed.add(1);
        meter.of(0).received.add(10);
        let totals = meter.totals();
        assert_eq!((totals.accepted, totals.open, totals.received), (3, 2, 10));
    }
}
