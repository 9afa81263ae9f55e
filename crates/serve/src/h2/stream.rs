//! One request and its response.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Method, Response};
use keepwarm_http1::{ExtendedConnect, Fields, Http2Head, ListenerKind, RequestBody, RequestFacts};
use keepwarm_net::Deadlines;
use keepwarm_net::h2::Sending;
use keepwarm_policy::MinRate;
use keepwarm_telemetry::RequestId;
use keepwarm_telemetry::panics::Panic;

use super::connect::StreamSocket;
use super::scheduler::{Scheduler, StreamTurns};
use super::windows::BytesRead;
use crate::refusals::PANICKED;
use crate::{
    BodyError, ClientLoss, ConnectionInfo, ConnectionLimits, Exchange, Frontend, ListenerContext, Outcome,
    Refusal, Request, ResponseOutcome,
};

/// One request on a connection: what `h1::Stream` is for HTTP/1.1, with the same methods.
pub(crate) struct ServerStream {
    pub(crate) request: Request,
    pub(crate) deadlines: Deadlines,
    pub(crate) state: Http2ExchangeState,
    pub(super) context: Arc<ListenerContext>,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) body: RecvStream,
    /// Bytes of the body that have arrived and were not read.
    pub(super) unread: Bytes,
    pub(super) trailers: Fields,
    /// The head of the response, held until it is known whether anything follows it.
    pub(super) head: Option<Response<()>>,
    pub(super) sending: Sending,
    pub(super) turns: StreamTurns,
    pub(super) socket: Option<Box<StreamSocket>>,
    /// Informational responses of the connection not yet taken by its socket.
    pub(super) hints: Arc<AtomicUsize>,
    pub(super) read: Arc<BytesRead>,
    /// The client is gone, or the stream is.
    pub(super) broken: Option<ClientLoss>,
    /// The handler was given the outcome.
    finished: bool,
}

/// What the streams of a connection share.
pub(super) struct ConnectionParts {
    pub(super) hints: Arc<AtomicUsize>,
    pub(super) read: Arc<BytesRead>,
    pub(super) scheduler: Arc<Scheduler>,
}

/// The progress of both messages.
#[derive(Debug)]
pub(crate) struct Http2ExchangeState {
    pub(super) facts: RequestFacts,
    pub(crate) body_done: bool,
    pub(super) body_received: u64,
    pub(crate) body_limit: Option<u64>,
    /// Why the body will never be complete: every further read returns it.
    pub(super) body_error: Option<BodyError>,
    pub(super) body_rate: MinRate,
    pub(super) awaits_continue: bool,
    /// Unused here: a client can only end its request.
    pub(crate) half_close_is_gone: bool,
    pub(super) response: Http2ResponseState,
    pub(super) status: u16,
    pub(super) body_sent: u64,
    pub(super) drain_rate: MinRate,
    /// Unused here: the connection has other requests, and does not end with this one.
    pub(crate) refused: bool,
    /// The response is an upstream's.
    pub(crate) from_upstream: bool,
    /// The request opens a WebSocket (RFC 8441).
    pub(super) extended_connect: bool,
    /// The DATA of the stream is another protocol's.
    pub(super) switched: bool,
    /// The response was cut because its client had left.
    pub(crate) client_lost: Option<ClientLoss>,
}

impl Http2ExchangeState {
    /// For a new request; `ended`: without a body.
    fn of(request: &Request, ended: bool, limits: &ConnectionLimits) -> Self {
        Self {
            facts: RequestFacts::of(&request.head),
            body_done: ended,
            body_received: 0,
            body_limit: None,
            body_error: None,
            body_rate: MinRate::new(limits.body_rate, limits.body_grace),
            awaits_continue: request.head.expects_continue,
            half_close_is_gone: false,
            response: Http2ResponseState::None,
            status: 0,
            body_sent: 0,
            drain_rate: MinRate::new(limits.drain_rate, limits.body_grace),
            refused: false,
            from_upstream: false,
            extended_connect: request.head.upgrade,
            switched: false,
            client_lost: None,
        }
    }
}

/// The progress of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Http2ResponseState {
    /// No head yet.
    None,
    /// The head was queued.
    Started {
        /// Whether a body follows it.
        send_body: bool,
        /// The client accepts trailers.
        trailers: bool,
    },
    /// Complete.
    Ended,
    /// It will never be complete.
    Cut,
}

impl ServerStream {
    /// For a new request, with the reason to refuse it, if it is malformed. In a box: a future would keep it twice, and each move copy it.
    pub(super) fn new(
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        peer: Rc<ConnectionInfo>,
        context: Arc<ListenerContext>,
        shared: ConnectionParts,
    ) -> (Box<Self>, Option<Refusal>) {
        let mut ours = Request::new(peer);
        ours.http2 = true;
        ours.number = context.next_request_number();
        let (parts, body) = request.into_parts();
        let priority = parts.headers.get("priority").map(http::HeaderValue::as_bytes);
        let ConnectionParts { hints, read, scheduler } = shared;
        let turns = StreamTurns::new(scheduler, respond.stream_id().as_u32(), priority);
        let protocol = parts.extensions.get::<h2::ext::Protocol>();
        let key = protocol.map(|_| opening_key(ours.number));
        let connect = protocol.zip(key.as_deref());
        let listener = match context.handler.is_forward_proxy() {
            true => ListenerKind::ForwardProxy,
            false => ListenerKind::Origin,
        };
        let ended = body.is_end_stream() || parts.method == Method::CONNECT;
        let limits = &context.limits;
        let filled = ours.head.fill_http2(Http2Head {
            method: &parts.method,
            authority: parts.uri.authority().map(|authority| authority.as_str().as_bytes()),
            path: parts.uri.path_and_query().map_or(b"", |path| path.as_str().as_bytes()),
            fields: parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())),
            limits: limits.syntax,
            ended,
            listener,
            connect: connect.map(|(protocol, key)| ExtendedConnect {
                protocol: protocol.as_str().as_bytes(),
                key: key.as_bytes(),
            }),
        });
        let refusal = filled.err().map(|fault| {
            // A partial head is not this request's, and with HEAD, its refusal would be empty.
            ours.head = keepwarm_http1::RequestHead::default();
            (&fault).into()
        });
        let state = Http2ExchangeState::of(&ours, ended, limits);
        debug_assert!(!ended || ours.head.body == RequestBody::None);
        let stream = Box::new(Self {
            request: ours,
            deadlines: Deadlines::new(),
            state,
            context,
            respond,
            body,
            unread: Bytes::new(),
            trailers: Fields::new(),
            head: None,
            sending: Sending::default(),
            turns,
            socket: None,
            hints,
            read,
            broken: None,
            finished: false,
        });
        (stream, refusal)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.context.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn limits(&self) -> &ConnectionLimits {
        &self.context.limits
    }

    pub(crate) fn responded(&self) -> bool {
        self.state.response != Http2ResponseState::None
    }

    pub(crate) fn over(&self) -> bool {
        matches!(self.state.response, Http2ResponseState::Ended | Http2ResponseState::Cut)
    }

    pub(super) async fn respond(&mut self, handler: &dyn Frontend, refusal: Option<Refusal>) {
        match refusal {
            None => handler.handle(&mut Exchange::http2(self)).await,
            Some(refusal) => handler.refuse(&mut Exchange::http2(self), &refusal),
        }
        self.finish(handler).await;
    }

    /// Reports a panic, and sends an error response for its request, if none has begun.
    pub(super) async fn respond_to_panic(&mut self, handler: &dyn Frontend, panic: &Panic) {
        let request = &self.request;
        panic.report("request", request.notes.target.as_deref(), Some(RequestId::new(request.number)));
        if self.finished {
            return;
        }
        self.request.notes.routed.response_edits = None;
        self.request.notes.routed.takes_app_pages = false;
        self.request.notes.routed.pending_page = None;
        self.request.set_compression(None);
        self.take_back();
        match self.state.response {
            Http2ResponseState::None => {
                self.head = None;
                PANICKED.respond(&mut Exchange::http2(self));
            }
            _ => self.abort(PANICKED.reason),
        }
        self.finish(handler).await;
    }

    /// Finishes the exchange: hands over the rest of the response.
    async fn finish(&mut self, handler: &dyn Frontend) {
        match self.over() {
            true => {}
            // The end of the stream is the end of the tunnel.
            false if self.state.switched && self.broken.is_none() => self.end(),
            false => self.abort("handler_gave_up"),
        }
        let flushed = match self.state.response {
            Http2ResponseState::Cut => self.broken.or(self.state.client_lost).map_or(Ok(()), Err),
            _ => std::future::poll_fn(|cx| self.poll_flush(cx)).await,
        };
        let fate = match (self.state.response, flushed) {
            (_, Err(gone)) => ResponseOutcome::ClientLost(gone),
            (Http2ResponseState::Cut, Ok(())) => ResponseOutcome::Cut,
            (_, Ok(())) => ResponseOutcome::Complete,
        };
        let outcome = Outcome {
            status: self.state.status,
            body_bytes: self.state.body_sent,
            fate,
            elapsed: self.request.received.elapsed(),
        };
        self.finished = true;
        handler.finished(&self.request, &outcome);
        if let ResponseOutcome::ClientLost(ClientLoss::TooSlow) = fate {
            self.context.meter.of(keepwarm_net::thread_index()).too_slow.add(1);
            self.reset(h2::Reason::CANCEL);
        }
    }
}

/// The nonce of an opening in HTTP/1.1 (RFC 6455 §4.1): 16 bytes that no other request of this process has.
fn opening_key(number: u64) -> String {
    let id = RequestId::new(number).to_string();
    let bytes = data_encoding::HEXLOWER.decode(id.as_bytes()).unwrap_or_else(|_| vec![0; 16]);
    data_encoding::BASE64.encode(&bytes)
}

impl std::fmt::Debug for ServerStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerStream").field("state", &self.state).finish_non_exhaustive()
    }
}
