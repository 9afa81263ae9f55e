//! The signal of a profile, at which a worker notes where its requests are (`spec/wire.md` §10).

mod waits;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::WorkerLink;
use super::reap;

pub use waits::Waits;

/// Time between two signals to a worker with a slow request.
const PERIOD: Duration = Duration::from_millis(50);
/// The longest that one is sampled: what is so slow has shown where it is.
const LONGEST: Duration = Duration::from_secs(60);

/// A worker's process, for signals that mean nothing to the supervisor.
#[derive(Debug, Clone)]
pub struct WorkerProcessHandle {
    /// Its id.
    pub pid: u32,
    pub(super) process: Pid,
    pub(super) pidfd: Arc<OwnedFd>,
}

impl WorkerProcessHandle {
    /// Sends the signal. A process without a handler ignores it (signal(7)); one that has ended gets none.
    pub fn send_profile_signal(&self) {
        reap::send_signal(self.process, &self.pidfd, Signal::URG);
    }

    /// Sends it as long as a request of this worker is sampled.
    pub(super) async fn sample(self, link: Arc<dyn WorkerLink>) {
        let mut ticks = interval(PERIOD);
        // A worker weighs what it notes by the time: signals that come together would be for nothing.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (begun, mut waits, is_late) = (Instant::now(), Waits::default(), link.handles_signals_late());
        while link.is_sampled() && begun.elapsed() < LONGEST {
            if !is_late || waits.takes_signal(self.pid) {
                self.send_profile_signal();
            }
            ticks.tick().await;
        }
    }
}
