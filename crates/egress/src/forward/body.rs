//! The body of a call: kept while it is small, so that the call can be sent again; passed on as it comes when it is not.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use keepwarm_http1::{Fields, RequestBody};
use keepwarm_net::{BodyError, BodyProgress, Call, Exchange, UNSENT_ENOUGH};

/// A declared body up to this is read before an endpoint is chosen: then it leaves with the head, in one write.
const READ_FIRST: u64 = 16 * 1024;
/// A body up to this is kept, so that it can be sent again. Bounds the memory of a call whose client is faster than its upstream, too.
const KEPT: usize = 64 * 1024;
/// Read at a time.
const BLOCK: usize = 64 * 1024;

/// The body of a call.
#[derive(Debug)]
pub(super) struct Body {
    framing: RequestBody,
    /// What was read, from its beginning; once that is too much, the last block.
    kept: Vec<u8>,
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

/// What giving a part of the body led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gave {
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
            forgotten: false,
            complete: exchange.body_done(),
            given: 0,
            ended: false,
            received: 0,
        }
    }

    /// How it is framed towards the upstream: as it came.
    pub(super) fn framing(&self) -> RequestBody {
        self.framing
    }

    /// Bytes of it that came.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether an attempt can be followed by another.
    pub(super) fn can_be_sent_again(&self) -> bool {
        !self.forgotten
    }

    /// All of it was read.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
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

    /// Reads it, if it is small.
    pub(super) async fn collect(&mut self, exchange: &mut Exchange<'_>) -> Result<(), BodyError> {
        let small = matches!(self.framing, RequestBody::Length(length) if length <= READ_FIRST);
        if small && exchange.request().passing.buffer_request != Some(false) {
            while !self.complete {
                poll_fn(|cx| self.poll_read(cx, exchange)).await?;
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
        if self.complete && !self.ended {
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
    ) -> Result<Gave, BodyError> {
        if self.ended {
            return Ok(Gave::Nothing);
        }
        if call.unsent() >= UNSENT_ENOUGH {
            return Ok(Gave::Full);
        }
        if self.given == self.kept.len() && !self.complete {
            match self.poll_read(cx, exchange) {
                Poll::Pending => return Ok(Gave::Starved),
                Poll::Ready(read) => read?,
            }
        }
        self.give_kept(call, exchange.trailers());
        Ok(Gave::Some)
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
        let before = self.kept.len();
        let progress = ready!(exchange.poll_body(cx, &mut self.kept, BLOCK))?;
        self.received += (self.kept.len() - before) as u64;
        self.complete = progress == BodyProgress::Done || exchange.body_done();
        Poll::Ready(Ok(()))
    }
}
