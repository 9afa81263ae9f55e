//! One Keepwarm of the world: a listener, an edge, an app and its supervisor, put together and taken down as the binary does it (`keepwarm::run`).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keepwarm_edge::{Edge, ForwardedFields, Route, Site, Target};
use keepwarm_net::{Bound, ConnectionLimits, ListenerContext, OpenConnections, Remote, StopListening};
use keepwarm_workers::dispatch::{App, AppHandler, AppPolicy, Links};
use keepwarm_workers::supervisor::{AppSpec, Options, Supervisor, WorkerLinks};
use tokio::time::Instant;

use super::Operation;
use crate::plan;

/// As the binary's.
const DRAIN_IDLE: Duration = Duration::from_secs(2);
const WORKERS: Duration = Duration::from_secs(1);

pub(super) struct Server {
    pub(super) app: Arc<App>,
    pub(super) supervisor: Supervisor,
    pub(super) open: Arc<OpenConnections>,
    draining: Arc<AtomicBool>,
    bound: Bound,
    stops: Vec<StopListening>,
    /// By how much the clock may jump meanwhile.
    jump: Duration,
}

impl Server {
    /// Starts the app, and when it is ready serves on this socket.
    pub(super) async fn start(
        world: &Rc<Operation>,
        spec: AppSpec,
        remotes: &[Remote],
        bound: Bound,
    ) -> Self {
        let links = Arc::new(Links::new(remotes));
        let time = Duration::from_secs(60);
        let policy = AppPolicy {
            queue: 1000,
            queue_timeout: time,
            request_timeout: time,
            slow_log: None,
            workers: spec.workers,
            server: None,
        };
        let app = links.set_app("app", policy);
        let links: Arc<dyn WorkerLinks> = links;
        let supervisor =
            Supervisor::start(vec![spec], links, Options::default()).await.expect("no thread, no guardian");
        let failures = supervisor.wait_first_boot().await;
        assert!(failures.is_empty() || !world.clean, "the first workers do not start: {failures:?}");
        let route = Route::to(Target::App {
            name: Arc::clone(&app.name),
            handler: Arc::new(AppHandler(Arc::clone(&app))),
            forwarded: ForwardedFields::default(),
        });
        let (open, draining) = (Arc::new(OpenConnections::new(100)), Arc::new(AtomicBool::new(false)));
        let context = Arc::new(ListenerContext {
            handler: Arc::new(Edge::new(Site::new(vec![route], Vec::new()))),
            limits: match world.clean {
                true => ConnectionLimits { body_rate: 0, drain_rate: 0, ..ConnectionLimits::default() },
                false => ConnectionLimits::default(),
            },
            draining: Arc::clone(&draining),
            open: Arc::clone(&open),
            meter: keepwarm_telemetry::meters::listener("main"),
        });
        let stops = plan::serve_all(remotes, &bound, &context);
        let jump = world.settings.jump.map_or(Duration::ZERO, |(_, by)| by);
        Self { app, supervisor, open, draining, bound, stops, jump }
    }

    /// The socket, for a successor.
    pub(super) fn socket(&self) -> Bound {
        plan::copy(&self.bound)
    }

    /// Ends it as the binary does, within the grace. `handed_over`: a successor accepts from the same socket.
    pub(super) async fn end(&self, grace: Duration, handed_over: bool) {
        let begun = Instant::now();
        let end = begun + grace;
        match handed_over {
            true => self.stops.iter().for_each(StopListening::hand_over),
            false => {
                self.bound.refuse_new();
                self.stops.iter().for_each(StopListening::accept_rest);
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
        // What has connected before is accepted first.
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
