//! TLS at a script's end of a connection: rustls as the server, or as the client. Nothing of its randomness shows: keys, signatures and tickets have one length each.

mod client;

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use keepwarm_net::simulation::{Peer, Rng};
use keepwarm_net::{CaSource, ClientTls, Pem, TlsSettings, TlsVersion};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Connection, ServerConfig, ServerConnection};

use crate::line::Line;
use crate::plan::Smaller;

pub(crate) use client::{TlsClient, listener};

/// The TLS settings of an end.
#[derive(Debug, Clone)]
pub(crate) struct TlsPlan {
    pub(crate) version: TlsVersion,
    /// Plain bytes in one record, at most.
    pub(crate) record: Option<usize>,
    /// Bytes of the handshake in one write.
    pub(crate) piece: usize,
    /// Sessions can be resumed.
    pub(crate) resumes: bool,
    pub(crate) ending: Ending,
    /// This many connections, the first ones, end in the handshake.
    pub(crate) fault: Option<(usize, HandshakeFault)>,
}

/// How it ends its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By a close_notify, and FIN after it.
    Whole,
    /// Without FIN.
    Notifies,
    /// By FIN alone: the bytes before may have been cut off (RFC 8446 §6.1).
    Cuts,
}

/// A fault in a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeFault {
    /// After this many bytes of it nothing more comes.
    Stops(usize),
    /// The connection dies after this many bytes of it.
    Dies(usize),
    /// The bytes are not TLS.
    Garbage,
    /// The certificate is for another name.
    WrongName,
}

impl TlsPlan {
    /// Whole handshakes, at once.
    pub(crate) const FAST: Self = Self {
        version: TlsVersion::Tls13,
        record: None,
        piece: usize::MAX,
        resumes: false,
        ending: Ending::Whole,
        fault: None,
    };

    pub(crate) fn draw(rng: &mut Rng, clean: bool) -> Self {
        let fault = match rng.below(4) {
            0 => HandshakeFault::Stops(0),
            1 => HandshakeFault::Dies(rng.below(3000)),
            2 => HandshakeFault::Garbage,
            _ => HandshakeFault::WrongName,
        };
        Self {
            version: *rng.pick(&[TlsVersion::Tls13, TlsVersion::Tls13, TlsVersion::Tls12]),
            record: *rng.pick(&[None, None, Some(32), Some(1000)]),
            piece: *rng.pick(&[1, 7, 500, usize::MAX]),
            resumes: rng.chance(500),
            ending: *rng.pick(&[Ending::Whole, Ending::Whole, Ending::Notifies, Ending::Cuts]),
            fault: (!clean && rng.chance(300)).then(|| (*rng.pick(&[1, 2, usize::MAX]), fault)),
        }
    }

    pub(crate) fn smaller<P: Clone>(smaller: &mut Smaller<'_, P>, of: impl Fn(&mut P) -> Option<&mut Self>) {
        smaller.with(|plan| of(plan).is_some_and(|tls| tls.record.take().is_some()));
        smaller.with(|plan| of(plan).is_some_and(|tls| std::mem::take(&mut tls.resumes)));
        smaller.with(|plan| of(plan).is_some_and(|tls| tls.fault.take().is_some()));
        smaller.with(|plan| {
            of(plan).is_some_and(|tls| std::mem::replace(&mut tls.piece, usize::MAX) < usize::MAX)
        });
        smaller.with(|plan| {
            of(plan).is_some_and(|tls| std::mem::replace(&mut tls.ending, Ending::Whole) != Ending::Whole)
        });
    }
}

/// A server's certificate, which is its own authority, and its key.
struct Identity {
    pem: String,
    key_pem: String,
    chain: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

const NAME: &str = "origin.example";

impl Identity {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.serial_number = Some(SerialNumber::from(1));
        let certificate = params.self_signed(&key).expect("a certificate");
        let chain = certificate.der().clone();
        Self {
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            chain,
            key: PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        }
    }
}

/// The origin's, one of another name, and the listener's.
fn identities() -> &'static [Identity; 3] {
    static IDENTITIES: OnceLock<[Identity; 3]> = OnceLock::new();
    IDENTITIES.get_or_init(|| [NAME, "other.example", client::NAME].map(Identity::new))
}

/// Keepwarm's TLS settings: it trusts both certificates.
pub(crate) fn client() -> Arc<ClientTls> {
    let text = identities().iter().flat_map(|identity| identity.pem.bytes()).collect();
    ClientTls::new(&TlsSettings {
        server_name: NAME.to_owned(),
        ca: CaSource::Only(Pem { file: "ca.pem".into(), text }),
        identity: None,
        min_version: TlsVersion::Tls12,
        alpn: Vec::new(),
    })
    .expect("settings")
}

/// Makes TLS of a server's connections.
pub(crate) struct TlsServer {
    plan: TlsPlan,
    config: Arc<ServerConfig>,
    wrong: Arc<ServerConfig>,
    accepted: Cell<usize>,
}

impl TlsServer {
    /// `alpn`: what it chooses.
    pub(crate) fn new(plan: TlsPlan, alpn: Option<&[u8]>) -> Rc<Self> {
        let [right, wrong, _] = identities();
        let config = |identity: &Identity| Arc::new(config(&plan, identity, alpn));
        Rc::new(Self { config: config(right), wrong: config(wrong), accepted: Cell::new(0), plan })
    }

    /// The next connection.
    pub(crate) fn accept(&self, peer: Peer) -> Box<dyn Line> {
        let number = self.accepted.replace(self.accepted.get() + 1);
        let fault = self.plan.fault.filter(|(first, _)| number < *first).map(|(_, fault)| fault);
        let config = if fault == Some(HandshakeFault::WrongName) { &self.wrong } else { &self.config };
        let mut out = Vec::new();
        if fault == Some(HandshakeFault::Garbage) {
            out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
        let tls = ServerConnection::new(Arc::clone(config)).expect("a configuration");
        Box::new(Tls::new(peer, tls.into(), out, (self.plan.clone(), fault)))
    }
}

fn config(plan: &TlsPlan, identity: &Identity, alpn: Option<&[u8]>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let version = match plan.version {
        TlsVersion::Tls12 => &rustls::version::TLS12,
        TlsVersion::Tls13 => &rustls::version::TLS13,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_no_client_auth()
        .with_single_cert(vec![identity.chain.clone()], identity.key.clone_key())
        .expect("an identity");
    config.max_fragment_size = plan.record.map(|plain| plain + 5);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    if !plan.resumes {
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    }
    config
}

/// An end of a connection under TLS.
pub(crate) struct Tls {
    peer: Peer,
    plan: TlsPlan,
    fault: Option<HandshakeFault>,
    state: RefCell<State>,
}

struct State {
    tls: Connection,
    /// Bytes that it has not looked at.
    incoming: Vec<u8>,
    /// Records that have not left.
    out: Vec<u8>,
    sent: usize,
    /// FIN is to follow them.
    ends: bool,
    /// Nothing more is read.
    is_broken: bool,
    /// What leaves is still of the handshake.
    opens: bool,
    /// It has stopped, as planned.
    is_stopped: bool,
}

/// Records that are kept before more is encrypted.
const ENOUGH: usize = 16 * 1024;

impl Tls {
    /// `out`: what leaves first.
    fn new(
        peer: Peer,
        tls: Connection,
        out: Vec<u8>,
        (plan, fault): (TlsPlan, Option<HandshakeFault>),
    ) -> Self {
        let state = State {
            tls,
            incoming: Vec::new(),
            out,
            sent: 0,
            ends: false,
            is_broken: false,
            opens: false,
            is_stopped: false,
        };
        Self { peer, plan, fault, state: RefCell::new(state) }
    }

    /// Writes the records there are. Ready: none are left.
    fn poll_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.state.borrow_mut();
        while state.tls.wants_write() {
            state.tls.write_tls(&mut state.out)?;
        }
        while !state.out.is_empty() {
            let opens = state.opens || state.tls.is_handshaking();
            let mut most = state.out.len().min(if opens { self.plan.piece } else { usize::MAX });
            if let Some(HandshakeFault::Stops(at) | HandshakeFault::Dies(at)) = self.fault {
                most = most.min(at.saturating_sub(state.sent));
            }
            match self.fault {
                Some(HandshakeFault::Dies(_)) if most == 0 => {
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
                Some(HandshakeFault::Stops(_)) if most == 0 => {
                    state.out.clear();
                    state.is_stopped = true;
                    break;
                }
                _ => {}
            }
            let count = ready!(self.peer.poll_write(cx, &state.out[..most]))?;
            state.out.drain(..count);
            state.sent += count;
        }
        if std::mem::take(&mut state.ends) {
            self.peer.shutdown_write();
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what has come next, which may be the end: 0.
    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        if state.incoming.is_empty() {
            ready!(self.peer.poll_read(cx, &mut state.incoming, 4096))?;
        }
        let count = state.incoming.len();
        let taken = state.take(self.fault == Some(HandshakeFault::WrongName));
        drop(state);
        if let Err(error) = taken {
            // The alert.
            let _ = self.poll_out(cx);
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(count))
    }
}

impl State {
    /// Takes some of the incoming bytes; none means the end. The plain bytes of before have been read: there is room for that many only.
    fn take(&mut self, refuses: bool) -> io::Result<()> {
        let count = self.tls.read_tls(&mut self.incoming.as_slice())?;
        self.incoming.drain(..count);
        let Err(error) = self.tls.process_new_packets() else { return Ok(()) };
        // The alert leaves; but for that of the other side, and a certificate that the plan refuses, there is nothing to be wrong.
        self.is_broken = true;
        let refuses = refuses && matches!(error, rustls::Error::InvalidCertificate(_));
        assert!(
            refuses || matches!(error, rustls::Error::AlertReceived(_)),
            "bytes: these are no records: {error}"
        );
        Err(io::Error::other(error))
    }
}

impl Line for Tls {
    fn poll_read(&self, cx: &mut Context<'_>, into: &mut Vec<u8>, most: usize) -> Poll<io::Result<usize>> {
        loop {
            // Its own messages leave, in every state.
            if let Poll::Ready(Err(error)) = self.poll_out(cx) {
                return Poll::Ready(Err(error));
            }
            let mut plain = vec![0; most.min(16 * 1024)];
            match self.state.borrow_mut().tls.reader().read(&mut plain) {
                Ok(count) => {
                    into.extend_from_slice(&plain[..count]);
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            if self.state.borrow().is_broken {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            ready!(self.poll_take(cx))?;
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.state.borrow().out.len() >= ENOUGH {
            ready!(self.poll_out(cx))?;
        }
        let count = self.state.borrow_mut().tls.writer().write(bytes)?;
        match self.poll_out(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_out(cx)
    }

    /// What ends it leaves with the next read, write or flush.
    fn shutdown_write(&self) {
        let mut state = self.state.borrow_mut();
        if self.plan.ending != Ending::Cuts {
            state.tls.send_close_notify();
        }
        state.ends = self.plan.ending != Ending::Notifies;
    }

    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if ready!(self.peer.poll_read(cx, &mut Vec::new(), 4096))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn reset(self: Box<Self>) {
        self.peer.reset();
    }

    fn peer(&self) -> &Peer {
        &self.peer
    }
}
