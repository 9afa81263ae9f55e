//! The last slow and failed requests as JSON, the newest first.

use std::time::{Duration, Instant, SystemTime};

use keepwarm_telemetry::timelines::{Attribution, CallTimeline, RequestTimeline, SampledStack, Timelines};
use keepwarm_telemetry::timestamp;
use serde_json::{Value, json};

/// Both lists.
pub(super) fn recent(timelines: &Timelines, now: SystemTime) -> Value {
    let list = |requests: &std::collections::VecDeque<RequestTimeline>| -> Value {
        requests.iter().rev().map(|one| request(one, now)).collect()
    };
    json!({
        "slow": list(&timelines.slow),
        "slow_total": timelines.slow_total,
        "failed": list(&timelines.failed),
        "failed_total": timelines.failed_total,
    })
}

fn request(request: &RequestTimeline, now: SystemTime) -> Value {
    let app = request.app.as_deref().filter(|_| request.phases.is_some());
    let call =
        |(attribution, call): &(Attribution, CallTimeline)| call_json(*attribution, call, request.received);
    json!({
        "time": String::from_utf8_lossy(&timestamp(request.end)),
        "seconds_ago": now.duration_since(request.end).unwrap_or_default().as_secs_f64(),
        "id": request.id.to_string(),
        "trace_id": request.trace.map(|own| String::from_utf8_lossy(&own.trace).into_owned()),
        "method": Some(&*request.method).filter(|method| !method.is_empty()),
        "path": Some(&*request.path).filter(|path| !path.is_empty()),
        "status": Some(request.status).filter(|status| *status != 0),
        "reason": request.reason,
        "app": app,
        "route": request.route.as_deref(),
        "worker": request.worker.map(|worker| worker.number),
        "pid": request.worker.map(|worker| worker.pid).filter(|pid| *pid != 0),
        "seconds": request.elapsed.as_secs_f64(),
        "slow_seconds": request.slow.as_secs_f64(),
        "phases": phases(request),
        "calls": request.calls.shown.iter().map(call).collect::<Vec<_>>(),
        "call_count": request.calls.count,
        "call_seconds": request.calls.total.as_secs_f64(),
        "stacks": request.stacks.iter().map(stack).collect::<Vec<_>>(),
    })
}

/// Its phase, and its calls, outermost first.
fn stack(stack: &SampledStack) -> Value {
    let (calls, waiting) =
        stack.calls.strip_suffix(";(waiting)").map_or((&*stack.calls, false), |calls| (calls, true));
    let (phase, calls) = calls.split_once(';').unwrap_or((calls, ""));
    json!({
        "phase": phase,
        "seconds": stack.time.as_secs_f64(),
        "waiting": waiting,
        "calls": calls.split(';').filter(|call| !call.is_empty()).collect::<Vec<_>>(),
    })
}

/// They add up to the duration of the request.
fn phases(request: &RequestTimeline) -> Value {
    let Some(phases) = request.phases else { return Value::Null };
    let before = phases.read + phases.retry + phases.queue + phases.head + phases.body;
    json!({
        "read_seconds": phases.read.as_secs_f64(),
        "retry_seconds": phases.retry.as_secs_f64(),
        "queue_seconds": phases.queue.as_secs_f64(),
        "app_seconds": phases.head.as_secs_f64(),
        "body_seconds": phases.body.as_secs_f64(),
        "write_seconds": request.elapsed.saturating_sub(before).as_secs_f64(),
    })
}

fn call_json(attribution: Attribution, call: &CallTimeline, received: Instant) -> Value {
    let seconds = |phase: fn(&keepwarm_telemetry::CallPhases) -> Duration| {
        call.phases.as_ref().map(|phases| phase(phases).as_secs_f64())
    };
    json!({
        "upstream": &*call.upstream,
        "endpoint": call.endpoint.as_deref(),
        "known_by": attribution.name(),
        "start_seconds": call.start.saturating_duration_since(received).as_secs_f64(),
        "seconds": call.elapsed.as_secs_f64(),
        "queue_seconds": seconds(|phases| phases.queue),
        "connect_seconds": seconds(|phases| phases.connect),
        "first_byte_seconds": seconds(|phases| phases.first_byte),
        "body_seconds": seconds(|phases| phases.body),
        "status": Some(call.status).filter(|status| *status != 0),
        "failure": call.failure,
        "attempts": call.attempts,
    })
}
