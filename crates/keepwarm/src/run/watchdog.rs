//! Data-plane threads that do not turn: found, reported with their stack, worked around, and at last left behind.
//!
//! A task of the control thread. What a thread pays for it is one addition at each tick of its deadlines. Other threads accept for one that is stuck, because all of them share the
//! listening sockets; workers that it reads from are replaced by ones that others read from. Connections that it has accepted wait until it turns, or end with the process.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use keepwarm_net::Remote;
use keepwarm_policy::watchdog::{self, CHECK_INTERVAL, Finding, STUCK_AFTER};
use keepwarm_telemetry::panics::abort_on_panic_task;
use keepwarm_workers::dispatch::Links;
use tokio::sync::mpsc;

/// The watch over the threads.
#[derive(Debug)]
pub(super) struct Watchdog {
    given_up: mpsc::UnboundedReceiver<usize>,
    /// Reports that are being made: each holds one.
    reports: Arc<()>,
}

impl Watchdog {
    /// Watches from now on, for as long as this lives.
    pub(super) fn start(remotes: &[Remote], links: &Arc<Links>) -> Self {
        let (sender, given_up) = mpsc::unbounded_channel();
        let (remotes, links, reports) = (remotes.to_vec(), Arc::clone(links), Arc::new(()));
        // A watch that ends unseen is worse than none.
        let watch = watch(remotes, links, sender, Arc::downgrade(&reports));
        tokio::spawn(abort_on_panic_task("the watch over threads", watch));
        Self { given_up, reports }
    }

    /// Waits until the stack of every thread that does not turn is in the log: to find its lines takes seconds where the binary is large.
    pub(super) async fn reported(&self) {
        while Arc::strong_count(&self.reports) > 1 {
            tokio::time::sleep(REPORTED_LOOK).await;
        }
    }

    /// Waits for a thread that has to be left behind: its index.
    pub(super) async fn given_up(&mut self) -> usize {
        match self.given_up.recv().await {
            Some(thread) => thread,
            None => std::future::pending().await,
        }
    }
}

/// How often it is asked whether a report is there.
const REPORTED_LOOK: Duration = Duration::from_millis(50);

async fn watch(
    remotes: Vec<Remote>,
    links: Arc<Links>,
    given_up: mpsc::UnboundedSender<usize>,
    reports: Weak<()>,
) {
    let mut turns = watchdog::Watchdog::new(remotes.len(), Instant::now());
    let mut look = tokio::time::interval(CHECK_INTERVAL);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !given_up.is_closed() {
        look.tick().await;
        for finding in turns.handle_check(Instant::now(), remotes.iter().map(Remote::turns)) {
            let (Finding::Stuck(index) | Finding::Dead(index) | Finding::Recovered(index, _)) = finding;
            let Some(remote) = remotes.get(index) else { continue };
            match finding {
                Finding::Stuck(_) => {
                    remote.set_stuck(true);
                    report(remote.clone(), Arc::clone(&links), remotes.len(), reports.upgrade());
                }
                Finding::Dead(_) => drop(given_up.send(index)),
                Finding::Recovered(_, after) => {
                    remote.set_stuck(false);
                    tracing::warn!(
                        name: "thread_recovered",
                        thread = %name(index), ?after, "stuck thread responds again"
                    );
                }
            }
        }
    }
}

/// On a thread of its own: its queries may wait for the stuck thread.
fn report(remote: Remote, links: Arc<Links>, threads: usize, report: Option<Arc<()>>) {
    let reported = std::thread::Builder::new().name("keepwarm-stuck".to_owned()).spawn(move || {
        let _report = report;
        let stack = remote.stack();
        let stack = stack.as_deref().unwrap_or("unknown: the thread does not handle signals");
        let others = threads.saturating_sub(1);
        tracing::error!(
            name: "thread_stuck",
            thread = %name(remote.index), after = ?STUCK_AFTER, others, stack,
            "a bug in Keepwarm: stuck thread; the others serve, and a new process takes over if it does not respond again"
        );
        links.abandon(remote.index);
    });
    if let Err(error) = reported {
        tracing::error!(
            name: "thread_stack_failed",
            %error, "stuck thread; cannot start a thread to get its stack"
        );
    }
}

pub(super) fn name(index: usize) -> String {
    format!("keepwarm-data-{index}")
}

/// Ends the process `after` this time at the latest, whatever the rest of it waits for: a lock in the hands of the thread that is stuck, for example.
pub(super) fn end_within(after: Duration) {
    let mode = std::thread::Builder::new().name("keepwarm-end".to_owned()).spawn(move || {
        std::thread::sleep(after);
        tracing::error!(name: "exit_held_up", "exit held up by the stuck thread; aborting");
        keepwarm_telemetry::flush_all(Duration::from_secs(1));
        std::process::abort();
    });
    if let Err(error) = mode {
        tracing::error!(name: "exit_held_up", %error, "exit may be held up by the stuck thread");
    }
}
