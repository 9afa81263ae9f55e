//! Simulated processes (`keepwarm_net::simulation`): with its feature this module replaces `reap` and the spawner
//! thread. A process is a script of the world, which receives signals, holds the worker's end of the wire, and decides how it ends. There is no guardian: it
//! acts only when Keepwarm itself is gone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use keepwarm_net::simulation::{Peer, Rng, pair};
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, WeakUnboundedSender};
use tokio::sync::{oneshot, watch};

use super::spawn::{Launch, Program, SpawnedProcess, Spawner, SpawnerCommand, WorkerConnection, WorkerPipes};
use super::template::TemplateReaper;
use super::{Exit, Options};

/// Above all ids that a kernel assigns: no lookup finds such a process on this machine.
const FIRST_PID: u32 = 5_000_000;
/// The spawner starts one process at a time.
const SLOWEST_START: usize = 20;

/// A worker's process, as its script sees it. Dropped, it has exited with status 0, unless it ended before.
#[derive(Debug)]
pub struct Process {
    /// Its app.
    pub app: Arc<str>,
    /// Its place among the app's workers.
    pub number: u32,
    /// Its id, unique in the simulation.
    pub pid: u32,
    /// The command of the worker.
    pub command: Vec<OsString>,
    /// Its end of the wire.
    pub wire: Rc<Peer>,
    /// Signals other than SIGKILL.
    pub signals: UnboundedReceiver<i32>,
    end: ProcessEnd,
}

/// Ends a simulated process.
#[derive(Debug, Clone)]
pub struct ProcessEnd(Arc<watch::Sender<Option<Exit>>>);

impl Process {
    /// To be used where the rest of it is borrowed, or gone.
    #[must_use]
    pub fn end(&self) -> ProcessEnd {
        self.end.clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end.exit(Exit::Status(0));
    }
}

impl ProcessEnd {
    /// It ends like this, unless it has.
    pub fn exit(&self, exit: Exit) {
        self.0.send_if_modified(|end| end.is_none() && end.replace(exit).is_none());
    }

    /// Waits until it has ended.
    pub async fn ended(&self) -> Exit {
        match self.0.subscribe().wait_for(Option::is_some).await.map(|end| *end) {
            Ok(Some(exit)) => exit,
            // Not possible: a sender is here.
            _ => Exit::Unknown,
        }
    }
}

/// The script that every simulated process runs.
type StartScript = Rc<dyn Fn(Process) -> io::Result<()>>;

struct World {
    rng: Rng,
    start: Option<StartScript>,
    /// Those that were started and not reaped.
    processes: BTreeMap<u32, (UnboundedSender<i32>, ProcessEnd)>,
    next: u32,
}

thread_local! {
    static WORLD: RefCell<World> =
        RefCell::new(World { rng: Rng::new(0), start: None, processes: BTreeMap::new(), next: FIRST_PID });
}

/// Begins a world of this thread, whose processes `start` runs. An error of it: nothing was started.
pub fn begin(seed: u64, start: impl Fn(Process) -> io::Result<()> + 'static) {
    let start: StartScript = Rc::new(start);
    let world =
        World { rng: Rng::new(seed), start: Some(start), processes: BTreeMap::new(), next: FIRST_PID };
    drop(WORLD.replace(world));
}

/// Processes that were not reaped.
#[must_use]
pub fn processes() -> usize {
    WORLD.with_borrow(|world| world.processes.len())
}

pub(super) fn random() -> u64 {
    WORLD.with_borrow_mut(|world| world.rng.next())
}

pub(super) fn cores() -> usize {
    2
}

/// What stands for the spawner thread.
pub(super) fn start(_: &Options) -> io::Result<Spawner> {
    let (orders, mut receiver) = mpsc::unbounded_channel();
    let (ending, ended) = oneshot::channel();
    tokio::spawn(async move {
        while let Some(order) = receiver.recv().await {
            if let SpawnerCommand::Spawn(launch, reply) = order {
                let takes = WORLD.with_borrow_mut(|world| world.rng.below(SLOWEST_START)) as u64;
                tokio::time::sleep(Duration::from_millis(takes)).await;
                reply(spawn(&launch));
            }
        }
        // An error: nobody waits for the end of a supervisor that was dropped.
        let _ = ending.send(());
    });
    Ok(Spawner { orders, ended, guardian: nothing()? })
}

fn spawn(launch: &Launch) -> io::Result<SpawnedProcess> {
    let Program::Worker(spec) = &launch.program else {
        return Err(io::Error::other("the simulation has workers only"));
    };
    let (ours, theirs) = pair(true);
    let (signals, heard) = mpsc::unbounded_channel();
    let end = ProcessEnd(Arc::new(watch::Sender::new(None)));
    let (start, pid) = WORLD.with_borrow_mut(|world| {
        world.next += 1;
        world.processes.insert(world.next, (signals, end.clone()));
        (world.start.clone(), world.next)
    });
    let process = Process {
        app: Arc::clone(&spec.name),
        number: launch.number,
        pid,
        command: spec.command.clone(),
        wire: Rc::new(theirs),
        signals: heard,
        end,
    };
    let started = match start {
        Some(start) => start(process),
        None => Err(io::Error::other("no world was begun")),
    };
    if let Err(error) = started {
        forget(pid);
        return Err(error);
    }
    let id = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    let pipes = WorkerPipes { stdout: nothing()?, stderr: nothing()? };
    Ok(SpawnedProcess {
        pid: id,
        pidfd: nothing()?,
        line: WorkerConnection::Simulated(ours),
        pipes,
        parent: None,
    })
}

/// A descriptor where one has to be.
fn nothing() -> io::Result<OwnedFd> {
    Ok(File::open("/dev/null")?.into())
}

fn forget(pid: u32) {
    let gone = WORLD.with_borrow_mut(|world| world.processes.remove(&pid));
    drop(gone);
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}

/// As the real one.
pub(super) async fn reap(
    pid: Pid,
    _: Arc<OwnedFd>,
    orders: WeakUnboundedSender<SpawnerCommand>,
    _: Option<TemplateReaper>,
    _: &AtomicBool,
) -> Exit {
    let end = WORLD.with_borrow(|world| Some(world.processes.get(&number(pid))?.1.clone()));
    let Some(end) = end else { return Exit::Unknown };
    let exit = end.ended().await;
    forget(number(pid));
    if let Some(orders) = orders.upgrade() {
        // An error: the spawner has ended.
        let _ = orders.send(SpawnerCommand::Forget(pid));
    }
    exit
}

/// SIGKILL ends the process, whatever its script does; the script receives all others.
pub(super) fn send_signal(pid: Pid, _: impl AsFd, signal: Signal) {
    let process = WORLD.with_borrow(|world| world.processes.get(&number(pid)).cloned());
    let Some((signals, end)) = process else { return };
    match signal {
        Signal::KILL => end.exit(Exit::Signal { number: signal.as_raw(), core_dumped: false }),
        // An error: it has ended.
        other => drop(signals.send(other.as_raw())),
    }
}

/// The guardian does not end.
pub(super) async fn wait_exited(_: Arc<OwnedFd>) -> Arc<OwnedFd> {
    std::future::pending().await
}
