//! The task that owns all state of the supervisor, on the control thread's runtime. Everything reaches it as an event; it
//! sleeps until one comes or a deadline is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::app::Phase;
use super::guardian_watch::GuardianWatch;
use super::output::Output;
use super::running::{Context, GivenUp, ProcessEvent, Running};
use super::spawn::{self, Order};
use super::{AppSpec, FailedApp, LinkEvent, Options, ReloadReport, Snapshot, StartFailure, WorkerLinks};

/// What the handle asks for, with the place for the answer.
pub(super) enum Command {
    WaitFirstReady(oneshot::Sender<Result<(), StartFailure>>),
    Reload(Vec<AppSpec>, oneshot::Sender<Result<ReloadReport, StartFailure>>),
    Recycle(Box<AppSpec>, oneshot::Sender<Result<ReloadReport, StartFailure>>),
    /// Passed on to the thread that speaks to the guardian.
    Order(Order),
    Stop(Duration, oneshot::Sender<()>),
    Snapshot(oneshot::Sender<Snapshot>),
}

/// Starts the two threads, the guardian and the task.
pub(super) async fn start(
    apps: Vec<AppSpec>,
    links: Arc<dyn WorkerLinks>,
    options: Options,
    commands: mpsc::UnboundedReceiver<Command>,
) -> io::Result<()> {
    check(&apps).map_err(|failure| io::Error::new(io::ErrorKind::InvalidInput, failure.to_string()))?;
    let spawner = spawn::start(options.executable).await?;
    let (link_events, from_links) = mpsc::unbounded_channel();
    let (events, from_processes) = mpsc::unbounded_channel();
    let context = Context { links, link_events, events, orders: spawner.orders, output: Output::start()? };
    let mut control = Control {
        context,
        generation: FIRST_GENERATION,
        running: BTreeMap::new(),
        current: BTreeMap::new(),
        trial: None,
        queue: VecDeque::new(),
        first: First::default(),
        stopping: None,
    };
    let now = now();
    for spec in apps {
        control.current.insert(spec.name.clone(), FIRST_GENERATION);
        control.add(spec, Phase::First, now);
    }
    let inputs =
        Inputs { commands, from_links, from_processes, guardian: GuardianWatch::new(spawner.guardian) };
    tokio::spawn(control.run(inputs, spawner.ended));
    Ok(())
}

const FIRST_GENERATION: u64 = 1;

struct Control {
    context: Context,
    /// The youngest generation.
    generation: u64,
    /// All that have a process, and the current ones that have none.
    running: BTreeMap<(Arc<str>, u64), Running>,
    /// The generation of each app that is the app.
    current: BTreeMap<Arc<str>, u64>,
    trial: Option<Trial>,
    /// Reloads that wait for their turn.
    queue: VecDeque<Asked>,
    first: First,
    /// Those who wait for the end. `Some`: nothing new is started.
    stopping: Option<Vec<oneshot::Sender<()>>>,
}

/// A reload that somebody asked for.
struct Asked {
    apps: Vec<AppSpec>,
    extent: Extent,
    reply: oneshot::Sender<Result<ReloadReport, StartFailure>>,
    at: Instant,
}

/// What becomes of the apps that a reload does not name.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Extent {
    /// They end: the reload names all that is to run.
    All,
    /// They go on.
    These,
}

/// The reload that is under way.
struct Trial {
    generation: u64,
    apps: BTreeSet<Arc<str>>,
    extent: Extent,
    reply: oneshot::Sender<Result<ReloadReport, StartFailure>>,
    asked: Instant,
}

/// The first boot of all apps.
#[derive(Default)]
struct First {
    failure: Option<StartFailure>,
    waiters: Vec<oneshot::Sender<Result<(), StartFailure>>>,
}

struct Inputs {
    commands: mpsc::UnboundedReceiver<Command>,
    from_links: mpsc::UnboundedReceiver<LinkEvent>,
    from_processes: mpsc::UnboundedReceiver<ProcessEvent>,
    guardian: GuardianWatch,
}

impl Control {
    async fn run(mut self, mut inputs: Inputs, ended: oneshot::Receiver<()>) {
        self.drive(now());
        while !self.is_over() {
            let timeout = self.running.values().filter_map(|running| running.machine.poll_timeout()).min();
            tokio::select! {
                command = inputs.commands.recv(), if !inputs.commands.is_closed() || !inputs.commands.is_empty() => {
                    self.handle_command(command);
                }
                Some(event) = inputs.from_links.recv() => self.handle_link(&event),
                Some(event) = inputs.from_processes.recv() => self.handle_process(event),
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
            Some(Command::WaitFirstReady(reply)) => self.first.waiters.push(reply),
            Some(Command::Reload(apps, reply)) => {
                self.queue.push_back(Asked { apps, extent: Extent::All, reply, at: now() });
            }
            Some(Command::Recycle(app, reply)) => {
                self.queue.push_back(Asked { apps: vec![*app], extent: Extent::These, reply, at: now() });
            }
            Some(Command::Order(order)) => {
                // The thread ends only after the last clone of `orders`.
                let _ = self.context.orders.send(order);
            }
            Some(Command::Snapshot(reply)) => drop(reply.send(self.snapshot())),
            Some(Command::Stop(grace, reply)) => {
                self.stop(grace);
                self.stopping.get_or_insert_default().push(reply);
            }
            None => self.stop(Duration::ZERO),
        }
    }

    fn handle_link(&mut self, event: &LinkEvent) {
        let worker = event.worker();
        if let Some(running) = self.running.get_mut(&(worker.app.clone(), worker.generation)) {
            running.handle_link(event, now());
        }
    }

    fn handle_process(&mut self, event: ProcessEvent) {
        let ProcessEvent { app, generation, id, what } = event;
        let Some(running) = self.running.get_mut(&(app.clone(), generation)) else { return };
        if let Some(given_up) = running.handle_process(id, what, &self.context, now(), random()) {
            self.handle_given_up(&app, generation, given_up);
        }
    }

    fn handle_given_up(&mut self, app: &Arc<str>, generation: u64, given_up: GivenUp) {
        let GivenUp { number, reason, exit, kept, source } = given_up;
        let is_trial = self.trial.as_ref().is_some_and(|trial| trial.generation == generation);
        let is_first_failure = generation == FIRST_GENERATION && self.first.failure.is_none();
        if !is_trial
            && !is_first_failure
            && let Some(source) = source
        {
            kept.release(&source);
        }
        let told = format!("worker {number} {reason}");
        let failure =
            StartFailure { app: app.clone(), worker: number, reason, exit, stderr: kept.take_bytes() };
        if is_trial {
            self.end_trial(failure);
        } else if self.current.get(app) == Some(&generation) {
            self.context.links.set_failed(app, Some(told));
            if is_first_failure {
                self.first.failure = Some(failure);
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
        self.answer_first();
        let current = &self.current;
        self.running.retain(|(app, generation), running| {
            !running.machine.is_over() || current.get(app) == Some(generation)
        });
    }

    fn add(&mut self, spec: AppSpec, phase: Phase, now: Instant) {
        let key = (spec.name.clone(), self.generation);
        let mut running = Running::new(spec, self.generation, phase, now);
        // It only begins: nothing can have been given up.
        let _ = running.drive(&self.context, now);
        self.running.insert(key, running);
    }

    fn start_trial(&mut self, now: Instant) {
        while self.trial.is_none()
            && let Some(Asked { apps, extent, reply, at }) = self.queue.pop_front()
        {
            let refused = if self.stopping.is_some() { Err(stopped(Arc::from(""), 0)) } else { check(&apps) };
            if let Err(failure) = refused {
                // Whoever asked has gone: the log has it.
                let _ = reply.send(Err(failure));
                continue;
            }
            self.generation += 1;
            let names = apps.iter().map(|spec| spec.name.clone()).collect();
            self.trial = Some(Trial { generation: self.generation, apps: names, extent, reply, asked: at });
            for spec in apps {
                self.add(spec, Phase::Trial, now);
            }
            self.finish_trial(now);
        }
    }

    /// When every new worker is ready, the new generation is the current one.
    fn finish_trial(&mut self, now: Instant) {
        let Some(trial) = &self.trial else { return };
        let ready = |app: &Arc<str>| {
            self.running
                .get(&(app.clone(), trial.generation))
                .is_some_and(|running| running.machine.all_ready())
        };
        if !trial.apps.iter().all(ready) {
            return;
        }
        let Some(Trial { generation, apps, extent, reply, asked }) = self.trial.take() else { return };
        // Before the old generation is retired: at every moment somebody takes requests.
        self.context.links.promote(generation);
        let mut old = std::mem::take(&mut self.current);
        if extent == Extent::These {
            self.current = old.extract_if(.., |app, _| !apps.contains(app)).collect();
        }
        self.current.extend(apps.iter().map(|app| (app.clone(), generation)));
        for app in &apps {
            if let Some(running) = self.running.get_mut(&(app.clone(), generation)) {
                running.machine.commit();
            }
        }
        for key in &old {
            self.context.links.set_failed(key.0, None);
        }
        let removed = old.keys().filter(|app| !apps.contains(*app)).cloned().collect();
        for key in old {
            if let Some(running) = self.running.get_mut(&key) {
                running.machine.retire(Duration::MAX, now);
                let _ = running.drive(&self.context, now);
            }
        }
        let apps = apps.into_iter().collect();
        let report = ReloadReport { generation, apps, removed, took: now.saturating_duration_since(asked) };
        tracing::info!(
            target: "keepwarm::supervisor",
            generation, took_ms = report.took.as_millis(), "reloaded: the new workers serve, the old ones finish"
        );
        let _ = reply.send(Ok(report));
    }

    /// The new generation goes, the old one stays.
    fn end_trial(&mut self, failure: StartFailure) {
        let Some(Trial { generation, apps, reply, .. }) = self.trial.take() else { return };
        tracing::error!(
            target: "keepwarm::supervisor",
            app = %failure.app, generation, "not reloaded, what ran before goes on: {failure}"
        );
        let now = now();
        for app in apps {
            if let Some(running) = self.running.get_mut(&(app, generation)) {
                running.machine.retire(Duration::MAX, now);
            }
        }
        let _ = reply.send(Err(failure));
    }

    fn answer_first(&mut self) {
        if self.first.waiters.is_empty() {
            return;
        }
        let awaited = self.running.values().find(|running| {
            *running.machine.phase() == Phase::First
                || self.stopping.is_none() && !running.machine.is_settled()
        });
        let answer = match (&self.first.failure, awaited) {
            (Some(failure), _) => Err(failure.clone()),
            (None, None) if self.stopping.is_none() => Ok(()),
            (None, None) => Err(stopped(Arc::from(""), 0)),
            (None, Some(_)) => return,
        };
        for waiter in self.first.waiters.drain(..) {
            // Somebody who does not wait any more.
            let _ = waiter.send(answer.clone());
        }
    }

    fn stop(&mut self, grace: Duration) {
        let now = now();
        if let Some(awaited) = self.running.values().find(|running| *running.machine.phase() == Phase::First)
            && self.first.failure.is_none()
        {
            let number = awaited.machine.awaited().unwrap_or(0);
            self.first.failure = Some(stopped(awaited.spec.name.clone(), number));
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
            running.machine.retire(grace, now);
        }
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some() && self.running.is_empty()
    }

    fn snapshot(&self) -> Snapshot {
        let failed = self.current.iter().filter_map(|(app, &generation)| {
            let running = self.running.get(&(app.clone(), generation))?;
            let Phase::Failed(reason) = running.machine.phase() else { return None };
            Some(FailedApp { app: app.clone(), reason: reason.clone() })
        });
        Snapshot {
            workers: self.running.values().flat_map(Running::snapshot).collect(),
            failed: failed.collect(),
        }
    }
}

/// What cannot be started whatever the workers do.
fn check(apps: &[AppSpec]) -> Result<(), StartFailure> {
    let mut names = BTreeSet::new();
    for spec in apps {
        let reason = if spec.command.is_empty() {
            "it has no command"
        } else if !names.insert(&spec.name) {
            "another app has the same name"
        } else {
            continue;
        };
        let (app, reason) = (spec.name.clone(), reason.to_owned());
        return Err(StartFailure { app, worker: 0, reason, exit: None, stderr: Vec::new() });
    }
    Ok(())
}

fn stopped(app: Arc<str>, worker: u32) -> StartFailure {
    let reason = "was not ready when Keepwarm was stopped".to_owned();
    StartFailure { app, worker, reason, exit: None, stderr: Vec::new() }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// The runtime's clock, which a test can pause.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Good enough for jitter: the standard library seeds each state from the system.
pub(super) fn random() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
