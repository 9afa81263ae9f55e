//! The TLS settings of the connections to one upstream.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::{TlsPart, TlsSetupError};

/// Sessions remembered for resumption: a TLS 1.3 ticket can be used once, and a burst of connections takes several.
const SESSIONS: usize = 64;

/// How the connections to an upstream are encrypted. Equal settings need no new [`ClientTls`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// What the server's certificate must be for: a DNS name, which is also sent as SNI, or an address.
    pub server_name: String,
    /// The trusted authorities.
    pub ca: CaSource,
    /// The client's certificate chain and key.
    pub identity: Option<(Pem, Pem)>,
    /// The oldest allowed version.
    pub min_version: TlsVersion,
    /// The offered protocols (ALPN), the preferred one first. Empty: no ALPN.
    pub alpn: Vec<Vec<u8>>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.2
    Tls12,
    /// 1.3
    Tls13,
}

/// Which certificates are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaSource {
    /// Those of the system's authorities.
    System,
    /// Those of these authorities.
    Only(Pem),
    /// Those of both.
    Also(Pem),
}

/// A file that has been read. Its text is compared and used, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// For messages.
    pub file: PathBuf,
    /// Its content.
    pub text: Vec<u8>,
}

impl Pem {
    /// Reads a file.
    ///
    /// # Errors
    /// The system's.
    pub fn read(file: &Path) -> std::io::Result<Self> {
        Ok(Self { file: file.to_owned(), text: std::fs::read(file)? })
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

/// [`TlsSettings`], checked and ready. Its connections share one store of sessions, so that all but the first resume.
#[derive(Debug)]
pub struct ClientTls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    settings: TlsSettings,
}

impl ClientTls {
    /// Parses the files.
    ///
    /// # Errors
    /// A file is invalid, or the server's name is.
    pub fn new(settings: &TlsSettings) -> Result<Arc<Self>, TlsSetupError> {
        let name = server_name(&settings.server_name)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions: &[_] = match settings.min_version {
            TlsVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersion::Tls13 => &[&rustls::version::TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| wrong(TlsPart::ServerName, error.to_string()))?
            .with_root_certificates(roots(&settings.ca)?);
        let mut config = match &settings.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates(cert, TlsPart::Certificate)?;
                builder
                    .with_client_auth_cert(chain, private_key(key)?)
                    .map_err(|error| no_pair(cert, key, &error))?
            }
        };
        config.alpn_protocols.clone_from(&settings.alpn);
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(SESSIONS)));
        Ok(Arc::new(Self { config: Arc::new(config), name, settings: settings.clone() }))
    }

    /// The same with other protocols offered. Sessions of either can be resumed by both.
    pub fn with_alpn(&self, alpn: &[&[u8]]) -> Arc<Self> {
        let alpn: Vec<_> = alpn.iter().map(|name| name.to_vec()).collect();
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols.clone_from(&alpn);
        let settings = TlsSettings { alpn, ..self.settings.clone() };
        Arc::new(Self { config: Arc::new(config), name: self.name.clone(), settings })
    }

    /// The settings it was made from.
    pub fn settings(&self) -> &TlsSettings {
        &self.settings
    }
}

fn wrong(part: TlsPart, sentence: String) -> TlsSetupError {
    TlsSetupError { part, sentence }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsSetupError> {
    // An absolute name ("host.example.") is the same in a certificate, without its last dot.
    let plain = name.strip_suffix('.').unwrap_or(name);
    let plain = plain.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(plain);
    ServerName::try_from(plain.to_owned()).map_err(|_| {
        wrong(
            TlsPart::ServerName,
            format!("\"{name}\" is neither a DNS name nor an address, so no certificate can match it"),
        )
    })
}

fn roots(ca: &CaSource) -> Result<Arc<RootCertStore>, TlsSetupError> {
    let (mut store, pem) = match ca {
        CaSource::System => return system_roots(),
        CaSource::Only(pem) => (RootCertStore::empty(), pem),
        CaSource::Also(pem) => (RootCertStore::clone(&*system_roots()?), pem),
    };
    for (at, certificate) in certificates(pem, TlsPart::Ca)?.into_iter().enumerate() {
        store.add(certificate).map_err(|error| {
            wrong(
                TlsPart::Ca,
                format!("certificate {} in {} cannot be used: {error}", at + 1, pem.file.display()),
            )
        })?;
    }
    Ok(Arc::new(store))
}

/// The system's authorities, read once: a few hundred files.
fn system_roots() -> Result<Arc<RootCertStore>, TlsSetupError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Some system authorities do not parse; the rest still counts.
    let (added, ignored) = store.add_parsable_certificates(found.certs);
    tracing::debug!(
        name: "certificate_authorities_read",
        added, ignored, errors = found.errors.len(), "read the system's certificate authorities"
    );
    if added == 0 {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        let sentence = format!(
            "no certificate authorities are installed on this system{why}: install ca-certificates, or set ca"
        );
        return Err(wrong(TlsPart::Ca, sentence));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(store))))
}

pub(super) fn certificates(pem: &Pem, part: TlsPart) -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let file = pem.file.display();
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong(
            part,
            format!("{file} has no certificate in it: expected a PEM file with -----BEGIN CERTIFICATE-----"),
        )),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(part, format!("{file} is not a PEM file of certificates: {error}"))),
    }
}

pub(super) fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, TlsSetupError> {
    use rustls::pki_types::pem::Error::NoItemsFound;
    const ENCRYPTED: &[u8] = b"ENCRYPTED";
    let file = pem.file.display();
    if pem.text.windows(ENCRYPTED.len()).any(|word| word == ENCRYPTED) {
        let sentence = format!(
            "{file} is encrypted: expected a key without a passphrase (openssl pkey -in KEY -out PLAIN)"
        );
        return Err(wrong(TlsPart::Key, sentence));
    }
    PrivateKeyDer::from_pem_slice(&pem.text).map_err(|error| {
        let sentence = match error {
            NoItemsFound => {
                format!(
                    "{file} has no private key in it: expected a PEM file with -----BEGIN PRIVATE KEY-----"
                )
            }
            error => format!("{file} is not a PEM file of a private key: {error}"),
        };
        wrong(TlsPart::Key, sentence)
    })
}

fn no_pair(cert: &Pem, key: &Pem, error: &rustls::Error) -> TlsSetupError {
    let (cert, key) = (cert.file.display(), key.file.display());
    let sentence = match error {
        rustls::Error::InconsistentKeys(_) => format!("{key} is not the key of the certificate in {cert}"),
        error => format!("the key in {key} cannot be used: {error}"),
    };
    wrong(TlsPart::Key, sentence)
}
