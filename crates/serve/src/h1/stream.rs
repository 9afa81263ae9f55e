//! A connection, and its current request, if any.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keepwarm_http1::{Fields, ListenerKind, Plan, RequestDecoder, RequestFacts};
use keepwarm_net::{Deadlines, Transport, now, thread_index};
use keepwarm_policy::MinRate;
use keepwarm_telemetry::meters::ListenerCells;
use tokio::time::Instant;

use super::storage::Storage;
use crate::listener::Activity;
use crate::websocket::WebSocketState;
use crate::{ConnectionInfo, ListenerContext, Request};

/// A server-role connection. The state of one request is in [`ExchangeState`], replaced for each.
pub(crate) struct Stream {
    pub(super) io: Transport,
    pub(crate) deadlines: Deadlines,
    pub(super) activity: Activity,
    pub(super) context: Arc<ListenerContext>,
    /// This thread's counts of the listener.
    pub(super) cells: &'static ListenerCells,
    pub(crate) decoder: RequestDecoder,
    /// Empty while the connection is idle.
    pub(crate) storage: Storage,
    pub(crate) request: Request,
    pub(crate) state: ExchangeState,
    pub(super) opened: Instant,
    /// Requests that got their response.
    pub(super) served: u64,
    /// A request was given to the handler, and is not finished.
    pub(super) under_way: bool,
    /// Whether it has buffers.
    pub(super) awake: bool,
    /// The client has shut its writing side.
    pub(super) read_closed: bool,
    /// The transport is unusable.
    pub(super) broken: Option<crate::ClientLoss>,
}

/// One exchange.
#[derive(Debug)]
pub(crate) struct ExchangeState {
    pub(super) facts: RequestFacts,
    pub(crate) body_done: bool,
    pub(super) body_received: u64,
    pub(crate) body_limit: Option<u64>,
    pub(super) body_failed: bool,
    pub(super) body_rate: MinRate,
    pub(super) awaits_continue: bool,
    pub(crate) half_close_is_gone: bool,
    pub(super) response: ResponseState,
    pub(super) status: u16,
    pub(super) body_sent: u64,
    /// Offset of its head in the buffer, after informational ones.
    pub(super) head_at: usize,
    pub(super) drain_rate: MinRate,
    /// The timer of a held head; created on first use.
    pub(super) hold: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
    /// The client must see a refusal although it may still be sending.
    pub(crate) refused: bool,
    pub(super) websocket: Option<Box<WebSocketState>>,
    /// The response is an upstream's.
    pub(crate) from_upstream: bool,
    /// Bytes of another protocol are passed through.
    pub(super) tunnel: bool,
    /// The framing of the cut response shows that it is incomplete.
    pub(super) shows_cut: bool,
    /// It was cut because its client had left.
    pub(crate) client_lost: Option<crate::ClientLoss>,
}

/// The progress of the response.
#[derive(Debug)]
pub(super) enum ResponseState {
    /// No head yet.
    None,
    /// HTTP/1.0 with keep-alive and a body of unknown length: the head waits until the length is known or the body is a stream
    /// (`spec/http.md` §1). The body so far is in [`keepwarm_net::WriteBuffer::body`], unframed.
    Pending(Box<PendingHead>),
    /// The head is written or in the buffer.
    Started {
        plan: Plan,
        /// Remaining bytes of a body with a length.
        remaining: u64,
        /// Whether a byte of the body, or the head, has been written.
        flushed: bool,
    },
    /// Complete.
    Ended { keep: bool },
    /// It will never be complete.
    Cut,
    /// Turned into a WebSocket, or a tunnel.
    Switched,
}

#[derive(Debug)]
pub(super) struct PendingHead {
    pub(super) status: u16,
    pub(super) fields: Fields,
    pub(super) has_date: bool,
}

impl ExchangeState {
    pub(super) fn new(facts: RequestFacts, limits: &crate::ConnectionLimits) -> Self {
        Self {
            facts,
            body_done: false,
            body_received: 0,
            body_limit: None,
            body_failed: false,
            body_rate: MinRate::new(limits.body_rate, limits.body_grace),
            awaits_continue: false,
            half_close_is_gone: false,
            response: ResponseState::None,
            status: 0,
            body_sent: 0,
            head_at: 0,
            drain_rate: MinRate::new(limits.drain_rate, limits.body_grace),
            hold: None,
            refused: false,
            websocket: None,
            from_upstream: false,
            tunnel: false,
            shows_cut: false,
            client_lost: None,
        }
    }
}

impl Stream {
    pub(super) fn new(io: Transport, peer: ConnectionInfo, context: Arc<ListenerContext>) -> Self {
        let listener = match context.handler.is_forward_proxy() {
            true => ListenerKind::ForwardProxy,
            false => ListenerKind::Origin,
        };
        let decoder = RequestDecoder::with_kind(context.limits.syntax, listener);
        let request = Request::new(Rc::new(peer));
        let state = ExchangeState::new(RequestFacts::of(&request.head), &context.limits);
        Self {
            io,
            deadlines: Deadlines::new(),
            activity: context.open.track(),
            decoder,
            storage: Storage::default(),
            request,
            state,
            opened: now(),
            served: 0,
            under_way: false,
            awake: false,
            read_closed: false,
            broken: None,
            cells: context.meter.of(thread_index()),
            context,
        }
    }

    /// Takes warm buffers for a new request.
    pub(super) fn wake(&mut self) {
        if !self.awake {
            self.storage = Storage::take();
            std::mem::swap(&mut self.request.head, &mut self.storage.head);
            self.awake = true;
            self.activity.set_busy();
        }
    }

    /// Returns the buffers: the connection is idle from `now` on.
    pub(super) fn rest(&mut self, now: Instant) {
        if self.awake {
            std::mem::swap(&mut self.request.head, &mut self.storage.head);
            std::mem::take(&mut self.storage).give();
            self.io.rest();
            self.awake = false;
            self.activity.set_idle(now, self.served > 0);
        }
    }

    /// A head has been decoded: an exchange begins.
    pub(super) fn begin(&mut self) {
        self.request.restart(self.context.next_request_number());
        self.state = ExchangeState::new(RequestFacts::of(&self.request.head), &self.context.limits);
        self.state.awaits_continue = self.request.head.expects_continue;
        self.state.body_done = self.request.head.body == keepwarm_http1::RequestBody::None;
    }

    /// Whether the connection must end after the response whose head is now written.
    pub(super) fn must_close(&self) -> bool {
        let limits = &self.context.limits;
        self.is_draining()
            // Requests sent before it closed its side still get a response.
            || (self.read_closed && self.storage.read.is_empty())
            || self.served + 1 >= limits.requests
            || self.opened + limits.age <= now()
            || self.state.refused
            || self.state.body_failed
            || self.context.open.takes_turn(self.opened)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.context.draining.load(Ordering::Relaxed)
    }

    /// Of the request, once its body is done.
    pub(crate) fn trailers(&self) -> &Fields {
        self.decoder.trailers()
    }

    pub(crate) fn body_buffered(&self) -> bool {
        !self.storage.read.is_empty()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.storage.out.len() + self.io.unsent()
    }

    pub(crate) fn limits(&self) -> &crate::ConnectionLimits {
        &self.context.limits
    }

    pub(crate) fn responded(&self) -> bool {
        !matches!(self.state.response, ResponseState::None)
    }

    pub(crate) fn over(&self) -> bool {
        matches!(self.state.response, ResponseState::Ended { .. } | ResponseState::Cut)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("served", &self.served)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
