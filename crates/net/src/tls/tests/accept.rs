//! Handshakes with clients.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{ClientConfig, ClientConnection, SignatureAlgorithm, SignatureScheme};
use tokio::task::LocalSet;

use super::super::server::Certificate;
use super::kit::{Authority, Identity, pem};
use crate::{
    CertificateFiles, CertificateOrigin, ChallengeCertificates, Io, ServerTls, ServerTlsSettings,
    ServerTlsState, TicketKeys, TlsProfile, UnknownNames, accept_tls,
};

pub(super) const BOUND: Duration = Duration::from_secs(20);

pub(super) fn settings(identities: &[&Identity]) -> ServerTlsSettings {
    let files = |identity: &&Identity| CertificateFiles {
        cert: pem("cert.pem", &identity.cert),
        key: pem("key.pem", &identity.key),
        ocsp: None,
        origin: CertificateOrigin::Files,
    };
    ServerTlsSettings {
        certificates: identities.iter().map(files).collect(),
        unknown_names: UnknownNames::Default,
        profile: TlsProfile::Intermediate,
        alpn: vec![b"http/1.1".to_vec()],
        client_auth: None,
        challenges: None,
        on_demand: None,
    }
}

fn state(identities: &[&Identity]) -> Arc<ServerTlsState> {
    ServerTlsState::new(&settings(identities), &Arc::new(TicketKeys::new(Vec::new())), None).unwrap()
}

/// A key that counts its signatures.
#[derive(Debug, Clone)]
struct CountingKey(Arc<dyn SigningKey>, Arc<AtomicUsize>);

#[derive(Debug)]
struct CountingSigner(Box<dyn Signer>, Arc<AtomicUsize>);

impl SigningKey for CountingKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(CountingSigner(self.0.choose_scheme(offered)?, Arc::clone(&self.1))))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl Signer for CountingSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

fn client(authority: &Authority, address: SocketAddr) -> (ClientConnection, TcpStream) {
    let config = ClientConfig::clone(&authority.client("a.test").config);
    let name = ServerName::try_from("a.test").unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    session.write_tls(&mut stream).unwrap();
    (session, stream)
}

pub(super) fn accepted(listener: &TcpListener) -> Io {
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    Io::new(OwnedFd::from(stream))
}

/// Handshakes that come at once are spread: other tasks of the thread get their turn after each signature.
#[tokio::test]
async fn other_connections_wait_for_one_signature_at_most() {
    const CLIENTS: usize = 30;
    let authority = Authority::new();
    let identity = authority.identity("a.test");
    let signatures = Arc::new(AtomicUsize::new(0));
    let certificate = Certificate::with_key(&settings(&[&identity]).certificates[0], |key| {
        let counting = CountingKey(Arc::clone(&key.key), Arc::clone(&signatures));
        CertifiedKey::new(key.cert.clone(), Arc::new(counting))
    });
    let state = ServerTlsState::of_certificates(&settings(&[&identity]), vec![Arc::new(certificate)]);
    let tls = Arc::new(ServerTls::new(state));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Each has sent its first message before the first is accepted.
    let clients: Vec<JoinHandle<()>> = (0..CLIENTS)
        .map(|_| client(&authority, address))
        .map(|(mut session, mut stream)| {
            std::thread::spawn(move || {
                while session.is_handshaking() {
                    session.complete_io(&mut stream).unwrap();
                }
            })
        })
        .collect();
    let set = LocalSet::new();
    let handshakes: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (io, tls) = (accepted(&listener), Arc::clone(&tls));
            set.spawn_local(async move { accept_tls(io, &tls, BOUND).await.map(drop).is_ok() })
        })
        .collect();
    let other = async {
        let mut most = 0;
        let mut before = 0;
        while before < CLIENTS {
            tokio::task::yield_now().await;
            let now = signatures.load(Ordering::SeqCst);
            most = most.max(now - before);
            before = now;
        }
        most
    };
    let most = tokio::time::timeout(BOUND, set.run_until(other)).await.expect("in time");
    assert_eq!(most, 1, "signatures between two turns");
    for handshake in handshakes {
        assert!(set.run_until(handshake).await.unwrap());
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// A client's handshake, byte by byte both ways.
pub(super) fn complete_in_single_bytes(
    session: &mut ClientConnection,
    stream: &mut TcpStream,
) -> Result<(), rustls::Error> {
    stream.set_nodelay(true).unwrap();
    loop {
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).unwrap();
        }
        bytes.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
        if !session.is_handshaking() {
            return Ok(());
        }
        let mut one = [0];
        stream.read_exact(&mut one).unwrap();
        session.read_tls(&mut &one[..]).unwrap();
        session.process_new_packets()?;
    }
}

/// Fed byte by byte, both ways of cutting a message are met: within a record, and between records.
#[tokio::test]
async fn a_handshake_in_single_bytes_is_a_handshake() {
    let authority = Authority::new();
    let tls = Arc::new(ServerTls::new(state(&[&authority.identity("a.test")])));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut session, mut stream) = {
        let config = ClientConfig::clone(&authority.client("a.test").config);
        let name = ServerName::try_from("a.test").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        (session, TcpStream::connect(listener.local_addr().unwrap()).unwrap())
    };
    let io = accepted(&listener);
    let client = std::thread::spawn(move || {
        stream.set_read_timeout(Some(BOUND)).unwrap();
        complete_in_single_bytes(&mut session, &mut stream).unwrap();
    });
    let handshake = LocalSet::new().run_until(accept_tls(io, &tls, BOUND)).await.map(|(_, facts)| facts);
    let facts = handshake.unwrap();
    client.join().unwrap();
    assert_eq!((facts.version, facts.resumed, facts.http2), ("TLSv1.3", false, false));
    assert_eq!(facts.server_name.as_deref(), Some("a.test"));
    assert_eq!(facts.certificate.unwrap().facts.names, ["a.test"]);
}

#[tokio::test]
async fn clients_that_are_no_clients_of_tls_have_a_name() {
    for (bytes, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "plaintext_http"),
        (b"\0\0\0\0", "not_tls"),
        (b"\x16\x03\x01\xff\xff\x01", "protocol_error"),
        (b"\x16\x03\x01\0\x05\x01\0\0\x01\0", "protocol_error"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc", "client_left"),
        (b"", "client_left"),
        (b"\x15\x03\x01\0\x02\x02\x28", "not_tls"),
    ] {
        let authority = Authority::new();
        let tls = ServerTls::new(state(&[&authority.identity("a.test")]));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let failure = accept_tls(accepted(&listener), &tls, BOUND).await.unwrap_err();
        assert_eq!(failure.error.name, expected, "{bytes:?}: {}", failure.error);
        assert_eq!(failure.plaintext.is_some(), expected == "plaintext_http");
    }
}

/// Found by the simulation: the end came with the last of the handshake, and what was between was dropped.
#[tokio::test]
async fn a_client_may_say_all_with_the_last_of_its_handshake() {
    let authority = Authority::new();
    let tls = ServerTls::new(state(&[&authority.identity("a.test")]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut session, mut stream) = client(&authority, listener.local_addr().unwrap());
    let io = accepted(&listener);
    let client = std::thread::spawn(move || {
        while session.is_handshaking() {
            session.read_tls(&mut stream).unwrap();
            session.process_new_packets().unwrap();
        }
        session.writer().write_all(b"all").unwrap();
        session.send_close_notify();
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).unwrap();
        }
        stream.write_all(&bytes).unwrap();
        // No FIN: close_notify is the end.
        stream
    });
    let (mut transport, _) = accept_tls(io, &tls, BOUND).await.unwrap();
    let _stream = client.join().unwrap();
    let mut got = Vec::new();
    assert_eq!(poll_fn(|cx| transport.poll_read(cx, &mut got)).await.unwrap(), 3);
    assert_eq!(got, b"all");
    let readable = tokio::time::timeout(BOUND, poll_fn(|cx| transport.poll_readable(cx))).await;
    readable.expect("the end can be read").unwrap();
    assert_eq!(poll_fn(|cx| transport.poll_read(cx, &mut got)).await.unwrap(), 0);
}

/// The time limit is for the whole handshake, from its begin.
#[tokio::test(start_paused = true)]
async fn a_client_that_stalls_has_its_time() {
    let authority = Authority::new();
    let tls = ServerTls::new(state(&[&authority.identity("a.test")]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.write_all(b"\x16\x03\x01\x02\0\x01").unwrap();
    let begun = tokio::time::Instant::now();
    let failure = accept_tls(accepted(&listener), &tls, Duration::from_secs(10)).await.unwrap_err();
    assert_eq!((failure.error.name, begun.elapsed().as_secs()), ("timeout", 10));
}

/// A certificate that has not changed is not parsed again.
#[test]
fn an_unchanged_certificate_is_kept() {
    let authority = Authority::new();
    let (a, b, c) =
        (authority.identity("a.test"), authority.identity("b.test"), authority.identity("c.test"));
    let named = |second: &Identity| {
        let mut settings = settings(&[&a, second]);
        settings.certificates[1].cert.file = "other.pem".into();
        settings
    };
    let keys = Arc::new(TicketKeys::new(Vec::new()));
    let before = ServerTlsState::new(&named(&b), &keys, None).unwrap();
    let after = ServerTlsState::new(&named(&c), &keys, Some(&before)).unwrap();
    assert!(Arc::ptr_eq(&before.certificates()[0], &after.certificates()[0]));
    assert_eq!(after.certificates()[1].facts.names, ["c.test"]);
}

/// A handshake as the authority makes it, and what it found: the certificate it got, and our own result.
async fn verified(
    state: Arc<ServerTlsState>,
    offered: &'static [&'static [u8]],
) -> (Option<Vec<u8>>, Result<bool, &'static str>) {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let verifier = std::thread::spawn(move || {
        let mut config = ClientConfig::clone(&authority.client("a.test").config);
        config.dangerous().set_certificate_verifier(Arc::new(Anything));
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("a.test").unwrap();
        let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        while session.is_handshaking() {
            if session.complete_io(&mut stream).is_err() {
                return None;
            }
        }
        Some(session.peer_certificates()?.first()?.to_vec())
    });
    let tls = ServerTls::new(state);
    let set = LocalSet::new();
    let accepted = set.run_until(accept_tls(accepted(&listener), &tls, BOUND)).await;
    let result = accepted.map(|(_, handshake)| handshake.is_challenge).map_err(|failure| failure.error.name);
    (verifier.join().unwrap(), result)
}

/// The authority looks into the certificate itself.
#[derive(Debug)]
struct Anything;

impl rustls::client::danger::ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// RFC 8737 §3: the certificate of the challenge in a handshake that offers this protocol alone, and in no other.
#[tokio::test]
async fn an_authority_gets_the_certificate_of_its_challenge_and_nobody_else() {
    let authority = Authority::new();
    let (identity, challenge) = (authority.identity("a.test"), authority.identity("a.test"));
    let key =
        Certificate::with_key(&settings(&[&challenge]).certificates[0], CertifiedKey::clone).key().clone();
    let with = |answer: Option<Arc<CertifiedKey>>| {
        let mut settings = settings(&[&identity]);
        settings.challenges =
            Some(ChallengeCertificates::new(move |name| answer.clone().filter(|_| name == "a.test")));
        ServerTlsState::new(&settings, &Arc::new(TicketKeys::new(Vec::new())), None).unwrap()
    };
    let shown = key.cert[0].to_vec();
    assert_eq!(
        verified(with(Some(Arc::clone(&key))), &[b"acme-tls/1"]).await,
        (Some(shown.clone()), Ok(true))
    );
    let (got, result) = verified(with(Some(Arc::clone(&key))), &[b"acme-tls/1", b"http/1.1"]).await;
    assert!(got.is_some_and(|got| got != shown) && result == Ok(false));
    assert_eq!(verified(with(None), &[b"acme-tls/1"]).await, (None, Err("name_unknown")));
    // A listener without names of an authority.
    let (got, _) = verified(state(&[&identity]), &[b"acme-tls/1"]).await;
    assert_eq!(got, None);
}
