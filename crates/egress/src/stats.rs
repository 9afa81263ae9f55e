//! Statistics of calls: counters, log records, `Server-Timing` and trace context.
//!
//! A call that goes well costs additions to cells of its thread and one line in a buffer; all else is off the fast path.

mod call;
mod caller;
mod status;
mod timing;
mod trace;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use keepwarm_telemetry::spans::Tracer;
use keepwarm_telemetry::upstreams::{self, EndpointMeter};
use keepwarm_telemetry::{Format, Sink};
use tokio::time::Instant;

pub(crate) use self::call::CompletedCall;
pub(crate) use self::caller::{caller, look_for_caller};
pub use self::status::{EndpointStatus, UpstreamStatus};
pub(crate) use self::timing::{SERVER_TIMING, ServerTiming};
pub(crate) use self::trace::{CallSpans, SpanEnd, Trace};
use crate::endpoints::lock;

/// Where and how calls are recorded.
#[derive(Debug, Clone)]
pub struct CallLog {
    /// Where.
    pub sink: Sink,
    /// How.
    pub format: Format,
}

/// What is kept of calls to hosts that are not an upstream.
#[derive(Debug, Clone, Default)]
pub struct CallTelemetry {
    /// Records them.
    pub log: Option<CallLog>,
    /// Traces them.
    pub tracer: Option<Arc<Tracer>>,
}

/// Counters and call log of an upstream.
#[derive(Debug, Default)]
pub(crate) struct UpstreamStats {
    log: ArcSwapOption<CallLog>,
    /// Of calls that came to no endpoint.
    nowhere: OnceLock<&'static EndpointMeter>,
}

impl UpstreamStats {
    pub(crate) fn set_log(&self, log: Option<CallLog>) {
        self.log.store(log.map(Arc::new));
    }

    fn nowhere(&self, upstream: &str) -> &'static EndpointMeter {
        self.nowhere.get_or_init(|| upstreams::endpoint(upstream, ""))
    }
}

/// Counters of an endpoint, and its last failure.
#[derive(Debug, Default)]
pub(crate) struct EndpointStats {
    meter: OnceLock<&'static EndpointMeter>,
    last_failure: Mutex<Option<LastFailure>>,
    /// Calls in a row that had to make a connection.
    dialled: AtomicU32,
}

impl EndpointStats {
    /// What counts the calls of `upstream` to the endpoint of this name.
    pub(crate) fn meter(&self, upstream: &str, endpoint: &str) -> &'static EndpointMeter {
        self.meter.get_or_init(|| upstreams::endpoint(upstream, endpoint))
    }

    /// The failure that came last.
    pub(crate) fn last_failure(&self) -> Option<LastFailure> {
        lock(&self.last_failure).clone()
    }

    /// An attempt has failed.
    pub(crate) fn note_failure(&self, cause: &'static str, sentence: impl Into<String>) {
        *lock(&self.last_failure) =
            Some(LastFailure { at: Instant::now(), cause, sentence: sentence.into() });
    }

    /// A call had to make a connection, or not. Gives how many in a row had to.
    fn note_connection(&self, reused: bool) -> u32 {
        if reused {
            // Nearly always so: no write to a cache line that other threads read.
            if self.dialled.load(Ordering::Relaxed) > 0 {
                self.dialled.store(0, Ordering::Relaxed);
            }
            return 0;
        }
        self.dialled.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// How a call to an endpoint failed.
#[derive(Clone)]
pub struct LastFailure {
    at: Instant,
    /// A stable name of why.
    pub cause: &'static str,
    /// The same for a person, going on from "upstream".
    pub sentence: String,
}

impl LastFailure {
    /// How long ago that was.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }
}

impl fmt::Debug for LastFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: upstream {}, {:?} ago", self.cause, self.sentence, self.age())
    }
}
