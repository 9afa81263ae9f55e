//! The meaning of a worker's frames.

use super::stream::Stream;
use crate::frame::{FromWorker, Growth, Hello, ResetCode, Response, Samples, Strings, message_cost};

/// A frame of the worker, allowed in the current state. Borrowed from the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEvent<'a> {
    /// The worker is ready: streams can be opened.
    Hello(Hello<'a>),
    /// The head of a response. With `end` the stream is over. With 101 messages follow.
    Response(Response<'a>),
    /// Bytes of a response's body; to be released.
    Data {
        /// The stream.
        stream: u32,
        /// At most 65,536 bytes.
        bytes: &'a [u8],
        /// The response is complete and the stream over.
        over: bool,
    },
    /// Trailers; the response is complete and the stream over.
    Trailers {
        /// The stream.
        stream: u32,
        /// Names and values.
        fields: Strings<'a>,
    },
    /// An informational response, before the response.
    Inform {
        /// The stream.
        stream: u32,
        /// 102 to 199.
        status: u16,
        /// Names and values.
        fields: Strings<'a>,
    },
    /// The application wants the body: send `100 Continue` if the client waits for it. May come more than once.
    Want {
        /// The stream.
        stream: u32,
    },
    /// The response ends here, incomplete; the stream is over.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: ResetCode,
        /// For the log.
        reason: &'a str,
        /// RESPONSE had come: the client's connection must be cut. If not, an error response can be sent.
        responded: bool,
        /// The worker reports that it had not begun (REFUSED), and no earlier frame contradicts that: another worker
        /// may get the request.
        unprocessed: bool,
    },
    /// Part of a text message; to be released.
    Text {
        /// The stream.
        stream: u32,
        /// At most 65,536 bytes; whether they are UTF-8 shows when the message is whole.
        bytes: &'a [u8],
        /// The message ends here.
        end: bool,
    },
    /// Part of a binary message; to be released.
    Binary {
        /// The stream.
        stream: u32,
        /// At most 65,536 bytes.
        bytes: &'a [u8],
        /// The message ends here.
        end: bool,
    },
    /// The WebSocket closes; the stream is over.
    Close {
        /// The stream.
        stream: u32,
        /// The application's number, not checked.
        code: u16,
        /// At most 123 bytes.
        reason: &'a str,
    },
    /// The application responds itself, on a socket of its own; the stream is over.
    Hijack {
        /// The stream.
        stream: u32,
    },
    /// More may be sent on this stream, or with 0 on any.
    Credit {
        /// The stream; 0 is the connection.
        stream: u32,
    },
    /// The PONG for our PING.
    Pong {
        /// Its bytes.
        payload: [u8; 8],
    },
    /// The worker wants no more requests. When all streams are over, send DRAIN.
    Drain,
    /// The worker's slot is not free when its response ends; or (`end`) it is free now.
    Busy {
        /// It has finished its work after its response.
        end: bool,
    },
    /// Where the worker was when it got signals of a profile. Its request was opened, and may be over.
    Samples(Samples<'a>),
    /// What the worker's last request has left behind; of request 0, the response to LEAKS.
    Growth(Growth<'a>),
    /// A frame of a stream that Keepwarm has reset: it is no longer wanted. Its bytes are already released.
    Dropped {
        /// The stream.
        stream: u32,
        /// The credit of the body or message that was dropped.
        bytes: usize,
        /// The worker has ended the stream: it is over, and its slot is free.
        over: bool,
    },
}

impl<'a> SessionEvent<'a> {
    /// The stream that the event is about; 0 is the connection.
    pub fn stream(&self) -> u32 {
        match *self {
            Self::Hello(_)
            | Self::Pong { .. }
            | Self::Drain
            | Self::Busy { .. }
            | Self::Samples(_)
            | Self::Growth(_) => 0,
            Self::Response(Response { stream, .. })
            | Self::Data { stream, .. }
            | Self::Trailers { stream, .. }
            | Self::Inform { stream, .. }
            | Self::Want { stream }
            | Self::Reset { stream, .. }
            | Self::Text { stream, .. }
            | Self::Binary { stream, .. }
            | Self::Close { stream, .. }
            | Self::Hijack { stream }
            | Self::Credit { stream }
            | Self::Dropped { stream, .. } => stream,
        }
    }

    /// The stream that this event has ended, whose slot is free now.
    pub fn ended(&self) -> Option<u32> {
        match *self {
            Self::Response(Response { stream, end: true, .. })
            | Self::Data { stream, over: true, .. }
            | Self::Trailers { stream, .. }
            | Self::Reset { stream, .. }
            | Self::Close { stream, .. }
            | Self::Hijack { stream }
            | Self::Dropped { stream, over: true, .. } => Some(stream),
            _ => None,
        }
    }

    /// The credit that it cost, which the caller must release.
    pub fn held(&self) -> usize {
        match *self {
            Self::Data { bytes, .. } => bytes.len(),
            Self::Text { bytes, .. } | Self::Binary { bytes, .. } => message_cost(bytes.len()),
            _ => 0,
        }
    }

    /// The event for an allowed frame, given the state of its stream before it.
    #[inline]
    pub(super) fn of_stream(frame: FromWorker<'a>, before: &Stream) -> Self {
        match frame {
            FromWorker::Response(response) => Self::Response(response),
            FromWorker::Data { stream, bytes, end } => Self::Data { stream, bytes, over: end },
            FromWorker::Trailers { stream, fields } => Self::Trailers { stream, fields },
            FromWorker::Inform { stream, status, fields } => Self::Inform { stream, status, fields },
            FromWorker::Want { stream } => Self::Want { stream },
            FromWorker::Reset { stream, code, reason } => {
                let unprocessed = code == ResetCode::REFUSED && !before.begun();
                Self::Reset { stream, code, reason, responded: before.responded(), unprocessed }
            }
            FromWorker::Text { stream, bytes, end } => Self::Text { stream, bytes, end },
            FromWorker::Binary { stream, bytes, end } => Self::Binary { stream, bytes, end },
            FromWorker::Close { stream, code, reason } => Self::Close { stream, code, reason },
            FromWorker::Hijack { stream } => Self::Hijack { stream },
            FromWorker::Credit { stream, .. } => Self::Credit { stream },
            FromWorker::Hello(hello) => Self::Hello(hello),
            FromWorker::Pong { payload } => Self::Pong { payload },
            FromWorker::Drain => Self::Drain,
            FromWorker::Busy { end } => Self::Busy { end },
            FromWorker::Samples(samples) => Self::Samples(samples),
            FromWorker::Growth(growth) => Self::Growth(growth),
        }
    }
}
