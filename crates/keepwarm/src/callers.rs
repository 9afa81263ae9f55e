//! Finds the workers behind connections to doors, so that calls without a request id are of the request that their worker has.
//!
//! For a connection over TCP, the kernel gives the inode of the caller's socket, and `/proc` the sockets of each worker and of the processes that it has
//! started. What that costs depends on the number of workers and of their descriptors: some 30 µs for each. So there are looks from time to time, each for
//! all connections that wait, with pauses that keep them below 1 % of a processor: with few workers a call of some milliseconds is found, with 2,000 one of
//! some seconds. A Unix socket tells the process; if that is not a worker, `/proc` has its parents.

mod sockets;

use std::collections::{HashMap, VecDeque};
use std::iter::successors;
use std::time::Duration;

use keepwarm_egress::{CallerEnd, UnnamedCaller, UnnamedCallers};
use keepwarm_net::{restarted, thread_time};
use keepwarm_telemetry::timelines::{is_worker, worker_processes};
use keepwarm_workers::supervisor::{listed_children, parent};
use tokio::time::Instant;

use self::sockets::SocketTable;
use crate::process_sockets::sockets_of;

/// From a connection's first call to a look: most calls are over by then, and looks take many at once.
const SOON: Duration = Duration::from_millis(5);
/// A look is followed by a pause of N times the processor time that it took: 1 % of a processor.
const PAUSE: u32 = 99;
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);
/// Generations of parents that are looked at: a worker, its master, a shell in between and some more.
const DEEPEST: usize = 8;
/// What a look takes besides the look: a wake-up of two threads.
const WAKE_UPS: Duration = Duration::from_micros(50);

/// Looks for workers as long as this process lives.
pub(crate) fn look_for_workers() {
    let callers = UnnamedCallers::open();
    tokio::spawn(restarted("callers", move || look_again_and_again(callers)));
}

async fn look_again_and_again(callers: &UnnamedCallers) {
    let mut earliest = Instant::now();
    loop {
        callers.wait().await;
        tokio::time::sleep_until(earliest.max(Instant::now() + SOON)).await;
        let mut wanted = callers.take();
        wanted.retain(|caller| !caller.is_gone());
        if wanted.is_empty() {
            continue;
        }
        let spent = tokio::task::spawn_blocking(move || look_for(&wanted)).await.unwrap_or_default();
        earliest = Instant::now() + pause_after(spent);
    }
}

fn pause_after(spent: Duration) -> Duration {
    (spent + WAKE_UPS).saturating_mul(PAUSE).min(LONGEST)
}

/// Looks once. Gives the processor time that this took.
fn look_for(wanted: &[UnnamedCaller]) -> Duration {
    let before = thread_time();
    let found = name_holders(inodes_of(wanted)) + name_descendants(wanted);
    tracing::debug!(name: "callers_looked_for", wanted = wanted.len(), found, "looked for the workers behind calls");
    thread_time().saturating_sub(before)
}

fn inodes_of(wanted: &[UnnamedCaller]) -> HashMap<u64, &UnnamedCaller> {
    let table = match SocketTable::open() {
        Ok(table) => table,
        Err(error) => {
            tracing::debug!(
                name: "callers_unknown",
                %error, "the workers behind calls over TCP are not known: the kernel tells nothing about sockets"
            );
            return HashMap::new();
        }
    };
    let inode = |caller: &UnnamedCaller| match caller.end {
        CallerEnd::Address { client, server } => table.inode(client, server),
        CallerEnd::Process(_) => None,
    };
    wanted.iter().filter_map(|caller| Some((inode(caller)?, caller))).collect()
}

/// Looks for workers among the parents of processes. Gives how many have one.
fn name_descendants(wanted: &[UnnamedCaller]) -> usize {
    let mut found = 0;
    for caller in wanted {
        let CallerEnd::Process(pid) = caller.end else { continue };
        let mut parents = successors(parent(pid), |pid| parent(*pid)).take(DEEPEST);
        if let Some(worker) = parents.find(|pid| is_worker(*pid)) {
            caller.set_worker(worker);
            found += 1;
        }
    }
    found
}

/// Looks through the sockets of the workers and of the processes that they have started, which call for them. Gives how many connections are theirs.
fn name_holders(mut wanted: HashMap<u64, &UnnamedCaller>) -> usize {
    let mut found = 0;
    for worker in worker_processes() {
        let mut processes = VecDeque::from([worker]);
        while let Some(pid) = processes.pop_front() {
            if wanted.is_empty() {
                return found;
            }
            for inode in sockets_of(pid) {
                if let Some(caller) = wanted.remove(&inode) {
                    caller.set_worker(worker);
                    found += 1;
                }
            }
            processes.extend(listed_children(pid).unwrap_or_default());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_hundredth_of_a_processor() {
        for spent in [0, 30, 500, 10_000].map(Duration::from_micros) {
            let share =
                (spent + WAKE_UPS).as_secs_f64() / (spent + WAKE_UPS + pause_after(spent)).as_secs_f64();
            assert!((0.0099..0.0101).contains(&share), "{spent:?}: {share}");
        }
        assert_eq!(pause_after(Duration::from_secs(1)), LONGEST);
    }
}
