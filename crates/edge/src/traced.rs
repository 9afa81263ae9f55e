//! Traces of requests (W3C Trace Context): where one begins, what the app gets, and what is kept at the end.
//!
//! A `traceparent` is believed from trusted proxies only: with any other, a client could choose which of its requests are recorded, and add spans to traces
//! of others (Trace Context §6.2). Its own trace then begins here.

use std::sync::Arc;
use std::time::SystemTime;

use keepwarm_http1::Version;
use keepwarm_serve::{Outcome, Request, ResponseOutcome};
use keepwarm_telemetry::spans::{RequestSpan, RequestTrace, SpanPhases, SpanRecord, Tracer, cut};
use keepwarm_telemetry::trace::trace_state;
use keepwarm_telemetry::{RequestId, TraceContext};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Begins the span of a request, or keeps it after a local redirect.
pub(crate) fn begin(request: &mut Request, tracer: &Arc<Tracer>) {
    if request.notes.trace.is_some() {
        return;
    }
    let came = match request.notes.trusted_peer {
        true => TraceContext::of_fields(request.head.fields.all(TRACEPARENT)),
        false => None,
    };
    request.notes.trace = Some(Box::new(tracer.request(came)));
}

/// Whose span is the parent of what receives a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The time in the app.
    App,
    /// The request as a whole.
    Request,
}

/// Adds the fields for an app or a service, which replace those of the client.
pub(crate) fn set_fields(request: &mut Request, parent: Parent) {
    let Some(trace) = &request.notes.trace else { return };
    // The route sets it itself (`request_headers`).
    if request.extra_fields.first(TRACEPARENT).is_some() {
        return;
    }
    let span = match parent {
        Parent::App => trace.app_span,
        Parent::Request => trace.span,
    };
    let field = trace.context.call(span);
    // Where a trace begins, no other system has said anything about it.
    let state = match trace.context.parent() {
        Some(_) => trace_state(request.head.fields.all(TRACESTATE)),
        None => None,
    };
    request.extra_fields.push(TRACEPARENT.as_bytes(), &field);
    if let Some(state) = state {
        request.extra_fields.push(TRACESTATE.as_bytes(), &state);
    }
}

/// Keeps the span of a request that has ended, if it is one to keep.
pub(crate) fn finish(request: &Request, outcome: &Outcome, trace: &RequestTrace) {
    let failed = outcome.status >= 500 || outcome.fate == ResponseOutcome::Cut;
    if trace.tracer.keeps(&trace.context, failed, outcome.elapsed) {
        if let Some(meter) = request.notes.meter {
            meter.note_trace(trace.context.trace_id(), outcome.elapsed, SystemTime::now());
        }
        trace.tracer.queue().push(SpanRecord::Request(Box::new(span(request, outcome, trace, failed))));
    }
}

fn span(request: &Request, outcome: &Outcome, trace: &RequestTrace, failed: bool) -> RequestSpan {
    let head = &request.head;
    let (method, target) = request.asked();
    RequestSpan {
        context: trace.context,
        span: trace.span,
        app_span: trace.app_span,
        end: SystemTime::now(),
        elapsed: outcome.elapsed,
        phases: request.notes.times().map(|times| SpanPhases {
            read: times.read + times.retry,
            queue: times.queue,
            app: times.app,
        }),
        method: method.as_str().to_owned(),
        target: cut(target),
        scheme: request.scheme().as_str(),
        version: match head.version {
            _ if request.is_http2() => "2",
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        },
        status: outcome.status,
        body_bytes: outcome.body_bytes,
        app: request.notes.target.clone(),
        route: request.notes.route.clone(),
        host: cut(head.authority()),
        client: request.client_address(),
        peer: request.peer().client,
        user_agent: cut(head.fields.first("user-agent").unwrap_or_default()),
        reason: crate::access::reason(request, outcome),
        failed,
        id: RequestId::new(request.number()),
    }
}
