//! Appends frames to a `Vec<u8>`, with no allocation but the vector's own growth (`spec/wire.md`).
//!
//! Nothing here writes a frame that the other side would call a fault: a string with a NUL, an overlong frame or
//! a number outside its limits is an [`EncodeError`], and the vector is then as it was before.

mod block;
mod head;
#[cfg(test)]
mod tests;
mod whole;

pub use head::{RequestWriter, ResponseWriter};

use crate::frame::{
    FrameHeader, FrameType, Growth, HEADER_LEN, Hello, MAX_BODY, MAX_CLOSE_REASON, MAX_CREDIT,
    MAX_RESET_REASON, MAX_STREAMS, MIN_INITIAL_CREDIT, RequestStrings, ResetCode, Samples, Welcome, flags,
};
use block::FrameBuilder;
use std::fmt;

/// Why a frame could not be written. The vector is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A string has a NUL in it (spec §2.1).
    Nul,
    /// More than 65,535 strings.
    TooManyStrings,
    /// More than 65,536 bytes of body, or 131,072 of payload.
    TooLong,
    /// Fewer than a request's eleven strings, or a name without a value.
    Fields,
    /// A number outside its limits: a credit, a status, a version, a count of streams.
    Number,
    /// Stream 0 for a frame about a stream.
    StreamId,
    /// A flag that the frame does not have, or WEBSOCKET without END.
    Flags,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nul => "a string with a NUL cannot travel on the wire",
            Self::TooManyStrings => "more than 65535 strings in one frame",
            Self::TooLong => "more bytes than one frame can hold",
            Self::Fields => "the strings do not make up names and values",
            Self::Number => "a number is outside its limits",
            Self::StreamId => "stream 0 is the connection",
            Self::Flags => "the frame does not have this flag",
        })
    }
}

impl std::error::Error for EncodeError {}

/// The header of a DATA frame whose `len` bytes the caller writes right after it (a vectored write saves the
/// copy).
///
/// # Errors
///
/// More than [`MAX_BODY`] bytes, or stream 0.
pub fn data_header(stream: u32, len: usize, end: bool) -> Result<[u8; HEADER_LEN], EncodeError> {
    let header = body_header(FrameType::Data, stream, len, end)?;
    Ok(header.to_bytes())
}

/// DATA: bytes of a body.
///
/// # Errors
///
/// More than [`MAX_BODY`] bytes, or stream 0.
pub fn encode_data(out: &mut Vec<u8>, stream: u32, bytes: &[u8], end: bool) -> Result<(), EncodeError> {
    encode_body(out, FrameType::Data, stream, bytes, end)
}

/// TEXT: part of a text message, UTF-8 once it is whole.
///
/// # Errors
///
/// As [`encode_data`].
pub fn encode_text(out: &mut Vec<u8>, stream: u32, bytes: &[u8], end: bool) -> Result<(), EncodeError> {
    encode_body(out, FrameType::Text, stream, bytes, end)
}

/// BINARY: part of a binary message.
///
/// # Errors
///
/// As [`encode_data`].
pub fn encode_binary(out: &mut Vec<u8>, stream: u32, bytes: &[u8], end: bool) -> Result<(), EncodeError> {
    encode_body(out, FrameType::Binary, stream, bytes, end)
}

/// CLOSE: the WebSocket closes. A reason of more than [`MAX_CLOSE_REASON`] bytes is cut at a character.
///
/// # Errors
///
/// Stream 0.
pub fn encode_close(out: &mut Vec<u8>, stream: u32, code: u16, reason: &str) -> Result<(), EncodeError> {
    encode_reason(out, FrameType::Close, stream, code, cut(reason, MAX_CLOSE_REASON))
}

/// RESET: this response is no longer wanted (from the worker: it ends here, incomplete). A reason of more than
/// [`MAX_RESET_REASON`] bytes is cut at a character.
///
/// # Errors
///
/// Stream 0.
pub fn encode_reset(
    out: &mut Vec<u8>,
    stream: u32,
    code: ResetCode,
    reason: &str,
) -> Result<(), EncodeError> {
    encode_reason(out, FrameType::Reset, stream, code.0, cut(reason, MAX_RESET_REASON))
}

/// HALF_CLOSE: the client has closed its writing side.
///
/// # Errors
///
/// Stream 0.
pub fn encode_half_close(out: &mut Vec<u8>, stream: u32) -> Result<(), EncodeError> {
    put(out, FrameType::HalfClose, 0, nonzero(stream)?, &[]);
    Ok(())
}

/// TRAILERS: names and values; they end the body.
///
/// # Errors
///
/// A NUL, too many or too long strings, or stream 0.
pub fn encode_trailers<'f>(
    out: &mut Vec<u8>,
    stream: u32,
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), EncodeError> {
    let mut block = FrameBuilder::begin(out, FrameType::Trailers, nonzero(stream)?, &[]);
    block.pairs(fields);
    block.finish(0)
}

/// CREDIT: the other side may send `amount` more bytes on this stream, or with 0 on the connection.
///
/// # Errors
///
/// An amount of 0 or above [`MAX_CREDIT`].
pub fn encode_credit(out: &mut Vec<u8>, stream: u32, amount: u32) -> Result<(), EncodeError> {
    check((1..=MAX_CREDIT).contains(&amount))?;
    put(out, FrameType::Credit, 0, stream, &amount.to_be_bytes());
    Ok(())
}

/// HIJACK: the application responds itself, on the socket sent with this frame.
///
/// # Errors
///
/// Stream 0.
pub fn encode_hijack(out: &mut Vec<u8>, stream: u32) -> Result<(), EncodeError> {
    put(out, FrameType::Hijack, 0, nonzero(stream)?, &[]);
    Ok(())
}

/// PING: the worker responds with the same bytes.
pub fn encode_ping(out: &mut Vec<u8>, payload: [u8; 8]) {
    put(out, FrameType::Ping, 0, 0, &payload);
}

/// BUSY: the slot stays occupied when the response ends, or (`end`) is free now.
pub fn encode_busy(out: &mut Vec<u8>, end: bool) {
    put(out, FrameType::Busy, if end { flags::END } else { 0 }, 0, &[]);
}

/// SAMPLES: where the worker was.
///
/// # Errors
///
/// A NUL, or too many or too long strings.
pub fn encode_samples(out: &mut Vec<u8>, samples: &Samples<'_>) -> Result<(), EncodeError> {
    let [r0, r1, r2, r3] = samples.request.to_be_bytes();
    let [d0, d1, d2, d3] = samples.dropped.to_be_bytes();
    let mut block = FrameBuilder::begin(out, FrameType::Samples, 0, &[r0, r1, r2, r3, d0, d1, d2, d3]);
    block.pairs(samples.stacks.pairs());
    block.finish(0)
}

/// LEAKS: measure what requests leave behind, or (`end`) no longer.
pub fn encode_leaks(out: &mut Vec<u8>, end: bool) {
    put(out, FrameType::Leaks, if end { flags::END } else { 0 }, 0, &[]);
}

/// GROWTH: how what the worker holds has changed.
///
/// # Errors
///
/// A NUL, or too many or too long strings.
pub fn encode_growth(out: &mut Vec<u8>, growth: &Growth<'_>) -> Result<(), EncodeError> {
    let [r0, r1, r2, r3] = growth.request.to_be_bytes();
    let [t0, t1, t2, t3] = growth.microseconds.to_be_bytes();
    let mut block = FrameBuilder::begin(out, FrameType::Growth, 0, &[r0, r1, r2, r3, t0, t1, t2, t3]);
    block.pairs(growth.changes.pairs());
    block.finish(0)
}

/// DRAIN: no more requests.
pub fn encode_drain(out: &mut Vec<u8>) {
    put(out, FrameType::Drain, 0, 0, &[]);
}

/// WELCOME, with the names and values of `about`; `welcome.about` is ignored.
///
/// # Errors
///
/// A NUL, an empty range of versions, or a credit outside its limits.
pub fn encode_welcome<'f>(
    out: &mut Vec<u8>,
    welcome: &Welcome<'_>,
    about: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), EncodeError> {
    check(welcome.version_min != 0 && welcome.version_min <= welcome.version_max)?;
    check(initial_credit(welcome.stream_credit) && initial_credit(welcome.connection_credit))?;
    let mut block = FrameBuilder::begin(out, FrameType::Welcome, 0, &welcome.version_min.to_be_bytes());
    block.number(&welcome.version_max.to_be_bytes());
    block.number(&welcome.stream_credit.to_be_bytes());
    block.number(&welcome.connection_credit.to_be_bytes());
    block.pairs(about);
    block.finish(0)
}

/// HELLO, with the names and values of `about`; `hello.about` is ignored. (The worker's side.)
///
/// # Errors
///
/// A NUL, version 0, or a credit or number of streams outside its limits.
pub fn encode_hello<'f>(
    out: &mut Vec<u8>,
    hello: &Hello<'_>,
    about: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), EncodeError> {
    check(hello.version != 0 && (1..=MAX_STREAMS).contains(&hello.streams))?;
    check(initial_credit(hello.stream_credit) && initial_credit(hello.connection_credit))?;
    let mut block = FrameBuilder::begin(out, FrameType::Hello, 0, &hello.version.to_be_bytes());
    block.number(&hello.streams.to_be_bytes());
    block.number(&hello.stream_credit.to_be_bytes());
    block.number(&hello.connection_credit.to_be_bytes());
    block.pairs(about);
    block.finish(0)
}

/// INFORM: an informational response. (The worker's side.)
///
/// # Errors
///
/// A NUL, stream 0, or a status other than 102 to 199.
pub fn encode_inform<'f>(
    out: &mut Vec<u8>,
    stream: u32,
    status: u16,
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), EncodeError> {
    check((102..=199).contains(&status))?;
    let mut block = FrameBuilder::begin(out, FrameType::Inform, nonzero(stream)?, &status.to_be_bytes());
    block.pairs(fields);
    block.finish(0)
}

/// WANT: the application wants the body. (The worker's side.)
///
/// # Errors
///
/// Stream 0.
pub fn encode_want(out: &mut Vec<u8>, stream: u32) -> Result<(), EncodeError> {
    put(out, FrameType::Want, 0, nonzero(stream)?, &[]);
    Ok(())
}

/// PONG: the PING's bytes. (The worker's side.)
pub fn encode_pong(out: &mut Vec<u8>, payload: [u8; 8]) {
    put(out, FrameType::Pong, 0, 0, &payload);
}

impl RequestStrings<'_> {
    /// The strings in the order of the wire.
    fn in_order(&self) -> [&[u8]; 11] {
        [
            self.method,
            self.protocol,
            self.scheme,
            self.path,
            self.raw_path,
            self.query,
            self.script_name,
            self.server_name,
            self.server_port,
            self.client_address,
            self.client_port,
        ]
    }
}

fn encode_body(
    out: &mut Vec<u8>,
    frame_type: FrameType,
    stream: u32,
    bytes: &[u8],
    end: bool,
) -> Result<(), EncodeError> {
    let header = body_header(frame_type, stream, bytes.len(), end)?;
    out.reserve(HEADER_LEN + bytes.len());
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn body_header(
    frame_type: FrameType,
    stream: u32,
    len: usize,
    end: bool,
) -> Result<FrameHeader, EncodeError> {
    if len > MAX_BODY {
        return Err(EncodeError::TooLong);
    }
    let flags = if end { flags::END } else { 0 };
    Ok(FrameHeader { length: len as u32, frame_type, flags, stream: nonzero(stream)? })
}

fn encode_reason(
    out: &mut Vec<u8>,
    frame_type: FrameType,
    stream: u32,
    code: u16,
    reason: &str,
) -> Result<(), EncodeError> {
    let length = 2 + reason.len() as u32;
    let header = FrameHeader { length, frame_type, flags: 0, stream: nonzero(stream)? };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(reason.as_bytes());
    Ok(())
}

/// A small frame whose payload is ready; the caller keeps to the limits of its type.
fn put(out: &mut Vec<u8>, frame_type: FrameType, flags: u8, stream: u32, payload: &[u8]) {
    let header = FrameHeader { length: payload.len() as u32, frame_type, flags, stream };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(payload);
}

/// As much of `reason` as fits in `max` bytes without cutting a character.
fn cut(reason: &str, max: usize) -> &str {
    reason.get(..reason.floor_char_boundary(max)).unwrap_or_default()
}

fn nonzero(stream: u32) -> Result<u32, EncodeError> {
    if stream == 0 { Err(EncodeError::StreamId) } else { Ok(stream) }
}

fn check(in_limits: bool) -> Result<(), EncodeError> {
    if in_limits { Ok(()) } else { Err(EncodeError::Number) }
}

fn initial_credit(amount: u32) -> bool {
    (MIN_INITIAL_CREDIT..=MAX_CREDIT).contains(&amount)
}
