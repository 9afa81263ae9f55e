//! A client's end, and the listener that it comes to.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use keepwarm_net::simulation::Peer;
use keepwarm_net::{
    CertificateFiles, CertificateOrigin, Pem, ServerTls, ServerTlsSettings, ServerTlsState, TicketKeys,
    TlsProfile, TlsVersion, UnknownNames,
};
use keepwarm_serve::ListenerTls;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::{HandshakeFault, Tls, TlsPlan, identities};

/// The host of all requests.
pub(super) const NAME: &str = "a.example";

/// A listener's TLS. `http2`: it offers HTTP/2.
pub(crate) fn listener(http2: bool, handshake_timeout: Duration) -> ListenerTls {
    let [_, _, identity] = identities();
    let pem = |file: &str, text: &str| Pem { file: file.into(), text: text.into() };
    let files = CertificateFiles {
        cert: pem("cert.pem", &identity.pem),
        key: pem("key.pem", &identity.key_pem),
        ocsp: None,
        origin: CertificateOrigin::Files,
    };
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    let settings = ServerTlsSettings {
        certificates: vec![files],
        unknown_names: UnknownNames::Default,
        profile: TlsProfile::Intermediate,
        alpn: protocols.iter().map(|name| name.to_vec()).collect(),
        client_auth: None,
        challenges: None,
        on_demand: None,
    };
    let keys = Arc::new(TicketKeys::new(Vec::new()));
    let state = ServerTlsState::new(&settings, &keys, None).expect("settings");
    ListenerTls { tls: Arc::new(ServerTls::new(state)), handshake_timeout }
}

/// Makes TLS of clients' connections. They share sessions.
pub(crate) struct TlsClient {
    plan: TlsPlan,
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// `alpn`: what it offers, and must get.
    pub(crate) fn new(plan: TlsPlan, alpn: Option<&[u8]>) -> Self {
        let [_, _, identity] = identities();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let version = match plan.version {
            TlsVersion::Tls12 => &rustls::version::TLS12,
            TlsVersion::Tls13 => &rustls::version::TLS13,
        };
        let mut roots = RootCertStore::empty();
        roots.add(identity.chain.clone()).expect("an authority");
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.max_fragment_size = plan.record.map(|plain| plain + 5);
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        if !plan.resumes {
            config.resumption = Resumption::disabled();
        }
        Self { plan, config: Arc::new(config) }
    }

    /// One end of a connection whose handshake has not begun.
    pub(crate) fn begin(&self, peer: Peer, fault: Option<HandshakeFault>) -> Tls {
        let name = if fault == Some(HandshakeFault::WrongName) { "other.example" } else { NAME };
        let name = ServerName::try_from(name).expect("a name");
        let tls = ClientConnection::new(Arc::clone(&self.config), name).expect("a configuration");
        let out = match fault {
            Some(HandshakeFault::Garbage) => b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
            _ => Vec::new(),
        };
        Tls::new(peer, tls.into(), out, (self.plan.clone(), fault))
    }

    /// The session of a connection.
    pub(crate) async fn connect(&self, peer: Peer) -> io::Result<Tls> {
        let tls = self.begin(peer, None);
        tls.finish_handshake().await?;
        let agreed = tls.state.borrow().tls.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed.as_ref(), self.config.alpn_protocols.first(), "not the protocol that was offered");
        Ok(tls)
    }
}

impl Tls {
    /// Whether it has stopped in its handshake.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.borrow().is_stopped
    }

    /// The connection below, without a word more.
    pub(crate) fn into_peer(self) -> Peer {
        self.peer
    }

    /// Waits until the handshake is over, and all of it has left.
    pub(crate) async fn finish_handshake(&self) -> io::Result<()> {
        self.state.borrow_mut().opens = true;
        poll_fn(|cx| self.poll_handshake(cx)).await?;
        self.state.borrow_mut().opens = false;
        Ok(())
    }

    fn poll_handshake(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let left = self.poll_out(cx);
            if !self.state.borrow().tls.is_handshaking() || matches!(left, Poll::Ready(Err(_))) {
                return left;
            }
            if ready!(self.poll_take(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}
