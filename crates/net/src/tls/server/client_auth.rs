//! Certificates of clients.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use x509_parser::prelude::{
    AttributeTypeAndValue, CertificateRevocationList, FromDer, X509Certificate, X509Name,
};

use super::certificate::time;

use crate::tls::settings::{Pem, certificates};
use crate::tls::{TlsPart, TlsSetupError};

/// Whether clients present certificates, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuth {
    /// The authorities that sign them.
    pub ca: Pem,
    /// The lists of those that they have revoked (RFC 5280 §5). With them, a client is refused whose authority has none here, or an expired one.
    pub crl: Option<Pem>,
    /// Whether a client without one is refused.
    pub required: bool,
}

/// The lists of revoked certificates.
pub(super) struct RevokedClients {
    lists: Vec<CertificateRevocationListDer<'static>>,
    /// When the first of them expires.
    pub(super) next_update: SystemTime,
}

impl ClientAuth {
    /// `None`: there are no lists, and nothing is checked.
    pub(super) fn revoked(&self) -> Result<Option<RevokedClients>, TlsSetupError> {
        let Some(pem) = &self.crl else { return Ok(None) };
        let wrong = |what: String| {
            let sentence = format!("{} {what}", pem.file.display());
            TlsSetupError { part: TlsPart::Crl, sentence }
        };
        let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&pem.text)
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(format!("is not a PEM file of revocation lists: {error}")))?;
        let mut first: Option<SystemTime> = None;
        for (at, list) in lists.iter().enumerate() {
            let end = next_update(list).ok_or_else(|| {
                let what = "is not a revocation list (X.509 CRL version 2 with a nextUpdate)";
                wrong(format!("cannot be used: list {} {what}", at + 1))
            })?;
            first = Some(first.map_or(end, |first| first.min(end)));
        }
        let Some(next_update) = first else {
            let what = "has no revocation list in it: expected a PEM file with -----BEGIN X509 CRL-----";
            return Err(wrong(what.to_owned()));
        };
        Ok(Some(RevokedClients { lists, next_update }))
    }

    pub(super) fn verifier(
        &self,
        revoked: Option<RevokedClients>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsSetupError> {
        let wrong = |sentence: String| TlsSetupError { part: TlsPart::Ca, sentence };
        let mut roots = RootCertStore::empty();
        for (at, certificate) in certificates(&self.ca, TlsPart::Ca)?.into_iter().enumerate() {
            roots.add(certificate).map_err(|error| {
                let file = self.ca.file.display();
                wrong(format!("certificate {} in {file} cannot be used: {error}", at + 1))
            })?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if self.required { builder } else { builder.allow_unauthenticated() };
        let builder = match revoked {
            // As nginx and Apache do: an old list misses what was revoked since. Every certificate of the chain is checked.
            Some(revoked) => builder.with_crls(revoked.lists).enforce_revocation_expiration(),
            None => builder,
        };
        builder.build().map_err(|error| match (error, &self.crl) {
            (VerifierBuilderError::InvalidCrl(error), Some(pem)) => {
                let sentence = format!("{} cannot be used: {error:?}", pem.file.display());
                TlsSetupError { part: TlsPart::Crl, sentence }
            }
            (error, _) => wrong(error.to_string()),
        })
    }
}

/// When a list expires; `None`: it is not a list that can be used.
fn next_update(list: &CertificateRevocationListDer<'_>) -> Option<SystemTime> {
    let (_, list) = CertificateRevocationList::from_der(list).ok()?;
    Some(time(list.next_update()?.timestamp()))
}

/// Who a client is by its certificate, which has been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The distinguished name of its subject (RFC 4514).
    pub subject: String,
    /// The distinguished name of its issuer.
    pub issuer: String,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
}

impl ClientIdentity {
    pub(in crate::tls) fn new(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Some(Self {
            subject: distinguished_name(parsed.subject()),
            issuer: distinguished_name(parsed.issuer()),
            serial: hex(parsed.raw_serial()),
            fingerprint: hex(digest.as_ref()),
        })
    }
}

/// RFC 4514: the most specific part first. Everything outside of printable ASCII is in hexadecimal, so that the text fits a header.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts: Vec<String> =
        name.iter_rdn().map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let id = attribute.attr_type().to_id_string();
    let name = ATTRIBUTES.iter().find(|(known, _)| *known == id).map_or(id.as_str(), |(_, name)| name);
    let value = attribute.as_str().map_or(attribute.attr_value().data, str::as_bytes);
    format!("{name}={}", escaped(value))
}

/// RFC 4514 §2.4.
fn escaped(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for (at, &byte) in value.iter().enumerate() {
        let is_edge = (byte == b' ' && (at == 0 || at + 1 == value.len())) || (byte == b'#' && at == 0);
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' | b'=' => text.extend(['\\', char::from(byte)]),
            _ if is_edge => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("\\{other:02X}")),
        }
    }
    text
}

/// The short names of RFC 4514 §3, and of the address that authorities of companies use.
const ATTRIBUTES: [(&str, &str); 10] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_look_like_another() {
        for (value, expected) in [
            (&b"Anna"[..], "Anna"),
            (b"Anna,O=Admins", "Anna\\,O\\=Admins"),
            (b" # ", "\\ #\\ "),
            (b"#1", "\\#1"),
            ("J\u{fc}rgen\r\nX: y".as_bytes(), "J\\C3\\BCrgen\\0D\\0AX: y"),
            (b"a\\b\"", "a\\\\b\\\""),
        ] {
            assert_eq!(escaped(value), expected);
        }
    }
}
