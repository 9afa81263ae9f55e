//! Windows of request bodies that grow on a long fat path.
//!
//! A window is too small if a whole one is read by the app within one round trip: then the client stops and waits for a WINDOW_UPDATE. Round trips are taken with PING, and
//! only bytes that were read count, so that an app which reads slowly never makes the window grow. It is bounded, and so is what all bodies of a connection may hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use h2::server::Connection;
use h2::{Ping, PingPong};
use keepwarm_net::h2::settings;
use keepwarm_net::now;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// Between two measurements: an acknowledgement is a frame without progress, and a client's guard may count PINGs.
const INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of bodies that were read and given back to the client's windows.
#[derive(Debug, Default)]
pub(super) struct BytesRead(AtomicU64);

impl BytesRead {
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The window of each body on a connection.
#[derive(Debug)]
pub(super) struct BodyWindow {
    size: u32,
    pings: Option<PingPong>,
    /// When the last PING was sent, and the bytes read by then.
    measured: Option<(Instant, u64)>,
    waits_for_pong: bool,
}

impl BodyWindow {
    pub(super) fn new(pings: Option<PingPong>) -> Self {
        Self { size: settings::BODY_WINDOW, pings, measured: None, waits_for_pong: false }
    }

    /// Measures, and lets the window grow if it was all that a round trip could carry. `true`: the connection has something to send.
    pub(super) fn poll_grow<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: &BytesRead,
        connection: &mut Connection<T, Bytes>,
    ) -> bool
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let (total, most) = (read.total(), settings::BODY_WINDOW_MOST);
        let Some(pings) = self.pings.as_mut().filter(|_| self.size < most && total > 0) else { return false };
        if self.waits_for_pong {
            match pings.poll_pong(cx) {
                std::task::Poll::Ready(Ok(_)) => self.waits_for_pong = false,
                std::task::Poll::Ready(Err(_)) => self.pings = None,
                std::task::Poll::Pending => {}
            }
            let before = self.measured.map_or(total, |(_, before)| before);
            let grown = self.size.saturating_mul(2).min(most);
            // An earlier change must have been acknowledged; else the next round trip shows it again.
            let is_full = !self.waits_for_pong && total - before >= u64::from(self.size) / 3 * 2;
            if is_full && connection.set_initial_window_size(grown).is_ok() {
                self.size = grown;
                return true;
            }
            return false;
        }
        let is_due = |(at, before): (Instant, u64)| {
            now().saturating_duration_since(at) >= INTERVAL && total - before >= u64::from(self.size)
        };
        if self.measured.is_none_or(is_due) && pings.send_ping(Ping::opaque()).is_ok() {
            (self.measured, self.waits_for_pong) = (Some((now(), total)), true);
            return true;
        }
        false
    }
}
