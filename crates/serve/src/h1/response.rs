//! Writes a response: its framing, what waits for what, and when it leaves (`spec/http.md` §1, §6).

use std::future::Future;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use keepwarm_http1::{
    AppFields, BadField, CHUNK_TAIL, Fields, LAST_CHUNK, Plan, ResponseFacts, ResponseFraming,
    ResponseLength, Version, encode_chunk_head, encode_informational, encode_response_head, encode_trailers,
    plan, scan_app_fields,
};
use keepwarm_net::{WaitKind, WriteProgress, http_date, now};
use keepwarm_telemetry::stalls::Stall;

use super::stream::{PendingHead, ResponseState, Stream};
use crate::ClientLoss;
use crate::exchange::{FieldRef, response_length};

/// How long a head waits for a body due at once, and a body for its end.
const HOLD: Duration = Duration::from_millis(2);
/// A body of known length up to this size is waited for.
const HOLD_LENGTH: u64 = 16 * 1024;
/// An HTTP/1.0 body of unknown length is held up to this many bytes.
const HOLD_BYTES: usize = 64 * 1024;
/// An unread rest of a request's body up to this size is read so that the connection can be kept.
pub(super) const DRAIN_BODY: u64 = 64 * 1024;

impl Stream {
    pub(crate) fn informational<'a>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        // RFC 9110 §15.2: never to an HTTP/1.0 client.
        // Nor buffered without a bound for a client that does not take them.
        let wanted =
            self.request.head.version >= Version::Http11 && self.storage.out.len() < crate::UNSENT_ENOUGH;
        if wanted && matches!(self.state.response, ResponseState::None) {
            encode_informational(&mut self.storage.out.head, status, fields);
        }
    }

    /// Begins the response.
    pub(crate) fn begin_response(
        &mut self,
        status: u16,
        length: Option<u64>,
        close: bool,
        fields: &[FieldRef<'_>],
    ) -> Result<AppFields, BadField> {
        let app = scan_app_fields(fields.iter().copied())?;
        if !matches!(self.state.response, ResponseState::None) {
            return Ok(app);
        }
        let bodiless = self.state.facts.is_head || matches!(status, 204 | 304);
        let length = response_length(app.content_length, length, bodiless, self.state.from_upstream);
        let asked = close || app.close;
        let close = asked || self.must_close() || self.body_forces_close();
        self.state.status = status;
        // RFC 9110 §6.5.1: trailers only for a client that accepts them. `Trailer` is not required (§6.6.2), but without it a known length is kept.
        let takes_trailers = self.request.head.fields.has_token("te", "trailers");
        let facts = self.response_facts(status, length, close, takes_trailers && app.announces_trailers);
        let mut decided = plan(self.state.facts, facts);
        decided.trailers = takes_trailers && decided.framing == ResponseFraming::Chunked;
        // HTTP/1.0 that could be kept if the length were known.
        if decided.framing == ResponseFraming::UntilClose && !close && self.state.facts.keep_alive {
            let mut copy = Fields::new();
            fields.iter().for_each(|&(name, value)| copy.push(name, value));
            let held = PendingHead { status, fields: copy, has_date: app.has_date };
            self.state.response = ResponseState::Pending(Box::new(held));
            self.hold();
            return Ok(app);
        }
        self.note_close(&decided, asked);
        self.write_head(status, decided, app.has_date, fields.iter().copied());
        Ok(app)
    }

    /// An HTTP/1.0 client whose connection ends, although the handler did not announce it.
    fn note_close(&mut self, decided: &Plan, asked: bool) {
        if !decided.keep && !asked && self.request.head.version == Version::Http10 {
            self.request.notes.stalls.insert(Stall::CloseAdded);
        }
    }

    fn response_facts(
        &self,
        status: u16,
        length: ResponseLength,
        close: bool,
        trailers: bool,
    ) -> ResponseFacts {
        let idle = self.context.limits.idle.as_secs();
        ResponseFacts {
            status,
            length,
            close,
            first_on_connection: self.served == 0,
            idle_timeout_secs: u16::try_from(idle).unwrap_or(u16::MAX),
            trailers,
        }
    }

    /// For a response that comes before the request's body was read: is the rest worth reading to keep the connection?
    fn body_forces_close(&self) -> bool {
        if self.state.body_done {
            return false;
        }
        match self.request.head.body {
            keepwarm_http1::RequestBody::None => false,
            // The client may or may not send it now (RFC 9110 §10.1.1): the connection cannot be used again.
            _ if self.awaits_continue() => true,
            keepwarm_http1::RequestBody::Length(length) => {
                length.saturating_sub(self.state.body_received) > DRAIN_BODY
            }
            // The remaining length is unknown, unless all of it has arrived.
            keepwarm_http1::RequestBody::Chunked => !self.decoder.ends_within(self.storage.read.unread()),
        }
    }

    fn write_head<'a>(
        &mut self,
        status: u16,
        decided: Plan,
        has_date: bool,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        let date = http_date();
        self.state.head_at = self.storage.out.head.len();
        encode_response_head(
            &mut self.storage.out.head,
            status,
            &decided,
            fields,
            if has_date { None } else { Some(&date) },
        );
        let remaining = match decided.framing {
            ResponseFraming::Length(length) => length,
            _ => 0,
        };
        self.state.response = ResponseState::Started { plan: decided, remaining, flushed: false };
    }

    /// `101`, with these fields: later bytes are another protocol's (RFC 9110 §7.8).
    pub(crate) fn switch_protocols(&mut self, protocol: &[u8], fields: &Fields) -> Result<(), BadField> {
        scan_app_fields(fields.iter())?;
        let ours: [(&[u8], &[u8]); 1] = [(b"Upgrade", protocol)];
        let theirs = fields.iter().filter(|(name, _)| *name != b"upgrade");
        let decided = plan(self.state.facts, self.response_facts(101, ResponseLength::Absent, false, false));
        encode_response_head(&mut self.storage.out.head, 101, &decided, ours.into_iter().chain(theirs), None);
        self.state.status = 101;
        self.state.response = ResponseState::Switched;
        Ok(())
    }

    /// `200` to `CONNECT`: later bytes are the tunnel's; no field frames them (RFC 9110 §9.3.6).
    pub(crate) fn accept_connect(&mut self, fields: &Fields) -> Result<(), BadField> {
        scan_app_fields(fields.iter())?;
        let decided = plan(self.state.facts, self.response_facts(200, ResponseLength::Absent, false, false));
        encode_response_head(&mut self.storage.out.head, 200, &decided, fields.iter(), None);
        self.state.status = 200;
        self.state.response = ResponseState::Switched;
        Ok(())
    }

    pub(crate) fn data(&mut self, bytes: &[u8]) {
        let out = &mut self.storage.out.body;
        match &mut self.state.response {
            ResponseState::Pending(_) => {
                out.extend_from_slice(bytes);
                if out.len() > HOLD_BYTES {
                    self.release_held(None);
                } else {
                    self.hold();
                }
            }
            ResponseState::Started { plan, remaining, .. } if plan.send_body && !bytes.is_empty() => {
                match plan.framing {
                    ResponseFraming::Length(_) => {
                        let fits = usize::try_from(*remaining).unwrap_or(usize::MAX).min(bytes.len());
                        out.extend_from_slice(bytes.get(..fits).unwrap_or_default());
                        *remaining -= fits as u64;
                        if fits < bytes.len() {
                            self.request.notes.reason.get_or_insert("body_too_long");
                        }
                        self.state.body_sent += fits as u64;
                        return;
                    }
                    ResponseFraming::Chunked => {
                        encode_chunk_head(out, bytes.len());
                        out.extend_from_slice(bytes);
                        out.extend_from_slice(CHUNK_TAIL);
                    }
                    ResponseFraming::UntilClose => out.extend_from_slice(bytes),
                    ResponseFraming::None => return,
                }
                self.state.body_sent += bytes.len() as u64;
            }
            _ => {}
        }
    }

    pub(crate) fn end(&mut self) {
        self.end_with_trailers(std::iter::empty());
    }

    pub(crate) fn end_with_trailers<'a>(&mut self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        if let ResponseState::Pending(_) = self.state.response {
            self.release_held(Some(self.storage.out.body.len() as u64));
        }
        let ResponseState::Started { plan, remaining, .. } = &self.state.response else { return };
        if plan.send_body && *remaining > 0 {
            self.abort("body_too_short");
            return;
        }
        if plan.send_body && plan.framing == ResponseFraming::Chunked {
            let mut fields = fields.peekable();
            match fields.peek() {
                Some(_) if plan.trailers => encode_trailers(&mut self.storage.out.body, fields),
                _ => self.storage.out.body.extend_from_slice(LAST_CHUNK),
            }
        }
        self.state.response = ResponseState::Ended { keep: plan.keep };
        self.state.hold = None;
    }

    /// Releases a held response: with the length of its whole body, or as a stream.
    fn release_held(&mut self, length: Option<u64>) {
        let held = match std::mem::replace(&mut self.state.response, ResponseState::None) {
            ResponseState::Pending(held) => held,
            other => {
                self.state.response = other;
                return;
            }
        };
        self.state.hold = None;
        let length = length.map_or(ResponseLength::Unknown, ResponseLength::Known);
        let facts = self.response_facts(held.status, length, self.must_close(), false);
        let decided = plan(self.state.facts, facts);
        self.note_close(&decided, false);
        // The body is in the buffer already, and needs no framing of its own: 1.0 has none.
        let body = self.storage.out.body.len() as u64;
        self.state.body_sent += body;
        self.write_head(held.status, decided, held.has_date, held.fields.iter());
        if let ResponseState::Started { remaining, .. } = &mut self.state.response {
            *remaining = remaining.saturating_sub(body);
        }
    }

    pub(crate) fn abort(&mut self, reason: &'static str) {
        if !self.over() {
            self.request.notes.reason.get_or_insert(reason);
            self.state.shows_cut = match &self.state.response {
                ResponseState::Started { plan, .. } => {
                    matches!(plan.framing, ResponseFraming::Length(_) | ResponseFraming::Chunked)
                }
                _ => true,
            };
            self.state.response = ResponseState::Cut;
            self.state.hold = None;
        }
    }

    /// Takes back a response of which nothing has been written.
    pub(crate) fn take_back(&mut self) -> bool {
        match self.state.response {
            ResponseState::Pending(_) => {}
            ResponseState::Started { flushed: false, .. } => {
                self.storage.out.head.truncate(self.state.head_at)
            }
            _ => return false,
        }
        // A response that has not begun has no body.
        self.storage.out.body.clear();
        self.state.response = ResponseState::None;
        (self.state.status, self.state.body_sent, self.state.from_upstream) = (0, 0, false);
        self.state.hold = None;
        self.request.notes.reason = None;
        true
    }

    pub(crate) fn is_given(&self) -> bool {
        let ResponseState::Started { plan, remaining: 0, .. } = &self.state.response else { return false };
        !plan.send_body || matches!(plan.framing, ResponseFraming::Length(_))
    }

    /// (Re)starts the 2 ms in which more may come.
    fn hold(&mut self) {
        let until = tokio::time::Instant::now() + HOLD;
        match &mut self.state.hold {
            Some(timer) => timer.as_mut().reset(until),
            None => self.state.hold = Some(Box::pin(tokio::time::sleep_until(until))),
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>> {
        if let Some(gone) = self.broken {
            return Poll::Ready(Err(gone));
        }
        let due = self.body_is_due();
        if due && self.state.hold.is_none() {
            self.hold();
        }
        let held = matches!(self.state.response, ResponseState::Pending(_));
        if let Some(timer) = &mut self.state.hold {
            if due || held {
                ready!(timer.as_mut().poll(cx));
            }
            self.state.hold = None;
            self.release_held(None);
        }
        if let ResponseState::Started { flushed, .. } = &mut self.state.response {
            *flushed = true;
        }
        self.poll_write_out(cx)
    }

    /// Nothing has left yet, and a short body, or a first chunk, should follow the head at once.
    fn body_is_due(&self) -> bool {
        let ResponseState::Started { plan, flushed: false, remaining } = &self.state.response else {
            return false;
        };
        if !plan.send_body {
            return false;
        }
        match plan.framing {
            ResponseFraming::Length(length) => length <= HOLD_LENGTH && *remaining > 0,
            ResponseFraming::Chunked => self.storage.out.body.is_empty(),
            ResponseFraming::UntilClose | ResponseFraming::None => false,
        }
    }

    /// Writes the buffers out.
    pub(super) fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>> {
        while !self.storage.out.is_empty() || self.io.unsent() > 0 {
            let (slices, count) = self.storage.out.slices();
            match self.io.poll_write(cx, slices.get(..count).unwrap_or_default()) {
                Poll::Ready(Err(_)) => return Poll::Ready(Err(self.lost(ClientLoss::Reset))),
                Poll::Ready(Ok(WriteProgress { taken, left })) => {
                    self.storage.out.advance(taken);
                    // Under TLS the socket may have taken nothing yet.
                    if left > 0 {
                        self.note_written(left);
                    }
                }
                Poll::Pending => return self.poll_write_deadline(cx),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The socket has taken bytes.
    pub(super) fn note_written(&mut self, count: usize) {
        self.cells.sent.add(count as u64);
        self.state.drain_rate.handle_progress(now().into_std(), count);
        self.deadlines.set(WaitKind::Write, None);
    }

    /// The client takes nothing now: it may do so for as long as the limits say.
    pub(super) fn poll_write_deadline<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, ClientLoss>> {
        if self.deadlines.poll_passed(WaitKind::Write, cx) {
            return Poll::Ready(Err(self.lost(ClientLoss::TooSlow)));
        }
        self.set_write_deadline();
        Poll::Pending
    }

    fn set_write_deadline(&mut self) {
        let now = now();
        let stalled = now.checked_add(self.context.limits.write_timeout);
        let slow: Option<tokio::time::Instant> =
            self.state.drain_rate.handle_wait(now.into_std()).map(Into::into);
        // A running deadline stays: it counts from the last progress.
        if !self.deadlines.is_set(WaitKind::Write) {
            self.deadlines.set(WaitKind::Write, stalled.into_iter().chain(slow).min());
        }
    }
}
