//! Certificates, read and judged.

use std::fmt;
use std::time::Duration;

use rustls::CertificateError;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::X509Version;

use super::Authorities;

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The name it is issued to.
    pub subject: String,
    /// The name of its signer.
    pub issuer: String,
    /// The names and addresses it is for.
    pub names: Vec<String>,
    /// It is valid from this second of Unix time on.
    pub from: i64,
    /// It is valid up to this second of Unix time.
    pub until: i64,
    /// Whether it is of version 3, the only one accepted today (RFC 5280 §4.1.2.1).
    pub is_current: bool,
    /// Whether subject and issuer are one.
    pub is_self_signed: bool,
    /// Its size in DER.
    pub bytes: usize,
}

/// Why a chain of certificates does not verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainError {
    /// It was valid until this long ago.
    Expired(Duration),
    /// It becomes valid this much later.
    NotYet(Duration),
    /// It is for other names than the requested one.
    WrongName {
        /// The requested name.
        asked: String,
        /// Those it is for.
        names: Vec<String>,
    },
    /// Its only witness is itself.
    SelfSigned(String),
    /// No trusted authority signed it, and the certificate of this issuer was not sent along.
    UnknownIssuer(String),
    /// The chain ends in this root, which is not trusted.
    UnknownRoot(String),
    /// In the words of the library that verifies.
    Other(String),
}

impl Certificate {
    /// From DER; `None` if it is not a certificate.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(der).ok()?;
        let names = match certificate.subject_alternative_name() {
            Ok(Some(names)) => names.value.general_names.iter().filter_map(name).collect(),
            _ => Vec::new(),
        };
        Some(Self {
            subject: words(&certificate.subject().to_string()),
            issuer: words(&certificate.issuer().to_string()),
            names,
            from: certificate.validity().not_before.timestamp(),
            until: certificate.validity().not_after.timestamp(),
            is_current: certificate.version() == X509Version::V3,
            is_self_signed: certificate.subject().as_raw() == certificate.issuer().as_raw(),
            bytes: der.len(),
        })
    }

    /// How long it is valid in all.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        seconds(self.until.saturating_sub(self.from))
    }
}

/// Why this chain, for this host, cannot be trusted at this second of Unix time; empty if it can.
#[must_use]
pub fn chain_errors(
    chain: &[CertificateDer<'_>],
    host: &str,
    authorities: &Authorities,
    now: i64,
) -> Vec<ChainError> {
    let Some((leaf, others)) = chain.split_first() else {
        return vec![ChainError::Other("no certificate was sent".to_owned())];
    };
    let Some(read) = Certificate::parse(leaf) else {
        return vec![ChainError::Other("the server did not send a readable certificate".to_owned())];
    };
    let mut reasons = Vec::new();
    if now > read.until {
        reasons.push(ChainError::Expired(seconds(now.saturating_sub(read.until))));
    } else if now < read.from {
        reasons.push(ChainError::NotYet(seconds(read.from.saturating_sub(now))));
    }
    let Ok(parsed) = ParsedCertificate::try_from(leaf) else {
        let words = match read.is_current {
            true => "it is malformed",
            false => {
                "it uses an old version of X.509 (with openssl x509 -req, -extfile FILE makes a current one)"
            }
        };
        reasons.push(ChainError::Other(words.to_owned()));
        return reasons;
    };
    let asked = ServerName::try_from(host);
    if asked.is_err() || asked.is_ok_and(|asked| verify_server_name(&parsed, &asked).is_err()) {
        reasons.push(ChainError::WrongName { asked: host.to_owned(), names: read.names.clone() });
    }
    // A certificate that is trusted itself needs no signature.
    if authorities.certificates.contains(leaf) {
        return reasons;
    }
    // The signature is checked at a time when the certificate is valid, so that one reason does not hide the other.
    let then = now.clamp(read.from, read.until.max(read.from));
    let then = UnixTime::since_unix_epoch(seconds(then));
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let roots = &authorities.roots;
    let signed = verify_server_cert_signed_by_trust_anchor(&parsed, roots, others, then, algorithms);
    reasons.extend(signed.err().map(|error| unsigned(&error, &read, others)));
    reasons
}

fn unsigned(error: &rustls::Error, leaf: &Certificate, others: &[CertificateDer<'_>]) -> ChainError {
    match error {
        _ if leaf.is_self_signed => ChainError::SelfSigned(leaf.subject.clone()),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            let last = others.iter().filter_map(|der| Certificate::parse(der)).next_back();
            match last.as_ref().unwrap_or(leaf) {
                root if root.is_self_signed => ChainError::UnknownRoot(root.subject.clone()),
                end => ChainError::UnknownIssuer(end.issuer.clone()),
            }
        }
        other => ChainError::Other(other.to_string()),
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(words(name)),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(four) => Some(std::net::Ipv4Addr::from(four).to_string()),
            Err(_) => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(*bytes).ok()?).to_string()),
        },
        _ => None,
    }
}

/// A text of a peer's, fit for one line of a report.
fn words(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(100).collect()
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// A span of time, in the usual units for certificates.
pub(crate) fn span(time: Duration) -> String {
    const HOUR: u64 = 3600;
    match time.as_secs() {
        seconds if seconds < 2 * HOUR => format!("{} minutes", seconds / 60),
        seconds if seconds < 48 * HOUR => format!("{} hours", seconds / HOUR),
        seconds => format!("{} days", seconds / (24 * HOUR)),
    }
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired(ago) => write!(f, "it expired {} ago", span(*ago)),
            Self::NotYet(ahead) => write!(f, "it is not valid for another {}", span(*ahead)),
            Self::WrongName { asked, names } if names.is_empty() => {
                write!(f, "it names no host (no subjectAltName), but {asked} was requested")
            }
            Self::WrongName { asked, names } => {
                let shown: Vec<&str> = names.iter().take(5).map(String::as_str).collect();
                let more = if names.len() > shown.len() { ", …" } else { "" };
                write!(f, "it is valid for {}{more}, but {asked} was requested", shown.join(", "))
            }
            Self::SelfSigned(subject) => write!(f, "it is self-signed ({subject})"),
            Self::UnknownIssuer(issuer) => write!(
                f,
                "its issuer ({issuer}) was not sent, and is not a trusted authority here: an intermediate certificate is missing, or the authority is private"
            ),
            Self::UnknownRoot(root) => {
                write!(f, "its root ({root}) is not a trusted authority here")
            }
            Self::Other(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

    use super::*;

    const NOW: i64 = 1_800_000_000; // 2027-01-15
    const DAY: i64 = 24 * 3600;

    fn authority(name: &str) -> (CertificateParams, KeyPair) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2040, 1, 1);
        (params, KeyPair::generate().unwrap())
    }

    fn leaf(names: &[&str], until: i64) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "shop");
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2026, 1, 1) + Duration::from_secs((until - 1_767_225_600) as u64);
        params
    }

    #[test]
    fn a_chain_is_believed_or_every_reason_is_told() {
        let (root_params, root_key) = authority("Root");
        let root = root_params.self_signed(&root_key).unwrap();
        let root_issuer = Issuer::from_params(&root_params, &root_key);
        let (middle_params, middle_key) = authority("Middle");
        let middle = middle_params.signed_by(&middle_key, &root_issuer).unwrap();
        let middle_issuer = Issuer::from_params(&middle_params, &middle_key);
        let key = KeyPair::generate().unwrap();
        let roots = Authorities::new(vec![root.der().clone()]);
        let none = Authorities::new(Vec::new());

        let good =
            leaf(&["shop.example", "192.0.2.1"], NOW + 30 * DAY).signed_by(&key, &middle_issuer).unwrap();
        let old = leaf(&["shop.example"], NOW - 3 * DAY).signed_by(&key, &middle_issuer).unwrap();
        let own = leaf(&["shop.example"], NOW + DAY).self_signed(&key).unwrap();
        let itself = Authorities::new(vec![own.der().clone()]);
        let chain = [good.der().clone(), middle.der().clone()];
        let whole = [good.der().clone(), middle.der().clone(), root.der().clone()];
        for (chain, host, roots, words) in [
            (&chain[..], "shop.example", &roots, &[][..]),
            (&chain, "192.0.2.1", &roots, &[]),
            (&whole, "shop.example", &roots, &[]),
            (&chain, "other.example", &roots, &["is valid for shop.example, 192.0.2.1, but other.example"]),
            (&chain[..1], "shop.example", &roots, &["issuer (CN=Middle) was not sent"]),
            (&whole, "shop.example", &none, &["root (CN=Root)"]),
            (&[old.der().clone(), middle.der().clone()], "shop.example", &roots, &["expired 3 days ago"]),
            (&[old.der().clone()], "x.example", &roots, &["3 days", "x.example", "CN=Middle"]),
            (&[own.der().clone()], "shop.example", &roots, &["self-signed (CN=shop)"]),
            (&[own.der().clone()], "shop.example", &itself, &[]),
            (&[own.der().clone()], "x.example", &itself, &["x.example"]),
            (&[], "shop.example", &roots, &["no certificate"]),
            (&[CertificateDer::from(vec![0x30, 0x82, 1])], "shop.example", &roots, &["readable certificate"]),
        ] {
            let reasons: Vec<String> =
                chain_errors(chain, host, roots, NOW).iter().map(ChainError::to_string).collect();
            assert_eq!(reasons.len(), words.len(), "{host}: {reasons:?}");
            for (reason, part) in reasons.iter().zip(words) {
                assert!(reason.contains(part), "{reason}: {part}");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let key = KeyPair::generate().unwrap();
        let der = leaf(&["shop.example"], NOW).self_signed(&key).unwrap().der().to_vec();
        assert!(Certificate::parse(&der).is_some_and(|it| it.names == ["shop.example"] && it.is_self_signed));
        for end in 0..der.len() {
            assert_eq!(Certificate::parse(&der[..end]), None);
        }
        for at in 0..der.len() {
            let mut broken = der.clone();
            broken[at] ^= 0x55;
            let _ = chain_errors(
                &[CertificateDer::from(broken)],
                "shop.example",
                &Authorities::new(Vec::new()),
                NOW,
            );
        }
    }
}
