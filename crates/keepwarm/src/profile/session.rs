//! A profile in the Keepwarm that has the workers: sends each a signal at the rate, and gives what they respond.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use keepwarm_workers::dispatch::{App, Profile, ProfileTotals, ProfiledWorker, too_old};
use keepwarm_workers::supervisor::{Waits, WorkerProcessHandle};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::request::ProfileRequest;
use crate::named::{self, check_route, counted};
use crate::status::view::View;

/// How often workers that have come are found: a new one misses a tenth of a second at most.
const LOOK: Duration = Duration::from_millis(100);
/// What workers have to send what is left. One that is at work on a request is not waited for. The number is arbitrary: far above what a loaded machine needs.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Responds to `profile SECONDS HERTZ APP [ROUTE]`. The profile ends early when the caller closes its side.
pub(crate) async fn respond(view: &View, rest: &str, caller: &mut (impl AsyncRead + Unpin)) -> Value {
    let Some(request) = ProfileRequest::parse(rest) else {
        return refusal("not a request for a profile: it is from another version of keepwarm");
    };
    match Session::begin(view, request) {
        Ok(session) => session.run(caller).await,
        Err(message) => refusal(&message),
    }
}

fn refusal(message: &str) -> Value {
    json!({ "ok": false, "message": message })
}

struct Session<'v> {
    view: &'v View,
    request: ProfileRequest,
    app: Arc<App>,
    profile: Profile,
    /// The workers that take part, or did and are gone, by process id.
    profiled: HashSet<u32>,
    gone: BTreeSet<String>,
    targets: Vec<Target>,
}

impl<'v> Session<'v> {
    /// Begins, unless nothing could come of it.
    fn begin(view: &'v View, request: ProfileRequest) -> Result<Self, String> {
        let app = named::app(view, &request.app)?;
        let busy =
            || format!("app {} is already being profiled; wait for the end of that profile", request.app);
        if app.is_profiled() {
            return Err(busy());
        }
        if let Some(route) = &request.route {
            check_route(&request.app, route)?;
        }
        check_workers(&request.app, &app)?;
        let profile = app.begin_profile(request.route.as_deref()).ok_or_else(busy)?;
        Ok(Self {
            view,
            request,
            app,
            profile,
            profiled: HashSet::new(),
            gone: BTreeSet::new(),
            targets: Vec::new(),
        })
    }

    async fn run(mut self, caller: &mut (impl AsyncRead + Unpin)) -> Value {
        let begun = Instant::now();
        let mut byte = [0];
        tokio::select! {
            () = self.sample(begun) => {}
            // The end of the caller's side; it sends nothing else.
            _ = caller.read(&mut byte) => {}
        }
        let lasted = begun.elapsed();
        self.profile.rest(LAST_WORDS).await;
        self.report(lasted)
    }

    /// Sends signals until the time is over.
    async fn sample(&mut self, begun: Instant) {
        let end = begun + self.request.time();
        let mut ticks = interval(self.request.period());
        // A worker weighs what it notes by the time: signals that come together would be for nothing.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = None;
        while Instant::now() < end {
            if looked.is_none_or(|at: Instant| at.elapsed() >= LOOK) {
                self.look().await;
                looked = Some(Instant::now());
            }
            ticks.tick().await;
            self.signal_all();
        }
    }

    fn signal_all(&mut self) {
        self.targets.iter_mut().for_each(Target::signal);
    }

    /// Finds the processes of the workers that take part.
    async fn look(&mut self) {
        let workers = self.app.profiled_workers();
        let taking_part = workers.into_iter().filter(|worker| worker.takes_part);
        let mut workers: HashMap<u32, ProfiledWorker> =
            taking_part.map(|worker| (worker.key.pid, worker)).collect();
        self.gone.extend(self.profiled.iter().filter(|pid| !workers.contains_key(pid)).map(u32::to_string));
        self.profiled.extend(workers.keys());
        self.targets.retain(|target| workers.remove(&target.process.pid).is_some());
        if workers.is_empty() {
            return;
        }
        for process in self.view.supervisor.worker_processes(&self.request.app).await {
            if let Some(worker) = workers.remove(&process.pid) {
                self.targets.push(Target { process, worker, waits: Waits::default() });
            }
        }
    }

    fn report(&self, lasted: Duration) -> Value {
        let totals = self.profile.totals();
        let workers = self.app.profiled_workers();
        json!({
            "ok": true,
            "app": self.request.app,
            "hertz": self.request.hertz,
            "seconds": lasted.as_secs_f64(),
            "workers": self.profiled.len(),
            "dropped": totals.dropped,
            "notes": self.notes(&workers, &totals),
            "microseconds": totals.stacks,
        })
    }

    /// What a reader of the profile must know about it.
    fn notes(&self, workers: &[ProfiledWorker], totals: &ProfileTotals) -> Vec<String> {
        let mut notes = Vec::new();
        if totals.dropped > 0 {
            notes.push(format!("dropped {} samples: too many distinct stacks", totals.dropped));
        }
        if !self.gone.is_empty() {
            let pids: Vec<&str> = self.gone.iter().map(String::as_str).collect();
            notes.push(format!(
                "{} exited or {} replaced during the profile; samples not sent before are missing (process {})",
                counted(pids.len(), "worker"),
                if pids.len() == 1 { "was" } else { "were" },
                pids.join(", ")
            ));
        }
        for (adapter, count) in too_old(workers) {
            notes.push(format!(
                "{} took no part: adapter {adapter} has no profiles",
                counted(count, "worker")
            ));
        }
        for worker in workers.iter().filter(|worker| is_silent(worker, totals)) {
            let key = &worker.key;
            notes.push(format!(
                "worker {}/{} (process {}) sent no samples, and has requests; `keepwarm stack {}/{}` shows where it is",
                key.app, key.number, key.pid, key.app, key.number
            ));
        }
        notes
    }
}

/// A worker that gets signals.
struct Target {
    process: WorkerProcessHandle,
    worker: ProfiledWorker,
    waits: Waits,
}

impl Target {
    fn signal(&mut self) {
        // The wait for a request is the adapter's own, which no signal harms.
        if !self.worker.late_signals || !self.worker.is_at_work() || self.waits.takes_signal(self.process.pid)
        {
            self.process.send_profile_signal();
        }
    }
}

/// It works on something and has not said where it is: it waits in a call that signals do not interrupt, or its application has taken the signal.
fn is_silent(worker: &ProfiledWorker, totals: &ProfileTotals) -> bool {
    worker.takes_part && worker.is_at_work() && !totals.senders.contains(&worker.key.pid)
}

/// That at least one worker takes part.
fn check_workers(name: &str, app: &App) -> Result<(), String> {
    let workers = app.profiled_workers();
    if workers.iter().any(|worker| worker.takes_part) {
        return Ok(());
    }
    if app.is_server() {
        return Err(format!(
            "app {name} is a server of its own (kind http or fastcgi), without an adapter of Keepwarm that could see its stacks; use a profiler of its \
             language"
        ));
    }
    match too_old(&workers).into_iter().next() {
        Some((adapter, _)) if adapter.starts_with("php/") => Err(format!(
            "the workers of app {name} cannot be profiled: their PHP has no extension pcntl, or adapter {adapter} has no profiles"
        )),
        Some((adapter, _)) => Err(format!(
            "the workers of app {name} cannot be profiled: adapter {adapter} has no profiles; update it, and replace the workers with `keepwarm restart {name}`"
        )),
        None => Err(format!("app {name} has no worker that is ready; `keepwarm status` shows why")),
    }
}
