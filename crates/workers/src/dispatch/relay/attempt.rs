//! One try with one worker: the connection, and whether a failure may be followed by another try.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::{AcquireError, ClientError};
use keepwarm_serve::poll_pump;

use super::super::conversation::body::BodySource;
use super::super::link::Link;
use super::super::refusals;
use super::child::Child;
use super::server::{Server, SlotGuard};
use super::worker_request::WorkerRequest;
use super::{AttemptResult, Dialect, Relay};
use crate::supervisor::is_killed;

/// A request is given to workers at most this often. One that refuses connections is not counted: it is not chosen twice.
const GIVEN_AT_MOST: u8 = 4;
/// How long a process that has lost its connections may take to be seen as dead. It takes a few milliseconds, and many on a machine that has much to do.
const DYING: Duration = Duration::from_millis(500);
/// So often it is looked after.
const LOOK: Duration = Duration::from_millis(5);

impl<C: Dialect> Relay<'_, '_, C> {
    pub(super) async fn attempt(&mut self, slot: SlotGuard) -> AttemptResult {
        let link = Arc::clone(&slot.link);
        if let Some(result) = self.beware(&slot).await {
            return result;
        }
        let Some(server) = link.kind.server() else {
            // A worker of a kind that the app had before the last reload.
            refusals::APP_CHANGED.respond(self.exchange);
            return AttemptResult::Over;
        };
        let external = link.kind.external();
        match C::connect(self, server, self.need(external.is_none())).await {
            Ok(lease) => {
                if let Some(external) = external {
                    external.is_there(self.app);
                }
                let mut worker_request = WorkerRequest::new(self, slot, lease);
                worker_request.begin();
                poll_fn(|cx| poll_pump(&mut worker_request, cx)).await
            }
            Err(AcquireError::NoExtendedConnect) => {
                drop(slot);
                self.refuse_websocket();
                AttemptResult::Over
            }
            Err(error) if let Some(server) = external => {
                drop(slot);
                server.is_away(self.app, &error);
                refusals::SERVER_NOT_CONNECTED.about(&[&server.server.endpoint]).respond(self.exchange);
                AttemptResult::Over
            }
            Err(error) => {
                drop(slot);
                self.not_connected(&link, &error)
            }
        }
    }

    /// The last try goes to no process that dies: there is no other than the one that has failed, or the other was killed as well. When a process dies, its
    /// memory and its connections go before its listening socket: what is sent in between is lost.
    async fn beware(&mut self, slot: &SlotGuard) -> Option<AttemptResult> {
        // Kept for all that follow: a worker that takes no connection was not the last try.
        let failed = self.failed_at.as_ref()?;
        let link = &slot.link;
        // A kept connection was most likely closed as idle.
        let may_die = Arc::ptr_eq(failed, link) && !self.anew && !outlives_requests(link);
        if !may_die && !is_killed(link.key.pid) {
            return None;
        }
        let dies = async {
            while !link.is_dead() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(DYING, dies).await.ok().map(|()| AttemptResult::Again("worker_died"))
    }

    /// The app's server takes no WebSockets over HTTP/2.
    fn refuse_websocket(&mut self) {
        tracing::error!(
            name: "websocket_refused",
            app = %self.app.name, id = %self.id(),
            "the application's server does not offer extended CONNECT (RFC 8441), which a WebSocket needs with `protocol = \"http2\"`; use a server that does, or `protocol = \"http1\"`"
        );
        refusals::NO_EXTENDED_CONNECT.respond(self.exchange);
    }

    fn not_connected(&mut self, link: &Arc<Link>, error: &AcquireError) -> AttemptResult {
        tracing::warn!(
            name: "worker_refuses_connections",
            app = %self.app.name, worker = link.key.number, pid = link.key.pid, id = %self.id(), %error,
            "worker accepts no connection"
        );
        if error.is_refused() {
            self.given = self.given.saturating_sub(1).max(1);
            link.refuses(format!("accepts no connection: {error}"));
        }
        if self.given < GIVEN_AT_MOST && self.is_untouched() {
            return AttemptResult::Again("not_connected");
        }
        refusals::NOT_CONNECTED.respond(self.exchange);
        AttemptResult::Over
    }

    /// All of the request can be sent from its beginning.
    fn is_untouched(&self) -> bool {
        !self.body_used && !matches!(self.source, BodySource::Sent) && !self.exchange.responded()
    }

    /// The connection ended before a byte of the response (RFC 9110 §9.2.2). `sent`: a byte of the request had been taken; `kept`: the connection had been used
    /// before, so that most likely the server closed it as idle while the request was on its way.
    pub(super) fn may_be_given_again(
        &mut self,
        link: &Arc<Link>,
        (sent, kept): (bool, bool),
        child: Option<&Child>,
    ) -> Option<&'static str> {
        if !self.is_untouched() || self.given >= GIVEN_AT_MOST {
            return None;
        }
        if !sent {
            self.anew |= kept;
            return Some("not_sent");
        }
        self.failed_at = Some(Arc::clone(link));
        if link.takes_too_much_memory() || child.is_some_and(Child::took_memory) {
            return None;
        }
        let method = &self.exchange.request().head.method;
        let harmless = if kept { method.is_idempotent() } else { method.is_safe() };
        // As for calls to upstreams: a connection that a live process has closed as idle is not a failed try.
        let idle = kept && !outlives_requests(link) && !is_killed(link.key.pid);
        if !harmless || self.risked || (!idle && !self.app.may_retry()) {
            return None;
        }
        // Once all the same: it may have been the request that ended the process, whose death is known a moment later.
        self.risked = true;
        self.anew = kept;
        Some(if kept { "closed_idle" } else { "closed_without_response" })
    }

    /// The server says that it has processed nothing of the request (RFC 9113 §8.7): it is given again, whatever its method, and to any worker. This one may only have
    /// ended a connection.
    pub(super) fn was_declined(&self) -> Option<&'static str> {
        (self.is_untouched() && self.given < GIVEN_AT_MOST).then_some("not_processed")
    }

    /// No response will come, or not all of it.
    pub(super) fn response_failed(&mut self, error: &ClientError, slot: &SlotGuard) {
        // What has not left yet need not be cut.
        let responded = self.exchange.responded() && !self.exchange.take_back();
        tracing::error!(
            name: "request_failed",
            app = %self.app.name, worker = slot.link.key.number, pid = slot.link.key.pid, id = %self.id(),
            responded, reason = error.name(),
            "{error}"
        );
        match responded {
            // The client has it whole: nothing is left to be cut.
            true if self.exchange.is_given() => return self.exchange.end(),
            true => return self.exchange.abort(error.name()),
            false => {}
        }
        let refusal = match error {
            ClientError::NoResponse(_) => &refusals::CLOSED_WITHOUT_RESPONSE,
            ClientError::NotProcessed(_) => &refusals::NOT_PROCESSED,
            ClientError::Fault(_) => &refusals::BAD_RESPONSE,
        };
        refusal.about(&[]).reason(error.name()).respond(self.exchange);
    }
}

/// Whether the process that a request kills is another than the one that listens.
fn outlives_requests(link: &Link) -> bool {
    link.kind.external().is_some() || link.kind.server().is_some_and(Server::has_children)
}
