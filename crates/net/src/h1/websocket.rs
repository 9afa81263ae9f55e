//! WebSockets (RFC 6455) of an HTTP/1.1 connection after its `101`. Frames, masks, fragments and pings are `tungstenite`'s, run over our
//! buffers; messages come out.

use std::io::{self, Read, Write};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use keepwarm_http1::{BadField, Fields};
use tungstenite::error::{CapacityError, Error as WsError, ProtocolError};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};

use super::stream::Stream;
use crate::{Gone, ReadBuffer, Wait};

/// A message, or the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
    /// The close: code (1005 when the peer gave none) and reason.
    Close(u16, String),
}

/// What a client may send (`http-rules` §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebSocketLimits {
    /// Largest frame, in bytes.
    pub frame: usize,
    /// Largest message, in bytes.
    pub message: usize,
    /// A connection on which nothing comes for this long is closed; it is pinged at half of it.
    pub idle: Duration,
}

impl Default for WebSocketLimits {
    fn default() -> Self {
        Self { frame: 1 << 20, message: 16 << 20, idle: Duration::from_secs(300) }
    }
}

pub(crate) struct Socket {
    context: WebSocketContext,
    idle: Duration,
    pinged: bool,
    closed: bool,
    /// The client has sent its close: nothing follows it.
    finished: bool,
    /// Bytes of pongs that the client has not taken.
    pongs: usize,
}

/// Bytes of pongs beyond which a client is read only when it has taken them: one that pings and reads nothing would have us hold them all.
const PONGS_ENOUGH: usize = 16 * 1024;

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Socket").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Socket {
    /// Whether the client may still be sending, and a reset because of that would take our close frame with it (RFC 6455 §7.1.1).
    pub(super) fn may_bring_more(&self) -> bool {
        !self.finished
    }
}

impl Stream {
    pub(crate) fn accept_websocket<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        limits: WebSocketLimits,
    ) -> Result<(), BadField> {
        let key = self.request.head.fields.first("sec-websocket-key").unwrap_or_default();
        let accept = tungstenite::handshake::derive_accept_key(key);
        let mut all = Fields::new();
        all.push(b"Sec-WebSocket-Accept", accept.as_bytes());
        fields.for_each(|(name, value)| all.push(name, value));
        self.switch_protocols(b"websocket", &all)?;
        let config = WebSocketConfig::default()
            .max_frame_size(Some(limits.frame))
            .max_message_size(Some(limits.message))
            .read_buffer_size(8 * 1024)
            .write_buffer_size(0);
        self.state.websocket = Some(Box::new(Socket {
            context: WebSocketContext::new(Role::Server, Some(config)),
            idle: limits.idle,
            pinged: false,
            closed: false,
            finished: false,
            pongs: 0,
        }));
        self.deadlines.set_after(Wait::Read, limits.idle / 2);
        Ok(())
    }

    pub(crate) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, Gone>> {
        loop {
            let Some(socket) = &mut self.state.websocket else { return Poll::Ready(Err(Gone::Closed)) };
            if socket.closed {
                return Poll::Ready(Err(self.broken.unwrap_or(Gone::Closed)));
            }
            if socket.pongs > PONGS_ENOUGH {
                ready!(self.poll_write_out(cx))?;
                self.forget_pongs();
                continue;
            }
            let unsent = self.storage.out.body.len();
            let mut pipe = Pipe { read: &mut self.storage.read, write: &mut self.storage.out.body };
            let read = socket.context.read(&mut pipe);
            socket.pongs += self.storage.out.body.len() - unsent;
            let mut pipe = Pipe { read: &mut self.storage.read, write: &mut self.storage.out.body };
            match read {
                Ok(tungstenite::Message::Text(text)) => {
                    return Poll::Ready(Ok(Message::Text(text.as_str().to_owned())));
                }
                Ok(tungstenite::Message::Binary(bytes)) => {
                    return Poll::Ready(Ok(Message::Binary(bytes.to_vec())));
                }
                Ok(tungstenite::Message::Close(frame)) => {
                    let _ = socket.context.flush(&mut pipe);
                    let (code, reason) = frame.map_or((1005, String::new()), |frame| {
                        (frame.code.into(), frame.reason.as_str().to_owned())
                    });
                    socket.closed = true;
                    socket.finished = true;
                    return Poll::Ready(Ok(Message::Close(code, reason)));
                }
                // Answered by tungstenite with the next write.
                Ok(_) => continue,
                Err(WsError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    let code = fault_code(&error);
                    let frame = CloseFrame {
                        code,
                        reason: error.to_string().chars().take(100).collect::<String>().into(),
                    };
                    let _ = socket.context.close(&mut pipe, Some(frame));
                    let _ = socket.context.flush(&mut pipe);
                    socket.closed = true;
                    return Poll::Ready(Err(Gone::Closed));
                }
            }
            match self.poll_write_out(cx) {
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Ready(Ok(())) => self.forget_pongs(),
                Poll::Pending => {}
            }
            match self.poll_fill(cx, 16 * 1024) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.lost(Gone::Closed))),
                Poll::Ready(Ok(_)) => self.heard(),
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Pending if self.deadlines.poll_passed(Wait::Read, cx) => {
                    if let Some(gone) = self.silent() {
                        return Poll::Ready(Err(gone));
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// All that was to be written is.
    fn forget_pongs(&mut self) {
        if let Some(socket) = &mut self.state.websocket {
            socket.pongs = 0;
        }
    }

    /// The peer is alive.
    fn heard(&mut self) {
        if let Some(socket) = &mut self.state.websocket {
            socket.pinged = false;
            self.deadlines.set_after(Wait::Read, socket.idle / 2);
        }
    }

    /// Half of the idle time has passed: ping; or, after a ping, give up.
    fn silent(&mut self) -> Option<Gone> {
        let socket = self.state.websocket.as_mut()?;
        let mut pipe = Pipe { read: &mut self.storage.read, write: &mut self.storage.out.body };
        if socket.pinged {
            // RFC 6455 §7.4.1: 1001, going away. If it is there after all, it learns why.
            let frame = CloseFrame { code: CloseCode::Away, reason: "nothing was heard for too long".into() };
            let _ = socket.context.close(&mut pipe, Some(frame));
            let _ = socket.context.flush(&mut pipe);
            socket.closed = true;
            return Some(Gone::Closed);
        }
        socket.pinged = true;
        let _ = socket.context.write(&mut pipe, tungstenite::Message::Ping(Default::default()));
        let _ = socket.context.flush(&mut pipe);
        self.deadlines.set_after(Wait::Read, socket.idle / 2);
        None
    }

    pub(crate) fn send_message(&mut self, message: Message) {
        let Some(socket) = &mut self.state.websocket else { return };
        let mut pipe = Pipe { read: &mut self.storage.read, write: &mut self.storage.out.body };
        // Writing to memory cannot fail, and a closing socket takes no more messages.
        let _ = match message {
            Message::Text(text) => {
                self.state.body_sent += text.len() as u64;
                socket.context.write(&mut pipe, tungstenite::Message::Text(text.into()))
            }
            Message::Binary(bytes) => {
                self.state.body_sent += bytes.len() as u64;
                socket.context.write(&mut pipe, tungstenite::Message::Binary(bytes.into()))
            }
            Message::Close(code, reason) => {
                let frame = (code != 1005).then(|| CloseFrame { code: code.into(), reason: reason.into() });
                socket.context.close(&mut pipe, frame)
            }
        };
        let _ = socket.context.flush(&mut pipe);
    }
}

/// RFC 6455 §7.4.1.
fn fault_code(error: &WsError) -> CloseCode {
    match error {
        WsError::Capacity(CapacityError::MessageTooLong { .. }) => CloseCode::Size,
        WsError::Utf8(_) => CloseCode::Invalid,
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => CloseCode::Abnormal,
        _ => CloseCode::Protocol,
    }
}

/// The connection's buffers as what tungstenite reads from and writes to.
struct Pipe<'b> {
    read: &'b mut ReadBuffer,
    write: &'b mut Vec<u8>,
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let got = self.read.unread().read(into)?;
        self.read.consume(got);
        Ok(got)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
