//! The two messages between a client and what serves it, both at once: each way as fast as the other side takes it.
//!
//! ```text
//!    ┌───────────────────────── there is room again ─────────────────────────┐
//!    ▼                                                                       │
//!  parts of the response ──▶ more of the request ──▶ flush ──▶ what was kept ┴▶ client gone? ──▶ time
//! ```
//!
//! What serves is a [`Backend`]: an app's worker on the wire, a connection to an app's server, a call to an upstream. Retries, hedges, slots and logs are
//! theirs. The order above is the same for all, and has its reasons: a response that is complete wins over a body that breaks off; all that is here at one time leaves
//! in one write; room that the write made is used before anybody sleeps, since a side that was not read for lack of room wakes nobody.

mod server_side;

use std::task::{Context, Poll};

pub use server_side::{BufferedBody, ServerPart, ServerSide};

use crate::refusals::RESPONSE_NOT_KEPT;
use crate::response_buffer::BufferProgress;
use crate::{ClientLoss, Exchange, ResponseBuffer};
use keepwarm_net::SpoolError;

/// What serves a request, as [`poll_pump`] sees it.
pub trait Backend<'c> {
    /// How the work ends.
    type End;

    /// The client's side: the exchange, and what is kept of its response.
    fn client(&mut self) -> (&mut Exchange<'c>, &mut ResponseBuffer);

    /// Once both sides have switched protocols (`101`): moves what is theirs now. `None`: they have not.
    fn poll_switched(&mut self, cx: &mut Context<'_>) -> Option<Poll<Self::End>>;

    /// Takes the next part of the response, for which there is room.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> PartResult<Self::End>;

    /// There was no room for a part: where something but a part may come from it, registers for that.
    fn wait_for_room(&mut self, _cx: &Context<'_>) {}

    /// Sends what is here of the request, as far as it is taken. `Some`: that ended the work.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Option<Self::End>;

    /// Nothing more can be moved now: looks at the deadlines.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Self::End>;

    /// All that was kept of the response is with the client's connection, its end too.
    fn kept_sent(&mut self) {}

    /// The client's side has ended.
    fn client_ended(&mut self, end: ClientEnd<'_>) -> Self::End;
}

/// What became of a part of the response.
#[derive(Debug)]
pub enum PartResult<E> {
    /// It was taken; there may be another.
    Taken,
    /// There is none now, or none any more.
    Waiting,
    /// Both sides have switched protocols.
    Switched,
    /// It ended the work.
    End(E),
}

/// How the client's side of the work ended.
#[derive(Debug)]
pub enum ClientEnd<'e> {
    /// It has its response, or it was cut.
    Over,
    /// The client was lost.
    ClientLost(ClientLoss),
    /// A part of the response was lost on disk: the client was told so, or cut.
    KeptLost(&'e SpoolError),
}

/// Moves both messages as far as they go.
pub fn poll_pump<'c, B: Backend<'c>>(backend: &mut B, cx: &mut Context<'_>) -> Poll<B::End> {
    loop {
        if let Some(switched) = backend.poll_switched(cx) {
            return switched;
        }
        match poll_response(backend, cx) {
            PartResult::Taken | PartResult::Waiting => {}
            PartResult::Switched => continue,
            PartResult::End(end) => return Poll::Ready(end),
        }
        if let Some(end) = backend.poll_request(cx) {
            return Poll::Ready(end);
        }
        let (exchange, response) = backend.client();
        match response.poll_flush(cx, exchange) {
            Poll::Ready(Ok(BufferProgress::Some)) => continue,
            Poll::Ready(Ok(BufferProgress::End)) => {
                backend.kept_sent();
                continue;
            }
            Poll::Ready(Err(FlushError::ClientLost(gone))) => {
                return Poll::Ready(backend.client_ended(ClientEnd::ClientLost(gone)));
            }
            Poll::Ready(Err(FlushError::Kept(error))) => return Poll::Ready(lose_kept(backend, &error)),
            Poll::Pending => {}
        }
        if let Poll::Ready(gone) = backend.client().0.poll_gone(cx) {
            return Poll::Ready(backend.client_ended(ClientEnd::ClientLost(gone)));
        }
        return backend.poll_time(cx);
    }
}

/// Takes parts of the response, as long as they come and there is room for them.
fn poll_response<'c, B: Backend<'c>>(backend: &mut B, cx: &mut Context<'_>) -> PartResult<B::End> {
    loop {
        let (exchange, response) = backend.client();
        if exchange.over() {
            return PartResult::End(backend.client_ended(ClientEnd::Over));
        }
        match response.poll_room(cx, exchange) {
            Ok(true) => {}
            Ok(false) => {
                backend.wait_for_room(cx);
                return PartResult::Waiting;
            }
            Err(error) => return PartResult::End(lose_kept(backend, &error)),
        }
        match backend.poll_part(cx) {
            PartResult::Taken => {}
            end => return end,
        }
    }
}

/// A part of the response is gone: its client must not take the rest for the whole.
#[cold]
fn lose_kept<'c, B: Backend<'c>>(backend: &mut B, error: &SpoolError) -> B::End {
    RESPONSE_NOT_KEPT.respond(backend.client().0);
    backend.client_ended(ClientEnd::KeptLost(error))
}

/// Why what was given could not be written.
#[derive(Debug)]
pub(crate) enum FlushError {
    /// The client was lost.
    ClientLost(ClientLoss),
    /// What was kept is lost: the response cannot be completed.
    Kept(SpoolError),
}
