//! The responses to challenges that authorities look for now.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

/// The path of a response to `http-01`, before the token (RFC 8555 §8.3).
pub const HTTP_PATH: &str = "/.well-known/acme-challenge/";
/// The protocol (ALPN) of `tls-alpn-01` (RFC 8737 §4).
pub const TLS_PROTOCOL: &[u8] = b"acme-tls/1";

/// What authorities may ask for now. Shared by all threads.
#[derive(Debug, Default)]
pub struct Challenges {
    /// How many there are, so that a thread need not take the locks to find none.
    count: AtomicUsize,
    http: RwLock<HashMap<String, Arc<str>>>,
    tls: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

impl Challenges {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The body of the response at [`HTTP_PATH`] and this token: `text/plain` or `application/octet-stream`.
    pub fn http_response(&self, token: &str) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        self.http.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    /// The certificate of a handshake with [`TLS_PROTOCOL`] for this name.
    pub fn tls_certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        if self.is_empty() {
            return None;
        }
        self.tls.read().unwrap_or_else(PoisonError::into_inner).get(&name.to_ascii_lowercase()).cloned()
    }

    /// Publishes a response to `http-01` until the guard is dropped.
    pub(crate) fn publish_http(self: &Arc<Self>, token: &str, response: &str) -> PublishedChallenge {
        self.http.write().unwrap_or_else(PoisonError::into_inner).insert(token.to_owned(), response.into());
        self.published(Place::Http(token.to_owned()))
    }

    /// Publishes a certificate for `tls-alpn-01` until the guard is dropped. `digest` is that of the key authorization.
    pub(crate) fn publish_tls(
        self: &Arc<Self>,
        name: &str,
        digest: &[u8],
    ) -> Result<PublishedChallenge, String> {
        let certificate = challenge_certificate(name, digest)?;
        let name = server_name(name);
        self.tls.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), Arc::new(certificate));
        Ok(self.published(Place::Tls(name)))
    }

    fn published(self: &Arc<Self>, place: Place) -> PublishedChallenge {
        self.count.fetch_add(1, Ordering::Relaxed);
        PublishedChallenge { challenges: Arc::clone(self), place }
    }
}

/// A published response. Withdrawn when dropped.
#[derive(Debug)]
pub(crate) struct PublishedChallenge {
    challenges: Arc<Challenges>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Http(String),
    Tls(String),
}

impl Drop for PublishedChallenge {
    fn drop(&mut self) {
        match &self.place {
            Place::Http(token) => {
                self.challenges.http.write().unwrap_or_else(PoisonError::into_inner).remove(token);
            }
            Place::Tls(name) => {
                self.challenges.tls.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            }
        }
        self.challenges.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The SNI of a handshake that validates this name: an address has the name of its reverse lookup (RFC 8738 §6).
fn server_name(name: &str) -> String {
    match name.parse() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
        Err(_) => name.to_ascii_lowercase(),
    }
}

/// Signed by its own key, with the extension `acmeIdentifier` (RFC 8737 §3).
fn challenge_certificate(name: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    if digest.len() != SHA256 {
        return Err("the digest of the key authorization has a wrong length".to_owned());
    }
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(|error| error.to_string())?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = any_supported_type(&key).map_err(|error| error.to_string())?;
    Ok(CertifiedKey::new(vec![CertificateDer::from(certificate)], key))
}

/// Bytes of a SHA-256.
const SHA256: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_there_until_it_is_withdrawn() {
        let challenges = Arc::new(Challenges::default());
        assert!(challenges.is_empty() && challenges.http_response("token").is_none());
        let one = challenges.publish_http("token", "token.print");
        let other = challenges.publish_tls("A.test", &[7; 32]).unwrap();
        assert_eq!(challenges.http_response("token").as_deref(), Some("token.print"));
        assert!(challenges.http_response("toke").is_none());
        assert!(
            challenges.tls_certificate("a.TEST").is_some() && challenges.tls_certificate("b.test").is_none()
        );
        drop(one);
        assert!(!challenges.is_empty() && challenges.http_response("token").is_none());
        drop(other);
        assert!(challenges.is_empty() && challenges.tls_certificate("a.test").is_none());
    }

    #[test]
    fn an_address_is_validated_by_its_reverse_name() {
        assert_eq!(server_name("192.0.2.10"), "10.2.0.192.in-addr.arpa");
        let six = server_name("2001:db8::1");
        assert!(six.starts_with("1.0.0.0.") && six.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{six}");
        let challenges = Arc::new(Challenges::default());
        let _published = challenges.publish_tls("192.0.2.10", &[7; 32]).unwrap();
        assert!(challenges.tls_certificate("10.2.0.192.in-addr.arpa").is_some());
    }

    #[test]
    fn a_wrong_digest_is_an_error_and_no_panic() {
        assert!(challenge_certificate("a.test", &[]).is_err());
        assert!(challenge_certificate("a.test", &[0; 33]).is_err());
    }
}
