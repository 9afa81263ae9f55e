//! The record format (F §3.3): eight bytes of header, content, padding.
//!
//! ```text
//! version type id.... length. padding reserved | content (0..65535) | padding (0..255)
//! ```

/// Bytes of a record's header.
pub const HEADER_LEN: usize = 8;

/// The most content a record holds: its length is a `u16`.
pub const MAX_CONTENT: usize = 65_535;

/// The only version there is (F §3.3).
pub const VERSION: u8 = 1;

/// The id of a record that concerns no request (F §3.3).
pub const NO_REQUEST: u16 = 0;

/// The bodies of BEGIN_REQUEST, END_REQUEST and UNKNOWN_TYPE are this long (F §5.1, §5.5, §4.2).
pub const FIXED_BODY: usize = 8;

/// The types of record (F §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordType {
    /// A request begins (F §5.1).
    BeginRequest = 1,
    /// The web server no longer wants a response (F §5.4).
    AbortRequest = 2,
    /// A request is over (F §5.5).
    EndRequest = 3,
    /// Names and values, as a stream (F §5.2).
    Params = 4,
    /// The request's body, as a stream (F §5.3).
    Stdin = 5,
    /// The response, as a stream (F §5.3).
    Stdout = 6,
    /// Output for the log, as a stream (F §5.3).
    Stderr = 7,
    /// A second input of filters (F §5.3).
    Data = 8,
    /// A query about the server (F §4.1).
    GetValues = 9,
    /// Its response (F §4.1).
    GetValuesResult = 10,
    /// The server does not know a type of management record (F §4.2).
    UnknownType = 11,
}

impl RecordType {
    /// The type of this byte, if there is one.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::BeginRequest,
            2 => Self::AbortRequest,
            3 => Self::EndRequest,
            4 => Self::Params,
            5 => Self::Stdin,
            6 => Self::Stdout,
            7 => Self::Stderr,
            8 => Self::Data,
            9 => Self::GetValues,
            10 => Self::GetValuesResult,
            11 => Self::UnknownType,
            _ => return None,
        })
    }

    /// Its name in the specification, without `FCGI_`.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeginRequest => "BEGIN_REQUEST",
            Self::AbortRequest => "ABORT_REQUEST",
            Self::EndRequest => "END_REQUEST",
            Self::Params => "PARAMS",
            Self::Stdin => "STDIN",
            Self::Stdout => "STDOUT",
            Self::Stderr => "STDERR",
            Self::Data => "DATA",
            Self::GetValues => "GET_VALUES",
            Self::GetValuesResult => "GET_VALUES_RESULT",
            Self::UnknownType => "UNKNOWN_TYPE",
        }
    }
}

/// The header of a record, unchecked except for the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// The version.
    pub version: u8,
    /// [`RecordType`], or a type that does not exist.
    pub type_byte: u8,
    /// The request; [`NO_REQUEST`] for a management record.
    pub request: u16,
    /// Bytes of content.
    pub content: u16,
    /// Bytes after the content, to be ignored.
    pub padding: u8,
}

impl RecordHeader {
    /// The header at the start of `input`, if it is complete.
    pub fn decode(input: &[u8]) -> Option<Self> {
        let &[version, type_byte, id1, id0, length1, length0, padding, _reserved] =
            input.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            version,
            type_byte,
            request: u16::from_be_bytes([id1, id0]),
            content: u16::from_be_bytes([length1, length0]),
            padding,
        })
    }

    /// The bytes of a record's header without padding.
    pub fn encode(record_type: RecordType, request: u16, content: u16) -> [u8; HEADER_LEN] {
        let ([id1, id0], [length1, length0]) = (request.to_be_bytes(), content.to_be_bytes());
        [VERSION, record_type as u8, id1, id0, length1, length0, 0, 0]
    }
}
