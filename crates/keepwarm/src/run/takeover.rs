//! The new process's side of an upgrade: it receives the listening sockets, boots, reports that, and is the service when the old one agrees.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use keepwarm_net::ListeningSocket;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::getppid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::handover::{self, HandoverMessage, HandoverRest};
use super::inherited::{InheritedSockets, SocketOwner};

/// Names, in the new process's environment, the process that started it to take over.
pub(crate) const VARIABLE: &str = "KEEPWARM_UPGRADE";

/// The old process, from the new one.
pub(super) struct Takeover {
    socket: OwnedFd,
    /// What it handed over beside the listeners.
    pub(super) rest: HandoverRest,
}

/// The old process says all it has to say within milliseconds; and it agrees at once. One that does not is stuck. This number is arbitrary.
const PATIENCE: Duration = Duration::from_secs(30);

impl Takeover {
    /// The sockets that the process that started this one hands over; `None` when it hands nothing over: this is a start like any other.
    ///
    /// # Errors
    /// A sentence that names the fault.
    pub(super) fn receive() -> Result<Option<(Self, InheritedSockets)>, String> {
        // The variable is also in the environment of a worker's children: only a child of that process counts.
        let old = std::env::var(VARIABLE).ok().and_then(|pid| pid.parse::<i32>().ok());
        if old.is_none() || old != getppid().map(|parent| parent.as_raw_nonzero().get()) {
            return Ok(None);
        }
        let failed = |error: io::Error| format!("cannot receive the sockets of the old process: {error}");
        let socket = take_stdin().map_err(failed)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).map_err(|error| failed(error.into()))?;
        let (inherited, rest) = listeners(&socket).map_err(failed)?;
        Ok(Some((Self { socket, rest }, inherited)))
    }

    /// Reports that this process gives up: the old one keeps running.
    pub(super) fn fail(&self, why: &str) {
        // An error: the old process has gone, so there is nobody to notify.
        let _ = handover::send(&self.socket, &HandoverMessage::Failed(why.to_owned()), &[]);
    }

    /// Reports that this process serves, and waits until the old one has stopped accepting. The histories of `keepwarm why`, or why there are none.
    ///
    /// # Errors
    /// The old process has ended before it agreed, and took the service with it.
    pub(super) async fn finish(&self, taken: BTreeSet<String>) -> io::Result<io::Result<OwnedFd>> {
        handover::send(&self.socket, &HandoverMessage::Ready { taken, histories: true }, &[])?;
        let watched = self.watch()?;
        let heard = tokio::time::timeout(PATIENCE, watched.readable()).await;
        let _ = heard.map_err(|_| io::Error::other("the old process did not confirm the takeover"))??;
        match handover::receive(&self.socket)? {
            Some((HandoverMessage::Go { histories }, beside)) => Ok(passed(histories, beside)),
            _ => Err(gone()),
        }
    }

    /// The socket, for what the old process says afterwards.
    pub(super) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Resolves when the old process has ended, which may happen before this one serves.
    pub(super) async fn old_is_gone(&self) {
        // It sends nothing before this process does: whatever comes is the end.
        if let Ok(watched) = self.watch() {
            let _ = watched.readable().await;
        }
    }

    fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        let socket = self.socket.try_clone()?;
        keepwarm_net::watch(socket, Interest::READABLE).map_err(|(_, error)| error)
    }
}

/// The histories beside `go`.
fn passed(are_sent: bool, beside: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    match beside.into_iter().next().filter(|_| are_sent) {
        Some(file) => Ok(file),
        None if are_sent => Err(io::Error::other("they did not arrive: the limit on open files is too low")),
        None => Err(io::Error::other("it has passed none")),
    }
}

/// All that the old process hands over.
fn listeners(socket: &OwnedFd) -> io::Result<(InheritedSockets, HandoverRest)> {
    let mut inherited = InheritedSockets::default();
    loop {
        match handover::receive(socket)? {
            Some((HandoverMessage::Listener { bind, lent, admin }, sockets)) => {
                let owner = if lent { SocketOwner::ServiceManager } else { SocketOwner::Keepwarm };
                for socket in sockets {
                    inherited.add(bind.clone(), admin, ListeningSocket::adopt(socket)?, owner);
                }
            }
            Some((HandoverMessage::End(rest), _)) => {
                crate::maintenance::restore(&rest.maintenance);
                return Ok((inherited, rest));
            }
            Some(_) => return Err(io::Error::other("the old process sent an unexpected message")),
            None => return Err(io::Error::other("the old process has exited")),
        }
    }
}

/// Why a new process ends with its old one.
pub(super) fn gone() -> io::Error {
    io::Error::other("the old process exited before the takeover")
}

/// Moves the socket from standard input, which becomes what a service's is.
fn take_stdin() -> io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_that_are_missing_have_a_reason() {
        let file = || OwnedFd::from(File::open("/dev/null").unwrap());
        assert!(passed(true, vec![file(), file()]).is_ok());
        assert!(passed(true, vec![]).unwrap_err().to_string().contains("limit on open files"));
        // From a version before, or where that has failed.
        assert_eq!(passed(false, vec![]).unwrap_err().to_string(), "it has passed none");
        assert!(passed(false, vec![file()]).is_err());
    }
}
