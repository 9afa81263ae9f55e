//! Workers as processes: how each begins, lives and ends stands in its plan, and in the command that it was started with.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::Rng;
use keepwarm_workers::supervisor::Exit;
use keepwarm_workers::supervisor::simulation::{Process, ProcessEnd};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Operation;
use crate::worker::{self, Observations, Responses};

/// How processes of one plan live, whatever they were started for.
#[derive(Debug, Clone)]
pub(super) struct ProcessPlan {
    pub(super) boot: Duration,
    pub(super) ignores_term: bool,
    /// How long it takes to exit once there is nothing more to do; `None`: it never does.
    pub(super) exits_after: Option<Duration>,
    /// It crashes this long after its start.
    pub(super) crashes: Option<Duration>,
}

impl ProcessPlan {
    pub(super) fn draw(rng: &mut Rng, clean: bool) -> Self {
        Self {
            boot: Duration::from_millis(*rng.pick(&[0, 1, 20, 300])),
            ignores_term: rng.chance(200),
            exits_after: (!rng.chance(100)).then(|| Duration::from_millis(*rng.pick(&[0, 0, 5, 200]))),
            crashes: (!clean && rng.chance(300)).then(|| Duration::from_millis(rng.size(2000) as u64)),
        }
    }
}

/// The result of starting the workers of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BootOutcome {
    Good,
    /// All, or the first one, exit with status 1 while they load.
    Exits,
    OneExits,
    /// Killed by a signal while they load.
    Crashes,
    /// They never get ready.
    Hangs,
    /// They cannot be started.
    NotStarted,
}

impl BootOutcome {
    pub(super) const ALL: [Self; 6] =
        [Self::Good, Self::Exits, Self::OneExits, Self::Crashes, Self::Hangs, Self::NotStarted];
}

/// All processes of a world.
pub(super) struct Processes {
    pub(super) plan: Rc<Operation>,
    pub(super) seen: Rc<RefCell<Observations>>,
    /// Those that may be running.
    pub(super) running: RefCell<Vec<ProcessEnd>>,
    /// The generation of each version of the app, once a reload has reported it.
    pub(super) generations: RefCell<BTreeMap<usize, u64>>,
    /// The one that serves, and that served when each request was begun.
    pub(super) serving: Cell<u64>,
    pub(super) floors: RefCell<BTreeMap<u64, u64>>,
    /// Where was listened, one after the other, and until when.
    pub(super) addresses: RefCell<Vec<(SocketAddr, Option<Instant>)>>,
}

impl Processes {
    /// Starts a process for the supervisor.
    pub(super) fn start(self: &Rc<Self>, process: Process) -> io::Result<()> {
        let argument = |at: usize| process.command.get(at).and_then(|it| it.to_str()?.parse::<usize>().ok());
        let (Some(outcome), Some(version)) = (argument(1), argument(2)) else {
            panic!("a command nobody gave: {:?}", process.command)
        };
        let outcome = BootOutcome::ALL[outcome];
        if outcome == BootOutcome::NotStarted {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.running.borrow_mut().push(process.end());
        tokio::task::spawn_local(Rc::clone(self).live(process, outcome, version));
        Ok(())
    }

    /// Where is listened.
    pub(super) fn address(&self) -> SocketAddr {
        self.addresses.borrow().last().expect("the first").0
    }

    /// An address that is not in use.
    pub(super) fn next_address(&self) -> SocketAddr {
        let mut next = self.address();
        next.set_port(next.port() + 1);
        next
    }

    /// From now on is listened there.
    pub(super) fn move_to(&self, address: Option<SocketAddr>) {
        let mut addresses = self.addresses.borrow_mut();
        if let Some((_, left)) = addresses.last_mut() {
            *left = Some(Instant::now());
        }
        addresses.push((address.expect("it is TCP"), None));
    }

    /// When the last listener there closed.
    pub(super) fn left(&self, address: SocketAddr) -> Option<Instant> {
        self.addresses.borrow().iter().find(|(at, _)| *at == address).and_then(|(_, left)| *left)
    }

    /// Kills one that runs, like the kernel when memory is short.
    pub(super) fn kill(&self, which: usize) {
        let mut running = self.running.borrow_mut();
        if !running.is_empty() {
            let at = which % running.len();
            running.swap_remove(at).exit(Exit::Signal { number: 9, core_dumped: false });
        }
    }

    async fn live(self: Rc<Self>, mut process: Process, outcome: BootOutcome, version: usize) {
        let plans = &self.plan.processes;
        let plan = plans[process.pid as usize % plans.len()].clone();
        let end = process.end();
        let killed = Rc::new(Notify::new());
        let serves = worker::run(
            Rc::clone(&process.wire),
            self.plan.worker.clone(),
            self.responses(outcome, version),
            Rc::clone(&self.seen),
            Rc::clone(&killed),
        );
        let mut serves = std::pin::pin!(serves);
        let (first, served) = (process.number == 1, Cell::new(false));
        let life = async {
            tokio::time::sleep(plan.boot).await;
            match outcome {
                BootOutcome::Exits => return end.exit(Exit::Status(1)),
                BootOutcome::OneExits if first => return end.exit(Exit::Status(1)),
                BootOutcome::Crashes => return end.exit(Exit::Signal { number: 11, core_dumped: false }),
                BootOutcome::Hangs => return std::future::pending().await,
                BootOutcome::Good | BootOutcome::OneExits | BootOutcome::NotStarted => serves.as_mut().await,
            }
            served.set(true);
            match plan.exits_after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        let crashes = async {
            match plan.crashes {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = end.ended() => {}
            () = life => {}
            () = terminated(&mut process, &plan) => end.exit(Exit::Signal { number: 15, core_dumped: false }),
            () = crashes => end.exit(Exit::Signal { number: 11, core_dumped: false }),
        }
        // Where it serves, what it has begun ends with it.
        killed.notify_one();
        if !served.get() {
            serves.await;
        }
    }

    fn responses(self: &Rc<Self>, outcome: BootOutcome, version: usize) -> Responses {
        let this = Rc::clone(self);
        Rc::new(move |path| {
            let (id, plan) = this.plan.response(path)?;
            assert!(outcome == BootOutcome::Good, "{id:x} was given to a worker of a reload that fails");
            let floor = this.floors.borrow().get(&id).copied().unwrap_or(0);
            // A new one serves a moment before the reload says so. Where all of it has died, an old one that still finishes takes what waits.
            let generation = this.generations.borrow().get(&version).copied().unwrap_or(u64::MAX);
            assert!(
                generation >= floor || !this.plan.clean,
                "{id:x} was given to generation {generation}, it began when {floor} served"
            );
            Some((id, plan))
        })
    }
}

/// Waits for SIGTERM, where that ends it. SIGQUIT shows a stack.
async fn terminated(process: &mut Process, plan: &ProcessPlan) {
    while let Some(signal) = process.signals.recv().await {
        if signal == 15 && !plan.ignores_term {
            return;
        }
    }
    std::future::pending().await
}
