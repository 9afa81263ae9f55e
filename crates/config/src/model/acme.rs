use std::path::PathBuf;

use super::Secret;

/// `[acme]`: certificates from an authority (RFC 8555).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// Addresses that the authority may write to.
    pub email: Vec<String>,
    /// The URL of the authority's directory.
    pub directory: String,
    /// The URL of a directory that is tried first after a failure. `None`: the same is tried again.
    pub staging: Option<String>,
    /// A file with the authorities that sign the directory's own certificate. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The directory of accounts, keys and certificates. `None`: one for the state of this service.
    pub storage: Option<PathBuf>,
    /// The kind of certificate, of those the authority offers. `None`: its default.
    pub profile: Option<String>,
    /// The kind of private key.
    pub key: AcmeKey,
    /// The challenges that are used, the preferred one first. Empty: all that the listeners can meet.
    pub challenges: Vec<AcmeChallenge>,
    /// Binds the account to one that the authority knows already.
    pub external_account: Option<ExternalAccount>,
    /// Names with certificates on demand at the same time.
    pub on_demand_names: u32,
}

impl Acme {
    /// The directory of Let's Encrypt.
    pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
    /// Its staging environment, whose certificates no client accepts and whose limits are wide.
    pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
}

impl Default for Acme {
    fn default() -> Self {
        Self {
            email: Vec::new(),
            directory: Self::LETS_ENCRYPT.to_owned(),
            staging: Some(Self::LETS_ENCRYPT_STAGING.to_owned()),
            ca: None,
            storage: None,
            profile: None,
            key: AcmeKey::default(),
            challenges: Vec::new(),
            external_account: None,
            on_demand_names: 1000,
        }
    }
}

/// `external_account`: an account that exists outside of ACME (RFC 8555 §7.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The identifier of its key.
    pub id: String,
    /// Its key, in base64url.
    pub key: Secret,
}

/// `key`: a kind of private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AcmeKey {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// ECDSA on P-384.
    P384,
}

/// `challenges`: how the authority sees that a name is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcmeChallenge {
    /// A response on port 80.
    Http01,
    /// A handshake on port 443.
    TlsAlpn01,
}
