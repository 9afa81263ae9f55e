//! Decodes content codings (RFC 9110 §8.4.1).

use std::io::Write;

use flate2::write::GzDecoder;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Decodes a body as it arrives.
pub(crate) enum Decoder {
    Gzip(Box<GzDecoder<Vec<u8>>>),
    Zstd(Zstd),
}

impl Decoder {
    /// For this coding.
    pub(crate) fn new(coding: &str) -> Result<Self, String> {
        match coding {
            "gzip" => Ok(Self::Gzip(Box::new(GzDecoder::new(Vec::new())))),
            "zstd" => Ok(Self::Zstd(Zstd::new())),
            other => Err(format!("no client accepts the coding {other:?}")),
        }
    }

    /// Everything that these bytes complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Gzip(decoder) => {
                let pushed = decoder.write_all(bytes).and_then(|()| decoder.flush());
                pushed.map_err(|error| format!("not gzip: {error}"))?;
                Ok(std::mem::take(decoder.get_mut()))
            }
            Self::Zstd(decoder) => decoder.push(bytes),
        }
    }

    /// Whether all of it has arrived.
    pub(crate) fn is_whole(&mut self) -> bool {
        match self {
            Self::Gzip(decoder) => decoder.try_finish().is_ok(),
            Self::Zstd(decoder) => decoder.is_over,
        }
    }
}

/// One zstd frame.
pub(crate) struct Zstd {
    context: DCtx<'static>,
    /// A slice, not a vector: zstd-safe would cut a vector down to what it wrote.
    room: Box<[u8]>,
    /// The frame is complete.
    is_over: bool,
}

impl Zstd {
    fn new() -> Self {
        Self { context: DCtx::create(), room: vec![0; 16 * 1024].into(), is_over: false }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let (mut plain, mut input) = (Vec::new(), InBuffer::around(bytes));
        let mut has_more = false;
        while has_more || input.pos() < bytes.len() {
            if self.is_over {
                return Err("bytes after the end of a zstd frame".to_owned());
            }
            let mut output = OutBuffer::around(&mut *self.room);
            let hint = self
                .context
                .decompress_stream(&mut output, &mut input)
                .map_err(|code| format!("not zstd: {}", zstd_safe::get_error_name(code)))?;
            let count = output.pos();
            plain.extend_from_slice(&self.room[..count]);
            self.is_over = hint == 0;
            // A full buffer: the decoder may hold more, without more input.
            has_more = count == self.room.len() && !self.is_over;
        }
        Ok(plain)
    }
}
