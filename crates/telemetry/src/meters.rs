//! Meters of routes and listeners. A meter is created when a configuration with its route or listener is applied, and lives as long as the process, so that
//! a reload loses no count; there are as many as routes and listeners were ever configured.

mod exemplars;
mod handshakes;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

pub use self::exemplars::Exemplar;
use self::exemplars::Exemplars;
pub use self::handshakes::{HANDSHAKE_FAILURES, HandshakeCells, HandshakeTotals};
use crate::per_thread::{Histogram, HistogramTotals, PerThread, ThreadCounter, nanos};

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
    exemplars: Exemplars,
    /// From this duration on a request is slow, in nanoseconds.
    slow_ns: AtomicU64,
    /// From this duration on a request takes longer than is usual, in nanoseconds.
    unusual_ns: AtomicU64,
}

/// The duration from which on a request is slow, as long as nobody has set another ([`RouteMeter::set_slow`]).
pub const SLOW: Duration = Duration::from_secs(1);

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
    /// Counts a request; on the data-plane thread of this index only. Returns whether it took so long that it may be slow.
    pub fn count(&self, thread: usize, request: &FinishedRequest) -> bool {
        let cells = self.threads.of(thread);
        if let Some(class) = cells.classes.get(class_of(request.status)) {
            class.add(1);
        }
        let took = nanos(request.elapsed);
        cells.duration.observe_nanos(took);
        if let Some(phases) = &request.phases {
            cells.queue.observe(phases.queue);
            cells.app.observe(phases.app);
            cells.write.observe(phases.write);
        }
        took >= self.slow_ns.load(Ordering::Relaxed)
    }

    /// From which duration on its requests are slow.
    #[must_use]
    pub fn slow(&self) -> Duration {
        Duration::from_nanos(self.slow_ns.load(Ordering::Relaxed))
    }

    /// Sets it, from the next request on.
    pub fn set_slow(&self, slow: Duration) {
        self.slow_ns.store(nanos(slow), Ordering::Relaxed);
    }

    /// From which duration on a request takes longer than is usual for its route, whatever is called slow ([`SLOW`] as long as nobody has set another).
    #[must_use]
    pub fn unusual(&self) -> Duration {
        Duration::from_nanos(self.unusual_ns.load(Ordering::Relaxed))
    }

    /// Sets it, from the next request on.
    pub fn set_unusual(&self, unusual: Duration) {
        self.unusual_ns.store(nanos(unusual), Ordering::Relaxed);
    }

    /// Keeps the trace of a request that is sent to a collector, as the exemplar of its duration.
    pub fn note_trace(&self, trace_id: [u8; 32], elapsed: Duration, now: SystemTime) {
        self.exemplars.note(trace_id, elapsed, now);
    }

    /// The exemplars of durations: the newest of each bucket.
    #[must_use]
    pub fn exemplars(&self) -> Vec<Exemplar> {
        self.exemplars.all()
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
    /// Responses cut because their client took them too slowly.
    pub too_slow: ThreadCounter,
    /// Times that accepting had to wait for a connection to end.
    pub waited: ThreadCounter,
    /// Microseconds of these waits in which no open connection was idle.
    pub blocked_us: ThreadCounter,
    /// Bytes read from clients.
    pub received: ThreadCounter,
    /// Bytes that sockets took for clients.
    pub sent: ThreadCounter,
    /// TLS handshakes.
    pub handshakes: HandshakeCells,
    /// Connections whose client spoke HTTP/2.
    pub http2: ThreadCounter,
    /// Streams that clients reset.
    pub http2_client_resets: ThreadCounter,
    /// Streams that we reset because of an error.
    pub http2_our_resets: ThreadCounter,
    /// Requests refused before a route saw them.
    pub http2_refused: ThreadCounter,
    http2_faults: [ThreadCounter; Http2Fault::ALL.len()],
}

impl ListenerCells {
    /// Counts an HTTP/2 connection that was ended because of its client.
    pub fn count_http2_fault(&self, fault: Http2Fault) {
        if let Some(cell) = self.http2_faults.get(fault as usize) {
            cell.add(1);
        }
    }
}

/// Why an HTTP/2 connection was ended before its time, by the fault of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http2Fault {
    /// It cancels too many of its requests (CVE-2023-44487).
    Resets,
    /// It provokes resets from us (CVE-2025-8671).
    MadeResets,
    /// CONTINUATION frames without end (CVE-2024-27316).
    Continuations,
    /// PING, SETTINGS, WINDOW_UPDATE, empty or ignored frames without progress (CVE-2019-9512, -9513, -9515, -9518).
    Chatter,
    /// A head far above the limit, or DATA in frames that take more memory than they carry.
    Excess,
    /// Half of a head for too long.
    HeadTimeout,
    /// It takes nothing of what was sent.
    WriteTimeout,
    /// A connection error (RFC 9113 §5.4.1): invalid frames, HPACK, flow control.
    Protocol,
}

impl Http2Fault {
    /// All, in the order of their values.
    pub const ALL: [Self; 8] = [
        Self::Resets,
        Self::MadeResets,
        Self::Continuations,
        Self::Chatter,
        Self::Excess,
        Self::HeadTimeout,
        Self::WriteTimeout,
        Self::Protocol,
    ];

    /// A stable name, for the log and the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resets => "http2_resets",
            Self::MadeResets => "http2_made_resets",
            Self::Continuations => "http2_continuations",
            Self::Chatter => "http2_chatter",
            Self::Excess => "http2_excess",
            Self::HeadTimeout => "http2_head_timeout",
            Self::WriteTimeout => "http2_write_timeout",
            Self::Protocol => "http2_protocol_error",
        }
    }
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
    /// Responses cut because their client took them too slowly.
    pub too_slow: u64,
    /// Times that accepting had to wait.
    pub waited: u64,
    /// Microseconds of these waits in which no open connection was idle.
    pub blocked_us: u64,
    /// Bytes in.
    pub received: u64,
    /// Bytes out.
    pub sent: u64,
    /// TLS handshakes.
    pub handshakes: HandshakeTotals,
    /// Connections of HTTP/2.
    pub http2: u64,
    /// Streams of HTTP/2 reset by clients.
    pub http2_client_resets: u64,
    /// Streams of HTTP/2 reset by us.
    pub http2_our_resets: u64,
    /// Requests of HTTP/2 refused before a route saw them.
    pub http2_refused: u64,
    /// HTTP/2 connections ended by each of [`Http2Fault::ALL`].
    pub http2_faults: [u64; Http2Fault::ALL.len()],
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
            too_slow: sum(|cells| &cells.too_slow),
            waited: sum(|cells| &cells.waited),
            blocked_us: sum(|cells| &cells.blocked_us),
            received: sum(|cells| &cells.received),
            sent: sum(|cells| &cells.sent),
            handshakes: self.threads.iter().map(|cells| &cells.handshakes).collect(),
            http2: sum(|cells| &cells.http2),
            http2_client_resets: sum(|cells| &cells.http2_client_resets),
            http2_our_resets: sum(|cells| &cells.http2_our_resets),
            http2_refused: sum(|cells| &cells.http2_refused),
            http2_faults: std::array::from_fn(|at| {
                self.threads
                    .iter()
                    .filter_map(|cells| cells.http2_faults.get(at))
                    .map(ThreadCounter::value)
                    .sum()
            }),
        }
    }
}

/// The meter of a route, created if there is none yet.
#[must_use]
pub fn route(app: &str, route: &str) -> &'static RouteMeter {
    lock(&ROUTES).entry((app.into(), route.into())).or_insert_with(|| {
        Box::leak(Box::new(RouteMeter {
            app: app.into(),
            route: route.into(),
            threads: PerThread::new(),
            exemplars: Exemplars::default(),
            slow_ns: AtomicU64::new(SLOW.as_nanos() as u64),
            unusual_ns: AtomicU64::new(SLOW.as_nanos() as u64),
        }))
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
