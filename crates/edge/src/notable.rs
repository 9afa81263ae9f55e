//! The slow and the failed requests that are kept with their timeline ([`keepwarm_telemetry::timelines`]).
//!
//! * **Failed**: a 5xx of the app, of an upstream or of Keepwarm, or a response that was cut. Not maintenance, not a 5xx that a route is configured to give, and not
//!   what a client has done: it left, or asked for what HTTP/1.1 does not have (501, 505).
//! * **Slow**: from the end of reading the request to the beginning of the response it took as long as requests of the route may
//!   ([`RouteMeter::slow`](keepwarm_telemetry::meters::RouteMeter::slow)), or `slow_log` has it. What a slow client takes to send and to receive does not
//!   count, and neither does how long a stream lasts. Only for apps and upstreams: of everything else the client takes the time.

use std::time::SystemTime;

use keepwarm_serve::{Outcome, Request, RequestContext, ResponseOutcome};
use keepwarm_telemetry::RequestId;
use keepwarm_telemetry::meters::{self, RouteMeter};
use keepwarm_telemetry::timelines::{
    Attribution, Notable, OwnTrace, RequestCalls, RequestNames, RequestTimeline, Taken, TimelinePhases,
    keep_timeline, kept_path, note_app_calls, take_calls,
};

use crate::{access, refusals};

/// Whether a request may have to be kept because of its outcome. Nearly none has, and nearly none takes so long that it may be slow: all others end here.
#[inline]
pub(crate) fn may_have_failed(outcome: &Outcome) -> bool {
    outcome.status >= 500 || outcome.fate == ResponseOutcome::Cut
}

/// Takes the calls that its app has made for it, and counts them for its app.
#[cold]
pub(crate) fn take_calls_of(request: &Request) -> RequestCalls {
    let times = request.notes.times();
    let process = times.and_then(|times| {
        times.worker?.process(request.received().into_std(), (times.before_app(), times.app))
    });
    let names = RequestNames { id: RequestId::new(request.number()), trace: own_trace(request), process };
    let calls = take_calls(&names, Taken::AtItsEnd);
    if let Some(app) = request.notes.target.as_ref().filter(|_| times.is_some() && calls.count > 0) {
        note_app_calls(app, &calls);
    }
    calls
}

fn own_trace(request: &Request) -> Option<OwnTrace> {
    let trace = request.notes.trace.as_deref()?;
    Some(OwnTrace {
        trace: trace.context.trace_id(),
        began_here: trace.context.parent().is_none(),
        app_span: trace.app_span,
    })
}

/// Keeps it, if it is slow or has failed. `calls`: those that its app has made for it.
#[cold]
pub(crate) fn keep(request: &Request, outcome: &Outcome, calls: Option<RequestCalls>) {
    let meter = request.notes.meter;
    let notable = match (has_failed(&request.notes, outcome), is_slow(&request.notes, meter)) {
        (true, _) => Notable::Failed,
        (false, true) => Notable::Slow,
        (false, false) => return,
    };
    let mut timeline = timeline(request, outcome, meter);
    timeline.calls.merge(calls.unwrap_or_default());
    keep_timeline(notable, timeline);
}

fn has_failed(notes: &RequestContext, outcome: &Outcome) -> bool {
    if outcome.fate == ResponseOutcome::Cut {
        return true;
    }
    let was_forwarded = notes.times().is_some() || notes.call.is_some();
    match outcome.status {
        ..=499 => false,
        501 | 505 => was_forwarded,
        _ => was_forwarded || notes.reason.is_some_and(|reason| reason != refusals::MAINTENANCE.reason),
    }
}

fn is_slow(notes: &RequestContext, meter: Option<&RouteMeter>) -> bool {
    let waited = match (&notes.times(), &notes.call) {
        (Some(times), _) if times.logged_slow => return true,
        (Some(times), _) => times.retry + times.queue + times.head,
        (None, Some(call)) => call.times.queue + call.times.connect + call.times.first_byte,
        (None, None) => return false,
    };
    meter.is_some_and(|meter| waited >= meter.slow())
}

fn timeline(request: &Request, outcome: &Outcome, meter: Option<&RouteMeter>) -> RequestTimeline {
    let (method, target) = request.asked();
    RequestTimeline {
        end: SystemTime::now(),
        received: request.received().into_std(),
        elapsed: outcome.elapsed,
        id: RequestId::new(request.number()),
        trace: own_trace(request),
        method: if target.is_empty() { "" } else { method.as_str() }.into(),
        path: kept_path(target),
        status: outcome.status,
        reason: access::reason(request, outcome),
        app: request.notes.target.clone(),
        route: request.notes.route.clone(),
        slow: meter.map_or(meters::SLOW, RouteMeter::slow),
        phases: request.notes.times().map(|times| TimelinePhases {
            read: times.read,
            retry: times.retry,
            queue: times.queue,
            head: times.head,
            body: times.app.saturating_sub(times.head),
        }),
        worker: request.notes.times().and_then(|times| times.worker),
        calls: routed_call(request),
        stacks: Vec::new(),
    }
}

/// The call that the route of a request is.
fn routed_call(request: &Request) -> RequestCalls {
    let mut calls = RequestCalls::default();
    if let Some(call) = &request.notes.call {
        calls.add(Attribution::Route, call.timeline(request.received(), request.notes.reason));
    }
    calls
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keepwarm_serve::{CallRecord, CallTimes, ClientLoss, RequestTimes};

    use super::*;

    fn outcome(status: u16, fate: ResponseOutcome) -> Outcome {
        Outcome { status, body_bytes: 0, fate, elapsed: Duration::from_secs(10) }
    }

    fn notes(set: impl FnOnce(&mut RequestContext)) -> RequestContext {
        let mut notes = RequestContext::default();
        set(&mut notes);
        notes
    }

    fn of_app(times: RequestTimes) -> RequestContext {
        notes(|notes| notes.set_times(times))
    }

    fn refused(reason: &'static str) -> RequestContext {
        notes(|notes| notes.reason = Some(reason))
    }

    #[test]
    fn what_the_app_or_keepwarm_is_to_blame_for_has_failed() {
        let app = || of_app(RequestTimes::default());
        let complete = ResponseOutcome::Complete;
        for (case, notes, outcome, failed) in [
            ("an app's own", app(), outcome(500, complete), true),
            ("an app's 501", app(), outcome(501, complete), true),
            ("no worker", app(), outcome(503, complete), true),
            ("of Keepwarm", refused("panicked"), outcome(500, complete), true),
            ("cut after its head", app(), outcome(200, ResponseOutcome::Cut), true),
            ("well", app(), outcome(200, complete), false),
            ("not found", app(), outcome(404, complete), false),
            ("maintenance", refused("maintenance"), outcome(503, complete), false),
            ("a client's version", refused("unsupported_version"), outcome(505, complete), false),
            ("a client's coding", refused("unknown_transfer_coding"), outcome(501, complete), false),
            ("configured", RequestContext::default(), outcome(503, complete), false),
            ("left", app(), outcome(200, ResponseOutcome::ClientLost(ClientLoss::Reset)), false),
        ] {
            assert_eq!(has_failed(&notes, &outcome), failed, "{case}");
        }
    }

    #[test]
    fn slow_is_what_waits_for_its_app_and_not_for_its_client() {
        let meter = meters::route("slow is", "/*");
        meter.set_slow(Duration::from_secs(1));
        let (short, long) = (Duration::from_millis(600), Duration::from_secs(5));
        let times = RequestTimes::default();
        for (case, times, slow) in [
            ("quick", RequestTimes { queue: short, ..times }, false),
            ("queue and app", RequestTimes { queue: short, app: short, head: short, ..times }, true),
            ("given again", RequestTimes { retry: short, app: short, head: short, ..times }, true),
            ("a slow upload", RequestTimes { read: long, app: short, head: short, ..times }, false),
            ("a stream", RequestTimes { app: long, head: short, ..times }, false),
            ("logged", RequestTimes { app: long, head: short, logged_slow: true, ..times }, true),
        ] {
            assert_eq!(is_slow(&of_app(times), Some(meter)), slow, "{case}");
        }
        // A file, a redirect.
        assert!(!is_slow(&RequestContext::default(), Some(meter)));
    }

    #[test]
    fn a_call_of_a_route_is_slow_until_its_first_byte() {
        let meter = meters::route("slow call", "/*");
        meter.set_slow(Duration::from_secs(1));
        let long = Duration::from_secs(5);
        for (times, slow) in [
            (CallTimes { first_byte: long, ..CallTimes::default() }, true),
            (CallTimes { connect: long, ..CallTimes::default() }, true),
            (CallTimes { body: long, ..CallTimes::default() }, false),
        ] {
            let call = CallRecord { times, ..CallRecord::default() };
            let notes = notes(|notes| notes.call = Some(Box::new(call)));
            assert_eq!(is_slow(&notes, Some(meter)), slow, "{times:?}");
        }
    }
}
