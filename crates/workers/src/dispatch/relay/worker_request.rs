//! One request at one server: what it is given, what it responds, and how that ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use keepwarm_http1::ResponseHead;
use keepwarm_net::{ClientError, WaitKind};
use keepwarm_serve::{
    Backend, BodyError, BodyProgress, BufferedBody, ClientEnd, ClientLoss, Exchange, PartResult,
    ResponseBuffer, ServerExchange, ServerPart, ServerSide, UNSENT_ENOUGH, offered_protocols,
    pass_informational, respond_with_body_error, websocket_accept,
};
use keepwarm_telemetry::counters;
use keepwarm_telemetry::stalls::Stall;
use tokio::time::Instant;

use super::super::app::App;
use super::super::conversation::body::BodySource;
use super::super::refusals;
use super::child::blame_if_dead;
use super::discard::{self, Reader};
use super::server::SlotGuard;
use super::{AttemptResult, Dialect, HeadContext, Relay, ServerConnection, behind, none};

/// Moved at a time.
pub(super) const BLOCK: usize = 64 * 1024;
/// One request at one worker.
pub(super) struct WorkerRequest<'t, 'a, 'c, C: Dialect> {
    pub(super) relay: &'t mut Relay<'a, 'c, C>,
    /// None once the server has done its part, and for an application that responds by itself.
    pub(super) slot: Option<SlotGuard>,
    pub(super) lease: Option<C::Connection>,
    pub(super) side: ServerSide,
    /// The server has said all of its response.
    pub(super) complete: bool,
    /// The client has not sent what the server may be waiting for.
    pub(super) starved: bool,
    block: Vec<u8>,
}

impl<'t, 'a, 'c, C: Dialect> WorkerRequest<'t, 'a, 'c, C> {
    pub(super) fn new(relay: &'t mut Relay<'a, 'c, C>, slot: SlotGuard, lease: C::Connection) -> Self {
        Self { slot: Some(slot), ..Self::hijacked(relay, lease) }
    }

    /// With an application that responds by itself, and takes no place.
    pub(super) fn hijacked(relay: &'t mut Relay<'a, 'c, C>, lease: C::Connection) -> Self {
        Self {
            relay,
            slot: None,
            lease: Some(lease),
            side: ServerSide::default(),
            complete: false,
            starved: false,
            block: Vec::new(),
        }
    }

    /// Gives the server the head, and the body as far as it is here.
    pub(super) fn begin(&mut self) {
        let Some(lease) = &mut self.lease else { return };
        let relay = &mut *self.relay;
        // A script cannot be asked: the worker is free, and reading is what sends the `100`.
        let asks =
            !C::BLOCKING && relay.exchange.awaits_continue() && matches!(relay.source, BodySource::Client);
        let expects = asks && !relay.app.servers.expectation().is_ignored(Instant::now().into_std());
        if asks && !expects {
            // The server is known to ignore it: `100 Continue` is sent for it at once.
            relay.exchange.request_mut().notes.stalls.insert(Stall::ExpectationIgnored);
        }
        let upgrade = offered_protocols(relay.exchange);
        let websocket_accept = websocket_accept(relay.exchange);
        let context = HeadContext {
            framing: relay.framing(),
            expects,
            upgrade: (!upgrade.is_empty()).then_some(upgrade.as_slice()),
            websocket_accept: websocket_accept.as_deref(),
        };
        let request = relay.exchange.request();
        C::begin(lease, request, &context, &relay.destination);
        match &relay.source {
            BodySource::Frame(body) => {
                lease.send(body);
                lease.end(&none());
            }
            BodySource::Client => lease.send(&relay.begun),
            BodySource::Spool(..) | BodySource::Sent => {}
        }
        if expects {
            self.side.hold_body();
        }
        self.server_works();
        if let Some(slow) = self.relay.app.policy().slow_log {
            self.relay.exchange.deadlines().set_after(WaitKind::Slow, slow);
        }
    }

    /// `100 Continue`: the server wants the body. It is passed on to a client that waits for it; nobody else sees it.
    fn handle_continue(&mut self) {
        if self.side.release_body() {
            self.relay.app.servers.expectation().handle_honored();
        }
        self.relay.exchange.want_body();
    }

    fn handle_head(&mut self) -> PartResult<AttemptResult> {
        if self.side.holds_body() {
            // It responds without having asked for the body: that settles the expectation, too.
            self.relay.app.servers.expectation().handle_honored();
        }
        let Some(lease) = &mut self.lease else { return PartResult::Waiting };
        let relay = &mut *self.relay;
        relay.headed = Some(Instant::now());
        relay.call.note_response();
        if let Some(server) = self.slot.as_ref().and_then(|slot| slot.link.kind.process()) {
            server.handle_response();
        }
        // A body that is still to come would be that other request's. Then it is the client that is sent there.
        if relay.exchange.body_done()
            && let Some(local) = lease.local_redirect()
        {
            relay.exchange.request_mut().notes.redirected = Some(local);
            return self.hand_over();
        }
        let head = lease.head();
        tell_mended(relay.app, head);
        if lease.head_came_in_pieces() {
            relay.exchange.request_mut().notes.stalls.insert(Stall::HeadInPieces);
        }
        let status = head.status.as_u16();
        let handed = match status {
            101 => self.side.switch(relay.exchange, head, None).map(|()| false),
            _ => {
                // A script that wants its client to go; a server's connection is its own business.
                let close = C::BLOCKING && head.connection.close;
                let fields = C::response_fields(lease);
                match relay.exchange.hand_file(status, fields.clone()) {
                    Ok(false) => relay.exchange.head(status, None, close, fields).map(|found| {
                        relay.stream = found.is_stream;
                        false
                    }),
                    handed => handed,
                }
            }
        };
        match handed {
            Ok(true) => self.hand_over(),
            Ok(false) if status == 101 => PartResult::Switched,
            Ok(false) => PartResult::Taken,
            Err(bad) => {
                tracing::error!(name: "response_invalid", app = %relay.app.name, id = %relay.id(), "{bad}");
                refusals::BAD_FIELD.respond(relay.exchange);
                PartResult::End(AttemptResult::Over)
            }
        }
    }

    /// The response is a file, or that of another path: somebody else gives it.
    fn hand_over(&mut self) -> PartResult<AttemptResult> {
        self.leave_running(Reader::Served);
        PartResult::End(AttemptResult::Over)
    }

    /// The server is free, though its client may not have it all.
    fn handle_end(&mut self) {
        self.complete = true;
        self.tell_words();
        if let (Some(lease), Some(slot)) = (self.lease.take(), self.slot.take()) {
            self.relay.call.abandon();
            behind::finish::<C>(lease, slot, (self.relay.request_timeout(), &self.relay.call.summary));
        }
        self.relay.ended = Some(Instant::now());
        self.relay.exchange.deadlines().set(WaitKind::Slow, None);
        self.relay.app.handle_response(&self.relay.call.summary);
        if self.side.end(self.relay.exchange, &mut self.relay.response) {
            self.log_wrong_length();
        }
    }

    fn log_wrong_length(&self) {
        if self.relay.exchange.request().notes.reason == Some("body_too_short") {
            tracing::error!(
                name: "body_length_wrong",
                app = %self.relay.app.name, id = %self.relay.id(),
                "the response body is shorter than announced"
            );
        }
    }

    /// What the server said beside its response is the app's log.
    fn tell_words(&mut self) {
        if let (Some(lease), Some(slot)) = (&mut self.lease, &self.slot) {
            discard::tell(&slot.link.key, &lease.take_words());
        }
    }

    /// Nobody wants the rest of the response. A server that works on one request at a time keeps its place until it has come to its end.
    fn leave_running(&mut self, reader: Reader) {
        if let (true, Some(lease), Some(slot)) = (C::BLOCKING, self.lease.take(), self.slot.take()) {
            // The place is not the request's any more, whose end would give it back.
            self.relay.call.abandon();
            let source = std::mem::replace(&mut self.relay.source, BodySource::Sent);
            let summary = self.relay.call.summary.clone();
            discard::run_out::<C>(lease, slot, (source, reader), (self.relay.request_timeout(), summary));
        }
    }

    /// Takes a part of the body from where it is. `false`: there is none now.
    fn poll_block(&mut self, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        match self.side.poll_held_body(cx, self.relay.exchange) {
            BufferedBody::Held => return Ok(false),
            BufferedBody::Ignored => {
                self.relay.app.servers.expectation().handle_ignored(Instant::now().into_std());
            }
            BufferedBody::Released => {}
        }
        let (relay, Some(lease)) = (&mut *self.relay, &mut self.lease) else { return Ok(false) };
        if lease.unsent() >= UNSENT_ENOUGH {
            return Ok(true);
        }
        self.block.clear();
        let from_client = matches!(relay.source, BodySource::Client);
        let read = match &mut relay.source {
            BodySource::Frame(_) | BodySource::Sent => return Ok(false),
            source => source.poll_read(cx, relay.app, relay.exchange, (&mut self.block, BLOCK)),
        };
        let Poll::Ready(progress) = read else {
            self.starved = true;
            return Ok(false);
        };
        let done = progress? == BodyProgress::Done;
        lease.send(&self.block);
        if done {
            match from_client {
                true => lease.end(relay.exchange.trailers()),
                false => lease.end(&none()),
            }
        }
        relay.keep_sent(&self.block, from_client && lease.may_be_declined(), done);
        Ok(true)
    }

    fn failed(&mut self, error: &ClientError) -> AttemptResult {
        self.tell_words();
        let Some(lease) = self.lease.take() else { return AttemptResult::Over };
        let Some(slot) = self.slot.take() else {
            self.relay.hijacker_failed(error);
            return AttemptResult::Over;
        };
        if let Some(server) = slot.link.kind.process() {
            server.note_lost(self.relay.call.summary.clone());
        }
        let child = lease.child_guard().map(|line| Arc::clone(line.child()));
        if let Some(child) = &child {
            blame_if_dead(Arc::clone(child), Arc::clone(self.relay.app), self.relay.call.summary.clone());
        }
        let state = (lease.has_sent(), lease.was_kept());
        let again = match error {
            ClientError::NoResponse(_) => self.relay.may_be_given_again(&slot.link, state, child.as_deref()),
            ClientError::NotProcessed(_) => self.relay.was_declined(),
            ClientError::Fault(_) => None,
        };
        if let Some(why) = again {
            return AttemptResult::Again(why);
        }
        self.relay.response_failed(error, &slot);
        AttemptResult::Over
    }

    /// The connection to the server is closed with it: that is how HTTP/1 says so. A script is left to end, or to
    /// notice.
    pub(super) fn client_gone(&mut self, gone: ClientLoss) -> AttemptResult {
        self.relay.exchange.abandon(gone);
        self.leave_running(Reader::Gone);
        AttemptResult::Over
    }
}

impl<'c, C: Dialect> Backend<'c> for WorkerRequest<'_, '_, 'c, C> {
    type End = AttemptResult;

    fn client(&mut self) -> (&mut Exchange<'c>, &mut ResponseBuffer) {
        (&mut *self.relay.exchange, &mut self.relay.response)
    }

    fn poll_switched(&mut self, cx: &mut Context<'_>) -> Option<Poll<AttemptResult>> {
        self.side.is_switched().then(|| self.poll_tunnel(cx))
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> PartResult<AttemptResult> {
        let Some(lease) = &mut self.lease else { return PartResult::Waiting };
        let relay = &mut *self.relay;
        match self.side.poll_part(cx, lease, relay.exchange, &mut relay.response) {
            ServerPart::Waiting => return PartResult::Waiting,
            ServerPart::Failed(error) => return PartResult::End(self.failed(&error)),
            // Neither is progress, however often it comes.
            ServerPart::Continue => {
                self.handle_continue();
                return PartResult::Taken;
            }
            ServerPart::Informational => {
                inform(relay.exchange, lease.head());
                return PartResult::Taken;
            }
            ServerPart::Data(0) => return PartResult::Taken,
            ServerPart::Head => {
                let part = self.handle_head();
                if let PartResult::Taken = part {
                    self.server_works();
                }
                return part;
            }
            ServerPart::Data(_) | ServerPart::Trailers => {}
            ServerPart::End => self.handle_end(),
        }
        self.server_works();
        PartResult::Taken
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Option<AttemptResult> {
        self.starved = false;
        loop {
            match self.poll_block(cx) {
                Err(error) => {
                    respond_with_body_error(self.relay.exchange, error);
                    return Some(AttemptResult::Over);
                }
                Ok(more) => {
                    let lease = self.lease.as_mut()?;
                    if lease.poll_flush(cx).is_pending() || !more {
                        return None;
                    }
                }
            }
        }
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult> {
        self.keep_time();
        if self.relay.exchange.deadlines().poll_passed(WaitKind::Slow, cx) {
            self.is_slow();
        }
        match self.relay.exchange.deadlines().poll_passed(WaitKind::Response, cx) {
            true => Poll::Ready(self.time_is_over()),
            false => Poll::Pending,
        }
    }

    fn kept_sent(&mut self) {
        self.log_wrong_length();
    }

    fn client_ended(&mut self, end: ClientEnd<'_>) -> AttemptResult {
        match end {
            ClientEnd::Over => {}
            ClientEnd::ClientLost(gone) => return self.client_gone(gone),
            ClientEnd::KeptLost(error) => {
                tracing::error!(
                    name: "response_lost",
                    app = %self.relay.app.name, id = %self.relay.id(), %error,
                    "response cut: the part that its client had not read is lost"
                );
                self.leave_running(Reader::Gone);
            }
        }
        AttemptResult::Over
    }
}

/// Passes a 1xx response on, `103` to those alone who may get it from an app.
fn inform(exchange: &mut Exchange<'_>, head: &ResponseHead) {
    let status = head.status.as_u16();
    if status == 103 && !exchange.request().takes_early_hints() {
        return;
    }
    pass_informational(exchange, head, None);
}

/// Counts normalized faults of syntax, and logs them once per app.
fn tell_mended(app: &App, head: &ResponseHead) {
    if !head.normalized.any() {
        return;
    }
    let found: Vec<_> = head.normalized.names().collect();
    for fault in &found {
        counters::NORMALIZED.count(&app.name, fault);
    }
    if !app.servers.told_mended.swap(true, Ordering::Relaxed) {
        tracing::warn!(name: "response_normalized", app = %app.name, normalized = found.join(", "),
            "fixed syntax faults in the application's responses (logged once)");
    }
}
