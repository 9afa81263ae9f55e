//! The rest of a request whose client has gone or has its response from elsewhere: until its script ends, its server takes no other request.
//!
//! FastCGI can cancel a request, but PHP reads that record only after the script. A script whose client has gone learns it as in any PHP, when it
//! prints: the write fails, and PHP stops the script unless `ignore_user_abort` is set. What it printed with its last write is still taken, so a
//! script that prints at its end is never stopped.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_net::{ResponsePart, SpoolError};
use keepwarm_serve::{ServerExchange, UNSENT_ENOUGH};
use keepwarm_telemetry::app_output::{self, RecordAssembler};
use tracing::Level;

use super::super::activity::RequestSummary;
use super::super::conversation::body::BodySource;
use super::behind;
use super::server::SlotGuard;
use super::worker_request::BLOCK;
use super::{Dialect, ServerConnection, none};
use crate::supervisor::WorkerKey;

/// Whether a script may notice that nobody reads its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The client has gone: a script that keeps printing is told.
    Gone,
    /// The client has its response from elsewhere, or the script cannot be told.
    Served,
}

/// Gives the server the rest of the request, if that is here, and takes its response to the end, for at most `limit`, as a task of this thread. What comes is
/// dropped; what is for the log is not.
pub(super) fn run_out<C: Dialect>(
    lease: C::Connection,
    slot: SlotGuard,
    (source, reader): (BodySource, Reader),
    (limit, summary): (Duration, RequestSummary),
) {
    if matches!(source, BodySource::Client) {
        // The rest will never come: the server learns it by the end of the connection.
        return;
    }
    let mut discard = ResponseDiscard::<C> { lease, source, reader, block: Vec::new() };
    drop(keepwarm_net::spawn_local(async move {
        let ended = tokio::time::timeout(limit, poll_fn(|cx| discard.poll(cx))).await;
        tell(&slot.link.key, &discard.lease.take_words());
        match ended {
            Ok(DiscardEnd::Complete) => behind::finish::<C>(discard.lease, slot, (limit, &summary)),
            Ok(DiscardEnd::Refused) => behind::finish_refused::<C>(discard.lease, slot, limit, summary).await,
            Err(_) => {
                let child = discard.lease.child_guard().map(|line| Arc::clone(line.child()));
                slot.link.suspect(&summary, child.as_ref());
            }
        }
    }));
}

/// Writes words of a worker to the log: what it had to say of one request is here whole.
pub(super) fn tell(worker: &WorkerKey, words: &[u8]) {
    let WorkerKey { app, number, pid, .. } = worker;
    let mut records = RecordAssembler::default();
    let log = |level: Level, text: &[u8]| {
        if !text.is_empty() {
            app_output::log(level, app_output::Printer::Worker(app, *number), *pid, "stderr", text);
        }
    };
    for line in words.split(|&byte| byte == b'\n') {
        records.push_line(line.strip_suffix(b"\r").unwrap_or(line), log);
    }
    records.flush(log);
}

/// How the discarding of a response ended.
enum DiscardEnd {
    /// The response is complete, or the connection failed.
    Complete,
    /// The script printed and has more to do: its next output fails.
    Refused,
}

/// A response that is read and discarded.
struct ResponseDiscard<C: Dialect> {
    lease: C::Connection,
    source: BodySource,
    reader: Reader,
    block: Vec<u8>,
}

impl<C: Dialect> ResponseDiscard<C> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<DiscardEnd> {
        loop {
            match self.poll_request(cx) {
                Ok(true) => {}
                Ok(false) => break,
                // The rest of the request is lost: the server learns it by the end of the connection.
                Err(_) => return Poll::Ready(DiscardEnd::Complete),
            }
        }
        let mut printed = false;
        loop {
            match self.lease.poll_response(cx) {
                Poll::Ready(Ok(ResponsePart::End) | Err(_)) => return Poll::Ready(DiscardEnd::Complete),
                Poll::Ready(Ok(part)) => {
                    printed |= matches!(part, ResponsePart::Data(bytes) if !bytes.is_empty())
                }
                Poll::Pending if printed && self.reader == Reader::Gone => {
                    if self.lease.refuse_rest() {
                        return Poll::Ready(DiscardEnd::Refused);
                    }
                    // It prints to the end, and that is read.
                    self.reader = Reader::Served;
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// `true`: more can be sent.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<bool, SpoolError> {
        if self.lease.poll_flush(cx).is_pending() && self.lease.unsent() >= UNSENT_ENOUGH {
            return Ok(false);
        }
        let BodySource::Spool(spool, _) = &mut self.source else { return Ok(false) };
        self.block.clear();
        match spool.poll_read(cx, &mut self.block, BLOCK) {
            Poll::Ready(Ok(_)) => self.lease.send(&self.block),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => return Ok(false),
        }
        if spool.is_empty() {
            self.lease.end(&none());
            self.source = BodySource::Sent;
            return Ok(!self.lease.poll_flush(cx).is_ready());
        }
        Ok(true)
    }
}
