//! Responses of Keepwarm itself, and descriptions of failures.

use std::time::Duration;

use keepwarm_http1::BadField;
use keepwarm_serve::{BodyError, CallRecord, ErrorMessage, Exchange};
use keepwarm_telemetry::{RequestId, counters};

use super::Forward;
use super::failure::AttemptFailure;
use crate::gate::GateError;
use crate::stats::SERVER_TIMING;
use crate::{CallLimits, refusals};

impl Forward<'_, '_> {
    pub(super) fn refuse_body(&mut self, error: &BodyError) {
        match error.refusal() {
            Some(refusal) if !self.exchange.responded() => {
                self.respond(refusal.into());
            }
            Some(refusal) => self.exchange.abort(refusal.name),
            None => self.exchange.abandon(error.client_loss()),
        }
    }

    pub(super) fn refuse_entrance(&mut self, refused: GateError) {
        let name = self.upstream.name();
        let message = match refused {
            GateError::OutOfTime => {
                let limit = format!("{:?}", self.settings.timeouts.whole.unwrap_or_default());
                refusals::TIMEOUT.about(&[name, &limit])
            }
            GateError::QueueFull => {
                let CallLimits { in_flight, queue, .. } = self.settings.limits;
                let calls = in_flight.map_or_else(String::new, |calls| format!("{calls} calls, "));
                refusals::QUEUE_FULL.about(&[name, &calls, &queue])
            }
            GateError::Waited(limit) => refusals::QUEUE_TIMEOUT.about(&[name, &format!("{limit:?}")]),
        };
        self.respond(message);
    }

    pub(super) fn refuse_without_endpoint(&mut self) {
        let why = match self.upstream.discovery().trouble() {
            Some(trouble) => format!("its name lookup failed: {}", trouble.sentence),
            None => "its name is still being looked up".to_owned(),
        };
        self.respond(refusals::NO_ENDPOINT.about(&[self.upstream.name(), &why]));
    }

    /// The breaker does not let it through.
    pub(super) fn refuse_open(&mut self, retry_after: Duration) {
        // Rounded up: not before.
        let seconds = u32::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        self.respond(refusals::BREAKER_OPEN.about(&[self.upstream.name()]).retry_after(seconds.max(1)));
    }

    /// An error of ours, which may say what it cost, too.
    fn respond(&mut self, message: ErrorMessage<'_>) {
        if !self.exchange.responded() {
            self.record.responded = message.status();
        }
        match self.timing(message.name()) {
            Some(timing) => message.field(SERVER_TIMING, timing.value()).respond(self.exchange),
            None => message.respond(self.exchange),
        }
    }

    /// The failure is the response; what was begun is cut.
    pub(super) fn respond_with_failure(&mut self, failure: &AttemptFailure) {
        // What has not left yet need not be cut; nor can what the client has been given whole.
        if !self.exchange.take_back() && self.exchange.is_given() {
            tracing::warn!(
                name: "call_failed",
                upstream = %self.upstream.name(), reason = failure.name, "upstream {}", failure.sentence
            );
            return self.exchange.end();
        }
        self.respond(failure.message(self.upstream.name()));
    }

    /// A response that cannot be passed on.
    pub(super) fn refuse_response(&mut self, bad: &BadField) {
        self.respond(refusals::BAD_FIELD.about(&[self.upstream.name(), bad]));
    }
}

/// Says what became of a call that did not go well at once: loudly at first, then by counting.
pub(super) fn tell_story(record: &CallRecord, exchange: &Exchange<'_>) {
    let Some(last) = record.failures.last() else { return };
    if record.failures.len() >= record.attempts as usize {
        // The response itself has said so.
        return;
    }
    let count = counters::CALL_RETRIES.of(&record.upstream, last.cause);
    let story = record.story().unwrap_or_default();
    let (upstream, endpoint, cause) = (&record.upstream, &last.endpoint, last.cause);
    let id = RequestId::new(exchange.request().number());
    if is_round(count) {
        tracing::warn!(name: "call_retried", %upstream, %endpoint, cause, count, %id, "{story}");
    } else {
        tracing::debug!(name: "call_retried", %upstream, %endpoint, cause, count, %id, "{story}");
    }
}

/// 1, 10, 100 and so on.
fn is_round(mut count: u64) -> bool {
    while count > 1 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}
