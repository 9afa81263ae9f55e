//! The frames that the worker may send on one stream (spec §5, §7).
//!
//! ```text
//!            RESPONSE            DATA            END, TRAILERS
//! Waiting ─────────────▶ Body ──┐◀──┘ ───────────────────────────▶ over
//!    │  ▲                                          CLOSE             ▲
//!    │  └─ INFORM      101 (asked for) ▶ Messages ───────────────────┤
//!    │└─────────────────────── HIJACK ───────────────────────────────┤
//!    └───────────────────────── RESET (from any) ────────────────────┘
//! ```

use super::add_credit;
use super::window::Window;
use crate::FaultKind;
use crate::frame::{FromWorker, Response, message_cost};

/// One open stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    response: ResponseState,
    /// The request asked for a WebSocket.
    websocket: bool,
    /// The worker has shown that it is processing the request.
    begun: bool,
    /// Keepwarm has sent RESET.
    reset: bool,
    /// Credit of Keepwarm.
    pub(super) send: u32,
    /// Credit of the worker.
    pub(super) receive: Window,
}

/// The progress of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseState {
    /// No RESPONSE yet.
    Waiting,
    /// A body follows.
    Body,
    /// An accepted WebSocket, between messages or within one.
    Messages(Option<MessageKind>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    Text,
    Binary,
}

/// The effect of a frame.
pub(super) struct FrameEffect {
    /// The credit it cost.
    pub(super) bytes: u32,
    /// The worker has ended the stream.
    pub(super) over: bool,
}

impl FrameEffect {
    const NOTHING: Self = Self { bytes: 0, over: false };
    const OVER: Self = Self { bytes: 0, over: true };
}

impl Stream {
    pub(super) fn new(websocket: bool, send: u32, receive: u32) -> Self {
        let receive = Window::new(receive);
        Self { response: ResponseState::Waiting, websocket, begun: false, reset: false, send, receive }
    }

    /// Whether RESPONSE has come.
    pub(super) fn responded(&self) -> bool {
        self.response != ResponseState::Waiting
    }

    /// Whether the worker has shown that it is processing the request.
    pub(super) fn begun(&self) -> bool {
        self.begun
    }

    pub(super) fn was_reset(&self) -> bool {
        self.reset
    }

    pub(super) fn set_reset(&mut self) {
        self.reset = true;
    }

    /// Checks a frame of this stream, and advances the state.
    #[inline]
    pub(super) fn handle(&mut self, frame: &FromWorker<'_>) -> Result<FrameEffect, (FaultKind, u64)> {
        match *frame {
            FromWorker::Response(ref response) => self.handle_response(response),
            FromWorker::Data { bytes, end, .. } => {
                self.needs_body()?;
                Ok(FrameEffect { bytes: len(bytes), over: end })
            }
            FromWorker::Trailers { .. } => {
                self.needs_body()?;
                Ok(FrameEffect::OVER)
            }
            FromWorker::Inform { status, .. } => {
                if self.responded() {
                    return Err((FaultKind::LateInform, status.into()));
                }
                self.begun = true;
                Ok(FrameEffect::NOTHING)
            }
            FromWorker::Want { .. } => {
                self.begun = true; // spec §4: otherwise harmless, at any time
                Ok(FrameEffect::NOTHING)
            }
            FromWorker::Credit { amount, .. } => {
                add_credit(&mut self.send, amount)?;
                Ok(FrameEffect::NOTHING)
            }
            FromWorker::Reset { .. } => Ok(FrameEffect::OVER),
            FromWorker::Hijack { .. } if self.responded() => Err((FaultKind::SecondResponse, 0)),
            FromWorker::Hijack { .. } => Ok(FrameEffect::OVER),
            FromWorker::Text { bytes, end, .. } => self.handle_message(MessageKind::Text, bytes, end),
            FromWorker::Binary { bytes, end, .. } => self.handle_message(MessageKind::Binary, bytes, end),
            FromWorker::Close { .. } => {
                self.needs_messages()?;
                Ok(FrameEffect::OVER)
            }
            // Frames of the connection do not come here.
            FromWorker::Hello(_)
            | FromWorker::Pong { .. }
            | FromWorker::Drain
            | FromWorker::Busy { .. }
            | FromWorker::Samples(_)
            | FromWorker::Growth(_) => Err((FaultKind::StreamId, 0)),
        }
    }

    fn handle_response(&mut self, response: &Response<'_>) -> Result<FrameEffect, (FaultKind, u64)> {
        if self.responded() {
            return Err((FaultKind::SecondResponse, response.status.into()));
        }
        let accepted = response.status == 101;
        if accepted && !self.websocket {
            return Err((FaultKind::NotWebsocket, response.status.into()));
        }
        self.begun = true;
        self.response = if accepted { ResponseState::Messages(None) } else { ResponseState::Body };
        Ok(FrameEffect { bytes: 0, over: response.end })
    }

    fn handle_message(
        &mut self,
        message: MessageKind,
        bytes: &[u8],
        end: bool,
    ) -> Result<FrameEffect, (FaultKind, u64)> {
        let within = self.needs_messages()?;
        if within.is_some_and(|open| open != message) {
            return Err((FaultKind::MixedMessage, 0));
        }
        self.response = ResponseState::Messages(if end { None } else { Some(message) });
        Ok(FrameEffect { bytes: message_cost(bytes.len()) as u32, over: false })
    }

    fn needs_body(&self) -> Result<(), (FaultKind, u64)> {
        match self.response {
            ResponseState::Body => Ok(()),
            ResponseState::Waiting => Err((FaultKind::BeforeResponse, 0)),
            ResponseState::Messages(_) => Err((FaultKind::WebsocketBody, 0)),
        }
    }

    /// The message in progress, if any.
    fn needs_messages(&self) -> Result<Option<MessageKind>, (FaultKind, u64)> {
        match self.response {
            ResponseState::Messages(within) => Ok(within),
            ResponseState::Waiting if self.websocket => Err((FaultKind::BeforeResponse, 0)),
            ResponseState::Waiting | ResponseState::Body => Err((FaultKind::NotWebsocket, 0)),
        }
    }
}

/// The length of a frame's bytes, which is at most `MAX_BODY`.
fn len(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}
