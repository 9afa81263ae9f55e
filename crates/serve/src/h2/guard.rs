//! Bounds useless work that a client can cause: frames that cost us work without advancing a request. The `h2` crate bounds some of it itself (streams at once, the size of heads, empty DATA).
//!
//! Sans-IO: frames and `now` in, a verdict out.

use std::time::Duration;

use keepwarm_net::h2::FrameEvent;
use keepwarm_telemetry::meters::Http2Fault as Misuse;
use tokio::time::Instant;

/// Resets of a client in [`WINDOW`]: each costs us the start of a request ("rapid reset", CVE-2023-44487). Envoy and nghttp2 have limits of the same kind.
const RESETS: u32 = 100;
/// From this many requests on, at most half of them may have been cancelled.
const SHARE_FROM: u64 = 500;
/// Resets that a client provokes from us ("made you reset", CVE-2025-8671), on one connection.
const OUR_RESETS: u32 = 500;
/// CONTINUATION frames of one head (CVE-2024-27316): 32 KiB fit in three.
const CONTINUATIONS: u32 = 8;
/// PING, SETTINGS, empty DATA and WINDOW_UPDATE in [`WINDOW`] while no request advances (CVE-2019-9512, -9515, -9518).
const CHATTER: u32 = 100;
/// PRIORITY and frames of unknown types, likewise. They only cost reading, and browsers send several for each open stream at once.
const IGNORED: u32 = 1000;
/// Bytes of DATA that we send before they count as progress, and for each of which a WINDOW_UPDATE is legitimate: a client that opens its window byte by byte (CVE-2019-9511) makes a frame of each.
const PROGRESS: usize = 256;
/// The largest window (RFC 9113 §6.9.1): no more bytes than these wait for the WINDOW_UPDATEs of their client.
const WINDOW_LIMIT: usize = (1 << 31) - 1;
/// NO_ERROR (RFC 9113 §7).
const NO_ERROR: u32 = 0;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts the frames of one connection.
#[derive(Debug)]
pub(super) struct MisuseGuard {
    since: Instant,
    resets: u32,
    chatter: u32,
    ignored: u32,
    requests: u64,
    resets_ever: u64,
    our_resets: u32,
    continuations: u32,
    /// Bytes of DATA sent since the last time that they counted as progress.
    progress: usize,
    /// Bytes of DATA sent that no WINDOW_UPDATE has been counted for. Go's client sends two of them for each 4 KiB that its caller reads, however long after the bytes came: those of a whole window arrive at once, with no DATA between them.
    unacknowledged: usize,
}

impl MisuseGuard {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            resets: 0,
            chatter: 0,
            ignored: 0,
            requests: 0,
            resets_ever: 0,
            our_resets: 0,
            continuations: 0,
            progress: 0,
            unacknowledged: 0,
        }
    }

    /// A frame from the client.
    pub(super) fn handle_received(&mut self, passed: FrameEvent, now: Instant) -> Result<(), Misuse> {
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.since, self.resets, self.chatter, self.ignored) = (now, 0, 0, 0);
        }
        match passed {
            FrameEvent::Headers(_) => {
                self.requests += 1;
                (self.continuations, self.chatter, self.ignored) = (0, 0, 0);
            }
            FrameEvent::Data { length: 1.., .. } => (self.chatter, self.ignored) = (0, 0),
            FrameEvent::Continuation => self.continuations += 1,
            FrameEvent::Reset { .. } => {
                self.resets += 1;
                self.resets_ever += 1;
            }
            FrameEvent::WindowUpdate if self.unacknowledged >= PROGRESS => self.unacknowledged -= PROGRESS,
            FrameEvent::Data { length: 0, .. }
            | FrameEvent::Ping
            | FrameEvent::Settings
            | FrameEvent::WindowUpdate => self.chatter += 1,
            FrameEvent::GoAway { .. }
            | FrameEvent::PriorityUpdate { stream: 1.., .. }
            | FrameEvent::Other => {
                self.ignored += 1;
            }
            // RFC 9218 §7.1: a connection error.
            FrameEvent::PriorityUpdate { stream: 0, .. } => return Err(Misuse::Protocol),
        }
        let share = self.requests >= SHARE_FROM && self.resets_ever * 2 > self.requests;
        match () {
            () if self.continuations > CONTINUATIONS => Err(Misuse::Continuations),
            () if self.resets > RESETS || share => Err(Misuse::Resets),
            () if self.chatter > CHATTER || self.ignored > IGNORED => Err(Misuse::Chatter),
            () => Ok(()),
        }
    }

    /// A frame from us.
    pub(super) fn handle_sent(&mut self, passed: FrameEvent) -> Result<(), Misuse> {
        match passed {
            // The client reads a response: its WINDOW_UPDATEs are legitimate.
            FrameEvent::Headers(_) => (self.chatter, self.ignored) = (0, 0),
            FrameEvent::Data { length, .. } => {
                self.progress += length;
                self.unacknowledged = WINDOW_LIMIT.min(self.unacknowledged + length);
                if self.progress >= PROGRESS {
                    (self.chatter, self.ignored, self.progress) = (0, 0, 0);
                }
            }
            // After a complete response to an upload that nobody reads (RFC 9113 §8.1): no work of ours is lost by it.
            FrameEvent::Reset { code: NO_ERROR, .. } => {}
            FrameEvent::Reset { .. } => self.our_resets += 1,
            _ => {}
        }
        if self.our_resets > OUR_RESETS { Err(Misuse::MadeResets) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many times the frames can be repeated, each round `apart`, before the connection is ended, and the reason.
    fn allowed(frames: &[FrameEvent], apart: Duration) -> Option<(u32, Misuse)> {
        let mut now = Instant::now();
        let mut guard = MisuseGuard::new(now);
        for round in 0..2000 {
            for frame in frames {
                if let Err(misuse) = guard.handle_received(*frame, now) {
                    return Some((round, misuse));
                }
            }
            now += apart;
        }
        None
    }

    const RESET: FrameEvent = FrameEvent::Reset { stream: 1, code: 8 };

    const fn data(length: usize) -> FrameEvent {
        FrameEvent::Data { stream: 1, length }
    }

    const SLOWLY: Duration = Duration::from_millis(200);

    #[test]
    fn each_kind_of_misuse_has_its_limit() {
        let at_once = |frames: &[FrameEvent]| allowed(frames, Duration::ZERO);
        assert_eq!(at_once(&[FrameEvent::Headers(1), RESET]), Some((100, Misuse::Resets)));
        assert_eq!(at_once(&[FrameEvent::Ping]), Some((100, Misuse::Chatter)));
        assert_eq!(at_once(&[FrameEvent::Settings, data(0)]), Some((50, Misuse::Chatter)));
        assert_eq!(at_once(&[FrameEvent::Continuation]), Some((8, Misuse::Continuations)));
        assert_eq!(at_once(&[FrameEvent::Other]), Some((1000, Misuse::Chatter)));
    }

    #[test]
    fn ordinary_clients_are_left_alone() {
        assert_eq!(
            allowed(&[FrameEvent::Headers(1), FrameEvent::Ping, FrameEvent::WindowUpdate], Duration::ZERO),
            None
        );
        assert_eq!(allowed(&[FrameEvent::Ping, FrameEvent::WindowUpdate], SLOWLY), None);
        assert_eq!(allowed(&[FrameEvent::Headers(1), FrameEvent::Headers(1), RESET], SLOWLY), None);
        assert_eq!(allowed(&[data(9), data(0)], Duration::ZERO), None);
    }

    #[test]
    fn more_than_half_called_off_is_too_much_however_slowly() {
        let frames = [FrameEvent::Headers(1), FrameEvent::Headers(1), FrameEvent::Headers(1), RESET, RESET];
        assert_eq!(allowed(&frames, SLOWLY).map(|(_, misuse)| misuse), Some(Misuse::Resets));
    }

    #[test]
    fn a_window_that_opens_byte_by_byte_is_no_progress() {
        let now = Instant::now();
        let mut guard = MisuseGuard::new(now);
        let round = |guard: &mut MisuseGuard| {
            guard.handle_sent(data(1)).and_then(|()| guard.handle_received(FrameEvent::WindowUpdate, now))
        };
        assert_eq!((0..200).position(|_| round(&mut guard).is_err()), Some(100));
    }

    #[test]
    fn the_window_updates_of_a_whole_window_may_come_at_once() {
        let now = Instant::now();
        let mut guard = MisuseGuard::new(now);
        for _ in 0..3 {
            // What Go's client does: its window is 4 MiB, and its caller reads 4 KiB at a time.
            for _ in 0..4 << 20 >> 14 {
                guard.handle_sent(data(1 << 14)).unwrap();
            }
            for _ in 0..2 * (4 << 20 >> 12) {
                guard.handle_received(FrameEvent::WindowUpdate, now).unwrap();
            }
        }
    }

    #[test]
    fn window_updates_without_data_have_a_limit() {
        let now = Instant::now();
        let mut guard = MisuseGuard::new(now);
        guard.handle_sent(data(100 * PROGRESS)).unwrap();
        let update = |guard: &mut MisuseGuard| guard.handle_received(FrameEvent::WindowUpdate, now);
        assert_eq!((0..500).position(|_| update(&mut guard).is_err()), Some(200));
    }

    #[test]
    fn what_the_client_is_sent_makes_its_window_updates_worth_while() {
        let now = Instant::now();
        let mut guard = MisuseGuard::new(now);
        for _ in 0..1000 {
            guard.handle_received(FrameEvent::WindowUpdate, now).unwrap();
            guard.handle_sent(data(1000)).unwrap();
        }
        assert!((0..501).any(|_| guard.handle_sent(RESET).is_err()));
        let mut guard = MisuseGuard::new(now);
        let early = FrameEvent::Reset { stream: 1, code: NO_ERROR };
        assert!((0..1000).all(|_| guard.handle_sent(early).is_ok()), "uploads that were refused early");
    }
}
