//! The signal of a profile, at which a worker notes where its requests are (`spec/wire.md` §10).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Pid, Signal};

use super::reap;

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
}
