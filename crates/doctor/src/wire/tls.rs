//! TLS as the doctor sees it: the same library the back door uses, with everything of the handshake kept to be looked at.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use super::Failure;
use super::socket::Socket;

/// Whom to believe, and what to offer.
#[derive(Debug, Clone)]
pub struct Trust {
    /// Whether a certificate that cannot be verified is accepted.
    pub insecure: bool,
    /// The versions offered: all that are spoken, or fewer.
    pub versions: &'static [&'static SupportedProtocolVersion],
    /// The protocols offered (ALPN), the one preferred first. Empty: ALPN is not used.
    pub alpn: Vec<Vec<u8>>,
}

/// What a handshake was like.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// From the end of connecting to the end of the handshake.
    pub took: Duration,
    /// `TLSv1_3`, `TLSv1_2`
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// The protocol agreed upon (ALPN).
    pub alpn: Option<String>,
    /// Whether an earlier session was taken up again, so that no certificate was sent.
    pub resumed: bool,
    /// The server's certificate first, then those it sent with it, each in DER. With a resumed session those of the session.
    pub chain: Vec<CertificateDer<'static>>,
    /// Times that we waited for the server: round trips.
    pub round_trips: u32,
}

/// The settings of connections; those made with one `ClientConfig` share their sessions.
///
/// # Errors
/// The system has no authorities at all.
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, Failure> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(trust.versions)
        .map_err(|error| Failure::Tls(error.to_string()))?;
    let mut config = match trust.insecure {
        true => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth(),
        false => builder.with_root_certificates(system_roots()).with_no_client_auth(),
    };
    config.alpn_protocols.clone_from(&trust.alpn);
    Ok(Arc::new(config))
}

/// The system's authorities. Without any every certificate is refused, which says so.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        // One that rustls cannot read helps nobody, and hurts nobody.
        let _ = roots.add(certificate);
    }
    roots
}

/// A session on a connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) rustls: Box<ClientConnection>,
}

impl Session {
    /// Shakes hands. The caller bounds the time.
    pub(crate) async fn open(
        socket: &Socket,
        host: &str,
        config: Arc<ClientConfig>,
    ) -> Result<(Self, Handshake), Failure> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Failure::Tls(format!("{host:?} is neither a DNS name nor an address")))?;
        let rustls = ClientConnection::new(config, name).map_err(|error| Failure::Tls(error.to_string()))?;
        let mut session = Self { rustls: Box::new(rustls) };
        let begun = Instant::now();
        let mut round_trips = 0;
        while session.rustls.is_handshaking() {
            let wrote = session.flush(socket).await.map_err(lost)?;
            if !session.rustls.is_handshaking() {
                break;
            }
            if wrote {
                round_trips += 1;
            }
            session.fill(socket).await?;
        }
        session.flush(socket).await.map_err(lost)?;
        let handshake = session.handshake(begun.elapsed(), round_trips);
        Ok((session, handshake))
    }

    /// Reads once from the socket, and decrypts.
    async fn fill(&mut self, socket: &Socket) -> Result<(), Failure> {
        socket.readable().await.map_err(lost)?;
        match self.rustls.read_tls(&mut &*socket) {
            Ok(0) => return Err(Failure::Lost("closed by the server during the TLS handshake".to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(lost(error)),
        }
        if let Err(error) = self.rustls.process_new_packets() {
            // The alert that says why.
            let _ = self.flush(socket).await;
            return Err(Failure::Tls(error.to_string()));
        }
        Ok(())
    }

    /// Writes what waits to be sent, and says whether there was anything.
    pub(crate) async fn flush(&mut self, socket: &Socket) -> io::Result<bool> {
        let mut records = Vec::new();
        while self.rustls.wants_write() {
            self.rustls.write_tls(&mut records)?;
        }
        socket.write_all(&records).await?;
        Ok(!records.is_empty())
    }

    fn handshake(&self, took: Duration, round_trips: u32) -> Handshake {
        Handshake {
            took,
            version: self
                .rustls
                .protocol_version()
                .map_or_else(String::new, |version| format!("{version:?}")),
            cipher: self
                .rustls
                .negotiated_cipher_suite()
                .map_or_else(String::new, |suite| format!("{:?}", suite.suite())),
            alpn: self.rustls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            resumed: self.rustls.handshake_kind() == Some(HandshakeKind::Resumed),
            chain: self
                .rustls
                .peer_certificates()
                .unwrap_or_default()
                .iter()
                .cloned()
                .map(CertificateDer::into_owned)
                .collect(),
            round_trips,
        }
    }
}

fn lost(error: io::Error) -> Failure {
    Failure::Lost(error.to_string())
}

/// Accepts every certificate: `--insecure`, and nothing else.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
