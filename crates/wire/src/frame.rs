//! The frame format: types, flags, limits, and decoding that borrows (`spec/wire.md` §2).

mod from_worker;
mod patch;
mod reader;
mod strings;
#[cfg(test)]
mod tests;
mod to_worker;

pub use from_worker::{Capabilities, FromWorker, Growth, Hello, Response, Samples};
pub use patch::{clear_frame_flags, frame_flags, set_frame_stream};
pub use strings::{OwnedStrings, Pairs, StringIter, Strings};
pub use to_worker::{Request, RequestStrings, ToWorker, Welcome, request_path};

use crate::{FaultKind, WireFault};
use std::fmt;

/// Bytes of a frame's header: length u32, type u8, flags u8, stream u32 (spec §2).
pub const HEADER_LEN: usize = 10;

/// The longest payload, in bytes. It bounds the memory of either side for one whole frame: a body of
/// [`MAX_BODY`] beside 64 KiB of fields, twice the largest head that Keepwarm accepts by default (spec §2).
pub const MAX_PAYLOAD: usize = 131_072;

/// The most bytes of a body or message in one frame (spec §4, §5, §7). Bounds how long one stream can occupy the
/// connection before another gets its turn.
pub const MAX_BODY: usize = 65_536;

/// The minimum cost of a TEXT or BINARY frame, in bytes of credit (spec §6): about what its receiver needs to keep an empty message.
pub const MIN_MESSAGE_COST: usize = 64;

/// The credit that a TEXT or BINARY frame with a payload of `bytes` costs.
#[inline]
pub fn message_cost(bytes: usize) -> usize {
    bytes.max(MIN_MESSAGE_COST)
}

/// The most credit a stream or connection can have, in bytes: 2^31-1 (spec §6), so that a sum of two fits a u32.
pub const MAX_CREDIT: u32 = 0x7fff_ffff;

/// The least initial credit in WELCOME and HELLO, in bytes (spec §3): one largest DATA frame.
pub const MIN_INITIAL_CREDIT: u32 = 65_536;

/// The most requests a worker can take at once (spec §3).
pub const MAX_STREAMS: u32 = 65_535;

/// The longest reason in RESET, in bytes (spec §5). It is for the log.
pub const MAX_RESET_REASON: usize = 1_024;

/// The longest reason in CLOSE, in bytes (RFC 6455 §5.5: a control frame holds 125, two of them the code).
pub const MAX_CLOSE_REASON: usize = 123;

/// `content_length` on the wire when the length of the body is not known (spec §4).
pub const UNKNOWN_LENGTH: u64 = u64::MAX;

/// How many strings of a REQUEST come before its fields (spec §4).
pub const FIXED_STRINGS: u16 = 11;

/// The flags' bits (spec §2). What a bit means depends on the type.
pub mod flags {
    /// REQUEST, DATA, RESPONSE: the body ends here. TEXT, BINARY: the message ends here. BUSY, LEAKS: no longer.
    pub const END: u8 = 0x01;
    /// REQUEST: the client waits for `100 Continue`.
    pub const EXPECT: u8 = 0x02;
    /// REQUEST: at least one field name occurs more than once.
    pub const REPEATS: u8 = 0x04;
    /// REQUEST: a 103 would reach the client.
    pub const EARLY_HINTS: u8 = 0x08;
    /// REQUEST: the opening of a WebSocket (§7); always with [`END`].
    pub const WEBSOCKET: u8 = 0x10;
    /// REQUEST: the client accepts trailers.
    pub const TRAILERS: u8 = 0x20;
    /// REQUEST: the last two strings say how a user was authenticated and who, and are not a field.
    pub const USER: u8 = 0x40;
    /// RESPONSE: close the client's connection after this response.
    pub const CLOSE: u8 = 0x02;
}

/// The types of frame (spec §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameType {
    /// The worker is ready (§3).
    Hello = 0x01,
    /// Keepwarm's first frame (§3).
    Welcome = 0x02,
    /// A request opens a stream (§4).
    Request = 0x10,
    /// Bytes of a body (§4, §5).
    Data = 0x11,
    /// Trailers; they end the body (§4, §5).
    Trailers = 0x12,
    /// The head of the response (§5).
    Response = 0x13,
    /// An informational response (§5).
    Inform = 0x14,
    /// The worker requests the body (§4).
    Want = 0x15,
    /// More may be sent (§6).
    Credit = 0x16,
    /// The stream ends, incomplete (§5).
    Reset = 0x17,
    /// The client has closed its writing side (§5).
    HalfClose = 0x18,
    /// The application responds itself, on a socket of its own (§5).
    Hijack = 0x19,
    /// Part of a text message (§7).
    Text = 0x20,
    /// Part of a binary message (§7).
    Binary = 0x21,
    /// The WebSocket's closing (§7).
    Close = 0x22,
    /// Are you alive? (§8)
    Ping = 0x30,
    /// Yes (§8).
    Pong = 0x31,
    /// No more requests (§8).
    Drain = 0x32,
    /// The worker's slot is not free yet when its response ends (§8).
    Busy = 0x33,
    /// Where the worker was when it got signals of a profile (§10).
    Samples = 0x34,
    /// Measure what requests leave behind, or (END) no longer (§11).
    Leaks = 0x35,
    /// What the last request has left behind (§11).
    Growth = 0x36,
}

impl FrameType {
    /// Every type, in order of its byte.
    pub const ALL: &'static [FrameType] = &[
        Self::Hello,
        Self::Welcome,
        Self::Request,
        Self::Data,
        Self::Trailers,
        Self::Response,
        Self::Inform,
        Self::Want,
        Self::Credit,
        Self::Reset,
        Self::HalfClose,
        Self::Hijack,
        Self::Text,
        Self::Binary,
        Self::Close,
        Self::Ping,
        Self::Pong,
        Self::Drain,
        Self::Busy,
        Self::Samples,
        Self::Leaks,
        Self::Growth,
    ];

    /// The type of this byte, if there is one.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::Hello,
            0x02 => Self::Welcome,
            0x10 => Self::Request,
            0x11 => Self::Data,
            0x12 => Self::Trailers,
            0x13 => Self::Response,
            0x14 => Self::Inform,
            0x15 => Self::Want,
            0x16 => Self::Credit,
            0x17 => Self::Reset,
            0x18 => Self::HalfClose,
            0x19 => Self::Hijack,
            0x20 => Self::Text,
            0x21 => Self::Binary,
            0x22 => Self::Close,
            0x30 => Self::Ping,
            0x31 => Self::Pong,
            0x32 => Self::Drain,
            0x33 => Self::Busy,
            0x34 => Self::Samples,
            0x35 => Self::Leaks,
            0x36 => Self::Growth,
            _ => return None,
        })
    }

    /// The name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Welcome => "WELCOME",
            Self::Request => "REQUEST",
            Self::Data => "DATA",
            Self::Trailers => "TRAILERS",
            Self::Response => "RESPONSE",
            Self::Inform => "INFORM",
            Self::Want => "WANT",
            Self::Credit => "CREDIT",
            Self::Reset => "RESET",
            Self::HalfClose => "HALF_CLOSE",
            Self::Hijack => "HIJACK",
            Self::Text => "TEXT",
            Self::Binary => "BINARY",
            Self::Close => "CLOSE",
            Self::Ping => "PING",
            Self::Pong => "PONG",
            Self::Drain => "DRAIN",
            Self::Busy => "BUSY",
            Self::Samples => "SAMPLES",
            Self::Leaks => "LEAKS",
            Self::Growth => "GROWTH",
        }
    }

    /// The row of this type in the table of spec §2, and the permitted lengths of its payload.
    fn rules(self) -> FrameRules {
        use Sender::{Keepwarm, Worker};
        const BLOCK: usize = 6; // an empty string block
        let row = |from, stream, flags, min, max| FrameRules { from, stream, flags, min, max };
        match self {
            Self::Hello => row(Some(Worker), StreamScope::Connection, 0, 14 + BLOCK, MAX_PAYLOAD),
            Self::Welcome => row(Some(Keepwarm), StreamScope::Connection, 0, 12 + BLOCK, MAX_PAYLOAD),
            Self::Request => row(Some(Keepwarm), StreamScope::Stream, 0x7f, 8 + BLOCK, MAX_PAYLOAD),
            Self::Data => row(None, StreamScope::Stream, flags::END, 0, MAX_BODY),
            Self::Trailers => row(None, StreamScope::Stream, 0, BLOCK, MAX_PAYLOAD),
            Self::Response => row(Some(Worker), StreamScope::Stream, 0x03, 2 + BLOCK, MAX_PAYLOAD),
            Self::Inform => row(Some(Worker), StreamScope::Stream, 0, 2 + BLOCK, MAX_PAYLOAD),
            Self::Want => row(Some(Worker), StreamScope::Stream, 0, 0, 0),
            Self::Credit => row(None, StreamScope::Either, 0, 4, 4),
            Self::Reset => row(None, StreamScope::Stream, 0, 2, 2 + MAX_RESET_REASON),
            Self::HalfClose => row(Some(Keepwarm), StreamScope::Stream, 0, 0, 0),
            Self::Hijack => row(Some(Worker), StreamScope::Stream, 0, 0, 0),
            Self::Text | Self::Binary => row(None, StreamScope::Stream, flags::END, 0, MAX_BODY),
            Self::Close => row(None, StreamScope::Stream, 0, 2, 2 + MAX_CLOSE_REASON),
            Self::Ping => row(Some(Keepwarm), StreamScope::Connection, 0, 8, 8),
            Self::Pong => row(Some(Worker), StreamScope::Connection, 0, 8, 8),
            Self::Drain => row(None, StreamScope::Connection, 0, 0, 0),
            Self::Busy => row(Some(Worker), StreamScope::Connection, flags::END, 0, 0),
            Self::Samples | Self::Growth => {
                row(Some(Worker), StreamScope::Connection, 0, 8 + BLOCK, MAX_PAYLOAD)
            }
            Self::Leaks => row(Some(Keepwarm), StreamScope::Connection, flags::END, 0, 0),
        }
    }
}

/// The sender of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// Keepwarm.
    Keepwarm,
    /// The worker.
    Worker,
}

/// A frame's first ten bytes, checked against the table of spec §2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of payload that follow: within what the type allows.
    pub length: u32,
    /// The type.
    pub frame_type: FrameType,
    /// Flags: only bits that the type has.
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads and checks the header at the start of `input`, sent by `sender`. `None`: fewer than
    /// [`HEADER_LEN`] bytes have arrived.
    ///
    /// # Errors
    ///
    /// The first of these that holds: a length over [`MAX_PAYLOAD`], an unknown type, a frame of the other side,
    /// a flag that the type does not have (or WEBSOCKET without END), a stream that the type cannot name, a length that the type cannot have.
    #[inline]
    pub fn decode(input: &[u8], sender: Sender) -> Result<Option<Self>, WireFault> {
        let Some((&[l0, l1, l2, l3, type_byte, flags, s0, s1, s2, s3], _)) =
            input.split_first_chunk::<HEADER_LEN>()
        else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let stream = u32::from_be_bytes([s0, s1, s2, s3]);
        let fault = |kind, seen: u32| WireFault { kind, type_byte, stream, seen: seen.into() };

        if length as usize > MAX_PAYLOAD {
            return Err(fault(FaultKind::TooLong, length));
        }
        let Some(frame_type) = FrameType::from_byte(type_byte) else {
            return Err(fault(FaultKind::UnknownType, type_byte.into()));
        };
        let rules = frame_type.rules();
        if rules.from.is_some_and(|from| from != sender) {
            return Err(fault(FaultKind::Direction, 0));
        }
        // spec §7: a WebSocket's opening has no body.
        let websocket =
            frame_type == FrameType::Request && flags & (flags::WEBSOCKET | flags::END) == flags::WEBSOCKET;
        if flags & !rules.flags != 0 || websocket {
            return Err(fault(FaultKind::Flags, flags.into()));
        }
        if !rules.stream.allows(stream) {
            return Err(fault(FaultKind::StreamId, stream));
        }
        if length as usize > rules.max {
            return Err(fault(FaultKind::TooLong, length));
        }
        if (length as usize) < rules.min {
            return Err(fault(FaultKind::TooShort, length));
        }
        Ok(Some(Self { length, frame_type, flags, stream }))
    }

    /// Bytes of the whole frame, header included.
    pub fn frame_len(&self) -> usize {
        HEADER_LEN + self.length as usize
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, l3, self.frame_type as u8, self.flags, s0, s1, s2, s3]
    }

    /// Whether `END` is set.
    fn end(&self) -> bool {
        self.flags & flags::END != 0
    }
}

/// Why a stream was reset (spec §5). Codes without a name are allowed, and their meaning is only in the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResetCode(pub u16);

impl ResetCode {
    /// The client is gone; or the worker acknowledges that.
    pub const CANCELLED: Self = Self(1);
    /// The request timed out.
    pub const TIMEOUT: Self = Self(2);
    /// The application failed.
    pub const APP_ERROR: Self = Self(3);
    /// The body was shorter than its `Content-Length`.
    pub const TOO_SHORT: Self = Self(4);
    /// The request's body ended before it was complete.
    pub const INCOMPLETE: Self = Self(5);
    /// The worker has not begun to process this request: it is safe to retry on another.
    pub const REFUSED: Self = Self(6);

    /// The name in the specification, if it has one.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::CANCELLED => "CANCELLED",
            Self::TIMEOUT => "TIMEOUT",
            Self::APP_ERROR => "APP_ERROR",
            Self::TOO_SHORT => "TOO_SHORT",
            Self::INCOMPLETE => "INCOMPLETE",
            Self::REFUSED => "REFUSED",
            _ => return None,
        })
    }
}

impl fmt::Display for ResetCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "code {}", self.0),
        }
    }
}

/// A row of the table in spec §2.
struct FrameRules {
    /// The sender; `None`: both.
    from: Option<Sender>,
    stream: StreamScope,
    /// The bits that may be set.
    flags: u8,
    /// Shortest and longest payload, in bytes.
    min: usize,
    max: usize,
}

/// The permitted values of a type's `stream`.
enum StreamScope {
    Connection,
    Stream,
    Either,
}

impl StreamScope {
    fn allows(&self, stream: u32) -> bool {
        match self {
            Self::Connection => stream == 0,
            Self::Stream => stream != 0,
            Self::Either => true,
        }
    }
}
