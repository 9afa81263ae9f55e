//! What becomes of a request that its worker did not respond to.
//!
//! | the worker | with this request | method | what happens |
//! |---|---|---|---|
//! | died, or gave it back | certainly not begun | any | given to another worker |
//! | died | perhaps begun, no response yet | safe | given to another worker, once, within a budget |
//! | died | perhaps begun, no response yet | others | 502 |
//! | was killed over memory | perhaps begun, no response yet | any | 502: it may have been this request |
//! | was killed since another request timed out | as if it had died | | |
//! | died | response begun | any | the client's connection is cut |
//!
//! A request whose body was passed on as it came cannot be given again: it is not here any more. One whose route is refused
//! (`quarantine`) is not, either: 503.

use std::time::Duration;

use keepwarm_serve::ClientLoss;
use keepwarm_telemetry::counters;
use keepwarm_wire::frame::ResetCode;

use super::super::refusals::{self, respond_quarantined};
use super::response::id;
use super::{Conversation, GIVEN_AT_MOST};
use crate::supervisor::KillReason;

/// Why a request is not retried on another worker.
type NoRetryReason = &'static str;

impl Conversation<'_, '_> {
    pub(super) fn handle_reset(&mut self, code: ResetCode, reason: &str, unprocessed: bool) {
        if unprocessed && self.given < GIVEN_AT_MOST && self.may_be_given_again(true, None).is_ok() {
            return self.give_again("worker_refused", "the worker refused it");
        }
        self.completed();
        self.over = true;
        if unprocessed && !self.exchange.responded() {
            return refusals::WORKER_REFUSED.respond(self.exchange);
        }
        self.app.handle_response(&self.call.summary);
        if code == ResetCode::CANCELLED {
            // It was told that its client has closed its side, and gave up: nobody's failure.
            return self.exchange.abandon(ClientLoss::Closed);
        }
        let refusal = match code {
            ResetCode::TOO_SHORT => &refusals::BODY_TOO_SHORT,
            _ => &refusals::APP_ERROR,
        };
        tracing::error!(
            name: "app_error",
            app = %self.app.name, id = %id(self.exchange), code = code.name(), reason,
            "the application failed"
        );
        match self.exchange.responded() {
            true => self.exchange.abort(refusal.reason),
            false => refusal.respond(self.exchange),
        }
    }

    pub(super) fn handle_lost(&mut self, unprocessed: bool, kill_reason: Option<KillReason>) {
        let why_not = match self.may_be_given_again(unprocessed, kill_reason) {
            Ok(()) => return self.give_again("worker_died", "its worker died"),
            Err(why_not) => why_not,
        };
        self.completed();
        self.over = true;
        let responded = self.exchange.responded();
        let refusal = match kill_reason {
            None => &refusals::WORKER_DIED,
            Some(KillReason::TimedOut) => &refusals::WORKER_TIMED_OUT,
            Some(KillReason::Memory) => &refusals::WORKER_MEMORY,
        };
        tracing::error!(
            name: "worker_died_with_request",
            app = %self.app.name, id = %id(self.exchange), route = %self.call.summary, responded,
            reason = refusal.reason, not_retried = why_not,
            "worker died with this request"
        );
        if responded {
            return self.exchange.abort(refusal.reason);
        }
        match self.app.quarantine.refuses(&self.call.summary) {
            // Certainly not begun with: it is refused like those that come after it.
            Some(time) if unprocessed => self.refuse_quarantined(time),
            _ => refusal.respond(self.exchange),
        }
    }

    /// Whether the request may go to another worker (see the head of this file).
    fn may_be_given_again(
        &mut self,
        unprocessed: bool,
        kill_reason: Option<KillReason>,
    ) -> Result<(), NoRetryReason> {
        if self.begun {
            return Err("its response had begun");
        }
        if !self.source.is_whole() || self.body_sent {
            return Err("its body was passed on");
        }
        // A trial that has not begun is still the trial.
        if self.probe.is_none() && self.app.quarantine.refuses(&self.call.summary).is_some() {
            return Err("its route kills workers");
        }
        if unprocessed {
            // Free, however many workers have died before it came to it.
            return Ok(());
        }
        if kill_reason == Some(KillReason::Memory) {
            return Err("the worker used too much memory");
        }
        if !self.exchange.request().head.method.is_safe() {
            return Err("its method is not safe");
        }
        if self.probe.is_some() {
            return Err("its route kills workers");
        }
        if std::mem::replace(&mut self.risked, true) {
            return Err("it was already retried");
        }
        if !self.app.may_retry() {
            return Err("the retry budget is used up");
        }
        Ok(())
    }

    /// Gives the request to another worker; without one that runs, the client gets an error response.
    fn give_again(&mut self, name: &'static str, why: &'static str) {
        if self.exchange.abort_if_gone() {
            return self.stop_waiting();
        }
        counters::RETRIES.count(&self.app.name, name);
        tracing::warn!(
            name: "request_retried",
            app = %self.app.name, id = %id(self.exchange), route = %self.call.summary, why,
            "request retried on another worker"
        );
        let frame = self.call.take_frame();
        self.enqueue(frame);
    }

    /// Its route kills workers.
    pub(super) fn refuse_quarantined(&mut self, time: Duration) {
        self.over = true;
        respond_quarantined(self.exchange, time);
    }
}
