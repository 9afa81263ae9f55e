//! The histories of all subjects, and what happened to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::memory::WorkerMemory;
use super::rules::WINDOW;
use super::sample::{
    AppCallSample, AppSample, AppStep, HeldRoute, MachineStep, Processors, RouteSample, RouteStep,
    UpstreamSample, UpstreamStep,
};
use super::series::{Series, push};

/// Routes of all apps that have a history: at most 21 MB. Those beyond are counted with their app only.
pub const ROUTES_MAX: usize = 256;
/// Events that are kept.
pub const EVENTS_MAX: usize = 64;
/// Growth that is shown: below it, each request leaves something behind.
const SHOWN_GROWTH: u64 = 16 << 20;
/// Seconds of what is not counted but seen: who holds workers, what workers do.
const MOMENTS: usize = 10;

/// The history of an app.
#[derive(Debug, Default)]
pub struct AppHistory {
    /// What was counted.
    pub series: Series<AppStep>,
    /// Each of its routes that has had a request.
    pub routes: BTreeMap<Arc<str>, Series<RouteStep>>,
    /// The last seconds, the newest last.
    pub(super) moments: VecDeque<Moment>,
    /// Error responses of Keepwarm in each of the last 10 s, by reason.
    pub(super) errors: VecDeque<Vec<(&'static str, u32)>>,
    /// Crashes of workers in each second of the last minute.
    pub(super) crashes: VecDeque<u32>,
    /// The last one.
    pub(super) last_crash: Option<Arc<str>>,
    pub(super) memory: BTreeMap<u32, WorkerMemory>,
    pub(super) generation: u64,
    /// When the generation began to serve, if another served before.
    pub(super) reloaded: Option<u64>,
    /// How fast the memory of the workers before grew, the fastest of them, in bytes a second.
    pub(super) rate_before: Option<f64>,
}

/// How a worker has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerGrowth {
    /// Its number in the app.
    pub worker: u32,
    /// By how much.
    pub bytes: u64,
    /// In which time: up to an hour.
    pub over: Duration,
    /// The route that was busiest meanwhile, of several.
    pub route: Option<Arc<str>>,
}

/// What was so in one second.
#[derive(Debug, Clone, Default)]
pub(super) struct Moment {
    /// The route that held the most workers.
    pub(super) most: Option<HeldRoute>,
    pub(super) held: u32,
    pub(super) waiting: u32,
    pub(super) processors: Option<Processors>,
}

/// The history of an upstream.
#[derive(Debug, Default)]
pub struct UpstreamHistory {
    /// What was counted.
    pub series: Series<UpstreamStep>,
    /// Seconds in a row in which no endpoint was available.
    pub(super) unavailable: u64,
    /// The second in which its breaker was last open.
    pub(super) open: Option<u64>,
    pub(super) endpoints: u32,
    pub(super) available: u32,
    /// The last 10 s: whose calls they were, as far as that is known.
    pub(super) by_app: VecDeque<Vec<AppCallSample>>,
}

/// The machine's.
pub(super) type MachineHistory = Series<MachineStep>;

/// Something that happened, for the line of what came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The second since the histories began.
    pub at: u64,
    /// The app or the upstream.
    pub subject: Arc<str>,
    /// In words.
    pub text: String,
}

impl AppHistory {
    /// The route whose requests hold the most workers now.
    #[must_use]
    pub fn most(&self) -> Option<&HeldRoute> {
        self.moments.back()?.most.as_ref()
    }

    /// The worker that has grown the most in the last hour, if by 16 MiB or more.
    #[must_use]
    pub fn growth(&self) -> Option<WorkerGrowth> {
        let all = self.memory.values().filter_map(|worker| Some((worker, worker.lately()?)));
        let (worker, growth) = all.max_by_key(|(_, growth)| growth.bytes)?;
        (growth.bytes >= SHOWN_GROWTH).then(|| WorkerGrowth {
            worker: worker.number,
            bytes: growth.bytes,
            over: growth.over,
            route: self.busiest(growth.over).map(Arc::clone),
        })
    }

    /// The route that most of the time of requests went to, of several.
    pub(super) fn busiest(&self, over: Duration) -> Option<&Arc<str>> {
        let tens = usize::try_from(over.as_secs().div_ceil(10)).unwrap_or(usize::MAX).max(6);
        let time_of =
            |series: &Series<RouteStep>| series.last_tens(tens).map(|step| step.times.sum_us).sum::<u64>();
        let all = self.routes.iter().map(|(route, series)| (route, time_of(series)));
        let (route, time) = all.max_by_key(|(_, time)| *time)?;
        (time > 0 && self.routes.len() > 1).then_some(route)
    }

    /// The next second. `room`: how many routes may still begin a history.
    pub(super) fn handle_sample(
        &mut self,
        sample: &AppSample,
        now: u64,
        room: &mut usize,
        events: &mut Vec<Event>,
    ) {
        self.series.push(sample.step);
        self.count_routes(&sample.routes, room);
        let moment = Moment {
            most: sample.held.first().cloned(),
            held: sample.step.held,
            waiting: sample.step.waiting,
            processors: sample.processors,
        };
        push(&mut self.moments, moment, MOMENTS);
        push(&mut self.errors, sample.errors.clone(), WINDOW);
        push(&mut self.crashes, sample.crashes, 60);
        self.last_crash.clone_from(&sample.last_crash);
        if self.generation != sample.generation {
            self.begin_generation(sample, now, events);
        }
        for worker in &sample.workers {
            self.memory.entry(worker.pid).or_default().handle_sample(worker);
        }
        let pids: BTreeSet<u32> = sample.workers.iter().map(|worker| worker.pid).collect();
        self.memory.retain(|pid, _| pids.contains(pid));
    }

    fn begin_generation(&mut self, sample: &AppSample, now: u64, events: &mut Vec<Event>) {
        if self.generation != 0 {
            self.rate_before = self.memory.values().filter_map(WorkerMemory::rate).reduce(f64::max);
            self.reloaded = Some(now);
            let text = format!("reload, generation {}", sample.generation);
            events.push(Event { at: now, subject: Arc::clone(&sample.name), text });
        }
        self.generation = sample.generation;
    }

    /// A route without a request in this second has a step of nothing.
    fn count_routes(&mut self, routes: &[RouteSample], room: &mut usize) {
        for sample in routes {
            if !self.routes.contains_key(&sample.route) && *room > 0 {
                *room -= 1;
                self.routes.insert(Arc::clone(&sample.route), Series::default());
            }
        }
        for (route, series) in &mut self.routes {
            let counted = routes.iter().find(|sample| sample.route == *route);
            series.push(counted.map(|sample| sample.step).unwrap_or_default());
        }
    }
}

impl UpstreamHistory {
    /// The calls of the last 10 s that are known to be of requests of an app, by app; the app with the most of their time first.
    #[must_use]
    pub fn by_app(&self) -> Vec<AppCallSample> {
        let mut sums: Vec<AppCallSample> = Vec::new();
        for sample in self.by_app.iter().flatten() {
            match sums.iter_mut().find(|sum| sum.app == sample.app) {
                Some(sum) => {
                    sum.calls = sum.calls.saturating_add(sample.calls);
                    sum.us = sum.us.saturating_add(sample.us);
                }
                None => sums.push(sample.clone()),
            }
        }
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.us));
        sums
    }

    pub(super) fn handle_sample(&mut self, sample: &UpstreamSample, now: u64, events: &mut Vec<Event>) {
        let is_first = self.series.age() == 0;
        self.series.push(sample.step);
        push(&mut self.by_app, sample.by_app.clone(), WINDOW);
        let mut tell = |text: String| events.push(Event { at: now, subject: Arc::clone(&sample.name), text });
        if !is_first && sample.endpoints != self.endpoints {
            tell(format!("{} → {} endpoints", self.endpoints, sample.endpoints));
        } else if !is_first && sample.available != self.available {
            tell(format!(
                "{} → {} of {} endpoints available",
                self.available, sample.available, sample.endpoints
            ));
        }
        if sample.open && self.open.is_none_or(|open| open + 1 < now) {
            tell("breaker opened".to_owned());
        }
        if sample.open {
            self.open = Some(now);
        }
        self.unavailable = if sample.available == 0 { self.unavailable + 1 } else { 0 };
        (self.endpoints, self.available) = (sample.endpoints, sample.available);
    }
}
