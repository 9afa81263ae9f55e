//! The chunked coding (RFC 9112 §7.1), one byte of framing at a time: no part of a chunk's head is buffered or read twice.

use crate::bytes::{hex_value, is_blank, is_tchar};
use crate::fault::FaultKind;

/// Position in the coding.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunked {
    state: ChunkState,
    /// Size of the chunk being read, then the rest of its data.
    left: u64,
    /// Digits of the size read so far.
    digits: u8,
    /// Bytes of chunk extensions so far, in the whole message.
    extensions: usize,
}

/// Result for a piece of input. `at` is the number of bytes consumed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// All framing so far is whole; more bytes are needed.
    NeedMore { at: usize },
    /// Data of the chunk: from `start` up to `end`.
    Data { start: usize, end: usize },
    /// The last chunk's line is whole; trailers or an empty line follow.
    LastChunk { at: usize },
}

/// The states of the grammar, `chunk-size *( BWS ";" BWS name [ BWS "=" BWS value ] ) CRLF data CRLF`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum ChunkState {
    Size,
    WhitespaceAfterSize,
    WhitespaceAfterName,
    WhitespaceAfterValue,
    BeforeName,
    Name,
    BeforeValue,
    Value,
    Quoted,
    QuotedPair,
    QuotedEnd,
    SizeLf,
    Data,
    DataCr,
    DataLf,
}

impl Chunked {
    pub(crate) fn new() -> Self {
        Self { state: ChunkState::Size, left: 0, digits: 0, extensions: 0 }
    }

    /// Continues to the next data (at most `room` bytes of it), the last chunk, or the input's end.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        room: usize,
        extension_limit: usize,
    ) -> Result<Step, FaultKind> {
        for (at, &byte) in input.iter().enumerate() {
            match self.state {
                ChunkState::Data => return Ok(self.take_data(at, input.len(), room)),
                ChunkState::DataCr => {
                    self.state = expect(byte, b'\r', ChunkState::DataLf, FaultKind::BadChunkEnd)?
                }
                ChunkState::DataLf => {
                    let extensions = self.extensions;
                    expect(byte, b'\n', ChunkState::Size, FaultKind::BadChunkEnd)?;
                    *self = Self { extensions, ..Self::new() };
                }
                ChunkState::SizeLf => {
                    self.state = expect(byte, b'\n', ChunkState::Data, FaultKind::BareCr)?;
                    if self.left == 0 {
                        return Ok(Step::LastChunk { at: at + 1 });
                    }
                }
                ChunkState::Size => self.size_byte(byte)?,
                _ => self.extension_byte(byte)?,
            }
            if self.in_extension() {
                self.extensions += 1;
                if self.extensions > extension_limit {
                    return Err(FaultKind::ChunkExtensionsTooLarge);
                }
            }
        }
        Ok(Step::NeedMore { at: input.len() })
    }

    fn take_data(&mut self, start: usize, len: usize, room: usize) -> Step {
        let here = (len - start).min(room) as u64;
        let taken = here.min(self.left);
        self.left -= taken;
        if self.left == 0 {
            self.state = ChunkState::DataCr;
        }
        // `taken` is at most `len - start`, a usize.
        Step::Data { start, end: start + taken as usize }
    }

    /// `1*HEXDIG`, at most 16 so that no size overflows; no sign, no `0x`, no whitespace before it.
    fn size_byte(&mut self, byte: u8) -> Result<(), FaultKind> {
        if let Some(digit) = hex_value(byte) {
            self.digits += 1;
            if self.digits > 16 {
                return Err(FaultKind::BadChunkSize);
            }
            self.left = self.left << 4 | u64::from(digit);
            return Ok(());
        }
        if self.digits == 0 {
            return Err(if byte == b'\n' { FaultKind::BareLf } else { FaultKind::BadChunkSize });
        }
        self.state = match byte {
            b'\r' => ChunkState::SizeLf,
            b'\n' => return Err(FaultKind::BareLf),
            b';' => ChunkState::BeforeName,
            _ if is_blank(byte) => ChunkState::WhitespaceAfterSize,
            _ => return Err(FaultKind::BadChunkSize),
        };
        Ok(())
    }

    /// One byte of `chunk-ext` (RFC 9112 §7.1.1).
    fn extension_byte(&mut self, byte: u8) -> Result<(), FaultKind> {
        if byte == b'\n' {
            return Err(FaultKind::BareLf);
        }
        let next = match self.state {
            ChunkState::WhitespaceAfterSize => match byte {
                b';' => Some(ChunkState::BeforeName),
                _ if is_blank(byte) => Some(ChunkState::WhitespaceAfterSize),
                // Whitespace after the size without an extension is a fault of the size.
                _ => return Err(FaultKind::BadChunkSize),
            },
            ChunkState::WhitespaceAfterName => match byte {
                b';' => Some(ChunkState::BeforeName),
                b'=' => Some(ChunkState::BeforeValue),
                _ => is_blank(byte).then_some(ChunkState::WhitespaceAfterName),
            },
            ChunkState::WhitespaceAfterValue => match byte {
                b';' => Some(ChunkState::BeforeName),
                _ => is_blank(byte).then_some(ChunkState::WhitespaceAfterValue),
            },
            ChunkState::BeforeName if is_blank(byte) => Some(ChunkState::BeforeName),
            ChunkState::BeforeName => is_tchar(byte).then_some(ChunkState::Name),
            ChunkState::Name => match byte {
                b'=' => Some(ChunkState::BeforeValue),
                _ if is_tchar(byte) => Some(ChunkState::Name),
                _ if is_blank(byte) => Some(ChunkState::WhitespaceAfterName),
                _ => after_extension(byte),
            },
            ChunkState::BeforeValue if is_blank(byte) => Some(ChunkState::BeforeValue),
            ChunkState::BeforeValue if byte == b'"' => Some(ChunkState::Quoted),
            ChunkState::BeforeValue => is_tchar(byte).then_some(ChunkState::Value),
            ChunkState::Value if is_tchar(byte) => Some(ChunkState::Value),
            ChunkState::Value | ChunkState::QuotedEnd if is_blank(byte) => {
                Some(ChunkState::WhitespaceAfterValue)
            }
            ChunkState::Value | ChunkState::QuotedEnd => after_extension(byte),
            ChunkState::Quoted => match byte {
                b'"' => Some(ChunkState::QuotedEnd),
                b'\\' => Some(ChunkState::QuotedPair),
                _ => is_text(byte).then_some(ChunkState::Quoted),
            },
            ChunkState::QuotedPair => is_text(byte).then_some(ChunkState::Quoted),
            // `step` sends no byte of any other state here.
            ChunkState::Size
            | ChunkState::SizeLf
            | ChunkState::Data
            | ChunkState::DataCr
            | ChunkState::DataLf => None,
        };
        self.state = next.ok_or(FaultKind::BadChunkExtension)?;
        Ok(())
    }

    fn in_extension(&self) -> bool {
        !matches!(
            self.state,
            ChunkState::Size
                | ChunkState::SizeLf
                | ChunkState::Data
                | ChunkState::DataCr
                | ChunkState::DataLf
        )
    }
}

fn after_extension(byte: u8) -> Option<ChunkState> {
    match byte {
        b';' => Some(ChunkState::BeforeName),
        b'\r' => Some(ChunkState::SizeLf),
        _ => None,
    }
}

/// `qdtext` and the bytes that may be escaped (RFC 9110 §5.6.4), without the two that end or escape.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn expect(byte: u8, wanted: u8, next: ChunkState, fault: FaultKind) -> Result<ChunkState, FaultKind> {
    match byte {
        _ if byte == wanted => Ok(next),
        _ => Err(fault),
    }
}
