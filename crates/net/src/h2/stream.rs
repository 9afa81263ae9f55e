//! One call: a stream of a connection.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method};
use keepwarm_http1::{Event, Fields, RequestBody, ResponseHead};

use super::error::{self, CallProgress};
use super::head::{self, RequestInfo, fault};
use super::link::Link;
use super::pool::Http2Pool;
use super::sending::Sending;
use crate::CallHead;
use crate::client::{ClientError, ResponsePart};

/// A slot for one call on a connection, then the call: what [`crate::Client`] is for HTTP/1.1, with the same methods.
///
/// Dropped before both messages are complete, it is cancelled (RST_STREAM with CANCEL); the connection stays open.
#[derive(Debug)]
pub struct Http2Call {
    link: Arc<Link>,
    pool: Arc<Http2Pool>,
    sender: Option<SendRequest<Bytes>>,
    /// How long the connection had been idle; `None`: it is new.
    idle: Option<Duration>,
    /// 0 before it has begun.
    stream: u32,
    request: Sending,
    response: Receiving,
}

/// The response.
#[derive(Debug)]
struct Receiving {
    state: StreamState,
    asked: RequestInfo,
    /// The request opens a WebSocket: what its client expects as `Sec-WebSocket-Accept`.
    accept: Option<String>,
    /// The server has accepted it.
    switched: bool,
    head: ResponseHead,
    trailers: Fields,
    /// The caller's view of the data: the next poll returns its room to the server.
    data: Bytes,
    received: u64,
    heard: bool,
    /// Reads of the connection when the call began, to detect later ones.
    reads: u64,
}

#[derive(Debug)]
enum StreamState {
    Head(ResponseFuture),
    Body(RecvStream),
    Ended,
    /// Before it begins, or after an error, which is reported once.
    Over(Option<ClientError>),
}

impl Http2Call {
    pub(super) fn new(
        sender: SendRequest<Bytes>,
        link: Arc<Link>,
        pool: Arc<Http2Pool>,
        idle: Option<Duration>,
    ) -> Self {
        let response = Receiving {
            state: StreamState::Over(None),
            asked: RequestInfo { head: false },
            accept: None,
            switched: false,
            head: ResponseHead::default(),
            trailers: Fields::new(),
            data: Bytes::new(),
            received: 0,
            heard: false,
            reads: link.reads(),
        };
        Self { link, pool, sender: Some(sender), idle, stream: 0, request: Sending::default(), response }
    }

    /// Begins the request. Once.
    pub fn begin<'f>(&mut self, head: CallHead<'_, impl Iterator<Item = (&'f [u8], &'f [u8])>>) {
        let Some(mut sender) = self.sender.take() else { return };
        let framing = head.framing;
        self.response.asked = RequestInfo { head: *head.method == Method::HEAD };
        self.response.accept = head.websocket_accept.map(str::to_owned);
        let opens_websocket = self.response.accept.is_some();
        self.request.due = match framing {
            RequestBody::None if opens_websocket => None,
            RequestBody::None => Some(0),
            RequestBody::Length(length) => Some(length),
            RequestBody::Chunked => None,
        };
        let Some(request) = head::request(head) else {
            let why = fault("not_sendable", "cannot be sent this request over HTTP/2");
            self.response.state = StreamState::Over(Some(ClientError::NotProcessed(why)));
            return;
        };
        let bodiless = framing == RequestBody::None && !opens_websocket;
        match sender.send_request(request, bodiless) {
            Ok((response, stream)) => {
                self.stream = response.stream_id().as_u32();
                self.link.open_stream(self.stream);
                self.response.state = StreamState::Head(response);
                self.request.ended = bodiless;
                self.request.stream = (!bodiless).then_some(stream);
            }
            // It ended after the slot was given.
            Err(error) => {
                self.response.state = StreamState::Over(Some(error::told(error, &self.link, self.known())));
            }
        }
    }

    /// Bytes of the request's body.
    pub fn send(&mut self, bytes: &[u8]) {
        let Sending { stream: Some(_), due, out, .. } = &mut self.request else { return };
        match due {
            Some(due) if bytes.len() as u64 > *due => self.call_off(),
            Some(due) => {
                *due -= bytes.len() as u64;
                out.extend_from_slice(bytes);
            }
            None => out.extend_from_slice(bytes),
        }
    }

    /// The request is complete; `trailers` follow it, unless its length was announced. One that opens a WebSocket stays open.
    pub fn end(&mut self, trailers: &Fields) {
        if self.response.accept.is_some() || self.response.switched {
            return;
        }
        if std::mem::replace(&mut self.request.ended, true) || self.request.stream.is_none() {
            return;
        }
        match self.request.due {
            Some(1..) => self.call_off(),
            Some(0) => {}
            None => {
                self.request.trailers = Some(head::trailers(trailers.iter())).filter(|map| !map.is_empty())
            }
        }
    }

    /// The body does not match the announced length (RFC 9113 §8.1.1): the server must not take it for complete.
    fn call_off(&mut self) {
        if let Some(mut stream) = self.request.stream.take() {
            stream.send_reset(Reason::CANCEL);
        }
        self.request.out.clear();
        let why = fault(
            "request_length",
            "would have been sent a body whose length differs from the announced one",
        );
        self.response.state = StreamState::Over(Some(ClientError::Fault(why)));
    }

    /// Bytes queued that the connection has not taken yet.
    pub fn unsent(&self) -> usize {
        self.request.out.len()
    }

    /// Hands queued bytes to the connection, as far as the server has room. Ready when all are taken, or no more will be: the response then shows the
    /// outcome of the request.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.request.poll_flush(cx)
    }

    /// The next part of the response. After [`ResponsePart::End`] and after an error there is none.
    pub fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponsePart<'_>, ClientError>> {
        let step = ready!(self.poll_step(cx));
        Poll::Ready(match step {
            Ok(event) => Ok(match event {
                Event::Informational => ResponsePart::Informational(&self.response.head),
                Event::Head => ResponsePart::Head(&self.response.head),
                Event::Data { .. } => ResponsePart::Data(&self.response.data),
                Event::Trailers => ResponsePart::Trailers(&self.response.trailers),
                Event::End | Event::NeedMore => ResponsePart::End,
            }),
            Err(error) => Err(error),
        })
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, ClientError>> {
        let part = match &mut self.response.state {
            StreamState::Head(response) => ready!(poll_head(response, cx)),
            StreamState::Body(body) => {
                release(body, &mut self.response.data);
                ready!(poll_body(body, cx))
            }
            StreamState::Ended => return Poll::Ready(Ok(Event::End)),
            StreamState::Over(error) => {
                let none = || ClientError::NotProcessed(fault("not_begun", "was sent no request"));
                return Poll::Ready(Err(error.take().unwrap_or_else(none)));
            }
        };
        let event = part.map_err(|error| self.told(error)).and_then(|part| self.take(part));
        if let Err(error) = &event {
            if matches!(error, ClientError::NoResponse(_)) {
                self.prove(false);
            }
            self.response.state = StreamState::Over(None);
            self.request.stop();
        }
        Poll::Ready(event)
    }

    fn take(&mut self, part: StreamPart) -> Result<Event, ClientError> {
        match part {
            StreamPart::Informational(parts) => self.take_head(&parts, None),
            StreamPart::Head(parts, body) => self.take_head(&parts, Some(body)),
            StreamPart::Data(data) => {
                let end = data.len();
                self.response.received += end as u64;
                self.response.data = data;
                Ok(Event::Data { start: 0, end })
            }
            StreamPart::Trailers(map) => self.take_trailers(map),
        }
    }

    fn take_head(
        &mut self,
        parts: &http::response::Parts,
        body: Option<RecvStream>,
    ) -> Result<Event, ClientError> {
        if !std::mem::replace(&mut self.response.heard, true) {
            self.prove(true);
        }
        self.link.take_head(self.stream);
        let ended = body.as_ref().is_some_and(RecvStream::is_end_stream);
        head::fill_response(&mut self.response.head, parts, self.response.asked, ended)
            .map_err(ClientError::Fault)?;
        let Some(body) = body else { return Ok(Event::Informational) };
        self.response.state = StreamState::Body(body);
        if let Some(accept) = self.response.accept.take() {
            self.answer_opening(&accept);
        }
        Ok(Event::Head)
    }

    /// The response to the opening of a WebSocket has come.
    fn answer_opening(&mut self, accept: &str) {
        match self.response.head.status.is_success() {
            true => {
                head::switch(&mut self.response.head, accept);
                self.response.switched = true;
            }
            // It is the response to an ordinary request then, which has no body.
            false => self.request.ended = true,
        }
    }

    /// Whether the server opens WebSockets over HTTP/2 (RFC 8441 §3), once its SETTINGS tell. `true`, too, where the connection has ended: the call on it fails, and says why.
    pub(crate) async fn offers_extended_connect(&self) -> bool {
        poll_fn(|cx| self.link.poll_settled(cx)).await;
        let offers = self.sender.as_ref().is_some_and(SendRequest::is_extended_connect_protocol_enabled);
        offers || !self.link.is_settled()
    }

    /// Bytes of the tunnel, after the `101`. `Ok(&[])` is its end.
    ///
    /// # Errors
    /// The stream was reset, or the connection is lost.
    pub fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        match ready!(self.poll_step(cx)) {
            Ok(Event::Data { .. }) => Poll::Ready(Ok(&self.response.data)),
            Ok(_) => Poll::Ready(Ok(&[])),
            Err(error) => Poll::Ready(Err(io::Error::other(error.to_string()))),
        }
    }

    /// Ends our side of the tunnel: END_STREAM, with the next [`Self::poll_flush`].
    pub fn shutdown_write(&mut self) {
        self.request.ended = true;
    }

    fn take_trailers(&mut self, map: Option<HeaderMap>) -> Result<Event, ClientError> {
        self.response.state = StreamState::Ended;
        let Some(map) = map else { return Ok(Event::End) };
        self.link.take_head(self.stream);
        head::fill_trailers(&mut self.response.trailers, &map).map_err(ClientError::Fault)?;
        Ok(if self.response.trailers.is_empty() { Event::End } else { Event::Trailers })
    }

    /// Reports whether a connection that was idle was still usable.
    fn prove(&self, responded: bool) {
        if let Some(idle) = self.idle.filter(|idle| !idle.is_zero()) {
            self.pool.handle_proof(&self.link.endpoint, idle, responded);
        }
    }

    fn told(&self, error: h2::Error) -> ClientError {
        error::told(error, &self.link, self.known())
    }

    fn known(&self) -> CallProgress {
        let Receiving { heard, received, .. } = self.response;
        CallProgress { stream: self.stream, heard, received, announced: self.response.head.content_length }
    }

    /// The latest head.
    pub fn head(&self) -> &ResponseHead {
        &self.response.head
    }

    /// Whether the socket took the head of the request. If not, no server has begun to process it.
    pub fn has_sent(&self) -> bool {
        self.stream != 0 && self.link.has_sent(self.stream)
    }

    /// Whether something of the response came.
    pub fn has_heard(&self) -> bool {
        self.response.heard
    }

    /// How long the connection had been idle before this call; `None`: it is new.
    pub fn idle(&self) -> Option<Duration> {
        self.idle
    }
}

impl Drop for Http2Call {
    fn drop(&mut self) {
        let waited = matches!(self.response.state, StreamState::Head(_)) && self.has_sent();
        if waited && !self.response.heard && self.link.reads() == self.response.reads {
            self.link.doubt();
        }
        // The stream first: an incomplete one is cancelled while the connection still counts it.
        self.response.state = StreamState::Ended;
        self.request.stream = None;
        self.sender = None;
        self.link.close_stream(self.stream);
        self.pool.handle_call_end(&self.link);
    }
}

enum StreamPart {
    Informational(http::response::Parts),
    Head(http::response::Parts, RecvStream),
    Data(Bytes),
    Trailers(Option<HeaderMap>),
}

fn poll_head(response: &mut ResponseFuture, cx: &mut Context<'_>) -> Poll<Result<StreamPart, h2::Error>> {
    // RFC 9110 §15.2: any number of them, in order.
    if let Some(informational) = ready!(response.poll_informational(cx)) {
        return Poll::Ready(informational.map(|head| StreamPart::Informational(head.into_parts().0)));
    }
    let (parts, body) = ready!(Pin::new(response).poll(cx))?.into_parts();
    Poll::Ready(Ok(StreamPart::Head(parts, body)))
}

fn poll_body(body: &mut RecvStream, cx: &mut Context<'_>) -> Poll<Result<StreamPart, h2::Error>> {
    while let Some(data) = ready!(body.poll_data(cx)) {
        let data = data?;
        if !data.is_empty() {
            return Poll::Ready(Ok(StreamPart::Data(data)));
        }
    }
    Poll::Ready(ready!(body.poll_trailers(cx)).map(StreamPart::Trailers))
}

/// Returns room to the server for data that the caller has consumed.
fn release(body: &mut RecvStream, data: &mut Bytes) {
    if !data.is_empty() {
        // Fails only for more than is held.
        let _ = body.flow_control().release_capacity(data.len());
        *data = Bytes::new();
    }
}
