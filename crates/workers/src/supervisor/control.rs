//! The task that owns all state of the supervisor, on the control thread's runtime. Everything reaches it as an event; it
//! sleeps until one comes or a deadline is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keepwarm_telemetry::panics::abort_on_panic_task;
use tokio::sync::{mpsc, oneshot};

use self::reload::{PendingReload, ReloadRequest, ReloadScope};
use self::state::AppHistory;
use super::app::{GenerationContext, Phase};
use super::children;
use super::guardian_watch::GuardianWatch;
use super::output::Output;
use super::priority::LowPriority;
use super::processes::{self, Dependency, ProcessCommand};
use super::profile::WorkerProcessHandle;
use super::rollups::Rollups;
use super::running::{AppFailure, Context, ProcessEvent, RunningGeneration};
use super::sampler::{self, MemorySamples};
use super::spawn::SpawnerCommand;
use super::stack;
use super::{AppSpec, LinkEvent, Options, ReloadReport, Snapshot, StartFailure, WorkerLinks};

mod reload;
mod sampling;
mod state;

/// What the handle asks for, with the place for the response.
pub(super) enum Command {
    /// Start these, of a supervisor that was started without apps.
    Begin(Vec<AppSpec>),
    WaitFirstBoot(oneshot::Sender<Vec<StartFailure>>),
    /// That all generations before this one are over.
    WaitOver(u64, oneshot::Sender<()>),
    Reload(Vec<AppSpec>, oneshot::Sender<Result<ReloadReport, StartFailure>>),
    Recycle(Box<AppSpec>, oneshot::Sender<Result<ReloadReport, StartFailure>>),
    /// Passed on to the thread that speaks to the guardian.
    Spawner(SpawnerCommand),
    Stop(Duration, oneshot::Sender<()>),
    /// Add workers to every app, or remove them.
    Shift(i32),
    Snapshot(oneshot::Sender<Snapshot>),
    /// Of the worker with this process id.
    Stack(u32, oneshot::Sender<Option<Vec<u8>>>),
    /// Replaces the worker with this process id.
    RecycleWorker(u32, oneshot::Sender<bool>),
    /// The processes of an app's workers.
    WorkerProcesses(String, oneshot::Sender<Vec<WorkerProcessHandle>>),
}

/// Commands to the task of the processes: the sender that reports ready apps, and the other end.
pub(super) type ProcessChannel =
    (mpsc::WeakUnboundedSender<ProcessCommand>, mpsc::UnboundedReceiver<ProcessCommand>);

/// Starts the two threads, the guardian and the task.
pub(super) async fn start(
    apps: Vec<AppSpec>,
    links: Arc<dyn WorkerLinks>,
    options: Options,
    commands: mpsc::UnboundedReceiver<Command>,
    (to_processes, of_processes): ProcessChannel,
) -> io::Result<()> {
    reload::check(&apps)
        .map_err(|failure| io::Error::new(io::ErrorKind::InvalidInput, failure.to_string()))?;
    children::adopt_orphans()?;
    #[cfg(not(feature = "simulation"))]
    let spawner = super::spawn::start(options).await?;
    #[cfg(feature = "simulation")]
    let spawner = super::simulation::start(&options)?;
    let (link_events, from_links) = mpsc::unbounded_channel();
    let (events, from_processes) = mpsc::unbounded_channel();
    let output = Output::start()?;
    processes::start(spawner.orders.clone(), output.clone(), of_processes);
    let context =
        Context { links, link_events, events, orders: spawner.orders, output, quiet: LowPriority::new() };
    let (samples, from_look) = mpsc::unbounded_channel();
    let mut control = Control {
        context,
        cores: cores(),
        history: BTreeMap::new(),
        sampling: MemorySampling {
            count: 0,
            under_way: false,
            samples,
            available: None,
            rollups: Rollups::default(),
        },
        generation: FIRST_GENERATION,
        running: BTreeMap::new(),
        current: BTreeMap::new(),
        trial: None,
        queue: VecDeque::new(),
        first: FirstBoot::default(),
        over: Vec::new(),
        to_processes,
        ready_apps: BTreeSet::new(),
        stopping: None,
    };
    control.begin(apps);
    let inputs = Inputs {
        commands,
        has_handles: true,
        from_links,
        from_processes,
        from_look,
        guardian: GuardianWatch::new(spawner.guardian),
    };
    // Which process is whose is known here and nowhere else.
    tokio::spawn(abort_on_panic_task("the supervisor of workers", control.run(inputs, spawner.ended)));
    Ok(())
}

const FIRST_GENERATION: u64 = 1;

struct Control {
    context: Context,
    /// The youngest generation.
    generation: u64,
    /// All that have a process, and the current ones that have none.
    running: BTreeMap<(Arc<str>, u64), RunningGeneration>,
    /// The generation of each app that is the app.
    current: BTreeMap<Arc<str>, u64>,
    trial: Option<PendingReload>,
    /// Reloads that wait for their turn.
    queue: VecDeque<ReloadRequest>,
    first: FirstBoot,
    /// Those who wait until the generations before one are over.
    over: Vec<(u64, oneshot::Sender<()>)>,
    /// What happened in generations that are over, by app.
    history: BTreeMap<Arc<str>, AppHistory>,
    sampling: MemorySampling,
    cores: usize,
    /// To say which apps are ready: only processes that wait for one need it.
    to_processes: mpsc::WeakUnboundedSender<ProcessCommand>,
    /// The apps that have been reported.
    ready_apps: BTreeSet<Arc<str>>,
    /// Those who wait for the end. `Some`: nothing new is started.
    stopping: Option<Vec<oneshot::Sender<()>>>,
}

/// The first boot of all apps.
#[derive(Default)]
struct FirstBoot {
    /// Nothing is awaited any more.
    over: bool,
    failures: Vec<StartFailure>,
    waiters: Vec<oneshot::Sender<Vec<StartFailure>>>,
}

/// The state of memory sampling; see [`sampler`].
struct MemorySampling {
    count: u64,
    /// One is under way: the next waits for it.
    under_way: bool,
    samples: mpsc::UnboundedSender<MemorySamples>,
    /// What could be had at the last look, in bytes.
    available: Option<u64>,
    /// Where none is under way.
    rollups: Rollups,
}

struct Inputs {
    commands: mpsc::UnboundedReceiver<Command>,
    /// Somebody may still send a command.
    has_handles: bool,
    from_links: mpsc::UnboundedReceiver<LinkEvent>,
    from_processes: mpsc::UnboundedReceiver<ProcessEvent>,
    from_look: mpsc::UnboundedReceiver<MemorySamples>,
    guardian: GuardianWatch,
}

impl Control {
    async fn run(mut self, mut inputs: Inputs, ended: oneshot::Receiver<()>) {
        self.drive(now());
        let mut look = interval(sampler::EVERY);
        let mut load = interval(sampler::LOAD_EVERY);
        while !self.is_over() {
            let timeout = self.running.values().filter_map(|running| running.machine.poll_timeout()).min();
            tokio::select! {
                // Not by `is_closed`: the drop of the last handle must be noticed once, also when something else came first.
                command = inputs.commands.recv(), if inputs.has_handles => {
                    inputs.has_handles = command.is_some();
                    self.handle_command(command);
                }
                Some(event) = inputs.from_links.recv() => self.handle_link(&event),
                Some(event) = inputs.from_processes.recv() => self.handle_process(event),
                Some(samples) = inputs.from_look.recv() => self.handle_samples(samples),
                _ = look.tick() => self.look(),
                _ = load.tick(), if self.is_scaled() => self.scale(),
                news = inputs.guardian.recv() => inputs.guardian.handle(news, &self.context.orders),
                () = sleep_until(timeout) => {
                    let now = now();
                    self.running.values_mut().for_each(|running| running.machine.handle_timeout(now));
                }
            }
            self.drive(now());
        }
        let Self { context, stopping, .. } = self;
        // The last sender of orders: the spawner thread lets the guardian go, and ends.
        drop(inputs);
        drop(context);
        let _ = ended.await;
        for reply in stopping.into_iter().flatten() {
            // Somebody who does not wait any more.
            let _ = reply.send(());
        }
    }

    // Input.

    /// `None`: the last handle was dropped.
    fn handle_command(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Begin(apps)) => {
                if self.stopping.is_none() {
                    self.first.over = false;
                    self.begin(apps);
                }
            }
            Some(Command::WaitFirstBoot(reply)) => self.first.waiters.push(reply),
            Some(Command::WaitOver(generation, reply)) => self.over.push((generation, reply)),
            Some(Command::Reload(apps, reply)) => {
                self.queue.push_back(ReloadRequest { apps, scope: ReloadScope::All, reply, at: now() });
            }
            Some(Command::Recycle(app, reply)) => {
                self.queue.push_back(ReloadRequest {
                    apps: vec![*app],
                    scope: ReloadScope::These,
                    reply,
                    at: now(),
                });
            }
            Some(Command::Spawner(order)) => {
                // The thread ends only after the last clone of `orders`.
                let _ = self.context.orders.send(order);
            }
            Some(Command::Shift(by)) => self.shift(by),
            Some(Command::Snapshot(reply)) => drop(reply.send(self.snapshot())),
            Some(Command::Stack(pid, reply)) => self.show_stack(pid, reply),
            Some(Command::RecycleWorker(pid, reply)) => drop(reply.send(self.recycle(pid))),
            Some(Command::WorkerProcesses(app, reply)) => {
                let of_app = self.running.iter().filter(|((name, _), _)| **name == *app);
                // An error: who asked has gone.
                let _ = reply.send(of_app.flat_map(|(_, running)| running.worker_processes()).collect());
            }
            Some(Command::Stop(grace, reply)) => {
                self.stop(grace);
                self.stopping.get_or_insert_default().push(reply);
            }
            None => self.stop(Duration::ZERO),
        }
    }

    fn recycle(&mut self, pid: u32) -> bool {
        let found = self.running.values_mut().find_map(|running| Some((running.worker_of(pid)?, running)));
        found.is_some_and(|(id, running)| running.recycle(id, now()))
    }

    fn show_stack(&mut self, pid: u32, reply: oneshot::Sender<Option<Vec<u8>>>) {
        let asked = self.running.values_mut().find_map(|running| {
            let id = running.worker_of(pid)?;
            running.ask_for_stack(id)
        });
        tokio::spawn(async move {
            let words = match asked {
                Some(printed) => Some(stack::hear(printed).await),
                None => None,
            };
            // An error: who asked has gone.
            let _ = reply.send(words);
        });
    }

    fn handle_link(&mut self, event: &LinkEvent) {
        let worker = event.worker();
        if let Some(running) = self.running.get_mut(&(worker.app.clone(), worker.generation)) {
            running.handle_link(event, &self.context, now());
        }
    }

    fn handle_process(&mut self, event: ProcessEvent) {
        let ProcessEvent { app, generation, id, kind } = event;
        let Some(running) = self.running.get_mut(&(app.clone(), generation)) else { return };
        if let Some(given_up) = running.handle_process(id, kind, &self.context, now(), random()) {
            self.handle_given_up(&app, generation, given_up);
        }
    }

    fn handle_given_up(&mut self, app: &Arc<str>, generation: u64, given_up: AppFailure) {
        let AppFailure { number, reason, exit, boot_output, source } = given_up;
        let is_trial = self.trial.as_ref().is_some_and(|trial| trial.generation == generation);
        let is_first = generation == FIRST_GENERATION && !self.first.over;
        if !is_trial
            && !is_first
            && let Some(source) = source
        {
            boot_output.release(&source);
        }
        let told = format!("worker {number} {reason}");
        let failure =
            StartFailure { app: app.clone(), worker: number, reason, exit, stderr: boot_output.take_bytes() };
        if is_trial {
            self.end_trial(failure);
        } else if self.current.get(app) == Some(&generation) {
            self.context.links.set_failed(app, Some(told));
            if is_first {
                self.first.failures.push(failure);
            }
        }
    }

    // What follows from it.

    /// Performs all decisions, until none is left.
    fn drive(&mut self, now: Instant) {
        loop {
            let mut news = Vec::new();
            for (key, running) in &mut self.running {
                if let Some(given_up) = running.drive(&self.context, now) {
                    news.push((key.clone(), given_up));
                }
            }
            if news.is_empty() {
                break;
            }
            for ((app, generation), given_up) in news {
                self.handle_given_up(&app, generation, given_up);
            }
        }
        self.finish_trial(now);
        self.start_trial(now);
        self.reply_first();
        self.report_ready();
        self.forget_over();
        self.reply_over();
    }

    fn reply_over(&mut self) {
        let oldest = self.running.keys().map(|(_, generation)| *generation).min();
        let is_over = |(before, _): &mut (u64, _)| oldest.is_none_or(|oldest| oldest >= *before);
        for (_, waiter) in self.over.extract_if(.., is_over) {
            // Somebody who does not wait any more.
            let _ = waiter.send(());
        }
    }

    /// Starts the first generation of these apps.
    fn begin(&mut self, apps: Vec<AppSpec>) {
        let now = now();
        for spec in apps {
            self.current.insert(spec.name.clone(), FIRST_GENERATION);
            self.add(spec, Phase::First, false, now);
        }
    }

    /// Reports the apps that have become ready to the processes that may wait for them.
    fn report_ready(&mut self) {
        for (app, &generation) in &self.current {
            let is_ready = self.running.get(&(app.clone(), generation)).is_some_and(|running| {
                *running.machine.phase() == Phase::Serving && running.machine.is_settled()
            });
            if is_ready
                && !self.ready_apps.contains(app)
                && let Some(processes) = self.to_processes.upgrade()
            {
                self.ready_apps.insert(app.clone());
                // An error: the processes have been stopped.
                let _ = processes.send(ProcessCommand::SetReady(Dependency::App(app.clone())));
            }
        }
    }

    fn add(&mut self, spec: AppSpec, phase: Phase, hurry: bool, now: Instant) {
        let key = (spec.name.clone(), self.generation);
        let around = GenerationContext { seed: random(), cores: self.cores, hurry };
        let mut running = RunningGeneration::new(spec, self.generation, phase, around, now);
        // It only begins: nothing can have been given up.
        let _ = running.drive(&self.context, now);
        self.running.insert(key, running);
    }

    fn reply_first(&mut self) {
        let FirstBoot { over, failures, waiters } = &mut self.first;
        let awaited = |running: &RunningGeneration| match running.machine.phase() {
            Phase::First => true,
            Phase::Failed(_) => false,
            _ => !running.machine.is_settled(),
        };
        *over = *over || self.stopping.is_some() || !self.running.values().any(awaited);
        if *over {
            for waiter in waiters.drain(..) {
                // Somebody who does not wait any more.
                let _ = waiter.send(failures.clone());
            }
        }
    }

    fn stop(&mut self, grace: Duration) {
        let now = now();
        for awaited in self.running.values().filter(|running| *running.machine.phase() == Phase::First) {
            let number = awaited.machine.awaited().unwrap_or(0);
            self.first.failures.push(stopped(awaited.spec.name.clone(), number));
        }
        if let Some(trial) = &self.trial {
            let awaited = trial.apps.iter().find_map(|app| {
                Some((app.clone(), self.running.get(&(app.clone(), trial.generation))?.machine.awaited()?))
            });
            let (app, number) = awaited.unwrap_or_else(|| (Arc::from(""), 0));
            self.end_trial(stopped(app, number));
        }
        self.stopping.get_or_insert_default();
        self.current.clear();
        for running in self.running.values_mut() {
            running.machine.retire(grace, None, now);
        }
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some() && self.running.is_empty()
    }
}

fn stopped(app: Arc<str>, worker: u32) -> StartFailure {
    let reason = "was not ready when Keepwarm was stopped".to_owned();
    StartFailure { app, worker, reason, exit: None, stderr: Vec::new() }
}

/// What was missed is not made up for.
pub(super) fn interval(every: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

pub(super) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// The runtime's clock, which a test can pause.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(not(feature = "simulation"))]
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(feature = "simulation")]
pub(super) use super::simulation::{cores, random};

/// Good enough for jitter: the standard library seeds each state from the system.
#[cfg(not(feature = "simulation"))]
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
