//! One world from its plan: a runtime in virtual time, the bound on it, and what has to hold at its end.

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keepwarm_net::simulation::{self, Reactor, Settings, Totals};
use tokio::runtime::{Builder, LocalOptions, RngSeed};

use crate::{
    Options, compression, door, examine, front, http2, listener, memory, operation, progress, relay,
    subrequest, upstream, watchdog, websocket,
};

#[cfg(not(tokio_unstable))]
compile_error!(
    "tokio takes a seed only with `--cfg tokio_unstable`: build in `simulation/`, whose `.cargo/config.toml` sets it, without RUSTFLAGS"
);

/// A kind of world: how a plan is made from a seed, played, and made smaller.
pub(crate) trait Scenario: Clone + Debug + Send + 'static {
    /// The plan of a seed.
    fn generate(seed: u64) -> Self;

    /// How the sockets behave.
    fn settings(&self) -> Settings;

    /// The virtual time that all of it may take.
    fn bound(&self) -> Duration;

    /// The memory that it may use above that at its beginning, in bytes.
    fn memory(&self) -> usize;

    /// Plays it. A broken rule panics.
    fn play(self: Rc<Self>) -> impl Future<Output = ()>;

    /// Plans with less in them.
    fn smaller(&self) -> Vec<Self>;
}

/// A scenario by its name.
pub(crate) struct World {
    pub(crate) name: &'static str,
    examine: fn(u64, &Options) -> Result<Totals, String>,
}

/// Every one there is.
pub(crate) static WORLDS: &[World] = &[
    World { name: "front", examine: examine::<front::Front> },
    World { name: "door", examine: examine::<door::Door> },
    World { name: "websocket", examine: examine::<websocket::WebSocket> },
    World { name: "operation", examine: examine::<operation::Operation> },
    World { name: "relay", examine: examine::<relay::Relay> },
    World { name: "http2", examine: examine::<http2::Http2> },
    World { name: "upstream", examine: examine::<upstream::Upstream> },
    World { name: "listener", examine: examine::<listener::Listener> },
    World { name: "compression", examine: examine::<compression::Compression> },
    World { name: "subrequest", examine: examine::<subrequest::Subrequest> },
];

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// To be called before worlds are played.
pub(crate) fn prepare() {
    catch_panics();
    keepwarm_telemetry::per_thread::set_threads(3);
}

/// Keeps the first panic of each thread, also of tasks that the runtime would hush up.
fn catch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let text = format!("{info}");
        let _ = PANIC.try_with(|panic| {
            panic.borrow_mut().get_or_insert(text);
        });
        if std::env::var_os("SIMULATION_BACKTRACE").is_some() {
            eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        }
    }));
}

/// Plays one plan, and returns the totals of its world. The failure is one sentence.
pub(crate) fn play<S: Scenario>(seed: u64, plan: &S) -> Result<Totals, String> {
    PANIC.take();
    watchdog::begin(seed);
    simulation::reset(seed, plan.settings());
    progress::reset();
    let before = memory::in_use().0;
    memory::reset_peak();
    let plan = Rc::new(plan.clone());
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| played(seed, Rc::clone(&plan))));
    if let Some(panic) = PANIC.take() {
        return Err(panic);
    }
    let totals = result.map_err(|_| "a panic that nobody saw".to_owned())??;
    let peak = usize::try_from(memory::in_use().1 - before).unwrap_or(0);
    if peak > plan.memory() {
        return Err(format!("memory: {peak} bytes at most, {} are allowed", plan.memory()));
    }
    Ok(totals)
}

fn played<S: Scenario>(seed: u64, plan: Rc<S>) -> Result<Totals, String> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
        .build_local(LocalOptions::default())
        .map_err(|error| error.to_string())?;
    let jump = plan.settings().jump;
    let bound = plan.bound() + jump.map_or(Duration::ZERO, |(_, by)| by);
    runtime.block_on(async move {
        tokio::task::spawn_local(Reactor::default());
        if let Some((after, by)) = jump {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(after).await;
                tokio::time::advance(by).await;
            });
        }
        let all = tokio::task::spawn_local(plan.play());
        match tokio::time::timeout(bound, all).await {
            // Taken before the runtime drops the tasks that are left, in an order of its own.
            Ok(over) => over.map(|()| simulation::totals()).map_err(|error| error.to_string()),
            Err(_) => Err(format!("stall: not over after {bound:?}\n{}", simulation::describe())),
        }
    })
}

/// A thread for each world: nothing of one stays in a thread-local for the next.
fn on_threads_of_its_own(
    world: &World,
    seed: u64,
    options: &Options,
    progress: &'static watchdog::Progress,
) -> Result<(), String> {
    let examine = || {
        let examined = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    progress.listen();
                    (world.examine)(seed, options)
                })
                .join()
        });
        examined.unwrap_or_else(|_| Err("the runner itself panicked".to_owned()))
    };
    let totals = examine()?;
    match options.twice.then(examine).transpose()? {
        Some(again) if again != totals => Err(format!("replay: first {totals:?}, then {again:?}")),
        _ => Ok(()),
    }
}

/// Runs what the options select: of each world the seeds from the first on, in turn. Returns the number of failures.
pub(crate) fn run_all(options: &Options, worlds: &[&World]) -> usize {
    let begun = Instant::now();
    let (next, over) = (AtomicU64::new(0), AtomicU64::new(0));
    let each = worlds.len() as u64;
    let (first, end) = match options.seed {
        Some(seed) => (seed, each),
        None => (options.from, options.seeds),
    };
    let failures = Mutex::new(Vec::new());
    let threads: &'static [watchdog::Progress] =
        (0..options.threads).map(|_| watchdog::Progress::default()).collect::<Vec<_>>().leak();
    std::thread::scope(|scope| {
        for progress in threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let full = failures.lock().is_ok_and(|all| all.len() >= options.failures);
                    if number >= end || full {
                        break;
                    }
                    let (world, seed) = (worlds[(number % each) as usize], first + number / each);
                    if let Err(failure) = on_threads_of_its_own(world, seed, options, progress) {
                        println!("seed {seed} of world {}: {failure}\n", world.name);
                        if let Ok(mut all) = failures.lock() {
                            all.push(format!("--world {} --seed {seed}", world.name));
                        }
                    }
                }
                over.fetch_add(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| watchdog::watch(threads, &over));
    });
    let failed = failures.into_inner().unwrap_or_default();
    let count = next.load(Ordering::Relaxed).min(end);
    println!("{} passed, {} failed", count - failed.len() as u64, failed.len());
    eprintln!("simulation: {count} seeds in {:.1} s", begun.elapsed().as_secs_f64());
    failed.iter().for_each(|replay| eprintln!("replay: simulation/run {replay}"));
    failed.len()
}
