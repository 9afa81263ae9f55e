//! One Keepwarm of the world: a listener, an edge, apps and their supervisor, put together and taken down as the binary does it (`keepwarm::run`).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keepwarm_edge::{Edge, PathPattern, Site};
use keepwarm_net::{ListeningSocket, Remote};
use keepwarm_serve::{ConnectionLimits, Frontend, ListenerContext, OpenConnections, StopListening};
use keepwarm_workers::dispatch::Links;
use keepwarm_workers::supervisor::{AppSpec, Options, Supervisor, WorkerLinks};
use tokio::time::Instant;

use super::Operation;
use crate::{plan, site as parts};

/// As the binary's.
const DRAIN_IDLE: Duration = Duration::from_secs(2);
const WORKERS: Duration = Duration::from_secs(1);

/// The name of the app that is always there, and of the one that comes and goes: while it is there, it has the paths of the second client.
pub(super) const FIRST: &str = "app";
pub(super) const SECOND: &str = "beside";

fn site(links: &Links) -> Site {
    let mut second = links.app(SECOND).map(|app| parts::route(&app));
    if let Some(route) = &mut second {
        route.path = PathPattern::Prefix("/1/".to_owned());
    }
    let first = links.app(FIRST).map(|app| parts::route(&app));
    Site::new(second.into_iter().chain(first).collect(), Vec::new())
}

pub(super) struct Server {
    pub(super) links: Arc<Links>,
    edge: Arc<Edge>,
    context: Arc<ListenerContext>,
    /// Whether there is a second app.
    pub(super) two: bool,
    pub(super) supervisor: Supervisor,
    pub(super) open: Arc<OpenConnections>,
    draining: Arc<AtomicBool>,
    bound: ListeningSocket,
    stops: Vec<StopListening>,
    /// By how much the clock may jump meanwhile.
    jump: Duration,
}

impl Server {
    /// Starts the apps, and when they are ready serves on this socket.
    pub(super) async fn start(
        world: &Rc<Operation>,
        specs: Vec<AppSpec>,
        remotes: &[Remote],
        bound: ListeningSocket,
    ) -> Self {
        let links = Arc::new(Links::new(remotes));
        specs.iter().for_each(|spec| drop(links.set_app(&spec.name, parts::policy(spec.workers))));
        let two = specs.len() > 1;
        let wires: Arc<dyn WorkerLinks> = Arc::clone(&links) as _;
        let supervisor =
            Supervisor::start(specs, wires, Options::default()).await.expect("no thread, no guardian");
        let failures = supervisor.wait_first_boot().await;
        assert!(failures.is_empty() || !world.clean, "the first workers do not start: {failures:?}");
        let edge = Arc::new(Edge::new(site(&links)));
        let (open, draining) = (Arc::new(OpenConnections::new(100)), Arc::new(AtomicBool::new(false)));
        let context = Arc::new(ListenerContext {
            handler: Arc::clone(&edge) as Arc<dyn Frontend>,
            limits: match world.clean {
                true => ConnectionLimits { body_rate: 0, drain_rate: 0, ..ConnectionLimits::default() },
                false => ConnectionLimits::default(),
            },
            proxy_protocol: None,
            draining: Arc::clone(&draining),
            open: Arc::clone(&open),
            meter: keepwarm_telemetry::meters::listener("main"),
            tls: None,
        });
        let stops = plan::serve_all(remotes, &bound, &context);
        let jump = world.settings.jump.map_or(Duration::ZERO, |(_, by)| by);
        Self { links, edge, context, two, supervisor, open, draining, bound, stops, jump }
    }

    /// What a reload needs to know beforehand: apps whose workers are about to come.
    pub(super) fn prepare(&self, specs: &[AppSpec]) {
        specs.iter().for_each(|spec| self.links.add_app(&spec.name, parts::policy(spec.workers)));
    }

    /// The reload has failed: the previous apps keep running.
    pub(super) fn take_back(&self) {
        self.links.keep_only(|name| self.two || name == FIRST);
    }

    /// The workers of these specs serve: requests go to them.
    pub(super) fn commit(&mut self, specs: &[AppSpec]) {
        self.two = specs.len() > 1;
        specs.iter().for_each(|spec| drop(self.links.set_app(&spec.name, parts::policy(spec.workers))));
        self.take_back();
        self.edge.replace(site(&self.links));
    }

    /// Listens there, in place of where it did.
    pub(super) fn move_to(&mut self, bound: ListeningSocket, remotes: &[Remote]) {
        let stops = plan::serve_all(remotes, &bound, &self.context);
        let (old, stops) =
            (std::mem::replace(&mut self.bound, bound), std::mem::replace(&mut self.stops, stops));
        let refuses = old.refuse_new();
        stops.iter().for_each(|stop| stop.accept_rest(refuses));
    }

    /// Listens where it does, on other terms.
    pub(super) fn renew(&mut self, remotes: &[Remote]) {
        let stops = plan::serve_all(remotes, &self.bound, &self.context);
        std::mem::replace(&mut self.stops, stops).iter().for_each(StopListening::hand_over);
    }

    /// The socket, for a successor.
    pub(super) fn socket(&self) -> ListeningSocket {
        plan::copy(&self.bound)
    }

    /// Ends it as the binary does, within the grace. `handed_over`: a successor accepts from the same socket.
    pub(super) async fn end(&self, grace: Duration, handed_over: bool) {
        let begun = Instant::now();
        let end = begun + grace;
        match handed_over {
            true => self.stops.iter().for_each(StopListening::hand_over),
            false => {
                let refuses = self.bound.refuse_new();
                self.stops.iter().for_each(|stop| stop.accept_rest(refuses));
            }
        }
        self.draining.store(true, Ordering::Relaxed);
        let clients_end = end - WORKERS.min(grace / 4);
        // An error: the grace is over.
        let _ = tokio::time::timeout_at(clients_end, self.quiet()).await;
        let left = end.saturating_duration_since(Instant::now());
        self.supervisor.stop(left.max(Duration::from_millis(500))).await;
        let took = begun.elapsed();
        // SIGTERM comes when the grace is over, SIGKILL two seconds later.
        assert!(
            took <= grace + self.jump + Duration::from_millis(2600),
            "the stop took {took:?} with {grace:?} of grace"
        );
    }

    async fn quiet(&self) {
        // Earlier connections are accepted first.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let close_idle = async {
            tokio::time::sleep(DRAIN_IDLE).await;
            loop {
                self.open.close_idle(DRAIN_IDLE);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            biased;
            () = self.open.none() => {}
            () = close_idle => {}
        }
    }
}
