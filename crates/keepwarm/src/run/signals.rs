//! The signals of a serving process.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::drain::Ending;

/// What a serving process listens for; each has its line in `docs/operate/signals.md`.
pub(super) struct Signals {
    pub(super) ends: Ends,
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
        Ok(Self {
            ends: Ends {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            more: signal(SignalKind::from_raw(rustix::process::Signal::TTIN.as_raw()))?,
            fewer: signal(SignalKind::from_raw(rustix::process::Signal::TTOU.as_raw()))?,
        })
    }
}

/// Those that end the process.
pub(super) struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    /// Waits for the next.
    pub(super) async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.terminate.recv() => Ending::Graceful,
            _ = self.interrupt.recv() => Ending::Interactive,
        }
    }
}

/// On a task of its own: whatever else is going on, a log that was moved away is opened anew.
fn reopen_logs(mut asked: Signal) {
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            keepwarm_telemetry::reopen_all();
            tracing::info!("log files are opened anew");
        }
    });
}
