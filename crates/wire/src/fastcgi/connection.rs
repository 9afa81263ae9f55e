//! The output of a FastCGI server on one connection, and its order.

use std::ops::Range;

use super::fault::{FastCgiFault, RecordFault};
use super::record::{FIXED_BODY, HEADER_LEN, NO_REQUEST, RecordHeader, RecordType, VERSION};

/// The longest response to a query about the server, in bytes: three names and three numbers take less than a hundred. This number is arbitrary.
const MAX_VALUES: u16 = 4_096;

/// One connection: one request at a time, or one query about the server.
///
/// Order of calls: [`begin`](Self::begin) or [`ask`](Self::ask); [`decode`](Self::decode) with the bytes received, until [`Event::End`] or [`Event::Values`].
/// A [`FastCgiFault`] is final.
#[derive(Debug)]
pub struct Connection {
    /// The id of the previous request, or of the one in progress.
    last: u16,
    asked: PendingOperation,
    stdout_over: bool,
    stderr_over: bool,
    record: DecoderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingOperation {
    Nothing,
    Request,
    Values,
}

/// The position of the input in a record. It holds numbers only, never bytes, which stay the caller's.
#[derive(Debug, Clone, Copy)]
enum DecoderState {
    Header,
    /// In the content of STDOUT or STDERR.
    Stream {
        stdout: bool,
        left: u16,
        padding: u8,
    },
    /// Before content that is parsed whole.
    Whole {
        header: RecordHeader,
        record_type: RecordType,
    },
    Padding {
        left: u8,
    },
    Failed(FastCgiFault),
}

/// The result of one call, and how many bytes of the input it consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes the caller drops before it calls again.
    pub consumed: usize,
    /// The event.
    pub event: Event,
}

/// An event from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// More bytes are needed.
    NeedMore,
    /// Bytes of the response: this range of the input, never empty.
    Stdout(Range<usize>),
    /// Bytes for the log: this range of the input, never empty.
    Stderr(Range<usize>),
    /// The request is over.
    End {
        /// The script's exit status (F §5.5).
        app_status: u32,
        /// Whether the server accepted the request at all.
        protocol: ProtocolStatus,
    },
    /// The query got a reply (F §4.1): the server is alive, even if it does not know the query.
    Values,
}

/// The server's own result of a request (F §5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// The request was processed.
    Complete,
    /// It takes one request at a time on a connection. We never give it two.
    CannotMultiplex,
    /// It has no room for the request, which has not begun.
    Overloaded,
    /// It does not know the responder role.
    UnknownRole,
}

impl Connection {
    /// A new connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            last: NO_REQUEST,
            asked: PendingOperation::Nothing,
            stdout_over: false,
            stderr_over: false,
            record: DecoderState::Header,
        }
    }

    /// Begins a request and returns its id. `None` while another is open, or after a fault.
    pub fn begin(&mut self) -> Option<u16> {
        if self.asked != PendingOperation::Nothing || matches!(self.record, DecoderState::Failed(_)) {
            return None;
        }
        // Never 0; any 65,535 consecutive requests have different ids.
        self.last = self.last.checked_add(1).unwrap_or(1);
        self.asked = PendingOperation::Request;
        self.stdout_over = false;
        self.stderr_over = false;
        Some(self.last)
    }

    /// A query about the server was sent ([`super::encode::encode_get_values`]). `false` while something is open, or after a fault.
    pub fn ask(&mut self) -> bool {
        let free = self.asked == PendingOperation::Nothing && !matches!(self.record, DecoderState::Failed(_));
        if free {
            self.asked = PendingOperation::Values;
        }
        free
    }

    /// Whether nothing is open and no record is in progress: the connection may carry another request.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.asked == PendingOperation::Nothing && matches!(self.record, DecoderState::Header)
    }

    /// The next event.
    ///
    /// # Errors
    ///
    /// The server's breach. The connection is unusable.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, FastCgiFault> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            match self.record {
                DecoderState::Failed(fault) => return Err(fault),
                DecoderState::Header => {
                    self.check_begin(rest)?;
                    let Some(header) = RecordHeader::decode(rest) else {
                        return Ok(Decoded { consumed: at, event: Event::NeedMore });
                    };
                    at += HEADER_LEN;
                    self.record = self.take_header(header)?;
                }
                DecoderState::Padding { left } => {
                    let skipped = rest.len().min(usize::from(left));
                    at += skipped;
                    self.record = match left - skipped as u8 {
                        0 => DecoderState::Header,
                        left => {
                            self.record = DecoderState::Padding { left };
                            return Ok(Decoded { consumed: at, event: Event::NeedMore });
                        }
                    };
                }
                DecoderState::Stream { stdout, left, padding } => {
                    let part = rest.len().min(usize::from(left));
                    if part == 0 {
                        return Ok(Decoded { consumed: at, event: Event::NeedMore });
                    }
                    self.record = match left - part as u16 {
                        0 => after_content(padding),
                        left => DecoderState::Stream { stdout, left, padding },
                    };
                    let range = at..at + part;
                    let event = if stdout { Event::Stdout(range) } else { Event::Stderr(range) };
                    return Ok(Decoded { consumed: at + part, event });
                }
                DecoderState::Whole { header, record_type } => {
                    let Some(content) = rest.get(..usize::from(header.content)) else {
                        return Ok(Decoded { consumed: at, event: Event::NeedMore });
                    };
                    let event = self.take_whole(header, record_type, content)?;
                    self.record = after_content(header.padding);
                    return Ok(Decoded { consumed: at + content.len(), event });
                }
            }
        }
    }

    /// The server has closed. `true`: nothing was due; `false`: a response was.
    #[must_use]
    pub fn handle_eof(&self) -> bool {
        self.is_idle()
    }

    /// The first byte already shows whether this is FastCGI; the rest of such a header means nothing.
    fn check_begin(&mut self, begin: &[u8]) -> Result<(), FastCgiFault> {
        match begin.first() {
            Some(&VERSION) | None => Ok(()),
            Some(_) => Err(self.fail(RecordFault::Version, 0, NO_REQUEST)),
        }
    }

    fn take_header(&mut self, header: RecordHeader) -> Result<DecoderState, FastCgiFault> {
        use RecordType::{EndRequest, GetValuesResult, Stderr, Stdout, UnknownType};
        let RecordHeader { type_byte, request, content, padding, .. } = header;
        let kind = match (RecordType::from_byte(type_byte), self.asked) {
            (None, _) => RecordFault::UnknownType,
            (Some(Stdout | Stderr | EndRequest), PendingOperation::Nothing | PendingOperation::Values) => {
                RecordFault::Unasked
            }
            (Some(Stdout | Stderr | EndRequest), PendingOperation::Request) if request != self.last => {
                RecordFault::WrongRequest
            }
            (Some(Stdout), _) if self.stdout_over => RecordFault::StreamOver,
            (Some(Stderr), _) if self.stderr_over => RecordFault::StreamOver,
            (Some(record_type @ (Stdout | Stderr)), _) => {
                let stdout = record_type == Stdout;
                if content == 0 {
                    *(if stdout { &mut self.stdout_over } else { &mut self.stderr_over }) = true;
                    return Ok(after_content(padding));
                }
                return Ok(DecoderState::Stream { stdout, left: content, padding });
            }
            (Some(GetValuesResult | UnknownType), _) if request != NO_REQUEST => RecordFault::WrongRequest,
            (Some(GetValuesResult | UnknownType), PendingOperation::Nothing | PendingOperation::Request) => {
                RecordFault::Unasked
            }
            (Some(GetValuesResult), _) if content > MAX_VALUES => RecordFault::Length,
            (Some(EndRequest | UnknownType), _) if usize::from(content) != FIXED_BODY => RecordFault::Length,
            (Some(record_type @ (EndRequest | GetValuesResult | UnknownType)), _) => {
                return Ok(DecoderState::Whole { header, record_type });
            }
            (Some(_), _) => RecordFault::Direction,
        };
        Err(self.fail(kind, type_byte, request))
    }

    fn take_whole(
        &mut self,
        header: RecordHeader,
        record_type: RecordType,
        content: &[u8],
    ) -> Result<Event, FastCgiFault> {
        self.asked = PendingOperation::Nothing;
        if record_type != RecordType::EndRequest {
            return Ok(Event::Values);
        }
        let &[a, b, c, d, protocol, ..] = content else {
            return Err(self.fail(RecordFault::Length, header.type_byte, header.request));
        };
        let protocol = match protocol {
            0 => ProtocolStatus::Complete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            _ => return Err(self.fail(RecordFault::ProtocolStatus, header.type_byte, header.request)),
        };
        Ok(Event::End { app_status: u32::from_be_bytes([a, b, c, d]), protocol })
    }

    fn fail(&mut self, kind: RecordFault, type_byte: u8, request: u16) -> FastCgiFault {
        let fault = FastCgiFault { kind, type_byte, request };
        self.record = DecoderState::Failed(fault);
        fault
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

fn after_content(padding: u8) -> DecoderState {
    match padding {
        0 => DecoderState::Header,
        left => DecoderState::Padding { left },
    }
}
