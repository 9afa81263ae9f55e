//! The front door for clients of HTTP/2: many streams on each connection, the edge, an app whose workers speak the wire.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{self, Faults, Rng, Settings};
use keepwarm_net::{ConnectionLimits, Endpoint, StopListening};

use crate::client::{BodyPlan, Outcome, RequestPlan};
use crate::frames::FramePlan;
use crate::front::{self, id};
use crate::http2_client::{self, Abandon, ClientPlan, End, StreamPlan};
use crate::pipe::{Cut, PipePlan};
use crate::plan::{self, Smaller};
use crate::response::Pace;
use crate::run::Scenario;
use crate::site;
use crate::sizes::edgy;
use crate::worker::{self, Reads, ResponsePlan, Responses, Seen, WorkerPlan};

/// A front door with its clients and workers.
#[derive(Debug, Clone)]
pub(crate) struct Http2 {
    seed: u64,
    settings: Settings,
    /// Nothing fails, and nobody misbehaves: every request has its response, whole.
    clean: bool,
    workers: usize,
    worker: WorkerPlan,
    max_body: Option<u64>,
    connections: usize,
    clients: Vec<(ClientPlan, Vec<ResponsePlan>)>,
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
        Self { seed, settings, clean, workers: 1 + rng.below(2), worker, max_body, connections, clients }
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn bound(&self) -> Duration {
        match self.clean {
            true if self.connections < self.clients.len() => {
                SCRIPTS * self.clients.len() as u32 + Duration::from_secs(10)
            }
            true => SCRIPTS + Duration::from_secs(10),
            // The longest time-out there is, and what follows; then that of the connections.
            false => SCRIPTS + Duration::from_secs(350) + self.pause(),
        }
    }

    fn memory(&self) -> usize {
        let streams: usize = self.clients.iter().map(|(plan, _)| plan.streams.len()).sum();
        (4 << 20) + self.clients.len() * (3 << 20) + streams * (1 << 20)
    }

    async fn play(self: Rc<Self>) {
        let seen = Rc::new(RefCell::new(Seen::default()));
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
        let limits =
            site::limits(self.clean, ConnectionLimits { http2: true, ..ConnectionLimits::default() });
        let (open, stops) =
            site::listen(&remotes, ADDRESS, site::edge(&app, self.max_body), limits, self.connections);
        site::visits(self.clients.len(), |number| {
            let plan = Rc::clone(&self);
            async move { plan.visit(number).await }
        })
        .await;
        stops.iter().for_each(StopListening::hand_over);
        let jump = self.settings.jump.map_or(Duration::ZERO, |(_, by)| by);
        let patience =
            if self.clean { Duration::from_secs(9) } else { Duration::from_secs(150) + self.pause() };
        let patience = patience + jump;
        site::until_closed(&open, patience).await;
        if self.clean {
            site::until_idle(&app).await;
        }
        plan::judge_seen(&seen.borrow(), 3, |at, stream| &self.clients[at].0.streams[stream].request);
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
    async fn visit(&self, number: usize) {
        let (client, responses) = &self.clients[number];
        let endpoint = Endpoint::Tcp(ADDRESS.parse().expect("an address"));
        let connect = async move { simulation::connect(&endpoint).ok() };
        let name = |stream| (id(number, stream), format!("/{number}/{stream}"));
        let seed = self.seed ^ number as u64;
        let ends = http2_client::run(Rc::new(client.clone()), connect, seed, name).await;
        for (stream, end) in ends.iter().enumerate() {
            let request = &client.streams[stream].request;
            match end {
                End::Whole(outcome) => {
                    self.check(&client.streams[stream], &responses[stream], outcome);
                }
                End::Wrong(wrong) => panic!("client {number}, stream {stream}: {wrong}"),
                // Its response may have begun before the body was too large.
                End::Broken(_) if self.is_too_large(request) && responses[stream].reads != Reads::Before => {}
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
            !too_large || response.reads != Reads::Before,
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
        let asks = request.expects && stream.waits && response.reads != Reads::Never;
        assert!(!asks || continued == 1, "the app asked for the body, its client was not told");
    }
}

/// The client says with its only request that no other follows, and takes longer to read the response than the server waits for one that reads nothing. What it sends
/// meanwhile, to make room, must not meet a closed socket.
fn part_slowly(rng: &mut Rng, (client, responses): &mut (ClientPlan, Vec<ResponsePlan>)) {
    client.streams.truncate(1);
    responses.truncate(1);
    let (stream, response) = (&mut client.streams[0], &mut responses[0]);
    stream.request =
        RequestPlan { method: "GET", body: BodyPlan::None, expects: false, ..stream.request.clone() };
    (stream.abandon, stream.sends_first, stream.reads) = (None, false, Pace::FAST);
    let body = rng.between(40_000, 60_000);
    *response = ResponsePlan {
        status: 200,
        body,
        frames: response.frames.map(|frames| frames.max(body / 300)),
        fault: worker::Fault::None,
        ..response.clone()
    };
    (client.window, client.becomes, client.connection_window) = (65_535, None, 65_535);
    client.frames = FramePlan { goaway: Some(1), ..FramePlan::PLAIN };
    let (every, pause) = (body / 8, Duration::from_millis(rng.between(300, 1200) as u64));
    client.pipe =
        PipePlan { reads: Pace { piece: every, every, pause }, writes: Pace::FAST, cut: None, stall: None };
}

/// Of [`expect_in_a_crowd`].
const SMALL_BODY: usize = 64;

/// More clients of an app with one request at a time expect `100 Continue` than it may keep waiting: some send slowly what they may; the bodies of the others, which did
/// not wait and are too large, are here when they are first asked for.
fn expect_in_a_crowd(rng: &mut Rng, (client, responses): &mut (ClientPlan, Vec<ResponsePlan>)) {
    for (number, (stream, response)) in client.streams.iter_mut().zip(responses).enumerate() {
        let is_first = number < 2;
        let size = if is_first { 1 + rng.below(SMALL_BODY) } else { rng.between(1, SMALL_BODY * 4) };
        let body = BodyPlan::Chunked { size, chunk: size, trailers: 0 };
        stream.request = RequestPlan { method: "POST", body, expects: true, ..stream.request.clone() };
        (stream.waits, stream.sends_first) = (is_first, false);
        stream.writes = match is_first {
            true => Pace { piece: 1 + size / 4, every: 1 + size / 4, pause: Duration::from_millis(50) },
            false => Pace::FAST,
        };
        if is_first {
            stream.start = Duration::ZERO;
        }
        response.reads = Reads::Before;
    }
}

/// What clients are drawn from.
struct Draw {
    settings: Settings,
    clean: bool,
    most: usize,
    quick: bool,
    may_send_first: bool,
    max_body: Option<u64>,
}

impl Draw {
    fn client(&self, rng: &mut Rng) -> (ClientPlan, Vec<ResponsePlan>) {
        let many = self.most > 1000 && rng.chance(200);
        let count = 1 + if many { rng.below(40) } else { rng.below(6) };
        let most = self.most / (count / 2).max(1);
        let pairs: Vec<_> = (0..count).map(|_| self.stream(rng, most)).collect();
        let sent: usize = pairs.iter().map(|(stream, _)| 200 + stream.request.body.size()).sum();
        let got: usize = pairs.iter().map(|(_, response)| 200 + response.body).sum();
        let (streams, responses): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let frames = self.frames(rng, &streams);
        // Each window update takes its time.
        let rounds = if self.quick && frames.late.is_zero() { 300 } else { 60 };
        let largest = responses.iter().map(|response| response.body).max().unwrap_or(0);
        let window = |rng: &mut Rng, sizes: &[u32]| (*rng.pick(sizes)).max((largest / rounds) as u32);
        let (window, becomes) = match rng.chance(150) {
            true => (0, Some(window(rng, &[1, 100, 65_535]))),
            false => (
                window(rng, &[1, 16, 1000, 16_384, 65_535, 1 << 20]),
                rng.chance(100).then(|| window(rng, &[1, 1000, 65_535])),
            ),
        };
        let mut plan = ClientPlan {
            start: Duration::from_millis(rng.size(100) as u64),
            window,
            becomes: becomes.map(|size| (Duration::from_millis(*rng.pick(&[0, 1, 50, 500])), size)),
            connection_window: *rng.pick(&[65_535, 65_535, 1 << 20, 16 << 20]),
            frames,
            pipe: self.pipe(rng, sent, got),
            streams,
        };
        if self.clean && plan.frames.goaway.is_some() {
            // Behind GOAWAY the server waits for the client's end only while that gets something every 2 s.
            plan.pipe.stall = None;
        }
        (plan, responses)
    }

    fn stream(&self, rng: &mut Rng, most: usize) -> (StreamPlan, ResponsePlan) {
        let mut request = front::request(rng, most);
        let response = front::response(rng, self.clean, (&self.settings, most));
        // A short body in one frame, which may come before anybody has asked for it.
        let at_once = request.has_body() && rng.chance(200);
        if at_once {
            let size = 1 + rng.below(most.min(1000));
            request.body = BodyPlan::Chunked { size, chunk: size, trailers: 0 };
        }
        let (sent, got) = (request.body.size(), response.body);
        let is_allowed = self.max_body.is_none_or(|most| sent as u64 <= most);
        // What nobody reads, or what is refused, is taken up to the window.
        let is_taken = (is_allowed && response.reads != Reads::Never) || sent < 64 * 1024;
        let abandon = rng.chance(if self.clean { 80 } else { 200 }).then(|| {
            let point = match rng.below(3) {
                0 if request.has_body() => Abandon::Sent(rng.below(sent + 1)),
                1 => Abandon::Head,
                _ => Abandon::Received(rng.below(got + 1)),
            };
            (point, rng.chance(500))
        });
        let plan = StreamPlan {
            start: Duration::from_millis(*rng.pick(&[0, 0, 0, 1, 30, 300])),
            writes: if at_once { Pace::FAST } else { Pace::draw(rng, sent) },
            reads: Pace::draw(rng, got),
            sends_first: self.may_send_first && is_taken && rng.chance(300),
            waits: !at_once && rng.chance(600),
            abandon,
            request,
        };
        (plan, response)
    }

    fn frames(&self, rng: &mut Rng, streams: &[StreamPlan]) -> FramePlan {
        if rng.chance(400) {
            return FramePlan::PLAIN;
        }
        let sent: usize = streams.iter().map(|stream| stream.request.body.size()).sum();
        let has_trailers =
            |stream: &StreamPlan| matches!(stream.request.body, BodyPlan::Chunked { trailers: 1.., .. });
        // Behind the last head: what is under way is answered.
        let at_end = Some(streams.len()).filter(|_| !streams.iter().any(has_trailers));
        let goaway = if self.clean { at_end } else { Some(1 + rng.below(streams.len())) };
        FramePlan {
            heads: *rng.pick(&[1, 2, 5]),
            pads: rng.chance(500),
            // The `h2` crate ends a connection with too many small frames that nobody has read yet.
            data: (*rng.pick(&[1, 100, 4000, usize::MAX])).max(if self.clean { sent / 1000 } else { 1 }),
            strays: *rng.pick(&[0, 100, 500]),
            late: Duration::from_millis(*rng.pick(&[0, 0, 1, 20])),
            goaway: goaway.filter(|_| rng.chance(100)),
            wrong: if !self.clean && rng.chance(200) { 30 } else { 0 },
        }
    }

    fn pipe(&self, rng: &mut Rng, sent: usize, got: usize) -> PipePlan {
        // The middle of the preface, of the first head, of anything.
        let points = [rng.below(26), rng.below(300), rng.below(sent)];
        let cuts = [Cut::Closes, Cut::Resets, Cut::HalfCloses, Cut::Stops];
        let cut = (*rng.pick(&points), cuts[rng.below(if self.clean { 2 } else { 4 })]);
        let longest = if self.clean { 500 } else { 100_000 };
        PipePlan {
            reads: Pace::draw(rng, got),
            writes: Pace::draw(rng, sent),
            cut: rng.chance(if self.clean { 100 } else { 300 }).then_some(cut),
            stall: rng
                .chance(100)
                .then(|| (edgy(rng, got), Duration::from_millis(rng.between(1, longest) as u64))),
        }
    }
}
