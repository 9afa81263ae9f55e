//! `[admin]`: health, metrics and status over HTTP, on a thread of its own, so that a data plane that is stuck or a control thread that is busy does not
//! keep it from saying so. The same driver and limits as for clients; nothing it serves touches the path of their requests.

mod actions;
mod events;
pub(crate) mod exposition;
mod guard;
mod health;
pub(crate) mod metrics;
mod page;
mod process;
mod response;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Method;
use keepwarm_config::{Admin as Settings, Bind};
use keepwarm_net::{DataPlane, ListeningSocket, Scheme};
use keepwarm_serve::{
    ConnectionLimits, Exchange, Frontend, Handler, ListenerContext, OpenConnections, Refusal, Request,
    StopListening, respond_with_error,
};
use tokio::sync::{mpsc, watch};

use self::exposition::Format;
use self::guard::{Guard, Operation};
use self::page::PageFile;
use self::response::{Response, TEXT, wants_json};
use crate::control::ControlRequest;
use crate::live::{SNAPSHOT_TIMEOUT, STREAMS};
use crate::run::sockets::{OpenedSockets, OwnSockets, SocketCopies, Sockets};
use crate::status;
use crate::status::view::View;

/// Connections at once: probers, a scraper or two, and people.
const CONNECTIONS: usize = 64;

/// Serves `[admin]`.
pub(crate) struct Admin {
    /// None before there is anything to serve.
    plane: Option<DataPlane>,
    open: Arc<OpenConnections>,
    service: Arc<AdminService>,
    serving: BTreeMap<Bind, AdminListener>,
}

/// The parts of `[admin]` that can fail, prepared before it is served.
pub(crate) struct PreparedAdmin {
    opened: OpenedSockets,
    copies: BTreeMap<Bind, SocketCopies>,
}

/// One address that is served.
struct AdminListener {
    sockets: Sockets,
    handler: Arc<AdminHandler>,
    stops: Vec<StopListening>,
}

impl Admin {
    /// Serves nothing yet.
    pub(crate) fn new(view: &Arc<View>, requests: &mpsc::UnboundedSender<ControlRequest>) -> Self {
        Self {
            plane: None,
            open: Arc::new(OpenConnections::new(CONNECTIONS)),
            service: Arc::new(AdminService { view: Arc::clone(view), requests: requests.clone() }),
            serving: BTreeMap::new(),
        }
    }

    /// Whether this address is served.
    pub(crate) fn serves(&self, bind: &Bind) -> bool {
        self.serving.contains_key(bind)
    }

    /// Makes what may fail, before anything is changed; `opened` has the sockets of addresses that are new.
    ///
    /// # Errors
    /// In words: the system refuses a thread or a descriptor, or a socket cannot be made private.
    pub(crate) fn prepare(
        &mut self,
        settings: Option<&Settings>,
        opened: OpenedSockets,
    ) -> Result<PreparedAdmin, String> {
        let mut prepared = PreparedAdmin { opened, copies: BTreeMap::new() };
        for bind in settings.iter().flat_map(|settings| &settings.bind) {
            let Some(sockets) = prepared.opened.get(bind) else { continue };
            let copies =
                self.make_ready(bind, sockets).map_err(|error| format!("{bind} (admin): {error}"))?;
            prepared.copies.insert(bind.clone(), copies);
        }
        Ok(prepared)
    }

    fn make_ready(&mut self, bind: &Bind, sockets: &Sockets) -> io::Result<SocketCopies> {
        if let (Bind::Unix(path), false) = (bind, sockets.inherited) {
            // Its clients may change things: the user and the group of this process.
            std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
        }
        let plane = match self.plane.take() {
            Some(plane) => plane,
            None => DataPlane::start_named("keepwarm-admin", 1)?,
        };
        SocketCopies::of(sockets, self.plane.insert(plane).remotes())
    }

    /// Serves what the settings say, and no more.
    pub(crate) fn apply(&mut self, settings: Option<&Settings>, mut prepared: PreparedAdmin) {
        let wanted = settings.map_or(&[][..], |settings| &settings.bind);
        let gone: Vec<(Bind, AdminListener)> =
            self.serving.extract_if(.., |bind, _| !wanted.contains(bind)).collect();
        let guard =
            |bind: &Bind| Guard::new(bind.clone(), settings.and_then(|settings| settings.token.clone()));
        for bind in wanted {
            if let Some(serving) = self.serving.get(bind) {
                serving.handler.guard.store(Arc::new(guard(bind)));
                serving.handler.changes.send_replace(false);
            } else if let (Some(sockets), Some(copies)) =
                (prepared.opened.take(bind), prepared.copies.remove(bind))
            {
                let handler = Arc::new(AdminHandler {
                    guard: ArcSwap::from_pointee(guard(bind)),
                    changes: watch::Sender::new(false),
                    service: Arc::clone(&self.service),
                });
                let serving = self.serve(sockets, copies, handler);
                self.serving.insert(bind.clone(), serving);
            }
        }
        let kept: Vec<SocketAddr> = self.bounds().filter_map(|bound| bound.address).collect();
        gone.iter().for_each(|(bind, serving)| serving.end(bind, &kept));
    }

    fn serve(&self, sockets: Sockets, copies: SocketCopies, handler: Arc<AdminHandler>) -> AdminListener {
        let context = Arc::new(ListenerContext {
            handler: Arc::clone(&handler) as _,
            limits: ConnectionLimits {
                idle: Duration::from_secs(120),
                write_timeout: SNAPSHOT_TIMEOUT,
                ..ConnectionLimits::default()
            },
            proxy_protocol: None,
            draining: Arc::default(),
            open: Arc::clone(&self.open),
            meter: keepwarm_telemetry::meters::unlisted(),
            tls: None,
        });
        AdminListener { stops: copies.serve(&context), sockets, handler }
    }

    fn bounds(&self) -> impl Iterator<Item = &ListeningSocket> {
        self.serving.values().flat_map(|serving| &serving.sockets.bounds)
    }

    /// Where it listens, and which of that the settings do not have any more.
    pub(crate) fn own(&self, settings: Option<&Settings>) -> OwnSockets<'_> {
        let mut own = OwnSockets::default();
        for (bind, serving) in &self.serving {
            let kept = settings.is_some_and(|settings| settings.bind.contains(bind));
            own.add(&serving.sockets, "admin", kept);
        }
        own
    }

    /// Where it listens.
    pub(crate) fn used(&self) -> impl Iterator<Item = (SocketAddr, String)> {
        self.bounds().filter_map(|bound| Some((bound.address?, "admin".to_owned())))
    }

    /// The sockets that another process needs to serve in place of this one, as the listeners' offers.
    pub(crate) fn offers(&self) -> impl Iterator<Item = (String, bool, &[ListeningSocket])> {
        self.serving.iter().map(|(bind, serving)| {
            let sockets = &serving.sockets;
            (bind.to_string(), !sockets.is_own(), sockets.bounds.as_slice())
        })
    }

    /// The `bind`s of the settings.
    pub(crate) fn binds(settings: Option<&Settings>) -> impl Iterator<Item = String> {
        settings.into_iter().flat_map(|settings| settings.bind.iter().map(ToString::to_string))
    }

    /// Ends it: addresses that another process has taken at once.
    pub(crate) fn hand_over(&mut self, taken: &BTreeSet<String>) {
        for (bind, serving) in std::mem::take(&mut self.serving) {
            match taken.contains(&bind.to_string()) {
                true => serving.hand_over(),
                false => serving.end(&bind, &[]),
            }
        }
    }

    /// The names of sockets in the file system that end with this process.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.serving.iter().filter(|(_, serving)| serving.sockets.is_own());
        own.filter_map(|(bind, _)| match bind {
            Bind::Unix(path) => Some(path.clone()),
            _ => None,
        })
    }

    /// Where it is served, as a person writes it.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.serving.iter().flat_map(|(bind, serving)| serving.sockets.shown(bind, Scheme::Http)).collect()
    }

    /// Ends it, with whatever is under way.
    pub(crate) fn stop(&mut self) {
        std::mem::take(&mut self.serving).iter().for_each(|(bind, serving)| serving.end(bind, &[]));
        if let Some(plane) = self.plane.take() {
            plane.stop();
        }
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop();
    }
}

impl AdminListener {
    // It stops accepting first: a client whose stream has ended connects again at once, and is the other process's then.

    fn end(&self, bind: &Bind, kept: &[SocketAddr]) {
        self.sockets.end(bind, &self.stops, kept);
        self.handler.changes.send_replace(true);
    }

    fn hand_over(&self) {
        self.stops.iter().for_each(StopListening::hand_over);
        self.handler.changes.send_replace(true);
    }
}

/// The handler of one address of `[admin]`.
struct AdminHandler {
    guard: ArcSwap<Guard>,
    /// Tells responses that last of a reload; `true`: this address is not served any more.
    changes: watch::Sender<bool>,
    service: Arc<AdminService>,
}

/// Responds to the requests that the guard admits.
struct AdminService {
    view: Arc<View>,
    requests: mpsc::UnboundedSender<ControlRequest>,
}

impl Handler for AdminHandler {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let request = exchange.request();
            let response = match self.admit(request) {
                Err(denied) => denied,
                Ok(Resource::Page(file)) => return file.write(exchange),
                Ok(Resource::Path("/events")) => match self.service.view.feed.subscribe() {
                    Some(snapshots) => return events::stream(exchange, snapshots, self).await,
                    None => {
                        let sentence = format!("{STREAMS} streams are open: that is the limit.");
                        Response::error(503, "too_many_streams", &sentence, wants_json(request))
                            .with(Some(("Retry-After", "1")))
                    }
                },
                Ok(Resource::Path(path)) => self.service.respond(path, request, wants_json(request)).await,
            };
            response.write(exchange);
        })
    }
}

impl Frontend for AdminHandler {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        respond_with_error(exchange, refusal.status, refusal.name, &refusal.detail, &[]);
    }
}

impl AdminHandler {
    /// What the request is for, if there is such a thing here, and this client may have it.
    fn admit(&self, request: &Request) -> Result<Resource, Response> {
        let wants_json = wants_json(request);
        if let Some(refusal) = request.head.refusal {
            return Err(Response::error(
                refusal.status(),
                refusal.name(),
                "This method is not supported here.",
                wants_json,
            ));
        }
        let Some((resource, operation)) = resource(request) else {
            return Err(Response::error(
                404,
                "no_route",
                "Nothing was found at this path; / lists the paths.",
                wants_json,
            ));
        };
        if let Err(denied) = self.guard.load().check(request, operation) {
            let response = Response::error(denied.status(), denied.reason(), denied.sentence(), wants_json);
            return Err(response.with(
                (denied.status() == 401).then_some(("WWW-Authenticate", "Bearer realm=\"keepwarm\"")),
            ));
        }
        let (allow, allowed): (&str, &[Method]) = match operation {
            Operation::Read | Operation::Page => ("GET, HEAD", &[Method::GET, Method::HEAD]),
            Operation::Write => ("POST", &[Method::POST]),
        };
        if !allowed.contains(&request.head.method) {
            let sentence = format!("Use {allow} for this path.");
            return Err(Response::error(405, "method_not_allowed", &sentence, wants_json)
                .with(Some(("Allow", allow))));
        }
        Ok(resource)
    }
}

/// What a request is for.
enum Resource {
    Page(&'static PageFile),
    /// One of [`PATHS`].
    Path(&'static str),
}

fn resource(request: &Request) -> Option<(Resource, Operation)> {
    if let Some(file) = page::requested(request) {
        return Some((Resource::Page(file), Operation::Page));
    }
    let (path, operation) = PATHS.iter().find(|(path, _)| path.as_bytes() == request.head.path())?;
    Some((Resource::Path(path), *operation))
}

/// The paths beside those of the page, and what each does.
const PATHS: [(&str, Operation); 11] = [
    ("/", Operation::Read),
    ("/livez", Operation::Read),
    ("/readyz", Operation::Read),
    ("/metrics", Operation::Read),
    ("/status", Operation::Read),
    ("/events", Operation::Read),
    ("/stats", Operation::Read),
    ("/reload", Operation::Write),
    ("/stack", Operation::Write),
    ("/recycle", Operation::Write),
    ("/endpoint", Operation::Write),
];

impl AdminService {
    async fn respond(&self, path: &str, request: &Request, wants_json: bool) -> Response {
        match path {
            "/livez" => Response::health(&health::live(&self.view).await, "threads", wants_json),
            "/readyz" => Response::health(&health::ready(&self.view).await, "apps", wants_json),
            "/metrics" => {
                let format = Format::accepted(request.head.fields.all("accept"));
                let text = exposition::write(metrics::families(&self.view.look().await), format);
                Response::new(200, format.content_type(), text)
            }
            "/status" => Response::json(200, &status::json::json(&self.view.look().await)),
            "/stats" => {
                let name = status::json::puma::app_of(request.head.query().unwrap_or_default());
                let stats = status::json::puma::json(&self.view.look().await, name);
                stats.map_or_else(
                    || Response::error(404, "no_app", "There is no Ruby app of this name.", wants_json),
                    |stats| Response::json(200, &stats),
                )
            }
            "/reload" => self.reload(wants_json).await,
            "/stack" => self.stack(request, wants_json).await,
            "/recycle" => self.recycle(request, wants_json).await,
            "/endpoint" => self.endpoint(request, wants_json),
            _ => Response::new(200, TEXT, INDEX.to_owned()),
        }
    }
}

const INDEX: &str = "Keepwarm

GET  /         this list; for a browser the page of the running instance
GET  /livez    200 when the threads of the process make progress
GET  /readyz   200 when Keepwarm is ready for requests and each app has a worker for them
GET  /metrics  metrics for Prometheus
GET  /status   apps, workers and listeners as JSON
GET  /events   the same and more each second, as server-sent events
GET  /stats    a Ruby app in the format of Puma's `stats`; ?app=NAME if there are several
POST /reload   same as `keepwarm reload`; over a Unix socket, or with the token
POST /stack    stacks of a worker, ?worker=APP/NUMBER; over a Unix socket, or with the token
POST /recycle  replaces a worker, ?worker=APP/NUMBER; over a Unix socket, or with the token
POST /endpoint takes an endpoint out of use or puts it back, ?upstream=NAME&endpoint=ADDRESS&state=drain (or ready);
               over a Unix socket, or with the token
";
