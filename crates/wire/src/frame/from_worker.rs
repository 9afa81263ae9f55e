//! The frames that a worker sends.

use super::reader::Reader;
use super::{FrameHeader, FrameType, MAX_BODY, MAX_STREAMS, ResetCode, Sender, Strings, flags};
use crate::{FaultKind, WireFault};

/// A frame from the worker, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromWorker<'a> {
    /// The worker is ready.
    Hello(Hello<'a>),
    /// The head of a response, and the part of its body in the same frame.
    Response(Response<'a>),
    /// Bytes of a response's body.
    Data {
        /// The stream.
        stream: u32,
        /// At most [`MAX_BODY`] bytes.
        bytes: &'a [u8],
        /// The body ends here.
        end: bool,
    },
    /// The trailers of a response; they end it.
    Trailers {
        /// The stream.
        stream: u32,
        /// Names and values.
        fields: Strings<'a>,
    },
    /// An informational response.
    Inform {
        /// The stream.
        stream: u32,
        /// 102 to 199.
        status: u16,
        /// Names and values.
        fields: Strings<'a>,
    },
    /// The application wants the request's body.
    Want {
        /// The stream.
        stream: u32,
    },
    /// Keepwarm may send more.
    Credit {
        /// The stream; 0 is the connection.
        stream: u32,
        /// Bytes, 1 to 2^31-1.
        amount: u32,
    },
    /// The response ends here, incomplete.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: ResetCode,
        /// For the log.
        reason: &'a str,
    },
    /// Part of a text message. Whether it is UTF-8 shows only when the message is whole: a frame may end within
    /// a character.
    Text {
        /// The stream.
        stream: u32,
        /// At most [`MAX_BODY`] bytes.
        bytes: &'a [u8],
        /// The message ends here.
        end: bool,
    },
    /// Part of a binary message.
    Binary {
        /// The stream.
        stream: u32,
        /// At most [`MAX_BODY`] bytes.
        bytes: &'a [u8],
        /// The message ends here.
        end: bool,
    },
    /// The WebSocket closes.
    Close {
        /// The stream.
        stream: u32,
        /// RFC 6455 §7.4; any number, the application chose it.
        code: u16,
        /// At most 123 bytes.
        reason: &'a str,
    },
    /// The application responds itself, on the socket that came with this frame.
    Hijack {
        /// The stream.
        stream: u32,
    },
    /// The response to a PING.
    Pong {
        /// The PING's bytes.
        payload: [u8; 8],
    },
    /// The worker wants no more requests.
    Drain,
    /// It still has work to do after its response, or (`end`) has done it.
    Busy {
        /// Its slot is free.
        end: bool,
    },
    /// Where it was when it got signals of a profile.
    Samples(Samples<'a>),
    /// What its last request has left behind.
    Growth(Growth<'a>),
}

/// SAMPLES: where a worker was, by the time that it spent there (spec §10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Samples<'a> {
    /// The stream of the request that it worked on, which may be over; 0: none.
    pub request: u32,
    /// Samples that it took and could not keep.
    pub dropped: u32,
    /// Stacks and microseconds in turn: neither is checked here.
    pub stacks: Strings<'a>,
}

/// GROWTH: how what a worker holds has changed (spec §11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth<'a> {
    /// The stream of the request that is over; 0: none, it responds to LEAKS.
    pub request: u32,
    /// How long the measurement took.
    pub microseconds: u32,
    /// Names and changes in turn: neither is checked here.
    pub changes: Strings<'a>,
}

/// HELLO: the worker is ready (spec §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The version that the worker speaks; not 0.
    pub version: u16,
    /// How many requests it takes at once: 1 to 65,535.
    pub streams: u32,
    /// Bytes that Keepwarm may send on each stream before CREDIT.
    pub stream_credit: u32,
    /// Bytes that Keepwarm may send on all streams together before CREDIT.
    pub connection_credit: u32,
    /// Names and values: `adapter`, `kind`, `language`; unknown names are ignored.
    pub about: Strings<'a>,
}

/// RESPONSE: the head of a response, and the first bytes of its body (spec §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The stream.
    pub stream: u32,
    /// 200 to 999, or 101 (without END and body).
    pub status: u16,
    /// Names and values as the application gave them: neither is checked here (spec §5).
    pub fields: Strings<'a>,
    /// At most [`MAX_BODY`] bytes; not under credit.
    pub body: &'a [u8],
    /// The response is complete.
    pub end: bool,
    /// Close the client's connection after it.
    pub close: bool,
}

impl<'a> FromWorker<'a> {
    /// The first frame in `input` and how many bytes it took. `None`: it is incomplete;
    /// [`Self::frame_len`] says how many bytes it will have.
    ///
    /// # Errors
    ///
    /// A faulty header is a fault as soon as its ten bytes have arrived, with or without the payload.
    #[inline]
    pub fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, WireFault> {
        let Some((reader, frame_len)) = Reader::frame(input, Sender::Worker)? else {
            return Ok(None);
        };
        Ok(Some((Self::payload(reader)?, frame_len)))
    }

    /// How many bytes the first frame in `input` has, header included; `None` while its header is incomplete.
    ///
    /// # Errors
    ///
    /// As [`FrameHeader::decode`].
    pub fn frame_len(input: &[u8]) -> Result<Option<usize>, WireFault> {
        Ok(FrameHeader::decode(input, Sender::Worker)?.map(|header| header.frame_len()))
    }

    /// The stream that the frame is about; 0 is the connection.
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
            | Self::Credit { stream, .. }
            | Self::Reset { stream, .. }
            | Self::Text { stream, .. }
            | Self::Binary { stream, .. }
            | Self::Close { stream, .. }
            | Self::Hijack { stream } => stream,
        }
    }

    /// The frame's type.
    pub fn frame_type(&self) -> FrameType {
        match self {
            Self::Hello(_) => FrameType::Hello,
            Self::Response(_) => FrameType::Response,
            Self::Data { .. } => FrameType::Data,
            Self::Trailers { .. } => FrameType::Trailers,
            Self::Inform { .. } => FrameType::Inform,
            Self::Want { .. } => FrameType::Want,
            Self::Credit { .. } => FrameType::Credit,
            Self::Reset { .. } => FrameType::Reset,
            Self::Text { .. } => FrameType::Text,
            Self::Binary { .. } => FrameType::Binary,
            Self::Close { .. } => FrameType::Close,
            Self::Hijack { .. } => FrameType::Hijack,
            Self::Pong { .. } => FrameType::Pong,
            Self::Drain => FrameType::Drain,
            Self::Busy { .. } => FrameType::Busy,
            Self::Samples(_) => FrameType::Samples,
            Self::Growth(_) => FrameType::Growth,
        }
    }

    #[inline]
    fn payload(mut reader: Reader<'a>) -> Result<Self, WireFault> {
        let header = reader.header;
        let (stream, end) = (header.stream, header.end());
        Ok(match header.frame_type {
            FrameType::Hello => Self::Hello(Hello::payload(reader)?),
            FrameType::Response => Self::Response(Response::payload(reader)?),
            FrameType::Data => Self::Data { stream, bytes: reader.rest(MAX_BODY)?, end },
            FrameType::Trailers => Self::Trailers { stream, fields: reader.last_pairs()? },
            FrameType::Inform => {
                let status = reader.u16()?;
                // Only Keepwarm sends 100, and 101 is a response.
                if !(102..=199).contains(&status) {
                    return Err(reader.fault(FaultKind::Status, status.into()));
                }
                Self::Inform { stream, status, fields: reader.last_pairs()? }
            }
            FrameType::Want => Self::Want { stream },
            FrameType::Hijack => Self::Hijack { stream },
            FrameType::Credit => Self::Credit { stream, amount: reader.credit()? },
            FrameType::Reset => {
                let (code, reason) = reader.code_and_reason()?;
                Self::Reset { stream, code: ResetCode(code), reason }
            }
            FrameType::Text => Self::Text { stream, bytes: reader.rest(MAX_BODY)?, end },
            FrameType::Binary => Self::Binary { stream, bytes: reader.rest(MAX_BODY)?, end },
            FrameType::Close => {
                let (code, reason) = reader.code_and_reason()?;
                Self::Close { stream, code, reason }
            }
            FrameType::Pong => Self::Pong { payload: reader.take()? },
            FrameType::Drain => Self::Drain,
            FrameType::Busy => Self::Busy { end },
            FrameType::Samples => Self::Samples(Samples {
                request: reader.u32()?,
                dropped: reader.u32()?,
                stacks: reader.last_pairs()?,
            }),
            FrameType::Growth => Self::Growth(Growth {
                request: reader.u32()?,
                microseconds: reader.u32()?,
                changes: reader.last_pairs()?,
            }),
            FrameType::Welcome
            | FrameType::Request
            | FrameType::HalfClose
            | FrameType::Ping
            | FrameType::Leaks => {
                return Err(reader.fault(FaultKind::Direction, 0));
            }
        })
    }
}

/// The capabilities of a worker, from its HELLO (spec §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// A request blocks the worker, or a thread of it. A worker that takes one request at a time need not set it.
    pub blocking: bool,
    /// Its interface uses CGI-style names for fields (RFC 3875).
    pub cgi_names: bool,
    /// It can accept a WebSocket (spec §7).
    pub websocket: bool,
    /// Its interface can report that a client has stopped sending: HALF_CLOSE (spec §5).
    pub half_close: bool,
    /// It may send HIJACK (spec §5).
    pub hijack: bool,
    /// It takes USER (spec §4).
    pub user: bool,
    /// It sends SAMPLES (spec §10).
    pub profile: bool,
    /// It handles signals after the call that they interrupt, whose time limit may begin again (spec §10).
    pub late_signals: bool,
    /// It measures what its requests leave behind: LEAKS and GROWTH (spec §11).
    pub leaks: bool,
}

impl<'a> Hello<'a> {
    /// How many requests may wait while a worker with one stream works on another: `ahead`, at most 16 (spec §3).
    pub fn ahead(&self) -> u32 {
        const MOST: u32 = 16;
        if self.streams != 1 {
            return 0;
        }
        let said = self.about("ahead").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        said.filter(|ahead| *ahead <= MOST).unwrap_or(0)
    }

    /// Its capabilities.
    pub fn capabilities(&self) -> Capabilities {
        let has = |name| self.about(name) == Some(b"1");
        Capabilities {
            blocking: self.streams == 1 || has("blocking"),
            cgi_names: has("cgi_names"),
            websocket: has("websocket"),
            half_close: has("half_close"),
            hijack: has("hijack"),
            user: has("user"),
            profile: has("profile"),
            late_signals: has("late_signals"),
            leaks: has("leaks"),
        }
    }

    /// The value of this name among the worker's attributes: `adapter`, `kind`, `language`.
    pub fn about(&self, name: &str) -> Option<&'a [u8]> {
        self.about.pairs().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    fn payload(mut reader: Reader<'a>) -> Result<Self, WireFault> {
        let version = reader.u16()?;
        if version == 0 {
            return Err(reader.fault(FaultKind::Version, 0));
        }
        let streams = reader.u32()?;
        if !(1..=MAX_STREAMS).contains(&streams) {
            return Err(reader.fault(FaultKind::StreamCount, streams.into()));
        }
        Ok(Self {
            version,
            streams,
            stream_credit: reader.initial_credit()?,
            connection_credit: reader.initial_credit()?,
            about: reader.last_pairs()?,
        })
    }
}

impl<'a> Response<'a> {
    #[inline]
    fn payload(mut reader: Reader<'a>) -> Result<Self, WireFault> {
        let FrameHeader { stream, flags, .. } = reader.header;
        let status = reader.u16()?;
        if !(200..=999).contains(&status) && status != 101 {
            return Err(reader.fault(FaultKind::Status, status.into()));
        }
        let fields = reader.pairs()?;
        let body = reader.rest(MAX_BODY)?;
        let (end, close) = (flags & flags::END != 0, flags & flags::CLOSE != 0);
        if status == 101 {
            // spec §7: a 101 opens a WebSocket, which has neither body nor END.
            if end {
                return Err(reader.fault(FaultKind::Flags, flags.into()));
            }
            if !body.is_empty() {
                return Err(reader.fault(FaultKind::TooLong, body.len() as u64));
            }
        }
        Ok(Self { stream, status, fields, body, end, close })
    }
}
