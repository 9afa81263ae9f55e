//! `GET /stats`: a Ruby app in the words of Puma's control app (`GET /stats` there, `Puma.stats`), for what graphs those.

use std::time::{Instant, SystemTime};

use serde_json::{Value, json};

use crate::status::view::{AppStatus, StatusSnapshot, WorkerStatus};

/// The app that a query names: `app=shop`.
pub(crate) fn app_of(query: &[u8]) -> Option<&str> {
    let query = std::str::from_utf8(query).unwrap_or_default();
    query.split('&').find_map(|part| part.strip_prefix("app="))
}

/// The app of this name, or without a name the first of Ruby; `None`: there is none.
pub(crate) fn json(status: &StatusSnapshot, name: Option<&str>) -> Option<Value> {
    let is_meant = |app: &&AppStatus| app.threads.is_some() && name.is_none_or(|name| app.name == name);
    let app = status.apps.iter().find(is_meant)?;
    let threads = app.threads.unwrap_or(1);
    let counts = app.counts.as_ref();
    let generation = counts.map(|counts| counts.generation);
    let workers = status.workers.iter().filter(|worker| *worker.worker.app == *app.name);
    let workers: Vec<&WorkerStatus> = workers.collect();
    let old = workers.iter().filter(|worker| Some(worker.worker.generation) != generation).count();
    // Puma has a queue in each worker, and here it is one for all: its length stands at the first.
    let queues = std::iter::once(app.queue).chain(std::iter::repeat(0));
    Some(json!({
        "started_at": time(status.started),
        "workers": workers.len(),
        "phase": generation,
        "booted_workers": workers.iter().filter(|worker| is_booted(worker)).count(),
        "old_workers": old,
        "worker_status": workers.iter().zip(queues).map(|(status, queue)| worker(status, threads, queue)).collect::<Vec<_>>(),
    }))
}

fn worker(status: &WorkerStatus, threads: usize, queue: usize) -> Value {
    let worker = &status.worker;
    let now = SystemTime::now();
    let started = worker.started.map(|started| now - Instant::now().saturating_duration_since(started));
    // Those without an age wait there behind another.
    let busy = status.active_requests.iter().filter(|request| request.age.is_some()).count();
    let waiting = status.active_requests.len() - busy;
    json!({
        "started_at": started.map(time),
        "pid": worker.pid,
        "index": worker.number.saturating_sub(1),
        "phase": worker.generation,
        "booted": is_booted(status),
        "last_checkin": time(now),
        "last_status": {
            "backlog": queue + waiting,
            "running": threads,
            "pool_capacity": threads.saturating_sub(busy),
            "busy_threads": busy,
            "max_threads": threads,
            "requests_count": worker.requests,
        },
    })
}

fn is_booted(status: &WorkerStatus) -> bool {
    status.worker.state.name() == "ready"
}

/// To the second, as Puma reports it.
fn time(at: SystemTime) -> String {
    let text = super::time(at);
    match text.split_once('.') {
        Some((second, _)) => format!("{second}Z"),
        None => text,
    }
}
