//! Profiles: where an app's requests are, as its workers note it at each signal (`spec/wire.md` §10).
//!
//! [`App::begin_profile`] makes every worker's link keep what comes, until the [`Profile`] is dropped. Without one, SAMPLES are read and forgotten.

mod single;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keepwarm_wire::frame::{Capabilities, Samples};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::activity::RequestSummary;
use super::app::App;
use super::kind::LinkKind;
use super::link::Link;
use crate::supervisor::WorkerKey;
pub(super) use single::{RequestSamples, Sampling};

/// Distinct stacks of a profile; samples of more are counted and dropped. With stacks of 4 KiB, 200 MiB at most; usual are a few thousand of 1 KiB.
const STACKS: usize = 50_000;
/// The longest stack, in bytes: of a longer one the beginning.
const LONGEST: usize = 32 * 1024;
/// Requests of a worker that are over and still have their route. A worker sends what belongs to one soon after its end.
const ENDED: usize = 2_000;

/// A profile that is being taken; it ends when this is dropped.
#[derive(Debug)]
pub struct Profile {
    app: Arc<App>,
    samples: Arc<ProfileSamples>,
}

/// What has come so far.
#[derive(Debug, Clone, Default)]
pub struct ProfileTotals {
    /// Microseconds by stack: its route, its phase, and its frames, outermost first, joined by `;`.
    pub stacks: HashMap<String, u64>,
    /// Samples that were taken and could not be kept, here or by a worker.
    pub dropped: u64,
    /// The workers that have sent something, by process id.
    pub senders: HashSet<u32>,
}

impl ProfileTotals {
    fn add(&mut self, stack: String, time: u64) {
        let has_room = self.stacks.len() < STACKS;
        match self.stacks.get_mut(&stack) {
            Some(sum) => *sum = sum.saturating_add(time),
            None if has_room => drop(self.stacks.insert(stack, time)),
            None => self.dropped += 1,
        }
    }
}

/// A worker of an app that is profiled.
#[derive(Debug, Clone)]
pub struct ProfiledWorker {
    /// Who.
    pub key: WorkerKey,
    /// What its adapter is (`python/0.1.0`); none before it is ready.
    pub adapter: Option<Arc<str>>,
    /// It takes part.
    pub takes_part: bool,
    /// It handles signals after the call that they interrupt, whose time limit may begin again.
    pub late_signals: bool,
    link: Arc<Link>,
}

impl ProfiledWorker {
    /// Whether it holds a request now.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.link.is_at_work()
    }
}

impl App {
    /// Begins to keep what the workers send, of all requests or of one route's. `None`: a profile of this app is under way.
    pub fn begin_profile(self: &Arc<Self>, route: Option<&str>) -> Option<Profile> {
        let samples = Arc::new(ProfileSamples { route: route.map(str::to_owned), totals: Mutex::default() });
        let mut current = self.profile();
        if current.is_some() {
            return None;
        }
        *current = Some(Arc::clone(&samples));
        drop(current);
        self.links().iter().for_each(|link| link.set_profile(Some(&samples)));
        Some(Profile { app: Arc::clone(self), samples })
    }

    /// Whether a profile of it is under way.
    pub fn is_profiled(&self) -> bool {
        self.profile().is_some()
    }

    /// Its workers, as far as a profile is concerned; none of those that are servers by themselves.
    pub fn profiled_workers(&self) -> Vec<ProfiledWorker> {
        let links = self.links();
        let speak_wire = links.iter().filter(|link| matches!(link.kind, LinkKind::Wire(_)));
        speak_wire.map(|link| link.profiled_worker()).collect()
    }

    /// A worker that has become ready takes part in the profile that is under way.
    pub(super) fn add_to_profile(&self, link: &Link) {
        let current = self.profile().clone();
        if current.is_some() {
            link.set_profile(current.as_ref());
        }
    }
}

impl Profile {
    /// Asks every worker for what it has not sent, and waits until it is here, for so long at most. A worker that is at work on a request may not respond before
    /// its end: it is not waited for.
    pub async fn rest(&self, patience: Duration) {
        let links = self.app.links();
        let (responded, mut responses) = mpsc::channel(links.len().max(1));
        let mut awaited = 0;
        for link in links.iter().filter(|link| matches!(link.kind, LinkKind::Wire(_))) {
            if link.is_at_work() {
                link.ping();
            } else {
                awaited += 1;
                link.ask(responded.clone());
            }
        }
        drop(responded);
        // An error: one has not responded.
        let _ = timeout(patience, async {
            for _ in 0..awaited {
                if responses.recv().await.is_none() {
                    return;
                }
            }
        })
        .await;
    }

    /// What has come so far.
    pub fn totals(&self) -> ProfileTotals {
        self.samples.totals().clone()
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        *self.app.profile() = None;
        self.app.links().iter().for_each(|link| link.set_profile(None));
    }
}

/// Where links put what comes.
#[derive(Debug)]
pub(super) struct ProfileSamples {
    /// Only requests of this route, by its pattern.
    route: Option<String>,
    totals: Mutex<ProfileTotals>,
}

impl ProfileSamples {
    fn totals(&self) -> MutexGuard<'_, ProfileTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a worker has sent of a request.
    fn add(&self, worker: u32, root: &Root, samples: &Samples<'_>) {
        let mut totals = self.totals();
        totals.senders.insert(worker);
        totals.dropped += u64::from(samples.dropped);
        if !self.is_wanted(root) {
            return;
        }
        for (stack, time) in samples.stacks.pairs() {
            let Some(time) = std::str::from_utf8(time).ok().and_then(|digits| digits.parse::<u64>().ok())
            else {
                totals.dropped += 1;
                continue;
            };
            let name = full_name(root, stack);
            totals.add(name, time);
        }
    }

    fn is_wanted(&self, root: &Root) -> bool {
        let Some(wanted) = &self.route else { return true };
        match root {
            Root::Route(summary) => summary.route.as_deref() == Some(wanted),
            Root::NoRequest | Root::UnknownRequest => false,
        }
    }
}

/// The first frame of a stack.
enum Root {
    Route(RequestSummary),
    /// Threads and tasks of the app.
    NoRequest,
    /// A request that began before the profile and whose client has left, or whose end was too long ago.
    UnknownRequest,
}

impl std::fmt::Display for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Route(summary) => summary.fmt(f),
            Self::NoRequest => f.write_str("(no request)"),
            Self::UnknownRequest => f.write_str("(unknown request)"),
        }
    }
}

/// A stack below its root.
fn full_name(root: &Root, stack: &[u8]) -> String {
    let mut name = root.to_string().replace(';', ",");
    name.push(';');
    name + &one_line(stack)
}

/// A stack as one line, whatever the worker has sent.
fn one_line(stack: &[u8]) -> String {
    let stack = stack.get(..LONGEST).unwrap_or(stack);
    String::from_utf8_lossy(stack).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What a link keeps while there is a profile.
#[derive(Debug)]
pub(super) struct LinkProfile {
    samples: Arc<ProfileSamples>,
    /// What the requests were that are over, the newest last.
    ended: VecDeque<(u32, RequestSummary)>,
}

impl LinkProfile {
    pub(super) fn new(samples: &Arc<ProfileSamples>) -> Self {
        Self { samples: Arc::clone(samples), ended: VecDeque::new() }
    }

    /// A request is over.
    pub(super) fn remember(&mut self, stream: u32, summary: &RequestSummary) {
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back((stream, summary.clone()));
    }

    fn ended(&self, stream: u32) -> Option<RequestSummary> {
        let found = self.ended.iter().rev().find(|(ended, _)| *ended == stream);
        found.map(|(_, summary)| summary.clone())
    }
}

impl Link {
    /// Whether its adapter takes part in profiles.
    fn profiles(&self) -> bool {
        self.adapter().is_some_and(|adapter| adapter.profiles)
    }

    fn set_profile(&self, samples: Option<&Arc<ProfileSamples>>) {
        self.lock().profile = samples.map(|samples| Box::new(LinkProfile::new(samples)));
    }

    /// The worker has sent where it was.
    pub(super) fn handle_samples(&self, samples: &Samples<'_>) {
        let mut inner = self.lock();
        if let Some(of_request) = inner.sampled.get_mut(&samples.request) {
            of_request.add(samples);
        }
        let Some(profile) = &inner.profile else { return };
        let root = match samples.request {
            0 => Root::NoRequest,
            stream => inner
                .calls
                .get(&stream)
                .map(|call| call.summary.clone())
                .or_else(|| profile.ended(stream))
                .map_or(Root::UnknownRequest, Root::Route),
        };
        let kept = Arc::clone(&profile.samples);
        drop(inner);
        kept.add(self.key.pid, &root, samples);
    }

    fn profiled_worker(self: &Arc<Self>) -> ProfiledWorker {
        let adapter = self.adapter();
        ProfiledWorker {
            key: self.key.clone(),
            takes_part: adapter.is_some_and(|adapter| adapter.profiles),
            late_signals: adapter.is_some_and(|adapter| adapter.late_signals),
            adapter: adapter.map(|adapter| Arc::clone(&adapter.name)),
            link: Arc::clone(self),
        }
    }
}

/// The adapter of a worker, as far as profiles and searches for leaks are concerned.
#[derive(Debug)]
pub(super) struct Adapter {
    /// With its version: `python/0.1.0`.
    pub(super) name: Arc<str>,
    profiles: bool,
    late_signals: bool,
    pub(super) leaks: bool,
}

impl Adapter {
    pub(super) fn of_hello(name: &str, capabilities: Capabilities) -> Self {
        let Capabilities { profile, late_signals, leaks, .. } = capabilities;
        Self { name: name.into(), profiles: profile, late_signals, leaks }
    }

    pub(super) fn handles_signals_late(&self) -> bool {
        self.late_signals
    }
}

/// The adapters among these workers that take no part, with how many workers have each.
#[must_use]
pub fn too_old(workers: &[ProfiledWorker]) -> BTreeMap<Arc<str>, usize> {
    let mut found = BTreeMap::new();
    for worker in workers.iter().filter(|worker| !worker.takes_part) {
        if let Some(adapter) = &worker.adapter {
            *found.entry(Arc::clone(adapter)).or_default() += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests;
