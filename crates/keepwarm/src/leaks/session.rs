//! A search in the Keepwarm that has the workers: has one of them measured, and another where that one goes or does not respond.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use keepwarm_workers::dispatch::{App, LeakSearch, LeaksWorker, Measuring, MeasuringState};
use keepwarm_workers::supervisor::WorkerKey;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, interval};

use super::request::LeaksRequest;
use super::totals::Totals;
use crate::named::{self, check_route, counted};
use crate::status::view::View;

/// How often the worker that is measured is looked at, and progress is told.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// A worker that takes many requests at once must be without one before it can begin: it gets none for so long, which holds up those that wait for it.
const FINISH: Duration = Duration::from_secs(3);
/// After a failure to begin, it is left alone for so long.
const RETRY: Duration = Duration::from_secs(10);
/// The time for one measurement. The number is arbitrary: a heap of a gigabyte takes a few seconds.
const MEASURE: Duration = Duration::from_secs(30);
/// A request of a worker that could serve others at the same time: if it takes longer, they are not held up for it.
const SERVE: Duration = Duration::from_secs(10);

/// Responds to `leaks REQUESTS SECONDS APP [ROUTE]`. The search ends early when the caller closes its side; until then it gets lines with the progress.
pub(crate) async fn respond(
    view: &View,
    rest: &str,
    caller: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Value {
    let Some(request) = LeaksRequest::parse(rest) else {
        return refusal("not a request for a search: it is from another version of keepwarm");
    };
    match Session::begin(view, request) {
        Ok(session) => session.run(caller).await,
        Err(message) => refusal(&message),
    }
}

fn refusal(message: &str) -> Value {
    json!({ "ok": false, "message": message })
}

struct Session {
    request: LeaksRequest,
    app: Arc<App>,
    search: LeakSearch,
    totals: Totals,
    /// Requests of other routes than the one that is meant.
    others: u32,
    workers: Vec<WorkerKey>,
    /// When a worker may be measured again, by process id; never (`None`): it has not responded.
    left_alone: HashMap<u32, Option<Instant>>,
    notes: BTreeSet<String>,
}

/// Why a worker is measured no more.
pub(super) enum Left {
    /// There is enough, or the time is over, or the caller has gone.
    Done,
    /// It has gone, will go, or has a WebSocket.
    Over,
    /// It does not come to the end of the requests that it has.
    Occupied,
    /// It has one that takes long, and could serve others.
    LongRequest,
    /// It does not respond.
    Silent,
}

impl Session {
    /// Begins, unless nothing could come of it.
    fn begin(view: &View, request: LeaksRequest) -> Result<Self, String> {
        let app = named::app(view, &request.app)?;
        let busy =
            || format!("app {} is already being measured; wait for the end of that search", request.app);
        if app.is_searched() {
            return Err(busy());
        }
        if let Some(route) = &request.route {
            check_route(&request.app, route)?;
        }
        check_workers(&request.app, &app)?;
        let search = app.begin_leak_search().ok_or_else(busy)?;
        Ok(Self {
            request,
            app,
            search,
            totals: Totals::default(),
            others: 0,
            workers: Vec::new(),
            left_alone: HashMap::new(),
            notes: BTreeSet::new(),
        })
    }

    async fn run(mut self, caller: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Value {
        let begun = Instant::now();
        let end = begun + self.request.time();
        if self.tell(caller, self.beginning()).await {
            self.measure_until(end, caller).await;
        }
        self.report(begun.elapsed())
    }

    /// What the caller should know before its first request is measured.
    fn beginning(&self) -> Value {
        json!({ "begins": { "workers": self.app.leaks_workers().len() } })
    }

    /// Measures one worker after the other.
    async fn measure_until(&mut self, end: Instant, caller: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        let mut ticks = interval(LOOK);
        loop {
            let Some(mut measuring) = self.next_worker() else {
                // Another may come: a reload, or one that was occupied.
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = caller.read_u8() => return,
                }
                if Instant::now() >= end || !self.tell(caller, self.progress(None)).await {
                    return;
                }
                continue;
            };
            let left = self.follow(&mut measuring, end, caller).await;
            if matches!(left, Left::Done) {
                return;
            }
            self.leave(&measuring, &left);
        }
    }

    /// A worker that measures, and was not tried just before.
    fn next_worker(&mut self) -> Option<Measuring> {
        let now = Instant::now();
        let mut workers: Vec<LeaksWorker> =
            self.app.leaks_workers().into_iter().filter(|worker| worker.measures).collect();
        workers.retain(|worker| match self.left_alone.get(&worker.key.pid) {
            Some(Some(until)) => *until <= now,
            Some(None) => false,
            None => true,
        });
        // One that has measured before comes first: its caches are full.
        workers.sort_by_key(|worker| !self.workers.contains(&worker.key));
        let measuring = workers.iter().find_map(|worker| self.search.measure(worker.key.pid))?;
        let key = measuring.worker().clone();
        if !self.workers.contains(&key) {
            self.workers.push(key);
        }
        Some(measuring)
    }

    async fn follow(
        &mut self,
        measuring: &mut Measuring,
        end: Instant,
        caller: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Left {
        let pid = measuring.worker().pid;
        let mut ticks = interval(LOOK);
        let mut told = None;
        loop {
            tokio::select! {
                measurement = measuring.next() => {
                    let Some(measurement) = measurement else { return Left::Over };
                    if !self.request.wants(&measurement.route) {
                        self.others += 1;
                        self.totals.add_other(pid, &measurement);
                        continue;
                    }
                    self.totals.add(pid, measurement);
                    if self.totals.requests >= self.request.requests {
                        return Left::Done;
                    }
                }
                // The end of the caller's side; it sends nothing else.
                _ = caller.read_u8() => return Left::Done,
                _ = ticks.tick() => {
                    if Instant::now() >= end {
                        return Left::Done;
                    }
                    if let Some(left) = is_late(measuring) {
                        return left;
                    }
                    let (state, _) = measuring.state();
                    let progress = (self.totals.requests, state);
                    if told != Some(progress) {
                        told = Some(progress);
                        if !self.tell(caller, self.progress(Some(state))).await {
                            return Left::Done;
                        }
                    }
                }
            }
        }
    }

    fn leave(&mut self, measuring: &Measuring, left: &Left) {
        let key = measuring.worker();
        let who = format!("worker {}/{} (process {})", key.app, key.number, key.pid);
        let (note, again) = match left {
            Left::Done => return,
            Left::Over => (
                format!("{who} was replaced, exited or got a WebSocket; its requests before that count"),
                Some(Instant::now() + RETRY),
            ),
            Left::Occupied => (
                format!("{who} had requests for longer than {} s, and did not begin", FINISH.as_secs()),
                Some(Instant::now() + RETRY),
            ),
            Left::LongRequest => (
                format!("{who} had a request for longer than {} s, and was let go", SERVE.as_secs()),
                Some(Instant::now() + RETRY),
            ),
            Left::Silent => {
                (format!("{who} did not measure within {} s, and was let go", MEASURE.as_secs()), None)
            }
        };
        self.notes.insert(note);
        self.left_alone.insert(key.pid, again);
    }

    fn progress(&self, state: Option<MeasuringState>) -> Value {
        let doing = match state {
            None | Some(MeasuringState::Over) => "no worker can be measured now",
            Some(MeasuringState::Finishing) => "its requests end first",
            Some(MeasuringState::Counting) => "it counts what it holds",
            Some(MeasuringState::Idle) => "it waits for requests",
            Some(MeasuringState::Serving | MeasuringState::Measuring) => "",
        };
        json!({ "progress": { "requests": self.totals.requests, "doing": doing } })
    }

    /// Writes a line to the caller. `false`: it has gone.
    async fn tell(&self, caller: &mut (impl AsyncWrite + Unpin), line: Value) -> bool {
        let text = format!("{line}\n");
        let write = async {
            caller.write_all(text.as_bytes()).await?;
            caller.flush().await
        };
        matches!(tokio::time::timeout(crate::live::SNAPSHOT_TIMEOUT, write).await, Ok(Ok(())))
    }

    fn report(&self, lasted: Duration) -> Value {
        let mut notes: Vec<&str> = self.notes.iter().map(String::as_str).collect();
        let dropped = format!("dropped {} names: too many distinct ones", self.totals.dropped);
        notes.extend((self.totals.dropped > 0).then_some(dropped.as_str()));
        let workers: Vec<String> =
            self.workers.iter().map(|key| format!("{}/{}", key.app, key.number)).collect();
        json!({
            "ok": true,
            "app": self.request.app,
            "seconds": lasted.as_secs_f64(),
            "requests": self.totals.requests,
            "other_requests": self.others,
            "measurement_microseconds": u64::try_from(self.totals.mean_time().as_micros()).unwrap_or(u64::MAX),
            "workers": workers,
            "notes": notes,
            "routes": self.totals.json(),
        })
    }
}

/// Whether the worker should not be waited for any longer.
pub(super) fn is_late(measuring: &Measuring) -> Option<Left> {
    let (state, since) = measuring.state();
    let lasted = since.elapsed();
    match state {
        MeasuringState::Over => Some(Left::Over),
        MeasuringState::Finishing if measuring.takes_many() && lasted > FINISH => Some(Left::Occupied),
        MeasuringState::Serving if measuring.takes_many() && lasted > SERVE => Some(Left::LongRequest),
        MeasuringState::Counting | MeasuringState::Measuring if lasted > MEASURE => Some(Left::Silent),
        _ => None,
    }
}

/// That at least one worker can be measured.
fn check_workers(name: &str, app: &App) -> Result<(), String> {
    let workers = app.leaks_workers();
    if workers.iter().any(|worker| worker.measures) {
        return Ok(());
    }
    if app.is_server() {
        return Err(format!(
            "app {name} is a server of its own (kind http or fastcgi), without an adapter of Keepwarm that could see its objects; use a memory profiler of its \
             language"
        ));
    }
    let adapter = workers.iter().find_map(|worker| worker.adapter.clone());
    match adapter {
        Some(adapter) if adapter.starts_with("php/") => Err(format!(
            "the workers of app {name} cannot be measured: each request of it starts afresh and keeps nothing, or adapter {adapter} is too old; for the second, \
             update it, and replace the workers with `keepwarm restart {name}`"
        )),
        Some(adapter) => Err(format!(
            "the {} of app {name} cannot be measured: adapter {adapter} does not tell what is kept; update it, and replace the workers with `keepwarm restart {name}`",
            counted(workers.len(), "worker")
        )),
        None => Err(format!("app {name} has no worker that is ready; `keepwarm status` shows why")),
    }
}
