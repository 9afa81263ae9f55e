//! A message being sent, under flow control. The same in both roles.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use h2::SendStream;
use http::HeaderMap;

/// The body and the trailers of a message.
#[derive(Debug, Default)]
pub struct Sending {
    /// None before it begins, and after it has ended.
    pub stream: Option<SendStream<Bytes>>,
    /// Bytes of the body that flow control holds back.
    pub out: BytesMut,
    /// All of it is queued.
    pub ended: bool,
    /// What follows the body.
    pub trailers: Option<HeaderMap>,
    /// Bytes of the body still due, if its length was announced.
    pub due: Option<u64>,
}

impl Sending {
    /// Hands queued bytes to the connection, as far as the peer has room. Ready when all are taken, or no more will be.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_flush_in_turn(cx, &mut ())
    }

    /// The same, among the messages of a connection that take turns. Room is reserved in the message's turn only: what one that waits has reserved of the
    /// connection's window would be missing to others.
    pub fn poll_flush_in_turn(&mut self, cx: &mut Context<'_>, turn: &mut impl SendTurn) -> Poll<()> {
        while !self.out.is_empty() {
            let most = ready!(turn.poll_turn(cx)).min(self.out.len());
            match self.poll_room(cx, most) {
                Poll::Ready(0) => self.stop(),
                Poll::Ready(room) => turn.handle_handed(self.hand_over(room.min(most))),
                Poll::Pending => {
                    turn.pass();
                    return Poll::Pending;
                }
            }
        }
        turn.pass();
        self.hand_over_end();
        Poll::Ready(())
    }

    /// Bytes that flow control and the connection's buffer allow, up to `most`; 0: none will follow.
    fn poll_room(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<usize> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(0) };
        stream.reserve_capacity(most);
        match stream.capacity() {
            0 => match ready!(stream.poll_capacity(cx)) {
                Some(Ok(room)) => Poll::Ready(room),
                Some(Err(_)) | None => Poll::Ready(0),
            },
            room => Poll::Ready(room),
        }
    }

    /// Returns how many bytes were taken.
    fn hand_over(&mut self, room: usize) -> usize {
        let bytes = match self.ended && room >= self.out.len() {
            // Nothing shares its storage.
            true => std::mem::take(&mut self.out),
            false => self.out.split_to(room.min(self.out.len())),
        };
        let bytes = bytes.freeze();
        let (count, last) = (bytes.len(), self.out.is_empty() && self.ended && self.trailers.is_none());
        let Some(stream) = &mut self.stream else { return 0 };
        if stream.send_data(bytes, last).is_err() {
            self.stop();
            return 0;
        }
        if last {
            self.stream = None;
        }
        count
    }

    /// The end of the message, if it did not go with its last bytes.
    fn hand_over_end(&mut self) {
        if !self.ended {
            return;
        }
        let Some(mut stream) = self.stream.take() else { return };
        // The error is the connection's, or the peer stopped reading: its own messages show which.
        let _ = match self.trailers.take() {
            Some(trailers) => stream.send_trailers(trailers),
            None => stream.send_data(Bytes::new(), true),
        };
    }

    /// The peer accepts no more of it.
    pub fn stop(&mut self) {
        self.stream = None;
        self.out.clear();
    }
}

/// The turns of the messages that share a connection.
pub trait SendTurn {
    /// Waits for the next turn; Ready: bytes that may be handed over in it.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<usize>;

    /// These bytes were handed over in the turn.
    fn handle_handed(&mut self, bytes: usize);

    /// The turn is not used.
    fn pass(&mut self);
}

/// First come, first served.
impl SendTurn for () {
    fn poll_turn(&mut self, _: &mut Context<'_>) -> Poll<usize> {
        Poll::Ready(usize::MAX)
    }

    fn handle_handed(&mut self, _: usize) {}

    fn pass(&mut self) {}
}
