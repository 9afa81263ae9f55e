//! One end of a tunnel, by a script.

use std::cell::Cell;
use std::future::poll_fn;
use std::time::Duration;

use keepwarm_net::simulation::Rng;
use tokio::sync::Notify;

use crate::line::Line;
use crate::pattern;

/// The bytes that one end sends and takes.
#[derive(Debug, Clone)]
pub(crate) struct TunnelPlan {
    pub(crate) sends: usize,
    pub(crate) takes: usize,
    /// Bytes in one write, or read at once.
    pub(crate) piece: usize,
    /// How often it stops reading and writing, the first time before it begins.
    pub(crate) stops: usize,
    /// For how long.
    pub(crate) pause: Duration,
    pub(crate) half: Half,
}

/// An end's reaction to a side that ends before the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// Both sides end together.
    Both,
    /// It ends its own behind all that it sends.
    Closes,
    /// It keeps its last bytes back until the other end has closed its side.
    Awaits,
}

impl TunnelPlan {
    /// Any two ends of a tunnel, the client's first; in each direction at most `most` bytes. All stops together stay below two seconds.
    pub(crate) fn draw(rng: &mut Rng, (up, down): (usize, usize)) -> (Self, Self) {
        let halves = match rng.chance(300) {
            true => (Half::Closes, Half::Awaits),
            false => (Half::Both, Half::Both),
        };
        let mut end = |sends: usize, takes: usize, half| {
            let largest = sends.max(takes);
            let slow = rng.chance(500);
            Self {
                sends,
                takes,
                piece: match rng.chance(500) {
                    true => 1 << 20,
                    false => (1 + rng.size(largest)).max(largest / 200),
                },
                stops: if slow { 1 + rng.below(20) } else { 0 },
                pause: Duration::from_millis(1 + rng.below(100) as u64),
                half,
            }
        };
        (end(up, down, halves.0), end(down, up, halves.1))
    }
}

/// The id of the bytes that go through a tunnel upwards.
pub(crate) const UP: u64 = 1 << 40;

/// Sends what it is to send while it takes what comes, with what has come already (`first`). `false`: not all of it came.
pub(crate) async fn run(peer: &dyn Line, id: u64, first: Vec<u8>, plan: &TunnelPlan) -> bool {
    let (ended, told) = (Cell::new(false), Notify::new());
    let write = async {
        let (mut sent, mut stops) = (0, 0);
        while sent < plan.sends {
            plan.stop(sent, plan.sends, &mut stops).await;
            let count = plan.piece.min(plan.sends - sent);
            let last = sent + count == plan.sends && plan.half == Half::Awaits;
            while last && !ended.get() {
                told.notified().await;
            }
            if peer.write(&pattern::bytes(id, sent, count)).await.is_err() {
                return;
            }
            sent += count;
        }
        if plan.half == Half::Closes {
            peer.shutdown_write();
        }
    };
    let read = async {
        let whole = take(peer, id, first, plan).await;
        ended.set(true);
        told.notify_one();
        whole
    };
    tokio::join!(write, read).1
}

async fn take(peer: &dyn Line, id: u64, first: Vec<u8>, plan: &TunnelPlan) -> bool {
    let (mut got, mut stops, mut bytes) = (0, 0, first);
    loop {
        if let Err(wrong) = pattern::check(id ^ UP, got, &bytes) {
            panic!("bytes: what came through the tunnel of {id:x} is wrong at {wrong}");
        }
        got += bytes.len();
        if got > plan.takes || (got == plan.takes && plan.half != Half::Awaits) {
            return got == plan.takes;
        }
        plan.stop(got, plan.takes, &mut stops).await;
        bytes.clear();
        match peer.read(&mut bytes, plan.piece).await {
            Ok(1..) => {}
            Ok(0) if got == plan.takes => return poll_fn(|cx| peer.poll_end(cx)).await.is_ok(),
            Ok(0) | Err(_) => return false,
        }
    }
}

impl TunnelPlan {
    /// Pauses where the next stop is due.
    async fn stop(&self, at: usize, of: usize, stops: &mut usize) {
        if *stops < self.stops && at >= of / self.stops * *stops {
            *stops += 1;
            tokio::time::sleep(self.pause).await;
        }
    }
}
