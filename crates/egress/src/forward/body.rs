//! The body of a call: kept while it is small, so that the call can be sent again; passed on as it comes when it is not. A route may have it read whole before the upstream is called: what is too
//! much for memory then waits in a file.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use keepwarm_http1::{Fields, RequestBody};
use keepwarm_net::{Call, Spool, SpoolError};
use keepwarm_serve::{BodyError, BodyProgress, Exchange, UNSENT_ENOUGH, is_read_first, read_first};

/// A body up to this is kept, so that it can be sent again. Bounds the memory of a call whose client is faster than its upstream, too.
const KEPT: usize = 64 * 1024;
/// A body that is read whole is kept up to this; beyond it, the rest is in a file, and can be sent once.
const KEPT_WHOLE: usize = 256 * 1024;
/// Read at a time.
const BLOCK: usize = 64 * 1024;

/// The body of a call.
#[derive(Debug)]
pub(super) struct Body {
    framing: RequestBody,
    /// What was read, from its beginning; once that is too much, the last block.
    kept: Vec<u8>,
    /// What follows it, of one that was read whole.
    rest: Option<Spool>,
    /// What was read before is no longer here.
    forgotten: bool,
    /// All of it was read.
    complete: bool,
    /// How much of `kept` the present attempt was given.
    given: usize,
    /// The present attempt was given all of it.
    ended: bool,
    received: u64,
}

/// The result of sending a part of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyStep {
    /// Some, or its end.
    Some,
    /// Nothing: the connection has enough to do.
    Full,
    /// Nothing: the client has to send more first.
    Starved,
    /// Nothing: all of it was given before.
    Nothing,
}

impl Body {
    /// Of a call that has just come.
    pub(super) fn of(exchange: &Exchange<'_>) -> Self {
        Self {
            framing: exchange.request().head.body,
            kept: Vec::new(),
            rest: None,
            forgotten: false,
            complete: exchange.body_done(),
            given: 0,
            ended: false,
            received: 0,
        }
    }

    /// How it is framed towards the upstream: as it came; one that was read whole with its length, unless trailers follow it.
    pub(super) fn framing(&self) -> RequestBody {
        self.framing
    }

    /// Reads all of it.
    pub(super) async fn collect_whole(&mut self, exchange: &mut Exchange<'_>) -> Result<(), BodyError> {
        while !self.complete && self.kept.len() < KEPT_WHOLE {
            let room = KEPT_WHOLE - self.kept.len();
            poll_fn(|cx| self.poll_append(cx, exchange, room)).await?;
        }
        if !self.complete {
            let (mut rest, mut block) = (Spool::new(0), Vec::with_capacity(BLOCK));
            while !self.complete {
                block.clear();
                poll_fn(|cx| rest.poll_ready(cx)).await.map_err(|error| spill_failed(&error))?;
                let progress = poll_fn(|cx| exchange.poll_body(cx, &mut block, BLOCK)).await?;
                self.note(exchange, progress, block.len());
                rest.push(&block);
            }
            self.rest = Some(rest).filter(|rest| !rest.is_empty());
        }
        if self.framing == RequestBody::Chunked && exchange.trailers().is_empty() {
            self.framing = RequestBody::Length(self.received);
        }
        Ok(())
    }

    /// Bytes of it that came.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether an attempt can be followed by another.
    pub(super) fn can_be_sent_again(&self) -> bool {
        !self.forgotten
    }

    /// All of it was read, and is in memory.
    pub(super) fn is_complete(&self) -> bool {
        self.complete && self.rest.is_none()
    }

    /// Gives a second call all of it; only when [`Self::can_be_sent_again`] and [`Self::is_complete`].
    pub(super) fn give_all(&self, call: &mut Call, trailers: &Fields) {
        call.send(&self.kept);
        call.end(trailers);
    }

    /// The present attempt was given all of it.
    pub(super) fn is_given(&self) -> bool {
        self.ended
    }

    /// Reads it, if it is small and comes with its head.
    pub(super) async fn collect(&mut self, exchange: &mut Exchange<'_>) -> Result<(), BodyError> {
        if is_read_first(exchange.request()) {
            let whole = async {
                while !self.complete {
                    poll_fn(|cx| self.poll_read(cx, exchange)).await?;
                }
                Ok(())
            };
            read_first(whole).await?;
            if !self.complete {
                exchange.pause_body();
            }
        }
        Ok(())
    }

    /// A new attempt begins: from the beginning.
    pub(super) fn rewind(&mut self) {
        self.given = 0;
        self.ended = false;
    }

    /// Gives the call what is here, without waiting for more.
    pub(super) fn give_kept(&mut self, call: &mut Call, trailers: &Fields) {
        call.send(self.kept.get(self.given..).unwrap_or_default());
        self.given = self.kept.len();
        if self.complete && self.rest.is_none() && !self.ended {
            self.ended = true;
            call.end(trailers);
        }
    }

    /// Gives the call a part.
    ///
    /// # Errors
    /// The client's.
    pub(super) fn poll_give(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
        call: &mut Call,
    ) -> Result<BodyStep, BodyError> {
        if self.ended {
            return Ok(BodyStep::Nothing);
        }
        if call.unsent() >= UNSENT_ENOUGH {
            return Ok(BodyStep::Full);
        }
        if self.given == self.kept.len() && (!self.complete || self.rest.is_some()) {
            let read = match self.rest.is_some() {
                true => self.poll_rest(cx),
                false => self.poll_read(cx, exchange),
            };
            match read {
                Poll::Pending => return Ok(BodyStep::Starved),
                Poll::Ready(read) => read?,
            }
        }
        self.give_kept(call, exchange.trailers());
        Ok(BodyStep::Some)
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Poll<Result<(), BodyError>> {
        if self.kept.len() >= KEPT || self.forgotten {
            // Read so far only to be given at once: nothing is lost that was not sent.
            self.forgotten = true;
            self.kept.clear();
            self.given = 0;
        }
        self.poll_append(cx, exchange, BLOCK)
    }

    fn poll_append(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
        most: usize,
    ) -> Poll<Result<(), BodyError>> {
        let before = self.kept.len();
        let progress = ready!(exchange.poll_body(cx, &mut self.kept, most))?;
        self.note(exchange, progress, self.kept.len() - before);
        Poll::Ready(Ok(()))
    }

    fn note(&mut self, exchange: &Exchange<'_>, progress: BodyProgress, count: usize) {
        self.received += count as u64;
        self.complete = progress == BodyProgress::Done || exchange.body_done();
    }

    /// The next block from the file, in place of what was given.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(Ok(())) };
        (self.forgotten, self.given) = (true, 0);
        self.kept.clear();
        let read = ready!(rest.poll_read(cx, &mut self.kept, BLOCK));
        if read.map_err(|error| spill_failed(&error))? == 0 || rest.is_empty() {
            self.rest = None;
        }
        Poll::Ready(Ok(()))
    }
}

fn spill_failed(error: &SpoolError) -> BodyError {
    if let SpoolError::Failed(_) = error {
        tracing::error!(name: "request_body_lost", %error, "request body lost");
    }
    error.into()
}
