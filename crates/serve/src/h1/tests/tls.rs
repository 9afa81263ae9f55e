//! The same connection under TLS: sizes at the edges of records and of buffers, through a socket that takes little at a time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use keepwarm_net::{
    CertificateFiles, CertificateOrigin, Pem, ServerTls, ServerTlsSettings, ServerTlsState, TicketKeys,
    TlsProfile, UnknownNames, accept_tls,
};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::*;

/// A certificate that is its own authority.
struct Identity {
    der: CertificateDer<'static>,
    tls: Arc<ServerTls>,
}

impl Identity {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        let pem = |text: String| Pem { file: "a.pem".into(), text: text.into_bytes() };
        let files = CertificateFiles {
            cert: pem(certificate.pem()),
            key: pem(key.serialize_pem()),
            ocsp: None,
            origin: CertificateOrigin::Files,
        };
        let settings = ServerTlsSettings {
            certificates: vec![files],
            unknown_names: UnknownNames::Default,
            profile: TlsProfile::Intermediate,
            alpn: Vec::new(),
            client_auth: None,
            challenges: None,
            on_demand: None,
        };
        let state = ServerTlsState::new(&settings, &Arc::new(TicketKeys::new(Vec::new())), None).unwrap();
        Self { der: certificate.der().clone(), tls: Arc::new(ServerTls::new(state)) }
    }

    fn client(&self, version: &'static SupportedProtocolVersion) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        ClientConnection::new(Arc::new(config), ServerName::try_from("a.test").unwrap()).unwrap()
    }
}

/// Responds with as many bytes as the request's body has.
struct Echoes;

impl ExchangeScript for Echoes {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let mut body = Vec::new();
            while !exchange.body_done() {
                std::future::poll_fn(|cx| exchange.poll_body(cx, &mut body, 64 * 1024)).await.unwrap();
            }
            exchange.head(200, Some(body.len() as u64), false, std::iter::empty()).unwrap();
            for part in body.chunks(50_000) {
                exchange.data(part);
                std::future::poll_fn(|cx| exchange.poll_flush(cx)).await.unwrap();
            }
            exchange.end();
        })
    }
}

/// Both ends of a socket that takes 4 KiB at a time; the far one blocks.
fn blocking_pair() -> (OwnedFd, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    for end in [&ours, &theirs] {
        rustix::net::sockopt::set_socket_send_buffer_size(end, 4096).unwrap();
    }
    ours.set_nonblocking(true).unwrap();
    theirs.set_read_timeout(Some(BOUND)).unwrap();
    theirs.set_write_timeout(Some(BOUND)).unwrap();
    (ours.into(), theirs)
}

async fn serve_one(io: OwnedFd, tls: Arc<ServerTls>) {
    let (transport, handshake) = accept_tls(Io::new(io), &tls, BOUND).await.unwrap();
    let context = Arc::new(ListenerContext {
        handler: Arc::new(ScriptHandler(Echoes)),
        limits: ConnectionLimits::default(),
        draining: Arc::new(AtomicBool::new(false)),
        open: Arc::new(OpenConnections::new(100)),
        meter: keepwarm_telemetry::meters::listener("test"),
        proxy_protocol: None,
        tls: None,
    });
    let peer = ConnectionInfo::over_tls(None, LocalAddress::Unix(None), handshake);
    super::super::serve(transport, peer, context).await;
}

/// Sends a body and reads as much, `piece` bytes of the socket at a time.
fn visit(mut tls: ClientConnection, mut socket: UnixStream, sizes: &[usize], piece: usize) {
    for &size in sizes {
        let body: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let head = format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {size}\r\n\r\n");
        // The client of rustls holds what it is given: all of it is written before the response is read.
        tls.set_buffer_limit(None);
        tls.writer().write_all(&[head.as_bytes(), &body].concat()).unwrap();
        while tls.is_handshaking() || tls.wants_write() {
            tls.complete_io(&mut socket).unwrap();
        }
        let mut response = Vec::new();
        loop {
            let end = response.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            if end.is_some_and(|end| response.len() >= end + size) {
                assert_eq!(response[end.unwrap()..], body, "{size}");
                break;
            }
            let mut records = vec![0; piece];
            let got = socket.read(&mut records).unwrap();
            assert!(got > 0, "{size}: the end after {} bytes", response.len());
            let mut records = &records[..got];
            while !records.is_empty() {
                tls.read_tls(&mut records).unwrap();
                let state = tls.process_new_packets().unwrap();
                let before = response.len();
                response.resize(before + state.plaintext_bytes_to_read(), 0);
                tls.reader().read_exact(&mut response[before..]).unwrap();
            }
        }
    }
    tls.send_close_notify();
    tls.write_tls(&mut socket).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
}

#[tokio::test]
async fn bodies_of_every_size_pass_through_a_small_socket() {
    const RECORD: usize = 16 * 1024;
    let identity = Identity::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for piece in [100, 100_000] {
            let (ours, theirs) = blocking_pair();
            let client = identity.client(version);
            let sizes =
                [0, 1, RECORD - 1, RECORD, RECORD + 1, 4 * RECORD - 1, 4 * RECORD, 4 * RECORD + 1, 300_001];
            let client = tokio::task::spawn_blocking(move || visit(client, theirs, &sizes, piece));
            run(serve_one(ours, Arc::clone(&identity.tls))).await;
            client.await.unwrap();
        }
    }
}
