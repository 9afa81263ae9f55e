//! An app as the front door sees it: a handler that gives each request to one of the app's workers.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use keepwarm_net::Remote;
use keepwarm_policy::RetryBudget;
use keepwarm_policy::scaler::AppLoad;
use keepwarm_serve::{Exchange, Handler};

use super::activity::{RequestSummary, WaitingRequest, WorkerActivity};
use super::call::{Call, Item};
use super::conversation;
use super::fastcgi;
use super::kind::WorkerKind;
use super::link::Link;
use super::profile::ProfileSamples;
use super::quarantine::Quarantine;
use super::queue::{Queue, QueuedRequest};
use super::refusals;
use super::relay::{self, ExternalServer, ExternalServerStatus, Protocol, ServerPolicy, Servers};
use crate::supervisor::WorkerLink;

mod workers;

use self::workers::PendingWorker;
pub(super) use self::workers::WorkerCapabilities;

/// The generation that takes requests as soon as it is ready.
const FIRST_GENERATION: u64 = 1;

/// How an app's requests are treated.
#[derive(Debug, Clone, PartialEq)]
pub struct AppPolicy {
    /// Requests that may wait for a worker.
    pub queue: usize,
    /// How long one waits at most.
    pub queue_timeout: Duration,
    /// How long the app may take before it begins its response, and between two parts of it. Time spent on the client does not count.
    pub request_timeout: Duration,
    /// A request that takes the app longer has its worker's stack put into the log.
    pub slow_log: Option<Duration>,
    /// How many worker processes the app has.
    pub workers: usize,
    /// How its workers are spoken to.
    pub kind: WorkerKind,
}

#[cfg(test)]
impl AppPolicy {
    /// For tests of what does not depend on it.
    pub(super) fn of_one_worker() -> Self {
        let time = Duration::from_secs(5);
        Self {
            queue: 10,
            queue_timeout: time,
            request_timeout: time,
            slow_log: None,
            workers: 1,
            kind: WorkerKind::Wire,
        }
    }
}

/// An app. Lives as long as the process; its workers come and go.
#[derive(Debug)]
pub struct App {
    /// The name in the configuration.
    pub name: Arc<str>,
    policy: ArcSwap<AppPolicy>,
    state: Mutex<AppState>,
    pub(super) quarantine: Quarantine,
    /// A request holds up a worker, or a thread of one: it is read, and its response taken, for the worker.
    blocking: AtomicBool,
    /// How many requests a worker takes at once.
    streams: AtomicUsize,
    /// The workers build CGI-style names from fields.
    cgi_names: AtomicBool,
    /// The workers take the user that a route has authenticated.
    user: AtomicBool,
    /// Their interface has WebSockets.
    websockets: AtomicBool,
    /// Their interface has a word for a client that sends no more.
    half_close: AtomicBool,
    /// Their application may take over the connection of a request, and so a WebSocket.
    hijacks: AtomicBool,
    /// It was said that its servers listen on all interfaces.
    pub(super) said_open: AtomicBool,
    /// Requests whose worker may be waiting for a client's body.
    expecting: AtomicUsize,
    /// Requests that are sampled because they take longer than is usual.
    pub(super) sampled: AtomicU32,
    warned_hop_by_hop: AtomicBool,
    /// Its files have changed, and what they are now does not start: [`App::unstarted`] has what was printed.
    is_unstarted: AtomicBool,
    unstarted: Mutex<Arc<str>>,
    /// The connections to workers that are servers by themselves, and what is known of those.
    pub(super) servers: Servers,
    /// The kind of the workers that are being started for a reload.
    next_kind: Mutex<Option<WorkerKind>>,
    /// What its workers say about themselves.
    description: Mutex<Option<String>>,
    /// In place of workers: a server that runs already.
    external: Mutex<Option<Arc<Link>>>,
    /// Where what its workers send of a profile goes.
    profile: Mutex<Option<Arc<ProfileSamples>>>,
    /// A search for what its workers keep is under way.
    pub(super) is_searched: AtomicBool,
}

/// The queue of an app, its workers and its failure, under one lock.
#[derive(Debug)]
pub(super) struct AppState {
    pub(super) queue: Queue,
    /// Workers up to this generation take requests.
    generation: u64,
    /// Workers of a later one that are ready.
    pending: Vec<PendingWorker>,
    pub(super) failed: Option<Arc<str>>,
    retries: RetryBudget,
}

impl App {
    /// An app without workers.
    pub fn new(name: &str, policy: AppPolicy) -> Arc<Self> {
        let servers = Servers::default();
        servers.set_policy(policy.kind.server());
        Arc::new(Self {
            name: name.into(),
            policy: ArcSwap::from_pointee(policy),
            state: Mutex::new(AppState {
                queue: Queue::default(),
                generation: FIRST_GENERATION,
                pending: Vec::new(),
                failed: None,
                retries: RetryBudget::default(),
            }),
            quarantine: Quarantine::default(),
            blocking: AtomicBool::new(true),
            streams: AtomicUsize::new(1),
            cgi_names: AtomicBool::new(true),
            // Adapters of this release do; one that does not gets no such request ([`Link::give`]).
            user: AtomicBool::new(true),
            websockets: AtomicBool::new(false),
            half_close: AtomicBool::new(false),
            hijacks: AtomicBool::new(false),
            said_open: AtomicBool::new(false),
            expecting: AtomicUsize::new(0),
            sampled: AtomicU32::new(0),
            warned_hop_by_hop: AtomicBool::new(false),
            is_unstarted: AtomicBool::new(false),
            unstarted: Mutex::new("".into()),
            servers,
            next_kind: Mutex::default(),
            description: Mutex::default(),
            external: Mutex::default(),
            profile: Mutex::default(),
            is_searched: AtomicBool::new(false),
        })
    }

    /// Gives its requests to the external server that the policy names, and to no other.
    pub(super) fn attach_external(self: &Arc<Self>, remote: &Remote) {
        let policy = self.policy();
        let wanted = match &policy.kind {
            WorkerKind::External(endpoint, server) => Some((endpoint, server)),
            WorkerKind::Wire | WorkerKind::Server(_) => None,
        };
        let mut external = self.external_link();
        let attached = external.as_ref().and_then(|link| link.kind.external());
        match (attached, wanted) {
            (None, None) => return,
            (Some(attached), Some((endpoint, server))) if attached.is(endpoint, server) => return,
            _ => {}
        }
        // The new one first: at every moment somebody takes requests.
        let new = wanted.map(|(endpoint, server)| ExternalServer::attach(self, endpoint, server, remote));
        let old = std::mem::replace(&mut *external, new);
        drop(external);
        if let Some(old) = old {
            old.retire();
        }
    }

    /// Gives no further requests to the external server. Those that it has get their responses.
    pub(super) fn detach_external(&self) {
        let old = self.external_link().take();
        if let Some(old) = old {
            old.retire();
        }
    }

    /// Its server, if it has one that runs already in place of workers.
    pub fn external(&self) -> Option<ExternalServerStatus> {
        Some(self.external_link().as_ref()?.kind.external()?.status())
    }

    fn external_link(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        self.external.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its workers are servers by themselves.
    pub fn is_server(&self) -> bool {
        self.policy().kind.server().is_some()
    }

    /// The profile that is under way.
    pub(super) fn profile(&self) -> MutexGuard<'_, Option<Arc<ProfileSamples>>> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How requests are treated.
    pub(super) fn policy(&self) -> Guard<Arc<AppPolicy>> {
        self.policy.load()
    }

    /// From which duration on the log has its requests as slow; `None`: never.
    pub fn slow_log(&self) -> Option<Duration> {
        self.policy().slow_log
    }

    pub(super) fn set_policy(&self, policy: AppPolicy) {
        self.servers.set_policy(policy.kind.server());
        self.policy.store(Arc::new(policy));
    }

    /// What its requests have met since this was asked last.
    pub(super) fn load(&self) -> AppLoad {
        self.state().queue.load()
    }

    /// The kind of workers that are started from now on; of those that serve, from when the others take their place.
    pub(super) fn prepare(&self, kind: WorkerKind) {
        *self.next_kind() = Some(kind);
    }

    /// In development: what the app has printed when its changed files did not start, for the pages that a person asks for; or (`None`) they do start.
    pub fn set_unstarted(&self, printed: Option<&str>) {
        *self.unstarted.lock().unwrap_or_else(PoisonError::into_inner) = printed.unwrap_or_default().into();
        self.is_unstarted.store(printed.is_some(), Ordering::Release);
    }

    /// Whether the request got the page that tells its developer what is wrong.
    #[cold]
    fn show_unstarted(&self, exchange: &mut Exchange<'_>) -> bool {
        if !keepwarm_serve::wants_page(&exchange.request().head) {
            return false;
        }
        let printed = Arc::clone(&self.unstarted.lock().unwrap_or_else(PoisonError::into_inner));
        exchange.request_mut().notes.target = Some(Arc::clone(&self.name));
        keepwarm_serve::respond_with_printed(exchange, &refusals::NOT_STARTED, &printed);
        true
    }

    /// How the workers that were started last are spoken to, if they are servers.
    pub(super) fn server_policy(&self) -> Option<ServerPolicy> {
        match &*self.next_kind() {
            Some(kind) => kind.server().cloned(),
            None => self.policy().kind.server().cloned(),
        }
    }

    fn next_kind(&self) -> MutexGuard<'_, Option<WorkerKind>> {
        self.next_kind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests waiting for a worker.
    pub fn waiting(&self) -> usize {
        self.state().queue.waiting()
    }

    /// Those of them that are next, up to a limit.
    pub fn next_waiting(&self, limit: usize) -> Vec<WaitingRequest> {
        self.state().queue.next_waiting(limit)
    }

    /// What each of its workers is doing; those that finish before they leave included.
    pub fn activity(&self) -> Vec<WorkerActivity> {
        self.links().iter().map(|link| link.activity()).collect()
    }

    /// Its workers.
    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        let state = self.state();
        let pending = state.pending.iter().map(|pending| Arc::clone(&pending.link));
        state.queue.links().chain(pending).collect()
    }

    /// The kind of app and the language, as its workers say (`wsgi, CPython 3.11.7`).
    pub fn description(&self) -> Option<String> {
        self.description.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    /// Whether its workers accept WebSockets.
    pub(super) fn accepts_websockets(&self) -> bool {
        self.websockets.load(Ordering::Relaxed)
    }

    /// Whether a WebSocket's opening is told its workers: their application may also take it as a tunnel.
    pub(super) fn takes_websockets(&self) -> bool {
        self.accepts_websockets() || self.hijacks.load(Ordering::Relaxed)
    }

    /// Whether its interface has a word for a client that sends no more.
    pub(super) fn hears_half_close(&self) -> bool {
        self.half_close.load(Ordering::Relaxed)
    }

    pub(super) fn builds_cgi_names(&self) -> bool {
        self.cgi_names.load(Ordering::Relaxed)
    }

    pub(super) fn takes_user(&self) -> bool {
        self.user.load(Ordering::Relaxed)
    }

    /// A worker has died of one of these requests; which one, nobody knows if there are several.
    pub(super) fn handle_death(&self, suspects: &[RequestSummary]) {
        for (refused, time) in self.quarantine.handle_death(suspects) {
            let scope = if refused.is_page() { "page" } else { "route" };
            // The path itself stands in the access log, beside this id.
            let id =
                suspects.iter().find(|suspect| refused.covers(suspect)).map(|suspect| suspect.id.to_string());
            tracing::error!(
                name: "route_quarantined",
                app = %self.name, route = %refused, scope, id, seconds = time.as_secs(),
                "route kills workers; refused for the given seconds, then tried with one request at a time"
            );
            let waiting = self.state().queue.take_waiting_of(|job| refused.covers(&job.call.summary));
            waiting.into_iter().for_each(|job| job.call.put(Item::Quarantined(time)));
        }
    }

    /// The response to a request has ended.
    pub(super) fn handle_response(&self, summary: &RequestSummary) {
        if self.quarantine.handle_response(summary) {
            tracing::info!(
                name: "route_released",
                app = %self.name, route = %summary, "route has responded; no longer refused"
            );
        }
    }

    /// The end is near: streams that have begun are ended, WebSockets closed with 1001. Requests without a response go on.
    pub fn say_goodbye(&self) {
        let links: Vec<Arc<Link>> = self.state().queue.links().collect();
        links.iter().for_each(|link| link.say_goodbye());
    }

    /// Whether no worker will come before the next reload.
    pub fn is_given_up(&self) -> bool {
        self.state().failed.is_some()
    }

    /// No worker will come, for this reason; or (`None`) they come again.
    pub(super) fn set_failed(&self, reason: Option<&str>) {
        let mut state = self.state();
        state.failed = reason.map(Into::into);
        let Some(reason) = state.failed.clone() else { return };
        if state.queue.workers() > 0 {
            return;
        }
        let waiting = state.queue.take_waiting();
        drop(state);
        waiting.into_iter().for_each(|job| job.call.put(Item::Refused(Arc::clone(&reason))));
    }

    /// Gives a request to a worker, or lets it wait for one. `again`: it was taken before, and is not turned away for want of room.
    pub(super) fn submit(&self, job: QueuedRequest, again: bool) -> Result<(), SubmitError> {
        let mut state = self.state();
        state.retries.handle_request();
        if let Some(link) = state.queue.take_slot(&job) {
            drop(state);
            link.give(job);
            return Ok(());
        }
        if let (Some(reason), 0) = (&state.failed, state.queue.workers()) {
            return Err(SubmitError::Failed(Arc::clone(reason)));
        }
        if !again && state.queue.waiting() >= self.policy().queue {
            return Err(SubmitError::QueueFull);
        }
        state.queue.wait(job);
        Ok(())
    }

    /// Whether one more request may be given a second time.
    pub(super) fn may_retry(&self) -> bool {
        self.state().retries.try_retry()
    }

    pub(super) fn forget(&self, call: &Arc<Call>) {
        self.state().queue.forget(call);
    }

    /// Takes one of the places for requests whose body the app itself asks for (`spec/http.md` §2): at most half of those that all workers have, at
    /// least one.
    pub(super) fn enter_expecting(self: &Arc<Self>) -> Option<ExpectationPermit> {
        let slots = self.state().queue.workers().saturating_mul(self.streams.load(Ordering::Relaxed));
        let limit = (slots / 2).max(1);
        let entered = self
            .expecting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1));
        entered.is_ok().then(|| ExpectationPermit(Arc::clone(self)))
    }

    /// One warning per app for a field that is the connection's and not the app's.
    pub(super) fn warn_hop_by_hop(&self, field: &str) {
        if !self.warned_hop_by_hop.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                name: "connection_header_dropped",
                app = %self.name, field,
                "the app sets a connection header, which is not passed on (logged once)"
            );
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, AppState> {
        self.state.lock().unwrap_or_else(|poisoned| self.begin_anew(poisoned))
    }

    /// A panic has interrupted a change of the queue and the slots: a slot may be counted twice or never, and a request may be lost. Both are reset: queued requests
    /// are refused, and the workers are replaced, because their slots are unknown. Other apps are not affected.
    #[cold]
    fn begin_anew<'a>(&'a self, poisoned: PoisonError<MutexGuard<'a, AppState>>) -> MutexGuard<'a, AppState> {
        const REASON: &str = "a bug in Keepwarm broke the queue of its app";
        let mut state = poisoned.into_inner();
        let waiting = state.queue.take_waiting();
        let queue = std::mem::take(&mut state.queue);
        let links: Vec<Arc<Link>> =
            queue.links().chain(state.pending.drain(..).map(|pending| pending.link)).collect();
        self.state.clear_poison();
        tracing::error!(
            name: "workers_stuck",
            app = %self.name, waiting = waiting.len(), workers = links.len(),
            "{REASON}; replacing all its workers"
        );
        let reason: Arc<str> = REASON.into();
        waiting.into_iter().for_each(|job| job.call.put(Item::Refused(Arc::clone(&reason))));
        links.iter().for_each(|link| link.kill(REASON));
        state
    }
}

/// Why a request is not queued.
#[derive(Debug)]
pub(super) enum SubmitError {
    QueueFull,
    Failed(Arc<str>),
}

/// Counts a request that may hold a worker while its client sends; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ExpectationPermit(Arc<App>);

impl Drop for ExpectationPermit {
    fn drop(&mut self) {
        self.0.expecting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The handler of an app; what a route ends in.
#[derive(Debug, Clone)]
pub struct AppHandler(pub Arc<App>);

impl Handler for AppHandler {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        if self.0.is_unstarted.load(Ordering::Acquire) && self.0.show_unstarted(exchange) {
            return Box::pin(std::future::ready(()));
        }
        match self.0.policy().kind.protocol().cloned() {
            None => Box::pin(conversation::hold(&self.0, exchange)),
            Some(Protocol::Http(_)) => Box::pin(relay::hold_http(&self.0, exchange)),
            Some(Protocol::FastCgi(root)) => Box::pin(fastcgi::hold(&self.0, root, exchange)),
        }
    }
}

#[cfg(test)]
mod tests;
