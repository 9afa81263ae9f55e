use std::path::PathBuf;
use std::time::Duration;

use super::PemFile;

/// `[listen.NAME.tls]`: connections of the listener are encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenTls {
    /// Certificates from files; the first of all is the default.
    pub certificates: Vec<ListenCertificate>,
    /// Names whose certificates are from the authority of `[acme]`: DNS names in lower case, IDN names as A-labels, and addresses.
    pub acme: Vec<String>,
    /// The URL that is asked whether a name that a client requests may have a certificate of that authority; the same for all listeners that have one.
    /// Not `None` if there are neither `certificates` nor `acme`.
    pub on_demand: Option<String>,
    /// What a client gets that requests a name of none of them.
    pub unknown_names: UnknownNames,
    /// Versions of TLS.
    pub profile: TlsProfile,
    /// Certificates of clients. `None`: none is requested.
    pub client_auth: Option<ClientAuth>,
    /// Time limit of a handshake.
    pub handshake_timeout: Duration,
    /// Browsers are told to use HTTPS only.
    pub hsts: Option<Hsts>,
}

impl ListenTls {
    /// With this certificate, and defaults.
    pub fn with(certificate: ListenCertificate) -> Self {
        Self {
            certificates: vec![certificate],
            acme: Vec::new(),
            on_demand: None,
            unknown_names: UnknownNames::default(),
            profile: TlsProfile::default(),
            client_auth: None,
            handshake_timeout: Self::HANDSHAKE_TIMEOUT,
            hsts: None,
        }
    }

    /// Whether any certificate is from the authority of `[acme]`.
    pub fn has_authority(&self) -> bool {
        !self.acme.is_empty() || self.on_demand.is_some()
    }

    /// The default of `handshake_timeout`.
    pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
}

/// `hsts`: the value of `Strict-Transport-Security` (RFC 6797).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hsts {
    /// How long browsers remember it.
    pub max_age: Duration,
    /// It applies to hosts below the host, too.
    pub include_subdomains: bool,
    /// The host may be added to the list that browsers are shipped with.
    pub preload: bool,
}

impl Default for Hsts {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(365 * 24 * 3600), include_subdomains: false, preload: false }
    }
}

impl Hsts {
    /// The value of the header.
    pub fn value(&self) -> String {
        let mut value = format!("max-age={}", self.max_age.as_secs());
        if self.include_subdomains {
            value.push_str("; includeSubDomains");
        }
        if self.preload {
            value.push_str("; preload");
        }
        value
    }
}

/// `cert`, `key` and `ocsp`: a certificate of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenCertificate {
    /// The certificate, followed by its chain.
    pub cert: PemFile,
    /// Its private key.
    pub key: PemFile,
    /// A file with an OCSP response in DER.
    pub ocsp: Option<PathBuf>,
}

/// `client_ca`, `client_crl` and `client_auth`: certificates of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuth {
    /// Authorities that sign them.
    pub ca: PemFile,
    /// Lists of the certificates that they have revoked.
    pub crl: Option<PemFile>,
    /// A client without one is refused.
    pub required: bool,
}

/// `unknown_names`: what a client gets that requests a name of no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum UnknownNames {
    /// The first certificate.
    #[default]
    Default,
    /// The alert `unrecognized_name`.
    Refuse,
}

/// `profile`: versions of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TlsProfile {
    /// 1.2 and 1.3.
    #[default]
    Intermediate,
    /// 1.3.
    Modern,
}
