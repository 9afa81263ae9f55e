//! One stream of a worker: its credit, the body that is sent on it, and its end.

use keepwarm_wire::encode::{encode_binary, encode_close, encode_data, encode_text, encode_trailers};
use keepwarm_wire::frame::{HEADER_LEN, ResetCode, message_cost};

use super::Link;
use super::write::UNSENT_ENOUGH;

/// What a body frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum BodyKind {
    Data,
    Text,
    Binary,
}

impl Link {
    /// How many bytes of a body may be sent on the stream now: 0 also while much of what was sent before waits for the socket.
    pub(in crate::dispatch) fn send_credit(&self, stream: u32) -> usize {
        let inner = self.lock();
        if inner.unsent.len() > UNSENT_ENOUGH { 0 } else { inner.session.send_credit(stream) as usize }
    }

    /// How many bytes of a message may be sent on the stream now; `None`: no frame of one may.
    pub(in crate::dispatch) fn message_credit(&self, stream: u32) -> Option<usize> {
        let inner = self.lock();
        inner.session.message_credit(stream).filter(|_| inner.unsent.len() <= UNSENT_ENOUGH)
    }

    /// Sends a frame of a body or a message: at most [`Self::send_credit`] or [`Self::message_credit`] bytes of payload.
    pub(in crate::dispatch) fn send_body(&self, kind: BodyKind, stream: u32, bytes: &[u8], end: bool) {
        let mut frame = Vec::with_capacity(HEADER_LEN + bytes.len());
        let encoded = match kind {
            BodyKind::Data => encode_data(&mut frame, stream, bytes, end),
            BodyKind::Text => encode_text(&mut frame, stream, bytes, end),
            BodyKind::Binary => encode_binary(&mut frame, stream, bytes, end),
        };
        debug_assert!(encoded.is_ok(), "a body frame of ours is within its limits");
        let mut inner = self.lock();
        let cost = if kind == BodyKind::Data { bytes.len() } else { message_cost(bytes.len()) };
        inner.session.spent(stream, cost);
        inner.write(self.kind.socket(), &frame);
    }

    /// Sends the trailers of a request.
    pub(in crate::dispatch) fn send_trailers<'f>(
        &self,
        stream: u32,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) {
        let mut frame = Vec::new();
        if encode_trailers(&mut frame, stream, fields).is_err() {
            // More than a frame holds cannot pass the limits of http1; a body without them is still a body.
            frame.clear();
            let _ = encode_data(&mut frame, stream, &[], true);
        }
        self.lock().write(self.kind.socket(), &frame);
    }

    /// Closes a WebSocket.
    pub(in crate::dispatch) fn send_close(&self, stream: u32, code: u16, reason: &str) {
        let mut frame = Vec::new();
        if encode_close(&mut frame, stream, code, reason).is_ok() {
            self.lock().write(self.kind.socket(), &frame);
        }
    }

    /// Whether the worker has not let go of this stream.
    pub(in crate::dispatch) fn is_held(&self, stream: u32) -> bool {
        let inner = self.lock();
        !inner.dead && !inner.session.is_over(stream)
    }

    /// Whether it may be working on this stream now: one that takes requests in their order works on the first.
    pub(in crate::dispatch) fn is_at_work_on(&self, stream: u32) -> bool {
        let inner = self.lock();
        !inner.in_order || !inner.session.is_open_before(stream)
    }

    /// Gives credit back for bytes that have left memory.
    pub(in crate::dispatch) fn release(&self, stream: u32, bytes: usize) {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        inner.session.release(stream, bytes, &mut frame);
        inner.write(self.kind.socket(), &frame);
    }

    /// The client has closed its writing side.
    pub(in crate::dispatch) fn half_close(&self, stream: u32) {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        inner.session.half_close(stream, &mut frame);
        inner.write(self.kind.socket(), &frame);
    }

    /// Nobody waits for this response any more.
    pub(in crate::dispatch) fn reset(&self, stream: u32, code: ResetCode, reason: &str) {
        let mut frame = Vec::new();
        let mut inner = self.lock();
        let call = inner.calls.remove(&stream);
        if let (Some(profile), Some(call)) = (&mut inner.profile, call) {
            profile.remember(stream, &call.summary);
        }
        inner.session.reset(stream, code, reason, &mut frame);
        inner.write(self.kind.socket(), &frame);
    }
}
