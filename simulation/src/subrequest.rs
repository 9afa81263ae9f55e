//! The front door as world `front` has it, on a route whose requests a service decides about, or which are copied to a second app: requests of Keepwarm itself,
//! over connections in memory.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_edge::{AuthRequest, AuthSettings, Checks, Mirror, MirrorSettings};
use keepwarm_net::simulation::{Rng, Settings};
use keepwarm_serve::{FetchLimits, Handler};
use keepwarm_workers::dispatch::App;

use crate::front::Front;
use crate::plan::Smaller;
use crate::run::Scenario;
use crate::site;
use crate::sizes::near_boundary;
use crate::worker::{BodyRead, Fault, Observations, ResponseKind, ResponsePlan, Responses};

/// A front door with its clients and workers.
#[derive(Debug, Clone)]
pub(crate) struct Subrequest(Front);

/// Which requests Keepwarm makes itself, and the response of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnRequests {
    /// Of the service that decides.
    decision: Option<ResponsePlan>,
    /// It is read to its end before the request is served.
    whole: bool,
    /// Of the app that gets copies.
    copy: Option<ResponsePlan>,
}

/// The apps that get them.
#[derive(Default)]
pub(crate) struct OwnApps {
    service: Option<Arc<App>>,
    /// As of [`OwnRequests`].
    whole: bool,
    copies: Option<Arc<App>>,
    /// Of the copies.
    pub(crate) seen: Rc<RefCell<Observations>>,
}

/// What the service is asked at.
const ASKED: &str = "/decide";
/// Bytes of a response to Keepwarm itself: twice what a connection in memory holds, and more.
const MOST: usize = 150_000;
/// What the requests of a client take beside those of world `front`: a body and its copy, and two connections in memory.
const MEMORY: usize = 4 << 20;

impl Scenario for Subrequest {
    fn generate(seed: u64) -> Self {
        let mut front = Front::generate(seed);
        // Other draws than the world's below.
        let mut rng = Rng::new(!seed);
        let (decides, copies) = *rng.pick(&[(true, false), (false, true), (true, true)]);
        front.own.decision = decides.then(|| response(&mut rng, front.clean));
        front.own.whole = rng.chance(500);
        front.own.copy = copies.then(|| response(&mut rng, front.clean));
        Self(front)
    }

    fn settings(&self) -> Settings {
        self.0.settings()
    }

    fn bound(&self) -> Duration {
        self.0.bound()
    }

    fn memory(&self) -> usize {
        self.0.memory() + self.0.clients.len() * MEMORY
    }

    async fn play(self: Rc<Self>) {
        Rc::new(self.0.clone()).play().await;
    }

    fn smaller(&self) -> Vec<Self> {
        let mut smaller = Smaller::than(self);
        smaller.plans.extend(self.0.smaller().into_iter().map(Self));
        smaller.with(|plan| plan.0.own.decision.take().is_some());
        smaller.with(|plan| plan.0.own.copy.take().is_some());
        smaller.plans
    }
}

/// Of a clean world: one that lets the request in. The others are no decision, rather than a refusal, which would be a response that no client expects.
fn response(rng: &mut Rng, clean: bool) -> ResponsePlan {
    let body = near_boundary(rng, MOST);
    let fault = match rng.below(if clean { 1 } else { 12 }) {
        1 => Fault::Refuses,
        2 => Fault::Resets,
        3 => Fault::DiesBefore,
        4 => Fault::DiesInside,
        5 => Fault::Hangs,
        _ => Fault::None,
    };
    ResponsePlan {
        status: if clean { *rng.pick(&[200, 200, 204]) } else { *rng.pick(&[200, 200, 204, 500]) },
        informs: *rng.pick(&[0, 0, 1]),
        delay: Duration::from_millis(*rng.pick(&[0, 0, 1, 10])),
        reads: *rng.pick(&[BodyRead::Before, BodyRead::Before, BodyRead::Beside, BodyRead::Never]),
        body,
        frames: rng.chance(500).then(|| (1 + rng.size(64 * 1024)).max(body / 300)),
        pause: Duration::ZERO,
        declares: rng.chance(300),
        trailers: *rng.pick(&[0, 0, 1]),
        close: rng.chance(50),
        fault,
        kind: ResponseKind::Plain,
    }
}

impl OwnRequests {
    /// Starts the apps that get them. `copied`: the id of a path's request; `start`: an app with these responses.
    pub(crate) fn start(
        &self,
        copied: impl Fn(&str) -> Option<u64> + 'static,
        start: impl Fn(Responses, &Rc<RefCell<Observations>>) -> Arc<App>,
    ) -> OwnApps {
        let seen: Rc<RefCell<Observations>> = Rc::default();
        let service = self.decision.clone().map(|plan| {
            let asked = move |path: &str| (path == ASKED).then(|| (u64::MAX, plan.clone()));
            start(Rc::new(asked), &Rc::default())
        });
        let copies = self.copy.clone().map(|plan| {
            let copied = move |path: &str| copied(path).map(|id| (id, plan.clone()));
            start(Rc::new(copied), &seen)
        });
        OwnApps { service, whole: self.whole, copies, seen }
    }
}

impl OwnApps {
    /// The route's target, behind the decision, and copied. `clean`: no response takes long; in the others each may take its whole time.
    pub(crate) fn around(&self, inner: Arc<dyn Handler>, clean: bool) -> Arc<dyn Handler> {
        let inner = match &self.copies {
            None => inner,
            Some(app) => {
                let settings = MirrorSettings { share: 100, max_body: 1 << 20, all_methods: true };
                Arc::new(Mirror::new(inner, "copies".into(), site::handler(app), settings))
            }
        };
        let time = Duration::from_secs(if clean { 60 } else { 5 });
        let auth_request = self.service.as_ref().map(|app| {
            let settings = AuthSettings {
                path: ASKED.to_owned(),
                headers: vec!["remote-user".to_owned()],
                user_header: None,
                response_headers: Vec::new(),
                passes_ambiguous_paths: false,
                limits: FetchLimits { time, body: MOST, reads_success: self.whole },
            };
            AuthRequest::new("service".into(), site::handler(app), true, settings, Vec::new())
        });
        Checks { auth_request, ..Checks::default() }.around(inner)
    }

    /// At the end nothing of Keepwarm's own is in progress.
    pub(crate) async fn until_idle(&self) {
        for app in self.service.iter().chain(&self.copies) {
            site::until_idle(app).await;
        }
    }
}
