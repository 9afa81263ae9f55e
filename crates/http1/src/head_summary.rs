//! Extracts from the fields of a head what framing, routing and persistence need, in one pass.

use crate::bytes::{is_token, members, parse_decimal, trim};
use crate::fault::FaultKind;
use crate::fields::Fields;
use crate::head::{ConnectionOptions, Version, is_forwarded_upgrade};

/// The fields that determine framing, routing and persistence.
#[derive(Default, Debug)]
pub(crate) struct HeadSummary<'a> {
    pub(crate) hosts: usize,
    pub(crate) host: &'a [u8],
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) connection: ConnectionOptions,
    pub(crate) expects_continue: bool,
    pub(crate) expects_other: bool,
    pub(crate) upgrade: bool,
}

impl<'a> HeadSummary<'a> {
    /// One pass over the fields. Faults are those of framing (RFC 9112 §6), of which the first field's comes first.
    pub(crate) fn of(fields: &'a Fields, version: Version) -> Result<Self, FaultKind> {
        let mut summary = Self::default();
        let mut length = None;
        let mut codings = Codings::default();
        for (name, value) in fields.iter() {
            match name {
                b"host" => {
                    summary.hosts += 1;
                    summary.host = value;
                }
                b"content-length" => add_length(&mut length, value)?,
                b"transfer-encoding" => codings.add(value)?,
                b"connection" => summary.connection.add(value),
                b"expect" => summary.add_expectations(value),
                b"upgrade" => summary.upgrade |= members(value).any(is_forwarded_upgrade),
                _ => {}
            }
        }
        summary.length = length.map(|(value, _)| value);
        summary.chunked = codings.finish(version, summary.length.is_some())?;
        Ok(summary)
    }

    fn add_expectations(&mut self, value: &[u8]) {
        for member in members(value).filter(|member| !member.is_empty()) {
            // RFC 9110 §10.1.1: the comparison is case-insensitive.
            match member.eq_ignore_ascii_case(b"100-continue") {
                true => self.expects_continue = true,
                false => self.expects_other = true,
            }
        }
    }
}

impl ConnectionOptions {
    /// Adds the members of one `Connection` field.
    pub(crate) fn add(&mut self, value: &[u8]) {
        for member in members(value) {
            self.close |= member.eq_ignore_ascii_case(b"close");
            self.keep_alive |= member.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade |= member.eq_ignore_ascii_case(b"upgrade");
        }
    }
}

/// Compares one `Content-Length` field with those before it. RFC 9110 §8.6 lets a recipient accept identical repeats, in several lines or in a list,
/// as one; here the spelling must be identical too (stricter: `5` and `05` differ), so the first spelling is kept.
pub(crate) fn add_length<'a>(length: &mut Option<(u64, &'a [u8])>, value: &'a [u8]) -> Result<(), FaultKind> {
    for member in members(value) {
        let number = parse_decimal(member).ok_or(FaultKind::BadContentLength)?;
        match length {
            Some((_, spelling)) if *spelling != member => return Err(FaultKind::DifferingContentLengths),
            _ => *length = Some((number, member)),
        }
    }
    Ok(())
}

/// The codings of all `Transfer-Encoding` fields, in order (RFC 9112 §6.1).
#[derive(Default, Debug)]
struct Codings {
    any: bool,
    chunked_last: bool,
    chunked_before: bool,
    unknown: bool,
}

impl Codings {
    fn add(&mut self, value: &[u8]) -> Result<(), FaultKind> {
        self.any = true;
        // RFC 9110 §5.6.1.2: empty members are ignored. A field without any other names no coding, and so does not end in chunked.
        for member in members(value).filter(|member| !member.is_empty()) {
            self.chunked_before |= self.chunked_last;
            self.chunked_last = member.eq_ignore_ascii_case(b"chunked");
            // transfer-coding = token *( OWS ";" OWS transfer-parameter )
            let name = member.split(|&b| b == b';').next().unwrap_or_default();
            if !is_token(trim(name)) {
                return Err(FaultKind::BadTransferEncoding);
            }
            self.unknown |= !self.chunked_last;
        }
        Ok(())
    }

    /// Whether the body is chunked; steps 3 and 4 of RFC 9112 §6.3, and §6.1 on HTTP/1.0.
    fn finish(&self, version: Version, has_length: bool) -> Result<bool, FaultKind> {
        if !self.any {
            return Ok(false);
        }
        if has_length {
            return Err(FaultKind::BothLengthAndChunked);
        }
        if version == Version::Http10 {
            return Err(FaultKind::TransferEncodingOnHttp10);
        }
        if !self.chunked_last || self.chunked_before {
            return Err(FaultKind::BadTransferEncoding);
        }
        if self.unknown {
            return Err(FaultKind::UnknownTransferCoding);
        }
        Ok(true)
    }
}
