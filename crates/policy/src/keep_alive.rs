//! Learns the idle timeout of a server: how long a connection to it may be idle and still be reused.
//!
//! The race: a server closes an idle connection while a request is on its way to it. The request is lost, and one that is not idempotent may not be
//! sent again (RFC 9112 §9.3.1). So an idle connection is not used up to its last moment, and a request that cannot be repeated uses one only if that is
//! known to be safe. One that can be repeated may try: the race costs it only a second attempt.
//!
//! # Observations, and what they imply for the timeout T
//!
//! | observed | implies |
//! |---|---|
//! | *stated*: `Keep-Alive: timeout=5` | T is 5 s |
//! | *closed*: a FIN while idle | T is at most that, and this server announces its closes. It may have ended: then all its connections close, however long they were idle |
//! | *closed* again, at another moment after about the same time | T is that |
//! | *quiet*: idle for [`TIMEOUT_MIN`] or longer without a FIN | earlier closes were not a timeout: the server ended, or closes after some responses |
//! | *kept*: idle for longer than an earlier close without a FIN | that close was not a timeout, if it was the only one; or T is longer now, if the last one is [`FORGET_AFTER`] ago, or less when it was seen a few times only |
//! | *success*: a response on a connection that had been idle | T is longer than that |
//! | *lost*: a request on it died without a byte of a response | T is at most that, and this server may close silently (or something between drops connections); nothing, when others that had been idle for other times were closed in the same moment: then the server has ended |
//!
//! # Rules
//!
//! Four fifths of the shortest time stated, closed or lost are used, from the first observation on: the fifth is for the round trip to the server, and for clocks.
//!
//! A request that **cannot be repeated** goes, while nothing is known, on a connection that was used within the last second ([`FRESH_MAX`]). A single close adds to that what was
//! proven by responses (nine tenths of it); a stated timeout, or two closes, are trusted. After a loss only idle times proven since count, because T may be anything below; under
//! [`TIMEOUT_MIN`] no server has its timeout, and a connection that dies there has died of something else. A server that closes there and loses a request does so after each response: then, too, only
//! idle times proven since count.
//!
//! A request that **can be repeated** takes any connection while nothing is known. After a loss it probes: from time to time one tries a connection that has been idle for longer
//! than the lost one. Several successes in a row end the suspicion; a loss costs a second attempt, and doubles the time to the next try. So a restarted server is used as before within
//! minutes, and only repeatable requests have tried. Without repeatable requests, closes that agree end the suspicion as well, since then the server does announce them.
//!
//! Connections stay in the pool beyond their usable idle time, up to the pool's own limit: they show when the server closes them, and serve the tries.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

/// A connection this fresh carries any request: few servers close earlier. Apache's default is 5 s, Node's 5 s, gunicorn's 2 s.
const FRESH_MAX: Duration = Duration::from_secs(1);
/// No idle timeout is shorter. (The shortest in any server's documentation is a second.)
const TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// A timeout that was seen twice counts this long against connections that live longer.
const FORGET_AFTER: Duration = Duration::from_secs(10 * 60);
/// And no longer than this for each time it was seen: ends of the server may agree by chance.
const FORGET_AFTER_EACH: Duration = Duration::from_secs(15);
/// Closes nearer to one another are one event, such as the end of the process.
const EVENT_SPAN: Duration = Duration::from_millis(100);
/// From a loss to the first try beyond it, and the longest time between two tries.
const TRY_INTERVAL_MIN: Duration = Duration::from_secs(10);
const TRY_INTERVAL_MAX: Duration = Duration::from_secs(60 * 60);
/// Good tries in a row, or closes that agree, that end a suspicion: twice as many when it comes back within [`RELAPSE_WINDOW`], for behind one address there may be servers of several
/// kinds. These numbers are arbitrary.
const TRIES_MIN: u32 = 3;
const TRIES_MAX: u32 = 48;
const RELAPSE_WINDOW: Duration = Duration::from_secs(60 * 60);

/// What is known of when one origin closes idle connections. For each connection that was idle: [`KeepAlive::may_use`] and [`KeepAlive::handle_use`], then
/// [`KeepAlive::handle_success`] or [`KeepAlive::handle_loss`]; or [`KeepAlive::handle_close`] when it was closed before; or [`KeepAlive::handle_open`] when it is given up.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepAlive {
    /// What the last response said.
    stated: Option<Duration>,
    closed: Option<CloseRecord>,
    lost: Option<LossRecord>,
    /// The longest idle time after which a request got a response, since the last loss.
    proven: Duration,
    /// There was a loss that no agreeing closes have explained: only what is proven counts.
    distrusted: bool,
    /// It closes sooner than any timeout would, and a request was lost then: it does so after each response, silently. The longest idle time proven since.
    at_once: Option<Duration>,
    /// Good tries or agreeing closes that would explain the last loss, and when that was.
    enough: u32,
    lost_at: Option<Instant>,
}

/// Closes of idle connections that agree with one another.
#[derive(Debug, Clone, Copy)]
struct CloseRecord {
    /// The shortest of them.
    idle: Duration,
    /// Moments.
    times: u32,
    /// The last one.
    at: Instant,
}

/// Requests that died.
#[derive(Debug, Clone, Copy)]
struct LossRecord {
    /// After the shortest idle time.
    idle: Duration,
    /// Tries beyond it that went well, in a row.
    good: u32,
    /// From a try to the next.
    wait: Duration,
    /// The next try.
    try_at: Instant,
    /// The first of them.
    since: Instant,
    /// What was known before it.
    proven: Duration,
    distrusted: bool,
}

impl KeepAlive {
    /// A response came with `Keep-Alive: timeout=`, or (`None`) without.
    pub fn handle_header(&mut self, timeout: Option<Duration>) {
        // Not every response of a server repeats it.
        self.stated = timeout.or(self.stated);
    }

    /// The server has closed a connection that was idle for this long.
    pub fn handle_close(&mut self, idle: Duration, now: Instant) {
        self.handle_open(idle, now);
        if let Some(lost) = self.lost
            && is_end_of_server((lost.idle, lost.since), (idle, now))
        {
            self.proven = self.proven.max(lost.proven);
            self.distrusted = lost.distrusted;
            self.lost = None;
        }
        self.closed = Some(match self.closed {
            None => CloseRecord { idle, times: 1, at: now },
            // Longer than what is still believed.
            Some(closed) if idle > agreement_max(closed.idle) => closed,
            Some(closed) if now.saturating_duration_since(closed.at) < EVENT_SPAN => {
                CloseRecord { idle: idle.min(closed.idle), at: now, ..closed }
            }
            Some(closed) if idle >= with_margin(closed.idle) => {
                CloseRecord { idle: idle.min(closed.idle), times: closed.times.saturating_add(1), at: now }
            }
            Some(_) => CloseRecord { idle, times: 1, at: now },
        });
        if self.closed.is_some_and(|closed| closed.times >= self.enough.max(TRIES_MIN)) {
            self.lost = None;
            self.distrusted = false;
        }
    }

    /// A connection has been idle for this long, and the server has not closed it, as far as can be seen.
    pub fn handle_open(&mut self, idle: Duration, now: Instant) {
        let outlived = |closed: &CloseRecord| {
            let stale = closed.times < 2
                || now.saturating_duration_since(closed.at)
                    >= (FORGET_AFTER_EACH * closed.times).min(FORGET_AFTER);
            idle > agreement_max(closed.idle) && stale
        };
        self.closed = self.closed.filter(|closed| !outlived(closed));
    }

    /// A connection has been idle for this long, and is still open as far as is known. (The oldest in the pool: any time will do.)
    pub fn handle_idle(&mut self, idle: Duration) {
        if idle >= TIMEOUT_MIN {
            self.closed = self.closed.filter(|closed| closed.idle >= TIMEOUT_MIN);
            self.at_once = None;
        }
    }

    /// A request goes out on a connection that was idle for this long.
    pub fn handle_use(&mut self, idle: Duration, now: Instant) {
        if let Some(lost) = &mut self.lost
            && idle >= with_margin(lost.idle)
        {
            lost.try_at = now + lost.wait;
        }
    }

    /// A request got a response on a connection that had been idle for this long.
    pub fn handle_success(&mut self, idle: Duration, now: Instant) {
        self.proven = self.proven.max(idle);
        self.at_once = self.at_once.map(|proven| proven.max(idle));
        self.handle_open(idle, now);
        if let Some(lost) = &mut self.lost
            && idle >= lost.idle
        {
            lost.good += 1;
            lost.try_at = now;
            if lost.good >= self.enough {
                self.lost = None;
            }
        }
    }

    /// A request died without a byte of a response on a connection that had been idle for this long.
    pub fn handle_loss(&mut self, idle: Duration, now: Instant) {
        let ended = self.closed.is_some_and(|closed| is_end_of_server((closed.idle, closed.at), (idle, now)));
        if idle < TIMEOUT_MIN || ended {
            if self.closed.is_some_and(|closed| closed.idle < TIMEOUT_MIN) {
                self.at_once = Some(Duration::ZERO);
            }
            return;
        }
        let lost = self.lost.unwrap_or(LossRecord {
            idle,
            good: 0,
            wait: TRY_INTERVAL_MIN,
            try_at: now,
            since: now,
            proven: self.proven,
            distrusted: self.distrusted,
        });
        let was_try = self.lost.is_some() && idle >= with_margin(lost.idle);
        let wait = if was_try { (lost.wait * 2).min(TRY_INTERVAL_MAX) } else { lost.wait };
        if self.lost.is_none() {
            let relapse = self.lost_at.is_some_and(|at| now.saturating_duration_since(at) < RELAPSE_WINDOW);
            self.enough = if relapse { (self.enough * 2).min(TRIES_MAX) } else { TRIES_MIN };
        }
        self.lost_at = Some(now);
        self.lost = Some(LossRecord { idle: idle.min(lost.idle), good: 0, wait, try_at: now + wait, ..lost });
        self.proven = Duration::ZERO;
        self.distrusted = true;
        // Those that come from now on are to agree.
        self.closed =
            self.closed.filter(|closed| closed.idle <= idle).map(|closed| CloseRecord { times: 1, ..closed });
    }

    /// How long a connection may lie idle and be used by a request that can be repeated; `None` while nothing is known.
    pub fn limit(&self) -> Option<Duration> {
        let lost = self.lost.map(|lost| with_margin(lost.idle));
        self.server_limit().into_iter().chain(lost).min()
    }

    /// Whether a connection that was idle for this long may carry a request. `repeatable`: it may be sent again should the connection turn out to be closed.
    pub fn may_use(&self, idle: Duration, repeatable: bool, now: Instant) -> bool {
        let within = |limit: Option<Duration>| limit.is_none_or(|limit| idle < limit);
        match repeatable {
            true => within(self.limit()) || (self.is_try_due(now) && within(self.server_limit())),
            false => within(self.limit()) && self.safe_limit().is_none_or(|sure| idle <= sure),
        }
    }

    /// How long a connection that nobody uses is kept; `None`: as long as the pool likes. What the server states leaves nothing to learn, unless something was lost nevertheless.
    pub fn keep_for(&self) -> Option<Duration> {
        self.stated.filter(|_| !self.distrusted).map(with_margin)
    }

    /// The timeout that the server states or shows.
    fn server_limit(&self) -> Option<Duration> {
        self.closed.map(|closed| closed.idle).into_iter().chain(self.stated).min().map(with_margin)
    }

    /// What a request that cannot be repeated keeps to beside the limit.
    fn safe_limit(&self) -> Option<Duration> {
        let proven = self.proven * 9 / 10;
        if self.distrusted {
            return Some(proven.max(TIMEOUT_MIN));
        }
        if let Some(proven) = self.at_once {
            return Some(proven * 9 / 10);
        }
        let believed = self.stated.is_some() || self.closed.is_some_and(|closed| closed.times >= 2);
        (!believed).then(|| proven.max(FRESH_MAX))
    }

    fn is_try_due(&self, now: Instant) -> bool {
        self.lost.is_some_and(|lost| now >= lost.try_at)
    }
}

/// Whether two connections ended in one moment that had been idle for different times: then the server has ended, or was restarted.
fn is_end_of_server((one, at): (Duration, Instant), (other, now): (Duration, Instant)) -> bool {
    let agree = one <= agreement_max(other) && other <= agreement_max(one);
    !agree && now.saturating_duration_since(at) < EVENT_SPAN
}

/// Four fifths: the usable part of a timeout.
fn with_margin(idle: Duration) -> Duration {
    idle * 4 / 5
}

/// What is longer does not agree any more.
fn agreement_max(idle: Duration) -> Duration {
    idle + idle / 4
}
