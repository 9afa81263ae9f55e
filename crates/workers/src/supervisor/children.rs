//! Which children are Keepwarm's own: as process 1 of a container it gets those of others, too, and has to reap them.
//!
//! The kernel hands every orphan to process 1. Children of others are found among the zombies and reaped by id, so that the status of a
//! worker is left to the task that waits for it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::signal::unix::{SignalKind, signal};

/// Our children that are not reaped yet. Locked from before a start until the id is here, and while one is reaped: under the lock, the owner of every
/// child is known.
static OWN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Starts a process, as one of our own.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    let mut own = lock();
    let child = command.spawn()?;
    own.insert(Pid::from_child(&child).as_raw_nonzero().get());
    Ok(child)
}

/// Takes the status of one of our own, which has ended.
pub(super) fn reap(pid: Pid, pidfd: impl AsFd) -> rustix::io::Result<Option<WaitIdStatus>> {
    let mut own = lock();
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    if !matches!(status, Err(Errno::INTR)) {
        own.remove(&pid.as_raw_nonzero().get());
    }
    status
}

/// Waits for the end of one of our own.
pub(super) fn wait(child: &mut Child) {
    let pid = Pid::from_child(child);
    // First without taking the status: the lock is not to be held that long.
    let ended = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    while matches!(ended(), Err(Errno::INTR)) {}
    let mut own = lock();
    // It is our child and nobody else waits for it; an error leaves nothing to do.
    let _ = child.wait();
    own.remove(&pid.as_raw_nonzero().get());
}

/// Reaps orphans from now on, if this is process 1.
///
/// # Errors
/// Signals cannot be received.
pub(super) fn adopt_orphans() -> io::Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    let mut ended = signal(SignalKind::child())?;
    tokio::spawn(async move {
        loop {
            reap_orphans();
            if ended.recv().await.is_none() {
                return;
            }
        }
    });
    Ok(())
}

fn reap_orphans() {
    // An error: there is no /proc, and nothing is known.
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = number.and_then(Pid::from_raw).filter(|&pid| is_zombie_of_ours(pid)) else {
            continue;
        };
        let own = lock();
        if !own.contains(&pid.as_raw_nonzero().get()) {
            // An error: somebody else was faster, which is as good.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// By `/proc/PID/stat`: behind the name, which may hold anything, stand the state and the parent.
fn is_zombie_of_ours(pid: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
        return false;
    };
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let mut fields = rest.split_whitespace();
    fields.next() == Some("Z") && fields.next().is_some_and(|parent| parent == std::process::id().to_string())
}

fn lock() -> MutexGuard<'static, BTreeSet<i32>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}
