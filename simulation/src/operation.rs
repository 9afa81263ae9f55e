//! Operations beside traffic: the supervisor, with processes that are scripts. Reloads that succeed and fail at every step, replacements, deaths, an upgrade,
//! the stop.

mod process;
mod server;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{Faults, Rng, Settings};
use keepwarm_net::{BindAddress, Remote, bind};
use keepwarm_workers::supervisor::{AppSpec, Recycling, ReloadReport, Scaling, StartFailure, Supervisor};
use tokio::time::Instant;

use crate::client::{self, ClientPlan};
use crate::front::{self, Expected, id};
use crate::line;
use crate::operation::process::{BootOutcome, ProcessPlan, Processes};
use crate::operation::server::{FIRST, SECOND, Server};
use crate::plan::{self, Smaller};
use crate::response::Broken;
use crate::run::Scenario;
use crate::site;
use crate::worker::{BodyRead, Observations, ResponsePlan, WorkerPlan};

/// A Keepwarm, its clients, and what its operator does meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    seed: u64,
    settings: Settings,
    clean: bool,
    /// Data-plane threads.
    threads: usize,
    workers: usize,
    /// The most workers, by load.
    scaled_to: Option<usize>,
    max_requests: Option<u64>,
    max_age: Option<Duration>,
    worker: WorkerPlan,
    processes: Vec<ProcessPlan>,
    clients: Vec<(ClientPlan, Vec<ResponsePlan>)>,
    /// Each after a time since the one before.
    actions: Vec<(Duration, Action)>,
    /// While clients are there; `None`: when they have gone.
    stops_at: Option<Duration>,
    grace: Duration,
}

/// An action of an operator, or an event such as a killed worker.
#[derive(Debug, Clone, Copy)]
enum Action {
    Reload(BootOutcome),
    /// With a second app, or without the one there is.
    Apps(BootOutcome),
    /// With another address to listen on.
    Moves(BootOutcome),
    /// With other terms for clients at the same.
    Renews(BootOutcome),
    /// The second while the first is under way.
    Reloads(BootOutcome, BootOutcome),
    /// For its changed files.
    Recycle(BootOutcome),
    Shift(i32),
    Kill(usize),
    /// A new Keepwarm takes over the socket.
    Upgrade,
}

/// The first address; others differ in the port.
const ADDRESS: &str = "192.0.2.10:80";
const SCRIPTS: Duration = Duration::from_secs(8);
const BOOT: Duration = Duration::from_secs(3);
/// A reload ends within the time of boots, each with SIGTERM and SIGKILL.
const RELOAD: Duration = Duration::from_secs(12);

impl Scenario for Operation {
    fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clean = rng.chance(600);
        let may_fail = Faults { no_buffers: 5, no_descriptor: 20, reset: 3, ..Faults::default() };
        let (settings, most) = plan::settings(&mut rng, clean, &may_fail);
        let most = most.min(200 * 1024);
        let blocking = rng.chance(500);
        let worker = WorkerPlan {
            blocking,
            streams: if blocking { 1 } else { *rng.pick(&[1, 2, 100]) },
            ahead: 0,
            credit_step: *rng.pick(&[1, 4096]),
        };
        let clients = (0..1 + rng.below(4)).map(|_| {
            let (mut client, responses) = front::client(&mut rng, clean, most, |rng| {
                let response = front::response(rng, clean, (&settings, most));
                let body = response.body;
                (response, body)
            });
            client.start = Duration::from_millis(rng.size(2000) as u64);
            (client, responses)
        });
        let clients = clients.collect();
        let outcome =
            |rng: &mut Rng| if rng.chance(500) { BootOutcome::Good } else { *rng.pick(&BootOutcome::ALL) };
        let action = |rng: &mut Rng| match rng.below(if clean { 9 } else { 11 }) {
            0 | 1 => Action::Reload(outcome(rng)),
            2 => Action::Reloads(outcome(rng), outcome(rng)),
            3 => Action::Recycle(outcome(rng)),
            4 => Action::Shift(*rng.pick(&[-1, 1, 2])),
            5 => Action::Upgrade,
            6 => Action::Apps(outcome(rng)),
            7 => Action::Moves(outcome(rng)),
            8 => Action::Renews(outcome(rng)),
            _ => Action::Kill(rng.below(8)),
        };
        let actions = (0..rng.below(5)).map(|_| {
            let after = Duration::from_millis(rng.size(1000) as u64);
            (after, action(&mut rng))
        });
        Self {
            seed,
            settings,
            clean,
            actions: actions.collect(),
            threads: plan::threads(&mut rng),
            workers: 1 + rng.below(3),
            scaled_to: rng.chance(200).then_some(3),
            max_requests: rng.chance(200).then(|| 1 + rng.below(5) as u64),
            max_age: rng.chance(200).then(|| Duration::from_millis(100 + rng.size(2000) as u64)),
            worker,
            processes: (0..1 + rng.below(5)).map(|_| ProcessPlan::draw(&mut rng, clean)).collect(),
            clients,
            stops_at: rng.chance(300).then(|| Duration::from_millis(rng.size(4000) as u64)),
            grace: Duration::from_secs(if clean { 20 } else { *rng.pick(&[0, 1, 20]) }),
        }
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn bound(&self) -> Duration {
        let actions = (RELOAD * 2 + Duration::from_secs(1)) * self.actions.len() as u32;
        // Without faults; with them the longest timeout, and what follows.
        SCRIPTS + actions + Duration::from_secs(if self.clean { 40 } else { 240 })
    }

    fn memory(&self) -> usize {
        (4 << 20) + self.clients.len() * (3 << 20)
    }

    async fn play(self: Rc<Self>) {
        let seen = Rc::new(RefCell::new(Observations::default()));
        let processes = Rc::new(Processes {
            plan: Rc::clone(&self),
            seen: Rc::clone(&seen),
            running: RefCell::default(),
            generations: RefCell::new([(0, 1)].into()),
            serving: Cell::new(1),
            floors: RefCell::default(),
            addresses: RefCell::new(vec![(ADDRESS.parse().expect("an address"), None)]),
        });
        let starts = Rc::clone(&processes);
        keepwarm_workers::supervisor::simulation::begin(self.seed, move |process| starts.start(process));
        let remotes = plan::remotes(self.threads);
        let bound = bind(BindAddress::Tcp(processes.address())).expect("nobody listens there");

        let stopped = Rc::new(Cell::new(None));
        let clients = (0..self.clients.len()).map(|number| {
            let (plan, processes, stopped) = (Rc::clone(&self), Rc::clone(&processes), Rc::clone(&stopped));
            tokio::task::spawn_local(async move { plan.visit(number, &processes, &stopped).await })
        });
        let clients: Vec<_> = clients.collect();
        let gone = async {
            for client in clients {
                client.await.expect("a client");
            }
        };
        let operator = async {
            let server = Server::start(&self, self.specs(false, BootOutcome::Good, 0), &remotes, bound).await;
            let server = self.operate(server, &remotes, &processes).await;
            if let Some(at) = self.stops_at {
                tokio::time::sleep(at).await;
                stopped.set(Some(Instant::now()));
                server.end(self.grace, false).await;
            }
            server
        };
        let (server, ()) = tokio::join!(operator, gone);
        if stopped.get().is_none() {
            server.end(self.grace, false).await;
        }
        self.settle(&server, &seen).await;
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        for at in 0..self.actions.len() {
            smaller.with(|plan| {
                plan.actions.remove(at);
                true
            });
            smaller.without_time(|plan| &mut plan.actions[at].0);
        }
        smaller.clients(|plan| &mut plan.clients, &self.clients);
        for (at, (_, responses)) in self.clients.iter().enumerate() {
            for request in 0..responses.len() {
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].informs) > 0);
                smaller.with(|plan| std::mem::take(&mut plan.clients[at].1[request].trailers) > 0);
                smaller.half(|plan| &mut plan.clients[at].1[request].body);
            }
        }
        smaller.with(|plan| plan.processes.len() > 1 && plan.processes.pop().is_some());
        smaller.with(|plan| plan.stops_at.take().is_some());
        smaller.with(|plan| plan.scaled_to.take().is_some());
        smaller.with(|plan| plan.max_requests.take().is_some());
        smaller.with(|plan| plan.max_age.take().is_some());
        smaller.with(|plan| std::mem::replace(&mut plan.threads, 1) > 1);
        smaller.with(|plan| std::mem::replace(&mut plan.workers, 1) > 1);
        smaller.settings(|plan| &mut plan.settings);
        smaller.plans
    }
}

impl Operation {
    fn does(&self, what: impl Fn(&Action) -> bool) -> bool {
        self.actions.iter().any(|(_, action)| what(action))
    }

    /// The plan of a path's response.
    fn response(&self, path: &str) -> Option<(u64, ResponsePlan)> {
        let (client, request) = path.strip_prefix("/")?.split_once('/')?;
        let (client, request) = (client.parse::<usize>().ok()?, request.parse::<usize>().ok()?);
        Some((id(client, request), self.clients.get(client)?.1.get(request)?.clone()))
    }

    /// The app's, and where there are `two` those of the one that comes and goes.
    fn specs(&self, two: bool, outcome: BootOutcome, version: usize) -> Vec<AppSpec> {
        let names = [FIRST, SECOND].into_iter().take(1 + usize::from(two));
        names.map(|name| self.spec(name, outcome, version)).collect()
    }

    fn spec(&self, name: &str, outcome: BootOutcome, version: usize) -> AppSpec {
        let outcome = BootOutcome::ALL.iter().position(|it| *it == outcome).expect("one of all");
        let command = vec!["app".into(), outcome.to_string().into(), version.to_string().into()];
        AppSpec {
            workers: self.workers,
            boot_timeout: BOOT,
            // A client may take its time, and ends by itself.
            drain_timeout: Duration::from_secs(20),
            recycling: Recycling {
                max_requests: self.max_requests,
                max_age: self.max_age,
                ..Recycling::default()
            },
            scaling: self.scaled_to.map(|max| Scaling { min: 1, max, idle: Duration::from_millis(500) }),
            hang_timeout: Some(Duration::from_secs(10)),
            ..AppSpec::new(name, command)
        }
    }

    /// Performs the planned actions; returns the server that serves then.
    async fn operate(self: &Rc<Self>, first: Server, remotes: &[Remote], processes: &Processes) -> Server {
        let (mut server, mut version, mut before) = (first, 0, Vec::new());
        for (after, action) in &self.actions {
            tokio::time::sleep(*after).await;
            let mut next = |outcome| {
                version += 1;
                (outcome, version)
            };
            match *action {
                Action::Reload(outcome) => {
                    drop(self.reload(&server, server.two, next(outcome), processes).await)
                }
                Action::Recycle(outcome) => self.recycle(&server, next(outcome), processes).await,
                Action::Reloads(one, other) => {
                    let (one, other) = (next(one), next(other));
                    tokio::join!(
                        self.reload(&server, server.two, one, processes),
                        self.reload(&server, server.two, other, processes)
                    );
                }
                Action::Apps(outcome) => {
                    if let Some(specs) = self.reload(&server, !server.two, next(outcome), processes).await {
                        server.commit(&specs);
                    }
                }
                Action::Moves(outcome) => {
                    let bound =
                        bind(BindAddress::Tcp(processes.next_address())).expect("nobody listens there");
                    if self.reload(&server, server.two, next(outcome), processes).await.is_some() {
                        processes.move_to(bound.address);
                        server.move_to(bound, remotes);
                    }
                }
                Action::Renews(outcome) => {
                    if self.reload(&server, server.two, next(outcome), processes).await.is_some() {
                        server.renew(remotes);
                    }
                }
                Action::Shift(by) => server.supervisor.shift_workers(by),
                Action::Kill(which) => processes.kill(which),
                Action::Upgrade => {
                    let (outcome, version) = next(BootOutcome::Good);
                    let socket = server.socket();
                    let specs = self.specs(server.two, outcome, version);
                    let next = Server::start(self, specs, remotes, socket).await;
                    let old = std::mem::replace(&mut server, next);
                    let grace = self.grace;
                    before.push(tokio::task::spawn_local(async move { old.end(grace, true).await }));
                }
            }
        }
        for old in before {
            old.await.expect("an old Keepwarm");
        }
        server
    }

    /// Returns the server that serves since then.
    async fn reload(
        &self,
        server: &Server,
        two: bool,
        (outcome, version): (BootOutcome, usize),
        processes: &Processes,
    ) -> Option<Vec<AppSpec>> {
        let specs = self.specs(two, outcome, version);
        server.prepare(&specs);
        let reload = server.supervisor.reload(specs.clone());
        if self.judge_reload(&server.supervisor, (outcome, version), reload, processes).await {
            return Some(specs);
        }
        server.take_back();
        None
    }

    async fn recycle(
        &self,
        server: &Server,
        (outcome, version): (BootOutcome, usize),
        processes: &Processes,
    ) {
        let recycle = server.supervisor.recycle(self.spec(FIRST, outcome, version));
        self.judge_reload(&server.supervisor, (outcome, version), recycle, processes).await;
    }

    async fn judge_reload(
        &self,
        supervisor: &Supervisor,
        (outcome, version): (BootOutcome, usize),
        result: impl Future<Output = Result<ReloadReport, StartFailure>>,
        processes: &Processes,
    ) -> bool {
        let generation = async || supervisor.snapshot().await.apps.first().map(|app| app.generation);
        let before = generation().await;
        let jump = self.settings.jump.map_or(Duration::ZERO, |(_, by)| by);
        let result = tokio::time::timeout(RELOAD * 2 + jump, result).await;
        let result = result.expect("a reload that does not end");
        let after = generation().await;
        match result {
            Ok(report) => {
                assert!(outcome == BootOutcome::Good, "a reload has succeeded whose workers are {outcome:?}");
                assert!(after >= Some(report.generation), "{after:?} serves after {report:?}");
                // An old Keepwarm keeps the clients that it has.
                if !self.does(|action| matches!(action, Action::Upgrade)) {
                    processes.generations.borrow_mut().insert(version, report.generation);
                    // Where there are two apps, a recycled one is ahead of the other.
                    let two = self.does(|action| matches!(action, Action::Apps(_)));
                    if !two || !self.does(|action| matches!(action, Action::Recycle(_))) {
                        processes.serving.set(processes.serving.get().max(report.generation));
                    }
                }
                true
            }
            Err(failure) => {
                assert!(outcome != BootOutcome::Good || !self.clean, "a good reload has failed: {failure}");
                let alone = !self.does(|action| matches!(action, Action::Reloads(..)));
                assert!(
                    !alone || before == after,
                    "a reload has failed, and {after:?} serves after {before:?}"
                );
                false
            }
        }
    }

    async fn visit(&self, number: usize, processes: &Processes, stopped: &Cell<Option<Instant>>) {
        let (plan, responses) = &self.clients[number];
        let (connected, address) = (Cell::new(Instant::now()), Cell::new(processes.address()));
        let connect = async {
            connected.set(Instant::now());
            address.set(processes.address());
            line::connect(address.get()).await
        };
        let broken = client::run(
            plan,
            connect,
            self.seed,
            |request| {
                let id = id(number, request);
                processes.floors.borrow_mut().entry(id).or_insert_with(|| processes.serving.get());
                (id, format!("/{number}/{request}"))
            },
            |request, outcome| {
                let response = &responses[request];
                let expected =
                    Expected { status: response.status, body: response.body, trailers: response.trailers };
                if !expected.check(&plan.requests[request], outcome) {
                    let refused = plan.requests[request].is_broken();
                    assert!(!self.clean || refused, "not the app's response: {outcome:?}");
                }
            },
        )
        .await;
        let ends = self.stops_at.is_some() || self.does(|action| matches!(action, Action::Upgrade));
        let closed = stopped.get().or(processes.left(address.get()));
        let too_late = closed.is_some_and(|at| connected.get() + self.settings.latency * 2 >= at);
        match broken {
            // A server that ends closes a client that is silent for long.
            Some(Broken::Idle | Broken::Unreached) if ends => {}
            Some(Broken::Ended) if too_late => {}
            broken => plan::judge(number, plan, broken, self.clean, ends || self.may_end_early(number)),
        }
    }

    /// Whether a response may end the connection before the last request.
    fn may_end_early(&self, number: usize) -> bool {
        let (plan, responses) = &self.clients[number];
        let unread = |(response, request): (&ResponsePlan, &client::RequestPlan)| {
            response.close
                || request.is_broken()
                || (response.reads != BodyRead::Before && request.has_body())
        };
        responses.iter().zip(&plan.requests).any(unread)
    }

    /// The conditions at the end of everything.
    async fn settle(&self, server: &Server, seen: &RefCell<Observations>) {
        // A process that was told to exit, and has not been reaped.
        assert_eq!(keepwarm_workers::supervisor::simulation::processes(), 0, "processes are left");
        let most = if self.clean { 1 } else { 3 };
        plan::judge_observations(&seen.borrow(), most, |at, request| &self.clients[at].0.requests[request]);
        if self.clean {
            site::until_closed(&server.open, Duration::from_secs(9)).await;
            // Their wires end with them.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let waiting: usize = [FIRST, SECOND]
                .iter()
                .filter_map(|name| server.links.app(name))
                .map(|app| app.waiting())
                .sum();
            assert_eq!(waiting, 0, "requests that nobody waits for");
            let left = server.links.activity();
            assert!(left.is_empty(), "workers are left: {left:?}");
        }
    }
}
