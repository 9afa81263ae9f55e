//! How clients reach a listener: over TLS or in plaintext, behind a proxy or not; and strangers, who get no further than their first bytes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::Endpoint;
use keepwarm_net::simulation::{self, Peer, Rng};
use keepwarm_serve::{Cidr, ListenerTls, ProxyProtocol};
use tokio::time::{sleep, timeout};

use crate::line::Line;
use crate::plan::Smaller;
use crate::proxy_header::{HeaderPlan, Named};
use crate::response::Broken;
use crate::tls::{self, HandshakeFault, TlsClient, TlsPlan};
use crate::worker::Observations;

/// How clients reach a listener.
#[derive(Debug, Clone)]
pub(crate) struct TransportPlan {
    /// Connections begin with a PROXY header.
    pub(crate) header: Option<HeaderPlan>,
    pub(crate) tls: Option<TlsPlan>,
    /// Time limits of a head, which that of a PROXY header is, and of a handshake.
    pub(crate) times: (Duration, Duration),
    pub(crate) strangers: Vec<StrangerPlan>,
}

/// A connection that never has a request.
#[derive(Debug, Clone)]
pub(crate) struct StrangerPlan {
    start: Duration,
    act: Act,
    /// It leaves by a reset, where it leaves.
    resets: bool,
}

/// What a stranger does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// After this many bytes nothing more comes.
    Stops(usize),
    /// It leaves after this many.
    Leaves(usize),
    /// It sends a request where a PROXY header or a handshake is due.
    Plaintext,
    /// It refuses the certificate.
    Refuses,
}

impl TransportPlan {
    /// In plaintext, without a proxy.
    pub(crate) const PLAIN: Self = Self {
        header: None,
        tls: None,
        times: (Duration::from_secs(10), Duration::from_secs(10)),
        strangers: Vec::new(),
    };

    /// One with TLS, or a PROXY header, or both. `crowded`: a stranger would keep a client from its place.
    pub(crate) fn draw(rng: &mut Rng, clean: bool, crowded: bool) -> Self {
        let by_proxy = rng.chance(500);
        let tls = (!by_proxy || rng.chance(500)).then(|| TlsPlan::draw(rng, true));
        let strangers = if crowded { 0 } else { *rng.pick(&[0, 0, 1, 2, 5]) };
        let strangers = (0..strangers).map(|_| StrangerPlan::draw(rng, tls.is_some())).collect();
        let short = [1, 3, 10].map(Duration::from_secs);
        let time = |rng: &mut Rng| if clean { short[2] } else { *rng.pick(&short) };
        let times = (time(rng), time(rng));
        Self { header: by_proxy.then(|| HeaderPlan::draw(rng)), tls, times, strangers }
    }

    pub(crate) fn smaller<P: Clone>(smaller: &mut Smaller<'_, P>, of: impl Fn(&mut P) -> &mut Self) {
        smaller.with(|plan| of(plan).strangers.pop().is_some());
        smaller.with(|plan| of(plan).strangers.len() > 1 && !of(plan).strangers.remove(0).start.is_zero());
        smaller.with(|plan| of(plan).header.as_mut().is_some_and(HeaderPlan::becomes_plain));
        TlsPlan::smaller(smaller, |plan| of(plan).tls.as_mut());
    }

    /// The time in which strangers are over.
    pub(crate) fn patience(&self) -> Duration {
        let last = self.strangers.iter().map(|stranger| stranger.start).max();
        last.map_or(Duration::ZERO, |last| last + self.times.0 + self.times.1 + CLOSING)
    }
}

/// A close may wait for its peer this long (2 s), and some more.
const CLOSING: Duration = Duration::from_secs(3);

impl StrangerPlan {
    fn draw(rng: &mut Rng, has_tls: bool) -> Self {
        let at = rng.size(2000);
        Self {
            start: Duration::from_millis(rng.size(1000) as u64),
            act: match rng.below(if has_tls { 6 } else { 5 }) {
                0 | 1 => Act::Stops(at),
                2 | 3 => Act::Leaves(at),
                4 => Act::Plaintext,
                _ => Act::Refuses,
            },
            resets: rng.chance(300),
        }
    }
}

/// The clients' side of a [`TransportPlan`].
pub(crate) struct Transport {
    plan: TransportPlan,
    pub(crate) address: SocketAddr,
    http2: bool,
    tls: Option<TlsClient>,
}

impl Transport {
    /// To a listener there. `http2`: the protocol, by ALPN under TLS.
    pub(crate) fn new(plan: &TransportPlan, address: &str, http2: bool) -> Rc<Self> {
        let alpn: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
        let tls = plan.tls.clone().map(|plan| TlsClient::new(plan, Some(alpn)));
        Rc::new(Self { plan: plan.clone(), address: address.parse().expect("an address"), http2, tls })
    }

    /// The listener's side.
    pub(crate) fn tls(&self) -> Option<ListenerTls> {
        self.tls.as_ref().map(|_| tls::listener(self.http2, self.plan.times.1))
    }

    /// The proxies that the listener trusts.
    pub(crate) fn proxy_protocol(&self) -> Option<ProxyProtocol> {
        let all = Cidr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        self.plan.header.as_ref().map(|_| ProxyProtocol::from_peers(all.into_iter().collect()))
    }

    /// The connection of a client, once a request can be sent.
    pub(crate) async fn connect(&self, number: usize) -> Result<Box<dyn Line>, Broken> {
        let endpoint = Endpoint::Tcp(self.address);
        let peer = simulation::connect(&endpoint).map_err(|_| Broken::Unreached)?;
        if let Some(header) = &self.plan.header
            && header.send(&peer, number).await.is_err()
        {
            return Err(if peer.delivered() > 0 { Broken::Ended } else { Broken::Idle });
        }
        match &self.tls {
            None => Ok(Box::new(peer)),
            Some(tls) => match tls.connect(peer).await {
                Ok(line) => Ok(Box::new(line)),
                Err(_) => Err(Broken::Cut("handshake")),
            },
        }
    }

    /// The address and scheme that an app must be told of a client's requests.
    fn expected(&self, number: usize) -> (IpAddr, &'static str) {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match self.plan.header.as_ref().map(|header| header.names(number)) {
            Some(Named::Client(address)) => (address, scheme),
            Some(Named::Nobody) | None => (DIRECT, scheme),
        }
    }

    /// The app was told the truth about each request's client.
    pub(crate) fn judge(&self, seen: &Observations) {
        for (id, (address, scheme)) in &seen.clients {
            let (expected, expected_scheme) = self.expected((id >> 16) as usize);
            assert_eq!(scheme, expected_scheme, "the scheme of {id:x}");
            assert_eq!(address.parse::<IpAddr>(), Ok(expected), "the client of {id:x}");
        }
    }

    /// Plays the strangers, to their ends.
    pub(crate) async fn strangers(self: Rc<Self>, jump: Duration) {
        let all: Vec<_> = (0..self.plan.strangers.len())
            .map(|number| tokio::task::spawn_local(Rc::clone(&self).stranger(number, jump)))
            .collect();
        for stranger in all {
            stranger.await.expect("a stranger");
        }
    }

    async fn stranger(self: Rc<Self>, number: usize, jump: Duration) {
        let plan = &self.plan.strangers[number];
        sleep(plan.start).await;
        let Ok(peer) = simulation::connect(&Endpoint::Tcp(self.address)) else { return };
        let header = self.plan.header.as_ref().map(|header| header.bytes(number)).unwrap_or_default();
        match plan.act {
            Act::Plaintext => {
                let whole = peer.write(REQUEST).await.is_ok();
                let said = self.read_to_end(&peer, jump).await;
                self.judge_plaintext(whole, &said);
            }
            Act::Stops(at) => {
                if let Some(peer) = self
                    .begin(peer, &header, (at, HandshakeFault::Stops(at.saturating_sub(header.len()))))
                    .await
                {
                    self.read_to_end(&peer, jump).await;
                }
            }
            Act::Leaves(at) => {
                let line = self
                    .begin(peer, &header, (at, HandshakeFault::Dies(at.saturating_sub(header.len()))))
                    .await;
                if let Some(peer) = line.filter(|_| plan.resets) {
                    peer.reset();
                }
            }
            Act::Refuses => {
                self.begin(peer, &header, (usize::MAX, HandshakeFault::WrongName)).await;
            }
        }
    }

    /// Sends the first of these many bytes of the header, and of what comes then, until it stops. `None`: the connection is over.
    async fn begin(&self, peer: Peer, header: &[u8], (at, fault): (usize, HandshakeFault)) -> Option<Peer> {
        peer.write(&header[..at.min(header.len())]).await.ok()?;
        if at < header.len() {
            return Some(peer);
        }
        let Some(tls) = &self.tls else {
            // Short of its end: it has no response. Without a byte, the connection is idle, and may be so for long.
            let rest = (at - header.len()).min(REQUEST.len() - 1);
            peer.write(&REQUEST[..rest]).await.ok()?;
            return (rest > 0).then_some(peer);
        };
        let line = tls.begin(peer, Some(fault));
        // How it ends is up to its plan.
        let _ = timeout(self.limit(), line.finish_handshake()).await;
        let stays = line.is_stopped() || !matches!(fault, HandshakeFault::Stops(_));
        stays.then(|| line.into_peer())
    }

    fn limit(&self) -> Duration {
        self.plan.times.0 + self.plan.times.1 + CLOSING
    }

    /// The listener ends the connection within its limits.
    async fn read_to_end(&self, peer: &Peer, jump: Duration) -> Vec<u8> {
        let mut said = Vec::new();
        let read = async { while let Ok(1..) = peer.read(&mut said, 4096).await {} };
        let ended = timeout(self.limit() + jump, read).await;
        assert!(ended.is_ok(), "a stranger is kept\n{}", simulation::describe());
        said
    }

    /// Without a PROXY header nothing is said; a listener with TLS says that it has it, unless a reset destroyed that.
    fn judge_plaintext(&self, whole: bool, said: &[u8]) {
        if self.plan.header.is_some() {
            assert!(said.is_empty(), "a response to a connection without its PROXY header");
        } else if whole && !said.is_empty() {
            let said = String::from_utf8_lossy(said);
            assert!(
                "HTTP/1.1 400 ".starts_with(&said[..said.len().min(13)]),
                "not the response for plaintext: {said:?}"
            );
        }
    }
}

/// The address of everybody in the simulation.
const DIRECT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// A request, as a stranger sends it.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
