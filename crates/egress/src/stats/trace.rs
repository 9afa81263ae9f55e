//! The trace that a call is part of (W3C Trace Context), and the spans of its attempts.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keepwarm_serve::{CallRecord, Request};
use keepwarm_telemetry::spans::{AttemptSpan, CallSpan, SpanEndpoint, SpanRecord, Tracer, cut};
use keepwarm_telemetry::timelines::Caller;
use keepwarm_telemetry::trace::{TRACEPARENT_LEN, random};
use keepwarm_telemetry::{RequestId, TraceContext};
use tokio::time::Instant;

use crate::endpoints::EndpointEntry;

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// What a call says about its trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trace {
    context: TraceContext,
    /// The span that the attempts are part of.
    parent: Option<u64>,
    /// It was begun here: a `tracestate` without its `traceparent` is of no trace (§4.3).
    begun: bool,
}

impl Trace {
    /// Of a call: that of the request that its route got, the trace it names, or a new one.
    pub(crate) fn of(request: &Request, tracer: Option<&Arc<Tracer>>) -> Self {
        if let Some(trace) = &request.notes.trace {
            return Self { context: trace.context, parent: Some(trace.span), begun: true };
        }
        match (TraceContext::of_fields(request.head.fields.all("traceparent")), tracer) {
            (Some(context), _) => Self { context, parent: context.parent(), begun: false },
            (None, Some(tracer)) => Self { context: tracer.begin(), parent: None, begun: true },
            (None, None) => {
                let context = TraceContext::of(RequestId::new(request.number()));
                Self { context, parent: None, begun: true }
            }
        }
    }

    /// The field of one attempt, whose name is `span`.
    pub(crate) fn field(&self, span: u64) -> [u8; TRACEPARENT_LEN] {
        self.context.call(span)
    }

    /// Whether a field of the call is not passed on.
    pub(crate) fn replaces(&self, lower_name: &[u8]) -> bool {
        lower_name == TRACEPARENT || (self.begun && lower_name == TRACESTATE)
    }

    /// The span that the call came from, if it names one.
    pub(crate) fn caller(&self) -> Option<Caller> {
        let span = self.parent.filter(|_| !self.begun)?;
        Some(Caller::Span { trace: self.context.trace_id(), span })
    }

    pub(crate) fn id(&self) -> [u8; 32] {
        self.context.trace_id()
    }

    /// The name of the field.
    pub(crate) const NAME: &[u8] = TRACEPARENT;
}

/// The spans of a call, one for each attempt, where calls are traced.
#[derive(Debug)]
pub(crate) struct CallSpans {
    tracer: Arc<Tracer>,
    attempts: Vec<OpenSpan>,
}

/// The span of an attempt.
#[derive(Debug)]
struct OpenSpan {
    span: u64,
    start: Instant,
    /// `None`: it was called off.
    end: Option<SpanEnd>,
    endpoint: Option<SpanEndpoint>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanEnd {
    pub(crate) at: Instant,
    /// The status of its response; 0: none.
    pub(crate) status: u16,
    pub(crate) failure: Option<&'static str>,
    pub(crate) reused: bool,
}

impl CallSpans {
    pub(crate) fn new(tracer: &Arc<Tracer>) -> Self {
        Self { tracer: Arc::clone(tracer), attempts: Vec::new() }
    }

    /// An attempt begins. Gives the name of its span.
    pub(crate) fn begin(&mut self, endpoint: Option<&EndpointEntry>, start: Instant) -> u64 {
        let span = random().max(1);
        let endpoint = endpoint.map(|entry| SpanEndpoint {
            address: Arc::clone(entry.state.name()),
            authority: Arc::clone(&entry.authority),
        });
        self.attempts.push(OpenSpan { span, start, end: None, endpoint });
        span
    }

    /// It has ended.
    pub(crate) fn end(&mut self, span: u64, end: SpanEnd) {
        if let Some(open) = self.attempts.iter_mut().find(|open| open.span == span) {
            open.end = Some(end);
        }
    }

    /// Keeps the call, if it is one to keep: it is over `now`, and has taken `elapsed`.
    pub(crate) fn finish(
        mut self,
        trace: &Trace,
        record: &CallRecord,
        request: &Request,
        (now, elapsed): (Instant, Duration),
        (scheme, target): (&'static str, &[u8]),
    ) {
        let failed = !record.failures.is_empty() || record.status.max(record.responded) >= 500;
        if !self.tracer.keeps(&trace.context, failed, elapsed) {
            return;
        }
        let reason = request.notes.reason;
        if self.attempts.is_empty() {
            // It was refused.
            let span = self.begin(None, now.checked_sub(elapsed).unwrap_or(now));
            self.end(span, SpanEnd { at: now, status: record.responded, failure: reason, reused: false });
        }
        let clock = SystemTime::now();
        let attempt = |open: OpenSpan| {
            let end =
                open.end.unwrap_or(SpanEnd { at: now, status: 0, failure: Some("cancelled"), reused: false });
            let start = clock.checked_sub(now.saturating_duration_since(open.start));
            AttemptSpan {
                span: open.span,
                start: start.unwrap_or(clock),
                elapsed: end.at.saturating_duration_since(open.start),
                endpoint: open.endpoint,
                status: end.status,
                // A call without a response that did not fail: the client had gone.
                failure: end.failure.or(reason.filter(|_| end.status == 0)),
                reused: end.reused,
            }
        };
        let call = CallSpan {
            context: trace.context,
            parent: trace.parent,
            upstream: Arc::clone(&record.upstream),
            method: request.head.method.as_str().to_owned(),
            target: cut(target),
            scheme,
            attempts: self.attempts.into_iter().map(attempt).collect(),
            id: RequestId::new(request.number()),
        };
        self.tracer.queue().push(SpanRecord::Call(Box::new(call)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_state_goes_with_its_trace_only() {
        let context = TraceContext::parse(PARENT).unwrap();
        for (begun, dropped) in [(false, false), (true, true)] {
            let trace = Trace { context, parent: context.parent(), begun };
            assert_eq!(trace.replaces(b"tracestate"), dropped);
            assert!(trace.replaces(b"traceparent") && !trace.replaces(b"tracer"));
            let field = trace.field(7);
            assert!(field.starts_with(&PARENT[..36]) && field.ends_with(b"-01") && field[..] != *PARENT);
        }
    }
}
