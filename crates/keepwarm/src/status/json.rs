//! The status as JSON: what `GET /status` and `keepwarm status --json` give. docs/operate/status.md describes it; members are added, never renamed.

mod certificates;
mod processes;
pub(crate) mod puma;
mod upstreams;

use std::time::{Duration, Instant, SystemTime};

use keepwarm_telemetry::meters::CLASSES;
use keepwarm_telemetry::timestamp;
use keepwarm_workers::dispatch::{ActiveRequest, RequestSummary, WaitingRequest};
use serde_json::{Map, Value, json};

use crate::maintenance;
use crate::status::view::{AppStatus, ListenerStatus, StatusSnapshot, WorkerStatus};

/// The whole of it.
pub(crate) fn json(status: &StatusSnapshot) -> Value {
    let open: u64 = status.listeners.iter().map(|listener| listener.totals.open).sum();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started": time(status.started),
        "uptime_seconds": seconds(status.uptime),
        "ready": status.ready,
        "generation": status.apps.iter().filter_map(|app| Some(app.counts.as_ref()?.generation)).max(),
        "open_connections": open,
        "maintenance": maintenance::saved(),
        "apps": status.apps.iter().map(|about| app(about, status)).collect::<Vec<_>>(),
        "workers": status.workers.iter().map(worker).collect::<Vec<_>>(),
        "processes": status.processes.iter().map(processes::json).collect::<Vec<_>>(),
        "upstreams": status.upstreams.iter().map(upstreams::json).collect::<Vec<_>>(),
        "listeners": status.listeners.iter().map(listener).collect::<Vec<_>>(),
        "certificates": status.certificates.iter().map(certificates::json).collect::<Vec<_>>(),
        "certificates_on_demand": status.on_demand.as_ref().map(certificates::on_demand),
    })
}

fn app(app: &AppStatus, status: &StatusSnapshot) -> Value {
    let mut classes = [0; CLASSES.len()];
    for route in status.routes.iter().filter(|route| route.app == app.name) {
        classes.iter_mut().zip(route.totals.classes).for_each(|(sum, more)| *sum += more);
    }
    let mut requests: Map<String, Value> =
        CLASSES.iter().zip(classes).map(|(class, count)| ((*class).to_owned(), count.into())).collect();
    requests.insert("total".to_owned(), classes.iter().sum::<u64>().into());
    let workers = status.workers.iter().filter(|worker| *worker.worker.app == *app.name);
    let serving = workers.filter(|worker| worker.worker.state.name() == "ready").count();
    let counts = app.counts.as_ref();
    json!({
        "name": app.name,
        "about": app.about,
        "failed": app.failed,
        "server": app.external.as_ref().map(|server| json!({ "address": server.address.to_string(), "unreachable": server.away })),
        "generation": counts.map(|counts| counts.generation),
        "workers": { "serving": serving, "target": counts.map(|counts| counts.target) },
        "queue": app.queue,
        "waiting_requests": app.waiting_requests.iter().map(waiting_request).collect::<Vec<_>>(),
        "requests": requests,
        "recycles": counts.map(|counts| happened(counts.recycles.iter().map(|(why, count)| (name(why), count)))),
        "deaths": counts.map(|counts| happened(counts.deaths.iter().map(|(why, count)| (name(why), count)))),
        "last_death": counts.and_then(|counts| counts.last_death.as_ref()).map(|death| json!({
            "worker": death.number,
            "kind": name(death.death),
            "reason": death.reason,
            "seconds_ago": seconds(death.at.elapsed()),
        })),
    })
}

fn name<R: keepwarm_workers::supervisor::Reason>(reason: R) -> &'static str {
    reason.name()
}

/// Those that have happened at all.
fn happened(counts: impl Iterator<Item = (&'static str, u64)>) -> Map<String, Value> {
    counts.filter(|(_, count)| *count > 0).map(|(why, count)| (why.to_owned(), count.into())).collect()
}

fn worker(status: &WorkerStatus) -> Value {
    let worker = &status.worker;
    let now = Instant::now();
    let since = |at: Instant| seconds(now.saturating_duration_since(at));
    json!({
        "app": &*worker.app,
        "number": worker.number,
        "pid": worker.pid,
        "generation": worker.generation,
        "state": worker.state.name(),
        "state_seconds": since(worker.since),
        "age_seconds": worker.started.map(since),
        "requests": worker.requests,
        "restarts": worker.restarts,
        "memory": worker.memory.map(|memory| json!({ "own_bytes": memory.own, "shared_bytes": memory.shared })),
        "recycle_reason": worker.leaving.map(name),
        "active_requests": status.active_requests.iter().map(active_request).collect::<Vec<_>>(),
    })
}

fn active_request(request: &ActiveRequest) -> Value {
    let mut members = request_members(&request.summary, request.path.as_deref(), request.age);
    members.insert("responding".to_owned(), request.is_responding.into());
    members.into()
}

fn waiting_request(request: &WaitingRequest) -> Value {
    request_members(&request.summary, request.path.as_deref(), Some(request.waited)).into()
}

fn request_members(
    summary: &RequestSummary,
    path: Option<&str>,
    time: Option<Duration>,
) -> Map<String, Value> {
    let members = [
        ("request_id", summary.id.to_string().into()),
        ("method", summary.method.as_str().into()),
        ("path", path.into()),
        ("route", summary.route.as_deref().into()),
        ("seconds", time.map(seconds).into()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn listener(listener: &ListenerStatus) -> Value {
    let totals = &listener.totals;
    json!({
        "name": listener.name,
        "addresses": listener.addresses,
        "open_connections": totals.open,
        "accepted_connections": totals.accepted,
        "received_bytes": totals.received,
        "sent_bytes": totals.sent,
        "handshakes": certificates::handshakes(&totals.handshakes),
    })
}

/// To the millisecond: anything below that is noise.
fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1e3
}

fn time(at: SystemTime) -> String {
    String::from_utf8_lossy(&timestamp(at)).into_owned()
}
