//! Writing to a worker's socket, from any thread, and what waits for it to take more.

use std::io::{self, IoSlice};
use std::task::Waker;

use keepwarm_net::{Socket, is_corked, send};

use super::{Link, LinkInner};

/// The result of writing the buffered bytes to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum FlushResult {
    Nothing,
    /// The socket is full.
    ForRoom,
    /// The kernel has no memory for it now, and does not tell when it has.
    ForLater,
}

impl Link {
    /// Writes frames that the driver has made.
    pub(in crate::dispatch) fn write(&self, frames: &[u8]) {
        self.lock().write(self.kind.socket(), frames);
    }

    /// Writes what was left. From now on, and not a moment later, `driver` is woken when something is left again.
    pub(in crate::dispatch) fn flush(&self, driver: &Waker) -> FlushResult {
        let mut inner = self.lock();
        let rest = std::mem::take(&mut inner.unsent);
        inner.driver = None;
        inner.write(self.kind.socket(), &rest);
        inner.driver = Some(driver.clone());
        let left = match (inner.unsent.is_empty(), inner.short_of_memory) {
            (true, _) => FlushResult::Nothing,
            (false, false) => FlushResult::ForRoom,
            (false, true) => FlushResult::ForLater,
        };
        if rest.len() > UNSENT_ENOUGH && inner.unsent.len() <= UNSENT_ENOUGH {
            // They had no credit while there was so much (see [`Self::send_credit`]), and no frame of the worker says that they have some now.
            inner.wake_calls();
        }
        left
    }
}

impl LinkInner {
    /// One write; what the socket does not take waits for the driver, as does all that is [`corked`](keepwarm_net::corked).
    pub(in crate::dispatch) fn write(&mut self, socket: Option<&Socket>, bytes: &[u8]) {
        let Some(socket) = socket.filter(|_| !bytes.is_empty() && !self.dead) else { return };
        self.last_written = None;
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return;
        }
        self.short_of_memory = false;
        if let Some(driver) = self.driver.take_if(|_| is_corked()) {
            self.unsent.extend_from_slice(bytes);
            driver.wake();
            return;
        }
        let sent = match send(socket, &[IoSlice::new(bytes)]) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            // The socket lives, and the worker would wait for the rest of a frame.
            Err(error) if is_shortage(&error) => {
                self.short_of_memory = true;
                0
            }
            // The driver learns it from its read, with all requests that are lost by it.
            Err(_) => return,
        };
        let rest = bytes.get(sent..).unwrap_or_default();
        if !rest.is_empty() {
            self.unsent.extend_from_slice(rest);
            if let Some(driver) = self.driver.take() {
                driver.wake();
            }
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    let short = [rustix::io::Errno::NOBUFS, rustix::io::Errno::NOMEM];
    short.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Bytes that may wait for a worker's socket before no more are added.
pub(super) const UNSENT_ENOUGH: usize = 256 * 1024;
