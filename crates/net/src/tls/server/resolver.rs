//! Which certificate a client gets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::challenge::is_challenge;
use super::on_demand::is_public_name;
use super::{Certificate, CertificateOrigin, ChallengeCertificates, ServerTlsSettings, UnknownNames};

/// The fatal alert `unrecognized_name` (RFC 8446 §6, RFC 6066 §3), before there are keys.
pub(in crate::tls) const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The certificates of a listener by the names they are for: exact names first, then wildcards, then the default.
#[derive(Debug)]
pub(super) struct CertificateSet {
    exact: HashMap<Box<str>, Candidates>,
    /// By the name after `*.`.
    wildcard: HashMap<Box<str>, Candidates>,
    default: Candidates,
    challenges: Option<ChallengeCertificates>,
    /// Whether certificates of other names may be obtained.
    on_demand: bool,
}

/// Certificates for the same name, with keys of different kinds.
type Candidates = Vec<Arc<Certificate>>;

/// What a client's first message chose.
#[derive(Debug)]
pub(in crate::tls) struct Choice {
    /// The requested name.
    pub(in crate::tls) server_name: Option<Box<str>>,
    /// `None`: there is none for it.
    pub(in crate::tls) certificate: Option<Arc<Certificate>>,
    /// It got the certificate of a challenge instead.
    pub(in crate::tls) is_challenge: bool,
    /// There is no certificate for the name, and one may be obtained.
    pub(in crate::tls) may_obtain: bool,
}

thread_local! {
    /// Made by the resolver within a call of rustls, and taken after that call.
    static MADE: RefCell<Option<Choice>> = const { RefCell::new(None) };
}

impl Choice {
    /// There is no certificate for the requested name.
    pub(in crate::tls) fn is_none(&self) -> bool {
        self.certificate.is_none() && !self.is_challenge
    }

    /// Moves the choice that the last call of rustls made, if any.
    pub(in crate::tls) fn take_made(into: &mut Option<Self>) {
        if let Some(made) = MADE.take() {
            *into = Some(made);
        }
    }
}

impl CertificateSet {
    pub(super) fn new(certificates: &[Arc<Certificate>], settings: &ServerTlsSettings) -> Self {
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for certificate in certificates {
            for name in &certificate.facts.names {
                let (map, name): (&mut HashMap<Box<str>, Candidates>, &str) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut wildcard, parent),
                    None => (&mut exact, name),
                };
                map.entry(name.into()).or_default().push(Arc::clone(certificate));
            }
        }
        let of_config = certificates.iter().zip(&settings.certificates);
        let mut of_config = of_config.filter(|(_, files)| files.origin != CertificateOrigin::OnDemand);
        let default = match (settings.unknown_names, of_config.next().map(|(first, _)| first)) {
            (UnknownNames::Refuse, _) | (_, None) => Vec::new(),
            // With its neighbours of the same names: an RSA certificate beside one of ECDSA.
            (UnknownNames::Default, Some(first)) => {
                let same = certificates.iter().filter(|other| other.facts.names == first.facts.names);
                same.cloned().collect()
            }
        };
        let challenges = settings.challenges.clone();
        Self { exact, wildcard, default, challenges, on_demand: settings.on_demand.is_some() }
    }

    /// `None`: there is none for the name, and one may be obtained.
    fn candidates(&self, name: Option<&str>) -> Option<&[Arc<Certificate>]> {
        let Some(name) = name else { return Some(&self.default) };
        let lower;
        let name = match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => {
                lower = name.to_ascii_lowercase();
                lower.as_str()
            }
            false => name,
        };
        let wildcard = || name.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent));
        match self.exact.get(name).or_else(wildcard) {
            Some(found) => Some(found),
            None if self.on_demand && is_public_name(name) => None,
            None => Some(&self.default),
        }
    }
}

impl ResolvesServerCert for CertificateSet {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let server_name = || hello.server_name().map(Into::into);
        if let Some(challenges) = self.challenges.as_ref().filter(|_| is_challenge(&hello)) {
            let key = challenges.of(hello.server_name());
            MADE.set(Some(Choice {
                server_name: server_name(),
                certificate: None,
                is_challenge: key.is_some(),
                may_obtain: false,
            }));
            return key;
        }
        let found = self.candidates(hello.server_name());
        let candidates = found.unwrap_or_default();
        let fits = |certificate: &&Arc<Certificate>| {
            certificate.key().key.choose_scheme(hello.signature_schemes()).is_some()
        };
        // Without a fitting one, the handshake fails with the right reason.
        let certificate = candidates.iter().find(fits).or(candidates.first()).cloned();
        let key = certificate.as_ref().map(|certificate| Arc::clone(certificate.key()));
        MADE.set(Some(Choice {
            server_name: server_name(),
            certificate,
            is_challenge: false,
            may_obtain: found.is_none(),
        }));
        key
    }
}
