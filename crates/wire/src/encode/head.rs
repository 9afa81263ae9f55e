//! The heads of requests and responses.

use super::EncodeError;
use super::block::FrameBuilder;
use crate::frame::{FIXED_STRINGS, FrameType, RequestStrings, UNKNOWN_LENGTH, flags};

/// Writes a REQUEST frame: the eleven strings, the fields, the first bytes of the body, [`Self::finish`].
///
/// If dropped without `finish`, it leaves the vector as it was.
///
/// ```
/// use keepwarm_wire::{encode::RequestWriter, frame::{RequestStrings, flags}};
/// let mut out = Vec::new();
/// let mut request = RequestWriter::begin(&mut out, 1, Some(0));
/// request.fixed(&RequestStrings {
///     method: b"GET", protocol: b"HTTP/1.1", scheme: b"http", path: b"/", raw_path: b"/",
///     server_name: b"localhost", server_port: b"80", ..RequestStrings::default()
/// });
/// request.field(b"host", b"localhost");
/// request.finish(flags::END)?;
/// # Ok::<(), keepwarm_wire::encode::EncodeError>(())
/// ```
#[derive(Debug)]
#[must_use = "a frame is written by `finish`"]
pub struct RequestWriter<'o>(FrameBuilder<'o>);

impl<'o> RequestWriter<'o> {
    /// Begins a REQUEST. `content_length` is that of the whole body in bytes; `None` when it is chunked.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, stream: u32, content_length: Option<u64>) -> Self {
        let length = content_length.unwrap_or(UNKNOWN_LENGTH);
        let mut block = FrameBuilder::begin(out, FrameType::Request, stream, &length.to_be_bytes());
        if stream == 0 {
            block.fail(EncodeError::StreamId);
        }
        Self(block)
    }

    /// The eleven strings at once; first, and once.
    #[inline]
    pub fn fixed(&mut self, fixed: &RequestStrings<'_>) {
        for string in fixed.in_order() {
            self.0.string(string);
        }
    }

    /// One string: the next of the eleven, or a field's name or value.
    #[inline]
    pub fn string(&mut self, string: &[u8]) {
        self.0.string(string);
    }

    /// A field; its name in lower case.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        self.0.string(name);
        self.0.string(value);
    }

    /// The user that was authenticated, and how; after the last field, and with [`flags::USER`].
    pub fn user(&mut self, name: &[u8], auth_type: &[u8]) {
        self.field(auth_type, name);
    }

    /// Appends to the body; no field can follow.
    #[inline]
    pub fn body(&mut self, bytes: &[u8]) {
        self.0.body(bytes);
    }

    /// Counts `len` bytes of body that the caller sends itself, right after this frame (a vectored write saves the
    /// copy).
    pub fn body_elsewhere(&mut self, len: usize) {
        self.0.body_elsewhere(len);
    }

    /// Completes the frame with these [`flags`].
    ///
    /// # Errors
    ///
    /// [`EncodeError`] for the first thing that cannot be sent; the vector is then as it was before `begin`.
    #[inline]
    pub fn finish(self, flags: u8) -> Result<(), EncodeError> {
        const KNOWN: u8 = 0x7f;
        if flags & !KNOWN != 0 || flags & (flags::WEBSOCKET | flags::END) == flags::WEBSOCKET {
            return Err(EncodeError::Flags);
        }
        let user = if flags & flags::USER != 0 { 2 } else { 0 };
        let fields = self.0.count().checked_sub(usize::from(FIXED_STRINGS) + user);
        if fields.is_none_or(|strings| strings % 2 != 0) {
            return Err(EncodeError::Fields);
        }
        self.0.finish(flags)
    }
}

/// Writes a RESPONSE frame: fields, the first bytes of the body, [`Self::finish`]. (The worker's side.)
///
/// If dropped without `finish`, it leaves the vector as it was.
#[derive(Debug)]
#[must_use = "a frame is written by `finish`"]
pub struct ResponseWriter<'o> {
    block: FrameBuilder<'o>,
    websocket: bool,
}

impl<'o> ResponseWriter<'o> {
    /// Begins a RESPONSE.
    pub fn begin(out: &'o mut Vec<u8>, stream: u32, status: u16) -> Self {
        let mut block = FrameBuilder::begin(out, FrameType::Response, stream, &status.to_be_bytes());
        if stream == 0 {
            block.fail(EncodeError::StreamId);
        }
        let websocket = status == 101;
        if !websocket && !(200..=999).contains(&status) {
            block.fail(EncodeError::Number);
        }
        Self { block, websocket }
    }

    /// A field.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        self.block.string(name);
        self.block.string(value);
    }

    /// Appends to the body; no field can follow.
    pub fn body(&mut self, bytes: &[u8]) {
        if self.websocket && !bytes.is_empty() {
            self.block.fail(EncodeError::TooLong);
        }
        self.block.body(bytes);
    }

    /// Completes the frame with these [`flags`].
    ///
    /// # Errors
    ///
    /// [`EncodeError`] for the first thing that cannot be sent; the vector is then as it was before `begin`.
    pub fn finish(self, flags: u8) -> Result<(), EncodeError> {
        if flags & !(flags::END | flags::CLOSE) != 0 || self.websocket && flags & flags::END != 0 {
            return Err(EncodeError::Flags);
        }
        self.block.finish(flags)
    }
}
