//! Timeouts of the phases of a call, and which of them is due next.
//!
//! | phase | from | to |
//! |---|---|---|
//! | `connect` | an attempt requests a new connection | it is established, TLS included |
//! | `first_byte` | the last byte of the request was sent | the first byte of a response, a 1xx included |
//! | `idle` | a byte of the request or response moved | the next byte |
//! | `whole` | the call began | it has ended, with all its attempts |
//!
//! Time in which the upstream can do nothing does not count for `first_byte` and `idle`: while the client is slow to send its body or to take the response
//! ([`CallTimer::handle_blocked`]). It counts for `whole`, which is a promise to the client. If two are due at once, the narrower one is reported, because it says more.

use std::time::{Duration, Instant};

/// One limit for each phase. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// Until a new connection is established.
    pub connect: Option<Duration>,
    /// From the end of the request to the first byte of the response.
    pub first_byte: Option<Duration>,
    /// Between two bytes.
    pub idle: Option<Duration>,
    /// The call with all its attempts.
    pub whole: Option<Duration>,
}

/// A phase of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Connecting.
    Connect,
    /// Waiting for the response.
    FirstByte,
    /// Transferring bytes.
    Idle,
    /// The whole call.
    Whole,
}

impl Phase {
    /// Its name in logs, metrics and the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first_byte",
            Self::Idle => "idle",
            Self::Whole => "whole",
        }
    }
}

/// The clock of one call. Each `handle_*` begins what the attempt does from then on.
#[derive(Debug, Clone, Copy)]
pub struct CallTimer {
    timeouts: Timeouts,
    begun: Instant,
    /// The phase besides `whole`, and its start.
    running: Option<(Phase, Instant)>,
}

impl CallTimer {
    /// A call begins; nothing but `whole` runs (it waits for an endpoint, or in a queue).
    #[must_use]
    pub fn new(timeouts: Timeouts, now: Instant) -> Self {
        Self { timeouts, begun: now, running: None }
    }

    /// An attempt requests a connection.
    pub fn handle_connecting(&mut self, now: Instant) {
        self.running = Some((Phase::Connect, now));
    }

    /// The request is being sent, and some bytes have just moved (the first time: are about to).
    pub fn handle_sending(&mut self, now: Instant) {
        self.running = Some((Phase::Idle, now));
    }

    /// All of the request was sent.
    pub fn handle_sent(&mut self, now: Instant) {
        self.running = Some((Phase::FirstByte, now));
    }

    /// Bytes of the response arrived.
    pub fn handle_response_begun(&mut self, now: Instant) {
        self.running = Some((Phase::Idle, now));
    }

    /// The upstream can do nothing: the client sends or takes nothing. Ends with the next `handle_*`.
    pub fn handle_blocked(&mut self) {
        self.running = None;
    }

    /// The attempt is over.
    pub fn handle_failed(&mut self) {
        self.running = None;
    }

    /// The next phase to expire, and when.
    #[must_use]
    pub fn due(&self) -> Option<(Instant, Phase)> {
        let at = |since: Instant, phase| Some((since.checked_add(self.limit(phase)?)?, phase));
        let narrow = self.running.and_then(|(phase, since)| at(since, phase));
        let whole = at(self.begun, Phase::Whole);
        narrow.into_iter().chain(whole).min_by_key(|(at, _)| *at)
    }

    /// The phase that has expired, and its limit.
    #[must_use]
    pub fn expired(&self, now: Instant) -> Option<(Phase, Duration)> {
        let (_, phase) = self.due().filter(|(at, _)| *at <= now)?;
        Some((phase, self.limit(phase)?))
    }

    /// The rest of `whole`; `None`: it has no limit.
    #[must_use]
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        Some(self.timeouts.whole?.saturating_sub(now.saturating_duration_since(self.begun)))
    }

    /// Since the call began.
    #[must_use]
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.begun)
    }

    fn limit(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Connect => self.timeouts.connect,
            Phase::FirstByte => self.timeouts.first_byte,
            Phase::Idle => self.timeouts.idle,
            Phase::Whole => self.timeouts.whole,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timer() -> (CallTimer, Instant) {
        let timeouts = Timeouts {
            connect: Some(2 * SECOND),
            first_byte: Some(5 * SECOND),
            idle: Some(3 * SECOND),
            whole: Some(10 * SECOND),
        };
        let now = Instant::now();
        (CallTimer::new(timeouts, now), now)
    }

    #[test]
    fn each_phase_has_its_limit_and_whole_covers_all() {
        let (mut timer, start) = timer();
        assert_eq!(timer.due(), Some((start + 10 * SECOND, Phase::Whole)));
        timer.handle_connecting(start);
        assert_eq!(timer.due(), Some((start + 2 * SECOND, Phase::Connect)));
        assert_eq!(timer.expired(start + SECOND), None);
        assert_eq!(timer.expired(start + 2 * SECOND), Some((Phase::Connect, 2 * SECOND)));
        timer.handle_sending(start + SECOND);
        assert_eq!(timer.due(), Some((start + 4 * SECOND, Phase::Idle)));
        timer.handle_sent(start + 2 * SECOND);
        assert_eq!(timer.due(), Some((start + 7 * SECOND, Phase::FirstByte)));
        timer.handle_response_begun(start + 6 * SECOND);
        assert_eq!(timer.due(), Some((start + 9 * SECOND, Phase::Idle)));
        timer.handle_response_begun(start + 8 * SECOND);
        assert_eq!(timer.due(), Some((start + 10 * SECOND, Phase::Whole)));
        assert_eq!(timer.expired(start + 10 * SECOND), Some((Phase::Whole, 10 * SECOND)));
    }

    #[test]
    fn a_slow_client_costs_the_upstream_nothing_but_the_whole() {
        let (mut timer, start) = timer();
        timer.handle_sending(start);
        timer.handle_blocked();
        assert_eq!(timer.expired(start + 9 * SECOND), None);
        assert_eq!(timer.remaining(start + 9 * SECOND), Some(SECOND));
        assert_eq!(timer.elapsed(start + 9 * SECOND), 9 * SECOND);
        assert_eq!(timer.expired(start + 10 * SECOND), Some((Phase::Whole, 10 * SECOND)));
        assert_eq!(timer.remaining(start + 11 * SECOND), Some(Duration::ZERO));
    }

    #[test]
    fn attempts_have_phases_of_their_own_and_one_whole() {
        let (mut timer, start) = timer();
        timer.handle_sent(start);
        timer.handle_failed();
        assert_eq!(timer.due(), Some((start + 10 * SECOND, Phase::Whole)));
        timer.handle_connecting(start + 7 * SECOND);
        assert_eq!(timer.due(), Some((start + 9 * SECOND, Phase::Connect)));
    }

    #[test]
    fn of_two_expired_phases_the_narrower_is_reported() {
        let (mut timer, start) = timer();
        timer.handle_sent(start + 5 * SECOND);
        assert_eq!(timer.expired(start + 10 * SECOND), Some((Phase::FirstByte, 5 * SECOND)));
        let mut none = CallTimer::new(Timeouts::default(), start);
        none.handle_connecting(start);
        assert_eq!(
            (none.due(), none.expired(start + 1000 * SECOND), none.remaining(start)),
            (None, None, None)
        );
        let most = Timeouts { whole: Some(Duration::MAX), ..Timeouts::default() };
        assert_eq!(CallTimer::new(most, start).due(), None);
    }
}
