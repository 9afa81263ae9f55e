//! The signals of a serving process.

use std::io::IsTerminal;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::drain::ShutdownMode;

/// The signals of a serving process; each has its line in `docs/operate/signals.md`.
pub(super) struct Signals {
    pub(super) stop_signals: StopSignals,
    pub(super) hangup: Signal,
    /// Another binary is to take over.
    pub(super) upgrade: Signal,
    /// Every app is to have one worker more (SIGTTIN).
    pub(super) more: Signal,
    /// Every app is to have one worker fewer (SIGTTOU).
    pub(super) fewer: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        reopen_logs(signal(SignalKind::user_defined1())?);
        // A file at the limit of its size (`ulimit -f`) fails the write (EFBIG), and does not end the process. The handler stays when this is dropped, and
        // workers do not inherit one.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self {
            stop_signals: StopSignals::new()?,
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            more: signal(SignalKind::from_raw(rustix::process::Signal::TTIN.as_raw()))?,
            fewer: signal(SignalKind::from_raw(rustix::process::Signal::TTOU.as_raw()))?,
        })
    }
}

impl Signals {
    /// Makes the process that serves now get each SIGHUP that this one gets from now on. `true`: one has come before.
    pub(super) fn pass_on_hangups(&mut self, successor: u32) -> bool {
        if let Ok(mut later) = signal(SignalKind::hangup()) {
            tokio::spawn(async move {
                while later.recv().await.is_some() {
                    hang_up(successor);
                }
            });
        }
        let mut now = Context::from_waker(Waker::noop());
        self.hangup.poll_recv(&mut now).is_ready()
    }
}

/// Asks a process that this one has started, and not waited for, to reload.
pub(super) fn hang_up(process: u32) {
    if let Some(process) = Pid::from_raw(process.cast_signed()) {
        // An error: it has ended.
        let _ = kill_process(process, rustix::process::Signal::HUP);
    }
}

/// The signals that stop the process.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// When the first one came, and whether it was Ctrl-C.
    first: Option<(Instant, bool)>,
}

/// A wrapper that signals its child and the child's group, or passes on what the terminal has sent to all, makes two signals of one.
const SAME: Duration = Duration::from_secs(1);
/// The same for Ctrl-C at a terminal: a wrapper passes it on within milliseconds, and no finger is as fast.
const SAME_KEY: Duration = Duration::from_millis(100);

impl StopSignals {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, first: None })
    }

    /// Waits for one, where all that matters is that it came.
    pub(crate) async fn heard(&mut self) {
        self.next().await;
    }

    /// Waits for the first.
    pub(super) async fn next(&mut self) -> ShutdownMode {
        let mode = self.recv().await;
        let is_key = matches!(mode, ShutdownMode::Interactive);
        self.first.get_or_insert_with(|| (Instant::now(), is_key));
        mode
    }

    /// Waits for a repeated signal while the process ends already: after more than a second, or Ctrl-C pressed twice.
    pub(super) async fn again(&mut self) {
        loop {
            let is_key = matches!(self.recv().await, ShutdownMode::Interactive);
            match self.first {
                Some((first, was_key)) if first.elapsed() >= same(is_key && was_key) => return,
                Some(_) => tracing::info!(
                    name: "signal_ignored",
                    "signal ignored: it repeats the one that stops Keepwarm; a later one stops at once"
                ),
                // Until now another process was the reason.
                None => {
                    tracing::info!(
                        name: "already_stopping",
                        "already stopping; another signal stops at once"
                    );
                    self.first = Some((Instant::now(), is_key));
                }
            }
        }
    }

    async fn recv(&mut self) -> ShutdownMode {
        tokio::select! {
            _ = self.terminate.recv() => ShutdownMode::Graceful,
            _ = self.interrupt.recv() => ShutdownMode::Interactive,
        }
    }
}

/// How soon after the first a second signal is the same one. `is_key`: both may be the key of a terminal.
fn same(is_key: bool) -> Duration {
    if is_key && std::io::stdin().is_terminal() { SAME_KEY } else { SAME }
}

/// On a task of its own: whatever else happens, a log that was moved away is reopened.
fn reopen_logs(mut asked: Signal) {
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            keepwarm_telemetry::reopen_all();
            tracing::info!(name: "logs_reopened", "log files reopened");
        }
    });
}
