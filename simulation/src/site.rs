//! Common parts of the worlds on Keepwarm's side: a listener, and an app with its workers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use keepwarm_edge::{Edge, Route, Site, Target};
use keepwarm_net::simulation::{self, Peer};
use keepwarm_net::{BindAddress, Remote, bind};
use keepwarm_serve::{ConnectionLimits, Frontend, Handler, ListenerContext, OpenConnections, StopListening};
use keepwarm_workers::dispatch::{App, AppHandler, AppPolicy, Links, WorkerKind};
use keepwarm_workers::supervisor::{LinkEvent, WorkerKey, WorkerLinks};
use tokio::sync::Notify;

use crate::plan::serve_all;
use crate::transport::{Transport, TransportPlan};

/// These limits; in a clean world no client is too slow: one byte at a time through slow pipes is slow without a fault.
pub(crate) fn limits(clean: bool, limits: ConnectionLimits) -> ConnectionLimits {
    match clean {
        true => ConnectionLimits { body_rate: 0, drain_rate: 0, ..limits },
        false => limits,
    }
}

/// Starts this many clients, all at once, and waits for their ends.
pub(crate) async fn visits<T: 'static, F: Future<Output = T> + 'static>(
    count: usize,
    visit: impl Fn(usize) -> F,
) -> Vec<T> {
    let clients: Vec<_> = (0..count).map(|number| tokio::task::spawn_local(visit(number))).collect();
    let mut ends = Vec::new();
    for client in clients {
        ends.push(client.await.expect("a client"));
    }
    ends
}

/// At the end no connection is left.
pub(crate) async fn until_closed(open: &OpenConnections, patience: Duration) {
    let closed = tokio::time::timeout(patience, open.none()).await;
    assert!(
        closed.is_ok(),
        "{} connections that nobody has any more\n{}",
        open.count(),
        simulation::describe()
    );
}

/// What a route to the app leads to.
pub(crate) fn handler(app: &Arc<App>) -> Arc<dyn Handler> {
    Arc::new(AppHandler(Arc::clone(app)))
}

/// A route that sends everything to the app.
pub(crate) fn route(app: &Arc<App>) -> Route {
    Route::to(Target::App { name: Arc::clone(&app.name), handler: handler(app) })
}

/// Listens there on these threads, for at most this many connections at once.
pub(crate) fn listen(
    remotes: &[Remote],
    address: &str,
    handler: Arc<dyn Frontend>,
    limits: ConnectionLimits,
    most: usize,
) -> (Arc<OpenConnections>, Vec<StopListening>) {
    let transport = Transport::new(&TransportPlan::PLAIN, address, false);
    listen_over(&transport, remotes, handler, limits, most)
}

/// As [`listen`], over this transport.
pub(crate) fn listen_over(
    transport: &Transport,
    remotes: &[Remote],
    handler: Arc<dyn Frontend>,
    limits: ConnectionLimits,
    most: usize,
) -> (Arc<OpenConnections>, Vec<StopListening>) {
    let open = Arc::new(OpenConnections::new(most));
    let context = Arc::new(ListenerContext {
        handler,
        limits,
        proxy_protocol: transport.proxy_protocol(),
        draining: Arc::new(AtomicBool::new(false)),
        open: Arc::clone(&open),
        meter: keepwarm_telemetry::meters::listener("main"),
        tls: transport.tls(),
    });
    let bound = bind(BindAddress::Tcp(transport.address)).expect("nobody listens there");
    let stops = serve_all(remotes, &bound, &context);
    (open, stops)
}

/// A listener's handler that sends everything to the app.
pub(crate) fn edge(app: &Arc<App>, max_body: Option<u64>) -> Arc<Edge> {
    edge_of(&app.name, handler(app), max_body, false)
}

/// A listener's handler that sends everything to the handler of this name, and may compress responses.
pub(crate) fn edge_of(
    name: &Arc<str>,
    handler: Arc<dyn Handler>,
    max_body: Option<u64>,
    compresses: bool,
) -> Arc<Edge> {
    let mut route = Route::to(Target::App { name: Arc::clone(name), handler });
    route.max_body = max_body;
    route.compression = compresses.then(Arc::default);
    Arc::new(Edge::new(Site::new(vec![route], Vec::new())))
}

/// At the end no request is active, and none is queued. A response that its client has may not be over for its worker: HEAD.
pub(crate) async fn until_idle(app: &App) {
    let is_idle =
        || app.waiting() == 0 && app.activity().iter().all(|worker| worker.active_requests.is_empty());
    for _ in 0..900 {
        if is_idle() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("requests that nobody waits for: {} wait, {:?}", app.waiting(), app.activity());
}

/// The policy of an app with this many workers, whose limits are never reached.
pub(crate) fn policy(workers: usize) -> AppPolicy {
    let time = Duration::from_secs(60);
    AppPolicy {
        queue: 1000,
        queue_timeout: time,
        request_timeout: time,
        slow_log: None,
        workers,
        kind: WorkerKind::Wire,
    }
}

/// An app with its workers, each with a script that `run` starts on its wire, and a supervisor of the least kind: it ends those it is asked to, and one that ends has a
/// successor. `clean`: none may end.
pub(crate) fn app<F: Future<Output = ()> + 'static>(
    remotes: &[Remote],
    policy: AppPolicy,
    clean: bool,
    run: impl Fn(Rc<Peer>, Rc<Notify>) -> F + 'static,
) -> Arc<App> {
    let links = Links::new(remotes);
    let workers = policy.workers;
    let app = links.set_app("app", policy);
    let (events, mut told) = tokio::sync::mpsc::unbounded_channel();
    let kills: Rc<RefCell<BTreeMap<u32, Rc<Notify>>>> = Rc::default();
    let started = {
        let (app, kills) = (Arc::clone(&app.name), Rc::clone(&kills));
        move |links: &Links, number: u32, pid: u32| {
            let (ours, theirs) = simulation::pair(true);
            let key = WorkerKey { app: Arc::clone(&app), number, generation: 1, pid };
            let link = links.adopt(key, ours, events.clone());
            let kill = Rc::new(Notify::new());
            kills.borrow_mut().insert(pid, Rc::clone(&kill));
            tokio::task::spawn_local(run(Rc::new(theirs), kill));
            link
        }
    };
    let mut held: Vec<_> = (1..=workers as u32).map(|number| started(&links, number, number)).collect();
    tokio::task::spawn_local(async move {
        let mut pid = 1000;
        while let Some(event) = told.recv().await {
            match event {
                LinkEvent::Closed { worker, reason } => {
                    assert!(!clean, "no worker was to end: {reason}");
                    pid += 1;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    held.push(started(&links, worker.number, pid));
                }
                LinkEvent::Kill { worker, .. } | LinkEvent::Stuck { worker, .. } => {
                    if let Some(kill) = kills.borrow().get(&worker.pid) {
                        kill.notify_one();
                    }
                }
                _ => {}
            }
        }
    });
    app
}
