//! Faults of a client that end its WebSocket.

use std::fmt;

/// Why we close a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebSocketFault {
    /// A violation of RFC 6455.
    Protocol(&'static str),
    /// Text, or the reason of a close, that is not UTF-8.
    Utf8,
    /// A message marked as compressed that is not.
    Deflate,
    /// A frame above its limit.
    LongFrame,
    /// A message above its limit.
    LongMessage,
}

impl WebSocketFault {
    /// RFC 6455 §7.4.1.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Protocol(_) => 1002,
            Self::Utf8 | Self::Deflate => 1007,
            Self::LongFrame | Self::LongMessage => 1009,
        }
    }
}

impl fmt::Display for WebSocketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protocol(what) => what,
            Self::Utf8 => "invalid UTF-8",
            Self::Deflate => "invalid compressed data",
            Self::LongFrame => "frame too large",
            Self::LongMessage => "message too large",
        })
    }
}
