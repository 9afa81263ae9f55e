//! The control task's view of the guardian: when it dies, another takes over.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keepwarm_policy::backoff::Backoff;
use tokio::sync::{mpsc, oneshot};

use super::control::{now, random};
use super::reap;
use super::spawn::SpawnerCommand;

/// Watches over the guardian. Only the spawner thread starts and reaps it; this says when.
pub(super) struct GuardianWatch {
    events: mpsc::UnboundedReceiver<GuardianEvent>,
    sender: mpsc::UnboundedSender<GuardianEvent>,
    started: Instant,
    backoff: Backoff,
}

/// What [`GuardianWatch::recv`] returns, for [`GuardianWatch::handle`].
pub(super) enum GuardianEvent {
    /// The guardian has died.
    Ended,
    /// Whether another could be started.
    Started(io::Result<OwnedFd>),
}

impl GuardianWatch {
    pub(super) fn new(pidfd: OwnedFd) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let watch = Self { events, sender, started: now(), backoff: Backoff::default() };
        watch.report_end(pidfd);
        watch
    }

    pub(super) async fn recv(&mut self) -> GuardianEvent {
        match self.events.recv().await {
            Some(events) => events,
            // Not possible while `sender` is here.
            None => std::future::pending().await,
        }
    }

    pub(super) fn handle(&mut self, events: GuardianEvent, orders: &mpsc::UnboundedSender<SpawnerCommand>) {
        match events {
            GuardianEvent::Ended => {
                let lived = now().saturating_duration_since(self.started);
                let wait = self.backoff.handle_end(lived, random());
                tracing::warn!(
                    name: "guardian_died", target: "keepwarm::supervisor",
                    wait_ms = wait.as_millis(), "guardian died; starting another"
                );
                self.start(wait, orders.clone());
            }
            GuardianEvent::Started(Ok(pidfd)) => {
                self.started = now();
                self.report_end(pidfd);
            }
            GuardianEvent::Started(Err(error)) => {
                let wait = self.backoff.handle_end(Duration::ZERO, random());
                tracing::error!(
                    name: "guardian_start_failed", target: "keepwarm::supervisor",
                    %error, wait_ms = wait.as_millis(), "cannot start a guardian; will retry"
                );
                self.start(wait, orders.clone());
            }
        }
    }

    fn start(&self, wait: Duration, orders: mpsc::UnboundedSender<SpawnerCommand>) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            // A supervisor that stops does not wait for this: it holds an order, and so the thread.
            tokio::select! {
                biased;
                () = tokio::time::sleep(wait) => {}
                () = sender.closed() => return,
            }
            let (reply, started) = oneshot::channel();
            let _ = orders.send(SpawnerCommand::Guard(reply));
            drop(orders);
            if let Ok(result) = started.await {
                let _ = sender.send(GuardianEvent::Started(result));
            }
        });
    }

    fn report_end(&self, pidfd: OwnedFd) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            drop(reap::wait_exited(Arc::new(pidfd)).await);
            // An error: the supervisor has stopped, and that is why the guardian ended.
            let _ = sender.send(GuardianEvent::Ended);
        });
    }
}
