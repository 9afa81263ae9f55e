//! Reads a request's body, and detects that its client has gone.

use std::task::{Context, Poll, ready};

use keepwarm_http1::{Event, encode_continue};
use keepwarm_net::{WaitKind, now};

use super::stream::{ResponseState, Stream};
use crate::{BodyError, BodyProgress, ClientLoss};

/// Bytes per read of a large body: the largest size that is worth its memory.
const BODY_READ: usize = 64 * 1024;
/// Bytes per read of heads and small bodies.
pub(super) const HEAD_READ: usize = 8 * 1024;

impl Stream {
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        max: usize,
    ) -> Poll<Result<BodyProgress, BodyError>> {
        let before = into.len();
        // A caller without room could not know whether to call again or to wait.
        let end = before + max.max(1);
        loop {
            if self.state.body_done {
                return Poll::Ready(Ok(BodyProgress::Done));
            }
            if self.state.body_failed {
                return Poll::Ready(Err(BodyError::ClientLost(self.broken.unwrap_or(ClientLoss::Closed))));
            }
            match self.decode_body(into, end) {
                Ok(DecodeStep::Done) => {
                    self.deadlines.set(WaitKind::Read, None);
                    let progress = if into.len() > before { BodyProgress::More } else { BodyProgress::Done };
                    return Poll::Ready(Ok(progress));
                }
                Ok(DecodeStep::NoMore) if into.len() > before => return Poll::Ready(Ok(BodyProgress::More)),
                Ok(DecodeStep::NoMore) => {}
                Err(error) => {
                    self.state.body_failed = true;
                    return Poll::Ready(Err(error));
                }
            }
            if let Err(error) = ready!(self.poll_more_body(cx)) {
                self.state.body_failed = true;
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Decodes the buffer while `into` is shorter than `end`. The rest stays in the buffer; the decoder sees it anyway, since
    /// framing needs no room.
    fn decode_body(&mut self, into: &mut Vec<u8>, end: usize) -> Result<DecodeStep, BodyError> {
        loop {
            let (unread, room) = (self.storage.read.unread(), end.saturating_sub(into.len()));
            let decoded =
                self.decoder.decode_within(unread, room, &mut self.request.head).map_err(BodyError::Fault)?;
            if let Event::Data { start, end } = decoded.event {
                let data = unread.get(start..end).unwrap_or_default();
                self.state.body_received += data.len() as u64;
                if let Some(limit) = self.state.body_limit
                    && self.state.body_received > limit
                {
                    return Err(BodyError::TooLarge { limit });
                }
                into.extend_from_slice(data);
            }
            self.storage.read.consume(decoded.consumed);
            match decoded.event {
                Event::End => {
                    self.state.body_done = true;
                    return Ok(DecodeStep::Done);
                }
                Event::NeedMore => return Ok(DecodeStep::NoMore),
                Event::Data { .. } | Event::Head | Event::Trailers | Event::Informational => {}
            }
        }
    }

    /// Waits for the client's next bytes, and sends `100 Continue` to a client that waits for it.
    fn poll_more_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if self.awaits_continue() {
            // It may have sent something anyway: then it does not wait, and no 100 is due (RFC 9110 §10.1.1).
            if let Poll::Ready(got) = self.poll_fill(cx, BODY_READ) {
                return Poll::Ready(self.note_body(got));
            }
            self.want_body();
        }
        if self.unsent() > 0 && matches!(self.state.response, ResponseState::None) {
            // A `100 Continue` that has not left (under TLS: that was taken, and has not) leaves with the next poll; the wait is for the read below.
            if let Poll::Ready(Err(gone)) = self.poll_write_out(cx) {
                return Poll::Ready(Err(BodyError::ClientLost(gone)));
            }
        }
        match self.poll_fill(cx, BODY_READ) {
            Poll::Ready(got) => Poll::Ready(self.note_body(got)),
            Poll::Pending => {
                let slow_at = self.state.body_rate.handle_wait(now().into_std());
                if self.deadlines.poll_passed(WaitKind::Read, cx) {
                    return Poll::Ready(Err(BodyError::TooSlow));
                }
                self.deadlines.set(WaitKind::Read, slow_at.map(Into::into));
                Poll::Pending
            }
        }
    }

    fn note_body(&mut self, got: Result<usize, ClientLoss>) -> Result<(), BodyError> {
        match got {
            Ok(0) => Err(BodyError::ClientLost(ClientLoss::Closed)),
            Ok(got) => {
                self.state.body_rate.handle_progress(now().into_std(), got);
                // The caller may not read again at once: the time of the next wait is separate.
                self.deadlines.set(WaitKind::Read, None);
                Ok(())
            }
            Err(gone) => Err(BodyError::ClientLost(gone)),
        }
    }

    pub(crate) fn pause_body(&mut self) {
        self.state.body_rate.handle_progress(now().into_std(), 0);
        self.deadlines.set(WaitKind::Read, None);
    }

    /// Reads into the buffer; `Ok(0)` is the end.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<usize, ClientLoss>> {
        if self.read_closed {
            return Poll::Ready(Ok(0));
        }
        let room = if self.served == 0 && self.storage.read.is_empty() && !self.in_body() {
            HEAD_READ
        } else {
            room
        };
        match ready!(self.io.poll_read(cx, self.storage.read.storage(room))) {
            Ok(0) => {
                self.read_closed = true;
                Poll::Ready(Ok(0))
            }
            Ok(got) => {
                self.cells.received.add(got as u64);
                Poll::Ready(Ok(got))
            }
            Err(_) => Poll::Ready(Err(self.lost(ClientLoss::Reset))),
        }
    }

    fn in_body(&self) -> bool {
        self.decoder.in_body()
    }

    pub(super) fn lost(&mut self, gone: ClientLoss) -> ClientLoss {
        *self.broken.get_or_insert(gone)
    }

    pub(crate) fn want_body(&mut self) {
        // RFC 9110 §10.1.1: not needed once body bytes came; and never after the final response began.
        if self.awaits_continue() && matches!(self.state.response, ResponseState::None) {
            encode_continue(&mut self.storage.out.head);
            self.request.notes.continued = true;
        }
        self.state.awaits_continue = false;
    }

    pub(crate) fn awaits_continue(&self) -> bool {
        let untouched =
            self.state.body_received == 0 && !self.state.body_done && self.storage.read.is_empty();
        self.state.awaits_continue && untouched
    }

    pub(crate) fn poll_body_begun(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.awaits_continue() {
            return Poll::Ready(());
        }
        // The read of the body meets an end or an error again.
        self.poll_fill(cx, BODY_READ).map(drop)
    }

    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientLoss> {
        if let Some(gone) = self.broken {
            return Poll::Ready(gone);
        }
        if self.read_closed || !self.state.body_done || self.storage.read.unread().len() >= WATCH_LIMIT {
            return self.io.poll_reset(cx).map(|()| self.lost(ClientLoss::Reset));
        }
        // Only the next request (which then waits in the buffer) or the end is expected now.
        match self.poll_fill(cx, HEAD_READ) {
            Poll::Ready(Ok(0)) if self.state.half_close_is_gone => Poll::Ready(self.lost(ClientLoss::Closed)),
            Poll::Ready(Ok(_)) => self.poll_gone(cx),
            Poll::Ready(Err(gone)) => Poll::Ready(gone),
            Poll::Pending => Poll::Pending,
        }
    }

    pub(crate) fn is_half_closed(&self) -> bool {
        self.read_closed && self.state.body_done
    }
}

enum DecodeStep {
    /// The body is complete.
    Done,
    /// The buffer is empty, or no more fits.
    NoMore,
}

/// Pipelined bytes taken in while a request is in progress; the rest stays in the socket (`spec/http.md` §8).
const WATCH_LIMIT: usize = 4 * 1024;
