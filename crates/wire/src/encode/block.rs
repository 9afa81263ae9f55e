//! A frame with a string block, written in one pass and sealed by patching three numbers.
//!
//! ```text
//! begin    | 0000 type 00 stream | numbers |                     length and flags are not known yet
//! strings  | ....................| ....... | 0000 000000 | a\0b\0c
//! finish   | LEN. type FL stream | ....... | CNT. TEXTLN | a\0b\0c | body
//! ```

use super::EncodeError;
use crate::frame::{FrameHeader, FrameType, HEADER_LEN, MAX_BODY, MAX_PAYLOAD};
use memchr::memchr_iter;

/// Bytes of count and text length.
const BLOCK_HEAD: usize = 6;

/// A frame being written. Its bytes are removed again unless [`FrameBuilder::finish`] succeeds.
#[derive(Debug)]
pub(super) struct FrameBuilder<'o> {
    out: &'o mut Vec<u8>,
    frame_type: FrameType,
    stream: u32,
    /// Where the frame begins in `out`.
    start: usize,
    /// Where the block begins; moves while numbers are written.
    block: usize,
    /// Strings so far.
    count: usize,
    /// Where the text ends, once no more strings may follow.
    text_end: Option<usize>,
    /// Bytes of the body that the caller writes itself.
    elsewhere: usize,
    /// The first error.
    error: Option<EncodeError>,
    /// `out` holds a whole frame, which is kept.
    done: bool,
}

impl<'o> FrameBuilder<'o> {
    /// Begins a frame whose payload starts with `number`.
    #[inline]
    pub(super) fn begin(out: &'o mut Vec<u8>, frame_type: FrameType, stream: u32, number: &[u8]) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        let mut begun = Self {
            out,
            frame_type,
            stream,
            start,
            block: start + HEADER_LEN,
            count: 0,
            text_end: None,
            elsewhere: 0,
            error: None,
            done: false,
        };
        begun.number(number);
        begun
    }

    /// Appends a number in front of the block; only before the first string.
    pub(super) fn number(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.count, 0);
        self.out.truncate(self.block);
        self.out.extend_from_slice(bytes);
        self.block += bytes.len();
        self.out.extend_from_slice(&[0; BLOCK_HEAD]);
    }

    /// The number of strings.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn string(&mut self, string: &[u8]) {
        if self.text_end.is_some() {
            return self.fail(EncodeError::Fields); // a string after the body
        }
        if self.count != 0 {
            self.out.push(0);
        }
        self.out.extend_from_slice(string);
        self.count += 1;
    }

    pub(super) fn pairs<'f>(&mut self, pairs: impl IntoIterator<Item = (&'f [u8], &'f [u8])>) {
        for (name, value) in pairs {
            self.string(name);
            self.string(value);
        }
    }

    /// Appends to the body; no string can follow.
    #[inline]
    pub(super) fn body(&mut self, bytes: &[u8]) {
        if bytes.len() > MAX_BODY {
            return self.fail(EncodeError::TooLong); // without copying it first
        }
        self.text_end.get_or_insert(self.out.len());
        self.out.extend_from_slice(bytes);
    }

    /// Counts `len` bytes of body that the caller writes itself, right after this frame's bytes.
    pub(super) fn body_elsewhere(&mut self, len: usize) {
        self.text_end.get_or_insert(self.out.len());
        self.elsewhere = self.elsewhere.saturating_add(len);
    }

    pub(super) fn fail(&mut self, error: EncodeError) {
        self.error.get_or_insert(error);
    }

    /// Patches the numbers and keeps the frame.
    #[inline]
    pub(super) fn finish(mut self, flags: u8) -> Result<(), EncodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let end = self.out.len();
        let text_start = self.block + BLOCK_HEAD;
        let text_end = self.text_end.unwrap_or(end);
        let body = (end - text_end).saturating_add(self.elsewhere);
        let payload = (end - self.start - HEADER_LEN).saturating_add(self.elsewhere);
        if body > MAX_BODY || payload > MAX_PAYLOAD {
            return Err(EncodeError::TooLong);
        }
        let Ok(count) = u16::try_from(self.count) else {
            return Err(EncodeError::TooManyStrings);
        };
        // One pass over the whole text, while it is in the cache: cheaper than a search in each short string. It is also
        // exactly what the reader checks (spec §2.1).
        let text = self.out.get(text_start..text_end).unwrap_or_default();
        if memchr_iter(0, text).count() != self.count.saturating_sub(1) {
            return Err(EncodeError::Nul);
        }
        let text_len = (text_end - text_start) as u32; // at most MAX_PAYLOAD
        let header =
            FrameHeader { length: payload as u32, frame_type: self.frame_type, flags, stream: self.stream };
        self.patch(self.start, &header.to_bytes());
        self.patch(self.block, &count.to_be_bytes());
        self.patch(self.block + 2, &text_len.to_be_bytes());
        self.done = true;
        Ok(())
    }

    /// Overwrites bytes that `begin` and `number` wrote.
    fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

impl Drop for FrameBuilder<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.out.truncate(self.start);
        }
    }
}
