//! Whose turn it is while two messages pass, and how long that may take.

use std::task::{Context, Poll};

use keepwarm_net::Wait;
use keepwarm_policy::timeout::Phase;
use tokio::time::Instant;

use super::talk::{End, Talk};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing was looked at yet.
    Unknown,
    /// The client's: to send its body, or to take the answer.
    Client,
    /// The upstream's: to take the request.
    Sending,
    /// To begin its answer: a word of it, or its whole head.
    FirstByte,
    /// To go on with it.
    Answering,
}

impl Talk<'_, '_, '_> {
    /// The upstream's time stands still while it waits for the client.
    pub(super) fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let turn = self.whose_turn();
        let deadlines = self.forward.exchange.deadlines();
        let timeouts = self.forward.settings.timeouts;
        let limit = match turn {
            Turn::Client | Turn::Unknown => None,
            Turn::FirstByte => timeouts.first_byte,
            Turn::Sending | Turn::Answering => timeouts.idle,
        };
        if turn != self.turn || std::mem::take(&mut self.moved) {
            self.turn = turn;
            deadlines.set(Wait::Answer, limit.and_then(|limit| Instant::now().checked_add(limit)));
        }
        if deadlines.poll_passed(Wait::Slow, cx) {
            return Poll::Ready(End::TimedOut(Phase::Whole, timeouts.whole.unwrap_or_default()));
        }
        if deadlines.poll_passed(Wait::Answer, cx) {
            let phase = if turn == Turn::FirstByte { Phase::FirstByte } else { Phase::Idle };
            return Poll::Ready(End::TimedOut(phase, limit.unwrap_or_default()));
        }
        Poll::Pending
    }

    fn whose_turn(&self) -> Turn {
        let Some(call) = &self.call else { return Turn::Client };
        if self.full {
            return Turn::Client;
        }
        if self.forward.headed.is_some() {
            return Turn::Answering;
        }
        match (call.unsent(), self.forward.body.is_given(), &self.expects) {
            (1.., _, _) => Turn::Sending,
            (0, true, _) if self.begun => Turn::Answering,
            (0, true, _) | (0, false, Some(_)) => Turn::FirstByte,
            (0, false, None) => Turn::Client,
        }
    }
}
