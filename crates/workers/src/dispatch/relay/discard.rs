//! The rest of a request whose client has gone or has its response from elsewhere: a script cannot be cancelled, and until it ends its server takes
//! no other request.

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

/// Gives the server the rest of the request, if that is here, and takes its response to the end, for at most `limit`, as a task of this thread. What comes is
/// dropped; what is for the log is not.
pub(super) fn run_out<C: Dialect>(
    lease: C::Connection,
    slot: SlotGuard,
    source: BodySource,
    (limit, summary): (Duration, RequestSummary),
) {
    if matches!(source, BodySource::Client) {
        // The rest will never come: the server learns it by the end of the connection.
        return;
    }
    let mut discard = ResponseDiscard::<C> { lease, source, block: Vec::new() };
    drop(keepwarm_net::spawn_local(async move {
        let ended = tokio::time::timeout(limit, poll_fn(|cx| discard.poll(cx))).await;
        tell(&slot.link.key, &discard.lease.take_words());
        match ended {
            Ok(()) => behind::finish::<C>(discard.lease, slot, (limit, &summary)),
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

/// A response that is read to its end and discarded.
struct ResponseDiscard<C: Dialect> {
    lease: C::Connection,
    source: BodySource,
    block: Vec<u8>,
}

impl<C: Dialect> ResponseDiscard<C> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.poll_request(cx) {
                Ok(true) => {}
                Ok(false) => break,
                // The rest of the request is lost: the server learns it by the end of the connection.
                Err(_) => return Poll::Ready(()),
            }
        }
        loop {
            match std::task::ready!(self.lease.poll_response(cx)) {
                Ok(ResponsePart::End) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
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
