//! Faults of a FastCGI server or a script.

use std::fmt;

use super::record::RecordType;

/// A breach of the protocol by the server. It ends the connection: its further bytes cannot be interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastCgiFault {
    /// The kind of breach.
    pub kind: RecordFault,
    /// The type byte of the affected record.
    pub type_byte: u8,
    /// The request named by the record.
    pub request: u16,
}

impl FastCgiFault {
    /// The stable name, for logs and counters.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }
}

impl fmt::Display for FastCgiFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RecordType::from_byte(self.type_byte) {
            _ if self.kind == RecordFault::Version => return f.write_str(self.kind.sentence()),
            Some(known) => write!(f, "{}", known.name())?,
            None => write!(f, "type {}", self.type_byte)?,
        }
        write!(f, " of request {}: {}", self.request, self.kind.sentence())
    }
}

impl std::error::Error for FastCgiFault {}

/// Declares an enum of faults: variant, stable name, sentence.
macro_rules! faults {
    ($(#[$outer:meta])* $enum:ident; $($(#[$doc:meta])* $variant:ident, $name:literal, $sentence:literal;)*) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $enum { $($(#[$doc])* $variant,)* }

        impl $enum {
            /// The stable name, in lower case with underscores.
            pub fn name(self) -> &'static str {
                match self { $($enum::$variant => $name,)* }
            }

            /// What is wrong, as a clause for a log line.
            pub fn sentence(self) -> &'static str {
                match self { $($enum::$variant => $sentence,)* }
            }
        }
    };
}

faults! {
    /// The kinds of breach.
    RecordFault;
    /// Not version 1: most often the peer does not speak FastCGI at all (F §3.3).
    Version, "fastcgi_version", "what came is no FastCGI record of version 1";
    /// No such type (F §8).
    UnknownType, "fastcgi_unknown_type", "there is no such record type";
    /// A record that only a web server sends (F §3.3).
    Direction, "fastcgi_direction", "only the web server sends this record";
    /// A record of a request that is not open: an earlier one, one that never existed, or 0 (F §3.3).
    WrongRequest, "fastcgi_wrong_request", "the record belongs to another request";
    /// A record while no request is open (F §3.3).
    Unasked, "fastcgi_unsolicited", "nothing was asked";
    /// A body of the wrong length (F §5.5, §4.2).
    Length, "fastcgi_length", "its content has the wrong length";
    /// STDOUT or STDERR after their end (F §3.3, "stream").
    StreamOver, "fastcgi_stream_over", "the stream had ended";
    /// A protocol status that does not exist (F §5.5).
    ProtocolStatus, "fastcgi_protocol_status", "there is no such protocol status";
}

faults! {
    /// The faults in the head of a CGI response.
    CgiFault;
    /// More bytes than a head may have.
    TooLarge, "cgi_head_too_large", "the head of the response is too large";
    /// More field lines than a head may have.
    TooManyFields, "cgi_too_many_fields", "the head of the response has too many fields";
    /// A line that is not a field: no colon, an invalid name, or a continuation in the first line (RFC 3875 §6.3).
    NotAField, "cgi_not_a_field", "a line of the head is no field";
    /// A control other than HTAB in a value.
    Value, "cgi_bad_value", "a field has a control character in its value";
    /// `Status` that is not three digits and a reason, from 200 to 999 (RFC 3875 §6.3.3).
    Status, "cgi_bad_status", "Status is not a number from 200 to 999";
    /// `Status` twice (RFC 3875 §6.3).
    TwoStatuses, "cgi_two_statuses", "Status came twice";
    /// The response ended before its head did.
    Truncated, "cgi_no_head", "the response ended before its head did";
}

impl fmt::Display for CgiFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl std::error::Error for CgiFault {}
