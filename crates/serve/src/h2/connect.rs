//! CONNECT: a stream whose DATA frames are another protocol's bytes (RFC 9113 §8.5), or a WebSocket's (RFC 8441).

use std::task::{Context, Poll, ready};

use http::{Response, StatusCode};
use keepwarm_http1::{BadField, BadFieldReason, Fields, scan_app_fields};
use keepwarm_net::{Deadlines, ReadBuffer, WaitKind};

use super::response::fill;
use super::stream::{Http2ResponseState, ServerStream};
use crate::ClientLoss;
use crate::websocket::{WebSocketCarrier, WebSocketLimits, WebSocketState, accept_key, is_about_frames};

/// An accepted WebSocket, and its bytes on their way to and from DATA frames.
#[derive(Debug)]
pub(crate) struct StreamSocket {
    state: WebSocketState,
    read: ReadBuffer,
    out: Vec<u8>,
}

impl ServerStream {
    /// The server of a bridged WebSocket has switched: its `101` is our 200 (RFC 8441 §5). Its proof is for the key that we made, so it is checked here.
    pub(crate) fn begin_tunnel(&mut self, protocol: &[u8], fields: &Fields) -> Result<(), BadField> {
        if !self.state.extended_connect || !protocol.eq_ignore_ascii_case(b"websocket") {
            return Err(bad("upgrade"));
        }
        let key = self.request.head.fields.first("sec-websocket-key").unwrap_or_default();
        if fields.first("sec-websocket-accept") != Some(accept_key(key).as_bytes()) {
            return Err(bad("sec-websocket-accept"));
        }
        self.switch(fields.iter().filter(|(name, _)| *name != b"sec-websocket-accept"))
    }

    pub(crate) fn begin_connected_tunnel(&mut self, via: &[u8]) -> Result<(), BadField> {
        self.switch([(&b"via"[..], via)].into_iter())
    }

    pub(crate) fn accept_websocket<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        limits: WebSocketLimits,
    ) -> Result<(), BadField> {
        if !self.state.extended_connect {
            return Err(bad("upgrade"));
        }
        let (state, extensions) = WebSocketState::open(&self.request.head.fields, limits);
        let mut all = Fields::new();
        if let Some(extensions) = &extensions {
            all.push(b"sec-websocket-extensions", extensions.as_bytes());
        }
        fields.filter(|(name, _)| !is_about_frames(name)).for_each(|(name, value)| all.push(name, value));
        self.switch(all.iter())?;
        self.deadlines.set_after(WaitKind::Read, state.first_wait());
        self.socket = Some(Box::new(StreamSocket { state, read: ReadBuffer::default(), out: Vec::new() }));
        Ok(())
    }

    /// 200: later DATA is another protocol's.
    fn switch<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    ) -> Result<(), BadField> {
        scan_app_fields(fields.clone())?;
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::OK;
        fill(response.headers_mut(), fields)?;
        self.head = Some(response);
        self.state.status = 200;
        self.state.switched = true;
        self.state.response = Http2ResponseState::Started { send_body: true, trailers: false };
        Ok(())
    }

    pub(crate) fn poll_tunnel(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
    ) -> Poll<Result<usize, ClientLoss>> {
        while self.unread.is_empty() {
            match ready!(self.body.poll_data(cx)) {
                Some(Ok(data)) => self.unread = data,
                Some(Err(_)) => return Poll::Ready(Err(self.lost(ClientLoss::Reset))),
                None => return Poll::Ready(Ok(0)),
            }
        }
        let got = self.unread.len();
        into.extend_from_slice(&std::mem::take(&mut self.unread));
        // Room for as much again: what was read is on its way, and a reader that is full does not read.
        let _ = self.body.flow_control().release_capacity(got);
        self.read.add(got);
        Poll::Ready(Ok(got))
    }

    pub(crate) fn send_tunnel(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.state.body_sent += bytes.len() as u64;
            self.sending.out.extend_from_slice(bytes);
        }
    }

    /// Frames of a WebSocket, on their way out.
    pub(super) fn take_frames(&mut self) {
        if let Some(socket) = &mut self.socket
            && !socket.out.is_empty()
        {
            if self.broken.is_none() {
                self.sending.out.extend_from_slice(&socket.out);
            }
            socket.out.clear();
        }
    }

    /// Bytes of frames that [`Self::take_frames`] has not taken.
    pub(super) fn untaken_frames(&self) -> usize {
        self.socket.as_ref().map_or(0, |socket| socket.out.len())
    }
}

impl WebSocketCarrier for ServerStream {
    fn parts(&mut self) -> Option<(&mut WebSocketState, &mut ReadBuffer, &mut Vec<u8>)> {
        let socket = self.socket.as_deref_mut()?;
        Some((&mut socket.state, &mut socket.read, &mut socket.out))
    }

    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>> {
        self.poll_flush(cx)
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, _room: usize) -> Poll<Result<usize, ClientLoss>> {
        let Some(mut socket) = self.socket.take() else { return Poll::Ready(Ok(0)) };
        let got = self.poll_tunnel(cx, socket.read.storage(0));
        self.socket = Some(socket);
        got
    }

    fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    fn broken(&self) -> Option<ClientLoss> {
        self.broken
    }

    fn lost(&mut self, gone: ClientLoss) -> ClientLoss {
        Self::lost(self, gone)
    }

    fn count_sent(&mut self, bytes: usize) {
        self.state.body_sent += bytes as u64;
    }
}

fn bad(name: &str) -> BadField {
    BadField { name: name.to_owned(), reason: BadFieldReason::Value }
}
