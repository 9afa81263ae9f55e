//! Notifications to systemd (`sd_notify(3)`), and what it passes in: nothing happens where it has not started this process.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use keepwarm_net::Remote;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;

/// The way to the service manager, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceManager;

impl ServiceManager {
    /// The start, or a reload, is over.
    pub(crate) fn ready(self, status: &str) {
        send(&format!("READY=1\nMAINPID={}\nSTATUS={status}\n", std::process::id()));
    }

    /// A reload begins; it ends with [`ready`](Self::ready), also when it fails.
    pub(crate) fn reloading(self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading\n"));
    }

    /// A line for `systemctl status`.
    pub(crate) fn status(self, status: &str) {
        send(&format!("STATUS={status}\n"));
    }

    /// The end begins.
    pub(crate) fn stopping(self) {
        send("STOPPING=1\nSTATUS=finishing requests in progress\n");
    }

    /// Another process is the service from now on.
    pub(crate) fn main_process(self, pid: u32) {
        send(&format!("MAINPID={pid}\n"));
    }

    /// Reports at the required interval that this process turns: the control thread, on which this runs, and every data-plane thread. Ends with the runtime.
    pub(crate) fn start_watchdog(self, remotes: &[Remote]) {
        let Some(interval) = watchdog_interval() else { return };
        let remotes = remotes.to_vec();
        tokio::spawn(async move {
            loop {
                let (turned, mut turns) = mpsc::unbounded_channel::<()>();
                for remote in &remotes {
                    let turned = turned.clone();
                    remote.spawn(move || async move {
                        let _ = turned.send(());
                    });
                }
                drop(turned);
                // Ends when every thread has replied. A stuck thread keeps its sender, so the watchdog is not notified.
                while turns.recv().await.is_some() {}
                send("WATCHDOG=1\n");
                tokio::time::sleep(interval).await;
            }
        });
    }
}

/// Half of what the service manager waits; none when it does not ask, or asks another process.
fn watchdog_interval() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let whole = number("WATCHDOG_USEC").filter(|&micros| micros > 0)?;
    let ours = std::env::var_os("WATCHDOG_PID").is_none()
        || number("WATCHDOG_PID") == Some(u64::from(std::process::id()));
    ours.then(|| Duration::from_micros(whole / 2))
}

/// Sends one datagram. Nothing depends on it: a missing listener is ignored.
fn send(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        // The control thread must not wait for a manager that does not read.
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        tracing::warn!(
            name: "service_manager_failed",
            %error, socket = %path.display(), "cannot notify the service manager"
        );
    }
}
