use std::path::PathBuf;

use crate::model::Secret;

/// TLS towards an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Name that its certificate must be for, also sent as SNI: a host name, or an IP address (for which there is no
    /// SNI).
    pub server_name: String,
    /// Certificate authorities that are trusted.
    pub ca: TrustRoots,
    /// Client certificate. `None`: none is sent.
    pub client_certificate: Option<ClientCertificate>,
    /// Lowest version that is accepted.
    pub min_version: TlsVersion,
}

/// `ca` and `ca_system`: certificate authorities that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustRoots {
    /// Those of the system.
    System,
    /// Those of the file.
    File(PemFile),
    /// Those of the file and those of the system.
    FileAndSystem(PemFile),
}

/// `cert` and `key`: a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, followed by its chain.
    pub cert: PemFile,
    /// Its private key.
    pub key: PemFile,
}

/// A file in PEM with its content when the configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemFile {
    /// Its path, for messages and for checks whether it has changed.
    pub path: PathBuf,
    /// Its content, with at least one block of the right kind. The TLS library decides whether the block is valid.
    pub pem: Secret,
}

/// `min_tls`: a version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TlsVersion {
    /// RFC 5246.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}
