//! Writes a response.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use h2::Reason;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use keepwarm_http1::{
    AppFields, BadField, BadFieldReason, Plan, ResponseFacts, ResponseFraming, plan, scan_app_fields,
};
use keepwarm_net::h2::{Sending, head};
use keepwarm_net::{WaitKind, http_date, now};

use super::stream::{Http2ResponseState, ServerStream};
use crate::ClientLoss;
use crate::exchange::{FieldRef, response_length};

/// Informational responses kept on a connection for a client that does not take them; more are dropped. The same limit as on our own connections to servers.
const HINTS: usize = 64;

impl ServerStream {
    pub(crate) fn informational<'a>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        let Ok(status) = StatusCode::from_u16(status) else { return };
        if self.state.response != Http2ResponseState::None || self.broken.is_some() {
            return;
        }
        // Flow control is for DATA only: without a bound, a client that reads nothing would make us keep them all.
        if self.hints.load(Ordering::Relaxed) >= HINTS {
            return;
        }
        let mut informational = Response::new(());
        *informational.status_mut() = status;
        if fill(informational.headers_mut(), fields).is_ok() {
            // If the stream has ended, its reset shows it.
            if self.respond.send_informational(informational).is_ok() {
                self.hints.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Begins the response.
    pub(crate) fn begin_response(
        &mut self,
        status: u16,
        length: Option<u64>,
        _close: bool,
        fields: &[FieldRef<'_>],
    ) -> Result<AppFields, BadField> {
        let app = scan_app_fields(fields.iter().copied())?;
        if self.state.response != Http2ResponseState::None {
            return Ok(app);
        }
        // 2xx would accept the WebSocket (RFC 8441 §5), and this is the page of a resource that does not know them.
        let status = match status {
            200..=299 if self.state.extended_connect => {
                self.request.notes.reason.get_or_insert("not_a_websocket");
                501
            }
            status => status,
        };
        let bodiless = self.state.facts.is_head || matches!(status, 204 | 304);
        let length = response_length(app.content_length, length, bodiless, self.state.from_upstream);
        // The same rules on body and length as in HTTP/1; those about the connection do not apply.
        let facts = ResponseFacts {
            status,
            length,
            close: false,
            first_on_connection: false,
            idle_timeout_secs: 0,
            trailers: false,
        };
        let decided = plan(self.state.facts, facts);
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        fill(response.headers_mut(), fields.iter().copied())?;
        if let Some(priority) = response.headers().get("priority") {
            self.turns.amend(priority.as_bytes());
        }
        self.frame(&mut response, &decided, app.has_date);
        self.head = Some(response);
        self.state.status = status;
        // RFC 9110 §6.5.1: trailers only for a client that accepts them.
        let trailers = self.request.head.fields.has_token("te", "trailers");
        // Unlike in HTTP/1, a length of zero allows them.
        let empty = decided.framing == ResponseFraming::Length(0) && !bodiless && status != 205;
        self.state.response =
            Http2ResponseState::Started { send_body: decided.send_body || (empty && trailers), trailers };
        Ok(app)
    }

    fn frame(&mut self, response: &mut Response<()>, decided: &Plan, has_date: bool) {
        let map = response.headers_mut();
        self.sending.due = match decided.framing {
            ResponseFraming::Length(length) => {
                map.insert(header::CONTENT_LENGTH, length.into());
                Some(length)
            }
            ResponseFraming::Chunked | ResponseFraming::UntilClose | ResponseFraming::None => None,
        };
        if !has_date && let Ok(date) = HeaderValue::from_bytes(&http_date()) {
            map.insert(header::DATE, date);
        }
    }

    pub(crate) fn data(&mut self, bytes: &[u8]) {
        let Http2ResponseState::Started { send_body: true, .. } = self.state.response else { return };
        let mut fits = bytes.len();
        if let Some(due) = &mut self.sending.due {
            fits = usize::try_from(*due).unwrap_or(usize::MAX).min(fits);
            *due -= fits as u64;
            if fits < bytes.len() {
                self.request.notes.reason.get_or_insert("body_too_long");
            }
        }
        if self.broken.is_none() {
            self.sending.out.extend_from_slice(bytes.get(..fits).unwrap_or_default());
            self.state.body_sent += fits as u64;
        }
    }

    pub(crate) fn end(&mut self) {
        self.end_with_trailers(std::iter::empty());
    }

    pub(crate) fn end_with_trailers<'a>(&mut self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        let Http2ResponseState::Started { send_body, trailers } = self.state.response else { return };
        if send_body && self.sending.due.is_some_and(|due| due > 0) {
            self.abort("body_too_short");
            return;
        }
        if send_body && trailers {
            self.sending.trailers = Some(head::trailers(fields)).filter(|map| !map.is_empty());
        }
        self.sending.ended = true;
        self.state.response = Http2ResponseState::Ended;
    }

    /// Takes back a response of which nothing has been handed over.
    pub(crate) fn take_back(&mut self) -> bool {
        if !matches!(self.state.response, Http2ResponseState::Started { .. }) || self.head.take().is_none() {
            return false;
        }
        self.sending = Sending::default();
        self.state.response = Http2ResponseState::None;
        (self.state.status, self.state.body_sent, self.state.from_upstream) = (0, 0, false);
        self.request.notes.reason = None;
        true
    }

    pub(crate) fn is_given(&self) -> bool {
        let Http2ResponseState::Started { send_body, .. } = self.state.response else { return false };
        !send_body || self.sending.due == Some(0)
    }

    /// RST_STREAM: the bytes sent are not the whole response.
    pub(crate) fn abort(&mut self, reason: &'static str) {
        if !self.over() {
            self.request.notes.reason.get_or_insert(reason);
            self.state.response = Http2ResponseState::Cut;
            self.reset(Reason::INTERNAL_ERROR);
        }
    }

    pub(super) fn reset(&mut self, reason: Reason) {
        match self.sending.stream.take() {
            Some(mut stream) => stream.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
        self.sending.stop();
    }

    /// Bytes queued and not yet taken by the connection.
    pub(crate) fn unsent(&self) -> usize {
        self.sending.out.len() + self.untaken_frames()
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>> {
        if let Some(gone) = self.broken {
            return Poll::Ready(Err(gone));
        }
        if let Err(gone) = self.hand_over_head() {
            return Poll::Ready(Err(gone));
        }
        self.take_frames();
        let before = self.sending.out.len();
        let flushed = self.sending.poll_flush_in_turn(cx, &mut self.turns);
        let taken = before.saturating_sub(self.sending.out.len());
        if taken > 0 {
            self.state.drain_rate.handle_progress(now().into_std(), taken);
            self.deadlines.set(WaitKind::Write, None);
        }
        match flushed {
            Poll::Ready(()) if before > 0 && self.sending.stream.is_none() && !self.sending.ended => {
                Poll::Ready(Err(self.lost(ClientLoss::Reset)))
            }
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => {
                // While more urgent responses are sent, the client is not slow in taking this one.
                let others = self.turns.taken_of_others();
                if others > 0 {
                    self.state.drain_rate.handle_progress(now().into_std(), others);
                    self.deadlines.set(WaitKind::Write, None);
                }
                if self.deadlines.poll_passed(WaitKind::Write, cx) {
                    return Poll::Ready(Err(self.lost(ClientLoss::TooSlow)));
                }
                self.set_write_deadline();
                Poll::Pending
            }
        }
    }

    /// The head carries END_STREAM when nothing follows it: only that shows gRPC a trailers-only response.
    fn hand_over_head(&mut self) -> Result<(), ClientLoss> {
        let Some(head) = self.head.take() else { return Ok(()) };
        let sending = &self.sending;
        let bodiless = matches!(self.state.response, Http2ResponseState::Started { send_body: false, .. });
        let ends = bodiless || (sending.ended && sending.out.is_empty() && sending.trailers.is_none());
        match self.respond.send_response(head, ends) {
            Ok(stream) => {
                self.sending.stream = (!ends).then_some(stream);
                Ok(())
            }
            Err(_) => Err(self.lost(ClientLoss::Reset)),
        }
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

/// The fields of a response without those that HTTP/2 expresses otherwise (RFC 9113 §8.2.2), and the length, which is ours.
pub(super) fn fill<'a>(
    map: &mut http::HeaderMap,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<(), BadField> {
    for (name, value) in fields {
        let bad = |reason| BadField { name: name.escape_ascii().to_string(), reason };
        let lower = HeaderName::from_bytes(name).map_err(|_| bad(BadFieldReason::Name))?;
        let steers = matches!(
            lower.as_str(),
            "connection"
                | "keep-alive"
                | "proxy-connection"
                | "transfer-encoding"
                | "upgrade"
                | "te"
                | "content-length"
        );
        if !steers {
            let value = head::field_value(value).ok_or_else(|| bad(BadFieldReason::Value))?;
            map.try_append(lower, value).map_err(|_| bad(BadFieldReason::Name))?;
        }
    }
    Ok(())
}
