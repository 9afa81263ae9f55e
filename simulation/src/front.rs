//! The front door: clients of HTTP/1.1, the edge, an app whose workers speak the wire.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{self, Faults, Rng, Settings};
use keepwarm_serve::{ConnectionLimits, StopListening};
use keepwarm_workers::dispatch::AppPolicy;

use crate::client::{self, BodyPlan, ClientPlan, Disconnect, RequestPlan};
use crate::plan::{self, Smaller};
use crate::response::{Broken, Pace};
use crate::run::Scenario;
use crate::site;
use crate::sizes::near_boundary;
use crate::subrequest::OwnRequests;
use crate::tls::Ending;
use crate::transport::{Transport, TransportPlan};
use crate::worker::{self, BodyRead, Fault, Observations, ResponseKind, ResponsePlan, Responses, WorkerPlan};

/// A front door with its clients and workers.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    seed: u64,
    settings: Settings,
    /// Nothing fails, and every client behaves: every request has its response, whole.
    pub(crate) clean: bool,
    /// Data-plane threads.
    threads: usize,
    workers: usize,
    worker: WorkerPlan,
    /// Timeouts of the queue and of a request, and the time after which a request is reported as slow.
    times: (Duration, Duration, Option<Duration>),
    max_body: Option<u64>,
    connections: usize,
    /// After this time the reactor refuses the next registrations of workers' sockets, this many.
    refused: Option<(Duration, u32)>,
    pub(crate) clients: Vec<(ClientPlan, Vec<ResponsePlan>)>,
    pub(crate) transport: TransportPlan,
    /// The route compresses responses.
    pub(crate) compresses: bool,
    /// Requests of Keepwarm itself about those of clients.
    pub(crate) own: OwnRequests,
}

const ADDRESS: &str = "192.0.2.10:80";
/// Scripts end by themselves within this.
const SCRIPTS: Duration = Duration::from_secs(8);

impl Scenario for Front {
    fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clean = rng.chance(600);
        let may_fail =
            Faults { no_buffers: 5, no_descriptor: 20, reset: 3, disk_full: 300, ..Faults::default() };
        let (mut settings, mut most) = plan::settings(&mut rng, clean, &may_fail);
        let mut worker = WorkerPlan::draw(&mut rng);
        let crowded = rng.chance(150);
        if crowded {
            most = plan::crowd(&mut settings, if clean { 0 } else { may_fail.disk_full });
        }
        // Sometimes fewer connections than clients: the others wait in the kernel.
        let short = rng.chance(250);
        let count = if short { 2 + rng.below(5) } else { 1 + rng.below(4) };
        let clients = (0..count).map(|_| {
            client(&mut rng, clean, most, |rng| {
                let response = response(rng, clean, (&settings, most));
                let body = response.body;
                (response, body)
            })
        });
        let mut clients: Vec<_> = clients.collect();
        if crowded && rng.chance(600) {
            worker = WorkerPlan { blocking: true, streams: 1, ..worker };
            plan::read_slowly(&mut rng, plan::large(&settings), &mut clients[0], |response, size| {
                (response.body, response.status, response.fault) = (size, 200, Fault::None);
                response.frames = response.frames.map(|frames| frames.max(size / 300));
            });
        } else if crowded {
            worker = WorkerPlan { blocking: false, streams: 100, ahead: 0, ..worker };
            read_late(&mut rng, most, &mut clients);
        } else if rng.chance(100) {
            read_late(&mut rng, most, &mut clients);
        }
        let connections = if short { 1 + rng.below(clients.len() - 1) } else { 100 };
        Self {
            seed,
            settings,
            clean,
            workers: 1 + rng.below(2),
            worker,
            times: times(&mut rng, clean),
            max_body: rng.chance(300).then_some(most as u64 * 2),
            connections,
            threads: plan::threads(&mut rng),
            refused: rng
                .chance(150)
                .then(|| (Duration::from_millis(rng.size(1000) as u64), 1 + rng.below(12) as u32)),
            clients,
            transport: TransportPlan::PLAIN,
            compresses: false,
            own: OwnRequests::default(),
        }
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn bound(&self) -> Duration {
        let more = self.transport.patience();
        more + match self.clean {
            // One after the other, where they do not all find room at once.
            true if self.is_short() => SCRIPTS * self.clients.len() as u32 + Duration::from_secs(10),
            true => SCRIPTS + Duration::from_secs(10),
            // The longest timeout, and what follows.
            false => SCRIPTS + Duration::from_secs(200),
        }
    }

    fn memory(&self) -> usize {
        let disk = plan::on_disk(&self.clients, |response| response.body);
        (4 << 20) + self.clients.len() * (3 << 20) + disk
    }

    async fn play(self: Rc<Self>) {
        let remotes = plan::remotes(self.threads);
        let (queue_timeout, request_timeout, slow_log) = self.times;
        let policy = || AppPolicy { queue_timeout, request_timeout, slow_log, ..site::policy(self.workers) };
        let seen = Rc::new(RefCell::new(Observations::default()));
        let plan = Rc::clone(&self);
        let responses: Responses = Rc::new(move |path| {
            let (client, request) = plan::place(path)?;
            Some((id(client, request), plan.clients.get(client)?.1.get(request)?.clone()))
        });
        let start = |responses: Responses, heard: &Rc<RefCell<Observations>>| {
            let (worker, heard) = (self.worker.clone(), Rc::clone(heard));
            site::app(&remotes, policy(), self.clean, move |peer, kill| {
                worker::run(peer, worker.clone(), Rc::clone(&responses), Rc::clone(&heard), kill)
            })
        };
        let app = start(responses, &seen);
        let copied = |path: &str| plan::place(path).map(|(client, request)| id(client, request));
        let own = self.own.start(copied, start);
        let limits = ConnectionLimits { head_timeout: self.transport.times.0, ..ConnectionLimits::default() };
        let limits = site::limits(self.clean, limits);
        let inner = own.around(site::handler(&app), self.clean);
        let handler = site::edge_of(&app.name, inner, self.max_body, self.compresses);
        let transport = Transport::new(&self.transport, ADDRESS, false);
        let (open, stops) = site::listen_over(&transport, &remotes, handler, limits, self.connections);
        let jump = self.settings.jump.map_or(Duration::ZERO, |(_, by)| by);
        let strangers = tokio::task::spawn_local(Rc::clone(&transport).strangers(jump));
        if let Some((after, count)) = self.refused {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(after).await;
                simulation::refuse_watches(count);
            });
        }
        site::visits(self.clients.len(), |number| {
            let (plan, transport) = (Rc::clone(&self), Rc::clone(&transport));
            async move { plan.visit(number, &transport).await }
        })
        .await;
        strangers.await.expect("strangers");
        stops.iter().for_each(StopListening::hand_over);
        if self.clean {
            site::until_closed(&open, Duration::from_secs(9)).await;
            site::until_idle(&app).await;
            own.until_idle().await;
        }
        for seen in [seen, own.seen] {
            plan::judge_observations(&seen.borrow(), 3, |at, request| &self.clients[at].0.requests[request]);
            transport.judge(&seen.borrow());
        }
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        smaller.clients(|plan| &mut plan.clients, &self.clients);
        for (at, (_, responses)) in self.clients.iter().enumerate() {
            for request in 0..responses.len() {
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].informs) > 0);
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].trailers) > 0);
                smaller.half(|plan| &mut plan.clients[at].1[request].body);
                smaller.without_time(|plan| &mut plan.clients[at].1[request].delay);
            }
        }
        smaller.with(|plan| std::mem::replace(&mut plan.threads, 1) > 1);
        smaller.with(|plan| std::mem::replace(&mut plan.workers, 1) > 1);
        smaller.with(|plan| std::mem::replace(&mut plan.connections, 100) < 100);
        smaller.with(|plan| plan.times.2.take().is_some());
        smaller.with(|plan| plan.refused.take().is_some());
        smaller.settings(|plan| &mut plan.settings);
        smaller.plans
    }
}

impl Front {
    /// Under TLS, clients read what a handshake brings, and say an end where they have one.
    pub(crate) fn speaks_over_tls(&mut self) {
        // Tickets follow a handshake, and its end waits until they have left: a client that reads nothing needs room for them.
        const TICKETS: usize = 2048;
        let Some(tls) = &mut self.transport.tls else { return };
        if self.settings.capacity.0 < TICKETS {
            self.clients.iter_mut().for_each(|(client, _)| client.late = false);
        }
        // A FIN without close_notify means a connection that was cut off (RFC 8446 §6.1).
        if self.clean && tls.ending == Ending::Cuts {
            tls.ending = Ending::Whole;
        }
    }

    async fn visit(&self, number: usize, transport: &Transport) {
        let (plan, responses) = &self.clients[number];
        let broken = client::run(
            plan,
            transport.connect(number),
            self.seed,
            |request| (id(number, request), format!("/{number}/{request}")),
            |request, outcome| self.check(&plan.requests[request], &responses[request], outcome),
        )
        .await;
        match broken {
            // At the limit a silent client makes room.
            Some(Broken::Idle) if self.is_short() => {}
            broken => plan::judge(number, plan, broken, self.clean, self.may_end_early(number)),
        }
    }

    /// Whether there may be no place for one more client.
    pub(crate) fn is_limited(&self) -> bool {
        self.connections < 100
    }

    /// Whether there are fewer connections than clients.
    fn is_short(&self) -> bool {
        self.connections < self.clients.len()
    }

    /// Whether a response may end the connection before the last request.
    fn may_end_early(&self, number: usize) -> bool {
        let (plan, responses) = &self.clients[number];
        // At the limit a connection makes room for the next with its response.
        if self.is_short() {
            return true;
        }
        responses.iter().zip(&plan.requests).any(|(response, request)| {
            // The head says so when it leaves before the body has come.
            let unread = response.reads != BodyRead::Before && request.has_body();
            response.close || unread || self.max_body.is_some_and(|most| request.body.size() as u64 > most)
        })
    }

    /// A response that is long enough is compressed if it can be.
    fn check_coding(&self, request: &RequestPlan, response: &ResponsePlan, outcome: &client::Outcome) {
        let is_coded = outcome.head.field("content-encoding").is_some();
        let is_ours = outcome.head.field("x-id").is_some_and(|whose| whose != "wild");
        let is_text = self.compresses && response.kind != ResponseKind::Plain;
        let is_long = response.body >= 1024 && response.status != 204 && response.status != 304;
        let must = is_text && is_ours && is_long && request.method != "HEAD";
        assert!(is_coded || !must, "not compressed: {outcome:?}");
        assert!(!is_coded || is_text || !is_ours, "compressed: {outcome:?}");
    }

    fn check(&self, request: &RequestPlan, response: &ResponsePlan, outcome: &client::Outcome) {
        self.check_coding(request, response, outcome);
        let expected = Expected { status: response.status, body: response.body, trailers: response.trailers };
        if !expected.check(request, outcome) {
            let ok = outcome.head.status == 413 || request.is_broken();
            assert!(!self.clean || ok, "not the app's response: {outcome:?}");
            return;
        }
        // It asks before it responds.
        let asks = request.expects && response.reads != BodyRead::Never;
        assert!(
            !asks || outcome.informs.contains(&100),
            "the app asked for the body, its client was not told"
        );
    }
}

/// The response of an app or origin as a client must see it.
pub(crate) struct Expected {
    pub(crate) status: u16,
    pub(crate) body: usize,
    pub(crate) trailers: usize,
}

impl Expected {
    /// `false`: the response is not the app's, but an error of Keepwarm.
    pub(crate) fn check(&self, request: &RequestPlan, outcome: &client::Outcome) -> bool {
        if outcome.head.field("x-id").is_none_or(|whose| whose == "wild") {
            return false;
        }
        assert_eq!(outcome.head.status, self.status, "the status of another");
        let bodiless = request.method == "HEAD" || matches!(self.status, 204 | 304);
        let whole = if bodiless { 0 } else { self.body };
        assert_eq!(outcome.body, whole, "a body that is not whole looks whole");
        let chunked = outcome.head.field("transfer-encoding").is_some();
        if request.takes_trailers && chunked && !bodiless {
            assert_eq!(outcome.trailers, self.trailers, "trailers are missing");
        }
        let continued = outcome.informs.iter().filter(|status| **status == 100).count();
        assert!(continued <= 1, "100 Continue came {continued} times");
        true
    }
}

pub(crate) fn id(client: usize, request: usize) -> u64 {
    (client as u64) << 16 | request as u64
}

/// A client, and the plan of each of its responses: drawn by `response`, which also returns the size of its body.
pub(crate) fn client<R>(
    rng: &mut Rng,
    clean: bool,
    most: usize,
    response: impl Fn(&mut Rng) -> (R, usize),
) -> (ClientPlan, Vec<R>) {
    let count = 1 + rng.size(5);
    let pairs: Vec<_> = (0..count).map(|_| (request(rng, most), response(rng))).collect();
    let bytes: usize = pairs.iter().map(|(request, _)| 200 + request.body.size()).sum();
    let responses: usize = pairs.iter().map(|(_, (_, body))| 200 + body).sum();
    let expects = pairs.iter().any(|(request, _)| request.expects);
    let leave = match rng.below(if clean { 20 } else { 8 }) {
        // Sometimes behind all that it sends.
        0 => Disconnect::Resets(rng.below(bytes * 3 / 2)),
        1 => Disconnect::Closes(rng.below(bytes)),
        2 => Disconnect::HalfCloses,
        3 => Disconnect::AfterBrokenBody,
        _ => Disconnect::Never,
    };
    let plan = ClientPlan {
        start: Duration::from_millis(rng.size(100) as u64),
        piece: 1 + rng.size(bytes).max(bytes / 500),
        every: (bytes / (1 + rng.below(8))).max(1),
        pause: Duration::from_millis(*rng.pick(&[0, 0, 1, 100])),
        pipelines: !expects && rng.chance(300),
        pace: Pace::draw(rng, responses),
        late: false,
        leave,
        accepts: None,
        requests: Vec::new(),
    };
    let (mut requests, responses): (Vec<RequestPlan>, Vec<_>) = pairs.into_iter().unzip();
    if let (Disconnect::AfterBrokenBody, Some(last)) = (leave, requests.last_mut()) {
        let size = last.body.size();
        let body = BodyPlan::Broken {
            size,
            chunk: 1 + rng.size(size),
            rest: rng.size((plan.piece * 300).min(100_000)),
        };
        *last = RequestPlan { method: "POST", body, expects: false, ..last.clone() };
    }
    (ClientPlan { requests, ..plan }, responses.into_iter().map(|(response, _)| response).collect())
}

pub(crate) fn request(rng: &mut Rng, most: usize) -> RequestPlan {
    let method = *rng.pick(&["GET", "GET", "HEAD", "POST", "POST", "PUT"]);
    let body = match method {
        "GET" | "HEAD" => BodyPlan::None,
        _ => match rng.below(3) {
            0 => BodyPlan::Length(near_boundary(rng, most)),
            1 => BodyPlan::None,
            _ => {
                let size = near_boundary(rng, most);
                BodyPlan::Chunked {
                    size,
                    chunk: 1 + rng.size(size).max(size / 300),
                    trailers: *rng.pick(&[0, 0, 1, 5]),
                }
            }
        },
    };
    let expects = body.size() > 0 && rng.chance(300);
    RequestPlan { method, body, expects, takes_trailers: rng.chance(300), tunnel: None }
}

/// A client reads nothing before it has sent all, of an app that begins its response before it has read all.
fn read_late(rng: &mut Rng, most: usize, clients: &mut [(ClientPlan, Vec<ResponsePlan>)]) {
    let (client, responses) = &mut clients[0];
    if client.leave == Disconnect::AfterBrokenBody {
        // Refused in the middle of what it sends, it would have to read that.
        return;
    }
    client.late = true;
    client.requests.truncate(3);
    responses.truncate(3);
    client.pipelines = false;
    for (request, response) in client.requests.iter_mut().zip(responses) {
        response.reads = if request.has_body() { BodyRead::Throughout } else { BodyRead::Before };
        response.body = most / 2 + near_boundary(rng, most / 2);
        response.frames = response.frames.map(|frames| frames.max(response.body / 300));
        if let BodyPlan::Length(size) | BodyPlan::Chunked { size, .. } = &mut request.body {
            *size = most / 2 + near_boundary(rng, most / 2);
        }
        if let BodyPlan::Chunked { size, chunk, .. } = &mut request.body {
            *chunk = (*chunk).max(*size / 300);
        }
    }
    let bytes: usize = client.requests.iter().map(|request| request.body.size()).sum();
    client.piece = client.piece.max(bytes / 500);
    client.every = client.every.max(bytes / 8);
    client.pace.piece = client.pace.piece.max(most / 100);
    client.pace.every = client.pace.every.max(most / 2);
}

/// Timeouts that no request of a clean world meets; in the others often several at once.
fn times(rng: &mut Rng, clean: bool) -> (Duration, Duration, Option<Duration>) {
    let any = [1, 5, 60].map(Duration::from_secs);
    let long = Duration::from_secs(60);
    match clean {
        true => (long, long, *rng.pick(&[None, Some(any[0]), Some(Duration::from_millis(50))])),
        false => (*rng.pick(&any), *rng.pick(&any), *rng.pick(&[None, Some(any[0]), Some(any[1])])),
    }
}

pub(crate) fn response(rng: &mut Rng, clean: bool, (settings, most): (&Settings, usize)) -> ResponsePlan {
    let body = plan::response_size(rng, settings, most);
    let frames = rng.chance(600).then(|| (1 + rng.size(64 * 1024)).max(body / 300));
    let fault = match rng.below(if clean { 1 } else { 20 }) {
        1 => Fault::Refuses,
        2 => Fault::Resets,
        3 => Fault::DiesBefore,
        4 => Fault::DiesInside,
        5 => Fault::Hangs,
        _ => Fault::None,
    };
    ResponsePlan {
        status: *rng.pick(&[200, 200, 200, 404, 500, 204, 304]),
        informs: *rng.pick(&[0, 0, 0, 1, 3]),
        delay: Duration::from_millis(*rng.pick(&[0, 0, 1, 10, 200])),
        reads: *rng.pick(&[BodyRead::Before, BodyRead::Before, BodyRead::Beside, BodyRead::Never]),
        body,
        frames,
        pause: Duration::from_millis(*rng.pick(&[0, 0, 0, 1])),
        declares: rng.chance(300),
        trailers: *rng.pick(&[0, 0, 0, 1, 3]),
        close: rng.chance(50),
        fault,
        kind: ResponseKind::Plain,
    }
}
