//! What is kept of each request: a line of the access log, and its part in the counts.

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::SystemTime;

use keepwarm_http1::{Version, normalize_path};
use keepwarm_net::thread_index;
use keepwarm_serve::{Outcome, Request, ResponseOutcome};
use keepwarm_telemetry::meters::{self, FinishedRequest, RequestPhases, RouteMeter};
use keepwarm_telemetry::{AccessRecord, Format, RequestId, Sink, counters, stalls};

use crate::matcher::{Conditions, RequestView};
use crate::pattern::host_of;

mod template;

pub use template::RecordTemplate;

/// Where and how requests are recorded, and which.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Where.
    pub sink: Sink,
    /// How.
    pub format: Format,
    /// How, in place of that format.
    pub record: Option<RecordTemplate>,
    /// What requests that are recorded have in common.
    pub conditions: Option<Box<Conditions>>,
    /// Statuses of responses that are recorded. Empty: all. A request without a response is always recorded.
    pub statuses: Vec<RangeInclusive<u16>>,
}

impl AccessLog {
    /// Records every request.
    #[must_use]
    pub fn new(sink: Sink, format: Format) -> Self {
        Self { sink, format, record: None, conditions: None, statuses: Vec::new() }
    }

    pub(crate) fn record(&self, request: &Request, outcome: &Outcome) {
        if self.leaves_out(request, outcome) {
            return;
        }
        let head = &request.head;
        let (method, target) = request.asked();
        let forwarded = request.notes.forwarded.as_ref().map(|forwarded| forwarded.client.to_string());
        let record = AccessRecord {
            time: SystemTime::now(),
            client: forwarded.as_deref().unwrap_or(request.peer().client_text().0),
            user: request.notes.routed.user.as_deref(),
            method: method.as_str(),
            target,
            version: match head.version {
                _ if request.is_http2() => "HTTP/2.0",
                Version::Http10 => "HTTP/1.0",
                Version::Http11 => "HTTP/1.1",
            },
            status: outcome.status,
            body_bytes: outcome.body_bytes,
            elapsed: outcome.elapsed,
            route: request.notes.target.as_deref(),
            id: RequestId::new(request.number()),
            reason: reason(request, outcome),
            trace_id: request.notes.trace.as_ref().map(|trace| trace.context.trace_id()),
            referer: head.fields.first("referer"),
            user_agent: head.fields.first("user-agent"),
        };
        match &self.record {
            None => self.sink.append(|out| record.write(self.format, out)),
            Some(template) => self.sink.append(|out| template.write(request, &record, out)),
        }
    }

    fn leaves_out(&self, request: &Request, outcome: &Outcome) -> bool {
        let has_status = self.statuses.is_empty()
            || outcome.status == 0
            || self.statuses.iter().any(|range| range.contains(&outcome.status));
        !has_status || self.conditions.as_ref().is_some_and(|conditions| !holds(conditions, request))
    }
}

/// Whether the request as the client sent it meets the conditions. A route may have changed its path since.
fn holds(conditions: &Conditions, request: &Request) -> bool {
    let asked = request.notes.asked.as_deref().map(|(_, target)| {
        let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
        let mut scratch = Vec::new();
        normalize_path(path, &mut scratch).unwrap_or(path).to_vec()
    });
    conditions.hold(&RequestView {
        host: host_of(request.head.authority()),
        path: asked.as_deref().unwrap_or_else(|| request.path()),
        method: &request.head.method,
        details: request,
    })
}

/// Counts a request: a few stores to cells of this thread. Returns whether it took so long that it may be slow.
pub(crate) fn measure(request: &Request, outcome: &Outcome) -> bool {
    static UNROUTED: LazyLock<&'static RouteMeter> = LazyLock::new(|| meters::route("", ""));
    let phases = request.notes.times().map(|times| RequestPhases {
        queue: times.queue,
        app: times.app,
        write: outcome.elapsed.saturating_sub(times.before_app() + times.app),
    });
    let finished = FinishedRequest { status: outcome.status, elapsed: outcome.elapsed, phases };
    let meter = request.notes.meter.unwrap_or_else(|| *UNROUTED);
    let may_be_slow = meter.count(thread_index(), &finished);
    // Only a response of the app says anything about the app.
    if !request.notes.stalls.is_empty() && request.notes.times().is_some() && request.notes.reason.is_none() {
        request.notes.stalls.iter().for_each(|stall| stalls::record(&meter.app, stall));
    }
    may_be_slow
}

/// Counts a response that was not completed for a reason other than its client.
pub(crate) fn count_incomplete(request: &Request, outcome: &Outcome) {
    if outcome.fate == ResponseOutcome::Cut
        && let Some(reason) = reason(request, outcome)
    {
        counters::INCOMPLETE.count(request.notes.counted_app(), reason);
    }
}

/// Why a response is not what it might have been: what was noted first, else how it ended.
pub(crate) fn reason(request: &Request, outcome: &Outcome) -> Option<&'static str> {
    request.notes.reason.or(match outcome.fate {
        ResponseOutcome::Complete => None,
        ResponseOutcome::Cut => Some("cut"),
        ResponseOutcome::ClientLost(gone) => Some(gone.name()),
    })
}
