//! The two messages between a client and its backend, both at once: each as fast as the other side takes it.
//!
//! ```text
//!    ┌───────────────────────── there is room again ─────────────────────────┐
//!    ▼                                                                       │
//!  parts of the response ──▶ more of the request ──▶ flush ──▶ what was kept ┴▶ client gone? ──▶ time
//! ```
//!
//! A [`Backend`] is an app's worker on the wire, a connection to an app's server, or a call to an upstream. It handles its own retries, hedges, slots and logs.
//! The order above is the same for all, for these reasons: a complete response wins over a body that breaks off; everything available at one time leaves
//! in one write; room made by the write is used before the task sleeps, since a side that was not read for lack of room wakes nobody.

mod server_side;

use std::task::{Context, Poll};

pub use server_side::{BufferedBody, ServerPart, ServerSide};

use crate::refusals::RESPONSE_NOT_KEPT;
use crate::response_buffer::BufferProgress;
use crate::{ClientLoss, Exchange, ResponseBuffer};
use keepwarm_net::SpoolError;

/// The backend of a request, as [`poll_pump`] sees it.
pub trait Backend<'c> {
    /// How the work ends.
    type End;

    /// The client's side: the exchange, and the buffer of its response.
    fn client(&mut self) -> (&mut Exchange<'c>, &mut ResponseBuffer);

    /// Once both sides have switched protocols (`101`): moves the bytes of the new one. `None`: they have not switched.
    fn poll_switched(&mut self, cx: &mut Context<'_>) -> Option<Poll<Self::End>>;

    /// Takes the next part of the response; there is room for it.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> PartResult<Self::End>;

    /// There was no room for a part: registers for other events of the backend, if any.
    fn wait_for_room(&mut self, _cx: &Context<'_>) {}

    /// Sends available bytes of the request, as far as they are taken. `Some`: that ended the work.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Option<Self::End>;

    /// Nothing more can be moved now: checks the deadlines.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Self::End>;

    /// All of the buffered response is with the client's connection, its end too.
    fn kept_sent(&mut self) {}

    /// The client's side has ended.
    fn client_ended(&mut self, end: ClientEnd<'_>) -> Self::End;
}

/// The result of taking a part of the response.
#[derive(Debug)]
pub enum PartResult<E> {
    /// It was taken; there may be another.
    Taken,
    /// There is none now, or none will come.
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
    /// A part of the response was lost on disk: the client got an error response, or was cut.
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

/// A part of the response is lost: its client must not take the rest for the whole.
#[cold]
fn lose_kept<'c, B: Backend<'c>>(backend: &mut B, error: &SpoolError) -> B::End {
    RESPONSE_NOT_KEPT.respond(backend.client().0);
    backend.client_ended(ClientEnd::KeptLost(error))
}

/// Why queued bytes could not be written.
#[derive(Debug)]
pub(crate) enum FlushError {
    /// The client was lost.
    ClientLost(ClientLoss),
    /// Buffered bytes are lost: the response cannot be completed.
    Kept(SpoolError),
}
