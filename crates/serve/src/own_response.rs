//! A request of Keepwarm itself whose response is read: status, fields and a bounded body.

use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Event, Fields, HopByHop, Limits, ResponseDecoder, ResponseHead};
use keepwarm_net::{Transport, spawn_local};
use tokio::time::{Instant, timeout_at};

use crate::own_request::READ;
use crate::{ConnectionInfo, ListenerContext, h1};

/// What a request of Keepwarm itself may take.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// The whole of it.
    pub time: Duration,
    /// Bytes of the body of its response.
    pub body: usize,
    /// The body of a 2xx is read, too.
    pub reads_success: bool,
}

/// A response to a request of Keepwarm itself.
#[derive(Debug, Clone)]
pub struct FetchedResponse {
    /// Its status, never 1xx.
    pub status: u16,
    /// Its fields, without those that end at this hop and without its length.
    pub fields: Fields,
    /// Its body; empty with a 2xx unless the limits say that it is read.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchFault {
    /// There was none, or it broke off.
    None,
    /// It is not one of HTTP.
    Invalid,
    /// Its body is longer than allowed.
    TooLarge,
    /// It did not end in time.
    Timeout,
}

/// Sends `request`, a GET, encoded and with `Connection: close`, to the handler of `context` as if it came from `peer`. Runs on this thread. If the status is 2xx
/// and its body is not to be read, only the head is waited for; what follows is dropped. The handler's client is gone when this future is dropped.
///
/// # Errors
/// There is no whole response within the limits.
pub async fn fetch_own_response(
    request: Vec<u8>,
    peer: ConnectionInfo,
    context: Arc<ListenerContext>,
    limits: FetchLimits,
) -> Result<FetchedResponse, FetchFault> {
    let (client, server) = Transport::pair_in_memory();
    let until = Instant::now() + limits.time;
    spawn_local(h1::serve(server, peer, context));
    let mut client = OwnClient::new(client, request, limits.body);
    let status = timeout_at(until, poll_fn(|cx| client.poll_head(cx)))
        .await
        .map_err(|_elapsed| FetchFault::Timeout)??;
    let fields = client.fields();
    if (200..300).contains(&status) && !limits.reads_success {
        // The server may still be sending: it is not cut short for that, or its connection could carry no other request.
        spawn_local(timeout_at(until, async move { poll_fn(|cx| client.poll_end(cx)).await }));
        return Ok(FetchedResponse { status, fields, body: Vec::new() });
    }
    timeout_at(until, poll_fn(|cx| client.poll_end(cx))).await.map_err(|_elapsed| FetchFault::Timeout)??;
    Ok(FetchedResponse { status, fields, body: client.body })
}

/// The client's end of the connection.
struct OwnClient {
    transport: Transport,
    request: Vec<u8>,
    sent: usize,
    /// Received, and not decoded.
    unread: Vec<u8>,
    decoder: ResponseDecoder,
    head: ResponseHead,
    body: Vec<u8>,
    max_body: usize,
}

impl OwnClient {
    fn new(transport: Transport, request: Vec<u8>, max_body: usize) -> Self {
        let mut decoder = ResponseDecoder::new(Limits::default());
        decoder.begin(&Method::GET);
        Self {
            transport,
            request,
            sent: 0,
            unread: Vec::with_capacity(READ),
            decoder,
            head: ResponseHead::default(),
            body: Vec::new(),
            max_body,
        }
    }

    /// Those of the response that are meant for its receiver.
    fn fields(&self) -> Fields {
        let hop_by_hop = HopByHop::of(&self.head.fields);
        let mut kept = Fields::new();
        let passes =
            |name: &[u8]| !hop_by_hop.removes(name) && !matches!(name, b"content-length" | b"trailer");
        let passing = self.head.fields.iter().filter(|(name, _)| passes(name));
        passing.for_each(|(name, value)| kept.push(name, value));
        kept
    }

    /// The status of the final response.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<u16, FetchFault>> {
        loop {
            match ready!(self.poll_event(cx))? {
                Event::Head => return Poll::Ready(Ok(self.head.status.as_u16())),
                Event::End => return Poll::Ready(Err(FetchFault::None)),
                _ => {}
            }
        }
    }

    /// The end of the response, its body in [`Self::body`].
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FetchFault>> {
        while ready!(self.poll_event(cx))? != Event::End {}
        Poll::Ready(Ok(()))
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, FetchFault>> {
        loop {
            let decoded =
                self.decoder.decode(&self.unread, &mut self.head).map_err(|_fault| FetchFault::Invalid)?;
            if let Event::Data { start, end } = decoded.event {
                let data = self.unread.get(start..end).unwrap_or_default();
                if data.len() > self.max_body.saturating_sub(self.body.len()) {
                    return Poll::Ready(Err(FetchFault::TooLarge));
                }
                self.body.extend_from_slice(data);
            }
            self.unread.drain(..decoded.consumed.min(self.unread.len()));
            if decoded.event != Event::NeedMore {
                return Poll::Ready(Ok(decoded.event));
            }
            if ready!(self.poll_fill(cx))? == 0 {
                let end = self.decoder.handle_eof().map_err(|_fault| FetchFault::None)?;
                return Poll::Ready(end.ok_or(FetchFault::None));
            }
        }
    }

    /// Writes what is left of the request, and reads more of the response; 0 is its end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, FetchFault>> {
        while let Some(left) = self.request.get(self.sent..).filter(|left| !left.is_empty()) {
            match self.transport.poll_write(cx, &[IoSlice::new(left)]) {
                Poll::Ready(Ok(written)) => self.sent += written.taken,
                // It may have responded without reading everything.
                Poll::Ready(Err(_)) => self.sent = self.request.len(),
                Poll::Pending => break,
            }
        }
        self.unread.reserve(READ);
        self.transport.poll_read(cx, &mut self.unread).map_err(|_error| FetchFault::None)
    }
}
