//! Spans: which requests and calls are traced, what is kept of them, and where it waits to be sent.
//!
//! * **Head sampling.** A trace that begins here is sampled by its id, so that every service with the same share decides alike. A trace that comes from a trusted
//!   peer, or from an app that calls an upstream, keeps the decision it comes with.
//! * **Errors and slow ones** are kept whatever the decision was. All that a span says is known at the end of a request anyway: only ids are made before.
//! * **Bounded.** What waits to be sent takes at most [`TracerSettings::buffer`] bytes. When there is no room, the newest is dropped and counted.
//!
//! Nothing here knows how spans are sent.

mod record;

use std::sync::Arc;
use std::time::Duration;

use crate::export::ExportQueue;
use crate::trace::random;
use crate::{TraceContext, counters};

pub use record::{AttemptSpan, CallSpan, RequestSpan, SpanEndpoint, SpanPhases, SpanRecord, cut};

/// Decides what is traced, and keeps it.
#[derive(Debug)]
pub struct Tracer {
    /// The highest value that the last seven bytes of an id may not reach, of a trace that begins here.
    threshold: u64,
    slow: Option<Duration>,
    queue: ExportQueue<SpanRecord>,
}

/// What is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracerSettings {
    /// Percent of the traces that begin here, 0 to 100.
    pub sample: u32,
    /// Requests and calls that take so long are always traced. `None`: time does not matter.
    pub slow: Option<Duration>,
    /// Bytes of what waits to be sent.
    pub buffer: usize,
    /// As many spans are sent at once.
    pub batch: usize,
}

/// The trace of a request.
#[derive(Debug, Clone)]
pub struct RequestTrace {
    /// Its trace, as it came or began here.
    pub context: TraceContext,
    /// The span of the request.
    pub span: u64,
    /// The span of its time in the app, which is the parent of what the app does.
    pub app_span: u64,
    /// Keeps it.
    pub tracer: Arc<Tracer>,
}

/// The last seven bytes of an id, which are random.
const RANDOM_BITS: u32 = 56;

impl Tracer {
    /// A tracer that has kept nothing yet.
    #[must_use]
    pub fn new(settings: TracerSettings) -> Self {
        let share = u64::from(settings.sample.min(100));
        Self {
            threshold: (1 << RANDOM_BITS) / 100 * share + u64::from(share == 100) * (1 << RANDOM_BITS),
            slow: settings.slow,
            queue: ExportQueue::new(settings.buffer, settings.batch, &counters::SPANS_DROPPED),
        }
    }

    /// A trace that begins here, and whether it is sampled.
    #[must_use]
    pub fn begin(&self) -> TraceContext {
        let context = TraceContext::begin();
        let [.., a, b, c, d, e, f, g] = context.trace_bytes();
        let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
        context.sampled(random < self.threshold)
    }

    /// The trace of a request: the one that it came with, or one that begins here.
    #[must_use]
    pub fn request(self: &Arc<Self>, came: Option<TraceContext>) -> RequestTrace {
        RequestTrace {
            context: came.unwrap_or_else(|| self.begin()),
            span: random().max(1),
            app_span: random().max(1),
            tracer: Arc::clone(self),
        }
    }

    /// Whether something is kept that has ended so.
    #[must_use]
    pub fn keeps(&self, context: &TraceContext, failed: bool, elapsed: Duration) -> bool {
        context.is_sampled() || failed || self.slow.is_some_and(|slow| elapsed >= slow)
    }

    /// What waits to be sent.
    #[must_use]
    pub fn queue(&self) -> &ExportQueue<SpanRecord> {
        &self.queue
    }
}

/// Each is its own: a new one has its own queue.
impl PartialEq for Tracer {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    fn tracer(sample: u32) -> Arc<Tracer> {
        let slow = Some(Duration::from_secs(1));
        Arc::new(Tracer::new(TracerSettings { sample, slow, buffer: 1 << 20, batch: 10 }))
    }

    #[test]
    fn a_share_of_the_traces_that_begin_here_is_sampled() {
        for (sample, expected) in [(0, 0..=0), (1, 50..=150), (50, 4_500..=5_500), (100, 10_000..=10_000)] {
            let tracer = tracer(sample);
            let sampled = (0..10_000).filter(|_| tracer.begin().is_sampled()).count();
            assert!(expected.contains(&sampled), "{sample}: {sampled}");
        }
    }

    #[test]
    fn a_trace_that_came_keeps_its_decision() {
        let came = TraceContext::parse(PARENT).unwrap();
        for is_sampled in [false, true] {
            let trace = tracer(50).request(Some(came.sampled(is_sampled)));
            assert_eq!(trace.context.is_sampled(), is_sampled);
            assert_eq!(trace.context.parent(), came.parent());
            assert_ne!(trace.span, trace.app_span);
        }
    }

    #[test]
    fn errors_and_slow_ones_are_always_kept() {
        let tracer = tracer(0);
        let context = tracer.begin();
        let (short, long) = (Duration::from_millis(999), Duration::from_secs(1));
        assert!(!tracer.keeps(&context, false, short));
        assert!(tracer.keeps(&context, true, short) && tracer.keeps(&context, false, long));
        assert!(tracer.keeps(&context.sampled(true), false, short));
        let patient = Tracer::new(TracerSettings { sample: 0, slow: None, buffer: 1, batch: 1 });
        assert!(!patient.keeps(&context, false, Duration::from_secs(3600)));
    }
}
