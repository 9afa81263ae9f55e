//! OCSP responses that are stapled to handshakes (RFC 6066 §8): which certificate one is about, and until when it may be sent.

use std::time::SystemTime;

use x509_parser::asn1_rs::{Any, Class, FromDer, GeneralizedTime, Tag};

use super::certificate::time;
use crate::tls::{Pem, TlsPart, TlsSetupError};

/// A response about one certificate. Its signature is the client's to verify.
#[derive(Debug)]
pub(super) struct OcspResponse {
    /// In DER, as it is sent.
    pub(super) der: Vec<u8>,
    /// A newer response exists from then on (RFC 6960 §2.4): clients refuse this one. `None`: it says none.
    pub(super) next_update: Option<SystemTime>,
}

impl OcspResponse {
    /// `serial` is that of our certificate, as in its DER.
    pub(super) fn new(file: &Pem, serial: &[u8]) -> Result<Self, TlsSetupError> {
        let wrong = |what: &str| TlsSetupError {
            part: TlsPart::Ocsp,
            sentence: format!(
                "{} {what}; get one with: openssl ocsp -issuer CHAIN -cert CERT -url URL -respout FILE",
                file.file.display()
            ),
        };
        let responses =
            single_responses(&file.text).ok_or_else(|| wrong("is not a successful OCSP response in DER"))?;
        let ours = responses.into_iter().find(|response| response.serial == serial);
        let ours = ours.ok_or_else(|| wrong("is an OCSP response about another certificate"))?;
        Ok(Self { der: file.text.clone(), next_update: ours.next_update })
    }
}

/// What a response says about one certificate.
#[derive(Debug, PartialEq, Eq)]
struct SingleResponse<'a> {
    serial: &'a [u8],
    next_update: Option<SystemTime>,
}

/// RFC 6960 §4.2.1. `None`: it is not a successful basic response.
fn single_responses(der: &[u8]) -> Option<Vec<SingleResponse<'_>>> {
    let mut response = Fields(Fields(der).universal(Tag::Sequence)?);
    if response.universal(Tag::Enumerated)? != SUCCESSFUL {
        return None;
    }
    // responseBytes: [0] EXPLICIT, with the type and the response in it.
    let mut bytes = Fields(Fields(response.context(0)?).universal(Tag::Sequence)?);
    if bytes.universal(Tag::Oid)? != BASIC {
        return None;
    }
    let basic = Fields(bytes.universal(Tag::OctetString)?).universal(Tag::Sequence)?;
    let mut data = Fields(Fields(basic).universal(Tag::Sequence)?);
    data.skip_context(0)?;
    // responderID and producedAt.
    data.any()?;
    data.universal(Tag::GeneralizedTime)?;
    let mut list = Fields(data.universal(Tag::Sequence)?);
    let mut singles = Vec::new();
    while !list.0.is_empty() {
        singles.push(single_response(list.universal(Tag::Sequence)?)?);
    }
    Some(singles)
}

fn single_response(content: &[u8]) -> Option<SingleResponse<'_>> {
    let mut fields = Fields(content);
    let mut id = Fields(fields.universal(Tag::Sequence)?);
    id.universal(Tag::Sequence)?;
    id.universal(Tag::OctetString)?;
    id.universal(Tag::OctetString)?;
    let serial = id.universal(Tag::Integer)?;
    // certStatus
    fields.any()?;
    generalized(fields.universal(Tag::GeneralizedTime)?)?;
    let next_update = match fields.peek()? {
        Some((Class::ContextSpecific, Tag(0))) => {
            Some(generalized(Fields(fields.context(0)?).universal(Tag::GeneralizedTime)?)?)
        }
        _ => None,
    };
    Some(SingleResponse { serial, next_update })
}

fn generalized(content: &[u8]) -> Option<SystemTime> {
    let at = GeneralizedTime::from_bytes(content).ok()?.utc_datetime().ok()?;
    Some(time(at.unix_timestamp()))
}

/// The status of a response that has content.
const SUCCESSFUL: &[u8] = &[0];
/// id-pkix-ocsp-basic, 1.3.6.1.5.5.7.48.1.1
const BASIC: &[u8] = &[0x2B, 6, 1, 5, 5, 7, 0x30, 1, 1];

/// The fields of a DER structure, one after the other. `None` from any method: it is not as required.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The next field, whatever it is.
    fn any(&mut self) -> Option<Any<'a>> {
        let (rest, any) = parse(self.0)?;
        self.0 = rest;
        Some(any)
    }

    /// The class and tag of the next field; `Some(None)`: there is no other.
    fn peek(&self) -> Option<Option<(Class, Tag)>> {
        match self.0.is_empty() {
            true => Some(None),
            false => parse(self.0).map(|(_, any)| Some((any.class(), any.tag()))),
        }
    }

    fn of(&mut self, class: Class, tag: Tag) -> Option<&'a [u8]> {
        self.any().filter(|any| any.class() == class && any.tag() == tag).map(|any| any.data)
    }

    fn universal(&mut self, tag: Tag) -> Option<&'a [u8]> {
        self.of(Class::Universal, tag)
    }

    fn context(&mut self, number: u32) -> Option<&'a [u8]> {
        self.of(Class::ContextSpecific, Tag(number))
    }

    /// An optional field of this number.
    fn skip_context(&mut self, number: u32) -> Option<()> {
        match self.peek()? {
            Some((Class::ContextSpecific, tag)) if tag == Tag(number) => self.any().map(drop),
            _ => Some(()),
        }
    }
}

fn parse(input: &[u8]) -> Option<(&[u8], Any<'_>)> {
    Any::from_der(input).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Made by OpenSSL 3 for the serial number 0x1234, with nextUpdate one day after thisUpdate.
    const RESPONSE: &[u8] = include_bytes!("ocsp/response.der");

    fn pem(text: &[u8]) -> Pem {
        Pem { file: "shop.ocsp".into(), text: text.to_vec() }
    }

    #[test]
    fn a_response_says_until_when_it_may_be_sent() {
        let response = OcspResponse::new(&pem(RESPONSE), &[0x12, 0x34]).unwrap();
        let produced = SystemTime::UNIX_EPOCH + Duration::from_secs(PRODUCED);
        assert_eq!(response.next_update, Some(produced + Duration::from_secs(24 * 3600)));
        assert_eq!(response.der, RESPONSE);
    }

    #[test]
    fn a_response_about_another_certificate_is_refused() {
        let error = OcspResponse::new(&pem(RESPONSE), &[0x12, 0x35]).unwrap_err();
        assert_eq!(error.part, TlsPart::Ocsp);
        assert!(
            error.sentence.contains("shop.ocsp is an OCSP response about another certificate"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_response_is_refused() {
        // RFC 6960 §4.2.1: tryLater has no content.
        for bad in [&b""[..], b"garbage", b"-----BEGIN", &[0x30, 3, 0x0A, 1, 3], &[0x30, 3, 0x0A, 1, 0]] {
            let error = OcspResponse::new(&pem(bad), &[0x12, 0x34]).unwrap_err();
            assert!(error.sentence.contains("not a successful OCSP response in DER"), "{bad:?}: {error}");
        }
        for length in 0..RESPONSE.len() {
            assert!(OcspResponse::new(&pem(&RESPONSE[..length]), &[0x12, 0x34]).is_err(), "{length}");
        }
    }

    /// When the response was made: in seconds since 1970.
    const PRODUCED: u64 = 1_795_808_934;
}
