//! Periodic samples of one generation of one app.

use std::sync::Arc;
use std::time::Instant;

use keepwarm_policy::scaler::AppLoad;

use super::{Context, RunningGeneration, WorkerProcess};
use crate::supervisor::app::{Phase, WorkerId, mib};
use crate::supervisor::sampler::{PING_LOOKS, SampleTarget};
use crate::supervisor::{Memory, WorkerLink, WorkerSnapshot, WorkerState, priority};

impl RunningGeneration {
    /// Checks signs of life and priorities; returns the processes whose memory should be sampled.
    pub(in crate::supervisor) fn look(
        &mut self,
        looks: u64,
        context: &Context,
        now: Instant,
    ) -> Vec<SampleTarget> {
        let ids: Vec<WorkerId> = self.processes.keys().copied().collect();
        for &id in &ids {
            if self.machine.state(id) == WorkerState::Ready
                && let Some(link) = self.handle(id).and_then(|handle| handle.link.clone())
            {
                self.machine.handle_credit(id, link.is_credit_withheld(), now);
                if self.spec.hang_timeout.is_some() {
                    self.look_for_life(id, &*link, looks, now);
                }
            }
            let is_slow = |process: &WorkerProcess| {
                let most = priority::LONGEST.min(self.spec.boot_timeout / 2);
                now.saturating_duration_since(process.started) > most
            };
            let starts = self.machine.state(id) == WorkerState::Starting;
            if !starts || self.processes.get(&id).is_some_and(is_slow) {
                self.end_quiet(id, context);
            }
        }
        let subject = |&id: &WorkerId| {
            let pid = self.pid(id)?;
            let (app, has_children) = (Arc::clone(&self.spec.name), self.spec.children.is_some());
            Some(SampleTarget { app, generation: self.generation, id, pid, has_children })
        };
        ids.iter().filter_map(subject).collect()
    }

    fn look_for_life(&mut self, id: WorkerId, link: &dyn WorkerLink, looks: u64, now: Instant) {
        self.machine.handle_silence(id, link.is_silent(), now);
        if looks.is_multiple_of(PING_LOOKS) {
            link.ping();
        }
    }

    /// Gives a worker the ordinary priority, if it has a low one.
    pub(super) fn end_quiet(&mut self, id: WorkerId, context: &Context) {
        let Some(pid) = self.pid(id) else { return };
        if let Some(process) = self.processes.get_mut(&id).filter(|process| process.quiet) {
            // What is left is done at the next look.
            process.quiet = !context.quiet.end(pid);
        }
    }

    pub(in crate::supervisor) fn handle_memory(
        &mut self,
        id: WorkerId,
        memory: Memory,
        available: Option<u64>,
        now: Instant,
    ) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.memory = Some(memory);
        self.machine.handle_memory(id, memory.own, available, now);
    }

    /// Has those processes end that a worker keeps and that hold too much.
    pub(in crate::supervisor) fn handle_children(&mut self, id: WorkerId, children: &[(u32, Memory)]) {
        let Some(limits) = self.spec.children else { return };
        let Some(link) = self.handle(id).and_then(|handle| handle.link.clone()) else { return };
        for &(process, Memory { own, .. }) in children {
            let over = |limit: Option<u64>| limit.filter(|&limit| own > limit);
            let (limit, key, gently) = match (over(limits.kill_memory), over(limits.max_memory)) {
                (Some(limit), _) => (limit, "kill_memory", false),
                (None, Some(limit)) => (limit, "max_memory", true),
                (None, None) => continue,
            };
            if !link.end_child(process, gently) {
                continue;
            }
            let (held, limit) = (mib(own), mib(limit));
            let what = if gently { "replaced after its request" } else { "killed" };
            let (worker, pid) = (self.processes.get(&id).map(|process| process.number), self.pid(id));
            tracing::warn!(
                name: "memory_limit", target: "keepwarm::supervisor",
                app = %self.spec.name, worker, pid, process, generation = self.generation,
                "process {what}: it holds {held}, above {key} ({limit})"
            );
        }
    }

    /// What is told of its workers.
    pub(in crate::supervisor) fn snapshot(&self) -> impl Iterator<Item = WorkerSnapshot> {
        self.machine.view().into_iter().map(|view| {
            let process = view.id.and_then(|id| self.processes.get(&id));
            let handle = process.and_then(|process| process.spawned.as_ref());
            let link = handle.and_then(|handle| handle.link.as_ref());
            WorkerSnapshot {
                app: self.spec.name.clone(),
                number: view.number,
                generation: self.generation,
                pid: handle.map(|handle| handle.source.pid),
                state: view.state,
                since: view.since,
                started: process.map(|process| process.started),
                requests: link.map_or(0, |link| link.requests().given()),
                memory: process.and_then(|process| process.memory),
                leaving: view.leaving,
                restarts: view.restarts,
            }
        })
    }

    /// Whether [`scale`](Self::scale) is of use.
    pub(in crate::supervisor) fn is_scaled(&self) -> bool {
        self.scaler.is_some() && *self.machine.phase() == Phase::Serving
    }

    /// Has more or fewer workers, as the app's requests need them.
    pub(in crate::supervisor) fn scale(&mut self, load: AppLoad, available: Option<u64>, now: Instant) {
        let largest = self.largest();
        let (has, starting) = (self.machine.target(), self.machine.is_starting());
        let Some(scaler) = &mut self.scaler else { return };
        let target = scaler.handle_load(load, has, starting, now);
        if target > has && available.is_some_and(|available| available < largest) {
            if !std::mem::replace(&mut self.told_no_room, true) {
                tracing::warn!(
                    name: "scale_up_prevented", target: "keepwarm::supervisor",
                    app = %self.spec.name, generation = self.generation, largest, available,
                    "requests wait, but there is no memory for another worker"
                );
            }
            return;
        }
        if target != has {
            self.told_no_room = false;
            self.resize(target, if target > has { "requests wait" } else { "not needed recently" }, now);
        }
    }

    /// A person wants `by` workers more or fewer, within 1 and the most of the configuration.
    pub(in crate::supervisor) fn shift(&mut self, by: i32, now: Instant) {
        if *self.machine.phase() != Phase::Serving {
            return;
        }
        let has = self.machine.target();
        let most = self.scaler.as_ref().map_or(MOST, |scaler| scaler.max());
        let target = has.saturating_add_signed(by as isize).clamp(1, most);
        if let Some(scaler) = &mut self.scaler {
            scaler.set_floor(target, now);
        }
        if target != has {
            self.resize(target, "requested by a signal", now);
        } else {
            tracing::info!(
                name: "scale_limit_reached", target: "keepwarm::supervisor",
                app = %self.spec.name, workers = has, "worker count unchanged: limit reached"
            );
        }
    }

    fn resize(&mut self, target: usize, why: &str, now: Instant) {
        let before = self.machine.target();
        tracing::info!(
            name: "scaled", target: "keepwarm::supervisor",
            app = %self.spec.name, generation = self.generation, before, workers = target,
            "changing the number of workers: {why}"
        );
        self.machine.set_target(target, now);
    }

    /// The most that one of its workers holds.
    fn largest(&self) -> u64 {
        self.processes.values().filter_map(|process| Some(process.memory?.own)).max().unwrap_or(0)
    }
}

/// Workers of an app of which no other limit is known; as many as the configuration allows.
const MOST: usize = 1024;
