//! The chunked coding (RFC 9112 §7.1), one byte of framing at a time: nothing of a chunk's head is ever held or looked at twice.

use crate::bytes::{hex_value, is_blank, is_tchar};
use crate::fault::FaultKind;

/// Where in the coding the next byte stands.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunked {
    state: State,
    /// Size of the chunk being read, then what is left of its data.
    left: u64,
    /// Digits of the size read so far.
    digits: u8,
    /// Bytes of chunk extensions so far, in the whole message.
    extensions: usize,
}

/// What a piece of input led to. `at` is how many bytes of it are done with.
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
enum State {
    Size,
    BlankAfterSize,
    BlankAfterName,
    BlankAfterValue,
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
        Self { state: State::Size, left: 0, digits: 0, extensions: 0 }
    }

    /// Goes on to the next data (at most `room` bytes of it), the last chunk, or the input's end.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        room: usize,
        extension_limit: usize,
    ) -> Result<Step, FaultKind> {
        for (at, &byte) in input.iter().enumerate() {
            match self.state {
                State::Data => return Ok(self.take_data(at, input.len(), room)),
                State::DataCr => self.state = expect(byte, b'\r', State::DataLf, FaultKind::BadChunkEnd)?,
                State::DataLf => {
                    let extensions = self.extensions;
                    expect(byte, b'\n', State::Size, FaultKind::BadChunkEnd)?;
                    *self = Self { extensions, ..Self::new() };
                }
                State::SizeLf => {
                    self.state = expect(byte, b'\n', State::Data, FaultKind::BareCr)?;
                    if self.left == 0 {
                        return Ok(Step::LastChunk { at: at + 1 });
                    }
                }
                State::Size => self.size_byte(byte)?,
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
            self.state = State::DataCr;
        }
        // `taken` is at most `len - start`, a usize.
        Step::Data { start, end: start + taken as usize }
    }

    /// `1*HEXDIG`, at most 16 so that no size overflows; no sign, no `0x`, no blank before it.
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
            b'\r' => State::SizeLf,
            b'\n' => return Err(FaultKind::BareLf),
            b';' => State::BeforeName,
            _ if is_blank(byte) => State::BlankAfterSize,
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
            State::BlankAfterSize => match byte {
                b';' => Some(State::BeforeName),
                _ if is_blank(byte) => Some(State::BlankAfterSize),
                // A blank behind the size that leads to no extension is a fault of the size.
                _ => return Err(FaultKind::BadChunkSize),
            },
            State::BlankAfterName => match byte {
                b';' => Some(State::BeforeName),
                b'=' => Some(State::BeforeValue),
                _ => is_blank(byte).then_some(State::BlankAfterName),
            },
            State::BlankAfterValue => match byte {
                b';' => Some(State::BeforeName),
                _ => is_blank(byte).then_some(State::BlankAfterValue),
            },
            State::BeforeName if is_blank(byte) => Some(State::BeforeName),
            State::BeforeName => is_tchar(byte).then_some(State::Name),
            State::Name => match byte {
                b'=' => Some(State::BeforeValue),
                _ if is_tchar(byte) => Some(State::Name),
                _ if is_blank(byte) => Some(State::BlankAfterName),
                _ => after_extension(byte),
            },
            State::BeforeValue if is_blank(byte) => Some(State::BeforeValue),
            State::BeforeValue if byte == b'"' => Some(State::Quoted),
            State::BeforeValue => is_tchar(byte).then_some(State::Value),
            State::Value if is_tchar(byte) => Some(State::Value),
            State::Value | State::QuotedEnd if is_blank(byte) => Some(State::BlankAfterValue),
            State::Value | State::QuotedEnd => after_extension(byte),
            State::Quoted => match byte {
                b'"' => Some(State::QuotedEnd),
                b'\\' => Some(State::QuotedPair),
                _ => is_text(byte).then_some(State::Quoted),
            },
            State::QuotedPair => is_text(byte).then_some(State::Quoted),
            // `step` sends no byte of any other state here.
            State::Size | State::SizeLf | State::Data | State::DataCr | State::DataLf => None,
        };
        self.state = next.ok_or(FaultKind::BadChunkExtension)?;
        Ok(())
    }

    fn in_extension(&self) -> bool {
        !matches!(self.state, State::Size | State::SizeLf | State::Data | State::DataCr | State::DataLf)
    }
}

fn after_extension(byte: u8) -> Option<State> {
    match byte {
        b';' => Some(State::BeforeName),
        b'\r' => Some(State::SizeLf),
        _ => None,
    }
}

/// `qdtext` and what may be escaped (RFC 9110 §5.6.4), less the two that end or escape.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn expect(byte: u8, wanted: u8, next: State, fault: FaultKind) -> Result<State, FaultKind> {
    match byte {
        _ if byte == wanted => Ok(next),
        _ => Err(fault),
    }
}
