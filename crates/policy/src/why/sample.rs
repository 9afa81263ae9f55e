//! One second of the server, as the sampler measured it: differences of counters, and what was so at that moment.

use std::sync::Arc;
use std::time::Duration;

use super::series::Step;
use super::times::Times;

/// One second.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The machine.
    pub machine: MachineStep,
    /// Each app that is served.
    pub apps: Vec<AppSample>,
    /// Each upstream.
    pub upstreams: Vec<UpstreamSample>,
    /// The listener with the most clients that wait to be accepted, if there is one.
    pub blocked: Option<BlockedListener>,
    /// Responses that waited for their clients because memory and spill files were at their limit.
    pub spill_full: u32,
    /// Request bodies and responses that were lost to the disk of spill files, if any.
    pub spill_failed: Option<SpillFailure>,
}

/// Clients that waited in the kernel in one second, because the connections were at their limit and none was idle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockedListener {
    /// Its name.
    pub listener: Arc<str>,
    /// How long nothing could be accepted.
    pub time: Duration,
    /// The limit.
    pub limit: u64,
}

/// What was lost to the disk of spill files in one second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpillFailure {
    /// How many request bodies and responses.
    pub lost: u32,
    /// The directory of the files.
    pub folder: Arc<str>,
    /// Its free bytes, if known.
    pub free: Option<u64>,
}

/// An app in one second.
#[derive(Debug, Clone, Default)]
pub struct AppSample {
    /// Its name.
    pub name: Arc<str>,
    /// What was counted.
    pub step: AppStep,
    /// Its routes, as far as they have had a request in this second.
    pub routes: Vec<RouteSample>,
    /// The routes of the requests that its workers hold, the most first.
    pub held: Vec<HeldRoute>,
    /// The generation that serves.
    pub generation: u64,
    /// Its workers.
    pub workers: Vec<WorkerSample>,
    /// What its workers did with their processors; none where nobody looked.
    pub processors: Option<Processors>,
    /// Error responses of Keepwarm for it, of those in `step.failed`, by reason.
    pub errors: Vec<(&'static str, u32)>,
    /// Workers that crashed: they ended, or broke the rules, without having been told to end.
    pub crashes: u32,
    /// The last of all its crashes, in words.
    pub last_crash: Option<Arc<str>>,
}

/// A route in one second.
#[derive(Debug, Clone, Default)]
pub struct RouteSample {
    /// Its pattern.
    pub route: Arc<str>,
    /// What was counted.
    pub step: RouteStep,
}

/// Requests of one route that workers hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldRoute {
    /// Its pattern.
    pub route: Arc<str>,
    /// How many.
    pub requests: u32,
    /// The age of the oldest.
    pub oldest: Duration,
    /// The worker that has it.
    pub worker: u32,
}

/// A worker at one moment.
#[derive(Debug, Clone, Default)]
pub struct WorkerSample {
    /// Its number in the app.
    pub number: u32,
    /// Its process.
    pub pid: u32,
    /// Its generation.
    pub generation: u64,
    /// Since its start.
    pub age: Duration,
    /// Memory of its own, in bytes; none before it was first measured.
    pub memory: Option<u64>,
}

/// Processor time of the workers of an app in one second, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Processors {
    /// Workers that were measured.
    pub workers: u32,
    /// On a processor.
    pub computing: f64,
    /// Ready to run, without a processor.
    pub delayed: f64,
}

/// An upstream in one second.
#[derive(Debug, Clone, Default)]
pub struct UpstreamSample {
    /// Its name.
    pub name: Arc<str>,
    /// What was counted.
    pub step: UpstreamStep,
    /// Endpoints that discovery has found.
    pub endpoints: u32,
    /// Those of them that take calls.
    pub available: u32,
    /// Its breaker refuses calls.
    pub open: bool,
    /// Of the requests that ended in this second, the calls that are known to be theirs, by app.
    pub by_app: Vec<AppCallSample>,
}

/// Calls of an app to an upstream in one second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppCallSample {
    /// The app.
    pub app: Arc<str>,
    /// How many.
    pub calls: u64,
    /// The sum of their durations, in microseconds.
    pub us: u64,
}

/// Counts of an app in a step: 136 bytes, so 130 KB for a whole history.
#[derive(Debug, Clone, Copy, Default)]
pub struct AppStep {
    /// Whole times of its requests.
    pub times: Times,
    /// Time of all requests for reading them, in microseconds.
    pub read_us: u64,
    /// In the queue.
    pub queue_us: u64,
    /// In a worker.
    pub app_us: u64,
    /// For writing the rest of the response.
    pub write_us: u64,
    /// Responses with a 5xx, without those of maintenance.
    pub failed: u32,
    /// The most requests that waited for a worker at once.
    pub waiting: u32,
    /// The most requests that workers held at once.
    pub held: u32,
    /// Workers that ended after one request each.
    pub boots: u32,
    /// Clients of HTTP/1.0 that waited for the connection to close.
    pub close_added: u32,
    /// Clients that waited for `100 Continue`.
    pub expectations: u32,
}

impl AppStep {
    /// The sum of the phases.
    #[must_use]
    pub fn phases_us(&self) -> u64 {
        [self.read_us, self.queue_us, self.app_us, self.write_us].into_iter().fold(0, u64::saturating_add)
    }
}

impl Step for AppStep {
    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.read_us = self.read_us.saturating_add(other.read_us);
        self.queue_us = self.queue_us.saturating_add(other.queue_us);
        self.app_us = self.app_us.saturating_add(other.app_us);
        self.write_us = self.write_us.saturating_add(other.write_us);
        add(&mut self.failed, other.failed);
        self.waiting = self.waiting.max(other.waiting);
        self.held = self.held.max(other.held);
        add(&mut self.boots, other.boots);
        add(&mut self.close_added, other.close_added);
        add(&mut self.expectations, other.expectations);
    }

    fn take_away(&mut self, other: &Self) {
        self.times.take_away(&other.times);
        self.read_us = self.read_us.saturating_sub(other.read_us);
        self.queue_us = self.queue_us.saturating_sub(other.queue_us);
        self.app_us = self.app_us.saturating_sub(other.app_us);
        self.write_us = self.write_us.saturating_sub(other.write_us);
        subtract(&mut self.failed, other.failed);
        subtract(&mut self.boots, other.boots);
        subtract(&mut self.close_added, other.close_added);
        subtract(&mut self.expectations, other.expectations);
    }
}

/// Counts of a route in a step: 88 bytes, so 84 KB for a whole history.
#[derive(Debug, Clone, Copy, Default)]
pub struct RouteStep {
    /// Whole times of its requests.
    pub times: Times,
    /// Responses with a 5xx.
    pub failed: u32,
}

impl Step for RouteStep {
    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        add(&mut self.failed, other.failed);
    }

    fn take_away(&mut self, other: &Self) {
        self.times.take_away(&other.times);
        subtract(&mut self.failed, other.failed);
    }
}

/// Counts of an upstream in a step: 96 bytes, so 91 KB for a whole history.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpstreamStep {
    /// Whole times of calls.
    pub calls: Times,
    /// Calls that got a 5xx, from the upstream or for want of its response.
    pub failed: u32,
    /// Calls that found no kept connection where there should have been one.
    pub handshakes: u32,
    /// Calls lost on a kept connection that the upstream had closed.
    pub lost: u32,
    /// The most calls in flight at once.
    pub in_flight: u32,
}

impl Step for UpstreamStep {
    fn merge(&mut self, other: &Self) {
        self.calls.merge(&other.calls);
        add(&mut self.failed, other.failed);
        add(&mut self.handshakes, other.handshakes);
        add(&mut self.lost, other.lost);
        self.in_flight = self.in_flight.max(other.in_flight);
    }

    fn take_away(&mut self, other: &Self) {
        self.calls.take_away(&other.calls);
        subtract(&mut self.failed, other.failed);
        subtract(&mut self.handshakes, other.handshakes);
        subtract(&mut self.lost, other.lost);
    }
}

/// The machine in a step. Shares are of all its cores, from 0 to 1, summed over the seconds of the step.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineStep {
    /// Seconds.
    pub seconds: u32,
    /// Cores.
    pub cores: u32,
    /// Not idle, by anyone.
    pub busy: f64,
    /// Taken by the hypervisor for other machines.
    pub steal: f64,
    /// By Keepwarm and its workers; as long as nobody looks at the workers, by Keepwarm alone.
    pub ours: f64,
    /// Time in which some task waited for a processor (pressure stall information, `some`); none where the kernel does not say.
    pub pressure: Option<f64>,
    /// In periods in which a control group had used up its limit of processor time, and stood still for the rest.
    pub throttled: f64,
    /// That limit, in thousandths of a core; 0 where there is none.
    pub limit: u32,
}

impl MachineStep {
    /// A sum of shares as their average.
    #[must_use]
    pub fn share(&self, sum: f64) -> f64 {
        sum / f64::from(self.seconds.max(1))
    }
}

impl Step for MachineStep {
    fn merge(&mut self, other: &Self) {
        add(&mut self.seconds, other.seconds);
        self.cores = self.cores.max(other.cores);
        self.busy += other.busy;
        self.steal += other.steal;
        self.ours += other.ours;
        self.pressure = match (self.pressure, other.pressure) {
            (Some(sum), Some(more)) => Some(sum + more),
            (sum, more) => sum.or(more),
        };
        self.throttled += other.throttled;
        self.limit = self.limit.max(other.limit);
    }

    fn take_away(&mut self, other: &Self) {
        subtract(&mut self.seconds, other.seconds);
        // Rounded, a sum of nothing may be less than zero.
        let less = |sum: f64, other: f64| (sum - other).max(0.0);
        self.busy = less(self.busy, other.busy);
        self.steal = less(self.steal, other.steal);
        self.ours = less(self.ours, other.ours);
        self.pressure = self.pressure.map(|sum| less(sum, other.pressure.unwrap_or(0.0)));
        self.throttled = less(self.throttled, other.throttled);
    }
}

fn add(sum: &mut u32, more: u32) {
    *sum = sum.saturating_add(more);
}

fn subtract(sum: &mut u32, less: u32) {
    *sum = sum.saturating_sub(less);
}
