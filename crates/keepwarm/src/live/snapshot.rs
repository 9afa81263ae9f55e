//! One snapshot as JSON. docs/operate/events.md describes it; members are added, never renamed.

use std::collections::HashMap;
use std::time::SystemTime;

use keepwarm_policy::why::{RouteStep, Step};
use keepwarm_telemetry::timelines::timelines;
use keepwarm_telemetry::{meters::CLASSES, timestamp};
use serde_json::{Map, Value, json};

use super::recent::{Recent, RouteName};
use super::requests;
use crate::status::view::{RouteStatus, View, WorkerStatus};
use crate::{status, why};

/// Gives the streams a snapshot, if there are any. It is made on a blocking thread: with thousands of workers that takes milliseconds, and the control
/// thread has them to supervise.
pub(crate) async fn publish(view: &View, recent: &Recent) {
    if !view.feed.is_read() {
        return;
    }
    let status = view.look().await;
    let why = why::json(view, &status.certificates);
    let (window, routes, memory) = (recent.window(), recent.routes(), recent.memory_before());
    let timelines = timelines();
    let made = tokio::task::spawn_blocking(move || {
        json!({
            "time": String::from_utf8_lossy(&timestamp(SystemTime::now())),
            "window_seconds": window,
            "why": why,
            "now": now(&routes, window),
            "routes": status.routes.iter().map(|one| route(one, &routes, window)).collect::<Vec<_>>(),
            "recent": requests::recent(&timelines, SystemTime::now()),
            "memory": status.workers.iter().filter_map(|one| memory_change(one, &memory)).collect::<Vec<_>>(),
            "status": status::json::json(&status),
        })
        .to_string()
    });
    if let Ok(snapshot) = made.await {
        view.feed.publish(snapshot);
    }
}

/// The figures of all routes together.
fn now(routes: &HashMap<RouteName, RouteStep>, window: u64) -> Value {
    let mut sum = RouteStep::default();
    routes.values().for_each(|step| sum.merge(step));
    why::figures(&sum.times, sum.failed, window)
}

fn route(route: &RouteStatus, recent: &HashMap<RouteName, RouteStep>, window: u64) -> Value {
    let step = recent.get(&(route.app, route.route)).copied().unwrap_or_default();
    let counts = route.totals.classes;
    let mut requests: Map<String, Value> =
        CLASSES.iter().zip(counts).map(|(class, count)| ((*class).to_owned(), count.into())).collect();
    requests.insert("total".to_owned(), counts.iter().sum::<u64>().into());
    json!({
        "app": Some(route.app).filter(|app| !app.is_empty()),
        "route": Some(route.route).filter(|route| !route.is_empty()),
        "requests": requests,
        "now": why::figures(&step.times, step.failed, window),
    })
}

fn memory_change(status: &WorkerStatus, before: &HashMap<u32, u64>) -> Option<Value> {
    let worker = &status.worker;
    let (now, before) = (worker.memory?.own, *before.get(&worker.pid?)?);
    let change = i64::try_from(now).ok()?.checked_sub(i64::try_from(before).ok()?)?;
    Some(json!({ "app": &*worker.app, "number": worker.number, "pid": worker.pid, "change_bytes": change }))
}
