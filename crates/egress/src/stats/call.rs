//! What is kept of a call when it is over.

use std::time::{Duration, SystemTime};

use keepwarm_net::thread_index;
use keepwarm_serve::{CallRecord, Outcome, Request};
use keepwarm_telemetry::stalls::{self, Stall};
use keepwarm_telemetry::upstreams::FinishedCall;
use keepwarm_telemetry::{CallAccessRecord, CallFailure, CallPhases, RequestId, counters};

use super::CallLog;
use crate::Upstream;
use crate::endpoints::EndpointEntry;

/// A completed call, and the endpoint of its last attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompletedCall<'s> {
    pub(crate) upstream: &'s Upstream,
    /// The endpoint of its last attempt.
    pub(crate) endpoint: Option<&'s EndpointEntry>,
    /// Whether that attempt had a connection.
    pub(crate) connected: bool,
    pub(crate) record: &'s CallRecord,
    pub(crate) trace_id: [u8; 32],
    /// From the head of the request to the end of the response.
    pub(crate) elapsed: Duration,
}

/// Connections that are made in a row beyond twice those that are there, before it is said that none are kept: calls that come at once need as many.
const USUAL: u32 = 8;

impl CompletedCall<'_> {
    /// Counts it and writes its line. On the call's own thread.
    pub(crate) fn keep(&self, request: &mut Request) {
        self.measure();
        self.count_words(request);
        if self.was_not_kept() {
            request.notes.stalls.insert(Stall::HandshakePerCall);
        }
        let name = self.upstream.name();
        request.notes.stalls.iter().for_each(|stall| stalls::record(name, stall));
        if let Some(log) = &*self.upstream.stats().log.load() {
            self.write(log, request);
        }
    }

    fn measure(&self) {
        let name = self.upstream.name();
        let meter = match self.endpoint {
            Some(entry) => entry.state.stats().meter(name, entry.state.name()),
            None => self.upstream.stats().nowhere(name),
        };
        let record = self.record;
        meter.count(
            thread_index(),
            &FinishedCall {
                status: record.responded,
                elapsed: self.elapsed,
                first_byte: (record.status > 0).then_some(record.times.first_byte),
                reused: self.connected.then_some(record.reused.is_some()),
                sent: record.sent,
                received: record.received,
                hedged: record.hedged,
            },
        );
    }

    /// What went wrong, by name.
    fn count_words(&self, request: &Request) {
        let (record, name) = (self.record, self.upstream.name());
        if record.attempts == 0 {
            count_refusal(name, request);
        }
        // The last of them is the response, if no attempt came after it.
        let retried = record.failures.len().min((record.attempts as usize).saturating_sub(1));
        for (at, failed) in record.failures.iter().enumerate() {
            let family = if at < retried { &counters::CALL_RETRIES } else { &counters::CALL_FAILURES };
            family.count(name, failed.cause);
        }
        if let Some(entry) = self.endpoint
            && crate::forward::is_failure(record.status)
        {
            entry.state.stats().note_failure("status", format!("responded with {}", record.status));
        }
    }

    /// Whether connections to the endpoint are never there for the next call.
    fn was_not_kept(&self) -> bool {
        let Some(entry) = self.endpoint.filter(|_| self.connected) else { return false };
        let row = entry.state.stats().note_connection(self.record.reused.is_some());
        if row <= USUAL {
            return false;
        }
        let state = self.upstream.connections(Some(&entry.endpoint));
        let open = state.idle + state.in_use + state.dialling;
        row as usize > USUAL as usize + 2 * open
    }

    fn write(&self, log: &CallLog, request: &Request) {
        let record = self.record;
        let times = record.times;
        let line = CallAccessRecord {
            time: SystemTime::now(),
            upstream: self.upstream.name(),
            endpoint: record.endpoint.as_deref(),
            method: request.head.method.as_str(),
            target: request.head.target(),
            status: record.responded,
            sent: record.sent,
            received: record.received,
            elapsed: self.elapsed,
            phases: (record.attempts > 0).then_some(CallPhases {
                queue: times.queue,
                connect: times.connect,
                first_byte: times.first_byte,
                body: times.body,
            }),
            reused: self.connected.then_some(record.reused.is_some()),
            idle: record.reused,
            attempts: record.attempts,
            hedged: record.hedged,
            failures: record.failures.iter().map(|failed| CallFailure {
                endpoint: &failed.endpoint,
                cause: failed.cause,
                sentence: &failed.sentence,
            }),
            reason: request.notes.reason,
            id: RequestId::new(request.number()),
            app_request_id: request.head.fields.first("x-request-id"),
            trace_id: (record.attempts > 0).then_some(self.trace_id),
        };
        log.sink.append(|out| line.write(log.format, out));
    }
}

/// Counts a call that got Keepwarm's own response before any endpoint was tried.
fn count_refusal(upstream: &str, request: &Request) {
    if let Some(reason) = request.notes.reason {
        counters::CALL_REFUSALS.count(upstream, reason);
    }
}

impl Upstream {
    /// A request at one of its doors has ended without having become a call.
    pub(crate) fn note_refused(&self, request: &Request, outcome: &Outcome) {
        count_refusal(self.name(), request);
        let Some(log) = &*self.stats().log.load() else { return };
        let line = CallAccessRecord {
            time: SystemTime::now(),
            upstream: self.name(),
            endpoint: None,
            method: request.head.method.as_str(),
            target: request.head.target(),
            status: outcome.status,
            sent: 0,
            received: 0,
            elapsed: outcome.elapsed,
            phases: None,
            reused: None,
            idle: None,
            attempts: 0,
            hedged: false,
            failures: std::iter::empty(),
            reason: request.notes.reason,
            id: RequestId::new(request.number()),
            app_request_id: request.head.fields.first("x-request-id"),
            trace_id: None,
        };
        log.sink.append(|out| line.write(log.format, out));
    }
}
