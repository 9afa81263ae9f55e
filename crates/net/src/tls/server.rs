//! TLS towards clients: the settings of a listener, and what a handshake chose.

mod certificate;
mod challenge;
mod client_auth;
mod ocsp;
mod on_demand;
mod resolver;
mod tickets;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;

use super::{Pem, TlsSetupError};
pub use certificate::{Certificate, CertificateFacts, Coverage, KeyKind};
pub(crate) use challenge::CHALLENGE_PROTOCOL;
pub use challenge::ChallengeCertificates;
pub use client_auth::{ClientAuth, ClientIdentity};
pub use on_demand::OnDemandNames;
use resolver::CertificateSet;
pub(super) use resolver::{Choice, UNRECOGNIZED_NAME};
use tickets::Tickets;
pub use tickets::{TicketKeys, TicketSecret};

/// How a listener encrypts its connections. Equal settings need no new [`ServerTlsState`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsSettings {
    /// The first that is not [`CertificateOrigin::OnDemand`] is the default. At least one, unless names are obtained on demand.
    pub certificates: Vec<CertificateFiles>,
    /// What a client gets that requests a name of none of them.
    pub unknown_names: UnknownNames,
    /// The versions.
    pub profile: TlsProfile,
    /// The offered protocols (ALPN), the preferred one first.
    pub alpn: Vec<Vec<u8>>,
    /// Whether clients present certificates.
    pub client_auth: Option<ClientAuth>,
    /// The certificates by which an authority verifies names, if one does.
    pub challenges: Option<ChallengeCertificates>,
    /// Who obtains certificates for names that have none; their clients wait, or are refused.
    pub on_demand: Option<OnDemandNames>,
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by its chain.
    pub cert: Pem,
    /// Its private key.
    pub key: Pem,
    /// An OCSP response to staple, in DER.
    pub ocsp: Option<Pem>,
    /// Where it is from.
    pub origin: CertificateOrigin,
}

/// Where a certificate is from, and so who replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateOrigin {
    /// Files, which are read again when they change.
    Files,
    /// An authority, for a name of the configuration. Its files need not exist.
    Authority,
    /// An authority, for a name that a client requested.
    OnDemand,
}

impl CertificateFiles {
    /// Whether it is replaced by who has made it, and not because its files change.
    pub fn is_managed(&self) -> bool {
        self.origin != CertificateOrigin::Files
    }
}

/// What a client gets that requests a name of no certificate, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownNames {
    /// The first certificate.
    #[default]
    Default,
    /// The alert `unrecognized_name` (RFC 6066 §3).
    Refuse,
}

/// Which versions and ciphers are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsProfile {
    /// TLS 1.2 and 1.3.
    #[default]
    Intermediate,
    /// TLS 1.3.
    Modern,
}

/// The TLS of a listener. Its state is replaced as a whole: each handshake uses the newest, and connections keep theirs.
#[derive(Debug)]
pub struct ServerTls {
    state: ArcSwap<ServerTlsState>,
}

impl ServerTls {
    /// A listener with this state.
    pub fn new(state: Arc<ServerTlsState>) -> Self {
        Self { state: ArcSwap::new(state) }
    }

    /// New handshakes use this state.
    pub fn replace(&self, state: Arc<ServerTlsState>) {
        self.state.store(state);
    }

    /// The state of new handshakes.
    pub fn state(&self) -> Arc<ServerTlsState> {
        self.state.load_full()
    }
}

/// [`ServerTlsSettings`], checked and ready.
pub struct ServerTlsState {
    config: Arc<ServerConfig>,
    certificates: Vec<Arc<Certificate>>,
    settings: ServerTlsSettings,
    /// Of the lists of revoked clients, when the first expires.
    crl_next_update: Option<SystemTime>,
}

impl ServerTlsState {
    /// Parses the files, except those of certificates that `before` has. Takes up to a millisecond for each: not for a thread of the data plane.
    ///
    /// # Errors
    /// A file is invalid.
    pub fn new(
        settings: &ServerTlsSettings,
        keys: &Arc<TicketKeys>,
        before: Option<&Self>,
    ) -> Result<Arc<Self>, TlsSetupError> {
        let known: HashMap<_, _> = before.iter().flat_map(|before| before.by_file()).collect();
        let certificate = |files: &CertificateFiles| match known.get(&files.cert.file) {
            Some((same, certificate)) if *same == files => Ok(Arc::clone(certificate)),
            _ => Certificate::new(files).map(Arc::new),
        };
        let certificates: Vec<Arc<Certificate>> =
            settings.certificates.iter().map(certificate).collect::<Result<_, _>>()?;
        Self::of(settings, certificates, keys)
    }

    #[cfg(test)]
    pub(super) fn of_certificates(
        settings: &ServerTlsSettings,
        certificates: Vec<Arc<Certificate>>,
    ) -> Arc<Self> {
        Self::of(settings, certificates, &Arc::new(TicketKeys::new(Vec::new()))).unwrap()
    }

    fn of(
        settings: &ServerTlsSettings,
        certificates: Vec<Arc<Certificate>>,
        keys: &Arc<TicketKeys>,
    ) -> Result<Arc<Self>, TlsSetupError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions: &[_] = match settings.profile {
            TlsProfile::Intermediate => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsProfile::Modern => &[&rustls::version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| TlsSetupError::certificate(error.to_string()))?;
        let mut crl_next_update = None;
        let builder = match &settings.client_auth {
            None => builder.with_no_client_auth(),
            Some(auth) => {
                let revoked = auth.revoked()?;
                crl_next_update = revoked.as_ref().map(|revoked| revoked.next_update);
                builder.with_client_cert_verifier(auth.verifier(revoked, provider)?)
            }
        };
        let set = CertificateSet::new(&certificates, settings);
        let mut config = builder.with_cert_resolver(Arc::new(set));
        config.alpn_protocols.clone_from(&settings.alpn);
        if settings.challenges.is_some() {
            config.alpn_protocols.push(CHALLENGE_PROTOCOL.to_vec());
        }
        // All ciphers are strong. Scanners report a server without an order of its own all the same.
        config.ignore_client_order = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(Tickets::new(keys, settings.client_auth.as_ref()));
        let config = Arc::new(config);
        Ok(Arc::new(Self { config, certificates, settings: settings.clone(), crl_next_update }))
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// The settings it was made from.
    pub fn settings(&self) -> &ServerTlsSettings {
        &self.settings
    }

    /// The certificates and what they were made from, by the file of each.
    fn by_file(&self) -> impl Iterator<Item = (&PathBuf, (&CertificateFiles, &Arc<Certificate>))> {
        let certificates = self.settings.certificates.iter().zip(&self.certificates);
        certificates.map(|(files, certificate)| (&files.cert.file, (files, certificate)))
    }

    /// Whether a list of revoked clients has expired, so that clients of its authority are refused.
    pub fn crl_has_expired(&self, now: SystemTime) -> bool {
        self.crl_next_update.is_some_and(|end| end < now)
    }

    /// When the first list of revoked clients expires.
    pub fn crl_next_update(&self) -> Option<SystemTime> {
        self.crl_next_update
    }

    /// The certificates, in the order of the settings.
    pub fn certificates(&self) -> &[Arc<Certificate>] {
        &self.certificates
    }
}

impl std::fmt::Debug for ServerTlsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTlsState").field("settings", &self.settings).finish_non_exhaustive()
    }
}
