//! Trusted certificate authorities.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use super::{Failure, chain_errors};

/// Settings of TLS connections: which authorities count, and what is offered.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// Whether a certificate that cannot be verified is accepted.
    pub insecure: bool,
    /// The versions offered: all supported ones, or fewer.
    pub versions: &'static [&'static SupportedProtocolVersion],
    /// The protocols offered (ALPN), the one preferred first. Empty: ALPN is not used.
    pub alpn: Vec<Vec<u8>>,
    /// The trusted authorities.
    pub authorities: Arc<Authorities>,
    /// The client certificate, for a server that requests one.
    pub identity: Option<Arc<Identity>>,
}

/// A client certificate.
#[derive(Debug)]
pub struct Identity {
    /// Our certificate, followed by those between it and its authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// The certificates that are trusted by themselves.
#[derive(Debug)]
pub struct Authorities {
    pub(super) roots: RootCertStore,
    /// The same, as they are: a server may show one of them as its own.
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// These.
    #[must_use]
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            // A certificate that rustls cannot read is skipped without harm.
            let _ = roots.add(certificate.clone());
        }
        Self { roots, certificates }
    }

    /// The system's, and further ones. Without any, every certificate is refused, with that reason.
    #[must_use]
    pub fn of_system(further: &[CertificateDer<'static>]) -> Self {
        let mut certificates = rustls_native_certs::load_native_certs().certs;
        certificates.extend_from_slice(further);
        Self::new(certificates)
    }
}

/// The settings of connections; those made with one `ClientConfig` share their sessions.
///
/// # Errors
/// The versions and the provider of cryptography do not fit together, or a client certificate and its key.
pub fn client_config(tls_settings: &TlsSettings) -> Result<Arc<ClientConfig>, Failure> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier {
        insecure: tls_settings.insecure,
        authorities: Arc::clone(&tls_settings.authorities),
        provider: Arc::clone(&provider),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(tls_settings.versions)
        .map_err(|error| Failure::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &tls_settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| Failure::Tls(format!("cannot use the client certificate: {error}")))?,
    };
    config.alpn_protocols.clone_from(&tls_settings.alpn);
    Ok(Arc::new(config))
}

/// The configuration of a client that does not name the server in its handshake (SNI, RFC 6066 §3), and accepts every certificate.
///
/// # Errors
/// As [`client_config`].
pub(crate) fn nameless_client_config(tls_settings: &TlsSettings) -> Result<Arc<ClientConfig>, Failure> {
    let config = client_config(&TlsSettings { insecure: true, ..tls_settings.clone() })?;
    let mut config = ClientConfig::clone(&config);
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// Accepts a certificate without [`chain_errors`], and reports those of any other; with `insecure` it accepts all.
#[derive(Debug)]
struct Verifier {
    insecure: bool,
    authorities: Arc<Authorities>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// A client that accepts every certificate gains nothing from checking signatures; and old certificates cannot be read for it.
    fn forgive(
        &self,
        signed: Result<HandshakeSignatureValid, rustls::Error>,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match signed {
            Err(_) if self.insecure => Ok(HandshakeSignatureValid::assertion()),
            other => other,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.insecure {
            return Ok(ServerCertVerified::assertion());
        }
        let chain: Vec<CertificateDer<'_>> = std::iter::once(leaf).chain(others).cloned().collect();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let reasons = chain_errors(&chain, &name.to_str(), &self.authorities, now);
        if reasons.is_empty() {
            return Ok(ServerCertVerified::assertion());
        }
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        let reasons = Arc::new(Reasons(reasons.join("; ")));
        Err(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(reasons))))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.forgive(verify_tls12_signature(message, certificate, signature, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.forgive(verify_tls13_signature(message, certificate, signature, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate is not trusted, in words, on their way through rustls.
#[derive(Debug)]
struct Reasons(String);

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Reasons {}

/// The words of a refusal.
pub(super) fn refusal(error: &CertificateError) -> String {
    match error {
        CertificateError::Other(OtherError(why)) => why.to_string(),
        other => other.to_string(),
    }
}
