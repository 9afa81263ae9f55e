//! Responses of Keepwarm itself, and descriptions of failures.

use std::time::Duration;

use keepwarm_http1::BadField;
use keepwarm_policy::retry::Cause;
use keepwarm_serve::{BodyError, CallRecord, Exchange, respond_with_error};
use keepwarm_telemetry::{RequestId, counters};

use super::Forward;
use crate::CallLimits;
use crate::gate::GateError;
use crate::stats::SERVER_TIMING;

/// Why an attempt failed: the cause for the retry policy, and a sentence for people.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    pub(super) cause: Cause,
    /// A stable name, for counters and logs.
    pub(super) name: &'static str,
    /// Goes on from "upstream".
    pub(super) sentence: String,
    /// A byte of the request was sent.
    pub(super) sent: bool,
    /// A byte of a response came.
    pub(super) response_started: bool,
    /// Another attempt is of no use.
    pub(super) is_final: bool,
}

impl AttemptFailure {
    /// Whether it says something of the upstream.
    pub(super) fn is_upstreams(&self) -> bool {
        !(self.is_final && self.cause == Cause::Connect)
    }

    /// The status to respond with.
    fn response_status(&self) -> u16 {
        match self.cause {
            Cause::Connect if self.is_final => 503,
            Cause::ConnectTimeout | Cause::FirstByteTimeout => 504,
            _ => 502,
        }
    }
}

impl Forward<'_, '_> {
    pub(super) fn refuse_body(&mut self, error: &BodyError) {
        match error.refusal() {
            Some(refusal) if !self.exchange.responded() => {
                self.respond(refusal.status, refusal.name, &refusal.detail, None);
            }
            Some(refusal) => self.exchange.abort(refusal.name),
            None => self.exchange.abort("client_closed"),
        }
    }

    pub(super) fn refuse_entrance(&mut self, refused: GateError) {
        let name = self.upstream.name();
        let (reason, sentence) = match refused {
            GateError::OutOfTime => {
                let limit = self.settings.timeouts.whole.unwrap_or_default();
                let sentence = format!(
                    "Upstream {name} is at its limit: no slot became free within the call timeout of {limit:?}."
                );
                return self.respond(504, "timeout", &sentence, None);
            }
            GateError::QueueFull => {
                let CallLimits { in_flight, queue, .. } = self.settings.limits;
                let calls = in_flight.map_or_else(String::new, |calls| format!("{calls} calls, "));
                ("queue_full", format!("Upstream {name} is at its limit ({calls}{queue} queued)."))
            }
            GateError::Waited(limit) => (
                "queue_timeout",
                format!("Upstream {name} is at its limit: no slot became free within {limit:?}."),
            ),
        };
        self.refuse_for_now(reason, &sentence, Duration::from_secs(1));
    }

    pub(super) fn refuse_without_endpoint(&mut self) {
        let why = match self.upstream.discovery().trouble() {
            Some(trouble) => format!("its name lookup failed: {}", trouble.sentence),
            None => "none is known".to_owned(),
        };
        let sentence = format!("Upstream {} has no endpoint to call: {why}.", self.upstream.name());
        self.refuse_for_now("no_endpoint", &sentence, Duration::from_secs(1));
    }

    /// The breaker does not let it through.
    pub(super) fn refuse_open(&mut self, retry_after: Duration) {
        let sentence =
            format!("Upstream {} has failed repeatedly, and its breaker is open.", self.upstream.name());
        self.refuse_for_now("breaker_open", &sentence, retry_after);
    }

    /// 503, with when it may pass.
    fn refuse_for_now(&mut self, reason: &'static str, sentence: &str, after: Duration) {
        // Rounded up: not before.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        let seconds = seconds.max(1).to_string();
        self.respond(503, reason, sentence, Some(("Retry-After", seconds.as_bytes())));
    }

    /// An error of ours, which may say what it cost, too.
    fn respond(&mut self, status: u16, reason: &'static str, sentence: &str, field: Option<(&str, &[u8])>) {
        if !self.exchange.responded() {
            self.record.responded = status;
        }
        let timing = self.timing(reason);
        let timing = timing.as_ref().map(|timing| (SERVER_TIMING, timing.value()));
        match (field, timing) {
            (None, None) => respond_with_error(self.exchange, status, reason, sentence, &[]),
            (Some(one), None) | (None, Some(one)) => {
                respond_with_error(self.exchange, status, reason, sentence, &[one]);
            }
            (Some(one), Some(two)) => {
                respond_with_error(self.exchange, status, reason, sentence, &[one, two])
            }
        }
    }

    /// The failure is the response; what was begun is cut.
    pub(super) fn respond_with_failure(&mut self, failure: &AttemptFailure) {
        // What has not left yet need not be cut; nor can what the client has been given whole.
        if !self.exchange.take_back() && self.exchange.is_given() {
            tracing::warn!(upstream = %self.upstream.name(), reason = failure.name, "upstream {}", failure.sentence);
            return self.exchange.end();
        }
        let sentence = format!("Upstream {} {}.", self.upstream.name(), failure.sentence);
        match failure.response_status() {
            503 => self.refuse_for_now(failure.name, &sentence, Duration::from_secs(1)),
            status => self.respond(status, failure.name, &sentence, None),
        }
    }

    /// A response that cannot be passed on.
    pub(super) fn refuse_response(&mut self, bad: &BadField) {
        let sentence =
            format!("The response of upstream {} cannot be passed on: {bad}.", self.upstream.name());
        self.respond(502, "bad_field", &sentence, None);
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
        tracing::warn!(%upstream, %endpoint, cause, count, %id, "{story}");
    } else {
        tracing::debug!(%upstream, %endpoint, cause, count, %id, "{story}");
    }
}

/// 1, 10, 100 and so on.
fn is_round(mut count: u64) -> bool {
    while count > 1 && count.is_multiple_of(10) {
        count /= 10;
    }
    count == 1
}
