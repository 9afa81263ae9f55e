//! SIGUSR2, the old process's side: another binary is started, given the listening sockets, and takes over once it serves.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keepwarm_config::Config;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;

use super::handover::{self, HandoverMessage, HandoverRest, SOCKETS};
use super::listeners::Listeners;
use super::processes;
use super::takeover::VARIABLE;
use crate::admin::Admin;
use crate::file_limit;

/// How long the new process may take beside the boot of its slowest app. This number is arbitrary; it takes milliseconds.
const MARGIN: Duration = Duration::from_secs(10);
/// From SIGTERM to SIGKILL, for a new process that is not wanted any more.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// A process that serves, and waits to be confirmed as the service.
pub(super) struct Successor {
    pub(super) pid: u32,
    /// The `bind`s whose sockets it has taken.
    pub(super) taken: BTreeSet<String>,
    /// It reads the histories of `keepwarm why`.
    pub(super) reads_histories: bool,
    socket: OwnedFd,
}

impl Successor {
    /// For what it is told afterwards.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Leaves the service to it, and the histories of `keepwarm why`.
    pub(super) fn go(&self, histories: Option<OwnedFd>) {
        let go = |beside: &[BorrowedFd<'_>]| {
            handover::send(&self.socket, &HandoverMessage::Go { histories: !beside.is_empty() }, beside)
        };
        let passed = histories.map(|histories| go(&[histories.as_fd()]));
        if !matches!(passed, Some(Ok(()))) {
            // An error: it has ended since; what supervises this process learns that as it learns every end.
            let _ = go(&[]);
        }
    }
}

/// Starts another binary and waits until it serves.
///
/// To be dropped at any time: a process that was started and does not serve yet is ended then.
///
/// # Errors
/// A sentence that says why it does not. It has ended then.
pub(super) async fn upgrade(
    listeners: &Listeners,
    admin: &Admin,
    config: &Config,
    rest: HandoverRest,
) -> Result<Successor, String> {
    if std::process::id() == 1 {
        return Err("process 1 cannot be replaced, because its container ends with it; \
                    replace the container instead, or run Keepwarm under an init"
            .to_owned());
    }
    let binary = binary()?;
    tracing::info!(
        name: "upgrading",
        binary = %binary.display(), "upgrading: starting a new process to take over"
    );
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| format!("cannot create a socket for the new process: {error}"))?;
    let mut child =
        start(&binary, theirs).map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
    // A process that reads nothing must not hold this one up.
    set_socket_timeout(&ours, Timeout::Send, Some(KILL_AFTER)).map_err(|error| error.to_string())?;
    match hand_over(&ours, listeners, admin, rest) {
        Err(error) if !is_gone(&error) => {
            child.end().await;
            return Err(format!("cannot pass the sockets to the new process: {error}"));
        }
        // One that has ended already is noticed below.
        _ => {}
    }
    let boot = config.apps.iter().map(|app| app.boot_timeout).max().unwrap_or_default();
    let limit = boot.saturating_add(processes::longest(config)).saturating_add(MARGIN);
    let said = tokio::time::timeout(limit, read_reply(&ours)).await;
    match said {
        Ok(Ok(Some(HandoverMessage::Ready { taken, histories }))) => {
            let pid = child.release();
            Ok(Successor { pid, taken, reads_histories: histories, socket: ours })
        }
        Ok(Ok(Some(HandoverMessage::Failed(why)))) => {
            child.end().await;
            Err(format!("the new process gave up: {why}"))
        }
        Ok(Ok(None)) => Err(format!("the new process exited before it served: {}", child.end().await)),
        Ok(Ok(Some(_))) => {
            child.end().await;
            Err("the new process sent an unexpected message".to_owned())
        }
        Ok(Err(error)) => {
            child.end().await;
            Err(format!("cannot read from the new process: {error}"))
        }
        Err(_elapsed) => {
            child.end().await;
            Err(format!("the new process did not serve within {limit:?} and was stopped"))
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

async fn read_reply(socket: &OwnedFd) -> io::Result<Option<HandoverMessage>> {
    let watched = keepwarm_net::watch(socket.try_clone()?, Interest::READABLE).map_err(|(_, error)| error)?;
    let _ = watched.readable().await?;
    Ok(handover::receive(socket)?.map(|(say, _)| say))
}

fn hand_over(socket: &OwnedFd, listeners: &Listeners, admin: &Admin, rest: HandoverRest) -> io::Result<()> {
    let of_listeners = listeners.offers().map(|offer| (offer, false));
    for ((bind, lent, bounds), is_admin) in of_listeners.chain(admin.offers().map(|offer| (offer, true))) {
        let bounds: Vec<_> = bounds.iter().collect();
        for some in bounds.chunks(SOCKETS) {
            let sockets: Vec<BorrowedFd<'_>> = some.iter().map(|bound| bound.as_fd()).collect();
            let listener = HandoverMessage::Listener { bind: bind.clone(), lent, admin: Some(is_admin) };
            handover::send(socket, &listener, &sockets)?;
        }
    }
    handover::send(socket, &HandoverMessage::End(rest), &[])
}

fn start(binary: &Path, socket: OwnedFd) -> io::Result<NewProcess> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| binary.into());
    let child = Command::new(binary)
        .arg0(name)
        .args(arguments)
        .env(VARIABLE, std::process::id().to_string())
        .envs(file_limit::original().map(|files| (file_limit::VARIABLE, files.to_string())))
        // They describe this process; the new one is the service manager's by then.
        .env_remove("WATCHDOG_PID")
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDS")
        .stdin(Stdio::from(socket))
        .spawn()?;
    Ok(NewProcess(Some(child)))
}

/// The binary that was started, as it is now: by the name it was called by, which may lead to another version; else in its own place,
/// where a package puts the next version.
fn binary() -> Result<PathBuf, String> {
    let called = std::env::args_os().next().map(PathBuf::from);
    let by_name = called.and_then(|name| match name.components().count() {
        1 if !name.is_absolute() && !name.to_string_lossy().contains('/') => {
            in_path(name.as_os_str().to_owned())
        }
        _ => std::path::absolute(name).ok(),
    });
    if let Some(path) = by_name.filter(|path| path.is_file()) {
        return Ok(path);
    }
    let own = std::fs::read_link("/proc/self/exe")
        .map_err(|error| format!("cannot find Keepwarm's own binary: {error}"))?;
    let own = own.to_string_lossy();
    Ok(own.strip_suffix(" (deleted)").unwrap_or(&own).into())
}

fn in_path(name: OsString) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|file| file.is_file())
}

/// A process that is stopped when this is dropped.
struct NewProcess(Option<Child>);

impl NewProcess {
    /// It keeps running by itself; this process ends before it does.
    fn release(&mut self) -> u32 {
        self.0.take().map_or(0, |child| child.id())
    }

    /// Ends it, and says how it ended.
    async fn end(&mut self) -> String {
        let Some(child) = self.0.take() else { return "no process".to_owned() };
        let ended = tokio::task::spawn_blocking(move || end(child)).await;
        ended.unwrap_or_else(|_| "exit status unknown".to_owned())
    }
}

impl Drop for NewProcess {
    fn drop(&mut self) {
        let Some(child) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            // Not on this thread, which has an end of its own to see to. The runtime waits for it when it ends.
            Ok(runtime) => drop(runtime.spawn_blocking(move || end(child))),
            Err(_) => drop(end(child)),
        }
    }
}

/// SIGTERM, with some time for it, then SIGKILL; its workers end with it, however it ends.
fn end(mut child: Child) -> String {
    let pid = Pid::from_child(&child);
    if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) {
        let _ = pidfd_send_signal(&pidfd, Signal::TERM);
        let mut ended = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec { tv_sec: KILL_AFTER.as_secs().cast_signed(), tv_nsec: 0 };
        let _ = rustix::event::poll(&mut ended, Some(&limit));
    }
    // An error: it has ended.
    let _ = child.kill();
    match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}
