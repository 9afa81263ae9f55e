//! Handshakes by which an authority verifies a name: `tls-alpn-01` (RFC 8737).

use std::fmt;
use std::sync::Arc;

use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

/// The protocol (ALPN) of these handshakes. Nothing is spoken after them.
pub(crate) const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates of challenges that are open now, by name. Shared by all listeners.
#[derive(Clone)]
pub struct ChallengeCertificates(Arc<Lookup>);

type Lookup = dyn Fn(&str) -> Option<Arc<CertifiedKey>> + Send + Sync;

impl ChallengeCertificates {
    /// `lookup` is called on the threads of the data plane, in handshakes of `acme-tls/1` only.
    pub fn new(lookup: impl Fn(&str) -> Option<Arc<CertifiedKey>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(lookup))
    }

    /// The certificate for this name, if the authority may ask for it now.
    pub(super) fn of(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        name.and_then(|name| (self.0)(name))
    }
}

/// Whether the client is an authority that verifies a name: it offers this protocol and no other (RFC 8737 §3).
pub(super) fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello
        .alpn()
        .is_some_and(|mut offered| offered.next() == Some(CHALLENGE_PROTOCOL) && offered.next().is_none())
}

impl PartialEq for ChallengeCertificates {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ChallengeCertificates {}

impl fmt::Debug for ChallengeCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChallengeCertificates")
    }
}
