//! Why is it slow: short histories of what the server counts anyway, and rules that name a cause.
//!
//! Once a second a [`Sample`] comes in: differences of counters, and what was so at that moment. There is no clock here; a second is a sample. The
//! rules look at the last 10 s and at the hour before, and a verdict names a symptom (requests wait, calls fail, memory grows) together with its cause.
//! A symptom has one cause at most: a slow upstream also fills the queue, and then more workers are not the remedy. So the rules of an app stand in one
//! order, from the cause that explains the others to the one that is left: upstream, route, then workers, cores or neighbours by what its workers do with
//! their processors.
//!
//! A server at full load is healthy: a queue that takes less than 100 ms, or busy cores, are no symptom.
//!
//! Memory: 951 steps for each subject ([`Series`]), of 136 bytes for an app, 88 for a route, 96 for an upstream: 130, 84 and 91 KB once a day has
//! passed; at most [`ROUTES_MAX`] routes; and at most 600 bytes for each worker. 200 apps with 256 routes and 50 upstreams have 52 MB after a day.
//!
//! Time of a second with 200 apps, 2,000 workers, 256 routes and 50 upstreams, on a busy machine: 1.3 ms, and 1.7 ms where it ends a step of 10 s; saving
//! them for an upgrade takes 110 ms after an hour, 9 MB (`examples/why_cost.rs`).

mod catalog;
mod finding;
mod history;
mod memory;
mod rules;
mod sample;
mod saved;
mod series;
#[cfg(test)]
mod tests;
mod times;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use self::catalog::{RULES, Rule, Severity, rule};
pub use self::finding::{Finding, Subject};
pub use self::history::{AppHistory, EVENTS_MAX, Event, ROUTES_MAX, UpstreamHistory, WorkerGrowth};
pub use self::sample::{
    AppCallSample, AppSample, AppStep, BlockedListener, HeldRoute, MachineStep, Processors, RouteSample,
    RouteStep, Sample, SpillFailure, UpstreamSample, UpstreamStep, WorkerSample,
};
pub use self::saved::{SAVED_MAX, SavedError};
pub use self::series::{FIVES, SECONDS, Series, Step, TENS};
pub use self::times::{BOUNDS_US, BUCKETS, Times};

/// Seconds after which a verdict that is given again is another one.
const SAME: u64 = 30;

/// Histories, events, and the verdicts of now.
#[derive(Debug, Default)]
pub struct Why {
    now: u64,
    apps: BTreeMap<Arc<str>, AppHistory>,
    upstreams: BTreeMap<Arc<str>, UpstreamHistory>,
    machine: history::MachineHistory,
    /// Clients that could not be accepted, by second: the seconds that a rule looks at.
    blocked: VecDeque<Option<BlockedListener>>,
    /// Responses that found no room, by second: a minute.
    spill_full: VecDeque<u32>,
    /// What was lost to the disk, by second: a minute.
    spill_failed: VecDeque<Option<SpillFailure>>,
    events: VecDeque<Event>,
    findings: Vec<Finding>,
    /// When each verdict was first and last given.
    given: BTreeMap<(&'static str, Subject), (u64, u64)>,
}

impl Why {
    /// A second has passed.
    pub fn handle_sample(&mut self, sample: &Sample) {
        self.now += 1;
        let mut events = Vec::new();
        self.machine.push(sample.machine);
        self.keep_apps(sample, &mut events);
        self.keep_upstreams(sample, &mut events);
        series::push(&mut self.blocked, sample.blocked.clone(), rules::WINDOW);
        series::push(&mut self.spill_full, sample.spill_full, 60);
        series::push(&mut self.spill_failed, sample.spill_failed.clone(), 60);
        for event in events {
            self.note(event.subject, event.text);
        }
        self.judge();
    }

    /// Something has happened that no sample shows.
    pub fn note(&mut self, subject: Arc<str>, text: String) {
        series::push(&mut self.events, Event { at: self.now, subject, text }, EVENTS_MAX);
    }

    /// Seconds since the histories began.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The verdicts of now, in the order of [`RULES`].
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The share of the time of an app's requests that these microseconds are, in the last 10 s. `None`: no request of it has ended, or there is no such app.
    #[must_use]
    pub fn share_of(&self, app: &str, us: u64) -> Option<f64> {
        rules::share_of(self, app, us)
    }

    /// The apps, by name.
    #[must_use]
    pub fn apps(&self) -> &BTreeMap<Arc<str>, AppHistory> {
        &self.apps
    }

    /// The upstreams, by name.
    #[must_use]
    pub fn upstreams(&self) -> &BTreeMap<Arc<str>, UpstreamHistory> {
        &self.upstreams
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Series<MachineStep> {
        &self.machine
    }

    /// What has happened, the oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// Whether the next sample should say what workers do with their processors: that costs reading files of each, and matters only where requests are slow.
    #[must_use]
    pub fn needs_processors(&self) -> bool {
        self.apps.values().any(|app| rules::is_queueing_lately(app) || rules::is_slower(app).is_some())
    }

    fn keep_apps(&mut self, sample: &Sample, events: &mut Vec<Event>) {
        self.apps.retain(|name, _| sample.apps.iter().any(|app| app.name == *name));
        let mut room = ROUTES_MAX.saturating_sub(self.apps.values().map(|app| app.routes.len()).sum());
        for app in &sample.apps {
            self.apps
                .entry(Arc::clone(&app.name))
                .or_default()
                .handle_sample(app, self.now, &mut room, events);
        }
    }

    fn keep_upstreams(&mut self, sample: &Sample, events: &mut Vec<Event>) {
        self.upstreams.retain(|name, _| sample.upstreams.iter().any(|upstream| upstream.name == *name));
        for upstream in &sample.upstreams {
            let history = self.upstreams.entry(Arc::clone(&upstream.name)).or_default();
            history.handle_sample(upstream, self.now, events);
        }
    }

    fn judge(&mut self) {
        let mut findings = rules::findings(self);
        for finding in &mut findings {
            let now = self.now;
            let given = self.given.entry((finding.rule.id, finding.subject.clone())).or_insert((now, now));
            given.1 = now;
            finding.since = given.0;
        }
        self.given.retain(|_, (_, last)| *last + SAME >= self.now);
        let order = |finding: &Finding| RULES.iter().position(|rule| rule.id == finding.rule.id);
        findings.sort_by_key(order);
        self.findings = findings;
    }
}
