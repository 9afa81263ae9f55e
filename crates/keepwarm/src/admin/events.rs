//! `GET /events`: each snapshot as a server-sent event (WHATWG HTML, "Server-sent events").

use std::future::poll_fn;
use std::sync::Arc;

use keepwarm_serve::{ClientLoss, Exchange, Request};

use super::AdminHandler;
use super::guard::Operation;
use crate::live::Subscription;

/// Bytes of a snapshot that are queued at once: what a client that does not read costs beside the snapshot, which all share.
const PIECE: usize = 64 * 1024;

/// What a stream waits for.
enum Next {
    Snapshot(Arc<str>),
    /// There are no more.
    End,
    /// A reload, or the end of this address.
    Changed,
    Gone(ClientLoss),
}

/// Responds with snapshots until the client leaves, takes nothing for [`crate::live::SNAPSHOT_TIMEOUT`], or may not read them any more.
pub(super) async fn stream(exchange: &mut Exchange<'_>, mut snapshots: Subscription, handler: &AdminHandler) {
    let mut changes = handler.changes.subscribe();
    let fields = [
        ("Content-Type", "text/event-stream"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    // Closed after the stream: a client that connects again may have to do so elsewhere.
    if exchange.head(200, None, true, fields).is_err() {
        return exchange.abort("bad_field_in_response");
    }
    if exchange.is_head() {
        return exchange.end();
    }
    exchange.data(b"retry: 1000\n\n");
    loop {
        if flush(exchange).await.is_err() {
            return;
        }
        let next = tokio::select! {
            gone = poll_fn(|cx| exchange.poll_gone(cx)) => Next::Gone(gone),
            snapshot = snapshots.next() => snapshot.map_or(Next::End, Next::Snapshot),
            _ = changes.changed() => Next::Changed,
        };
        match next {
            Next::Snapshot(snapshot) => {
                if send(exchange, &snapshot).await.is_err() {
                    return;
                }
            }
            Next::End => return exchange.end(),
            Next::Changed => {
                let is_over = *changes.borrow_and_update();
                if is_over || !handler.admits_events(exchange.request()) {
                    return exchange.end();
                }
            }
            Next::Gone(loss) => return exchange.abort(loss.name()),
        }
    }
}

/// JSON of `serde_json` has no line end, so one line of data holds it.
async fn send(exchange: &mut Exchange<'_>, snapshot: &str) -> Result<(), ClientLoss> {
    exchange.data(b"event: snapshot\ndata: ");
    for piece in snapshot.as_bytes().chunks(PIECE) {
        exchange.data(piece);
        flush(exchange).await?;
    }
    exchange.data(b"\n\n");
    Ok(())
}

async fn flush(exchange: &mut Exchange<'_>) -> Result<(), ClientLoss> {
    poll_fn(|cx| exchange.poll_flush(cx)).await
}

impl AdminHandler {
    /// Whether the client of a stream may still read: the token may be another one since.
    fn admits_events(&self, request: &Request) -> bool {
        self.guard.load().check(request, Operation::Read).is_ok()
    }
}
