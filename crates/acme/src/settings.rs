//! What the configuration says.

use std::path::PathBuf;

use instant_acme::ChallengeType;

/// How certificates are obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// Who issues them.
    pub authority: Authority,
    /// Where an order is tried first once one has failed at the authority, so that its limits are not used up.
    pub staging: Option<Authority>,
    /// `mailto:` URLs for the authority.
    pub contacts: Vec<String>,
    /// Binds the account to one that the authority already knows (RFC 8555 §7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// The directory that keeps accounts, orders and certificates.
    pub storage: PathBuf,
    /// The kind of certificate, of those the authority offers.
    pub profile: Option<String>,
    /// The kind of private key.
    pub key: KeyKind,
    /// The challenges that can be met, the preferred one first.
    pub challenges: Vec<ChallengeKind>,
}

/// An ACME server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The URL of its directory (RFC 8555 §7.1.1).
    pub directory: String,
    /// A file with the certificates that its own server may have; `None`: those of the system's authorities.
    pub ca: Option<PathBuf>,
}

impl Authority {
    /// The name of its directory in the storage: its host, port and path.
    pub(crate) fn folder(&self) -> String {
        let (_, rest) = self.directory.split_once("://").unwrap_or(("", &self.directory));
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
        rest.trim_matches('/').chars().map(safe).collect()
    }
}

/// An account that exists outside ACME.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Its key identifier.
    pub id: String,
    /// Its key for HMAC, decoded.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAccount").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A kind of private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyKind {
    /// ECDSA on P-256: a signature costs a hundredth of RSA's, and every client has it.
    #[default]
    P256,
    /// ECDSA on P-384.
    P384,
}

impl KeyKind {
    pub(crate) fn algorithm(self) -> &'static rcgen::SignatureAlgorithm {
        match self {
            Self::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Self::P384 => &rcgen::PKCS_ECDSA_P384_SHA384,
        }
    }
}

/// How control of a name is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A response at a URL of port 80 (RFC 8555 §8.3).
    Http01,
    /// A certificate in a handshake at port 443 (RFC 8737).
    TlsAlpn01,
}

impl ChallengeKind {
    pub(crate) fn protocol_type(self) -> ChallengeType {
        match self {
            Self::Http01 => ChallengeType::Http01,
            Self::TlsAlpn01 => ChallengeType::TlsAlpn01,
        }
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_authority_has_a_directory() {
        let folder = |url: &str| Authority { directory: url.to_owned(), ca: None }.folder();
        assert_eq!(
            folder("https://acme-v02.api.letsencrypt.org/directory"),
            "acme-v02.api.letsencrypt.org-directory"
        );
        assert_eq!(folder("https://localhost:14000/dir"), "localhost-14000-dir");
        assert_eq!(folder("https://CA.test/../../etc/"), "ca.test-..-..-etc");
    }
}
