//! The upstreams in the status.

use keepwarm_egress::{ActiveCall, EndpointStatus, UpstreamStatus};
use keepwarm_net::PoolTotals;
use keepwarm_telemetry::meters::CLASSES;
use keepwarm_telemetry::per_thread::HistogramTotals;
use serde_json::{Map, Value, json};

use super::seconds;

/// One of them.
pub(super) fn json(upstream: &UpstreamStatus) -> Value {
    let totals = &upstream.totals;
    json!({
        "name": &*upstream.name,
        "breaker": upstream.breaker.name(),
        "in_flight": upstream.in_flight,
        "queue": upstream.queue,
        "active_calls": upstream.active_calls.iter().map(active_call).collect::<Vec<_>>(),
        "connections": {
            "made": totals.dialled,
            "failed": totals.dials_failed,
            "closed_idle": totals.closed_idle,
            "lost_retried": totals.lost_retried,
            "lost_failed": totals.lost_failed,
        },
        "handshakes": handshakes(totals),
        "lookup_failure": upstream.trouble.as_ref().map(|failure| &failure.sentence),
        "endpoint_count": upstream.found,
        "endpoints": upstream.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

fn active_call(call: &ActiveCall) -> Value {
    json!({
        "request_id": call.id.to_string(),
        "method": call.method.as_str(),
        "path": call.path,
        "route": call.route.as_deref(),
        "seconds": seconds(call.age),
        "phase": call.phase.name(),
        "endpoint": call.endpoint.as_deref(),
    })
}

fn handshakes(totals: &PoolTotals) -> Value {
    json!({
        "full": totals.handshakes_full,
        "resumed": totals.handshakes_resumed,
        "failed": totals.handshakes_failed,
        "avoided": totals.handshakes_avoided,
        "certificate_bytes_avoided": totals.certificate_bytes_avoided,
    })
}

fn endpoint(endpoint: &EndpointStatus) -> Value {
    let calls = endpoint.calls.as_ref();
    let connections = endpoint.connections;
    json!({
        "name": &*endpoint.name,
        "state": endpoint.state(),
        "healthy": endpoint.healthy,
        "check_failure": endpoint.check_failure.as_ref().map(|failure| &failure.sentence),
        "breaker": endpoint.breaker.name(),
        "drained": endpoint.drained,
        "ejected": endpoint.ejected,
        "weight": endpoint.weight,
        "priority": endpoint.priority,
        "in_flight": endpoint.in_flight,
        "calls": calls.map(|calls| classes(calls.classes)),
        "reused": calls.map(|calls| calls.reused),
        "dialled": calls.map(|calls| calls.dialled),
        "p50_seconds": calls.and_then(|calls| quantile(&calls.duration, 500)),
        "p99_seconds": calls.and_then(|calls| quantile(&calls.duration, 990)),
        "connections": {
            "idle": connections.idle,
            "in_use": connections.in_use,
            "dialling": connections.dialling,
            "waiting": connections.waiting,
        },
        "handshakes": endpoint.totals.as_ref().map(handshakes),
        "last_failure": endpoint.last_failure.as_ref().map(|failure| json!({
            "cause": failure.cause,
            "sentence": format!("upstream {}", failure.sentence),
            "seconds_ago": seconds(failure.age()),
        })),
    })
}

fn classes(counts: [u64; CLASSES.len()]) -> Map<String, Value> {
    let mut calls: Map<String, Value> =
        CLASSES.iter().zip(counts).map(|(class, count)| ((*class).to_owned(), count.into())).collect();
    calls.insert("total".to_owned(), counts.iter().sum::<u64>().into());
    calls
}

/// To the microsecond: a call may take less than one thousandth.
fn quantile(times: &HistogramTotals, per_mille: u64) -> Option<f64> {
    times.quantile(per_mille).map(|time| time.as_micros() as f64 / 1e6)
}
