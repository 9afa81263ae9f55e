//! The time a request may take: in the queue, at the app, at the client.

use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::WaitKind;
use keepwarm_serve::{RequestInstants, RequestTimes};
use keepwarm_telemetry::meters::{RouteMeter, SLOW};
use keepwarm_wire::frame::ResetCode;
use tokio::time::Instant;

use super::super::link::Link;
use super::super::profile::Sampling;
use super::super::refusals;
use super::{Conversation, EXPECTED_BODY};

/// How long a worker that serves many requests at once may say nothing at all, a PONG included, when one of them has timed out. Beyond it, it is not
/// that request which hangs, but the worker. The number is arbitrary: far above what a loaded machine needs.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

impl Conversation<'_, '_> {
    /// The application's time stands still while it waits for the client, and runs again once it does not; that of a place among those that expect a body runs always.
    pub(super) fn keep_time(&mut self) {
        let deadlines = self.exchange.deadlines();
        let expects = self.expecting.is_some();
        let waits_for_client = self.response.is_full() || self.starved;
        if self.complete || (waits_for_client && !expects) {
            deadlines.set(WaitKind::Response, None);
        } else if !deadlines.is_set(WaitKind::Response)
            && !deadlines.passed(WaitKind::Response)
            && self.call.is_in_work()
        {
            let limit = if expects { EXPECTED_BODY } else { self.time_limit() };
            deadlines.set_after(WaitKind::Response, limit);
        }
    }

    /// The application's time runs (again).
    pub(super) fn application_works(&mut self) {
        match self.complete {
            true => self.exchange.deadlines().set(WaitKind::Response, None),
            false => self.exchange.deadlines().set_after(WaitKind::Response, self.time_limit()),
        }
    }

    /// What the application has for its response, and then from one part of it to the next. A stream may be silent for as long as a WebSocket.
    fn time_limit(&self) -> Duration {
        let limit = self.app.policy().request_timeout;
        if self.stream { limit.max(self.exchange.limits().websocket.idle) } else { limit }
    }

    /// The worker's part is over.
    pub(super) fn completed(&mut self) {
        if self.slow_said && !self.complete {
            self.slow_request_finished();
        }
        self.complete = true;
        self.ended.get_or_insert_with(Instant::now);
    }

    /// Where the time went, for those who count it. `worker`: the last that had it.
    pub(super) fn times(&self, worker: Option<&Link>) -> RequestTimes {
        let ended = self.ended.unwrap_or_else(Instant::now);
        let at = RequestInstants {
            received: self.exchange.received(),
            // One whose body never came has not waited for a worker: all of its time is reading.
            first_waited: self.first_since.unwrap_or(ended),
            waited: self.first_since.map_or(ended, |_| self.since),
            begun: self.call.in_work_since().unwrap_or(ended),
            headed: self.headed,
            ended,
        };
        RequestTimes::between(at, worker.map(Link::timeline_worker), self.slow_said)
    }

    /// It has taken longer than `slow_log` allows, or might have: says so once, and has the worker show where it stands.
    pub(super) fn is_slow(&mut self) {
        let deadlines = self.exchange.deadlines();
        deadlines.set(WaitKind::Slow, None);
        let Some(limit) = self.app.policy().slow_log.filter(|_| !self.complete && !self.slow_said) else {
            return;
        };
        let unusual = self.unusual();
        let Some(((link, stream), begun)) = self.call.given().zip(self.call.in_work_since()) else {
            return deadlines.set_after(WaitKind::Slow, limit.min(unusual));
        };
        let later = |after| begun.checked_add(after).filter(|end| *end > Instant::now());
        if self.sampling.is_none() && deadlines.is_set(WaitKind::Response) {
            if let Some(end) = later(limit.min(unusual)) {
                return deadlines.set(WaitKind::Slow, Some(end));
            }
            self.sampling = Sampling::begin(self.app, &link, stream);
        }
        if let Some(end) = later(limit) {
            return deadlines.set(WaitKind::Slow, Some(end));
        }
        if !deadlines.is_set(WaitKind::Response) {
            // The application waits for the client.
            return deadlines.set_after(WaitKind::Slow, limit);
        }
        self.slow_said = true;
        let summary = &self.call.summary;
        tracing::warn!(
            name: "slow_request",
            app = %self.app.name, worker = link.key.number, pid = link.key.pid, id = %summary.id,
            route = %summary, seconds = begun.elapsed().as_secs_f32(),
            "slow request; its worker prints its stack"
        );
        link.show_stack();
    }

    /// From when on it takes longer than is usual for its route.
    pub(super) fn unusual(&self) -> Duration {
        self.exchange.request().notes.meter.map_or(SLOW, RouteMeter::unusual)
    }

    /// It is over. What was sampled of it is said if it was slow.
    pub(super) fn finish_samples(&mut self) {
        let Some(sampling) = self.sampling.take().filter(|_| self.slow_said) else { return };
        keepwarm_net::spawn_local(sampling.finish(self.call.summary.clone()));
    }

    /// Says what a request that was slow has cost its worker.
    #[cold]
    fn slow_request_finished(&self) {
        let Some((link, _)) = self.call.last_given() else { return };
        let used = self.call.usage_before().zip(link.lock().usage());
        let summary = &self.call.summary;
        tracing::warn!(
            name: "slow_request_finished",
            app = %self.app.name, worker = link.key.number, pid = link.key.pid, id = %summary.id,
            route = %summary, seconds = self.call.in_work_since().map(|begun| begun.elapsed().as_secs_f32()),
            cpu_seconds = used.map(|(before, now)| now.cpu.saturating_sub(before.cpu).as_secs_f32()),
            memory_gained = used.map(|(before, now)| now.memory as i64 - before.memory as i64),
            "request finished; it was slow"
        );
    }

    /// The deadline has passed. `false`: it was an older one, and a new one is set.
    pub(super) fn time_is_over(&mut self) -> bool {
        let given = self.call.given().filter(|_| self.call.is_in_work());
        let Some((link, stream)) = given else {
            return self.queue_time_is_over();
        };
        // Queued until a moment ago: the application's time began when a worker took it.
        let limit = match self.expecting {
            Some(_) => EXPECTED_BODY,
            None => self.time_limit(),
        };
        if let Some(end) = self.call.in_work_since().and_then(|at| at.checked_add(limit))
            && end > Instant::now()
            && !self.begun
        {
            self.exchange.deadlines().set(WaitKind::Response, Some(end));
            return false;
        }
        self.over = true;
        self.call.abandon();
        if self.expecting.is_some() {
            link.reset(stream, ResetCode::INCOMPLETE, "the body did not arrive in time");
            refusals::BODY_TOO_SLOW.respond(self.exchange);
            return true;
        }
        self.application_is_late(&link, stream, limit);
        true
    }

    fn queue_time_is_over(&mut self) -> bool {
        let policy = self.app.policy();
        let now = Instant::now();
        if let Some(end) = self.since.checked_add(policy.queue_timeout).filter(|end| *end > now) {
            self.exchange.deadlines().set(WaitKind::Response, Some(end.min(now + policy.request_timeout)));
            return false;
        }
        self.stop_waiting();
        refusals::QUEUE_TIMEOUT.respond(self.exchange);
        true
    }

    fn application_is_late(&mut self, link: &Arc<Link>, stream: u32, limit: Duration) {
        let summary = &self.call.summary;
        tracing::error!(
            name: "request_timeout",
            app = %self.app.name, worker = link.key.number, pid = link.key.pid, id = %summary.id,
            route = %summary, limit = ?limit,
            "request timed out"
        );
        link.reset(stream, ResetCode::TIMEOUT, "the request timed out");
        match self.app.is_blocking() {
            // Whatever it is doing, nothing but its end will stop it.
            true => link.give_up(Some(summary), "had a request that timed out"),
            // It can let go of one request and keep the others, if it still turns.
            false => self.want_sign_of_life(link),
        }
        refusals::respond_timed_out(self.exchange);
    }

    /// The client has gone, and with it the task that timed the worker. A worker that cannot cancel the request keeps its slot until it finishes, which may be never:
    /// so the request timeout still applies.
    pub(super) fn keep_time_of_abandoned(&self) {
        let Some((link, stream)) = self.call.given().filter(|_| self.app.is_blocking() && !self.complete)
        else {
            return;
        };
        let limit = self.app.policy().request_timeout;
        let begun = self.call.in_work_since();
        let mut left = begun.map_or(limit, |begun| limit.saturating_sub(begun.elapsed()));
        let summary = self.call.summary.clone();
        let link = Arc::downgrade(&link);
        keepwarm_net::spawn_local(async move {
            loop {
                // Not held meanwhile: the link of a worker that dies keeps a descriptor.
                let Some(at_work) = link.upgrade().map(|link| link.is_at_work_on(stream)) else { return };
                tokio::time::sleep(left).await;
                let Some(link) = link.upgrade().filter(|link| link.is_held(stream)) else { return };
                if at_work {
                    tracing::error!(
                        name: "request_timeout",
                        app = %link.key.app, worker = link.key.number, pid = link.key.pid, id = %summary.id,
                        route = %summary, ?limit,
                        "request timed out after its client had left"
                    );
                    return link.give_up(Some(&summary), "had a request that timed out");
                }
                left = limit;
            }
        });
    }

    fn want_sign_of_life(&self, link: &Arc<Link>) {
        link.ping();
        let (link, heard, summary) = (Arc::clone(link), link.heard(), self.call.summary.clone());
        keepwarm_net::spawn_local(async move {
            tokio::time::sleep(SIGN_OF_LIFE).await;
            let asked = Arc::clone(&link);
            link.once_listened(move || {
                if asked.heard() == heard {
                    asked.give_up(
                        Some(&summary),
                        "had a request that timed out, and responds to nothing any more",
                    );
                }
            });
        });
    }
}
