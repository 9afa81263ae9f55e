//! `leaks = true`: the log says what requests keep, without being asked (for development).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use keepwarm_config::Config;
use keepwarm_workers::dispatch::{App, Links, Measurement, Measuring};
use tokio::task::AbortHandle;
use tokio::time::interval;

use super::report::verdict;
use super::session::{LOOK, Left, is_late};
use super::totals::Totals;

/// Requests of a route after which the log says what it keeps, and again after as many until there is something.
const REQUESTS: u32 = 20;

/// Measures the apps that want it. Ends when dropped.
#[derive(Debug, Default)]
pub(crate) struct LeakWatch {
    apps: BTreeSet<String>,
    tasks: Vec<AbortHandle>,
}

impl LeakWatch {
    /// Does what the configuration says from now on. An app that was measured before continues.
    pub(crate) fn apply(&mut self, config: &Config, links: &Arc<Links>) {
        let apps: BTreeSet<String> =
            config.apps.iter().filter(|app| app.leaks).map(|app| app.name.clone()).collect();
        if apps == self.apps {
            return;
        }
        *self = Self::default();
        let begin = |app: &String| {
            let (name, links) = (app.clone(), Arc::clone(links));
            tokio::spawn(async move { watch(&name, &links).await }).abort_handle()
        };
        self.tasks = apps.iter().map(begin).collect();
        self.apps = apps;
    }
}

impl Drop for LeakWatch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Measures one worker after the other: each as long as it lasts.
async fn watch(name: &str, links: &Links) {
    let mut ticks = interval(LOOK);
    let mut seen = Seen::default();
    loop {
        ticks.tick().await;
        let Some(app) = links.app(name) else { continue };
        let workers = app.leaks_workers();
        let able = workers.iter().filter(|worker| worker.measures && !seen.silent.contains(&worker.key.pid));
        let measuring = able.map(|worker| worker.key.pid).find_map(|pid| app.measure_unasked(pid));
        if let Some(measuring) = measuring {
            seen.follow(&app, measuring).await;
        }
    }
}

#[derive(Default)]
struct Seen {
    totals: Totals,
    /// The routes that the log has named.
    told: HashSet<String>,
    /// The workers that have not responded, by process id.
    silent: HashSet<u32>,
}

impl Seen {
    /// Until the worker goes, or somebody asks for a search.
    async fn follow(&mut self, app: &App, mut measuring: Measuring) {
        let pid = measuring.worker().pid;
        let mut ticks = interval(LOOK);
        loop {
            tokio::select! {
                measurement = measuring.next() => match measurement {
                    Some(measurement) => self.add(app, pid, measurement),
                    None => return,
                },
                _ = ticks.tick() => {
                    let late = is_late(&measuring);
                    if matches!(late, Some(Left::Silent)) {
                        self.silent.insert(pid);
                    }
                    if late.is_some() || app.is_searched() {
                        return;
                    }
                }
            }
        }
    }

    fn add(&mut self, app: &App, worker: u32, measurement: Measurement) {
        let route = measurement.route.clone();
        self.totals.add(worker, measurement);
        if self.told.contains(&route) {
            return;
        }
        if let Some(verdict) = self.totals.every(REQUESTS, &route).as_ref().and_then(verdict) {
            tracing::warn!(
                name: "app_keeps",
                app = %app.name, route,
                "{verdict} (logged once for each route; `keepwarm leaks {}` shows more)", app.name
            );
            self.told.insert(route);
        }
    }
}
