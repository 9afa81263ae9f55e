//! A certificate of ours, its key, and what they say.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, SignatureAlgorithm};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::CertificateFiles;
use super::ocsp::OcspResponse;
use crate::tls::settings::{certificates, private_key};
use crate::tls::{TlsPart, TlsSetupError};

/// A certificate with its key, ready for handshakes.
#[derive(Debug)]
pub struct Certificate {
    /// What it says.
    pub facts: CertificateFacts,
    /// With the OCSP response.
    key: Arc<CertifiedKey>,
    /// Without it, for when it has expired; the same if there is none.
    plain_key: Arc<CertifiedKey>,
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The file of the certificate.
    pub file: PathBuf,
    /// The DNS names it is for (RFC 6125), in lower case, wildcards included; IDN names as A-labels.
    pub names: Vec<String>,
    /// The addresses it is for.
    pub addresses: Vec<IpAddr>,
    /// Who has signed it.
    pub issuer: String,
    /// When it begins to be valid.
    pub not_before: SystemTime,
    /// When it expires.
    pub not_after: SystemTime,
    /// The kind of its key.
    pub key: KeyKind,
    /// The file has no certificate of its issuer, although clients need one to verify it.
    pub lacks_chain: bool,
    /// The certificate names no host at all.
    pub lacks_names: bool,
    /// Its OCSP response is stapled until then.
    pub ocsp_next_update: Option<SystemTime>,
}

/// The kind of a key: two certificates for one name need different ones, or only the first would be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA.
    Rsa,
    /// An elliptic curve of NIST.
    Ecdsa,
    /// Ed25519, and others that browsers do not know.
    Other,
}

/// How a certificate covers a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Literally.
    Exact,
    /// By a wildcard.
    Wildcard,
}

impl Certificate {
    pub(super) fn new(files: &CertificateFiles) -> Result<Self, TlsSetupError> {
        let chain = certificates(&files.cert, TlsPart::Certificate)?;
        let key_der = private_key(&files.key)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut facts = CertificateFacts::new(&files.cert.file, &chain)?;
        let plain_key =
            CertifiedKey::from_der(chain, key_der, &provider).map_err(|error| no_pair(files, &error))?;
        let ocsp =
            files.ocsp.as_ref().map(|file| OcspResponse::new(file, &serial(&plain_key))).transpose()?;
        facts.ocsp_next_update = ocsp.as_ref().and_then(|ocsp| ocsp.next_update);
        let plain_key = Arc::new(plain_key);
        let key = match ocsp {
            Some(ocsp) => Arc::new(CertifiedKey { ocsp: Some(ocsp.der), ..CertifiedKey::clone(&plain_key) }),
            None => Arc::clone(&plain_key),
        };
        let kind = match key.key.algorithm() {
            SignatureAlgorithm::RSA => KeyKind::Rsa,
            SignatureAlgorithm::ECDSA => KeyKind::Ecdsa,
            _ => KeyKind::Other,
        };
        Ok(Self { facts: CertificateFacts { key: kind, ..facts }, key, plain_key })
    }

    #[cfg(test)]
    pub(in crate::tls) fn with_key(
        files: &CertificateFiles,
        replace: impl FnOnce(&CertifiedKey) -> CertifiedKey,
    ) -> Self {
        let Self { facts, key, .. } = Self::new(files).unwrap();
        let key = Arc::new(replace(&key));
        Self { facts, plain_key: Arc::clone(&key), key }
    }

    /// What a handshake uses now: an expired OCSP response is not stapled.
    pub(in crate::tls) fn key(&self) -> &Arc<CertifiedKey> {
        match self.facts.ocsp_next_update {
            Some(_) if self.facts.ocsp_has_expired(SystemTime::now()) => &self.plain_key,
            _ => &self.key,
        }
    }

    /// Reads and checks the files of a certificate without using them.
    ///
    /// # Errors
    /// A file is invalid, or the key is another certificate's.
    pub fn check(files: &CertificateFiles) -> Result<CertificateFacts, TlsSetupError> {
        Self::new(files).map(|certificate| certificate.facts)
    }
}

impl CertificateFacts {
    fn new(file: &std::path::Path, chain: &[CertificateDer<'_>]) -> Result<Self, TlsSetupError> {
        let unreadable = || {
            let file = file.display();
            TlsSetupError::certificate(format!(
                "the first certificate in {file} is not a certificate (X.509)"
            ))
        };
        let first = chain.first().ok_or_else(unreadable)?;
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| unreadable())?;
        let mut facts = Self {
            file: file.to_owned(),
            names: Vec::new(),
            addresses: Vec::new(),
            issuer: name_of(parsed.issuer()),
            not_before: time(parsed.validity().not_before.timestamp()),
            not_after: time(parsed.validity().not_after.timestamp()),
            key: KeyKind::Other,
            lacks_chain: chain.len() == 1 && parsed.issuer() != parsed.subject() && names_its_issuer(&parsed),
            lacks_names: false,
            ocsp_next_update: None,
        };
        let alternatives = parsed.subject_alternative_name().ok().flatten();
        for name in alternatives.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => {
                    facts.names.push(name.trim_end_matches('.').to_ascii_lowercase())
                }
                GeneralName::IPAddress(bytes) => facts.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        facts.names.dedup();
        facts.lacks_names = facts.names.is_empty() && facts.addresses.is_empty();
        Ok(facts)
    }

    /// Whether and how it covers a host: a DNS name without a final dot, or an address; IDN names as A-labels.
    pub fn covers(&self, host: &str) -> Option<Coverage> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.addresses.contains(&address.to_canonical()).then_some(Coverage::Exact);
        }
        if self.names.iter().any(|name| name.eq_ignore_ascii_case(host)) {
            return Some(Coverage::Exact);
        }
        // RFC 9525 §6.3: the wildcard stands for exactly one label, the leftmost.
        let (label, parent) = host.split_once('.')?;
        let covers = |name: &String| {
            name.strip_prefix("*.").is_some_and(|of| !label.is_empty() && of.eq_ignore_ascii_case(parent))
        };
        self.names.iter().any(covers).then_some(Coverage::Wildcard)
    }

    /// Whether it cannot be valid at this time any more.
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.not_after < now
    }

    /// Whether its OCSP response is not stapled any more.
    pub fn ocsp_has_expired(&self, now: SystemTime) -> bool {
        self.ocsp_next_update.is_some_and(|end| end < now)
    }
}

/// An issuer that clients look up is one that they do not have: authorities of the public web say where their own certificates are (RFC 5280 §4.2.2.1).
/// Private ones that sign directly do not.
fn names_its_issuer(certificate: &X509Certificate<'_>) -> bool {
    let is_access = |extension: &x509_parser::prelude::X509Extension<'_>| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => {
            access.accessdescs.iter().any(|one| one.access_method.to_id_string() == "1.3.6.1.5.5.7.48.2")
        }
        _ => false,
    };
    certificate.extensions().iter().any(is_access)
}

fn name_of(name: &x509_parser::prelude::X509Name<'_>) -> String {
    let common = name.iter_common_name().next().and_then(|name| name.as_str().ok());
    common.map_or_else(|| name.to_string(), str::to_owned)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Of seconds since 1970.
pub(super) fn time(seconds: i64) -> SystemTime {
    let past = Duration::from_secs(seconds.unsigned_abs());
    match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(past),
        false => SystemTime::UNIX_EPOCH.checked_add(past),
    }
    .unwrap_or(SystemTime::UNIX_EPOCH)
}

fn no_pair(files: &CertificateFiles, error: &rustls::Error) -> TlsSetupError {
    let (cert, key) = (files.cert.file.display(), files.key.file.display());
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsSetupError {
            part: TlsPart::Key,
            sentence: format!(
                "the key in {key} is not the key of the first certificate in {cert}; the server's own certificate must come first, \
                 and its chain after it"
            ),
        },
        other => TlsSetupError {
            part: TlsPart::Key,
            sentence: format!("{cert} and {key} cannot be used: {other}"),
        },
    }
}

/// The serial number, as in its DER. It has been parsed before.
fn serial(key: &CertifiedKey) -> Vec<u8> {
    let first = key.cert.first().map(|first| X509Certificate::from_der(first));
    first.and_then(Result::ok).map(|(_, first)| first.raw_serial().to_vec()).unwrap_or_default()
}
