//! One generation of one app with its processes: performs what [`Generation`] decides.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::sync::mpsc::UnboundedSender;

use super::app::{Action, End, Generation, Phase, StopSignal, WorkerId};
use super::output::{Kept, Output, Source};
use super::spawn::{Launch, Line, Order, Spawned};
use super::{
    AppSpec, Exit, LinkEvent, WorkerKey, WorkerLink, WorkerLinks, WorkerSnapshot, WorkerState, reap,
};

/// How long after a worker's end its last words are waited for. They are in the pipe already; only a process that has left
/// the worker's group can keep it open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What all generations share.
pub(super) struct Context {
    pub(super) links: Arc<dyn WorkerLinks>,
    pub(super) link_events: UnboundedSender<LinkEvent>,
    pub(super) events: UnboundedSender<ProcessEvent>,
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) output: Output,
}

/// What happened to a process.
pub(super) struct ProcessEvent {
    pub(super) app: Arc<str>,
    pub(super) generation: u64,
    pub(super) id: WorkerId,
    pub(super) what: What,
}

/// See [`ProcessEvent`].
pub(super) enum What {
    Spawned(Spawned),
    Ended(End),
}

/// The app was given up in this generation.
pub(super) struct GivenUp {
    pub(super) number: u32,
    pub(super) reason: String,
    pub(super) exit: Option<Exit>,
    /// What the last worker printed.
    pub(super) kept: Kept,
    /// None when it could not be spawned.
    pub(super) source: Option<Source>,
}

/// One generation of one app.
pub(super) struct Running {
    pub(super) spec: Arc<AppSpec>,
    pub(super) generation: u64,
    pub(super) machine: Generation,
    processes: BTreeMap<WorkerId, Process>,
}

struct Process {
    number: u32,
    started: Instant,
    kept: Kept,
    /// None until it has been spawned.
    spawned: Option<Handle>,
    /// To be sent when it has been spawned.
    pending: Option<StopSignal>,
}

struct Handle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    source: Source,
    /// None when it was not wanted any more by the time it was there.
    link: Option<Arc<dyn WorkerLink>>,
}

impl Running {
    pub(super) fn new(spec: AppSpec, generation: u64, phase: Phase, now: Instant) -> Self {
        let machine = Generation::new(&spec, phase, now);
        Self { spec: Arc::new(spec), generation, machine, processes: BTreeMap::new() }
    }

    /// Performs what has been decided; gives the news that the app was given up, if it was.
    pub(super) fn drive(&mut self, context: &Context, now: Instant) -> Option<GivenUp> {
        let mut given_up = None;
        while let Some(action) = self.machine.poll_action() {
            given_up = self.perform(action, context, now).or(given_up);
        }
        given_up
    }

    pub(super) fn handle_process(
        &mut self,
        id: WorkerId,
        what: What,
        context: &Context,
        now: Instant,
        random: u64,
    ) -> Option<GivenUp> {
        match what {
            What::Spawned(spawned) => {
                self.handle_spawned(id, spawned, context);
                None
            }
            What::Ended(end) => {
                if let (WorkerState::Draining | WorkerState::Stopping, End::Exited(exit)) =
                    (self.machine.state(id), &end)
                {
                    self.record(id, &format!("the worker has ended: {exit}"));
                }
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

    pub(super) fn handle_link(&mut self, event: &LinkEvent, now: Instant) {
        let pid = event.worker().pid;
        let is_it =
            |process: &Process| process.spawned.as_ref().is_some_and(|handle| handle.source.pid == pid);
        let Some((&id, process)) = self.processes.iter().find(|(_, process)| is_it(process)) else { return };
        match event {
            LinkEvent::Ready { adapter, kind, language, streams, .. } => {
                process.finish_boot();
                let took = now.saturating_duration_since(process.started).as_millis();
                tracing::info!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = process.number, pid, generation = self.generation,
                    adapter, kind, language, streams, boot_ms = took, "the worker is ready"
                );
                self.machine.handle_ready(id, now);
            }
            LinkEvent::Closed { reason, .. } => self.machine.handle_closed(id, reason, now),
            LinkEvent::Kill { reason, .. } => self.machine.handle_kill(id, reason, now),
            LinkEvent::Stuck { reason, .. } => self.machine.handle_stuck(id, reason, now),
            LinkEvent::Drained { .. } => self.machine.handle_drained(id, now),
            LinkEvent::WantsDrain { .. } => self.machine.handle_wants_drain(id, now),
        }
    }

    pub(super) fn snapshot(&self) -> impl Iterator<Item = WorkerSnapshot> {
        self.machine.view().into_iter().map(|view| WorkerSnapshot {
            app: self.spec.name.clone(),
            number: view.number,
            generation: self.generation,
            pid: view.id.and_then(|id| self.pid(id)),
            state: view.state,
            since: view.since,
            restarts: view.restarts,
        })
    }

    fn perform(&mut self, action: Action, context: &Context, now: Instant) -> Option<GivenUp> {
        match action {
            Action::Spawn { id, number } => self.spawn(id, number, context, now),
            Action::Retire { id } => {
                self.record(id, "the worker takes no more requests");
                if let Some(link) = self.handle(id).and_then(|handle| handle.link.clone()) {
                    link.retire();
                }
            }
            Action::Signal { id, signal, why } => {
                self.record(id, &format!("the worker {why}: {}", signal.name()));
                self.signal(id, signal);
            }
            Action::Restart { id, number, reason, wait } => {
                tracing::warn!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    wait_ms = wait.as_millis(), "the worker {reason}; another is started"
                );
            }
            Action::Lost { id, number, reason } => {
                tracing::warn!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    "the worker {reason}; another serves in its place"
                );
            }
            Action::GiveUpPlace { id, number, reason } => {
                tracing::error!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    "the worker {reason}; its place is given up until the next reload, the app goes on with the others"
                );
            }
            Action::GiveUp { id, number, reason, exit } => {
                tracing::error!(
                    target: "keepwarm::supervisor",
                    app = %self.spec.name, worker = number, pid = self.pid(id), generation = self.generation, reason,
                    "the worker {reason}; the app is given up until the next reload"
                );
                let process = self.processes.get(&id)?;
                let source = process.spawned.as_ref().map(|handle| handle.source.clone());
                return Some(GivenUp { number, reason, exit, kept: process.kept.clone(), source });
            }
        }
        None
    }

    fn spawn(&mut self, id: WorkerId, number: u32, context: &Context, now: Instant) {
        let kept = Kept::new(*self.machine.phase() == Phase::First);
        self.processes.insert(id, Process { number, started: now, kept, spawned: None, pending: None });
        let events = context.events.clone();
        let (app, generation) = (self.spec.name.clone(), self.generation);
        let reply = Box::new(move |result: std::io::Result<Spawned>| {
            let what = match result {
                Ok(spawned) => What::Spawned(spawned),
                Err(error) => What::Ended(End::NotSpawned(error.to_string())),
            };
            // An error: the supervisor has gone, and with the wire and the pipes dropped here the worker goes too.
            let _ = events.send(ProcessEvent { app, generation, id, what });
        });
        // The thread ends only after the last clone of `orders`.
        let _ = context.orders.send(Order::Spawn(Launch { spec: self.spec.clone(), number }, reply));
    }

    fn handle_spawned(&mut self, id: WorkerId, spawned: Spawned, context: &Context) {
        let Spawned { pid, pidfd, line, stdout, stderr } = spawned;
        let pidfd = Arc::new(pidfd);
        let Some(process) = self.processes.get_mut(&id) else { return };
        let number = process.number;
        let raw_pid = pid.as_raw_nonzero().get().cast_unsigned();
        let source = Source { app: self.spec.name.clone(), worker: number, pid: raw_pid };
        let last_words = context.output.attach(source.clone(), stdout, stderr, process.kept.clone());
        let wanted = self.machine.state(id) == WorkerState::Starting;
        let link = wanted.then(|| {
            let (app, generation) = (self.spec.name.clone(), self.generation);
            let key = WorkerKey { app, number, generation, pid: raw_pid };
            let events = context.link_events.clone();
            match line {
                Line::Wire(wire) => context.links.adopt(key, wire, events),
                Line::Server(addresses) => context.links.adopt_server(key, addresses, events),
            }
        });
        process.spawned = Some(Handle { pid, pidfd: pidfd.clone(), source, link });
        let pending = process.pending.take();
        self.watch(id, pid, pidfd, last_words, context);
        if let Some(signal) = pending {
            self.signal(id, signal);
        }
    }

    /// Reports the end of the process, once it has been reaped and its last words are in the log.
    fn watch(
        &self,
        id: WorkerId,
        pid: Pid,
        pidfd: Arc<OwnedFd>,
        last_words: tokio::sync::oneshot::Receiver<()>,
        context: &Context,
    ) {
        let (app, generation) = (self.spec.name.clone(), self.generation);
        let (events, orders) = (context.events.clone(), context.orders.clone());
        tokio::spawn(async move {
            let exit = reap::reap(pid, pidfd, orders).await;
            // An error: something outside the group holds the pipe; its words are still logged when they come.
            let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
            let what = What::Ended(End::Exited(exit));
            // An error: the supervisor has gone.
            let _ = events.send(ProcessEvent { app, generation, id, what });
        });
    }

    fn signal(&mut self, id: WorkerId, signal: StopSignal) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        match &process.spawned {
            Some(handle) => reap::send_signal(handle.pid, &handle.pidfd, signal.number()),
            None => process.pending = Some(signal),
        }
    }

    fn record(&self, id: WorkerId, message: &str) {
        let worker = self.processes.get(&id).map(|process| process.number);
        tracing::info!(
            target: "keepwarm::supervisor",
            app = %self.spec.name, worker, pid = self.pid(id), generation = self.generation, "{message}"
        );
    }

    fn handle(&self, id: WorkerId) -> Option<&Handle> {
        self.processes.get(&id)?.spawned.as_ref()
    }

    fn pid(&self, id: WorkerId) -> Option<u32> {
        self.handle(id).map(|handle| handle.source.pid)
    }
}

impl Process {
    fn finish_boot(&self) {
        if let Some(handle) = &self.spawned {
            self.kept.finish_boot(&handle.source);
        }
    }

    fn release(&self) {
        if let Some(handle) = &self.spawned {
            self.kept.release(&handle.source);
        }
    }
}

impl StopSignal {
    fn number(self) -> Signal {
        match self {
            Self::Quit => Signal::QUIT,
            Self::Term => Signal::TERM,
            Self::Kill => Signal::KILL,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Quit => "SIGQUIT",
            Self::Term => "SIGTERM",
            Self::Kill => "SIGKILL",
        }
    }
}
