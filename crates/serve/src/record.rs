//! The record of a call to an upstream: for the access log, metrics and `Server-Timing`.

use std::sync::Arc;
use std::time::Duration;

use keepwarm_telemetry::CallPhases;
use keepwarm_telemetry::timelines::CallTimeline;
use tokio::time::Instant;

/// A call to an upstream, through all its attempts. Filled in by `egress`, read by counters and logs.
#[derive(Debug, Clone, Default)]
pub struct CallRecord {
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// The endpoint of the last attempt; none when there was no attempt.
    pub endpoint: Option<Arc<str>>,
    /// How long the connection of the last attempt had been idle; none when it was new (though prewarmed), or there was none.
    pub reused: Option<Duration>,
    /// Attempts to send the call to an endpoint.
    pub attempts: u32,
    /// The attempts that failed, in order.
    pub failures: Vec<FailedAttempt>,
    /// A hedge was sent beside the first attempt, which was slow.
    pub hedged: bool,
    /// Where the time went.
    pub times: CallTimes,
    /// The upstream's status; 0 when it sent none.
    pub status: u16,
    /// The status that the caller got: the upstream's, or one of ours; 0: none.
    pub responded: u16,
    /// Bytes of the request's body.
    pub sent: u64,
    /// Bytes of the response's body.
    pub received: u64,
}

/// An attempt that failed.
#[derive(Debug, Clone)]
pub struct FailedAttempt {
    /// At which endpoint.
    pub endpoint: Arc<str>,
    /// A stable name of the cause.
    pub cause: &'static str,
    /// The same for a person; continues "upstream".
    pub sentence: String,
}

/// Where the time of a call went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// Waiting for a slot among the calls in flight, back-off between attempts and failed attempts included.
    pub queue: Duration,
    /// Getting a connection, in the last attempt: close to zero when one was kept.
    pub connect: Duration,
    /// From the connection to the head of the response.
    pub first_byte: Duration,
    /// From the head to the end.
    pub body: Duration,
}

impl CallRecord {
    /// The same as a part of the request that caused it. `start`: when it was received; `reason`: why its response is not what it might have been.
    #[must_use]
    pub fn timeline(&self, start: Instant, reason: Option<&'static str>) -> CallTimeline {
        let CallTimes { queue, connect, first_byte, body } = self.times;
        let failed = self.failures.last().map(|failed| failed.cause);
        CallTimeline {
            upstream: Arc::clone(&self.upstream),
            endpoint: self.endpoint.clone(),
            start: start.into_std(),
            elapsed: queue + connect + first_byte + body,
            phases: (self.attempts > 0).then_some(CallPhases { queue, connect, first_byte, body }),
            status: self.responded,
            failure: failed.or(reason.filter(|_| self.status == 0)),
            attempts: self.attempts,
        }
    }

    /// The summary for a person: what failed, and how it ended. None when nothing failed.
    #[must_use]
    pub fn story(&self) -> Option<String> {
        let mut story = String::new();
        for (at, failed) in self.failures.iter().enumerate() {
            let again = if at == 0 { "upstream " } else { "; retried: " };
            story.push_str(again);
            story.push_str(&failed.sentence);
        }
        if story.is_empty() {
            return None;
        }
        if self.status > 0 && self.failures.len() < self.attempts as usize {
            let on = if self.reused.is_some() { "another connection" } else { "a new one" };
            let how = if self.status < 500 { "ok".to_owned() } else { self.status.to_string() };
            story.push_str(&format!("; retried on {on}: {how}"));
        }
        Some(story)
    }
}
