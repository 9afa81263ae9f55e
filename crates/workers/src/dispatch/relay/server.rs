//! The places of a server: waiting for one, having one, giving it back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use keepwarm_net::{Endpoint, Protocol as Version, WaitKind, thread_index};
use keepwarm_serve::{ProxyVersion, Request};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::activity::RequestSummary;
use super::super::app::App;
use super::super::call::{Call, Item};
use super::super::kind::RequestKind;
use super::super::link::{KillCause, Link, OrphanedRequests};
use super::super::quarantine::QuarantineProbe;
use super::super::queue::QueuedRequest;
use super::super::refusals;
use super::child::{Child, ChildPolicy};
use super::{Dialect, Relay, ServerPolicy, lock};
use crate::supervisor::{Addresses, KillReason, LinkEvent, Requests, WorkerLink};

/// A server that is known to respond, or is configured.
#[derive(Debug)]
pub(in crate::dispatch) struct Server {
    /// Where it responds.
    pub(super) endpoint: Endpoint,
    /// Its policy when it was started.
    policy: PolicyAtStart,
    /// Processes of its own that have shown themselves, by their ids.
    pub(super) children: Mutex<BTreeMap<u32, Arc<Child>>>,
}

/// What a server is beyond its protocol: of [`ServerPolicy`], for as long as it lives.
#[derive(Debug, Clone, Copy)]
struct PolicyAtStart {
    http: Version,
    proxy: Option<ProxyVersion>,
    children: Option<ChildPolicy>,
    works_behind: bool,
}

impl Server {
    pub(super) fn new(endpoint: Endpoint, policy: &ServerPolicy) -> Self {
        let ServerPolicy { proxy, children, works_behind, .. } = *policy;
        let http = policy.protocol.http_version();
        Self {
            endpoint,
            policy: PolicyAtStart { http, proxy, children, works_behind },
            children: Mutex::default(),
        }
    }

    /// Which version of HTTP it speaks, if that is its protocol.
    pub(super) fn http_version(&self) -> Version {
        self.policy.http
    }

    /// Where a connection for the client of this request leads.
    pub(super) fn endpoint_for(&self, request: &Request) -> Cow<'_, Endpoint> {
        match self.policy.proxy {
            Some(version) => Cow::Owned(self.endpoint.proxied(version.header(request))),
            None => Cow::Borrowed(&self.endpoint),
        }
    }

    /// Where a health check connects.
    pub(super) fn own_endpoint(&self) -> Cow<'_, Endpoint> {
        own_endpoint(&self.endpoint, self.policy.proxy)
    }

    /// How its processes are treated, if it keeps some of its own.
    pub(super) fn child_policy(&self) -> Option<ChildPolicy> {
        self.policy.children
    }

    /// Whether its requests are served by processes of its own, which it outlives.
    pub(super) fn has_children(&self) -> bool {
        self.policy.children.is_some()
    }

    /// Whether its scripts may keep running after their responses.
    pub(super) fn works_behind(&self) -> bool {
        self.policy.works_behind
    }

    /// Nothing will be asked of it any more: kept connections are closed.
    pub(super) fn forget(&self, app: Option<&Arc<App>>) {
        if let Some(app) = app {
            app.servers.forget(&self.endpoint);
        }
    }
}

/// Where a connection leads that is for no client.
pub(super) fn own_endpoint(endpoint: &Endpoint, proxy: Option<ProxyVersion>) -> Cow<'_, Endpoint> {
    match proxy {
        Some(version) => Cow::Owned(endpoint.proxied(version.own_header())),
        None => Cow::Borrowed(endpoint),
    }
}

/// A worker that listens by itself.
#[derive(Debug)]
pub(in crate::dispatch) struct ServerProcess {
    /// Those that it was told.
    pub(super) addresses: Addresses,
    /// Set once it responds.
    server: OnceLock<Server>,
    /// Something asks for a look at its health, or it has gone.
    pub(in crate::dispatch) look: Notify,
    /// It was asked, and has not responded since.
    pub(super) owes_response: AtomicBool,
    /// A request has timed out there: one that does not respond now is given up.
    pub(super) suspected: Mutex<Option<RequestSummary>>,
    /// The requests that were lost with their connections, until it is known whether their process has died.
    lost: Mutex<Vec<(Instant, RequestSummary)>>,
}

/// A connection that was lost so long before its process was reaped has nothing to do with that.
const LOST_WITH_IT: Duration = Duration::from_secs(2);

impl ServerProcess {
    pub(in crate::dispatch) fn new(addresses: Addresses) -> Self {
        Self {
            addresses,
            server: OnceLock::new(),
            look: Notify::new(),
            owes_response: AtomicBool::new(false),
            suspected: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// It responds.
    pub(super) fn set_server(&self, server: Server) {
        // It is found once.
        let _ = self.server.set(server);
    }

    /// What is known of it once it responds.
    pub(in crate::dispatch) fn server(&self) -> Option<&Server> {
        self.server.get()
    }

    /// It has begun to respond to a request: whatever it was asked for its health, it is there.
    pub(super) fn handle_response(&self) {
        if self.owes_response.load(Ordering::Relaxed) {
            self.owes_response.store(false, Ordering::Relaxed);
        }
    }

    /// A request was lost with its connection; perhaps its process has died of it.
    pub(super) fn note_lost(&self, summary: RequestSummary) {
        let mut lost = lock(&self.lost);
        let now = Instant::now();
        lost.retain(|(at, _)| now.saturating_duration_since(*at) < LOST_WITH_IT);
        lost.push((now, summary));
    }

    fn take_lost(&self) -> Vec<RequestSummary> {
        let now = Instant::now();
        let recent = |(at, summary): (Instant, RequestSummary)| {
            (now.saturating_duration_since(at) < LOST_WITH_IT).then_some(summary)
        };
        lock(&self.lost).drain(..).filter_map(recent).collect()
    }
}

/// A server as the supervisor holds it: dropped when its process has been reaped.
pub(in crate::dispatch) struct ServerLink(pub(in crate::dispatch) Arc<Link>);

impl WorkerLink for ServerLink {
    fn retire(&self) {
        self.0.retire();
    }

    fn expect_kill(&self, kill_reason: KillReason) {
        self.0.expect_kill(kill_reason);
    }

    fn say_goodbye(&self) {
        self.0.say_goodbye();
    }

    /// Its health is asked for.
    fn ping(&self) {
        let Some(process) = self.0.kind.process() else { return };
        if self.0.is_idle() && !process.owes_response.swap(true, Ordering::Relaxed) {
            process.look.notify_one();
        }
    }

    fn is_silent(&self) -> bool {
        let process = self.0.kind.process();
        process.is_some_and(|process| process.owes_response.load(Ordering::Relaxed)) && self.0.is_idle()
    }

    fn requests(&self) -> &Requests {
        self.0.requests()
    }

    fn end_child(&self, pid: u32, gently: bool) -> bool {
        let app = self.0.app.upgrade();
        self.0.kind.server().is_some_and(|server| server.end_child(pid, gently, app.as_ref()))
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        self.0.bury();
    }
}

impl Link {
    /// Gives a place to a request, for which the caller has taken it.
    pub(in crate::dispatch) fn offer(self: &Arc<Self>, call: &Arc<Call>) {
        let mut inner = self.lock();
        if inner.dead {
            drop(inner);
            return call.put(Item::Lost { unprocessed: true, kill_reason: None });
        }
        inner.taken += 1;
        // Unique among those that are held at one time.
        let slot = inner.taken as u32;
        if !call.give_to(self, slot) {
            // Its client left between the queue and here.
            drop(inner);
            return self.free_slot();
        }
        inner.calls.insert(slot, Arc::clone(call));
        drop(inner);
        call.begin_work(|| None);
        call.wake();
        if self.requests().count() {
            self.report(LinkEvent::RequestsReached { worker: self.key.clone() });
        }
    }

    /// It is killed for that: perhaps because of what it was asked.
    pub(super) fn takes_too_much_memory(&self) -> bool {
        self.lock().kill_cause.as_ref().is_some_and(|kill_cause| kill_cause.kill_reason == KillReason::Memory)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.lock().dead
    }

    fn is_idle(&self) -> bool {
        self.lock().calls.is_empty()
    }

    /// It speaks another language.
    pub(in crate::dispatch) fn refuse(self: &Arc<Self>, call: &Call) {
        call.put(Item::Refused("it was just replaced by an app of another kind".into()));
        self.free_slot();
    }

    fn free_slot(self: &Arc<Self>) {
        if let Some(app) = self.app.upgrade() {
            app.place_is_free(self);
        }
    }

    /// Nothing will be asked of it any more: kept connections are closed.
    pub(in crate::dispatch) fn forget_connections(&self) {
        if let Some(server) = self.kind.server() {
            server.forget(self.app.upgrade().as_ref());
        }
    }

    /// It takes no requests any more; those it has find out by themselves.
    fn leave(self: &Arc<Self>) -> OrphanedRequests {
        if let Some(app) = self.app.upgrade() {
            app.remove(self);
        }
        let orphans = self.die(false);
        self.forget_connections();
        if let Some(process) = self.kind.process() {
            process.look.notify_one();
        }
        orphans
    }

    /// Its process has ended: the requests that were lost with it may be to blame.
    fn bury(self: &Arc<Self>) {
        let OrphanedRequests { calls, kill_cause, .. } = self.leave();
        let (Some(app), Some(process)) = (self.app.upgrade(), self.kind.process()) else { return };
        let mut suspects = process.take_lost();
        match kill_cause {
            Some(KillCause { culprit: Some(culprit), .. }) => suspects = vec![culprit],
            _ => suspects.extend(calls.iter().map(|(_, call)| call.summary.clone())),
        }
        if !suspects.is_empty() {
            app.handle_death(&suspects);
        }
    }

    /// It does not accept connections any more: its process is expected to end.
    pub(super) fn refuses(self: &Arc<Self>, reason: String) {
        let was_dead = self.lock().dead;
        drop(self.leave());
        if !was_dead {
            self.report(LinkEvent::Closed { worker: self.key.clone(), reason });
        }
    }
}

/// The slot that a request holds; dropping it frees the slot.
pub(super) struct SlotGuard {
    pub(super) link: Arc<Link>,
    number: u32,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let was_there = self.link.lock().calls.remove(&self.number).is_some();
        if was_there {
            self.link.free_slot();
        }
    }
}

impl<C: Dialect> Relay<'_, '_, C> {
    /// Waits until a worker has a place. `None`: the request got an error response, or its client has gone.
    pub(super) async fn wait_for_slot(&mut self) -> Option<SlotGuard> {
        if !self.submit() {
            return None;
        }
        let slot = poll_fn(|cx| {
            loop {
                if let Some((link, number)) = self.call.given() {
                    return Poll::Ready(Some(SlotGuard { link, number }));
                }
                match self.call.poll_item(cx) {
                    Poll::Ready(Item::Refused(reason)) => {
                        refusals::APP_FAILED.about(&[&reason]).respond(self.exchange);
                        return Poll::Ready(None);
                    }
                    Poll::Ready(Item::Quarantined(time)) => {
                        refusals::respond_quarantined(self.exchange, time);
                        return Poll::Ready(None);
                    }
                    // The worker had gone before it could be given to it.
                    Poll::Ready(_) if !self.submit() => return Poll::Ready(None),
                    Poll::Ready(_) => {}
                    Poll::Pending if self.call.given().is_some() => {}
                    Poll::Pending => break,
                }
            }
            if let Poll::Ready(gone) = self.exchange.poll_gone(cx) {
                self.exchange.abandon(gone);
                return Poll::Ready(None);
            }
            if self.exchange.deadlines().poll_passed(WaitKind::Response, cx) {
                refusals::QUEUE_TIMEOUT.respond(self.exchange);
                return Poll::Ready(None);
            }
            Poll::Pending
        });
        let slot = slot.await;
        self.exchange.deadlines().set(WaitKind::Response, None);
        slot
    }

    /// Takes a place, or joins the queue. `false`: it was refused, with an error response.
    fn submit(&mut self) -> bool {
        if self.probe.is_none() {
            match QuarantineProbe::ask(self.app, &self.call.summary) {
                Ok(probe) => self.probe = probe,
                Err(time) => {
                    refusals::respond_quarantined(self.exchange, time);
                    return false;
                }
            }
        }
        let again = self.given > 0;
        self.given = self.given.saturating_add(1);
        if again {
            // Back to the state of one that waits.
            drop(self.call.take_frame());
            self.waited = Some(Instant::now());
        } else {
            self.since = Instant::now();
        }
        let job = QueuedRequest {
            call: Arc::clone(&self.call),
            kind: RequestKind::Server,
            thread: thread_index(),
            session: self.exchange.request().notes.routed.session,
            avoid: self.failed_at.clone(),
            since: self.since,
        };
        match self.app.submit(job, again) {
            Ok(()) => {
                let end = Instant::now().checked_add(self.app.policy().queue_timeout);
                self.exchange.deadlines().set(WaitKind::Response, end);
                true
            }
            Err(error) => {
                refusals::respond_not_submitted(self.exchange, &error);
                false
            }
        }
    }
}

impl<C: Dialect> Drop for Relay<'_, '_, C> {
    /// A task that still waits for a slot stops waiting; a slot given to it meanwhile is free again.
    fn drop(&mut self) {
        let times = self.times();
        self.exchange.request_mut().notes.set_times(times);
        use super::super::call::CallState;
        match self.call.abandon() {
            CallState::Waiting => self.app.forget(&self.call),
            CallState::Given(link, number) => drop(SlotGuard { link, number }),
            CallState::Abandoned => {}
        }
    }
}
