//! TLS that fails, in one way each; and TLS that is well.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_doctor::client::Identity;
use keepwarm_doctor::{Examination, Settings, Verdict};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ALL_VERSIONS, RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{
    GoodServer, RESPONSE, behave, blocking, check, every_probe_spoke, found, hold, request, serve, settings,
    together,
};

/// An authority, and what it makes.
struct Authority {
    certificate: Certificate,
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    fn new(name: &str, by: Option<&Self>) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = match by {
            Some(by) => params.signed_by(&key, &Issuer::from_params(&by.params, &by.key)).unwrap(),
            None => params.self_signed(&key).unwrap(),
        };
        Self { certificate, params, key }
    }

    fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// A certificate for a name, until a year, and its key.
    fn sign(&self, name: &str, until: i32) -> (CertificateDer<'static>, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        (leaf(name, until).signed_by(&key, &issuer).unwrap().der().clone(), key)
    }
}

fn leaf(name: &str, until: i32) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2024, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    params
}

/// How a TLS server differs from a good one.
#[derive(Clone, Copy)]
struct TlsBehavior {
    versions: &'static [&'static SupportedProtocolVersion],
    closes: bool,
    tickets: usize,
    /// It wants to know its clients.
    asks: bool,
}

const GOOD: TlsBehavior = TlsBehavior { versions: ALL_VERSIONS, closes: false, tickets: 2, asks: false };

/// Serves with these certificates.
async fn serve_tls(chain: Vec<CertificateDer<'static>>, key: &KeyPair, behavior: TlsBehavior) -> SocketAddr {
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(behavior.versions)
        .unwrap();
    let builder = match behavior.asks {
        true => {
            let mut roots = RootCertStore::empty();
            roots.add(Authority::new("Clients", None).der()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        false => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key.into()).unwrap();
    config.send_tls13_tickets = behavior.tickets;
    if behavior.tickets == 0 {
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    }
    let config = Arc::new(config);
    serve(0, move |stream| {
        let config = Arc::clone(&config);
        async move {
            let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
            let well = GoodServer { closes: behavior.closes, ..GoodServer::default() };
            behave(StreamOwned::new(connection, blocking(stream)), well);
            Ok(())
        }
    })
    .await
}

fn believing(authority: &Authority) -> Settings {
    Settings { authorities: vec![authority.der()], timeout: Duration::from_secs(2), ..settings() }
}

async fn examine(address: SocketAddr, settings: &Settings) -> Examination {
    let mut settings = settings.clone();
    settings.resolve = vec![("shop.example".to_owned(), address.port(), address.ip())];
    check(&format!("https://shop.example:{}/", address.port()), &settings).await
}

#[track_caller]
fn nothing_bad_but(it: &Examination, id: &str) {
    let all = it.results.iter().flat_map(|probe| &probe.findings);
    let bad: Vec<_> =
        all.filter(|finding| finding.verdict == Verdict::Bad && !finding.id.starts_with(id)).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[tokio::test]
async fn a_good_server_is_good() {
    let root = Authority::new("Root", None);
    let middle = Authority::new("Middle", Some(&root));
    let (certificate, key) = middle.sign("shop.example", 2099);
    let address = serve_tls(vec![certificate, middle.der()], &key, GOOD).await;
    let it = examine(address, &believing(&root)).await;
    every_probe_spoke(&it);
    nothing_bad_but(&it, "none");
    found(&it, "connect.reuse", Verdict::Good, "on a persistent one");
    found(&it, "connect.tls", Verdict::Good, "TLS 1.3 in 1 round trip");
    found(&it, "connect.tls", Verdict::Good, "TLS 1.2 in 2 round trips");
    found(&it, "connect.resumption", Verdict::Good, "3 of 3 connections resumed");
    found(&it, "connect.certificate", Verdict::Good, "for shop.example, signed by CN=Middle");
    found(&it, "connect.expiry", Verdict::Good, "days");
    found(&it, "connect.chain", Verdict::Good, "2 certificates");
    found(&it, "connect.http2", Verdict::Good, "no ALPN");
}

#[tokio::test]
async fn an_origin_that_allows_no_reuse() {
    let root = Authority::new("Root", None);
    let (certificate, key) = root.sign("shop.example", 2099);
    let behavior = TlsBehavior { closes: true, ..GOOD };
    let it = examine(serve_tls(vec![certificate], &key, behavior).await, &believing(&root)).await;
    let finding = found(&it, "connect.reuse", Verdict::Bad, "Connection: close");
    assert!(
        finding.cost.as_ref().is_some_and(|cost| cost.contains("of certificates and keys")),
        "{finding:?}"
    );
    nothing_bad_but(&it, "connect.");
}

#[tokio::test]
async fn an_old_version_and_sessions_that_cannot_be_resumed_are_warnings() {
    let root = Authority::new("Root", None);
    let (certificate, key) = root.sign("shop.example", 2099);
    static OLD: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    let behavior = TlsBehavior { versions: &OLD, tickets: 0, ..GOOD };
    let it = examine(serve_tls(vec![certificate, root.der()], &key, behavior).await, &believing(&root)).await;
    found(&it, "connect.tls", Verdict::Warning, "TLS 1.3 alone is refused");
    found(&it, "connect.resumption", Verdict::Warning, "none of 3");
    found(&it, "connect.chain", Verdict::Warning, "including the root (CN=Root)");
    nothing_bad_but(&it, "none");
}

#[tokio::test]
async fn a_certificate_that_cannot_be_believed() {
    let root = Authority::new("Root", None);
    let middle = Authority::new("Middle", Some(&root));
    let own_key = KeyPair::generate().unwrap();
    let own = leaf("shop.example", 2099).self_signed(&own_key).unwrap().der().clone();
    let (old, old_key) = root.sign("shop.example", 2025);
    let (other, other_key) = root.sign("other.example", 2099);
    let (lone, lone_key) = middle.sign("shop.example", 2099);
    let cases = [
        (vec![old], old_key, "it expired", ("connect.expiry", Verdict::Bad)),
        (
            vec![other],
            other_key,
            "it is valid for other.example, but shop.example was requested",
            ("connect.certificate", Verdict::Warning),
        ),
        (vec![own], own_key, "it is self-signed", ("connect.certificate", Verdict::Warning)),
        (vec![lone], lone_key, "(CN=Middle) was not sent", ("connect.certificate", Verdict::Warning)),
    ];
    let believing = believing(&root);
    together(cases.map(|(chain, key, words, (id, verdict))| {
        let believing = believing.clone();
        async move {
            let address = serve_tls(chain, &key, GOOD).await;
            let it = examine(address, &believing).await;
            found(&it, "reach.certificate", Verdict::Bad, words);
            assert_eq!(it.results.len(), 1, "nothing is asked of a server that is not believed");
            let it = examine(address, &Settings { insecure: true, ..believing }).await;
            found(&it, id, verdict, "");
            nothing_bad_but(&it, "connect.expiry");
        }
    }))
    .await;
}

#[tokio::test]
async fn a_certificate_that_is_believed_by_itself() {
    // As `openssl req -x509` makes them: self-signed, marked as an authority, and shown by the server itself.
    let key = KeyPair::generate().unwrap();
    let mut params = leaf("shop.example", 2099);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = params.self_signed(&key).unwrap().der().clone();
    let settings = Settings { authorities: vec![own.clone()], timeout: Duration::from_secs(2), ..settings() };
    let it = examine(serve_tls(vec![own], &key, GOOD).await, &settings).await;
    found(&it, "connect.certificate", Verdict::Good, "for shop.example");
    nothing_bad_but(&it, "none");
}

#[tokio::test]
async fn a_server_that_wants_a_client_certificate() {
    let root = Authority::new("Root", None);
    let (certificate, key) = root.sign("shop.example", 2099);
    let behavior = TlsBehavior { asks: true, ..GOOD };
    let it = examine(serve_tls(vec![certificate], &key, behavior).await, &believing(&root)).await;
    found(&it, "reach.tls", Verdict::Bad, "the server requires a client certificate");
}

#[tokio::test]
async fn a_client_certificate_that_the_server_does_not_accept() {
    let root = Authority::new("Root", None);
    let (certificate, key) = root.sign("shop.example", 2099);
    static OLD: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    for versions in [ALL_VERSIONS, &OLD] {
        let behavior = TlsBehavior { versions, asks: true, ..GOOD };
        let address = serve_tls(vec![certificate.clone()], &key, behavior).await;
        let (own, own_key) = root.sign("client", 2099);
        let own_key = PrivatePkcs8KeyDer::from(own_key.serialize_der()).into();
        let identity = Some(Arc::new(Identity { chain: vec![own], key: own_key }));
        let it = examine(address, &Settings { identity, ..believing(&root) }).await;
        let finding = found(&it, "reach.tls", Verdict::Bad, "");
        assert!(finding.fix.as_ref().is_some_and(|fix| fix.contains("--cert")), "{finding:?}");
    }
}

#[tokio::test]
async fn a_name_that_the_server_does_not_know() {
    let address = serve(0, |mut stream| async move {
        stream.write_all(b"\x15\x03\x03\x00\x02\x02\x70").await?;
        hold(stream).await
    })
    .await;
    let it = examine(address, &settings()).await;
    let finding = found(&it, "reach.tls", Verdict::Bad, "UnrecognisedName");
    assert!(
        finding.fix.as_ref().is_some_and(|fix| fix.contains("no certificate for that name")),
        "{finding:?}"
    );
}

#[tokio::test]
async fn http_on_the_port_of_https() {
    // The server responds to bytes that are not a request, or waits, or closes.
    for manner in ["answers", "waits", "closes"] {
        let address = serve(0, move |mut stream| async move {
            let mut first = [0; 4];
            stream.read_exact(&mut first).await?;
            match (&first, manner) {
                (b"HEAD" | b"GET ", _) => {
                    request(&mut stream).await?;
                    stream.write_all(RESPONSE).await?;
                    hold(stream).await
                }
                (_, "answers") => {
                    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await?;
                    hold(stream).await
                }
                (_, "waits") => hold(stream).await,
                _ => Ok(()),
            }
        })
        .await;
        let it = examine(address, &settings()).await;
        let finding = &it.results[0].findings[0];
        assert!(finding.evidence.contains("HTTP/1.1 "), "{manner}: {finding:?}");
        assert!(finding.fix.as_ref().is_some_and(|fix| fix.contains("http://")), "{manner}: {finding:?}");
        assert_eq!(it.verdict(), Verdict::Bad);
    }
}

#[tokio::test]
async fn https_on_the_port_of_http() {
    let root = Authority::new("Root", None);
    let (certificate, key) = root.sign("shop.example", 2099);
    let address = serve_tls(vec![certificate], &key, GOOD).await;
    let it = check(&format!("http://{address}/"), &settings()).await;
    let finding = found(&it, "reach.tls", Verdict::Bad, "the port speaks TLS 1.3");
    assert!(finding.fix.as_ref().is_some_and(|fix| fix.contains("https://")), "{finding:?}");
}

#[tokio::test]
async fn a_handshake_that_goes_nowhere() {
    let cases = [
        (&b""[..], true, "reach.connection", "the TLS handshake timed out after 1.0 s"),
        (b"", false, "reach.connection", "during the TLS handshake"),
        (b"SSH-2.0-OpenSSH\r\n", true, "reach.tls", "begins with \"SSH-2.0-OpenSSH\""),
        (b"\x15\x03\x03\x00\x02\x02\x28", true, "reach.tls", "HandshakeFailure"),
        (b"\x16\x03\x03\x40\x00\x02\xff\xff\xff", true, "reach.", ""),
        (b"\x16\x03\x03\xff\xff", true, "reach.tls", ""),
    ];
    together(cases.map(|(bytes, holds, id, words)| async move {
        let address = serve(0, move |mut stream| async move {
            stream.write_all(bytes).await?;
            if holds {
                return hold(stream).await;
            }
            let mut hello = [0; 5];
            stream.read_exact(&mut hello).await.map(drop)
        })
        .await;
        let it = examine(address, &settings()).await;
        let finding = &it.results[0].findings[0];
        assert_eq!(finding.verdict, Verdict::Bad);
        // Bytes that lie unread turn a close into a reset.
        let reset = !holds && finding.evidence.contains("reset by peer");
        assert!(finding.id.starts_with(id), "{bytes:?}: {finding:?}");
        assert!(finding.evidence.contains(words) || reset, "{bytes:?}: {finding:?}");
    }))
    .await;
}

/// Passes up to `after` bytes of the server's on, and closes or resets.
async fn cut(to: SocketAddr, after: usize, resets: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, to, after, resets));
        }
    });
    address
}

async fn pass(client: TcpStream, to: SocketAddr, after: usize, resets: bool) -> std::io::Result<()> {
    let server = TcpStream::connect(to).await?;
    if resets {
        client.set_zero_linger()?;
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let back = async { tokio::io::copy(&mut from_server.take(after as u64), &mut to_client).await.map(drop) };
    let forth = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    tokio::select! {
        biased;
        done = back => done,
        // A client that has sent everything may still get a response; here there is nothing more to see.
        done = forth => done,
    }
}

#[tokio::test]
async fn a_close_in_many_places_of_a_session() {
    let root = Authority::new("Root", None);
    let (certificate, key) = root.sign("shop.example", 2099);
    let address = serve_tls(vec![certificate], &key, GOOD).await;
    let settings = believing(&root);
    let places = [0, 1, 4, 5, 6, 90, 127, 128, 200, 500, 900, 1100, 1300, 1500];
    together(places.into_iter().flat_map(|after| [(after, false), (after, true)]).map(|(after, resets)| {
        let settings = settings.clone();
        async move {
            let it = examine(cut(address, after, resets).await, &settings).await;
            // Behind that the first response is whole, and what follows is cut.
            assert!(after > 900 || it.verdict() == Verdict::Bad, "cut after {after}: {it:#?}");
        }
    }))
    .await;
}

#[tokio::test]
async fn what_is_no_tls_behind_a_handshake() {
    let root = Authority::new("Root", None);
    let (certificate, key) = root.sign("shop.example", 2099);
    let address = serve_tls(vec![certificate], &key, GOOD).await;
    // A proxy that goes mad once it has seen a request go by.
    let mad = serve(0, move |client| async move {
        let server = TcpStream::connect(address).await?;
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let mut buffer = vec![0; 64 * 1024];
        let count = from_client.read(&mut buffer).await?;
        to_server.write_all(&buffer[..count]).await?;
        let count = from_server.read(&mut buffer).await?;
        to_client.write_all(&buffer[..count]).await?;
        from_client.read_u8().await?;
        to_client.write_all(&[0x17, 3, 3, 0, 40]).await?;
        to_client.write_all(&[0xaa; 40]).await?;
        tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await.map(drop)
    })
    .await;
    let it = examine(mad, &believing(&root)).await;
    assert_eq!(it.verdict(), Verdict::Bad, "{it:#?}");
    found(&it, "reach.response", Verdict::Bad, "a broken connection");
}

#[tokio::test]
async fn a_server_of_http_that_is_well_stays_well() {
    let address = serve(usize::MAX, |_| async { Ok(()) }).await;
    let it = check(&format!("http://{address}/"), &settings()).await;
    every_probe_spoke(&it);
    nothing_bad_but(&it, "none");
}
