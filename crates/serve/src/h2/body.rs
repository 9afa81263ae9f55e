//! Reads a request's body, and detects that its client has gone.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Response;
use keepwarm_net::h2::head;
use keepwarm_net::{WaitKind, now};

use super::stream::{Http2ResponseState, ServerStream};
use crate::{BodyError, BodyProgress, ClientLoss};

/// How long a client has to see a response that came before its upload was complete.
const EARLY: Duration = Duration::from_secs(1);

/// The client has reset its stream or left; or the stream is not what it announced (RFC 9113 §8.1.1), and the crate has reset it.
fn loss_of(error: &h2::Error) -> ClientLoss {
    if error.is_library() { ClientLoss::Refused } else { ClientLoss::Reset }
}

impl ServerStream {
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
            let room = end.saturating_sub(into.len());
            if !self.unread.is_empty() && room > 0 {
                let piece = self.unread.split_to(room.min(self.unread.len()));
                into.extend_from_slice(&piece);
                // Returns room to the client for the bytes read: unread bytes hold it back.
                let _ = self.body.flow_control().release_capacity(piece.len());
                self.read.add(piece.len());
            }
            let got = into.len() > before;
            if !self.unread.is_empty() || room == 0 {
                return Poll::Ready(Ok(BodyProgress::More));
            }
            if self.state.body_done {
                return Poll::Ready(Ok(if got { BodyProgress::More } else { BodyProgress::Done }));
            }
            if let Some(error) = self.state.body_error {
                return Poll::Ready(Err(error));
            }
            match self.poll_more(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.state.body_error = Some(error);
                    return Poll::Ready(Err(error));
                }
                Poll::Pending if got => return Poll::Ready(Ok(BodyProgress::More)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Waits for the client's next bytes, or the end, and sends `100 Continue` to a client that waits for it.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if self.awaits_continue() {
            // It may have sent something anyway: then it does not wait, and no 100 is due (RFC 9110 §10.1.1). A second read would not find it again.
            if let Poll::Ready(got) = self.poll_data(cx) {
                return Poll::Ready(got);
            }
            self.want_body();
        }
        match self.poll_data(cx) {
            Poll::Ready(got) => Poll::Ready(got),
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

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        while self.unread.is_empty() && !self.state.body_done {
            match ready!(self.body.poll_data(cx)) {
                Some(Ok(data)) => {
                    self.state.body_received += data.len() as u64;
                    if let Some(limit) = self.state.body_limit
                        && self.state.body_received > limit
                    {
                        return Poll::Ready(Err(BodyError::TooLarge { limit }));
                    }
                    self.state.body_rate.handle_progress(now().into_std(), data.len());
                    // The caller may not read again at once: the time of the next wait is separate.
                    self.deadlines.set(WaitKind::Read, None);
                    self.unread = data;
                }
                Some(Err(error)) => return Poll::Ready(Err(self.body_lost(&error))),
                None => {
                    let trailers = match ready!(self.body.poll_trailers(cx)) {
                        Ok(trailers) => trailers,
                        Err(error) => return Poll::Ready(Err(self.body_lost(&error))),
                    };
                    if let Some(map) = trailers
                        && head::fill_trailers(&mut self.trailers, &map).is_err()
                    {
                        self.trailers.clear();
                    }
                    self.state.body_done = true;
                    self.deadlines.set(WaitKind::Read, None);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn body_lost(&mut self, error: &h2::Error) -> BodyError {
        BodyError::ClientLost(self.lost(loss_of(error)))
    }

    /// Who has reset the stream: only its body tells.
    fn reset_loss(&mut self, cx: &mut Context<'_>) -> ClientLoss {
        loop {
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return loss_of(&error),
                Poll::Ready(None) | Poll::Pending => return ClientLoss::Reset,
            }
        }
    }

    /// After an early response: gives the client [`EARLY`] to see it and to stop its upload itself, before the stream is reset with NO_ERROR (RFC 9113 §8.1).
    /// Some clients, such as curl 7.88, take a reset that comes together with the response for a failure. Nothing is given back to the window meanwhile:
    /// at most one window is received.
    pub(super) async fn discard_rest(&mut self) {
        if self.body.is_end_stream()
            || self.broken.is_some()
            || self.state.response != Http2ResponseState::Ended
        {
            return;
        }
        self.unread.clear();
        let rest = poll_fn(|cx| {
            while let Some(Ok(_)) = ready!(self.body.poll_data(cx)) {}
            Poll::Ready(())
        });
        let _ = tokio::time::timeout(EARLY, rest).await;
    }

    pub(crate) fn pause_body(&mut self) {
        self.state.body_rate.handle_progress(now().into_std(), 0);
        self.deadlines.set(WaitKind::Read, None);
    }

    pub(super) fn lost(&mut self, gone: ClientLoss) -> ClientLoss {
        *self.broken.get_or_insert(gone)
    }

    pub(crate) fn want_body(&mut self) {
        // RFC 9110 §10.1.1: not needed once body bytes came; and never after the final response began.
        if self.awaits_continue() && self.state.response == Http2ResponseState::None {
            let mut head = Response::new(());
            *head.status_mut() = http::StatusCode::CONTINUE;
            self.request.notes.continued = self.respond.send_informational(head).is_ok();
        }
        self.state.awaits_continue = false;
    }

    pub(crate) fn awaits_continue(&self) -> bool {
        let untouched =
            self.state.body_received == 0 && !self.state.body_done && self.state.body_error.is_none();
        self.state.awaits_continue && untouched
    }

    pub(crate) fn poll_body_begun(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.awaits_continue() {
            return Poll::Ready(());
        }
        // The read of the body meets an end or an error again.
        self.poll_data(cx).map(|got| self.state.body_error = got.err())
    }

    pub(crate) fn body_buffered(&self) -> bool {
        !self.unread.is_empty()
    }

    pub(crate) fn trailers(&self) -> &keepwarm_http1::Fields {
        &self.trailers
    }

    /// RST_STREAM, or the end of the connection.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientLoss> {
        if let Some(gone) = self.broken {
            return Poll::Ready(gone);
        }
        let whole = self.responded() && self.head.is_none();
        let reset = match &mut self.sending.stream {
            Some(stream) => stream.poll_reset(cx),
            None if whole => return Poll::Pending,
            None => self.respond.poll_reset(cx),
        };
        reset.map(|_| {
            let loss = self.reset_loss(cx);
            self.lost(loss)
        })
    }
}
