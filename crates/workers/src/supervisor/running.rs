//! One generation of one app with its processes: performs what [`Generation`] decides.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use keepwarm_policy::{Scaler, ScalerSettings};
use keepwarm_telemetry::stalls::{self, Stall};
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::app::{Generation, GenerationContext, Phase, StopSignal, WorkerEnd, WorkerId};
use super::output::{BootOutput, Capture, Output, OutputSource};
use super::priority::LowPriority;
use super::profile::WorkerProcessHandle;
use super::single_request::SingleRequestDetector;
use super::spawn::{Launch, Program, SpawnedProcess, SpawnerCommand, WorkerConnection, spawn_fault};
use super::template::{self, Template};
use super::{
    AppSpec, Death, Exit, LinkEvent, Memory, WorkerKey, WorkerLink, WorkerLinks, WorkerState, reap, stack,
};

/// Logs what is done with a worker: `log_worker!(running, id, "event_name", "message")`.
macro_rules! log_worker {
    ($running:expr, $id:expr, $name:literal, $($message:tt)+) => {
        tracing::info!(
            name: $name, target: "keepwarm::supervisor",
            app = %$running.spec.name, worker = $running.processes.get(&$id).map(|process| process.number),
            pid = $running.pid($id), generation = $running.generation, $($message)+
        )
    };
}

mod actions;
mod sampling;

/// How long after a worker's end its last words are waited for. They are in the pipe already; only a process that has left
/// the worker's group can keep it open.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

/// What all generations share.
pub(super) struct Context {
    pub(super) links: Arc<dyn WorkerLinks>,
    pub(super) link_events: UnboundedSender<LinkEvent>,
    pub(super) events: UnboundedSender<ProcessEvent>,
    pub(super) orders: UnboundedSender<SpawnerCommand>,
    pub(super) output: Output,
    pub(super) quiet: LowPriority,
}

/// What happened to a process.
pub(super) struct ProcessEvent {
    pub(super) app: Arc<str>,
    pub(super) generation: u64,
    pub(super) id: WorkerId,
    pub(super) kind: ProcessEventKind,
}

/// The kind of a [`ProcessEvent`].
pub(super) enum ProcessEventKind {
    Spawned(SpawnedProcess),
    Ended(WorkerEnd),
    /// It was asked for its stack, and has shown it.
    Stack,
}

/// Why an app was given up in this generation.
pub(super) struct AppFailure {
    pub(super) number: u32,
    pub(super) reason: String,
    pub(super) exit: Option<Exit>,
    /// What the last worker printed.
    pub(super) boot_output: BootOutput,
    /// None when it could not be spawned.
    pub(super) source: Option<OutputSource>,
}

/// One generation of one app, with its processes.
pub(super) struct RunningGeneration {
    pub(super) spec: Arc<AppSpec>,
    pub(super) generation: u64,
    pub(super) machine: Generation,
    processes: BTreeMap<WorkerId, WorkerProcess>,
    /// With `preload`, from the first start on.
    template: Option<Template>,
    /// Decides how many workers there are; none where that is fixed.
    scaler: Option<Scaler>,
    /// It was said that there is no memory for another worker.
    told_no_room: bool,
    single_request: SingleRequestDetector,
}

/// The process of a worker.
struct WorkerProcess {
    number: u32,
    started: Instant,
    boot_output: BootOutput,
    /// None until it has been spawned.
    spawned: Option<ProcessHandle>,
    /// To be sent when it has been spawned.
    pending: Option<StopSignal>,
    /// It has a low priority until it is ready.
    quiet: bool,
    memory: Option<Memory>,
}

/// A spawned process, and how to signal and reach it.
struct ProcessHandle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    source: OutputSource,
    /// It ends as planned: what it has started in its group lives until the app ends (`descendants`).
    spares: Arc<AtomicBool>,
    /// None when it was not wanted any more by the time it was there.
    link: Option<Arc<dyn WorkerLink>>,
}

impl ProcessHandle {
    fn for_signals(&self) -> WorkerProcessHandle {
        WorkerProcessHandle { pid: self.source.pid, process: self.pid, pidfd: Arc::clone(&self.pidfd) }
    }
}

/// What is needed to wait for the end of a process.
struct ReapTarget {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    parent: Option<template::TemplateReaper>,
    spares: Arc<AtomicBool>,
}

impl RunningGeneration {
    pub(super) fn new(
        spec: AppSpec,
        generation: u64,
        phase: Phase,
        around: GenerationContext,
        now: Instant,
    ) -> Self {
        let machine = Generation::new(&spec, phase, around, now);
        let scaler = spec.scaling.map(|scaling| {
            let settings = ScalerSettings { min: scaling.min, max: scaling.max, idle: scaling.idle };
            Scaler::new(settings, machine.target(), now)
        });
        let processes = BTreeMap::new();
        Self {
            spec: Arc::new(spec),
            generation,
            machine,
            processes,
            scaler,
            told_no_room: false,
            single_request: SingleRequestDetector::default(),
            template: None,
        }
    }

    /// Performs what has been decided; gives the news that the app was given up, if it was.
    pub(super) fn drive(&mut self, context: &Context, now: Instant) -> Option<AppFailure> {
        let mut given_up = None;
        while let Some(action) = self.machine.poll_action() {
            given_up = self.perform(action, context, now).or(given_up);
        }
        given_up
    }

    pub(super) fn handle_process(
        &mut self,
        id: WorkerId,
        kind: ProcessEventKind,
        context: &Context,
        now: Instant,
        random: u64,
    ) -> Option<AppFailure> {
        match kind {
            ProcessEventKind::Spawned(spawned) => {
                self.handle_spawned(id, spawned, context);
                None
            }
            ProcessEventKind::Stack => {
                self.machine.handle_stack(id, now);
                None
            }
            ProcessEventKind::Ended(end) => {
                let end = match end {
                    WorkerEnd::Exited(exit) if !self.machine.was_killed(id) => {
                        WorkerEnd::Exited(exit.with_killer())
                    }
                    end => end,
                };
                let told = matches!(self.machine.state(id), WorkerState::Draining | WorkerState::Stopping)
                    || self.machine.left_as_asked(id, &end);
                if let (true, WorkerEnd::Exited(exit)) = (told, &end) {
                    log_worker!(self, id, "worker_stopped", "worker stopped: {exit}");
                }
                if matches!(end, WorkerEnd::Exited(Exit::Status(_))) && !self.machine.was_killed(id) {
                    self.note_boots(id);
                }
                self.note_served();
                self.machine.handle_end(id, &end, now, random);
                let given_up = self.drive(context, now);
                if let Some(process) = self.processes.remove(&id) {
                    // In a first boot that failed, the failure tells what was printed; everywhere else the log does.
                    if !matches!(self.machine.phase(), Phase::Failed(_)) {
                        process.release();
                    }
                }
                given_up
            }
        }
    }

    /// A worker has exited; what that says of the way the app lives. A reload that ends it says nothing.
    fn note_boots(&mut self, id: WorkerId) {
        let link = self.handle(id).and_then(|handle| handle.link.as_ref());
        let requests = link.map_or(0, |link| link.requests().given());
        if *self.machine.phase() == Phase::Serving && self.single_request.handle_end(requests) {
            stalls::record(&self.spec.name, Stall::BootPerRequest);
        }
    }

    /// Which workers were given requests: asked when one ends, which is when it matters.
    fn note_served(&mut self) {
        for (&id, process) in &self.processes {
            let link = process.spawned.as_ref().and_then(|handle| handle.link.as_ref());
            if link.is_some_and(|link| link.requests().given() > 0) {
                self.machine.handle_request_given(id);
            }
        }
    }

    pub(super) fn handle_link(&mut self, event: &LinkEvent, context: &Context, now: Instant) {
        let pid = event.worker().pid;
        let Some(id) = self.worker_of(pid) else { return };
        let Some(process) = self.processes.get(&id) else { return };
        match event {
            LinkEvent::Ready { adapter, kind, language, streams, .. } => {
                process.finish_boot();
                let took = now.saturating_duration_since(process.started).as_millis();
                tracing::info!(
                    name: "worker_ready", target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = process.number, pid, generation = self.generation,
                    adapter, kind, language, streams, boot_ms = took, "worker ready"
                );
                self.machine.handle_ready(id, now);
                self.end_quiet(id, context);
            }
            LinkEvent::Closed { reason, .. } => self.machine.handle_closed(id, reason, now),
            LinkEvent::Kill { reason, .. } => self.machine.handle_kill(id, Death::Wire, reason, now),
            LinkEvent::Stuck { reason, .. } => self.machine.handle_stuck(id, Death::Timeout, reason, now),
            LinkEvent::Drained { .. } => self.machine.handle_drained(id, now),
            LinkEvent::Slow { .. } => drop(self.ask_for_stack(id)),
            LinkEvent::Sampled { .. } => self.sample(id),
            LinkEvent::WantsDrain { .. } => {
                self.set_spares(id, true);
                self.machine.handle_wants_drain(id, now);
            }
            LinkEvent::RequestsReached { .. } => self.machine.handle_requests_reached(id, now),
        }
    }

    fn spawn(&mut self, id: WorkerId, number: u32, quiet: bool, context: &Context, now: Instant) {
        let hold = *self.machine.phase() == Phase::First;
        let events = context.events.clone();
        let (app, generation) = (self.spec.name.clone(), self.generation);
        let reply = move |result: Result<SpawnedProcess, WorkerEnd>| {
            let kind = match result {
                Ok(spawned) => ProcessEventKind::Spawned(spawned),
                Err(end) => ProcessEventKind::Ended(end),
            };
            // An error: the supervisor has gone, and with the wire and the pipes dropped here the worker goes too.
            let _ = events.send(ProcessEvent { app, generation, id, kind });
        };
        let mut process = WorkerProcess {
            number,
            started: now,
            boot_output: BootOutput::new(hold),
            spawned: None,
            pending: None,
            quiet,
            memory: None,
        };
        if self.spec.preload {
            if let Some(template) = self.fork(number, Box::new(reply), hold, quiet, context) {
                process.boot_output = template.boot_output.clone();
                // It has its template's priority.
                process.quiet |= template.quiet;
            }
            self.processes.insert(id, process);
            return;
        }
        self.processes.insert(id, process);
        let reply = Box::new(move |result: std::io::Result<SpawnedProcess>| {
            reply(result.map_err(|error| WorkerEnd::NotSpawned(spawn_fault(&error))));
        });
        // The thread ends only after the last clone of `orders`.
        let launch = Launch {
            program: Program::Worker(self.spec.clone()),
            number,
            quiet: quiet.then_some(context.quiet),
        };
        let _ = context.orders.send(SpawnerCommand::Spawn(launch, reply));
    }

    /// Has the template fork a worker; starts one if there is none. What it prints until then is why the worker does not come.
    fn fork(
        &mut self,
        number: u32,
        reply: template::SpawnReply,
        hold: bool,
        quiet: bool,
        context: &Context,
    ) -> Option<&Template> {
        let refused = match &self.template {
            Some(template) => template.fork(number, reply).err(),
            None => Some(reply),
        };
        let started = refused.map(|reply| {
            let template = Template::start(&self.spec, self.generation, hold, quiet, context);
            // An error: the supervisor's runtime is going down.
            let _ = template.fork(number, reply);
            template
        });
        if started.is_some() {
            self.template = started;
        }
        self.template.as_ref()
    }

    fn handle_spawned(&mut self, id: WorkerId, spawned: SpawnedProcess, context: &Context) {
        let SpawnedProcess { pid, pidfd, line, pipes, parent } = spawned;
        let pidfd = Arc::new(pidfd);
        let hold = *self.machine.phase() == Phase::First;
        let Some(process) = self.processes.get_mut(&id) else { return };
        if parent.is_some() {
            // Until now it was its template's.
            process.boot_output = BootOutput::new(hold);
        }
        let number = process.number;
        let raw_pid = pid.as_raw_nonzero().get().cast_unsigned();
        let source = OutputSource::worker(self.spec.name.clone(), number, raw_pid);
        let capture = Capture::Boot(process.boot_output.clone());
        let last_words = context.output.attach(source.clone(), pipes.stdout, pipes.stderr, capture);
        let wanted = self.machine.state(id) == WorkerState::Starting;
        let link = wanted.then(|| {
            let (app, generation) = (self.spec.name.clone(), self.generation);
            let key = WorkerKey { app, number, generation, pid: raw_pid };
            let events = context.link_events.clone();
            match line {
                WorkerConnection::Wire(wire) => context.links.adopt(key, keepwarm_net::adopt(wire), events),
                WorkerConnection::Server(addresses) => context.links.adopt_server(key, addresses, events),
                WorkerConnection::None => unreachable!("workers have a wire or are servers"),
                #[cfg(feature = "simulation")]
                WorkerConnection::Simulated(socket) => context.links.adopt(key, socket, events),
            }
        });
        if let (Some(link), Some(most)) = (&link, self.machine.max_requests(id)) {
            link.requests().set_limit(most);
        }
        let spares = Arc::new(AtomicBool::new(false));
        process.spawned =
            Some(ProcessHandle { pid, pidfd: pidfd.clone(), source, spares: spares.clone(), link });
        let pending = process.pending.take();
        self.watch(id, ReapTarget { pid, pidfd, parent, spares }, last_words, context);
        if let Some(signal) = pending {
            self.signal(id, signal);
        }
    }

    /// Reports the end of the process, once it has been reaped and its last words are in the log.
    fn watch(
        &self,
        id: WorkerId,
        process: ReapTarget,
        last_words: tokio::sync::oneshot::Receiver<()>,
        context: &Context,
    ) {
        let (app, generation) = (self.spec.name.clone(), self.generation);
        let (events, orders) = (context.events.clone(), context.orders.downgrade());
        tokio::spawn(async move {
            let ReapTarget { pid, pidfd, parent, spares } = process;
            let exit = reap::reap(pid, pidfd, orders, parent, &spares).await;
            // An error: something outside the group holds the pipe; its words are still logged when they come.
            let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
            let kind = ProcessEventKind::Ended(WorkerEnd::Exited(exit));
            // An error: the supervisor has gone.
            let _ = events.send(ProcessEvent { app, generation, id, kind });
        });
    }

    /// Asks for its stack, and reports when it is there.
    fn see_stack(&mut self, id: WorkerId, context: &Context) {
        let Some(printed) = self.ask_for_stack(id) else { return };
        let (app, generation, events) = (self.spec.name.clone(), self.generation, context.events.clone());
        tokio::spawn(async move {
            stack::hear(printed).await;
            // An error: the supervisor has gone.
            let _ = events.send(ProcessEvent { app, generation, id, kind: ProcessEventKind::Stack });
        });
    }

    /// Has a worker print the stack of what it is doing into the log; gives what it prints from now on. `None`: it is not there, or the question would end it.
    pub(super) fn ask_for_stack(&mut self, id: WorkerId) -> Option<UnboundedReceiver<Vec<u8>>> {
        let process = self.processes.get(&id)?;
        process.spawned.as_ref()?;
        if self.spec.ends_at_quit {
            return None;
        }
        let printed = process.boot_output.listen();
        self.signal(id, StopSignal::Quit);
        Some(printed)
    }

    /// An operator wants the worker replaced. `false`: it is not ready, or is being replaced already.
    pub(super) fn recycle(&mut self, id: WorkerId, now: Instant) -> bool {
        self.machine.handle_recycle(id, now)
    }

    /// The processes of its workers.
    pub(super) fn worker_processes(&self) -> impl Iterator<Item = WorkerProcessHandle> {
        self.processes.values().filter_map(|process| process.spawned.as_ref()).map(ProcessHandle::for_signals)
    }

    /// Signals a worker as long as one of its requests is sampled.
    fn sample(&self, id: WorkerId) {
        if let Some(handle) = self.handle(id)
            && let Some(link) = &handle.link
        {
            tokio::spawn(handle.for_signals().sample(Arc::clone(link)));
        }
    }

    /// The worker with this process id.
    pub(super) fn worker_of(&self, pid: u32) -> Option<WorkerId> {
        let is_it =
            |process: &WorkerProcess| process.spawned.as_ref().is_some_and(|handle| handle.source.pid == pid);
        self.processes.iter().find(|(_, process)| is_it(process)).map(|(&id, _)| id)
    }

    fn set_spares(&self, id: WorkerId, spares: bool) {
        if let Some(handle) = self.handle(id) {
            handle.spares.store(spares, Ordering::Relaxed);
        }
    }

    fn signal(&mut self, id: WorkerId, signal: StopSignal) {
        if signal == StopSignal::Kill {
            self.set_spares(id, false);
        }
        let Some(process) = self.processes.get_mut(&id) else { return };
        match &process.spawned {
            Some(handle) => reap::send_signal(handle.pid, &handle.pidfd, signal.number()),
            None => {
                process.pending = Some(signal);
                // It takes a template a millisecond to fork: one that has not is still loading, or hangs.
                if let Some(template) = &self.template {
                    template.kill();
                }
            }
        }
    }

    fn handle(&self, id: WorkerId) -> Option<&ProcessHandle> {
        self.processes.get(&id)?.spawned.as_ref()
    }

    fn pid(&self, id: WorkerId) -> Option<u32> {
        self.handle(id).map(|handle| handle.source.pid)
    }
}

impl WorkerProcess {
    fn finish_boot(&self) {
        if let Some(handle) = &self.spawned {
            self.boot_output.finish_boot(&handle.source);
        }
    }

    fn release(&self) {
        if let Some(handle) = &self.spawned {
            self.boot_output.release(&handle.source);
        }
    }
}

impl StopSignal {
    fn number(self) -> Signal {
        match self {
            Self::Quit | Self::Finish => Signal::QUIT,
            Self::Term => Signal::TERM,
            Self::Kill => Signal::KILL,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Quit | Self::Finish => "SIGQUIT",
            Self::Term => "SIGTERM",
            Self::Kill => "SIGKILL",
        }
    }
}
