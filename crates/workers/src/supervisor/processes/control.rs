//! The task that owns all sets of processes: what waits for what, reloads, the end. Everything reaches it as an event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use keepwarm_telemetry::panics::abort_on_panic_task;
use tokio::sync::{mpsc, oneshot, watch};

use super::action::Clocks;
use super::logging;
use super::running::{RunEvent, RunningSet};
use super::task::{self, TaskFailure};
use super::{Dependency, ProcessSetSnapshot, ProcessSpec, ReplaceReason, TaskSpec};
use crate::supervisor::control::{interval, now, random, sleep_until};
use crate::supervisor::output::Output;
use crate::supervisor::sampler::EVERY;
use crate::supervisor::spawn::SpawnerCommand;

/// The last part of the time of a stop, in which all that wait for others are told too.
const LAST_CALL: Duration = Duration::from_secs(2);

/// What the handle asks for.
pub(in crate::supervisor) enum ProcessCommand {
    /// Start these. Those that are `held` run in another instance: each waits for its [`Release`](Self::Release), all others for that of all.
    Begin {
        specs: Vec<ProcessSpec>,
        held: BTreeSet<Arc<str>>,
    },
    /// Another instance has stopped its processes of this name; `None`: all.
    Release(Option<Arc<str>>),
    /// These are all that are to run; those that run are replaced.
    Reload(Vec<ProcessSpec>),
    /// Replace the processes of this name; whether there are any.
    Replace(Arc<str>, ReplaceReason, oneshot::Sender<bool>),
    /// Something that processes may wait for is ready.
    SetReady(Dependency),
    RunTask(TaskSpec, oneshot::Sender<Result<(), TaskFailure>>),
    /// Stop all within this time. The names of those that have ended go to `ended`.
    Stop {
        grace: Duration,
        ended: Option<mpsc::UnboundedSender<Arc<str>>>,
        reply: Option<oneshot::Sender<()>>,
    },
    Snapshot(oneshot::Sender<Vec<ProcessSetSnapshot>>),
}

/// What all sets share.
pub(in crate::supervisor) struct ProcessContext {
    pub(in crate::supervisor) orders: mpsc::UnboundedSender<SpawnerCommand>,
    pub(in crate::supervisor) output: Output,
    events: mpsc::UnboundedSender<RunEvent>,
}

impl ProcessContext {
    pub(super) fn events(&self) -> mpsc::UnboundedSender<RunEvent> {
        self.events.clone()
    }
}

/// Starts the task; it ends after a stop, and when the last command sender is dropped.
pub(in crate::supervisor) fn start(
    orders: mpsc::UnboundedSender<SpawnerCommand>,
    output: Output,
    commands: mpsc::UnboundedReceiver<ProcessCommand>,
) {
    let (events, from_runs) = mpsc::unbounded_channel();
    let control = ProcessControl {
        context: ProcessContext { orders, output, events },
        sets: BTreeMap::new(),
        epoch: 0,
        ready: BTreeSet::new(),
        held: HeldProcesses::default(),
        stopping: None,
        killing: watch::Sender::new(false),
    };
    // Which process is whose is known here and nowhere else.
    tokio::spawn(abort_on_panic_task("the supervisor of processes", control.run(commands, from_runs)));
}

struct ProcessControl {
    context: ProcessContext,
    sets: BTreeMap<Arc<str>, RunningSet>,
    /// Of the youngest set: events of one that is gone have another.
    epoch: u64,
    /// The apps and upstreams that have been ready.
    ready: BTreeSet<Dependency>,
    /// The processes of another instance that has not stopped them yet.
    held: HeldProcesses,
    stopping: Option<Stopping>,
    /// `true`: commands that run are killed.
    killing: watch::Sender<bool>,
}

/// The processes of the instance before this one.
#[derive(Default)]
struct HeldProcesses {
    all: BTreeSet<Arc<str>>,
    /// Those that it has not stopped yet.
    left: BTreeSet<Arc<str>>,
}

impl HeldProcesses {
    /// Whether one of this name must not start yet. A name that the other instance does not have may be that of a renamed scheduler.
    fn holds(&self, name: &Arc<str>) -> bool {
        self.left.contains(name) || !self.left.is_empty() && !self.all.contains(name)
    }
}

/// A stop in progress.
struct Stopping {
    by: Instant,
    ended: Option<mpsc::UnboundedSender<Arc<str>>>,
    /// Those that were reported as ended.
    reported: BTreeSet<Arc<str>>,
    replies: Vec<oneshot::Sender<()>>,
}

fn clocks() -> Clocks {
    Clocks { now: now(), wall: SystemTime::now() }
}

impl ProcessControl {
    async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<ProcessCommand>,
        mut from_runs: mpsc::UnboundedReceiver<RunEvent>,
    ) {
        let mut look = interval(EVERY);
        let mut has_handles = true;
        while !self.is_over() {
            let timeout = self.next_timeout();
            let has_runs = self.sets.values().any(RunningSet::has_runs);
            tokio::select! {
                command = commands.recv(), if has_handles => {
                    has_handles = command.is_some();
                    self.handle_command(command);
                }
                Some(event) = from_runs.recv() => self.handle_event(event),
                _ = look.tick(), if has_runs => self.sample(),
                () = sleep_until(timeout) => {
                    let clocks = clocks();
                    self.sets.values_mut().for_each(|set| set.machine.handle_timeout(clocks));
                }
            }
            self.drive();
        }
        for reply in self.stopping.into_iter().flat_map(|stopping| stopping.replies) {
            // Somebody who does not wait any more.
            let _ = reply.send(());
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let clocks = clocks();
        let of_sets = self.sets.values().filter_map(|set| set.machine.poll_timeout(clocks)).min();
        let waits = self.sets.values().any(|set| !set.machine.is_stopping());
        let last_call = self.stopping.as_ref().filter(|_| waits).map(Stopping::last_call);
        let held = self.stopping.as_ref().filter(|_| !self.held.left.is_empty()).map(|stopping| stopping.by);
        of_sets.into_iter().chain(last_call).chain(held).min()
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some() && self.sets.is_empty()
    }

    // Input.

    /// `None`: the last handle was dropped.
    fn handle_command(&mut self, command: Option<ProcessCommand>) {
        match command {
            Some(ProcessCommand::Begin { specs, held }) => {
                self.held = HeldProcesses { all: held.clone(), left: held };
                specs.into_iter().for_each(|spec| self.add(spec));
            }
            Some(ProcessCommand::Release(name)) => self.let_go(name.as_ref()),
            Some(ProcessCommand::Reload(specs)) => self.reload(specs),
            Some(ProcessCommand::Replace(name, why, reply)) => {
                let set = self.sets.get_mut(&name).filter(|set| !set.machine.is_stopping());
                let is_known = set.is_some();
                if let Some(set) = set {
                    set.machine.replace_all(why, why.words(), clocks());
                }
                // Somebody who does not wait any more.
                let _ = reply.send(is_known);
            }
            Some(ProcessCommand::SetReady(dependency)) => drop(self.ready.insert(dependency)),
            Some(ProcessCommand::RunTask(task, reply)) => self.run_task(task, reply),
            Some(ProcessCommand::Snapshot(reply)) => drop(reply.send(self.snapshot())),
            Some(ProcessCommand::Stop { grace, ended, reply }) => self.stop(grace, ended, reply),
            None => self.stop(Duration::ZERO, None, None),
        }
    }

    fn handle_event(&mut self, event: RunEvent) {
        let Some(set) = self.sets.get_mut(&event.set).filter(|set| set.epoch == event.epoch) else { return };
        set.handle_event(event, &self.context, clocks(), random());
    }

    fn add(&mut self, spec: ProcessSpec) {
        if self.stopping.is_some() {
            return;
        }
        self.epoch += 1;
        let set = RunningSet::new(spec, self.epoch, random(), now());
        let waits_for = self.waits_for(&set);
        if !waits_for.is_empty() {
            logging::waiting(&set.machine.spec().name, &waits_for);
        }
        self.sets.insert(Arc::clone(&set.machine.spec().name), set);
    }

    fn let_go(&mut self, name: Option<&Arc<str>>) {
        match name {
            Some(name) => drop(self.held.left.remove(name)),
            None => self.held.left.clear(),
        }
    }

    fn reload(&mut self, specs: Vec<ProcessSpec>) {
        let clocks = clocks();
        for (name, set) in &mut self.sets {
            // Until it is known whose turn it is.
            set.machine.allow_replacing(false, clocks.now);
            if !specs.iter().any(|spec| spec.name == *name) {
                set.machine.stop(None, "was removed from the configuration", clocks.now);
            }
        }
        for spec in specs {
            match self.sets.get_mut(&spec.name) {
                Some(set) => set.machine.reload(spec, clocks),
                None => self.add(spec),
            }
        }
    }

    fn run_task(&self, task: TaskSpec, reply: oneshot::Sender<Result<(), TaskFailure>>) {
        let (orders, output) = (self.context.orders.clone(), self.context.output.clone());
        let killing = self.killing.subscribe();
        tokio::spawn(async move {
            let outcome = task::run(&task, orders, &output, killing).await;
            // Somebody who does not wait any more.
            let _ = reply.send(outcome);
        });
    }

    fn stop(
        &mut self,
        grace: Duration,
        ended: Option<mpsc::UnboundedSender<Arc<str>>>,
        reply: Option<oneshot::Sender<()>>,
    ) {
        let now = now();
        let by = now + grace;
        let stopping = self.stopping.get_or_insert_with(|| Stopping {
            by,
            ended,
            reported: BTreeSet::new(),
            replies: Vec::new(),
        });
        stopping.by = stopping.by.min(by);
        if stopping.ended.is_none() {
            // Only a successor has to wait for what another instance still runs.
            self.held.left.clear();
        }
        stopping.replies.extend(reply);
        self.killing.send_replace(true);
        if grace.is_zero() {
            for set in self.sets.values_mut() {
                set.machine.stop(Some(now), "has no time to finish", now);
                set.machine.kill_all("has no time to finish", now);
            }
        }
    }

    // What follows from it.

    fn drive(&mut self) {
        let clocks = clocks();
        self.stop_in_order(clocks.now);
        if self.stopping.as_ref().is_some_and(|stopping| stopping.by <= clocks.now) {
            self.held.left.clear();
        }
        self.release_ready(clocks);
        self.order_replacing(clocks.now);
        for set in self.sets.values_mut() {
            set.drive(&self.context);
        }
        self.report_ended();
        // What another instance still runs is not over: the successor of this one must not start it either.
        let held = &self.held;
        let is_over = |name: &Arc<str>, set: &mut RunningSet| set.machine.is_over() && !held.holds(name);
        self.sets.extract_if(.., is_over).for_each(drop);
    }

    /// Starts those whose dependencies are ready, and what becomes ready by that.
    fn release_ready(&mut self, clocks: Clocks) {
        if self.stopping.is_some() {
            return;
        }
        loop {
            let waiting = self.sets.values().filter(|set| set.machine.waits());
            let free = waiting.filter(|set| self.waits_for(set).is_empty());
            let Some(name) = free.map(|set| Arc::clone(&set.machine.spec().name)).next() else { return };
            if let Some(set) = self.sets.get_mut(&name) {
                set.machine.release(clocks);
            }
        }
    }

    /// What keeps a set from its start, in words.
    fn waits_for(&self, set: &RunningSet) -> Vec<String> {
        let spec = set.machine.spec();
        let is_ready = |dependency: &Dependency| match dependency {
            // One of the same configuration: it exists.
            Dependency::Process(name) => self.sets.get(name).is_some_and(|set| set.machine.is_ready()),
            Dependency::App(_) | Dependency::Upstream(_) => self.ready.contains(dependency),
        };
        let mut waits: Vec<String> =
            spec.after.iter().filter(|dependency| !is_ready(dependency)).map(ToString::to_string).collect();
        if self.held.holds(&spec.name) {
            waits.push("the previous instance".to_owned());
        }
        waits
    }

    /// One set after the other, those first that others come after.
    fn order_replacing(&mut self, now: Instant) {
        let settled: BTreeSet<Arc<str>> = self
            .sets
            .iter()
            .filter(|(_, set)| set.machine.is_settled(now))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for set in self.sets.values_mut() {
            let spec = Arc::clone(set.machine.spec());
            let is_settled = |dependency: &Dependency| match dependency {
                Dependency::Process(name) => settled.contains(name),
                Dependency::App(_) | Dependency::Upstream(_) => true,
            };
            set.machine.allow_replacing(spec.after.iter().all(is_settled), now);
        }
    }

    /// One set after the other, those last that others come after; towards the end all.
    fn stop_in_order(&mut self, now: Instant) {
        let Some(stopping) = &self.stopping else { return };
        let is_last_call = stopping.last_call() <= now;
        let running: Vec<(Arc<str>, Arc<ProcessSpec>)> = self
            .sets
            .iter()
            .filter(|(_, set)| !set.machine.is_over())
            .map(|(name, set)| (Arc::clone(name), Arc::clone(set.machine.spec())))
            .collect();
        for (name, set) in &mut self.sets {
            let needed =
                running.iter().any(|(_, spec)| spec.after.contains(&Dependency::Process(Arc::clone(name))));
            if !set.machine.is_stopping() && (!needed || is_last_call) {
                set.machine.stop(Some(stopping.by), "Keepwarm is stopping", now);
            }
        }
    }

    fn report_ended(&mut self) {
        let Some(stopping) = &mut self.stopping else { return };
        let Some(ended) = &stopping.ended else { return };
        let over = self.sets.iter().filter(|(name, set)| set.machine.is_over() && !self.held.holds(name));
        for (name, _) in over {
            if stopping.reported.insert(Arc::clone(name)) {
                // Somebody who does not wait any more.
                let _ = ended.send(Arc::clone(name));
            }
        }
    }

    fn sample(&mut self) {
        for set in self.sets.values_mut() {
            set.sample(&self.context);
        }
    }

    fn snapshot(&self) -> Vec<ProcessSetSnapshot> {
        let one = |set: &RunningSet| {
            let waits_for = if set.machine.waits() { self.waits_for(set) } else { Vec::new() };
            set.snapshot(waits_for)
        };
        self.sets.values().map(one).collect()
    }
}

impl Stopping {
    /// When those that wait for others are stopped too.
    fn last_call(&self) -> Instant {
        self.by.checked_sub(LAST_CALL).unwrap_or(self.by)
    }
}

impl ReplaceReason {
    fn words(self) -> &'static str {
        match self {
            Self::Age => "reached max_age",
            Self::Memory => "reached max_memory",
            Self::Watch => "a file has changed",
            Self::Reload => "reload",
            Self::Requested => "restart requested",
        }
    }
}
