//! The access-log line of a call to an upstream.

use std::time::{Duration, SystemTime};

use super::{push_member, push_number, push_or_dash, push_seconds, push_status};
use crate::escape::{push_json, push_text};
use crate::terminal::{self, Paint};
use crate::{Format, RequestId, timestamp};

/// The access-log record of a call. Borrows everything; writing it allocates nothing once `out` has grown.
#[derive(Debug, Clone)]
pub struct CallAccessRecord<'a, F> {
    /// When it was over.
    pub time: SystemTime,
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The endpoint of the last attempt; none when there was no attempt.
    pub endpoint: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// The target as received; empty: the head could not be read, and the method says nothing.
    pub target: &'a [u8],
    /// The status of the response to the caller; 0: none.
    pub status: u16,
    /// Bytes of the request's body.
    pub sent: u64,
    /// Bytes of the response's body.
    pub received: u64,
    /// From the first byte of the call's head to the end of its response.
    pub elapsed: Duration,
    /// Its phases; none if no endpoint was tried.
    pub phases: Option<CallPhases>,
    /// Whether the connection of the last attempt was kept from another call; none when there was none.
    pub reused: Option<bool>,
    /// How long it had been idle, when it was kept.
    pub idle: Option<Duration>,
    /// How often the call was given to an endpoint.
    pub attempts: u32,
    /// A second attempt was sent beside the first.
    pub hedged: bool,
    /// The attempts that failed, in order.
    pub failures: F,
    /// Why Keepwarm itself responded or truncated it; a stable name.
    pub reason: Option<&'a str>,
    /// The id of the call.
    pub id: RequestId,
    /// The `X-Request-Id` that the app sent with it: that of the request it works on.
    pub app_request_id: Option<&'a [u8]>,
    /// The digits of the id of the trace it is part of; none when it was not passed on.
    pub trace_id: Option<[u8; 32]>,
}

/// Duration of the phases of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallPhases {
    /// Waiting in the queue, and failed attempts.
    pub queue: Duration,
    /// Getting a connection.
    pub connect: Duration,
    /// Until the first byte of the response.
    pub first_byte: Duration,
    /// The rest of the response.
    pub body: Duration,
}

impl CallPhases {
    fn named(&self) -> [(&'static str, Duration); 4] {
        let Self { queue, connect, first_byte, body } = *self;
        [
            ("queue_seconds", queue),
            ("connect_seconds", connect),
            ("first_byte_seconds", first_byte),
            ("body_seconds", body),
        ]
    }
}

/// An attempt that failed.
#[derive(Debug, Clone, Copy)]
pub struct CallFailure<'a> {
    /// At which endpoint.
    pub endpoint: &'a str,
    /// A stable name of why.
    pub cause: &'a str,
    /// The cause as a sentence, after "upstream".
    pub sentence: &'a str,
}

impl<'f, F: Iterator<Item = CallFailure<'f>>> CallAccessRecord<'_, F> {
    /// Appends the record and a line end.
    pub fn write(self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Text => self.write_text(out),
            Format::Json => self.write_json(out),
            Format::Terminal { color } => self.write_to_terminal(out, color),
        }
    }

    /// Method and target; none of a head that could not be read.
    fn request(&self) -> Option<(&str, &[u8])> {
        (!self.target.is_empty()).then_some((self.method, self.target))
    }

    /// What a person at a terminal looks for.
    ///
    /// ```text
    /// 14:03:07 200 search GET /a?b 12 ms
    /// ```
    fn write_to_terminal(self, out: &mut Vec<u8>, color: bool) {
        terminal::push_clock(out, self.time, color);
        push_status(out, self.status, color);
        out.push(b' ');
        Paint::Bold.over(out, color, |out| push_text(out, self.upstream.as_bytes()));
        out.push(b' ');
        match self.request() {
            None => out.push(b'-'),
            Some((method, target)) => {
                push_text(out, method.as_bytes());
                out.push(b' ');
                push_text(out, target);
            }
        }
        super::push_time(out, self.elapsed, color);
        if let Some(reason) = self.reason {
            out.push(b' ');
            Paint::Yellow.over(out, color, |out| push_text(out, reason.as_bytes()));
        }
        out.push(b'\n');
    }

    /// Columns: upstream, endpoint, time, call, status, bytes sent and received, seconds, of these in the queue, for the connection, to the first byte and for
    /// the rest; connection (`new`, or `reused` and the seconds it was idle), attempts, failures, reason, the call's id, that of the app's request, that of the trace.
    ///
    /// ```text
    /// search 10.0.0.7:9243 [2026-01-01T00:00:00.000Z] "GET /a?b" 200 0 5 0.012300 0.000010 0.000002 0.012000 0.000288 reused/1.200000 1 "-" - 5a…01 - 5a…01
    /// ```
    fn write_text(self, out: &mut Vec<u8>) {
        push_text(out, self.upstream.as_bytes());
        out.push(b' ');
        push_or_dash(out, self.endpoint.unwrap_or_default().as_bytes());
        out.extend_from_slice(b" [");
        out.extend_from_slice(&timestamp(self.time));
        out.extend_from_slice(b"] \"");
        match self.request() {
            None => out.push(b'-'),
            Some((method, target)) => {
                push_text(out, method.as_bytes());
                out.push(b' ');
                push_text(out, target);
            }
        }
        out.extend_from_slice(b"\" ");
        match self.status {
            0 => out.push(b'-'),
            status => push_number(out, status.into()),
        }
        for number in [self.sent, self.received] {
            out.push(b' ');
            push_number(out, number);
        }
        out.push(b' ');
        push_seconds(out, self.elapsed);
        match &self.phases {
            None => out.extend_from_slice(b" - - - -"),
            Some(phases) => phases.named().iter().for_each(|(_, time)| {
                out.push(b' ');
                push_seconds(out, *time);
            }),
        }
        out.extend_from_slice(match self.reused {
            None => b" -",
            Some(false) => b" new",
            Some(true) => b" reused/",
        });
        if self.reused == Some(true) {
            push_seconds(out, self.idle.unwrap_or_default());
        }
        out.push(b' ');
        push_number(out, self.attempts.into());
        out.extend_from_slice(if self.hedged { b"+hedge \"" } else { b" \"" });
        push_failures(out, self.failures);
        out.extend_from_slice(b"\" ");
        push_or_dash(out, self.reason.unwrap_or_default().as_bytes());
        out.push(b' ');
        out.extend_from_slice(&self.id.digits());
        out.push(b' ');
        push_or_dash(out, self.app_request_id.unwrap_or_default());
        out.push(b' ');
        push_or_dash(out, self.trace_id.as_ref().map_or(&[], |trace| trace.as_slice()));
        out.push(b'\n');
    }

    /// One JSON object; absent values are left out.
    fn write_json(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(&timestamp(self.time));
        out.push(b'"');
        push_member(out, "upstream", self.upstream.as_bytes());
        push_member(out, "endpoint", self.endpoint.unwrap_or_default().as_bytes());
        if let Some((method, target)) = self.request() {
            push_member(out, "method", method.as_bytes());
            push_member(out, "target", target);
        }
        if self.status != 0 {
            push_count(out, "status", self.status.into());
        }
        push_count(out, "sent_bytes", self.sent);
        push_count(out, "received_bytes", self.received);
        push_time(out, "seconds", self.elapsed);
        for (name, time) in self.phases.iter().flat_map(CallPhases::named) {
            push_time(out, name, time);
        }
        if let Some(reused) = self.reused {
            out.extend_from_slice(if reused { b",\"reused\":true" } else { b",\"reused\":false" });
        }
        if let Some(idle) = self.idle.filter(|_| self.reused == Some(true)) {
            push_time(out, "idle_seconds", idle);
        }
        push_count(out, "attempts", self.attempts.into());
        if self.hedged {
            out.extend_from_slice(b",\"hedged\":true");
        }
        push_failure_objects(out, self.failures);
        push_member(out, "reason", self.reason.unwrap_or_default().as_bytes());
        push_member(out, "request_id", &self.id.digits());
        push_member(out, "app_request_id", self.app_request_id.unwrap_or_default());
        push_member(out, "trace_id", self.trace_id.as_ref().map_or(&[], |trace| trace.as_slice()));
        out.extend_from_slice(b"}\n");
    }
}

/// `ENDPOINT CAUSE: upstream SENTENCE; …`, or a dash.
fn push_failures<'f>(out: &mut Vec<u8>, failures: impl Iterator<Item = CallFailure<'f>>) {
    let mut any = false;
    for failure in failures {
        if any {
            out.extend_from_slice(b"; ");
        }
        any = true;
        push_text(out, failure.endpoint.as_bytes());
        out.push(b' ');
        push_text(out, failure.cause.as_bytes());
        out.extend_from_slice(b": upstream ");
        push_text(out, failure.sentence.as_bytes());
    }
    if !any {
        out.push(b'-');
    }
}

fn push_failure_objects<'f>(out: &mut Vec<u8>, failures: impl Iterator<Item = CallFailure<'f>>) {
    let mut any = false;
    for failure in failures {
        out.extend_from_slice(if any { b",{\"endpoint\":\"" } else { b",\"failures\":[{\"endpoint\":\"" });
        any = true;
        push_json(out, failure.endpoint.as_bytes());
        out.push(b'"');
        push_member(out, "cause", failure.cause.as_bytes());
        out.extend_from_slice(b",\"sentence\":\"upstream ");
        push_json(out, failure.sentence.as_bytes());
        out.extend_from_slice(b"\"}");
    }
    if any {
        out.push(b']');
    }
}

fn push_count(out: &mut Vec<u8>, name: &str, count: u64) {
    push_name(out, name);
    push_number(out, count);
}

fn push_time(out: &mut Vec<u8>, name: &str, time: Duration) {
    push_name(out, name);
    push_seconds(out, time);
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

#[cfg(test)]
mod tests;
