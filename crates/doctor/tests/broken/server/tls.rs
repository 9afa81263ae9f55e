//! Certificates, and how sessions are agreed upon.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;

use super::Flaw;

/// The settings of a server for `localhost`, and the certificate of the authority that signed its, in PEM.
pub(super) fn server(flaw: Flaw) -> (Arc<ServerConfig>, String) {
    let authority = authority();
    let name = if flaw == Flaw::OtherName { "elsewhere.example" } else { "localhost" };
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    if flaw == Flaw::Expired {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 12, 31);
    } else {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2035, 1, 1);
    }
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    let mut chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    if flaw == Flaw::LongChain {
        chain.extend((0..4).map(|_| bulky()));
    }
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: &[_] = match flaw {
        Flaw::OnlyTls12 => &[&rustls::version::TLS12],
        _ => rustls::ALL_VERSIONS,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("its key");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if flaw == Flaw::NoReuse {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    (Arc::new(config), authority.pem())
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority of a test");
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate")
}

/// A certificate of some 4 kB, as padding.
fn bulky() -> CertificateDer<'static> {
    let names: Vec<String> = (0..200).map(|number| format!("name-{number}.elsewhere.example")).collect();
    let params = CertificateParams::new(names).expect("names");
    params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").der().clone()
}
