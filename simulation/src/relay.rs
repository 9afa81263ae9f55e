//! Apps whose workers are servers: clients of HTTP/1.1, the edge, and processes by scripts that speak HTTP/1.1, HTTP/2 or FastCGI, die, and are replaced.

mod processes;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_edge::{Edge, Route, SendFiles, Site, Target};
use keepwarm_net::simulation::{self, Faults, Rng, Settings};
use keepwarm_net::{Endpoint, Protocol as Version, SyntaxLimits};
use keepwarm_serve::{ConnectionLimits, ForwardingPolicy, OpenConnections, StopListening};
use keepwarm_workers::dispatch::{App, AppPolicy, Links, Protocol, ScriptRoot, ServerPolicy, WorkerKind};

use crate::client::{self, BodyPlan, ClientPlan, Disconnect, RequestPlan};
use crate::door::{self, tunnel_at_the_end};
use crate::fastcgi::ScriptPlan;
use crate::front::{self, Expected, id};
use crate::http2_origin::Http2Plan;
use crate::line;
use crate::origin::{Framing, HANDED, Noise, OriginPlan};
use crate::pattern;
use crate::plan::{self, Smaller};
use crate::run::Scenario;
use crate::site;
use crate::sizes::near_boundary;
use crate::upstream;
use crate::worker::{BodyRead, Fault, Observations};
use processes::Processes;

/// An app of servers, with its clients.
#[derive(Debug, Clone)]
pub(crate) struct Relay {
    seed: u64,
    settings: Settings,
    clean: bool,
    kind: Kind,
    /// The servers speak HTTP/2.
    http2: Option<Http2Plan>,
    /// At a Unix socket, else at a port.
    unix: bool,
    workers: usize,
    /// Requests that one takes at once.
    concurrency: usize,
    /// Until a process listens.
    boot: Duration,
    /// A process dies each time.
    deaths: Vec<Duration>,
    /// All workers are replaced, without a request that is lost.
    replaced: Option<Duration>,
    buffer_request: Option<bool>,
    buffer_response: Option<bool>,
    max_body: Option<u64>,
    clients: Vec<(ClientPlan, Vec<ScriptPlan>)>,
}

/// The workers' protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    FastCgi,
    /// The same by a server that runs already, and is not a worker.
    Standing,
}

const ADDRESS: &str = "192.0.2.10:80";
const SCRIPTS: Duration = Duration::from_secs(10);
const FOLDER: &str = "/srv/handed";
/// The id of a health check's request.
const HEALTH: u64 = u64::MAX;

impl Scenario for Relay {
    fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clean = rng.chance(600);
        let may_fail = Faults {
            no_buffers: 5,
            no_descriptor: 20,
            reset: 3,
            refused: 50,
            silent: 20,
            disk_full: 300,
            ..Faults::default()
        };
        let (mut settings, most) = plan::settings(&mut rng, clean, &may_fail);
        let kind = *rng.pick(&[Kind::Http, Kind::FastCgi, Kind::FastCgi, Kind::Standing]);
        let clients = (0..1 + rng.below(4)).map(|_| client(&mut rng, clean, kind, (&settings, most)));
        let mut clients: Vec<_> = clients.collect();
        if rng.chance(300) {
            plan::spill(&mut rng, plan::large(&settings), &mut clients);
        }
        if !clean && kind != Kind::Http && rng.chance(700) {
            plan::crowd(&mut settings, may_fail.disk_full);
            leave_behind(&mut rng, plan::large(&settings), &mut clients[0]);
        }
        let http2 = (kind == Kind::Http).then(|| speak_http2(seed, clean, &mut clients)).flatten();
        let some = |rng: &mut Rng| *rng.pick(&[None, None, Some(true), Some(false)]);
        Self {
            seed,
            settings,
            clean,
            kind,
            http2,
            unix: rng.chance(500),
            workers: 1 + rng.below(2),
            concurrency: *rng.pick(&[1, 1, 2, 16]),
            // Requests to a server that runs already are refused while it does not.
            boot: Duration::from_millis(if kind == Kind::Standing { 0 } else { rng.size(300) as u64 }),
            deaths: (0..if clean { 0 } else { rng.size(4) })
                .map(|_| Duration::from_millis(rng.size(8000) as u64))
                .collect(),
            replaced: rng.chance(300).then(|| Duration::from_millis(rng.size(2000) as u64)),
            buffer_request: some(&mut rng),
            buffer_response: some(&mut rng),
            max_body: rng.chance(200).then_some(most as u64 * 2),
            clients,
        }
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn bound(&self) -> Duration {
        match self.clean {
            // One after the other, where a server takes one at a time.
            true => SCRIPTS + Duration::from_secs(15) + self.scripts(),
            // Scripts that hang, one after the other, and a tunnel without a word.
            false => SCRIPTS + Duration::from_secs(600),
        }
    }

    fn memory(&self) -> usize {
        let disk = plan::on_disk(&self.clients, |script| script.response.body);
        (4 << 20) + self.clients.len() * (3 << 20) + disk
    }

    async fn play(self: Rc<Self>) {
        let remotes = plan::remotes(1);
        let links = Rc::new(Links::new(&remotes));
        let seen = Rc::new(RefCell::new(Observations::default()));
        let processes = Processes::new(Rc::clone(&self), Rc::clone(&links), Rc::clone(&seen));
        let app = links.set_app("app", self.policy());
        processes.start();
        self.put_files();
        let edge = Arc::new(Edge::new(Site::new(vec![self.route(&app)], Vec::new())));
        let (open, stops) = site::listen(&remotes, ADDRESS, edge, self.limits(), 100);
        let visits = site::visits(self.clients.len(), |number| {
            let plan = Rc::clone(&self);
            async move { plan.visit(number).await }
        });
        tokio::select! {
            biased;
            _ = visits => {}
            () = processes.supervise() => unreachable!("it goes on for ever"),
        }
        stops.iter().for_each(StopListening::hand_over);
        if self.clean {
            tokio::select! {
                biased;
                () = self.is_at_rest(&app, &open) => {}
                () = processes.supervise() => unreachable!("it goes on for ever"),
            }
        }
        let mut seen = seen.borrow_mut();
        seen.begun.remove(&HEALTH);
        seen.whole.remove(&HEALTH);
        plan::judge_observations(&seen, 4, |at, request| &self.clients[at].0.requests[request]);
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        smaller.clients(|plan| &mut plan.clients, &self.clients);
        for (at, (_, responses)) in self.clients.iter().enumerate() {
            for request in 0..responses.len() {
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].response.informs) > 0);
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].response.trailers) > 0);
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].words) > 0);
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].redirects) > 0);
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].response.hands));
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].padding) > 0);
                smaller.with(|plan| !std::mem::take(&mut plan.clients[at].1[request].query).is_empty());
                smaller.without_time(|plan| &mut plan.clients[at].1[request].response.pause);
                smaller.without_time(|plan| &mut plan.clients[at].1[request].response.delay);
                smaller.without_time(|plan| &mut plan.clients[at].1[request].late);
                smaller.without_time(|plan| &mut plan.clients[at].1[request].reads);
                smaller.half(|plan| &mut plan.clients[at].1[request].response.body);
                smaller.half(|plan| &mut plan.clients[at].1[request].response.fill);
            }
        }
        Http2Plan::smaller(&mut smaller, |plan| plan.http2.as_mut());
        smaller.with(|plan| plan.deaths.pop().is_some());
        smaller.with(|plan| plan.replaced.take().is_some());
        smaller.with(|plan| std::mem::replace(&mut plan.workers, 1) > 1);
        smaller.with(|plan| plan.buffer_request.take().is_some());
        smaller.with(|plan| plan.buffer_response.take().is_some());
        smaller.without_time(|plan| &mut plan.boot);
        smaller.settings(|plan| &mut plan.settings);
        smaller.plans
    }
}

impl Relay {
    fn policy(&self) -> AppPolicy {
        // Longer than a clean world may take.
        let time = Duration::from_secs(if self.clean { 60 } else { 15 });
        let root = || ScriptRoot::of_entry(&PathBuf::from("/srv/index.php")).expect("a file's name");
        let protocol = match self.kind {
            Kind::Http if self.http2.is_some() => Protocol::Http(Version::Http2),
            Kind::Http => Protocol::Http(Version::Http1),
            Kind::FastCgi | Kind::Standing => Protocol::FastCgi(Arc::new(root())),
        };
        let health = (self.kind == Kind::Http && self.unix).then(|| "/health".to_owned());
        let server = ServerPolicy {
            protocol,
            concurrency: self.concurrency,
            proxy: None,
            health,
            children: None,
            works_behind: false,
        };
        let kind = match self.kind {
            Kind::Http | Kind::FastCgi => WorkerKind::Server(server),
            Kind::Standing => WorkerKind::External(self.endpoint(0), server),
        };
        AppPolicy {
            queue: 1000,
            queue_timeout: Duration::from_secs(60),
            request_timeout: time,
            slow_log: None,
            workers: self.workers,
            kind,
        }
    }

    fn limits(&self) -> ConnectionLimits {
        // Queries that fill more than a record.
        let syntax = SyntaxLimits { request_line: 64 * 1024, ..SyntaxLimits::default() };
        site::limits(self.clean, ConnectionLimits { syntax, ..ConnectionLimits::default() })
    }

    fn route(&self, app: &Arc<App>) -> Route {
        let mut route = site::route(app);
        let Self { buffer_request, buffer_response, .. } = *self;
        route.passing = ForwardingPolicy { buffer_request, buffer_response, ..ForwardingPolicy::default() };
        route.max_body = self.max_body;
        let folders = vec![(HANDED.to_owned(), PathBuf::from(FOLDER))];
        if let Target::App { handler, .. } = &mut route.target {
            *handler = Arc::new(SendFiles::new(folders, Arc::clone(handler)));
        }
        route
    }

    /// The files that scripts name in place of a body.
    fn put_files(&self) {
        for (client, (_, scripts)) in self.clients.iter().enumerate() {
            for (request, script) in scripts.iter().enumerate().filter(|(_, script)| script.response.hands) {
                let (id, size) = (id(client, request), script.response.body);
                let path = PathBuf::from(format!("{FOLDER}/{id:x}"));
                simulation::put_file(path, move || pattern::bytes(id, 0, size));
            }
        }
    }

    /// Where the process of this id may listen: both addresses, and the one that it likes.
    fn addresses(pid: u32) -> (SocketAddr, PathBuf) {
        let port = 20_000 + u16::try_from(pid).expect("few processes");
        (SocketAddr::from(([127, 0, 0, 1], port)), PathBuf::from(format!("/run/{pid}/app.sock")))
    }

    fn endpoint(&self, pid: u32) -> Endpoint {
        let (tcp, unix) = Self::addresses(pid);
        if self.unix { Endpoint::Unix(unix) } else { Endpoint::Tcp(tcp) }
    }

    /// A script's plan for a path.
    fn script(&self, path: &str) -> Option<(u64, ScriptPlan)> {
        if matches!(path, "/" | "/health") {
            return Some((HEALTH, healthy()));
        }
        let mut parts = path.strip_prefix("/")?.split('/').map(|part| part.parse::<usize>().ok());
        let (client, request) = (parts.next()??, parts.next()??);
        let mut script = self.clients.get(client)?.1.get(request)?.clone();
        if let Some(redirects) = parts.next() {
            (script.redirected, script.query) = (redirects?, String::new());
            script.response.delay = Duration::ZERO;
        }
        if script.redirected < script.redirects {
            script.late = Duration::ZERO;
        }
        Some((id(client, request), script))
    }

    /// The time of all scripts together.
    fn scripts(&self) -> Duration {
        let scripts = self.clients.iter().flat_map(|(_, scripts)| scripts);
        scripts.map(|it| it.late + it.response.delay + it.response.pause * 300).sum()
    }

    /// Everything is released: connections, slots, the queue.
    async fn is_at_rest(&self, app: &App, open: &OpenConnections) {
        site::until_closed(open, Duration::from_secs(9)).await;
        assert_eq!(app.waiting(), 0, "requests that nobody waits for");
        // A script that cannot be cancelled is left to end.
        let idle = async {
            while app.activity().iter().any(|worker| !worker.active_requests.is_empty()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let idle = tokio::time::timeout(Duration::from_secs(9), idle).await;
        assert!(idle.is_ok(), "a worker has requests that nobody waits for: {:?}", app.activity());
    }

    async fn visit(&self, number: usize) {
        let (plan, responses) = &self.clients[number];
        let path = |request: usize| match &responses[request].query {
            query if query.is_empty() => format!("/{number}/{request}"),
            query => format!("/{number}/{request}?{query}"),
        };
        let broken = client::run(
            plan,
            line::connect(ADDRESS.parse().expect("an address")),
            self.seed,
            |request| (id(number, request), path(request)),
            |request, outcome| self.check(&plan.requests[request], &responses[request].response, outcome),
        )
        .await;
        plan::judge(number, plan, broken, self.clean, self.may_end_early(number));
    }

    fn check(&self, request: &RequestPlan, response: &OriginPlan, outcome: &client::Outcome) {
        let http = self.kind == Kind::Http;
        let chunked = matches!(response.framing, Framing::Chunked(_));
        // An end that only a close marks looks the same as a death.
        let cut = matches!(response.fault, Fault::DiesInside | Fault::Resets)
            || response.noise == Some(Noise::Inside)
            || !self.deaths.is_empty();
        let body = match http && cut && response.framing == Framing::Close {
            true => outcome.body,
            false => response.body,
        };
        let trailers = if http && chunked { response.trailers } else { 0 };
        let expected = Expected { status: response.status, body, trailers };
        if !expected.check(request, outcome) {
            let ok = outcome.head.status == 413 || request.is_broken();
            assert!(!self.clean || ok, "not the app's response: {outcome:?}");
            return;
        }
        let fill: usize =
            (0..).map_while(|at| Some(outcome.head.field(&format!("x-fill-{at}"))?.len())).sum();
        assert_eq!(fill, response.fill, "the head of another");
    }

    /// Whether a response ends the connection before the last request.
    fn may_end_early(&self, number: usize) -> bool {
        let (plan, responses) = &self.clients[number];
        responses.iter().zip(&plan.requests).any(|(script, request)| {
            let unread = script.response.reads != BodyRead::Before && request.has_body();
            unread || self.max_body.is_some_and(|most| request.body.size() as u64 > most)
        })
    }
}

fn client(
    rng: &mut Rng,
    clean: bool,
    kind: Kind,
    (settings, most): (&Settings, usize),
) -> (ClientPlan, Vec<ScriptPlan>) {
    let (mut client, mut scripts) = front::client(rng, clean, most, |rng| {
        let script = script(rng, clean, kind, (settings, most));
        let bytes = script.response.body + script.response.fill;
        (script, bytes)
    });
    if kind == Kind::Http && rng.chance(250) {
        let sizes = (near_boundary(rng, most), near_boundary(rng, most));
        let last = scripts.len() - 1;
        tunnel_at_the_end(rng, sizes, &mut client, &mut scripts[last].response);
    }
    for (request, script) in client.requests.iter().zip(&mut scripts) {
        // While the body is on its way it is the client that is sent there.
        if request.has_body() && script.response.reads != BodyRead::Before {
            script.redirects = 0;
        }
    }
    // Its query is sent at the pace of the rest.
    let query = scripts.iter().map(|script| script.query.len()).sum::<usize>();
    client.piece = client.piece.max(query / 500);
    client.every = client.every.max(query / 8);
    (client, scripts)
}

/// In half of the worlds, servers of HTTP speak HTTP/2: their plan. By other draws than the world's, which stays as it is.
fn speak_http2(seed: u64, clean: bool, clients: &mut [(ClientPlan, Vec<ScriptPlan>)]) -> Option<Http2Plan> {
    let mut rng = Rng::new(!seed);
    if !rng.chance(500) {
        return None;
    }
    let (mut sent, mut got) = (0, 0);
    for (client, scripts) in clients {
        for script in scripts {
            upstream::speak_http2(&mut rng, clean, &mut script.response);
            (script.response.tunnel, script.response.hands, script.response.fill) = (None, false, 0);
            script.query = String::new();
            sent += 200 + script.response.body;
        }
        for request in &mut client.requests {
            request.tunnel = None;
            got += 200 + request.body.size();
        }
    }
    Some(upstream::plan(&mut rng, clean, (sent, got)))
}

/// A client sends more than memory holds of one body, and leaves while its script has yet to read that.
fn leave_behind(rng: &mut Rng, large: usize, (client, scripts): &mut (ClientPlan, Vec<ScriptPlan>)) {
    client.requests.truncate(1);
    scripts.truncate(1);
    let size = large / 2 + near_boundary(rng, large / 2);
    client.requests[0] = RequestPlan {
        method: "PUT",
        body: BodyPlan::Length(size),
        expects: false,
        takes_trailers: false,
        tunnel: None,
    };
    (client.piece, client.every, client.pause) = (size / 100, usize::MAX, Duration::ZERO);
    client.leave = Disconnect::ResetsLater(Duration::from_millis(rng.size(300) as u64));
    scripts[0].response.delay = Duration::from_millis(500);
    scripts[0].reads = Duration::from_millis(*rng.pick(&[0, 1, 5]));
    scripts[0].response.reads = *rng.pick(&[BodyRead::Before, BodyRead::Beside]);
    scripts[0].response.fault = Fault::None;
}

fn script(rng: &mut Rng, clean: bool, kind: Kind, (settings, most): (&Settings, usize)) -> ScriptPlan {
    let mut response = door::response(rng, clean, (settings, most));
    response.fill = if rng.chance(150) { near_boundary(rng, (most / 2).min(25_000)) } else { 0 };
    response.piece = response.piece.max(response.fill / 100);
    if kind != Kind::Http && response.fault == Fault::None && !clean {
        response.fault = match rng.below(16) {
            0 => Fault::Garbage,
            1 => Fault::SaysMore,
            2 => Fault::Refuses,
            _ => Fault::None,
        };
    }
    if kind != Kind::Http {
        // A client that requests a kept connection closes it.
        response.closes = if clean { None } else { *rng.pick(&[None, None, None, Some(true)]) };
        response.framing = *rng.pick(&[Framing::Length, Framing::Close]);
    }
    response.hands = response.status == 200 && rng.chance(100);
    let query = if rng.chance(150) { near_boundary(rng, (most / 2).min(40_000)) } else { 0 };
    ScriptPlan {
        redirects: if kind != Kind::Http && rng.chance(100) { 1 + rng.size(9) } else { 0 },
        redirected: 0,
        record: *rng.pick(&[1, 8, 1000, 8192, 0xffff, 0xffff]),
        padding: *rng.pick(if most < 10_000 { &[0, 0, 7] } else { &[0, 7, 255] }),
        words: *rng.pick(&[0, 0, 1, 20]),
        word: most.min(2000) / 20,
        ends_streams: rng.chance(700),
        late: Duration::from_millis(*rng.pick(&[0, 0, 0, 1, 300])),
        reads: Duration::from_millis(*rng.pick(&[0, 0, 0, 1])),
        query: pattern::text(rng.next(), query),
        response,
    }
}

/// A server's response to a health check.
fn healthy() -> ScriptPlan {
    let response = OriginPlan {
        status: 200,
        informs: 0,
        delay: Duration::ZERO,
        reads: BodyRead::Before,
        body: 2,
        framing: Framing::Length,
        piece: usize::MAX,
        pause: Duration::ZERO,
        trailers: 0,
        fill: 0,
        hands: false,
        closes: None,
        tunnel: None,
        fault: Fault::None,
        noise: None,
    };
    ScriptPlan {
        response,
        query: String::new(),
        record: 100,
        padding: 0,
        redirects: 0,
        redirected: 0,
        words: 0,
        word: 0,
        ends_streams: true,
        late: Duration::ZERO,
        reads: Duration::ZERO,
    }
}
