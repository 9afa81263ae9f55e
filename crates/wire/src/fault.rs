//! Faults of a peer on the wire.

use crate::frame::{FrameHeader, FrameType};
use std::fmt;

/// A breach of `spec/wire.md` by the peer. It ends the connection (spec §2): log it, close the socket, replace
/// the worker. An error of the application alone is never a breach; those are ordinary events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireFault {
    /// The kind of breach.
    pub kind: FaultKind,
    /// The type byte of the affected frame.
    pub type_byte: u8,
    /// The stream named by the frame.
    pub stream: u32,
    /// The number observed; [`FaultKind::seen`] names its meaning.
    pub seen: u64,
}

impl WireFault {
    /// A fault of `kind` in the frame that `header` begins.
    pub(crate) fn new(kind: FaultKind, header: &FrameHeader, seen: u64) -> Self {
        Self { kind, type_byte: header.frame_type as u8, stream: header.stream, seen }
    }

    /// The stable name: in logs, counters and `spec/vectors`.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// The frame's type, if it is a known one.
    pub fn frame_type(&self) -> Option<FrameType> {
        FrameType::from_byte(self.type_byte)
    }
}

impl fmt::Display for WireFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame_type() {
            Some(known) => write!(f, "{}", known.name())?,
            None => write!(f, "type {:#04x}", self.type_byte)?,
        }
        if self.stream != 0 {
            write!(f, " on stream {}", self.stream)?;
        }
        write!(f, ": {}", self.kind.sentence())?;
        match self.kind.seen() {
            Some(what) => write!(f, " ({what} {})", self.seen),
            None => Ok(()),
        }
    }
}

impl std::error::Error for WireFault {}

/// Declares [`FaultKind`]: variant, stable name, sentence, and what [`WireFault::seen`] counts.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $sentence:literal, $seen:expr;)*) => {
        /// The kinds of breach. Those up to [`FaultKind::Utf8`] show in one frame alone, the others need
        /// the connection's history.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FaultKind { $($(#[$doc])* $variant,)* }

        impl FaultKind {
            /// Every kind, in order.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$variant,)*];

            /// The stable name, in lower case with underscores.
            pub fn name(self) -> &'static str {
                match self { $(FaultKind::$variant => $name,)* }
            }

            /// What is wrong, as a clause for a log line.
            pub fn sentence(self) -> &'static str {
                match self { $(FaultKind::$variant => $sentence,)* }
            }

            /// The meaning of [`WireFault::seen`]; `None` when it has none.
            pub fn seen(self) -> Option<&'static str> {
                match self { $(FaultKind::$variant => $seen,)* }
            }
        }
    };
}

kinds! {
    /// The length is above 128 KiB or above what the type allows (spec §2).
    TooLong, "too_long", "the payload is longer than its type allows", Some("bytes");
    /// The payload ends before the contents that its type requires (spec §2).
    TooShort, "too_short", "the payload is shorter than its type says", Some("bytes");
    /// No such frame type (spec §2).
    UnknownType, "unknown_type", "there is no such frame type", None;
    /// A frame that only the other side sends (spec §2).
    Direction, "direction", "only the other side sends this frame", None;
    /// A flag that the type does not have, or an undefined combination (spec §2, §7).
    Flags, "flags", "a flag is set that does not belong there", Some("flags");
    /// Stream 0 for a frame about a stream, or another for one about the connection (spec §2).
    StreamId, "stream_id", "the frame cannot name this stream", Some("stream");
    /// The string block's count and its NULs differ, or it reaches past the payload (spec §2.1).
    Strings, "strings", "the string block does not hold as many strings as it says", Some("strings");
    /// Names and values that do not pair, or fewer than a request's 11 strings (spec §3, §4, §5).
    Fields, "fields", "the number of strings does not fit the frame", Some("strings");
    /// A status that is not allowed in this frame (spec §5).
    Status, "status", "the status cannot stand here", Some("status");
    /// An amount of credit of 0, above 2^31-1, or a first credit below 65,536 (spec §3, §6).
    Credit, "credit", "the credit is outside its limits", Some("credit");
    /// No version, an empty range, or (session) one that was not offered (spec §3).
    Version, "version", "the version was not offered", Some("version");
    /// HELLO's number of streams is outside 1 to 65,535 (spec §3).
    StreamCount, "stream_count", "the number of streams is outside 1 to 65535", Some("streams");
    /// A reason that is not UTF-8 (spec §5, §7).
    Utf8, "utf8", "the reason is not UTF-8", Some("valid up to byte");

    /// A frame before HELLO (spec §3).
    BeforeHello, "before_hello", "nothing may come before HELLO", None;
    /// A second HELLO (spec §3).
    SecondHello, "second_hello", "HELLO comes only once", None;
    /// A stream that was never opened (spec §4).
    UnknownStream, "unknown_stream", "the stream was never opened", None;
    /// A frame for a stream that its sender has ended (spec §5).
    StreamOver, "stream_over", "the stream is over", None;
    /// Body, trailers or messages before RESPONSE (spec §5).
    BeforeResponse, "before_response", "the response has not begun", None;
    /// A second RESPONSE (spec §5).
    SecondResponse, "second_response", "RESPONSE comes only once", Some("status");
    /// INFORM after RESPONSE (spec §5).
    LateInform, "late_inform", "INFORM comes only before RESPONSE", Some("status");
    /// A 101 that was not requested, or a message on a stream that is not a WebSocket (spec §7).
    NotWebsocket, "not_websocket", "the stream is no WebSocket", None;
    /// A body on a WebSocket (spec §7).
    WebsocketBody, "websocket_body", "a WebSocket has messages, not a body", None;
    /// A frame of another message before the current one has ended (spec §7).
    MixedMessage, "mixed_message", "the message before it has not ended", None;
    /// More bytes than the credit of the stream or the connection (spec §6).
    CreditSpent, "credit_spent", "more was sent than there was credit for", Some("bytes");
    /// Credit that adds up to more than 2^31-1 (spec §6).
    CreditOverflow, "credit_overflow", "the credit adds up to more than 2^31-1", Some("credit");
    /// A PONG without a PING, or with other bytes than its PING (spec §8).
    Pong, "pong", "it answers no PING that was sent", None;
    /// A GROWTH that responds to no LEAKS, or of a request that was not measured or is not over (spec §11).
    Growth, "growth", "it measures nothing that was to be measured", Some("request");
}
