//! A WebSocket on an HTTP/1.1 connection after its `101`.

use std::task::{Context, Poll};

use keepwarm_http1::{BadField, Fields};
use keepwarm_net::{Deadlines, ReadBuffer, WaitKind};

use super::stream::Stream;
use crate::ClientLoss;
use crate::websocket::{WebSocketCarrier, WebSocketLimits, WebSocketState, accept_key, is_about_frames};

impl Stream {
    pub(crate) fn accept_websocket<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        limits: WebSocketLimits,
    ) -> Result<(), BadField> {
        let asked = &self.request.head.fields;
        let accept = accept_key(asked.first("sec-websocket-key").unwrap_or_default());
        let (socket, extensions) = WebSocketState::open(asked, limits);
        let mut all = Fields::new();
        all.push(b"Sec-WebSocket-Accept", accept.as_bytes());
        if let Some(extensions) = &extensions {
            all.push(b"Sec-WebSocket-Extensions", extensions.as_bytes());
        }
        fields.filter(|(name, _)| !is_about_frames(name)).for_each(|(name, value)| all.push(name, value));
        self.switch_protocols(b"websocket", &all)?;
        self.deadlines.set_after(WaitKind::Read, socket.first_wait());
        self.state.websocket = Some(Box::new(socket));
        Ok(())
    }
}

impl WebSocketCarrier for Stream {
    fn parts(&mut self) -> Option<(&mut WebSocketState, &mut ReadBuffer, &mut Vec<u8>)> {
        let socket = self.state.websocket.as_deref_mut()?;
        Some((socket, &mut self.storage.read, &mut self.storage.out.body))
    }

    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>> {
        Self::poll_write_out(self, cx)
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<usize, ClientLoss>> {
        Self::poll_fill(self, cx, room)
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
