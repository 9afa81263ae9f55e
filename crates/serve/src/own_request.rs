//! A request of Keepwarm itself to a handler, as a client would send it: over a connection within the process, through the whole of HTTP/1.

use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use keepwarm_net::Transport;

use crate::{ConnectionInfo, ListenerContext, h1};

/// Bytes of a response read at a time.
pub(crate) const READ: usize = 16 * 1024;

/// The response to a request of Keepwarm itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnResponse {
    /// Its status; the rest was dropped.
    Status(u16),
    /// There was none.
    None,
    /// It did not end in time.
    Timeout,
}

/// Sends `request`, encoded and with `Connection: close`, to the handler of `context` as if it came from `peer`, and drops the response. Runs on this thread, within
/// `time`.
pub async fn send_own_request(
    request: &[u8],
    peer: ConnectionInfo,
    context: Arc<ListenerContext>,
    time: Duration,
) -> OwnResponse {
    let (client, server) = Transport::pair_in_memory();
    let both = async { tokio::join!(exchange(client, request), h1::serve(server, peer, context)) };
    match tokio::time::timeout(time, both).await {
        Ok((Some(status), ())) => OwnResponse::Status(status),
        Ok((None, ())) => OwnResponse::None,
        Err(_elapsed) => OwnResponse::Timeout,
    }
}

async fn exchange(mut transport: Transport, request: &[u8]) -> Option<u16> {
    let mut left = request;
    let mut begin: Vec<u8> = Vec::new();
    let mut read = Vec::with_capacity(READ);
    poll_fn(|cx| {
        while !left.is_empty() {
            match transport.poll_write(cx, &[IoSlice::new(left)]) {
                Poll::Ready(Ok(written)) => left = left.get(written.taken..).unwrap_or_default(),
                // It may have responded without reading everything.
                Poll::Ready(Err(_)) => left = &[],
                Poll::Pending => break,
            }
        }
        loop {
            read.clear();
            match transport.poll_read(cx, &mut read) {
                Poll::Ready(Ok(1..)) => {
                    let missing = STATUS_LINE.saturating_sub(begin.len());
                    begin.extend(read.iter().take(missing));
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    std::str::from_utf8(begin.get(9..STATUS_LINE)?).ok()?.parse().ok()
}

/// The length of `HTTP/1.1 200`.
const STATUS_LINE: usize = 12;
