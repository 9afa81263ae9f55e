//! A response between its source and its client.

use std::task::{Context, Poll, ready};

use keepwarm_http1::Fields;
use keepwarm_net::{SPILL, Spool, SpoolError};
use keepwarm_telemetry::counters;

use crate::pump::FlushError;
use crate::{Exchange, UNSENT_ENOUGH};

/// Memory of a spool, in bytes; beyond it a file is used.
const MEMORY: usize = 256 * 1024;

/// The part of a response that a slow client has not taken yet, so that the source does not wait for it (`spec/http.md` §7), and the end after it. If it does not
/// buffer, or there is no room (`server.limits.spill`), the source waits for the client.
///
/// The whole body, and its end, passes through this, in order: above [`UNSENT_ENOUGH`] unsent bytes into a spool, else directly on.
#[derive(Debug)]
pub struct ResponseBuffer {
    buffers: bool,
    /// In a box: the future of a request should fit an allocator's cached size.
    spool: Option<Box<Spool>>,
    /// The source has ended, while the spool has bytes: the trailers.
    end: Option<Box<Fields>>,
    /// There was no room for another part at the last check.
    full: bool,
    /// The lack of room is counted.
    waited: bool,
}

/// The result of flushing the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferProgress {
    /// Some bytes, or nothing is left: there may be room again.
    Some,
    /// The end: the response is complete.
    End,
}

impl ResponseBuffer {
    /// An empty one. `buffers`: the source does not wait for the client.
    pub fn new(buffers: bool) -> Self {
        Self { buffers, spool: None, end: None, full: false, waited: false }
    }

    /// Whether it holds nothing back.
    pub fn is_empty(&self) -> bool {
        self.spool.is_none()
    }

    /// Whether the source waits for the client: there was no room for another part at the last [`Self::poll_room`].
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Whether another part can be given. If not, reads by the client make room.
    ///
    /// # Errors
    /// Buffered bytes are lost: the response cannot be completed.
    pub fn poll_room(&mut self, cx: &mut Context<'_>, exchange: &Exchange<'_>) -> Result<bool, SpoolError> {
        let room = self.poll_has_room(cx, exchange)?;
        self.full = !room;
        Ok(room)
    }

    fn poll_has_room(&mut self, cx: &mut Context<'_>, exchange: &Exchange<'_>) -> Result<bool, SpoolError> {
        let Some(spool) = &mut self.spool else {
            let direct = exchange.unsent() < UNSENT_ENOUGH;
            // Before the head there are only informational responses, which pass directly.
            let keeps = self.buffers && exchange.responded();
            return Ok(direct || (keeps && self.may_keep(SPILL.has_memory())));
        };
        match spool.poll_spill(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(kept) => kept?,
        }
        let fits = spool.len() < exchange.limits().response_buffer;
        Ok(fits && self.may_keep(true))
    }

    fn may_keep(&mut self, memory: bool) -> bool {
        let may = memory && SPILL.has_room_for_response();
        if !may && !std::mem::replace(&mut self.waited, true) {
            counters::SPILL_FULL.add(1);
        }
        may
    }

    /// Gives a part of the body.
    pub fn data(&mut self, exchange: &mut Exchange<'_>, bytes: &[u8]) {
        if self.spool.is_none() && self.buffers && exchange.unsent() >= UNSENT_ENOUGH {
            self.spool = Some(Box::new(Spool::new(MEMORY)));
        }
        match &mut self.spool {
            Some(spool) => spool.push(bytes),
            None => exchange.data(bytes),
        }
    }

    /// Ends the response, after its buffered bytes. `true`: it has ended.
    pub fn end<'a>(
        &mut self,
        exchange: &mut Exchange<'_>,
        trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> bool {
        if self.spool.is_none() {
            exchange.end_with_trailers(trailers);
            return true;
        }
        let mut fields = Fields::new();
        trailers.for_each(|(name, value)| fields.push(name, value));
        self.end = Some(Box::new(fields));
        false
    }

    /// Writes queued bytes, and moves buffered ones on. Ready: there may be room again, or that was the end.
    ///
    /// # Errors
    /// The client was lost, or the buffered bytes were.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Poll<Result<BufferProgress, FlushError>> {
        ready!(exchange.poll_flush(cx)).map_err(FlushError::ClientLost)?;
        let Some(spool) = &mut self.spool else {
            return match std::mem::take(&mut self.full) {
                true => Poll::Ready(Ok(BufferProgress::Some)),
                false => Poll::Pending,
            };
        };
        let mut block = Vec::new();
        if ready!(spool.poll_read(cx, &mut block, UNSENT_ENOUGH)).map_err(FlushError::Kept)? > 0 {
            exchange.data(&block);
            return Poll::Ready(Ok(BufferProgress::Some));
        }
        self.spool = None;
        Poll::Ready(Ok(match self.end.take() {
            Some(trailers) => {
                exchange.end_with_trailers(trailers.iter());
                BufferProgress::End
            }
            None => BufferProgress::Some,
        }))
    }
}
