//! The back door over TLS, through the whole server: which certificates are trusted, the error when none is, and files that change.

use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keepwarm_tests::origin::{Origin, read_head};
use keepwarm_tests::{Server, admin};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// An authority of its own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "an authority of a test");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate, key)
    }

    fn server(&self, name: &str, clients: Option<&Self>) -> Arc<ServerConfig> {
        let (certificate, key) = self.issue(name);
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.0.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        Arc::new(builder.with_single_cert(chain, key).unwrap())
    }
}

/// An origin with TLS: responds to each request with the number of its connection; what it is set up with can be replaced.
struct Encrypted {
    origin: Origin,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    requests: Arc<AtomicUsize>,
}

impl Encrypted {
    fn start(config: Arc<ServerConfig>) -> Self {
        let config = Arc::new(Mutex::new(config));
        let requests = Arc::new(AtomicUsize::new(0));
        let (current, count) = (Arc::clone(&config), Arc::clone(&requests));
        let origin = Origin::raw(move |connection, stream: TcpStream| {
            let config = Arc::clone(&current.lock().unwrap());
            let session = ServerConnection::new(config).unwrap();
            let mut reader = BufReader::new(StreamOwned::new(session, stream));
            while read_head(&mut reader).is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                let body = format!("connection {connection}");
                let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let stream = reader.get_mut();
                if stream.write_all(response.as_bytes()).and_then(|()| stream.flush()).is_err() {
                    return;
                }
            }
            // Unread bytes would make the close a reset, and the alert before it might be lost.
            let mut stream = reader.into_inner().sock;
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        Self { origin, config, requests }
    }
}

/// A door to it, by the name `localhost`; the configuration may go on in the section.
fn door(encrypted: &Encrypted, files: &[(&str, &str)], more: &str) -> Server {
    let config = format!(
        "[server]\nthreads = 1\n[upstream.search]\nurl = \"https://localhost:{}\"\nbind = \"127.0.0.1:0\"\n{more}",
        encrypted.origin.address().port()
    );
    let server = Server::spawn(&config, |command| {
        let folder = command.get_current_dir().expect("a folder").to_owned();
        write_files(&folder, files);
    });
    server.listening()
}

fn write_files(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("written");
    }
}

fn get() -> String {
    "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".to_owned()
}

#[test]
fn many_calls_pay_for_one_handshake() {
    let authority = Authority::new();
    let encrypted = Encrypted::start(authority.server("localhost", None));
    let more = "ca = \"@DIR@/ca.pem\"\n[admin]\nbind = \"127.0.0.1:0\"\n";
    let server = door(&encrypted, &[("ca.pem", &authority.pem())], more);
    let mut client = server.client();
    for _ in 0..3 {
        let response = client.ask(get());
        assert_eq!((response.status, response.text().as_str()), (200, "connection 0"));
    }
    assert_eq!(server.ask(get()).text(), "connection 0");
    assert_eq!(encrypted.origin.connections(), 1);
    assert_eq!(encrypted.requests.load(Ordering::SeqCst), 4);
    let endpoint = encrypted.origin.address();
    let metric = |name: &str, more: &str| {
        format!("keepwarm_upstream_{name}_total{{upstream=\"search\",endpoint=\"{endpoint}\"{more}}}")
    };
    assert_eq!(admin::wait_for_metric(&server, &metric("handshakes_avoided", ""), 3.0), 3.0);
    let seen = admin::metrics(&server);
    assert_eq!(seen[&metric("handshakes", ",kind=\"full\"")], 1.0);
    assert_eq!(seen[&metric("handshakes", ",kind=\"resumed\"")], 0.0);
    assert!(seen[&metric("certificates_avoided_bytes", "")] > 3.0 * 200.0, "{seen:#?}");
    assert!(seen[&metric("handshake_seconds", "")] > 0.0);
}

#[test]
fn a_certificate_for_another_name_is_refused_with_both_names() {
    let authority = Authority::new();
    let encrypted = Encrypted::start(authority.server("other.example", None));
    let server = door(&encrypted, &[("ca.pem", &authority.pem())], "ca = \"@DIR@/ca.pem\"\nretries = 0\n");
    let response = server.ask(get());
    assert_eq!(response.status, 502);
    let detail = response.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("localhost") && detail.contains("other.example"), "{detail}");
    assert_eq!(encrypted.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn an_unknown_certificate_authority_is_rejected() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let encrypted = Encrypted::start(stranger.server("localhost", None));
    let server = door(&encrypted, &[("ca.pem", &authority.pem())], "ca = \"@DIR@/ca.pem\"\nretries = 0\n");
    let response = server.ask(get());
    assert_eq!(response.status, 502, "{}", response.text());
    assert_eq!(encrypted.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn a_client_certificate_is_shown() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let encrypted = Encrypted::start(authority.server("localhost", Some(&clients)));
    let (certificate, key) = clients.issue("shop");
    let files =
        [("ca.pem", authority.pem()), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let more = "ca = \"@DIR@/ca.pem\"\ncert = \"@DIR@/cert.pem\"\nkey = \"@DIR@/key.pem\"\n";
    let server = door(&encrypted, &files, more);
    assert_eq!(server.ask(get()).status, 200);
}

#[test]
fn a_missing_or_rejected_client_certificate_is_reported_by_name() {
    let (authority, clients) = (Authority::new(), Authority::new());
    // Self-signed.
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["shop".to_owned()]).unwrap().self_signed(&key).unwrap();
    let files =
        [("ca.pem", authority.pem()), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    const CA: &str = "ca = \"@DIR@/ca.pem\"\n";
    const ADMIN: &str = "[admin]\nbind = \"127.0.0.1:0\"\n";
    let shown = "cert = \"@DIR@/cert.pem\"\nkey = \"@DIR@/key.pem\"\n";
    for (more, name) in [("", "client_certificate_missing"), (shown, "client_certificate_refused")] {
        let encrypted = Encrypted::start(authority.server("localhost", Some(&clients)));
        let server = door(&encrypted, &files, &format!("{CA}retries = 0\n{more}{ADMIN}"));
        let response = server.ask(get());
        assert_eq!(response.status, 502);
        let told = response.json();
        assert_eq!(told["reason"], name, "{told}");
        // The connection was made for this call: none that had lain idle was lost.
        let seen = admin::metrics(&server);
        assert!(seen.iter().all(|(name, count)| !name.contains("_lost_total") || *count == 0.0), "{seen:#?}");
        assert_eq!(encrypted.requests.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_changed_ca_file_is_loaded_and_open_connections_stay() {
    let (before, after) = (Authority::new(), Authority::new());
    let encrypted = Encrypted::start(before.server("localhost", None));
    let server = door(&encrypted, &[("ca.pem", &before.pem())], "ca = \"@DIR@/ca.pem\"\nretries = 0\n");
    assert_eq!(server.ask(get()).text(), "connection 0");
    *encrypted.config.lock().unwrap() = after.server("localhost", None);
    write_files(server.folder(), &[("ca.pem", &after.pem())]);
    server.wait_for_log("new connections use the changed certificates", Duration::from_secs(30));
    assert_eq!(server.ask(get()).text(), "connection 0", "the open one is used");
    // Two at once: the second needs a new connection, which the new authority has signed for.
    let deadline = Instant::now() + Duration::from_secs(20);
    while encrypted.origin.connections() < 2 {
        assert!(Instant::now() < deadline, "never two at once");
        let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send(get());
        }
        assert!(clients.iter_mut().all(|client| client.response("GET").status == 200));
    }
}

#[test]
fn a_file_that_is_no_certificate_is_refused_by_name() {
    let authority = Authority::new();
    let encrypted = Encrypted::start(authority.server("localhost", None));
    let broken = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    let config = format!(
        "[upstream.search]\nurl = \"https://localhost:{}\"\nbind = \"127.0.0.1:0\"\nca = \"@DIR@/ca.pem\"\n",
        encrypted.origin.address().port()
    );
    let server = Server::spawn(&config, |command| {
        write_files(command.get_current_dir().expect("a folder"), &[("ca.pem", broken)]);
    });
    assert!(!server.wait_for_exit(Duration::from_secs(20)).success());
    assert!(server.log().contains("ca.pem"), "{}", server.log());
}
