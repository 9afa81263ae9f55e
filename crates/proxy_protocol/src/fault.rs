use std::fmt;

/// Why bytes are not a valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// The connection begins with other bytes.
    Missing,
    /// Version 1: the line breaks its grammar.
    Line,
    /// Version 1: no CRLF within [`crate::MAX_V1`] bytes. Version 2: longer than [`crate::MAX_V2`].
    TooLong,
    /// A version other than 1 and 2.
    Version,
    /// A command other than LOCAL and PROXY.
    Command,
    /// An address family or protocol that no stream has.
    Family,
    /// The addresses do not fit into the declared length.
    Addresses,
    /// A TLV does not fit into the declared length.
    Tlv,
    /// The CRC32c is wrong.
    Checksum,
}

impl HeaderFault {
    /// What is wrong, for a log.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Missing => "the connection does not begin with a PROXY header",
            Self::Line => "malformed line",
            Self::TooLong => "too long",
            Self::Version => "unknown version",
            Self::Command => "unknown command",
            Self::Family => "unknown address family or protocol",
            Self::Addresses => "truncated addresses",
            Self::Tlv => "truncated TLV",
            Self::Checksum => "wrong checksum",
        }
    }
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for HeaderFault {}
