//! The load of one endpoint: requests in flight, and a moving average of its response times that rises at once and falls slowly (Finagle's `PeakEwma`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The average falls to half in 2^33 ns, 8.6 s: near to Finagle's decay of 10 s (to a third), and divided by with a shift.
const HALF_LIFE: u32 = 33;
/// A response sooner after the previous one is skipped unless it is slower, so that not every response writes to memory that all threads read.
const GRAIN: u64 = 100_000;
/// Bits for fractions of a nanosecond: small steps would be lost otherwise.
const FRACTION: u32 = 8;
/// The longest time that counts, about 70 s.
const LONGEST: u64 = 1 << 36;

/// Shared by all threads. Two that write at once may lose one response's time, never a count.
#[derive(Debug)]
pub struct EndpointLoad {
    outstanding: AtomicU32,
    /// Nanoseconds, with a fraction.
    average: AtomicU64,
    /// Time of the average, in nanoseconds since `origin`.
    stamp: AtomicU64,
    origin: Instant,
}

impl EndpointLoad {
    /// Without requests and samples.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            outstanding: AtomicU32::new(0),
            average: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
            origin: now,
        }
    }

    /// A request begins. Call [`EndpointLoad::handle_end`] for each.
    pub fn handle_begin(&self) {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has ended.
    pub fn handle_end(&self) {
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
    }

    /// A response began after this time, or (`failed`) none came: a quick failure must not make an endpoint look fast.
    pub fn handle_response(&self, took: Duration, failed: bool, now: Instant) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).clamp(1, LONGEST) << FRACTION;
        let (average, stamp) = (self.average.load(Ordering::Relaxed), self.stamp.load(Ordering::Relaxed));
        let at = self.since_origin(now);
        let elapsed = at.saturating_sub(stamp);
        let next = if took >= average || average == 0 {
            took
        } else if failed || elapsed < GRAIN {
            return;
        } else {
            // Weights that add up to one, so that the average never falls below what came.
            took + fade(average - took, elapsed)
        };
        self.average.store(next, Ordering::Relaxed);
        self.stamp.store(at, Ordering::Relaxed);
    }

    /// Requests in flight.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// The average as of now; it fades without responses, so that an endpoint that was slow is tried again. Zero: nothing is known.
    #[must_use]
    pub fn average(&self, now: Instant) -> Duration {
        let (average, stamp) = (self.average.load(Ordering::Relaxed), self.stamp.load(Ordering::Relaxed));
        Duration::from_nanos(fade(average, self.since_origin(now).saturating_sub(stamp)) >> FRACTION)
    }

    fn since_origin(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// `value` after `elapsed` nanoseconds: halved for each half-life, and between two halvings on the parabola 1 - (4x - x²) / 6, whose slope at its ends is that of the exponential to
/// a twentieth: many small steps come to the same as a large one.
fn fade(value: u64, elapsed: u64) -> u64 {
    const BITS: u32 = 30;
    let halvings = u32::try_from(elapsed >> HALF_LIFE).unwrap_or(u32::MAX);
    let halved = value.checked_shr(halvings).unwrap_or(0);
    let x = (elapsed & ((1 << HALF_LIFE) - 1)) >> (HALF_LIFE - BITS);
    let part = (u128::from(halved) * u128::from(((4 << BITS) * x - x * x) / 6)) >> (2 * BITS);
    halved - u64::try_from(part).unwrap_or(0)
}
