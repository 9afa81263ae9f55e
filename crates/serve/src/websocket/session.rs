//! A WebSocket on any connection: messages over the buffers of its carrier, with pings and the idle timeout of a silent client.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use keepwarm_http1::Fields;
use keepwarm_net::{Deadlines, ReadBuffer, WaitKind};
use sha1::{Digest, Sha1};

use super::{Incoming, IncomingEvent, Outgoing, PING, PONG, encode_close, encode_control, negotiate};
use crate::ClientLoss;

/// A part of a message, or the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The next bytes of a message; a short one is one part.
    Part {
        /// Text, else binary. A part of a text may begin and end within a character.
        text: bool,
        /// At most 64 KiB.
        bytes: Vec<u8>,
        /// The last of the message.
        end: bool,
    },
    /// The close: code (1005 when the peer gave none) and reason.
    Close(u16, String),
}

/// Limits on what a client may send (`spec/http.md` §8), and the negotiated features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebSocketLimits {
    /// Largest frame, in bytes.
    pub frame: usize,
    /// Largest message, in bytes.
    pub message: usize,
    /// A connection without input for this long is closed; it is pinged after half of it.
    pub idle: Duration,
    /// Messages are compressed if the client offers it (RFC 7692).
    pub compression: bool,
}

impl Default for WebSocketLimits {
    fn default() -> Self {
        Self { frame: 16 << 20, message: 16 << 20, idle: Duration::from_secs(300), compression: true }
    }
}

#[derive(Debug)]
pub(crate) struct WebSocketState {
    incoming: Incoming,
    outgoing: Outgoing,
    idle: Duration,
    pinged: bool,
    /// Reading has stopped.
    closed: bool,
    /// The client has sent its close: it sends nothing more.
    finished: bool,
    /// We have sent a close: we send nothing more, either.
    said_close: bool,
    /// Bytes of pongs that the client has not taken.
    pongs: usize,
    /// Bytes that were compressed and inflated in this turn.
    worked: usize,
}

/// Bytes of pongs beyond which a client is read only when it has taken them: a client that pings and reads nothing would make us hold them all.
const PONGS_ENOUGH: usize = 16 * 1024;

/// Bytes compressed or inflated for one WebSocket before others get their turn: some tenths of a millisecond.
const TURN: usize = 64 * 1024;

impl WebSocketState {
    /// For an opening with these fields, with the extensions to name in the response.
    pub(crate) fn open(asked: &Fields, limits: WebSocketLimits) -> (Self, Option<String>) {
        let agreed = match limits.compression {
            true => negotiate(asked.all("sec-websocket-extensions")),
            false => None,
        };
        let (compression, extensions) = agreed.unzip();
        let state = Self {
            incoming: Incoming::new(limits.frame, limits.message, compression),
            outgoing: Outgoing::new(compression),
            idle: limits.idle,
            pinged: false,
            closed: false,
            finished: false,
            said_close: false,
            pongs: 0,
            worked: 0,
        };
        (state, extensions)
    }

    /// How long to wait for the first bytes before a ping.
    pub(crate) fn first_wait(&self) -> Duration {
        self.idle / 2
    }

    /// Whether the client may still be sending, so that a reset would destroy our close frame (RFC 6455 §7.1.1).
    pub(crate) fn may_bring_more(&self) -> bool {
        !self.finished
    }

    /// Closes, unless already done, and stops reading.
    fn close(&mut self, out: &mut Vec<u8>, code: u16, reason: &str) {
        self.say_close(out, code, reason);
        self.closed = true;
    }

    fn say_close(&mut self, out: &mut Vec<u8>, code: u16, reason: &str) {
        if !std::mem::replace(&mut self.said_close, true) {
            encode_close(out, code, reason);
        }
    }

    /// Whether it has used up its turn; wakes its task for the next.
    fn has_had_turn(&mut self, cx: &Context<'_>) -> bool {
        self.worked += self.incoming.worked() + self.outgoing.worked();
        let over = self.worked >= TURN;
        if over {
            self.worked = 0;
            cx.waker().wake_by_ref();
        }
        over
    }
}

/// The fields about frames, which are ours to set.
pub(crate) fn is_about_frames(name: &[u8]) -> bool {
    [&b"sec-websocket-accept"[..], b"sec-websocket-extensions"]
        .iter()
        .any(|our| name.eq_ignore_ascii_case(our))
}

/// The proof that the opening was understood (RFC 6455 §4.2.2, step 5.4).
pub(crate) fn accept_key(key: &[u8]) -> String {
    let digest =
        Sha1::new().chain_update(key).chain_update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    data_encoding::BASE64.encode(&digest)
}

/// What a WebSocket needs of the connection, or the stream, that carries it.
pub(crate) trait WebSocketCarrier {
    /// The WebSocket, the bytes received, and the bytes to send. None: it was not accepted.
    fn parts(&mut self) -> Option<(&mut WebSocketState, &mut ReadBuffer, &mut Vec<u8>)>;

    /// Writes the bytes to send.
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientLoss>>;

    /// Receives more bytes; `Ok(0)`: the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<usize, ClientLoss>>;

    fn deadlines(&self) -> &Deadlines;

    /// Why the carrier is unusable, if it is.
    fn broken(&self) -> Option<ClientLoss>;

    fn lost(&mut self, gone: ClientLoss) -> ClientLoss;

    /// Bytes of messages are sent.
    fn count_sent(&mut self, bytes: usize);

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, ClientLoss>> {
        loop {
            let broken = self.broken();
            let Some((socket, read, out)) = self.parts() else { return Poll::Ready(Err(ClientLoss::Closed)) };
            if socket.closed {
                return Poll::Ready(Err(broken.unwrap_or(ClientLoss::Closed)));
            }
            if socket.pongs > PONGS_ENOUGH {
                ready!(self.poll_write_out(cx))?;
                self.forget_pongs();
                continue;
            }
            match socket.incoming.next(read) {
                Ok(IncomingEvent::Part { text, bytes, end }) => {
                    return Poll::Ready(Ok(Message::Part { text, bytes, end }));
                }
                Ok(IncomingEvent::Close(code, reason)) => {
                    socket.close(out, code, &reason);
                    socket.finished = true;
                    return Poll::Ready(Ok(Message::Close(code, reason)));
                }
                Ok(IncomingEvent::Ping(payload)) => {
                    if !socket.said_close {
                        let unsent = out.len();
                        encode_control(out, PONG, &payload);
                        socket.pongs += out.len() - unsent;
                    }
                    continue;
                }
                Ok(IncomingEvent::Pong) => continue,
                Ok(IncomingEvent::More) => {}
                Err(fault) => {
                    socket.close(out, fault.code(), &fault.to_string());
                    return Poll::Ready(Err(ClientLoss::Closed));
                }
            }
            if socket.has_had_turn(cx) {
                return Poll::Pending;
            }
            match self.poll_write_out(cx) {
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Ready(Ok(())) => self.forget_pongs(),
                Poll::Pending => {}
            }
            match self.poll_fill(cx, 16 * 1024) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.lost(ClientLoss::Closed))),
                Poll::Ready(Ok(_)) => self.heard(),
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Pending if self.deadlines().poll_passed(WaitKind::Read, cx) => {
                    if let Some(gone) = self.silent() {
                        return Poll::Ready(Err(gone));
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether so much was compressed or inflated that others should get their turn; the task has been woken for its next.
    fn websocket_turn_is_over(&mut self, cx: &Context<'_>) -> bool {
        self.parts().is_some_and(|(socket, ..)| socket.has_had_turn(cx))
    }

    /// Everything queued has been written.
    fn forget_pongs(&mut self) {
        if let Some((socket, ..)) = self.parts() {
            socket.pongs = 0;
        }
    }

    /// The peer is alive.
    fn heard(&mut self) {
        if let Some((socket, ..)) = self.parts() {
            socket.pinged = false;
            let wait = socket.idle / 2;
            self.deadlines().set_after(WaitKind::Read, wait);
        }
    }

    /// Half of the idle time has passed: ping; after a ping, give up.
    fn silent(&mut self) -> Option<ClientLoss> {
        let (socket, _, out) = self.parts()?;
        if socket.pinged {
            // RFC 6455 §7.4.1: 1001, going away. If it is alive after all, it learns the reason.
            socket.close(out, 1001, "idle timeout");
            return Some(ClientLoss::Closed);
        }
        socket.pinged = true;
        if !socket.said_close {
            encode_control(out, PING, &[]);
        }
        let wait = socket.idle / 2;
        self.deadlines().set_after(WaitKind::Read, wait);
        None
    }

    /// Sends the next part of a message; parts after a close are dropped. `false`: it is marked as text, and is not UTF-8.
    #[must_use]
    fn send_part(&mut self, text: bool, bytes: &[u8], end: bool) -> bool {
        let Some((socket, _, out)) = self.parts().filter(|(socket, ..)| !socket.said_close) else {
            return true;
        };
        let sound = socket.outgoing.push(text, bytes, end, out).is_ok();
        self.count_sent(bytes.len());
        sound
    }

    /// Sends a close; a second one is dropped.
    fn send_close(&mut self, code: u16, reason: &str) {
        if let Some((socket, _, out)) = self.parts() {
            socket.say_close(out, code, reason);
        }
    }
}
