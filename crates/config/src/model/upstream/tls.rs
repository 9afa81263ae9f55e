use std::path::PathBuf;

use crate::model::Secret;

/// How an upstream is reached over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The name its certificate must be for, and the SNI: a host name, or an IP address (which has no SNI).
    pub server_name: String,
    /// Who may have signed its certificate.
    pub ca: TrustRoots,
    /// Who we are. `None`: nobody in particular.
    pub client_certificate: Option<ClientCertificate>,
    /// The lowest version that is spoken.
    pub min_version: TlsVersion,
}

/// `ca` and `ca_system`: who may have signed an upstream's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustRoots {
    /// Whom the system trusts.
    System,
    /// Those of the file, and nobody else.
    File(PemFile),
    /// Those of the file, and whom the system trusts.
    FileAndSystem(PemFile),
}

/// `cert` and `key`: a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Certificates, our own first.
    pub cert: PemFile,
    /// Its private key.
    pub key: PemFile,
}

/// A file in PEM, as it was when the configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemFile {
    /// Where it is: for messages, and to look whether it has changed.
    pub path: PathBuf,
    /// What was in it. It holds a block of the kind it is for; whether that can be used is for TLS to say.
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
