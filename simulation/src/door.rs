//! The back door: clients of HTTP/1.1, a door or a route, an upstream whose origin is a script; and tunnels through it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_edge::{Edge, Route, Site, Target};
use keepwarm_egress::{
    Door as DoorHandler, Source, SourceAddress, Upstream, UpstreamRoute, UpstreamSettings,
};
use keepwarm_net::simulation::{self, Faults, PeerListener, Rng, Settings};
use keepwarm_net::{Endpoint, Protocol, Scheme};
use keepwarm_serve::{ConnectionLimits, ForwardingPolicy, Frontend, StopListening};

use crate::client::{self, BodyPlan, ClientPlan, Disconnect, RequestPlan};
use crate::front::{self, Expected, id};
use crate::http2_origin::{self, Http2Plan};
use crate::line;
use crate::origin::{self, Framing, Noise, OriginPlan, Plans};
use crate::plan::{self, Smaller, WIDE};
use crate::run::Scenario;
use crate::site;
use crate::sizes::near_boundary;
use crate::tls::{self, Ending, TlsPlan, TlsServer};
use crate::tunnel::TunnelPlan;
use crate::worker::{BodyRead, Fault, Observations};
use tokio::task::JoinHandle;

/// A back door with its clients and its origin.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    seed: u64,
    settings: Settings,
    pub(crate) clean: bool,
    /// A route of a listener leads to the upstream, with this buffering; `None`: a door.
    route: Option<(Option<bool>, Option<bool>)>,
    connections: Option<u32>,
    /// Data-plane threads.
    threads: usize,
    pub(crate) clients: Vec<(ClientPlan, Vec<OriginPlan>)>,
    pub(crate) transport: OriginTransport,
}

/// The origin's protocol.
#[derive(Debug, Clone)]
pub(crate) struct OriginTransport {
    pub(crate) protocol: Protocol,
    /// Under TLS it chooses the protocol by ALPN.
    pub(crate) alpn: bool,
    pub(crate) tls: Option<TlsPlan>,
    /// `None`: HTTP/1.1.
    pub(crate) http2: Option<Http2Plan>,
    /// Connections to it, at most.
    pub(crate) connections: Option<usize>,
}

impl OriginTransport {
    /// HTTP/1.1 in plaintext.
    const PLAIN: Self =
        Self { protocol: Protocol::Auto, alpn: false, tls: None, http2: None, connections: None };
}

const ADDRESS: &str = "127.0.0.1:6102";
const ORIGIN: &str = "192.0.2.20:80";
const SCRIPTS: Duration = Duration::from_secs(10);

impl Scenario for Door {
    fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clean = rng.chance(600);
        let may_fail = Faults {
            no_descriptor: 20,
            reset: 3,
            refused: 50,
            silent: 20,
            disk_full: 300,
            ..Faults::default()
        };
        let (mut settings, most) = plan::settings(&mut rng, clean, &may_fail);
        let clients = (0..1 + rng.below(4)).map(|_| {
            let (mut client, mut responses) = front::client(&mut rng, clean, most, |rng| {
                let response = response(rng, clean, (&settings, most));
                let body = response.body;
                (response, body)
            });
            let wide = settings.capacity.0 >= WIDE;
            if rng.chance(if wide { 350 } else { 250 }) {
                // Beyond all pipes on their way, and what may be unsent.
                let mut size = || match wide && rng.chance(700) {
                    true => rng.between(200 << 10, settings.capacity.1 * 5),
                    false => near_boundary(&mut rng, most),
                };
                let sizes = (size(), size());
                let last = responses.len() - 1;
                tunnel_at_the_end(&mut rng, sizes, &mut client, &mut responses[last]);
            }
            (client, responses)
        });
        let mut clients: Vec<_> = clients.collect();
        let some = |rng: &mut Rng| *rng.pick(&[None, None, Some(true), Some(false)]);
        let route = rng.chance(500).then(|| (some(&mut rng), some(&mut rng)));
        if matches!(route, Some((Some(true), _))) && rng.chance(500) {
            plan::spill(&mut rng, plan::large(&settings), &mut clients);
        }
        if !clean && rng.chance(150) {
            settings.faults.reset = 3 * may_fail.reset;
            respond_early(&mut rng, most, &mut clients[0]);
        }
        Self {
            seed,
            settings,
            clean,
            route,
            connections: *rng.pick(&[None, None, Some(1), Some(2)]),
            threads: plan::threads(&mut rng),
            clients,
            transport: OriginTransport::PLAIN,
        }
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn bound(&self) -> Duration {
        match self.clean {
            true => SCRIPTS + Duration::from_secs(15),
            // A tunnel without a word, and what else may take its time.
            false => SCRIPTS + Duration::from_secs(500),
        }
    }

    fn memory(&self) -> usize {
        let disk = plan::on_disk(&self.clients, |response| response.body);
        (4 << 20) + self.clients.len() * (5 << 20) + disk
    }

    async fn play(self: Rc<Self>) {
        let remotes = plan::remotes(self.threads);
        let origin: SocketAddr = ORIGIN.parse().expect("an address");
        let source = Source {
            address: SourceAddress::Address(origin),
            authority: ORIGIN.into(),
            weight: 1,
            priority: 0,
        };
        let scheme = if self.transport.tls.is_some() { Scheme::Https } else { Scheme::Http };
        let mut settings = UpstreamSettings::new(scheme, vec![source]);
        settings.protocol = self.transport.protocol;
        settings.limits.queue_timeout = Duration::from_secs(60);
        if let Some(most) = self.connections {
            settings.pool.max_in_all = most as usize;
        }
        if let Some(most) = self.transport.connections {
            settings.pool.max = most;
        }
        let upstream = Upstream::new("search", settings);
        upstream.set_tls(self.transport.tls.is_some().then(tls::client));
        assert!(upstream.publish_literal(), "an address needs no look-up");
        let seen = Rc::new(RefCell::new(Observations::default()));
        let plan = Rc::clone(&self);
        let plans: Plans = Rc::new(move |path| {
            let (client, request) = plan::place(path)?;
            Some((id(client, request), plan.clients.get(client)?.1.get(request)?.clone()))
        });
        let listener = simulation::listen(Endpoint::Tcp(origin)).expect("nobody listens there");
        let server = self.origin(listener, plans, Rc::clone(&seen));
        let counts = tokio::task::spawn_local(count(Arc::clone(&upstream)));

        let (open, stops) = site::listen(
            &remotes,
            ADDRESS,
            self.handler(&upstream),
            site::limits(self.clean, ConnectionLimits::default()),
            100,
        );
        site::visits(self.clients.len(), |number| {
            let plan = Rc::clone(&self);
            async move { plan.visit(number).await }
        })
        .await;
        stops.iter().for_each(StopListening::hand_over);
        if self.clean {
            site::until_closed(&open, Duration::from_secs(9)).await;
            let (in_flight, waiting) = upstream.in_work();
            assert_eq!((in_flight, waiting), (0, 0), "calls that nobody waits for");
            let pool = upstream.calls().state(None);
            assert_eq!((pool.in_use, pool.waiting), (0, 0), "connections that nobody has any more");
        }
        plan::judge_observations(&seen.borrow(), usize::MAX, |at, request| {
            &self.clients[at].0.requests[request]
        });
        assert!(!counts.is_finished(), "what counts has found something");
        counts.abort();
        server.abort();
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        smaller.clients(|plan| &mut plan.clients, &self.clients);
        for (at, (_, responses)) in self.clients.iter().enumerate() {
            for request in 0..responses.len() {
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].informs) > 0);
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].trailers) > 0);
                smaller.without_time(|plan| &mut plan.clients[at].1[request].pause);
                smaller.without_time(|plan| &mut plan.clients[at].1[request].delay);
                smaller.half(|plan| &mut plan.clients[at].1[request].body);
            }
        }
        smaller.with(|plan| std::mem::replace(&mut plan.threads, 1) > 1);
        smaller.with(|plan| plan.connections.take().is_some());
        smaller.with(|plan| plan.route.take().is_some());
        smaller.settings(|plan| &mut plan.settings);
        smaller.plans
    }
}

impl Door {
    fn handler(&self, upstream: &Arc<Upstream>) -> Arc<dyn Frontend> {
        let Some((buffer_request, buffer_response)) = self.route else {
            return Arc::new(DoorHandler::new(Arc::clone(upstream), None));
        };
        let mut route = Route::to(Target::App {
            name: "search".into(),
            handler: Arc::new(UpstreamRoute::new(Arc::clone(upstream))),
        });
        route.passing = ForwardingPolicy { buffer_request, buffer_response, ..ForwardingPolicy::default() };
        Arc::new(Edge::new(Site::new(vec![route], Vec::new())))
    }

    fn origin(
        &self,
        listener: PeerListener,
        plans: Plans,
        seen: Rc<RefCell<Observations>>,
    ) -> JoinHandle<()> {
        let name: &[u8] = if self.transport.http2.is_some() { b"h2" } else { b"http/1.1" };
        let tls = self.transport.tls.clone();
        let tls = tls.map(|plan| TlsServer::new(plan, self.transport.alpn.then_some(name)));
        match self.transport.http2.clone() {
            Some(plan) => {
                tokio::task::spawn_local(http2_origin::serve(listener, tls, plan, self.seed, plans, seen))
            }
            None => tokio::task::spawn_local(origin::serve(listener, tls, plans, seen)),
        }
    }

    /// Whether a body that only a close ends may have been cut off before, and look whole.
    fn may_look_whole(&self, response: &OriginPlan) -> bool {
        // HTTP/2 and TLS say an end.
        let told = match &self.transport.tls {
            Some(tls) => tls.ending != Ending::Cuts && response.noise == Some(Noise::Inside),
            None => response.fault == Fault::DiesInside || response.noise == Some(Noise::Inside),
        };
        told && response.framing == Framing::Close && self.transport.http2.is_none()
    }

    async fn visit(&self, number: usize) {
        let (plan, responses) = &self.clients[number];
        let broken = client::run(
            plan,
            line::connect(ADDRESS.parse().expect("an address")),
            self.seed,
            |request| (id(number, request), format!("/{number}/{request}")),
            |request, outcome| {
                let response = &responses[request];
                let chunked = matches!(response.framing, Framing::Chunked(_));
                let trailers = if chunked { response.trailers } else { 0 };
                let body = if self.may_look_whole(response) { outcome.body } else { response.body };
                let expected = Expected { status: response.status, body, trailers };
                if !expected.check(&plan.requests[request], outcome) {
                    let ok = plan.requests[request].is_broken();
                    assert!(!self.clean || ok, "not the origin's response: {outcome:?}");
                }
            },
        )
        .await;
        plan::judge(number, plan, broken, self.clean, self.may_end_early(number));
    }

    /// Whether a response ends the connection before the last request.
    fn may_end_early(&self, number: usize) -> bool {
        let (plan, responses) = &self.clients[number];
        responses
            .iter()
            .zip(&plan.requests)
            .any(|(response, request)| response.reads != BodyRead::Before && request.has_body())
    }
}

/// A call that waits for a connection, or has one, is under way.
async fn count(upstream: Arc<Upstream>) {
    let mut pause = Duration::from_millis(1);
    loop {
        tokio::time::sleep(pause).await;
        pause += pause / 50;
        let (pool, calls) = (upstream.calls().state(None), upstream.in_work().0);
        assert!(
            pool.waiting + pool.in_use <= calls,
            "{} calls wait for a connection and {} connections are in use, of {calls} calls",
            pool.waiting,
            pool.in_use
        );
    }
}

/// Responses begin while their requests' bodies are still on their way, and a close ends them.
fn respond_early(rng: &mut Rng, most: usize, (client, responses): &mut (ClientPlan, Vec<OriginPlan>)) {
    let both = client.requests.iter_mut().zip(responses);
    for (request, response) in both.filter(|(request, _)| request.tunnel.is_none() && !request.is_broken()) {
        request.method = "PUT";
        request.body = BodyPlan::Length(most / 2 + near_boundary(rng, most / 2));
        (response.reads, response.framing, response.status) = (BodyRead::Beside, Framing::Close, 200);
        (response.fault, response.noise, response.pause) = (Fault::None, None, Duration::from_millis(1));
        response.piece = response.piece.min(1 + response.body / 10).max(response.body / 300);
    }
    let bytes: usize = client.requests.iter().map(|request| request.body.size()).sum();
    client.piece = client.piece.max(bytes / 500);
    client.every = client.every.min(bytes / 4).max(bytes / 8);
    client.pause = Duration::from_millis(1 + rng.below(50) as u64);
}

/// The last request of a client becomes a tunnel, through which this many bytes go both ways.
pub(crate) fn tunnel_at_the_end(
    rng: &mut Rng,
    sizes: (usize, usize),
    client: &mut ClientPlan,
    response: &mut OriginPlan,
) {
    let (ours, theirs) = TunnelPlan::draw(rng, sizes);
    let last = client.requests.len() - 1;
    client.requests[last] = RequestPlan {
        method: "GET",
        body: BodyPlan::None,
        expects: false,
        takes_trailers: false,
        tunnel: Some(ours),
    };
    response.tunnel = Some(theirs);
    client.pipelines = false;
    if matches!(client.leave, Disconnect::HalfCloses | Disconnect::AfterBrokenBody) {
        client.leave = Disconnect::Never;
    }
}

pub(crate) fn response(rng: &mut Rng, clean: bool, (settings, most): (&Settings, usize)) -> OriginPlan {
    let body = plan::response_size(rng, settings, most);
    let fault = match rng.below(if clean { 1 } else { 16 }) {
        1 => Fault::DiesBefore,
        2 => Fault::DiesInside,
        3 => Fault::Hangs,
        _ => Fault::None,
    };
    let status = *rng.pick(&[200, 200, 200, 404, 500, 204, 304]);
    let framing = match rng.below(3) {
        0 => Framing::Length,
        1 => Framing::Chunked((1 + rng.size(body)).max(body / 300)),
        // Without a body there is nothing that a close could end.
        _ if matches!(status, 204 | 304) => Framing::Length,
        _ => Framing::Close,
    };
    OriginPlan {
        status,
        informs: *rng.pick(&[0, 0, 0, 1, 3]),
        delay: Duration::from_millis(*rng.pick(&[0, 0, 1, 10, 200])),
        reads: *rng.pick(&[
            BodyRead::Before,
            BodyRead::Before,
            BodyRead::Before,
            BodyRead::Beside,
            BodyRead::Never,
        ]),
        body,
        framing,
        piece: (1 + rng.size(body)).max(body / 300),
        pause: Duration::from_millis(*rng.pick(&[0, 0, 0, 1])),
        trailers: *rng.pick(&[0, 0, 0, 1, 3]),
        fill: 0,
        hands: false,
        closes: *rng.pick(&[None, None, None, Some(true)]),
        tunnel: None,
        fault,
        noise: (!clean && rng.chance(300)).then(|| *rng.pick(&[Noise::Head, Noise::Inside, Noise::Behind])),
    }
}
