//! The output of a worker's script, on its way into the wire.

use std::cell::RefCell;

use keepwarm_net::simulation::Peer;
use tokio::sync::Notify;

/// Frames that are not yet written.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: RefCell<Vec<u8>>,
    changed: Notify,
}

impl Outbox {
    /// Puts a frame behind those that are there.
    pub(crate) fn say(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.bytes.borrow_mut());
        self.look_again();
    }

    /// Makes [`Self::write_all`] check again whether that was all.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Writes until everything is written and `was_all`, or the wire ends. `true`: everything is written.
    pub(crate) async fn write_all(&self, peer: &Peer, was_all: impl Fn() -> bool) -> bool {
        loop {
            let bytes = self.bytes.take();
            if !bytes.is_empty() {
                if peer.write(&bytes).await.is_err() {
                    return false;
                }
            } else if was_all() {
                return true;
            } else {
                self.changed.notified().await;
            }
        }
    }
}
