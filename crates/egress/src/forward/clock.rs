//! Whose turn it is while two messages pass, and how long that may take.

use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_net::WaitKind;
use keepwarm_policy::timeout::Phase;
use tokio::time::Instant;

use super::upstream_request::{AttemptEnd, UpstreamRequest};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing was looked at yet.
    Unknown,
    /// The client's: to send its body, or to take the response.
    Client,
    /// The upstream's: to take the request.
    Sending,
    /// To begin its response: a word of it, or its whole head.
    FirstByte,
    /// To go on with it.
    Responding,
}

/// Time the upstream has used of the current phase, without the time spent waiting for the client.
#[derive(Debug, Default)]
pub(super) struct PhaseTimer {
    /// The last turn of the upstream, and its time without a byte that moved.
    last: Option<Turn>,
    used: Duration,
    /// The start of that turn.
    since: Option<Instant>,
}

impl PhaseTimer {
    /// Gives this one the turn; returns the time it has used.
    fn turn_to(&mut self, turn: Turn, moved: bool, now: Instant) -> Duration {
        if let Some(since) = self.since.take() {
            self.used += now.saturating_duration_since(since);
        }
        if moved {
            self.used = Duration::ZERO;
        }
        if matches!(turn, Turn::Client | Turn::Unknown) {
            return Duration::ZERO;
        }
        if self.last.replace(turn) != Some(turn) {
            self.used = Duration::ZERO;
        }
        self.since = Some(now);
        self.used
    }
}

impl UpstreamRequest<'_, '_, '_> {
    /// The upstream's time stands still while it waits for the client.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<AttemptEnd> {
        let turn = self.whose_turn();
        let deadlines = self.forward.exchange.deadlines();
        let timeouts = self.forward.settings.timeouts;
        let limit = match turn {
            Turn::Client | Turn::Unknown => None,
            Turn::FirstByte => timeouts.first_byte,
            Turn::Sending | Turn::Responding => timeouts.idle,
        };
        let moved = std::mem::take(&mut self.moved);
        if turn != self.turn || moved {
            let now = Instant::now();
            let left = limit.map(|limit| limit.saturating_sub(self.clock.turn_to(turn, moved, now)));
            self.turn = turn;
            deadlines.set(WaitKind::Response, left.and_then(|left| now.checked_add(left)));
        }
        if deadlines.poll_passed(WaitKind::Slow, cx) {
            return Poll::Ready(AttemptEnd::TimedOut(Phase::Whole, timeouts.whole.unwrap_or_default()));
        }
        if deadlines.poll_passed(WaitKind::Response, cx) {
            let phase = if turn == Turn::FirstByte { Phase::FirstByte } else { Phase::Idle };
            return Poll::Ready(AttemptEnd::TimedOut(phase, limit.unwrap_or_default()));
        }
        Poll::Pending
    }

    fn whose_turn(&self) -> Turn {
        let Some(call) = &self.call else { return Turn::Client };
        if self.is_full() {
            return Turn::Client;
        }
        if self.forward.headed.is_some() {
            return Turn::Responding;
        }
        match (call.unsent(), self.forward.body.is_given(), self.side.holds_body()) {
            (1.., _, _) => Turn::Sending,
            (0, true, _) if self.begun => Turn::Responding,
            (0, true, _) | (0, false, true) => Turn::FirstByte,
            (0, false, false) => Turn::Client,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_of_the_clients_gives_the_upstream_no_new_time() {
        let (mut clock, start) = (PhaseTimer::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut used = |turn, moved, seconds| clock.turn_to(turn, moved, at(seconds)).as_secs();
        assert_eq!(used(Turn::Responding, false, 0), 0);
        assert_eq!(used(Turn::Client, false, 2), 0);
        assert_eq!(used(Turn::Responding, false, 7), 2, "it stood still");
        assert_eq!(used(Turn::Client, false, 8), 0);
        assert_eq!(used(Turn::Responding, false, 8), 3);
        assert_eq!(used(Turn::Responding, true, 9), 0, "a sign of life");
        assert_eq!(used(Turn::Sending, false, 12), 0, "another turn has a limit of its own");
    }
}
