//! A certificate with its key, and its content.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use keepwarm_policy::renewal::Period;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate chain with its key, ready for handshakes.
#[derive(Clone)]
pub struct Certificate {
    /// For rustls.
    pub certified: Arc<CertifiedKey>,
    /// The content of its leaf.
    pub facts: CertificateFacts,
    /// Chain and key in PEM, as they are stored.
    pub(crate) pem: Arc<str>,
}

/// The content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The names it is for.
    pub names: Vec<String>,
    /// Who issued it.
    pub issuer: String,
    /// When it is valid.
    pub validity: Period,
    /// Its serial number, in hexadecimal.
    pub serial: String,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads a chain and its key from one text in PEM.
    ///
    /// # Errors
    /// A sentence: a part is missing, unreadable, or they do not belong together.
    pub fn from_pem(pem: &str) -> Result<Self, String> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("it is not PEM: {error}"))?;
        let leaf = chain.first().ok_or("it has no certificate")?;
        let facts = CertificateFacts::of(leaf)?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| format!("it has no usable key: {error}"))?;
        let key = any_supported_type(&key).map_err(|error| format!("its key is not usable: {error}"))?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|_| "its key is not that of its certificate")?;
        Ok(Self { certified: Arc::new(certified), facts, pem: pem.into() })
    }

    /// One of our own, signed by its own key, to be used until there is a better one. Clients do not trust it.
    ///
    /// # Errors
    /// A sentence: the name cannot be in a certificate.
    pub fn self_signed(name: &str) -> Result<Self, String> {
        let key = rcgen::KeyPair::generate().map_err(|error| error.to_string())?;
        let mut params =
            rcgen::CertificateParams::new([name.to_owned()]).map_err(|error| error.to_string())?;
        let mut subject = rcgen::DistinguishedName::new();
        subject.push(rcgen::DnType::CommonName, SELF_SIGNED);
        params.distinguished_name = subject;
        let now = SystemTime::now();
        params.not_before = (now - Duration::from_secs(3600)).into();
        params.not_after = (now + Duration::from_secs(7 * 24 * 3600)).into();
        let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
        Self::from_pem(&format!("{}{}", key.serialize_pem(), certificate.pem()))
    }

    /// Key and chain in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Whether clients accept its dates now.
    pub fn is_valid(&self) -> bool {
        let now = SystemTime::now();
        self.facts.validity.start <= now && now < self.facts.validity.end
    }

    /// Whether it is one of our own.
    pub fn is_self_signed(&self) -> bool {
        self.facts.issuer.contains(SELF_SIGNED)
    }
}

/// The subject of certificates of our own.
const SELF_SIGNED: &str = "Keepwarm, waiting for a certificate";

impl CertificateFacts {
    /// Reads a certificate.
    pub(crate) fn of(leaf: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, leaf) = X509Certificate::from_der(leaf)
            .map_err(|error| format!("its certificate is not X.509: {error}"))?;
        let names = match leaf.subject_alternative_name() {
            Ok(Some(extension)) => extension.value.general_names.iter().filter_map(name_of).collect(),
            Ok(None) => Vec::new(),
            Err(error) => return Err(format!("its certificate has broken names: {error}")),
        };
        let validity = Period {
            start: time(leaf.validity().not_before.timestamp()),
            end: time(leaf.validity().not_after.timestamp()),
        };
        Ok(Self { names, issuer: leaf.issuer().to_string(), validity, serial: leaf.raw_serial_as_string() })
    }

    /// Whether it is for this name, by itself.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_ascii_lowercase()),
        GeneralName::IPAddress(octets) => match octets.len() {
            4 => <[u8; 4]>::try_from(*octets).ok().map(|octets| IpAddr::from(octets).to_string()),
            16 => <[u8; 16]>::try_from(*octets).ok().map(|octets| IpAddr::from(octets).to_string()),
            _ => None,
        },
        _ => None,
    }
}

fn time(timestamp: i64) -> SystemTime {
    let seconds = Duration::from_secs(timestamp.unsigned_abs());
    let time = if timestamp < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_our_own_is_known_as_such() {
        for name in ["a.test", "xn--bcher-kva.test", "127.0.0.1", "::1"] {
            let certificate = Certificate::self_signed(name).unwrap();
            assert_eq!(certificate.facts.names, [name]);
            assert!(certificate.is_self_signed() && certificate.facts.has_name(name));
            let length = certificate.facts.validity.length();
            assert!(length > Duration::from_secs(7 * 24 * 3600), "{length:?}");
        }
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let (one, two) =
            (Certificate::self_signed("a.test").unwrap(), Certificate::self_signed("b.test").unwrap());
        let (key, _) = one.pem.split_once("-----BEGIN CERTIFICATE").unwrap();
        let at = two.pem.find("-----BEGIN CERTIFICATE").unwrap();
        let mixed = format!("{key}{}", &two.pem[at..]);
        assert!(Certificate::from_pem(&mixed).unwrap_err().contains("not that of"));
        assert!(Certificate::from_pem(key).unwrap_err().contains("no certificate"));
        assert!(Certificate::from_pem(&two.pem[at..]).unwrap_err().contains("no usable key"));
        assert!(Certificate::from_pem("").is_err());
        assert!(
            Certificate::from_pem("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err()
        );
    }
}
