//! The access log: one line for each request, and one for each call to an upstream.

mod call;

use std::time::{Duration, SystemTime};

use crate::escape::{push_json, push_text};
use crate::terminal::{self, Paint};
use crate::{Format, RequestId, timestamp};

pub use call::{CallAccessRecord, CallFailure, CallPhases};

/// The access-log record of a request. Borrows everything; writing it allocates nothing once `out` has grown.
#[derive(Debug, Clone)]
pub struct AccessRecord<'a> {
    /// When its response was complete, or its connection lost.
    pub time: SystemTime,
    /// The client's address; empty on a Unix socket.
    pub client: &'a str,
    /// The user that the route has authenticated.
    pub user: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// The target as received; empty when the head could not be read.
    pub target: &'a [u8],
    /// Such as `HTTP/1.1`.
    pub version: &'a str,
    /// The status sent; 0 when none was.
    pub status: u16,
    /// Body bytes given to the socket.
    pub body_bytes: u64,
    /// From the first byte of the head to the last byte of the response.
    pub elapsed: Duration,
    /// The app that responded, or the kind of route.
    pub route: Option<&'a str>,
    /// The request's id.
    pub id: RequestId,
    /// Why it was refused, cut or retried; a stable name.
    pub reason: Option<&'a str>,
    /// The id of its trace, where requests are traced.
    pub trace_id: Option<[u8; 32]>,
    /// `Referer`
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`
    pub user_agent: Option<&'a [u8]>,
}

impl AccessRecord<'_> {
    /// Appends the record and a line end.
    pub fn write(&self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Text => self.write_text(out),
            Format::Json => self.write_json(out),
            Format::Terminal { color } => self.write_to_terminal(out, color),
        }
    }

    /// What a person at a terminal looks for; everything else is in the other formats.
    ///
    /// ```text
    /// 14:03:07 200 GET /a?b 0.2 ms
    /// 14:03:09 504 GET /report 30 s slow request_timeout
    /// ```
    fn write_to_terminal(&self, out: &mut Vec<u8>, color: bool) {
        terminal::push_clock(out, self.time, color);
        push_status(out, self.status, color);
        out.push(b' ');
        if self.target.is_empty() {
            out.push(b'-');
        } else {
            push_text(out, self.method.as_bytes());
            out.push(b' ');
            push_text(out, self.target);
        }
        push_time(out, self.elapsed, color);
        if let Some(reason) = self.reason {
            out.push(b' ');
            Paint::Yellow.over(out, color, |out| push_text(out, reason.as_bytes()));
        }
        out.push(b'\n');
    }

    /// The combined log format of NCSA and Apache, with a time of RFC 3339, and four more columns: seconds, route, reason, request id.
    ///
    /// ```text
    /// 203.0.113.7 - - [2026-01-01T00:00:00.000Z] "GET /a?b HTTP/1.1" 200 5 "-" "curl/8.5.0" 0.000213 shop - 5a…01
    /// ```
    ///
    /// Absent values are `-`. Bytes of the client are escaped by [`push_text`].
    fn write_text(&self, out: &mut Vec<u8>) {
        push_or_dash(out, self.client.as_bytes());
        out.extend_from_slice(b" - ");
        push_user(out, self.user.unwrap_or_default());
        out.extend_from_slice(b" [");
        out.extend_from_slice(&timestamp(self.time));
        out.extend_from_slice(b"] \"");
        if self.target.is_empty() {
            out.push(b'-');
        } else {
            push_text(out, self.method.as_bytes());
            out.push(b' ');
            push_text(out, self.target);
            out.push(b' ');
            out.extend_from_slice(self.version.as_bytes());
        }
        out.extend_from_slice(b"\" ");
        match self.status {
            0 => out.push(b'-'),
            status => push_number(out, status.into()),
        }
        out.push(b' ');
        push_number(out, self.body_bytes);
        for value in [self.referer, self.user_agent] {
            out.extend_from_slice(b" \"");
            push_or_dash(out, value.unwrap_or_default());
            out.push(b'"');
        }
        out.push(b' ');
        push_seconds(out, self.elapsed);
        for name in [self.route, self.reason] {
            out.push(b' ');
            push_or_dash(out, name.unwrap_or_default().as_bytes());
        }
        out.push(b' ');
        out.extend_from_slice(&self.id.digits());
        out.push(b'\n');
    }

    /// One JSON object; absent values are left out.
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(&timestamp(self.time));
        out.push(b'"');
        push_member(out, "client", self.client.as_bytes());
        push_member(out, "user", self.user.unwrap_or_default().as_bytes());
        if !self.target.is_empty() {
            push_member(out, "method", self.method.as_bytes());
            push_member(out, "target", self.target);
            push_member(out, "version", self.version.as_bytes());
        }
        if self.status != 0 {
            out.extend_from_slice(b",\"status\":");
            push_number(out, self.status.into());
        }
        out.extend_from_slice(b",\"bytes\":");
        push_number(out, self.body_bytes);
        out.extend_from_slice(b",\"seconds\":");
        push_seconds(out, self.elapsed);
        push_member(out, "referer", self.referer.unwrap_or_default());
        push_member(out, "user_agent", self.user_agent.unwrap_or_default());
        push_member(out, "route", self.route.unwrap_or_default().as_bytes());
        push_member(out, "reason", self.reason.unwrap_or_default().as_bytes());
        push_member(out, "request_id", &self.id.digits());
        push_member(out, "trace_id", self.trace_id.as_ref().map_or(&[], |id| id.as_slice()));
        out.extend_from_slice(b"}\n");
    }
}

/// A response's status for a person; `---` where there was none.
fn push_status(out: &mut Vec<u8>, status: u16, color: bool) {
    Paint::of_status(status).over(out, color, |out| match status {
        0 => out.extend_from_slice(b"---"),
        status => push_number(out, status.into()),
    });
}

/// A request's time for a person, marked where it was slow.
fn push_time(out: &mut Vec<u8>, elapsed: Duration, color: bool) {
    let is_slow = elapsed >= terminal::SLOW;
    out.push(b' ');
    let paint = if is_slow { Paint::Yellow } else { Paint::Dim };
    paint.over(out, color, |out| {
        terminal::push_elapsed(out, elapsed);
        if is_slow {
            out.extend_from_slice(b" slow");
        }
    });
}

/// One column: a space in a name would begin the next.
fn push_user(out: &mut Vec<u8>, user: &str) {
    if user.is_empty() {
        return out.push(b'-');
    }
    for (number, word) in user.split(' ').enumerate() {
        if number > 0 {
            out.extend_from_slice(b"\\x20");
        }
        push_text(out, word.as_bytes());
    }
}

fn push_or_dash(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes {
        [] => out.push(b'-'),
        _ => push_text(out, bytes),
    }
}

fn push_member(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    push_json(out, value);
    out.push(b'"');
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Seconds with six places.
fn push_seconds(out: &mut Vec<u8>, elapsed: Duration) {
    if elapsed.as_secs() > 9 {
        push_number(out, elapsed.as_secs() / 10);
    }
    let mut text = *b"0.000000";
    let [units, _, places @ ..] = &mut text;
    *units += (elapsed.as_secs() % 10) as u8;
    let mut micros = elapsed.subsec_micros();
    for place in places.iter_mut().rev() {
        *place += (micros % 10) as u8;
        micros /= 10;
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests;
