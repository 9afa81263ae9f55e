//! The processes of one section: performs what its [`ProcessSet`] decides.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::action::{Clocks, ProcessAction, ProcessNews, RunId};
use super::control::ProcessContext;
use super::logging::{self, Subject, signal};
use super::set::ProcessSet;
use super::slot::ProcessSlot;
use super::{ProcessEnd, ProcessSetSnapshot, ProcessSnapshot, ProcessSpec, ReadyCheck};
use crate::supervisor::output::{Capture, LineWatch, OutputSource};
use crate::supervisor::running::LAST_WORDS;
use crate::supervisor::spawn::{Launch, Program, SpawnedProcess, SpawnerCommand, spawn_fault};
use crate::supervisor::{Memory, reap};

/// Between two attempts to connect to a process that is to accept connections.
const CONNECT_EVERY: Duration = Duration::from_millis(100);

/// What happened to a process of a set.
pub(in crate::supervisor) struct RunEvent {
    pub(super) set: Arc<str>,
    pub(super) epoch: u64,
    pub(super) id: RunId,
    pub(super) kind: RunEventKind,
}

/// The kind of a [`RunEvent`].
pub(super) enum RunEventKind {
    Started(SpawnedProcess),
    Ready,
    Memory(Memory),
    Ended(ProcessEnd),
}

/// One set with its processes.
pub(super) struct RunningSet {
    pub(super) machine: ProcessSet,
    pub(super) epoch: u64,
    runs: BTreeMap<RunId, Run>,
}

/// A process that was ordered.
struct Run {
    number: u32,
    spec: Arc<ProcessSpec>,
    /// None until it exists.
    handle: Option<RunHandle>,
    /// Sent once it exists.
    pending: Vec<Signal>,
    memory: Option<Memory>,
}

/// A process that exists.
struct RunHandle {
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    /// What waits until it is ready.
    check: Option<AbortHandle>,
}

impl RunningSet {
    pub(super) fn new(spec: ProcessSpec, epoch: u64, seed: u64, now: Instant) -> Self {
        Self { machine: ProcessSet::new(Arc::new(spec), seed, now), epoch, runs: BTreeMap::new() }
    }

    pub(super) fn has_runs(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Performs what has been decided.
    pub(super) fn drive(&mut self, context: &ProcessContext) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                ProcessAction::Start { id, number, spec } => self.start(id, number, spec, context),
                ProcessAction::Stop { id, signal: number, why } => {
                    logging::stopping(self.subject(Some(id)), number, &why);
                    self.signal(id, signal(number));
                }
                ProcessAction::Kill { id, why } => {
                    logging::killing(self.subject(Some(id)), &why);
                    self.signal(id, Signal::KILL);
                }
                ProcessAction::Signal { id, signal: number } => {
                    logging::signalled(self.subject(Some(id)), number);
                    self.signal(id, signal(number));
                }
                ProcessAction::Log(news) => logging::news(self.subject(run_of(&news)), &news),
            }
        }
    }

    pub(super) fn handle_event(
        &mut self,
        event: RunEvent,
        context: &ProcessContext,
        clocks: Clocks,
        random: u64,
    ) {
        let id = event.id;
        match event.kind {
            RunEventKind::Started(spawned) => self.handle_started(id, spawned, context, clocks),
            RunEventKind::Ready => self.machine.handle_ready(id, clocks),
            RunEventKind::Memory(memory) => {
                if let Some(run) = self.runs.get_mut(&id) {
                    run.memory = Some(memory);
                }
                self.machine.handle_memory(id, memory.own, clocks.now);
            }
            RunEventKind::Ended(end) => {
                if let Some(check) = self.runs.get_mut(&id).and_then(|run| run.handle.as_mut()?.check.take())
                {
                    check.abort();
                }
                let end = match end {
                    ProcessEnd::Exited(exit) if !self.machine.was_killed(id) => {
                        ProcessEnd::Exited(exit.with_killer())
                    }
                    end => end,
                };
                self.machine.handle_end(id, &end, clocks, random);
                self.drive(context);
                self.runs.remove(&id);
            }
        }
    }

    fn start(&mut self, id: RunId, number: u32, spec: Arc<ProcessSpec>, context: &ProcessContext) {
        let report = self.reporter(id, context);
        let reply = Box::new(move |result: std::io::Result<SpawnedProcess>| {
            report(match result {
                Ok(spawned) => RunEventKind::Started(spawned),
                Err(error) => RunEventKind::Ended(ProcessEnd::NotStarted(spawn_fault(&error))),
            });
        });
        let execution = Arc::clone(&spec.execution);
        let program = Program::Other { execution, variables: spec.variables(number) };
        self.runs.insert(id, Run { number, spec, handle: None, pending: Vec::new(), memory: None });
        // The thread ends only after the last clone of `orders`.
        let launch = Launch { program, number, quiet: None };
        let _ = context.orders.send(SpawnerCommand::Spawn(launch, reply));
    }

    fn handle_started(
        &mut self,
        id: RunId,
        spawned: SpawnedProcess,
        context: &ProcessContext,
        clocks: Clocks,
    ) {
        let report = self.reporter(id, context);
        let report_ready = self.reporter(id, context);
        let name = Arc::clone(&self.machine.spec().name);
        let SpawnedProcess { pid, pidfd, pipes, .. } = spawned;
        let Some(run) = self.runs.get_mut(&id) else { return };
        let pidfd = Arc::new(pidfd);
        let source = OutputSource::process(name, run.number, raw(pid));
        let (capture, check) = ready_check(run.spec.ready.as_ref(), report_ready);
        let last_words = context.output.attach(source, pipes.stdout, pipes.stderr, capture);
        run.handle = Some(RunHandle { pid, pidfd: Arc::clone(&pidfd), check });
        let pending = std::mem::take(&mut run.pending);
        let is_ready = run.spec.ready.is_none();
        let left = variables(&run.spec, run.number);
        tokio::spawn(watch(pid, pidfd, left, last_words, context.orders.downgrade(), report));
        logging::started(self.subject(Some(id)));
        pending.into_iter().for_each(|signal| self.signal(id, signal));
        if is_ready {
            self.machine.handle_ready(id, clocks);
        }
    }

    /// Sends what happens to a process to the task that owns it.
    fn reporter(&self, id: RunId, context: &ProcessContext) -> impl Fn(RunEventKind) + Send + use<> {
        let (set, epoch, events) = (Arc::clone(&self.machine.spec().name), self.epoch, context.events());
        move |kind| {
            // An error: the supervisor has gone.
            let _ = events.send(RunEvent { set: Arc::clone(&set), epoch, id, kind });
        }
    }

    fn signal(&mut self, id: RunId, signal: Signal) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        match &run.handle {
            Some(handle) => reap::send_signal(handle.pid, &handle.pidfd, signal),
            None => run.pending.push(signal),
        }
    }

    /// Samples the memory of its processes on a thread that may block.
    pub(super) fn sample(&self, context: &ProcessContext) {
        for (&id, run) in &self.runs {
            let Some(pid) = run.handle.as_ref().map(|handle| raw(handle.pid)) else { continue };
            let report = self.reporter(id, context);
            sample(pid, move |memory| report(RunEventKind::Memory(memory)));
        }
    }

    pub(super) fn snapshot(&self, waits_for: Vec<String>) -> ProcessSetSnapshot {
        let spec = self.machine.spec();
        ProcessSetSnapshot {
            name: Arc::clone(&spec.name),
            waits_for,
            next_run: self.machine.next_run(),
            is_scheduled: spec.schedule.is_some(),
            processes: self.machine.slots().iter().map(|slot| self.one(slot)).collect(),
        }
    }

    fn one(&self, slot: &ProcessSlot) -> ProcessSnapshot {
        let run = slot.run.and_then(|id| self.runs.get(&id));
        let handle = run.and_then(|run| run.handle.as_ref());
        ProcessSnapshot {
            number: slot.number,
            pid: handle.map(|handle| raw(handle.pid)),
            state: slot.state,
            since: slot.since,
            started: slot.run.map(|_| slot.started),
            restarts: slot.starts.saturating_sub(1),
            memory: run.and_then(|run| run.memory),
            last_exit: slot.last_exit.clone(),
            leaving: slot.outdated.as_ref().map(|(reason, _)| *reason),
            replacements: slot.replacements,
            faults: slot.faults,
            succeeded: slot.succeeded,
            failed: slot.failed,
            skipped: slot.skipped,
        }
    }

    fn subject(&self, id: Option<RunId>) -> Subject<'_> {
        let run = id.and_then(|id| self.runs.get(&id));
        let pid = run.and_then(|run| run.handle.as_ref()).map(|handle| raw(handle.pid));
        Subject { process: &self.machine.spec().name, number: run.map_or(1, |run| run.number), pid }
    }
}

fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}

fn run_of(news: &ProcessNews) -> Option<RunId> {
    match news {
        ProcessNews::Ready { id, .. }
        | ProcessNews::Stopped { id, .. }
        | ProcessNews::Restarting { id, .. }
        | ProcessNews::Finished { id, .. }
        | ProcessNews::RunEnded { id, .. }
        | ProcessNews::RunSkipped { id, .. }
        | ProcessNews::Unkillable { id }
        | ProcessNews::Abandoned { id } => Some(*id),
        ProcessNews::RunMissed { .. } => None,
    }
}

/// The variables by which what a process has left behind is found.
fn variables(spec: &ProcessSpec, number: u32) -> Vec<String> {
    spec.variables(number).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Reports the end of a process once it was reaped, its last words are in the log, and nothing that it has started is left: also what has left its
/// process group, as daemons do. So its successor never runs beside it.
async fn watch(
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    left: Vec<String>,
    last_words: oneshot::Receiver<()>,
    orders: tokio::sync::mpsc::WeakUnboundedSender<SpawnerCommand>,
    report: impl Fn(RunEventKind),
) {
    let exit = reap::reap(pid, pidfd, orders.clone(), None, &AtomicBool::new(false)).await;
    if let Some(orders) = orders.upgrade() {
        kill_left(&orders, left).await;
    }
    // An error: something that is not found by its environment holds the pipe; its words are still logged when they come.
    let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    report(RunEventKind::Ended(ProcessEnd::Exited(exit)));
}

/// Returns when the processes with these variables are gone.
pub(super) async fn kill_left(
    orders: &tokio::sync::mpsc::UnboundedSender<SpawnerCommand>,
    variables: Vec<String>,
) {
    let (done, waits) = oneshot::channel();
    // The thread ends only after the last clone of `orders`.
    let _ = orders.send(SpawnerCommand::KillLeft(variables, Some(done)));
    // An error is the sign: the sender was dropped.
    let _ = waits.await;
}

/// What shows that a process is ready: something that is done with its output, or a task.
fn ready_check(
    check: Option<&ReadyCheck>,
    report: impl Fn(RunEventKind) + Send + 'static,
) -> (Capture, Option<AbortHandle>) {
    match check {
        None => (Capture::Nothing, None),
        Some(ReadyCheck::Prints(text)) => {
            let (watch, mut found) = LineWatch::new(Arc::clone(text));
            let task = tokio::spawn(async move {
                if found.recv().await.is_some() {
                    report(RunEventKind::Ready);
                }
            });
            (Capture::Line(watch), Some(task.abort_handle()))
        }
        Some(address) => {
            let address = address.clone();
            let task = tokio::spawn(async move {
                while !accepts(&address).await {
                    tokio::time::sleep(CONNECT_EVERY).await;
                }
                report(RunEventKind::Ready);
            });
            (Capture::Nothing, Some(task.abort_handle()))
        }
    }
}

async fn accepts(check: &ReadyCheck) -> bool {
    match check {
        ReadyCheck::AcceptsTcp(address) => tokio::net::TcpStream::connect(address).await.is_ok(),
        ReadyCheck::AcceptsUnix(path) => tokio::net::UnixStream::connect(path).await.is_ok(),
        ReadyCheck::Prints(_) => true,
    }
}

#[cfg(not(feature = "simulation"))]
fn sample(pid: u32, report: impl FnOnce(Memory) + Send + 'static) {
    tokio::task::spawn_blocking(move || crate::supervisor::memory::of_process(pid).map(report));
}

/// There is no memory to look at.
#[cfg(feature = "simulation")]
fn sample(_: u32, _: impl FnOnce(Memory)) {}
