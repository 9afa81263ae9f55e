//! Waits for the end of processes, and handles it.
//!
//! Processes are waited for one by one, through their pidfds, so that a child of others is never reaped, and a reused id
//! is never signalled.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_send_signal, waitid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::WeakUnboundedSender;

use super::Exit;
use super::children;
use super::spawn::SpawnerCommand;
use super::template::TemplateReaper;

/// Waits until the process has ended, kills what is left of its group, unless that is spared, and only then takes its status: until that
/// moment the kernel gives its id, which is the group's, to nobody else.
///
/// `parent`: whose child it is, if it is not Keepwarm's own. `orders` does not keep the spawner thread alive: a process that does not end is not waited for.
pub(super) async fn reap(
    pid: Pid,
    pidfd: Arc<OwnedFd>,
    orders: WeakUnboundedSender<SpawnerCommand>,
    parent: Option<TemplateReaper>,
    spares: &AtomicBool,
) -> Exit {
    let pidfd = wait_exited(pidfd).await;
    if !spares.load(Ordering::Relaxed) {
        // An error: nobody is left, or it died before it had a group.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    if let Some(orders) = orders.upgrade() {
        // An error: the thread has ended, and its guardian with it.
        let _ = orders.send(SpawnerCommand::Forget(pid));
    }
    if let Some(parent) = parent {
        return parent.reap(pid).await;
    }
    let status = retry(|| children::reap(pid, &pidfd));
    Exit::from_wait(status.ok().flatten().as_ref())
}

/// SIGKILL goes to the whole group, other signals to the worker alone.
pub(super) fn send_signal(pid: Pid, pidfd: impl AsFd, signal: Signal) {
    match pidfd_send_signal(pidfd, signal) {
        Ok(()) if signal == Signal::KILL => {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        // Samples of a profile are too many to speak of.
        Err(Errno::PERM) if signal != Signal::URG => tracing::error!(
            name: "signal_refused", target: "keepwarm::supervisor",
            pid = pid.as_raw_nonzero(), signal = signal.as_raw(),
            "the system does not let Keepwarm signal this process: it has become another user, and Keepwarm lacks CAP_KILL"
        ),
        // An error: it has ended and was reaped, so that the id may be somebody else's by now.
        _ => {}
    }
}

/// A pidfd is readable once its process has ended.
pub(super) async fn wait_exited(pidfd: Arc<OwnedFd>) -> Arc<OwnedFd> {
    #[expect(
        deprecated,
        reason = "unsound only for types that lie about their descriptor; an `OwnedFd` does not, and the alternative is unsafe"
    )]
    let watched = AsyncFd::try_with_interest(pidfd, Interest::READABLE);
    match watched {
        Ok(watched) => {
            // An error means that the runtime is going down; the wait that follows blocks then, but does not lie.
            let _ = watched.readable().await;
            watched.into_inner()
        }
        Err(error) => wait_exited_blocking(error.into_parts().0).await,
    }
}

/// When the reactor takes no more descriptors, a thread waits.
async fn wait_exited_blocking(pidfd: Arc<OwnedFd>) -> Arc<OwnedFd> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let _ = retry(|| waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        let _ = sender.send(pidfd);
    });
    match receiver.await {
        Ok(pidfd) => pidfd,
        // The runtime is going down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
