//! The front door for clients of HTTP/2: many streams on each connection, the edge, an app whose workers speak the wire.

mod draw;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{Faults, Rng, Settings};
use keepwarm_serve::{ConnectionLimits, StopListening};

use crate::client::{Outcome, RequestPlan};
use crate::front::id;
use crate::http2_client::{self, ClientPlan, End, StreamPlan};
use crate::plan::{self, Smaller};
use crate::run::Scenario;
use crate::site;
use crate::transport::{Transport, TransportPlan};
use crate::worker::{self, BodyRead, Observations, ResponsePlan, Responses, WorkerPlan};
use draw::{Draw, SMALL_BODY, expect_in_a_crowd, part_slowly};

/// A front door with its clients and workers.
#[derive(Debug, Clone)]
pub(crate) struct Http2 {
    seed: u64,
    settings: Settings,
    /// Nothing fails, and every client behaves: every request has its response, whole.
    pub(crate) clean: bool,
    workers: usize,
    worker: WorkerPlan,
    max_body: Option<u64>,
    connections: usize,
    clients: Vec<(ClientPlan, Vec<ResponsePlan>)>,
    pub(crate) transport: TransportPlan,
}

const ADDRESS: &str = "192.0.2.10:80";
/// Scripts end by themselves within this.
const SCRIPTS: Duration = Duration::from_secs(14);

impl Scenario for Http2 {
    fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clean = rng.chance(600);
        let may_fail =
            Faults { no_buffers: 5, no_descriptor: 20, reset: 3, disk_full: 300, ..Faults::default() };
        let (mut settings, most) = plan::settings(&mut rng, clean, &may_fail);
        let mut worker = WorkerPlan::draw(&mut rng);
        let mut max_body = rng.chance(300).then(|| *rng.pick(&[most as u64 / 2, most as u64 / 16, 64]));
        let draw = Draw {
            settings: settings.clone(),
            clean,
            most,
            quick: settings.latency.is_zero(),
            // A response that its client does not read must not keep the worker from the body that the client sends meanwhile.
            may_send_first: worker.blocking || worker.streams == 100,
            max_body,
        };
        let mut clients: Vec<_> = (0..1 + rng.below(2)).map(|_| draw.client(&mut rng)).collect();
        let mut connections = if rng.chance(100) { 1 + rng.below(clients.len()) } else { 100 };
        match rng.below(16) {
            0 => {
                (settings.capacity, settings.latency) = ((128 * 1024, 512 * 1024), Duration::ZERO);
                (max_body, connections) = (None, 100);
                part_slowly(&mut rng, &mut clients[0]);
            }
            1 => {
                worker = WorkerPlan { blocking: true, streams: 1, ..worker };
                max_body = Some(SMALL_BODY as u64);
                expect_in_a_crowd(&mut rng, &mut clients[0]);
            }
            _ => {}
        }
        Self {
            seed,
            settings,
            clean,
            workers: 1 + rng.below(2),
            worker,
            max_body,
            connections,
            clients,
            transport: TransportPlan::PLAIN,
        }
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn bound(&self) -> Duration {
        let more = self.transport.patience();
        more + match self.clean {
            true if self.connections < self.clients.len() => {
                SCRIPTS * self.clients.len() as u32 + Duration::from_secs(10)
            }
            true => SCRIPTS + Duration::from_secs(10),
            // The longest timeout, and what follows; then that of the connections.
            false => SCRIPTS + Duration::from_secs(350) + self.pause(),
        }
    }

    fn memory(&self) -> usize {
        let streams: usize = self.clients.iter().map(|(plan, _)| plan.streams.len()).sum();
        (4 << 20) + self.clients.len() * (3 << 20) + streams * (1 << 20)
    }

    async fn play(self: Rc<Self>) {
        let seen = Rc::new(RefCell::new(Observations::default()));
        let plan = Rc::clone(&self);
        let responses: Responses = Rc::new(move |path| {
            let (client, request) = plan::place(path)?;
            Some((id(client, request), plan.clients.get(client)?.1.get(request)?.clone()))
        });
        let remotes = plan::remotes(1);
        let policy = site::policy(self.workers);
        let (worker, heard) = (self.worker.clone(), Rc::clone(&seen));
        let app = site::app(&remotes, policy, self.clean, move |peer, kill| {
            worker::run(peer, worker.clone(), Rc::clone(&responses), Rc::clone(&heard), kill)
        });
        let head_timeout = self.transport.times.0;
        let limits = ConnectionLimits { http2: true, head_timeout, ..ConnectionLimits::default() };
        let limits = site::limits(self.clean, limits);
        let transport = Transport::new(&self.transport, ADDRESS, true);
        let handler = site::edge(&app, self.max_body);
        let (open, stops) = site::listen_over(&transport, &remotes, handler, limits, self.connections);
        let jump = self.settings.jump.map_or(Duration::ZERO, |(_, by)| by);
        let strangers = tokio::task::spawn_local(Rc::clone(&transport).strangers(jump));
        site::visits(self.clients.len(), |number| {
            let (plan, transport) = (Rc::clone(&self), Rc::clone(&transport));
            async move { plan.visit(number, &transport).await }
        })
        .await;
        strangers.await.expect("strangers");
        stops.iter().for_each(StopListening::hand_over);
        let patience =
            if self.clean { Duration::from_secs(9) } else { Duration::from_secs(150) + self.pause() };
        let patience = patience + jump;
        site::until_closed(&open, patience).await;
        if self.clean {
            site::until_idle(&app).await;
        }
        plan::judge_observations(&seen.borrow(), 3, |at, stream| &self.clients[at].0.streams[stream].request);
        transport.judge(&seen.borrow());
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        smaller.with(|plan| plan.clients.len() > 1 && plan.clients.pop().is_some());
        for (at, (client, _)) in self.clients.iter().enumerate() {
            smaller.with(|plan| plan.clients[at].0.streams.pop().is_some());
            smaller.with(|plan| plan.clients[at].0.frames.becomes_plain());
            smaller.with(|plan| plan.clients[at].0.becomes.take().is_some());
            smaller.with(|plan| std::mem::replace(&mut plan.clients[at].0.window, 1 << 20) < 1 << 20);
            smaller.with(|plan| plan.clients[at].0.pipe.cut.take().is_some());
            smaller.with(|plan| plan.clients[at].0.pipe.stall.take().is_some());
            smaller.with(|plan| plan.clients[at].0.pipe.reads.becomes_fast());
            smaller.with(|plan| plan.clients[at].0.pipe.writes.becomes_fast());
            smaller.without_time(|plan| &mut plan.clients[at].0.start);
            for stream in 0..client.streams.len() {
                smaller.stream(|plan| {
                    let (client, responses) = &mut plan.clients[at];
                    (&mut client.streams[stream], &mut responses[stream])
                });
            }
        }
        smaller.with(|plan| std::mem::replace(&mut plan.workers, 1) > 1);
        smaller.with(|plan| std::mem::replace(&mut plan.connections, 100) < 100);
        smaller.with(|plan| plan.max_body.take().is_some());
        smaller.settings(|plan| &mut plan.settings);
        smaller.plans
    }
}

impl Smaller<'_, Http2> {
    fn stream(&mut self, of: impl Fn(&mut Http2) -> (&mut StreamPlan, &mut ResponsePlan)) {
        self.without_time(|plan| &mut of(plan).0.start);
        self.with(|plan| of(plan).0.abandon.take().is_some());
        self.with(|plan| std::mem::take(&mut of(plan).0.sends_first));
        self.with(|plan| of(plan).0.reads.becomes_fast());
        self.with(|plan| of(plan).0.writes.becomes_fast());
        self.with(|plan| of(plan).0.request.body.halve());
        self.with(|plan| std::mem::take(&mut of(plan).0.request.expects));
        self.with(|plan| std::mem::take(&mut of(plan).1.informs) > 0);
        self.with(|plan| std::mem::take(&mut of(plan).1.trailers) > 0);
        self.half(|plan| &mut of(plan).1.body);
        self.without_time(|plan| &mut of(plan).1.delay);
        self.without_time(|plan| &mut of(plan).1.pause);
    }
}

impl Http2 {
    /// Its requests have the scheme of their connections.
    pub(crate) fn speaks_over_tls(&mut self) {
        let scheme = if self.transport.tls.is_some() { "https" } else { "http" };
        for (client, _) in &mut self.clients {
            client.scheme = scheme;
            // Bytes leave the socket a record at a time: between two, there is less time than a server waits for a client that receives nothing (2 s).
            client.pipe.reads.pause = client.pipe.reads.pause.min(Duration::from_millis(400));
        }
    }

    async fn visit(&self, number: usize, transport: &Transport) {
        let (client, responses) = &self.clients[number];
        let name = |stream| (id(number, stream), format!("/{number}/{stream}"));
        let seed = self.seed ^ number as u64;
        let ends = http2_client::run(Rc::new(client.clone()), transport.connect(number), seed, name).await;
        for (stream, end) in ends.iter().enumerate() {
            let request = &client.streams[stream].request;
            match end {
                End::Whole(outcome) => {
                    self.check(&client.streams[stream], &responses[stream], outcome);
                }
                End::Wrong(wrong) => panic!("client {number}, stream {stream}: {wrong}"),
                // Its response may have begun before the body was too large.
                End::Broken(_)
                    if self.is_too_large(request) && responses[stream].reads != BodyRead::Before => {}
                End::Broken(why) if self.clean && client.stays() && !self.may_end_early() => {
                    panic!("client {number}, stream {stream}: no whole response: {why}")
                }
                End::Broken(_) | End::Left => {}
            }
        }
    }

    /// What was sent quickly buys its client a pause, at the least rate that a body may have.
    fn pause(&self) -> Duration {
        let bodies = self.clients.iter().flat_map(|(client, _)| &client.streams);
        let largest = bodies.map(|stream| stream.request.body.size()).max().unwrap_or(0);
        Duration::from_secs(largest as u64 / u64::from(ConnectionLimits::default().body_rate))
    }

    /// Whether there may be no place for one more client.
    pub(crate) fn is_limited(&self) -> bool {
        self.connections < 100
    }

    /// At the limit a connection makes room for the next.
    fn may_end_early(&self) -> bool {
        self.connections < self.clients.len()
    }

    fn is_too_large(&self, request: &RequestPlan) -> bool {
        self.max_body.is_some_and(|most| request.body.size() as u64 > most)
    }

    fn check(&self, stream: &StreamPlan, response: &ResponsePlan, outcome: &Outcome) {
        let request = &stream.request;
        let too_large = self.is_too_large(request);
        let status = outcome.head.status;
        if outcome.head.field("x-id").is_none() {
            assert!(status != 413 || too_large, "413 for a body of {}", request.body.size());
            assert!(status == 413 || !self.clean, "not the app's response: {outcome:?}");
            return;
        }
        assert!(
            !too_large || response.reads != BodyRead::Before,
            "the app has read {} bytes",
            request.body.size()
        );
        assert_eq!(status, response.status, "the status of another");
        let bodiless = request.method == "HEAD" || matches!(status, 204 | 304);
        let whole = if bodiless { 0 } else { response.body };
        assert_eq!(outcome.body, whole, "a body that is not whole looks whole");
        if request.takes_trailers && !bodiless {
            assert_eq!(outcome.trailers, response.trailers, "trailers are missing: {response:?} {outcome:?}");
        }
        let continued = outcome.informs.iter().filter(|status| **status == 100).count();
        assert!(continued <= 1, "100 Continue came {continued} times");
        assert!(outcome.informs.len() - continued <= response.informs, "more 1xx than were sent");
        // It asks before it responds.
        let asks = request.expects && stream.waits && response.reads != BodyRead::Never;
        assert!(!asks || continued == 1, "the app asked for the body, its client was not told");
    }
}
