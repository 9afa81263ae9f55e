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
        while !self.out.is_empty() {
            match ready!(self.poll_room(cx)) {
                0 => self.stop(),
                room => self.hand_over(room),
            }
        }
        self.hand_over_end();
        Poll::Ready(())
    }

    /// Bytes that flow control and the connection's buffer allow; 0: none will follow.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(0) };
        stream.reserve_capacity(self.out.len());
        match stream.capacity() {
            0 => match ready!(stream.poll_capacity(cx)) {
                Some(Ok(room)) => Poll::Ready(room),
                Some(Err(_)) | None => Poll::Ready(0),
            },
            room => Poll::Ready(room),
        }
    }

    fn hand_over(&mut self, room: usize) {
        let bytes = self.out.split_to(room.min(self.out.len())).freeze();
        let last = self.out.is_empty() && self.ended && self.trailers.is_none();
        let Some(stream) = &mut self.stream else { return };
        if stream.send_data(bytes, last).is_err() {
            self.stop();
        } else if last {
            self.stream = None;
        }
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
