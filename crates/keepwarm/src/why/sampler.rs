//! Once a second, on the control thread: what has been counted since the second before. No thread of the data plane does anything for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use keepwarm_egress::Upstream;
use keepwarm_net::{SPILL, restarted};
use keepwarm_policy::BreakerState;
use keepwarm_policy::why::{
    AppCallSample, AppSample, AppStep, BlockedListener, HeldRoute, MachineStep, RouteSample, RouteStep,
    Sample, SpillFailure, Times, UpstreamSample, UpstreamStep, WorkerSample,
};
use keepwarm_telemetry::counters;
use keepwarm_telemetry::meters::{self, RouteTotals};
use keepwarm_telemetry::per_thread::HistogramTotals;
use keepwarm_telemetry::stalls::Stall;
use keepwarm_telemetry::timelines::{self, AppCalls, AppUpstream};
use keepwarm_telemetry::upstreams::{self, EndpointTotals};
use keepwarm_workers::dispatch::WorkerActivity;
use keepwarm_workers::supervisor::{AppSnapshot, Death, Snapshot, WorkerSnapshot};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use super::cpu_limit::{self, LimitedGroup};
use super::machine::{self, MachineTotals, ProcessTotals};
use super::processors::{MeasuredWorkers, Workers, by_app};
use crate::error_reference::is_server_error;
use crate::live::{self, Recent};
use crate::status::view::{ServedConfig, View};

const EACH: Duration = Duration::from_secs(1);
/// The reason of refusals during maintenance.
const MAINTENANCE: &str = "maintenance";
/// The class of 5xx in [`meters::CLASSES`].
const FAILED: usize = 5;

/// Samples until the view is gone.
pub(crate) fn observe(view: &Arc<View>) {
    let wanted = view.feed.wanted();
    let view = Arc::downgrade(view);
    tokio::spawn(restarted("why_sampler", move || {
        sample_each_second(Weak::clone(&view), Arc::clone(&wanted))
    }));
}

/// `wanted`: a stream waits for its first snapshot.
async fn sample_each_second(view: Weak<View>, wanted: Arc<Notify>) {
    let mut sampler = Sampler::default();
    let mut ticks = tokio::time::interval(EACH);
    // Late ticks are not made up for: a step of nothing would follow.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_wanted = tokio::select! {
            _ = ticks.tick() => false,
            () = wanted.notified() => true,
        };
        let Some(view) = view.upgrade() else { return };
        match is_wanted {
            true => live::publish(&view, &sampler.recent).await,
            false => sampler.sample(&view).await,
        }
    }
}

/// By app: the routes that had a request in this second.
type CountedRoutes = BTreeMap<&'static str, Vec<(&'static str, RouteTotals)>>;

/// The totals of the second before.
#[derive(Default)]
struct Sampler {
    /// By the address of the meter, which lives as long as the process.
    routes: HashMap<usize, RouteTotals>,
    endpoints: HashMap<usize, EndpointTotals>,
    stalls: HashMap<(String, &'static str), u64>,
    refusals: HashMap<(String, &'static str), u64>,
    crashes: HashMap<Arc<str>, u64>,
    /// By app and upstream.
    app_calls: HashMap<AppUpstream, AppCalls>,
    lost: HashMap<Arc<str>, u64>,
    /// By listener, in microseconds.
    blocked: HashMap<&'static str, u64>,
    spill_full: u64,
    spill_failures: u64,
    machine: MachineTotals,
    limited: Vec<LimitedGroup>,
    own: ProcessTotals,
    workers: MeasuredWorkers,
    at: Option<Instant>,
    recent: Recent,
}

impl Sampler {
    async fn sample(&mut self, view: &View) {
        let snapshot = view.supervisor.snapshot().await;
        let served = view.served();
        let now = Instant::now();
        let elapsed = self.at.replace(now).map(|before| now.saturating_duration_since(before));
        let stalls = self.stalls();
        let needs_processors = view.diagnosis.lock().needs_processors();
        let workers = by_app(&snapshot);
        let (processors, computing) = match needs_processors {
            true => self.workers.measure(&workers),
            false => self.workers.forget(),
        };
        let machine = self.machine(elapsed, computing);
        let routes = self.routes();
        let counted = steps(&routes);
        let mut apps = apps(view, &served, &snapshot, &workers, &stalls, routes);
        let mut errors = self.errors();
        for app in &mut apps {
            app.processors = processors.get(&*app.name).copied();
            app.errors = errors.remove(&*app.name).unwrap_or_default();
            // The operator has switched maintenance on, so these refusals are meant.
            let meant = app.errors.iter().find(|(reason, _)| *reason == MAINTENANCE);
            app.step.failed = app.step.failed.saturating_sub(meant.map_or(0, |(_, count)| *count));
            app.errors.retain(|(reason, _)| *reason != MAINTENANCE);
            if let Some(snapshot) = snapshot.apps.iter().find(|snapshot| snapshot.app == app.name) {
                self.count_crashes(snapshot, app);
            }
        }
        let sample = Sample {
            machine,
            apps,
            upstreams: self.upstreams(&served, &stalls),
            blocked: self.blocked(&served),
            spill_full: narrow(since(&mut self.spill_full, counters::SPILL_FULL.value())),
            spill_failed: spill_failure(narrow(since(&mut self.spill_failures, SPILL.failures()))),
        };
        // What was counted before the first sample is of no second.
        if elapsed.is_some() {
            self.recent.handle_second(counted, sample.apps.iter().flat_map(|app| &app.workers));
            view.diagnosis.lock().handle_sample(&sample);
        }
        live::set_slow(&meters::routes(), &view.links, &view.diagnosis.lock());
        timelines::forget_old_calls();
        live::publish(view, &self.recent).await;
    }

    fn machine(&mut self, elapsed: Option<Duration>, workers: f64) -> MachineStep {
        let totals = machine::machine();
        let own = machine::process(std::process::id()).unwrap_or_default();
        let before = std::mem::replace(&mut self.machine, totals);
        let computing = own.computing - std::mem::replace(&mut self.own, own).computing + workers;
        let elapsed = elapsed.unwrap_or(EACH);
        let seconds = elapsed.as_secs_f64();
        let limited = cpu_limit::limited_groups();
        let throttling = cpu_limit::throttling(&self.limited, &limited, elapsed);
        self.limited = limited;
        let cores = totals.cores.max(1);
        let total = totals.total.saturating_sub(before.total).max(1) as f64;
        let share = |now: u64, before: u64| (now.saturating_sub(before) as f64 / total).min(1.0);
        let pressure = totals.pressure.zip(before.pressure);
        MachineStep {
            seconds: 1,
            cores,
            busy: share(totals.busy, before.busy),
            steal: share(totals.steal, before.steal),
            ours: (computing / seconds / f64::from(cores)).clamp(0.0, 1.0),
            pressure: pressure
                .map(|(now, before)| (now.saturating_sub(before).as_secs_f64() / seconds).min(1.0)),
            throttled: throttling.share,
            limit: (throttling.cores * 1e3) as u32,
        }
    }

    /// What each route of an app has counted, as far as it has.
    fn routes(&mut self) -> CountedRoutes {
        let mut routes = CountedRoutes::new();
        for meter in meters::routes() {
            let totals = meter.totals();
            let before = self.routes.insert(std::ptr::from_ref(meter).addr(), totals).unwrap_or_default();
            let new = RouteTotals {
                classes: std::array::from_fn(|at| difference(&totals.classes, &before.classes, at)),
                duration: histogram(&totals.duration, &before.duration),
                queue: histogram(&totals.queue, &before.queue),
                app: histogram(&totals.app, &before.app),
                write: histogram(&totals.write, &before.write),
            };
            if new.duration.count() > 0 {
                routes.entry(&meter.app).or_default().push((&*meter.route, new));
            }
        }
        routes
    }

    fn upstreams(
        &mut self,
        served: &ServedConfig,
        stalls: &HashMap<(String, &'static str), u32>,
    ) -> Vec<UpstreamSample> {
        let mut steps: BTreeMap<&'static str, UpstreamStep> = BTreeMap::new();
        for meter in upstreams::endpoints() {
            let totals = meter.totals();
            let before = self.endpoints.insert(std::ptr::from_ref(meter).addr(), totals).unwrap_or_default();
            let step = steps.entry(&meter.upstream).or_default();
            step.calls.merge(&times(&histogram(&totals.duration, &before.duration)));
            let failed = difference(&totals.classes, &before.classes, FAILED);
            step.failed = step.failed.saturating_add(narrow(failed));
        }
        let mut by_app = self.app_calls();
        let sample = |upstream: &Arc<Upstream>| {
            let sample = self.upstream(upstream, &steps, stalls);
            let by_app = by_app.remove(&sample.name).unwrap_or_default();
            UpstreamSample { by_app, ..sample }
        };
        served.upstreams.iter().map(sample).collect()
    }

    /// By upstream: the calls of requests that have ended since the second before.
    fn app_calls(&mut self) -> HashMap<Arc<str>, Vec<AppCallSample>> {
        let mut new: HashMap<Arc<str>, Vec<AppCallSample>> = HashMap::new();
        for (names, totals) in timelines::app_calls() {
            let before = self.app_calls.insert(names.clone(), totals).unwrap_or_default();
            let (app, upstream) = names;
            let calls = totals.count.saturating_sub(before.count);
            if calls > 0 {
                let us = totals.time.saturating_sub(before.time).as_micros();
                let us = u64::try_from(us).unwrap_or(u64::MAX);
                new.entry(upstream).or_default().push(AppCallSample { app, calls, us });
            }
        }
        new
    }

    fn upstream(
        &mut self,
        upstream: &Upstream,
        steps: &BTreeMap<&'static str, UpstreamStep>,
        stalls: &HashMap<(String, &'static str), u32>,
    ) -> UpstreamSample {
        let status = upstream.look();
        let key = (status.name.to_string(), Stall::HandshakePerCall.name());
        let lost = status.totals.lost_retried + status.totals.lost_failed;
        let before = self.lost.entry(Arc::clone(&status.name)).or_insert(lost);
        let takes_calls = |state: &str| !matches!(state, "down" | "open" | "ejected" | "drained");
        let shown = status.endpoints.len();
        let available = status.endpoints.iter().filter(|endpoint| takes_calls(endpoint.state())).count();
        // Those beyond what the status shows are not looked at one by one.
        let available = available + status.found.saturating_sub(shown);
        UpstreamSample {
            step: UpstreamStep {
                handshakes: stalls.get(&key).copied().unwrap_or(0),
                lost: narrow(since(before, lost)),
                in_flight: narrow(status.in_flight as u64),
                ..steps.get(&*status.name).copied().unwrap_or_default()
            },
            endpoints: narrow(status.found as u64),
            available: narrow(available as u64),
            open: status.breaker == BreakerState::Open,
            name: status.name,
            by_app: Vec::new(),
        }
    }

    /// The listener whose clients waited longest in this second because all connections were in use.
    fn blocked(&mut self, served: &ServedConfig) -> Option<BlockedListener> {
        let mut longest = BlockedListener { limit: served.connections as u64, ..BlockedListener::default() };
        for meter in meters::listeners() {
            let before = self.blocked.entry(&meter.name).or_default();
            let time = Duration::from_micros(since(before, meter.totals().blocked_us));
            if time > longest.time {
                (longest.listener, longest.time) = (Arc::from(&*meter.name), time);
            }
        }
        (longest.time > Duration::ZERO).then_some(longest)
    }

    /// Error responses of Keepwarm with a 5xx in this second, by app.
    fn errors(&mut self) -> HashMap<String, Vec<(&'static str, u32)>> {
        let mut new: HashMap<String, Vec<_>> = HashMap::new();
        for (app, reason, count) in counters::REFUSALS.values() {
            let before = self.refusals.entry((app.clone(), reason)).or_default();
            let more = narrow(since(before, count));
            if more > 0 && is_server_error(reason) {
                new.entry(app).or_default().push((reason, more));
            }
        }
        new
    }

    fn count_crashes(&mut self, snapshot: &AppSnapshot, app: &mut AppSample) {
        let is_crash = |death: Death| !matches!(death, Death::Timeout | Death::Drain);
        let crashes =
            snapshot.deaths.iter().filter(|(death, _)| is_crash(*death)).map(|(_, count)| count).sum();
        app.crashes = narrow(since(self.crashes.entry(Arc::clone(&app.name)).or_default(), crashes));
        let last = snapshot.last_death.as_ref().filter(|last| is_crash(last.death));
        app.last_crash = last.map(|last| last.reason.as_str().into());
    }

    fn stalls(&mut self) -> HashMap<(String, &'static str), u32> {
        let mut new = HashMap::new();
        for (app, stall, count) in counters::STALLS.values() {
            let before = self.stalls.entry((app.clone(), stall)).or_default();
            new.insert((app, stall), narrow(since(before, count)));
        }
        new
    }
}

fn apps(
    view: &View,
    served: &ServedConfig,
    snapshot: &Snapshot,
    workers: &Workers<'_>,
    stalls: &HashMap<(String, &'static str), u32>,
    mut routes: CountedRoutes,
) -> Vec<AppSample> {
    let mut activity: BTreeMap<Arc<str>, Vec<WorkerActivity>> = BTreeMap::new();
    for worker in view.links.activity() {
        activity.entry(Arc::clone(&worker.worker.app)).or_default().push(worker);
    }
    let sample = |(name, _): &(String, Option<usize>)| {
        let routes = routes.remove(name.as_str()).unwrap_or_default();
        let held = held(activity.get(name.as_str()).map_or(&[], Vec::as_slice));
        let stall = |stall: Stall| stalls.get(&(name.clone(), stall.name())).copied().unwrap_or(0);
        let step = AppStep {
            waiting: narrow(view.links.app(name).map_or(0, |app| app.waiting() as u64)),
            held: held.iter().map(|route| route.requests).sum(),
            boots: stall(Stall::BootPerRequest),
            close_added: stall(Stall::CloseAdded),
            expectations: stall(Stall::ExpectationIgnored),
            ..routes.iter().fold(AppStep::default(), |sum, (_, totals)| with_route(sum, totals))
        };
        AppSample {
            name: name.as_str().into(),
            step,
            routes: routes.iter().map(|(route, totals)| route_sample(route, totals)).collect(),
            held,
            generation: snapshot.apps.iter().find(|app| *app.app == **name).map_or(0, |app| app.generation),
            workers: workers.get(name.as_str()).map_or(Vec::new(), |workers| worker_samples(workers)),
            ..AppSample::default()
        }
    };
    served.apps.iter().map(sample).collect()
}

/// What each route has counted in this second.
fn steps(routes: &CountedRoutes) -> HashMap<(&'static str, &'static str), RouteStep> {
    let of_app = |(app, routes): (&&'static str, &Vec<(&'static str, RouteTotals)>)| {
        let app = *app;
        routes.iter().map(|(route, totals)| ((app, *route), route_step(totals))).collect::<Vec<_>>()
    };
    routes.iter().flat_map(of_app).collect()
}

/// A request without phases never came to a worker: it is counted, and no phase is.
fn with_route(mut sum: AppStep, route: &RouteTotals) -> AppStep {
    let phases = [route.queue, route.app, route.write].map(|phase| phase.sum_ns / 1000);
    let [queue, app, write] = phases;
    sum.times.merge(&times(&route.duration));
    sum.queue_us += queue;
    sum.app_us += app;
    sum.write_us += write;
    // Nobody counts the time of reading: it is what is left, where each request had phases.
    if route.queue.count() == route.duration.count() {
        sum.read_us += (route.duration.sum_ns / 1000).saturating_sub(queue + app + write);
    }
    sum.failed = sum.failed.saturating_add(narrow(class(route, FAILED)));
    sum
}

fn route_sample(route: &str, totals: &RouteTotals) -> RouteSample {
    RouteSample { route: route.into(), step: route_step(totals) }
}

fn route_step(totals: &RouteTotals) -> RouteStep {
    RouteStep { times: times(&totals.duration), failed: narrow(class(totals, FAILED)) }
}

fn class(totals: &RouteTotals, at: usize) -> u64 {
    totals.classes.get(at).copied().unwrap_or(0)
}

/// The requests that workers have begun, by route, the most first.
fn held(workers: &[WorkerActivity]) -> Vec<HeldRoute> {
    let mut routes: BTreeMap<Arc<str>, HeldRoute> = BTreeMap::new();
    for worker in workers {
        for request in &worker.active_requests {
            let Some(age) = request.age else { continue };
            let route = request.summary.route.clone().unwrap_or_else(|| "-".into());
            let held = routes
                .entry(Arc::clone(&route))
                .or_insert_with(|| HeldRoute { route, ..HeldRoute::default() });
            held.requests += 1;
            if age >= held.oldest {
                (held.oldest, held.worker) = (age, worker.worker.number);
            }
        }
    }
    let mut held: Vec<HeldRoute> = routes.into_values().collect();
    held.sort_by_key(|route| std::cmp::Reverse(route.requests));
    held
}

/// What was lost to the disk in this second, and the room that it has left.
fn spill_failure(lost: u32) -> Option<SpillFailure> {
    (lost > 0).then(|| {
        let folder = std::env::temp_dir();
        let space = rustix::fs::statvfs(&folder).ok();
        SpillFailure {
            lost,
            folder: folder.display().to_string().into(),
            free: space.map(|space| space.f_bavail.saturating_mul(space.f_frsize)),
        }
    })
}

fn worker_samples(workers: &[&WorkerSnapshot]) -> Vec<WorkerSample> {
    let now = Instant::now();
    let sample = |worker: &&WorkerSnapshot| {
        Some(WorkerSample {
            number: worker.number,
            pid: worker.pid?,
            generation: worker.generation,
            age: now.saturating_duration_since(worker.started?),
            memory: worker.memory.map(|memory| memory.own),
        })
    };
    workers.iter().filter_map(sample).collect()
}

fn histogram(now: &HistogramTotals, before: &HistogramTotals) -> HistogramTotals {
    HistogramTotals {
        buckets: std::array::from_fn(|at| difference(&now.buckets, &before.buckets, at)),
        sum_ns: now.sum_ns.wrapping_sub(before.sum_ns),
    }
}

fn times(histogram: &HistogramTotals) -> Times {
    Times { counts: histogram.buckets.map(narrow), sum_us: histogram.sum_ns / 1000 }
}

fn difference(now: &[u64], before: &[u64], at: usize) -> u64 {
    now.get(at).copied().unwrap_or(0).saturating_sub(before.get(at).copied().unwrap_or(0))
}

/// What has come since it was last looked at.
fn since(before: &mut u64, now: u64) -> u64 {
    now.saturating_sub(std::mem::replace(before, now))
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_are_those_of_the_metrics() {
        assert_eq!(keepwarm_policy::why::BOUNDS_US, keepwarm_telemetry::per_thread::BOUNDS_US);
    }

    #[test]
    fn a_step_is_what_has_come_since_the_one_before() {
        let mut now = HistogramTotals { sum_ns: 5_000_000, ..HistogramTotals::default() };
        now.buckets[3] = 7;
        let before = HistogramTotals { buckets: [1; 17], sum_ns: 2_000_000 };
        let step = times(&histogram(&now, &before));
        assert_eq!((step.count(), step.sum_us), (6, 3_000));
    }

    #[test]
    fn the_time_of_reading_is_what_the_phases_leave() {
        let phase = |ms: u64| {
            let mut totals = HistogramTotals { sum_ns: ms * 1_000_000, ..HistogramTotals::default() };
            totals.buckets[5] = 2;
            totals
        };
        let route = RouteTotals {
            classes: [0, 0, 1, 0, 0, 1],
            duration: phase(100),
            queue: phase(20),
            app: phase(50),
            write: phase(10),
        };
        let step = with_route(AppStep::default(), &route);
        assert_eq!((step.read_us, step.phases_us(), step.failed), (20_000, 100_000, 1));
        let mut refused = route;
        refused.duration.buckets[5] = 3;
        assert_eq!(with_route(AppStep::default(), &refused).read_us, 0);
    }
}
