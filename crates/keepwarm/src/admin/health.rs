//! `/livez` and `/readyz`.

use std::time::Duration;

use keepwarm_workers::dispatch::AppHealth;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::status::view::View;

/// How long a thread may take to have its turn. Nothing that a thread does on purpose takes a tenth of it.
const TURN: Duration = Duration::from_secs(5);
/// How long an idle worker may take to respond. Below the second after which the usual prober gives up.
const RESPONSE: Duration = Duration::from_millis(800);

/// The result of a check.
#[derive(Debug)]
pub(super) struct Health {
    pub(super) good: bool,
    /// The parts: name, whether it is well, and in words why.
    parts: Vec<(String, bool, String)>,
    /// In words: what is lost while it is still healthy.
    degraded: Vec<String>,
}

/// Whether the threads turn.
pub(super) async fn live(view: &View) -> Health {
    let control = timeout(TURN, view.supervisor.snapshot());
    let mut turns = Vec::new();
    for remote in &view.remotes {
        let (turned, turn) = oneshot::channel();
        remote.spawn(move || async move {
            // The caller may have gone.
            let _ = turned.send(());
        });
        turns.push((format!("data-{}", remote.index), turn));
    }
    let mut parts = vec![part("control", control.await.is_ok())];
    for (name, turn) in turns {
        parts.push(part(&name, timeout(TURN, turn).await.is_ok_and(|turned| turned.is_ok())));
    }
    Health::of(parts)
}

fn part(name: &str, turns: bool) -> (String, bool, String) {
    let words = if turns { "makes progress" } else { "has made no progress for 5 s" };
    (name.to_owned(), turns, words.to_owned())
}

/// Whether the process accepts requests, and each app has a worker that could take one.
pub(super) async fn ready(view: &View) -> Health {
    if !view.readiness.is_ready() {
        let words = "starting or draining: not ready for requests".to_owned();
        return Health::of(vec![("keepwarm".to_owned(), false, words)]);
    }
    let stuck: Vec<usize> =
        view.remotes.iter().filter(|remote| remote.is_stuck()).map(|remote| remote.index).collect();
    if stuck.len() == view.remotes.len() {
        return Health::of(stuck.into_iter().map(|index| part(&format!("data-{index}"), false)).collect());
    }
    let served = view.served();
    let mut checks = tokio::task::JoinSet::new();
    for (index, (name, _)) in served.apps.iter().enumerate() {
        let (name, app) = (name.clone(), view.links.app(name));
        checks.spawn(async move {
            let health = match app {
                Some(app) => app.check_health(RESPONSE).await,
                None => AppHealth::NoWorker(None),
            };
            (index, name, health.is_good(), words(&health))
        });
    }
    let mut responses = checks.join_all().await;
    responses.sort_by_key(|(index, ..)| *index);
    let mut health =
        Health::of(responses.into_iter().map(|(_, name, good, words)| (name, good, words)).collect());
    health.degraded = stuck
        .iter()
        .map(|index| format!("data-{index} has made no progress for 5 s; the other threads serve"))
        .collect();
    health
}

fn words(health: &AppHealth) -> String {
    match health {
        AppHealth::Responded(after) => format!("a worker answered in {:.1} ms", after.as_secs_f64() * 1e3),
        AppHealth::Busy(1) => "its worker is busy with requests".to_owned(),
        AppHealth::Busy(workers) => format!("{workers} workers are busy with requests"),
        AppHealth::Silent(1) => "its worker is idle but does not respond".to_owned(),
        AppHealth::Silent(workers) => format!("{workers} workers are idle but none responds"),
        AppHealth::Away(address) => format!("no server accepts connections at {address}"),
        AppHealth::NoWorker(Some(reason)) => format!("given up: {reason}"),
        AppHealth::NoWorker(None) => "no worker is ready".to_owned(),
    }
}

impl Health {
    fn of(parts: Vec<(String, bool, String)>) -> Self {
        Self { good: parts.iter().all(|(_, good, _)| *good), parts, degraded: Vec::new() }
    }

    /// `{"ok": false, "parts": [{"name": "shop", "ok": false, "why": "no worker is ready"}]}`; the name of the list is the caller's.
    pub(super) fn json(&self, list: &str) -> Value {
        let parts: Vec<Value> = self
            .parts
            .iter()
            .map(|(name, good, why)| json!({ "name": name, "ok": good, "why": why }))
            .collect();
        json!({ "ok": self.good, list: parts, "degraded": self.degraded })
    }

    /// `ok`, or a line for each part that is not.
    pub(super) fn text(&self) -> String {
        if self.good {
            let degraded = self.degraded.iter().map(|what| format!("degraded: {what}\n"));
            return format!("ok\n{}", degraded.collect::<String>());
        }
        let bad = self.parts.iter().filter(|(_, good, _)| !good);
        bad.map(|(name, _, why)| format!("{name}: {why}\n")).collect()
    }
}
