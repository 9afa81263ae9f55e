//! Checks the fields of an application's response and extracts what framing needs, in one pass before anything is written.

use std::fmt;

use crate::bytes::{is_field_value, is_token, members};
use crate::fault::FaultKind;
use crate::head_summary::add_length;

/// The facts in the fields of a worker, a FastCGI server or an upstream that are needed to frame the response.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct AppFields {
    /// Its `Content-Length`.
    pub content_length: Option<u64>,
    /// `Connection: close`: honored by closing.
    pub close: bool,
    /// There is a `Date`: none is added.
    pub has_date: bool,
    /// There is a `Content-Type`.
    pub has_content_type: bool,
    /// It is a stream by its media type, which may be silent for long ([`is_stream`]).
    pub is_stream: bool,
    /// There is a `Trailer`: the application announces trailers.
    pub announces_trailers: bool,
    /// A field about the connection, which never reaches the client: its name, for one warning. Not `Connection: close`.
    pub hop_by_hop: Option<&'static str>,
}

/// A field that cannot be sent. The response is not sent either: an attacker controls what follows a forged line break.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadField {
    /// Its name, escaped, its first 64 bytes.
    pub name: String,
    /// Why it cannot be sent.
    pub reason: BadFieldReason,
}

/// Why a field of an application cannot be sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum BadFieldReason {
    /// The name is not a token (RFC 9110 §5.1).
    Name,
    /// A control other than HTAB in the value, such as CR or LF (RFC 9110 §5.5).
    Value,
    /// `Content-Length` is not a number of at most 19 digits.
    Length,
    /// `Content-Length` values differ.
    Lengths,
}

impl fmt::Display for BadField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            BadFieldReason::Name => "has a name that is not a token",
            BadFieldReason::Value => "has a control character (such as a line break) in its value",
            BadFieldReason::Length => "is not a number of at most 19 digits",
            BadFieldReason::Lengths => "was given twice with different values",
        };
        write!(f, "the response's field \"{}\" {what}", self.name)
    }
}

impl std::error::Error for BadField {}

/// Checks every name and value, in any case, and extracts the facts for framing.
///
/// # Errors
///
/// The first field that cannot be sent.
pub fn scan_app_fields<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<AppFields, BadField> {
    let mut found = AppFields::default();
    let mut length = None;
    for (name, value) in fields {
        let bad =
            |reason| BadField { name: name.get(..64).unwrap_or(name).escape_ascii().to_string(), reason };
        if !is_token(name) {
            return Err(bad(BadFieldReason::Name));
        }
        if !is_field_value(value) {
            return Err(bad(BadFieldReason::Value));
        }
        match found.note(name, value) {
            FieldKind::ContentLength => add_length(&mut length, value).map_err(|kind| match kind {
                FaultKind::DifferingContentLengths => bad(BadFieldReason::Lengths),
                _ => bad(BadFieldReason::Length),
            })?,
            FieldKind::Other => {}
        }
    }
    found.content_length = length.map(|(value, _)| value);
    Ok(found)
}

/// Whether a response of this media type is a stream whose parts come when something happens: server-sent events (WHATWG HTML §9.2), gRPC.
#[must_use]
pub fn is_stream(content_type: &[u8]) -> bool {
    let begins = |with: &[u8]| {
        content_type.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with))
            && content_type.get(with.len()).is_none_or(|next| matches!(next, b';' | b'+' | b' ' | b'\t'))
    };
    begins(b"text/event-stream") || begins(b"application/grpc")
}

enum FieldKind {
    ContentLength,
    Other,
}

impl AppFields {
    /// By length first: that alone rules out nearly every other field.
    fn note(&mut self, name: &[u8], value: &[u8]) -> FieldKind {
        let is = |lower: &str| name.eq_ignore_ascii_case(lower.as_bytes());
        match name.len() {
            2 if is("te") => self.hop_by_hop = Some("te"),
            4 if is("date") => self.has_date = true,
            7 if is("upgrade") => self.hop_by_hop = Some("upgrade"),
            7 if is("trailer") => self.announces_trailers = true,
            10 if is("connection") => self.note_connection(value),
            10 if is("keep-alive") => self.hop_by_hop = Some("keep-alive"),
            12 if is("content-type") => (self.has_content_type, self.is_stream) = (true, is_stream(value)),
            14 if is("content-length") => return FieldKind::ContentLength,
            16 if is("proxy-connection") => self.hop_by_hop = Some("proxy-connection"),
            17 if is("transfer-encoding") => self.hop_by_hop = Some("transfer-encoding"),
            _ => {}
        }
        FieldKind::Other
    }

    fn note_connection(&mut self, value: &[u8]) {
        for member in members(value).filter(|member| !member.is_empty()) {
            match member.eq_ignore_ascii_case(b"close") {
                true => self.close = true,
                false => self.hop_by_hop = Some("connection"),
            }
        }
    }
}

#[cfg(test)]
mod tests;
