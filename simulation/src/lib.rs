//! Runs worlds from seeds, finds the ones that fail, and makes their plans small. A library, so that the program and the named conversations share one build.

mod client;
mod coding;
mod compression;
pub mod conversations;
mod door;
mod fastcgi;
mod frames;
mod front;
mod http2;
mod http2_client;
mod http2_origin;
mod line;
mod listener;
mod memory;
mod operation;
mod origin;
mod outbox;
mod pattern;
mod pipe;
mod plan;
mod progress;
mod proxy_header;
mod relay;
mod response;
mod run;
mod shrink;
mod site;
mod sizes;
mod subrequest;
mod tls;
mod transport;
mod tunnel;
mod upstream;
mod watchdog;
mod websocket;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use keepwarm_net::simulation::Totals;

use crate::run::{Scenario, play};

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

/// Run Keepwarm's byte-moving parts in virtual time
///
/// Each seed makes a plan: clients, workers and servers, what they send, how much a pipe holds, what fails. A seed that fails is printed with its plan made as
/// small as it gets; `--world NAME --seed N` replays it.
#[derive(Parser, Debug)]
#[command(name = "simulate", max_term_width = 120)]
pub struct Options {
    /// How many to run in all, of each world as many
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed of each world
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Replay this one seed (of --world, or of each), and print its plan
    #[arg(long)]
    seed: Option<u64>,
    /// Only this world
    #[arg(long)]
    world: Option<String>,
    /// Keep going after a failure, up to this many
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Play each seed twice: one that takes another course the second time cannot be replayed, and fails
    #[arg(long)]
    twice: bool,
    /// Do not make failing plans small
    #[arg(long)]
    whole: bool,
    /// Threads; each runs seeds of its own
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

/// What the program does.
pub fn simulate(options: &Options) -> ExitCode {
    run::prepare();
    let worlds: Vec<&run::World> = run::WORLDS
        .iter()
        .filter(|world| options.world.as_deref().is_none_or(|name| name == world.name))
        .collect();
    if worlds.is_empty() {
        let names: Vec<&str> = run::WORLDS.iter().map(|world| world.name).collect();
        eprintln!("simulate: no such world; there are: {}", names.join(", "));
        return ExitCode::from(2);
    }
    match run::run_all(options, &worlds) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// One seed of a scenario: what its world came to, or the smallest plan that fails like it.
fn examine<S: Scenario>(seed: u64, options: &Options) -> Result<Totals, String> {
    let plan = S::generate(seed);
    if options.seed.is_some() {
        println!("{plan:#?}");
    }
    let failure = match play(seed, &plan) {
        Ok(totals) => return Ok(totals),
        Err(failure) => failure,
    };
    let (plan, failure) = match options.whole {
        true => (plan, failure),
        false => shrink::shrink(seed, plan, failure),
    };
    Err(format!("{failure}\n{plan:?}"))
}
