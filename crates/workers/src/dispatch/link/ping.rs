//! Signs of life: PING and PONG.

use std::time::Duration;

use tokio::sync::mpsc;

use super::Link;

/// The time in which a thread that turns has read what lay in its sockets. The number is arbitrary.
pub(super) const LISTEN: Duration = Duration::from_millis(100);

impl Link {
    /// Asks for a sign of life; [`Self::heard`] is another number once one has come. `false`: none was asked for, or it has been before.
    pub(in crate::dispatch) fn ping(&self) -> bool {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        let heard = inner.heard;
        // One that is under way serves as well.
        let asked = inner.session.ping(heard.to_be_bytes(), &mut frame);
        inner.write(self.kind.socket(), &frame);
        asked
    }

    /// Runs `then` on the thread that reads from it, once that has read what lay in its sockets.
    pub(in crate::dispatch) fn once_listened(&self, then: impl FnOnce() + Send + 'static) {
        self.remote.spawn(move || async move {
            tokio::time::sleep(LISTEN).await;
            then();
        });
    }

    /// How often something has come from it.
    pub(in crate::dispatch) fn heard(&self) -> u64 {
        self.lock().heard
    }

    /// Asks the worker for a sign of life, which goes to `responded`; dropped when none can come.
    pub(in crate::dispatch) fn ask(&self, responded: mpsc::Sender<()>) {
        const PAYLOAD: [u8; 8] = *b"keepwarm";
        let mut frame = Vec::new();
        let mut inner = self.lock();
        if inner.dead {
            return;
        }
        inner.pong_waiters.retain(|waiting| !waiting.is_closed());
        inner.pong_waiters.push(responded);
        if let Some(process) = self.kind.process() {
            return process.look.notify_one();
        }
        // The reply to one that is under way counts for both.
        if inner.session.ping(PAYLOAD, &mut frame) {
            inner.write(self.kind.socket(), &frame);
        }
    }

    /// The worker has replied to a PING.
    pub(in crate::dispatch) fn ponged(&self) {
        for waiting in std::mem::take(&mut self.lock().pong_waiters) {
            // Full: another worker was first.
            let _ = waiting.try_send(());
        }
    }
}
