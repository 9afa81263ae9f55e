//! The frames that Keepwarm sends. Keepwarm itself only writes them; adapters' tests, tools and fuzzing read them.

use super::reader::Reader;
use super::{
    FIXED_STRINGS, FrameHeader, FrameType, MAX_BODY, Pairs, ResetCode, Sender, Strings, UNKNOWN_LENGTH, flags,
};
use crate::{FaultKind, WireFault};

/// A frame from Keepwarm, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToWorker<'a> {
    /// Keepwarm's first frame.
    Welcome(Welcome<'a>),
    /// A request, which opens its stream.
    Request(Request<'a>),
    /// Bytes of a request's body.
    Data {
        /// The stream.
        stream: u32,
        /// At most [`MAX_BODY`] bytes.
        bytes: &'a [u8],
        /// The body ends here.
        end: bool,
    },
    /// The trailers of a request; they end its body.
    Trailers {
        /// The stream.
        stream: u32,
        /// Names and values.
        fields: Strings<'a>,
    },
    /// The worker may send more.
    Credit {
        /// The stream; 0 is the connection.
        stream: u32,
        /// Bytes, 1 to 2^31-1.
        amount: u32,
    },
    /// This response is no longer wanted.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: ResetCode,
        /// For the log.
        reason: &'a str,
    },
    /// The client has closed its writing side: it may be gone, or may still read.
    HalfClose {
        /// The stream.
        stream: u32,
    },
    /// Part of a text message.
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
        /// RFC 6455 §7.4; 1006 when the connection was lost without a close.
        code: u16,
        /// At most 123 bytes.
        reason: &'a str,
    },
    /// The worker must respond with these bytes.
    Ping {
        /// Any bytes.
        payload: [u8; 8],
    },
    /// No request will follow.
    Drain,
    /// Measure what requests leave behind, or (`end`) no longer.
    Leaks {
        /// No longer.
        end: bool,
    },
}

/// WELCOME: the versions that Keepwarm speaks and the credit of the worker (spec §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// The oldest version that Keepwarm speaks; not 0.
    pub version_min: u16,
    /// The newest; not below `version_min`.
    pub version_max: u16,
    /// Bytes that the worker may send on each stream before CREDIT.
    pub stream_credit: u32,
    /// Bytes that the worker may send on all streams together before CREDIT.
    pub connection_credit: u32,
    /// Names and values: `app`, `worker`, `workers`, `software`; unknown names are ignored.
    pub about: Strings<'a>,
}

/// REQUEST: the head of a request, and the first bytes of its body (spec §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The stream that it opens.
    pub stream: u32,
    /// Bits of [`flags`]; WEBSOCKET comes only with END.
    pub flags: u8,
    /// Bytes of the body; `None` when it is chunked.
    pub content_length: Option<u64>,
    /// The eleven fixed strings, then names and values; with USER, then how a user was authenticated, and who.
    pub strings: Strings<'a>,
    /// At most [`MAX_BODY`] bytes; not under credit.
    pub body: &'a [u8],
}

/// The eleven strings at the start of every request (spec §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestStrings<'a> {
    /// `GET`
    pub method: &'a [u8],
    /// `HTTP/1.1`, `HTTP/1.0`, `HTTP/2` or `HTTP/2.0`
    pub protocol: &'a [u8],
    /// `http` or `https`
    pub scheme: &'a [u8],
    /// The path below the script name, percent-decoded; begins with `/` or is empty.
    pub path: &'a [u8],
    /// The whole normalized path as it was routed, percent-encoded, or `*`.
    pub raw_path: &'a [u8],
    /// The query, without `?`.
    pub query: &'a [u8],
    /// The prefix that was stripped, percent-decoded, or empty.
    pub script_name: &'a [u8],
    /// `shop.example`
    pub server_name: &'a [u8],
    /// `8080`
    pub server_port: &'a [u8],
    /// `192.0.2.7`; empty for a Unix socket.
    pub client_address: &'a [u8],
    /// `52144`; empty for a Unix socket.
    pub client_port: &'a [u8],
}

impl<'a> ToWorker<'a> {
    /// The first frame in `input` and how many bytes it took. `None`: it is incomplete.
    ///
    /// # Errors
    ///
    /// As [`super::FromWorker::decode`].
    pub fn decode(input: &'a [u8]) -> Result<Option<(Self, usize)>, WireFault> {
        let Some((reader, frame_len)) = Reader::frame(input, Sender::Keepwarm)? else {
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
        Ok(FrameHeader::decode(input, Sender::Keepwarm)?.map(|header| header.frame_len()))
    }

    fn payload(mut reader: Reader<'a>) -> Result<Self, WireFault> {
        let header = reader.header;
        let (stream, end) = (header.stream, header.end());
        Ok(match header.frame_type {
            FrameType::Welcome => Self::Welcome(Welcome::payload(reader)?),
            FrameType::Request => Self::Request(Request::payload(reader)?),
            FrameType::Data => Self::Data { stream, bytes: reader.rest(MAX_BODY)?, end },
            FrameType::Trailers => Self::Trailers { stream, fields: reader.last_pairs()? },
            FrameType::Credit => Self::Credit { stream, amount: reader.credit()? },
            FrameType::Reset => {
                let (code, reason) = reader.code_and_reason()?;
                Self::Reset { stream, code: ResetCode(code), reason }
            }
            FrameType::HalfClose => Self::HalfClose { stream },
            FrameType::Text => Self::Text { stream, bytes: reader.rest(MAX_BODY)?, end },
            FrameType::Binary => Self::Binary { stream, bytes: reader.rest(MAX_BODY)?, end },
            FrameType::Close => {
                let (code, reason) = reader.code_and_reason()?;
                Self::Close { stream, code, reason }
            }
            FrameType::Ping => Self::Ping { payload: reader.take()? },
            FrameType::Drain => Self::Drain,
            FrameType::Leaks => Self::Leaks { end },
            FrameType::Hello
            | FrameType::Response
            | FrameType::Inform
            | FrameType::Want
            | FrameType::Pong
            | FrameType::Busy
            | FrameType::Samples
            | FrameType::Growth
            | FrameType::Hijack => {
                return Err(reader.fault(FaultKind::Direction, 0));
            }
        })
    }
}

/// The path in a REQUEST frame, as it was routed; none in another frame, or in a part of one.
#[must_use]
pub fn request_path(frame: &[u8]) -> Option<&[u8]> {
    match ToWorker::decode(frame) {
        Ok(Some((ToWorker::Request(request), _))) => Some(request.fixed().raw_path),
        Ok(_) | Err(_) => None,
    }
}

impl<'a> Welcome<'a> {
    fn payload(mut reader: Reader<'a>) -> Result<Self, WireFault> {
        let (version_min, version_max) = (reader.u16()?, reader.u16()?);
        if version_min == 0 || version_max < version_min {
            return Err(reader.fault(FaultKind::Version, version_max.into()));
        }
        Ok(Self {
            version_min,
            version_max,
            stream_credit: reader.initial_credit()?,
            connection_credit: reader.initial_credit()?,
            about: reader.last_pairs()?,
        })
    }
}

impl<'a> Request<'a> {
    /// The eleven strings before the fields.
    pub fn fixed(&self) -> RequestStrings<'a> {
        let mut strings = self.strings.iter();
        let mut next = || strings.next().unwrap_or_default();
        RequestStrings {
            method: next(),
            protocol: next(),
            scheme: next(),
            path: next(),
            raw_path: next(),
            query: next(),
            script_name: next(),
            server_name: next(),
            server_port: next(),
            client_address: next(),
            client_port: next(),
        }
    }

    /// The fields: names in lower case, and values.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let fields = self.pairs_count() - usize::from(self.flags & flags::USER != 0);
        self.pairs().take(fields)
    }

    /// The user that Keepwarm has authenticated, and how: `Basic`, or empty.
    pub fn user(&self) -> Option<(&'a [u8], &'a [u8])> {
        (self.flags & flags::USER != 0)
            .then(|| self.pairs().last())?
            .map(|(auth_type, user)| (user, auth_type))
    }

    fn pairs(&self) -> Pairs<'a> {
        let mut strings = self.strings.iter();
        strings.by_ref().take(FIXED_STRINGS.into()).for_each(drop);
        strings.pairs()
    }

    /// Of which there is one with USER ([`Self::payload`]).
    fn pairs_count(&self) -> usize {
        (self.strings.len() - usize::from(FIXED_STRINGS)) / 2
    }

    /// The body is complete in this frame.
    pub fn end(&self) -> bool {
        self.flags & flags::END != 0
    }

    fn payload(mut reader: Reader<'a>) -> Result<Self, WireFault> {
        let FrameHeader { stream, flags, .. } = reader.header;
        let content_length = Some(reader.u64()?).filter(|length| *length != UNKNOWN_LENGTH);
        let strings = reader.strings()?;
        let least = usize::from(FIXED_STRINGS) + if flags & flags::USER != 0 { 2 } else { 0 };
        if strings.len() < least || (strings.len() - usize::from(FIXED_STRINGS)) % 2 != 0 {
            return Err(reader.fault(FaultKind::Fields, strings.len() as u64));
        }
        Ok(Self { stream, flags, content_length, strings, body: reader.rest(MAX_BODY)? })
    }
}
