//! The two messages between a client and a server: each way as fast as the other side takes it, both at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_http1::{Fields, ResponseHead};
use keepwarm_net::{ClientError, Lease, ResponsePart, SpoolError, Wait};
use keepwarm_serve::{
    BodyError, BodyProgress, EarlyHints, Exchange, Gone, Moved, Tunnel, UNSENT_ENOUGH, offered_protocols,
    pass_informational,
};
use keepwarm_telemetry::counters;
use keepwarm_telemetry::stalls::Stall;
use tokio::time::{Instant, Sleep};

use super::super::app::App;
use super::super::conversation::body::{BodySource, spool_failed};
use super::child::blame_if_dead;
use super::server::SlotGuard;
use super::{AttemptResult, Dialect, HeadContext, Relay, none};
use super::{behind, discard};

/// Moved at a time.
pub(super) const BLOCK: usize = 64 * 1024;
/// How long a server may consider an expectation (`spec/http.md` §2).
const EXPECT: Duration = Duration::from_millis(250);

/// One request at one worker: moves both messages.
pub(super) struct WorkerRequest<'t, 'a, 'c, C: Dialect> {
    pub(super) relay: &'t mut Relay<'a, 'c, C>,
    /// None once the server has done its part, and for an application that responds by itself.
    pub(super) slot: Option<SlotGuard>,
    pub(super) lease: Option<Lease<C>>,
    /// The body is held back: the time the server has to say that it wants it.
    expects: Option<Pin<Box<Sleep>>>,
    /// Rare, and so in a box: the future of a request is to fit what an allocator keeps at hand (glibc: 1,032 bytes).
    trailers: Option<Box<Fields>>,
    /// The server has said all of its response.
    pub(super) complete: bool,
    /// There was no room for what the server may have said.
    pub(super) full: bool,
    /// The client has not sent what the server may be waiting for.
    pub(super) starved: bool,
    block: Vec<u8>,
    pub(super) tunnel: Option<Tunnel>,
}

/// What one part of the response led to.
enum Step {
    Moved,
    /// Something came that is no progress, however often it comes.
    Still,
    Waiting,
    Failed(ClientError),
    /// The response was replaced by one of ours, or cut.
    Refused,
    /// The response is a file, or that of another path: somebody else gives it.
    Handed,
}

impl<'t, 'a, 'c, C: Dialect> WorkerRequest<'t, 'a, 'c, C> {
    pub(super) fn new(relay: &'t mut Relay<'a, 'c, C>, slot: SlotGuard, lease: Lease<C>) -> Self {
        Self { slot: Some(slot), ..Self::hijacked(relay, lease) }
    }

    /// With an application that responds by itself, and takes no place.
    pub(super) fn hijacked(relay: &'t mut Relay<'a, 'c, C>, lease: Lease<C>) -> Self {
        Self {
            relay,
            slot: None,
            lease: Some(lease),
            expects: None,
            trailers: None,
            complete: false,
            full: false,
            starved: false,
            block: Vec::new(),
            tunnel: None,
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
            // Known to be ignored: answered for the server, at once.
            relay.exchange.request_mut().notes.stalls.insert(Stall::ExpectationIgnored);
        }
        let upgrade = offered_protocols(relay.exchange);
        let context = HeadContext {
            framing: relay.framing(),
            expects,
            upgrade: (!upgrade.is_empty()).then_some(upgrade.as_slice()),
        };
        let request = relay.exchange.request();
        lease.begin(|codec, out| codec.encode_request(out, request, &context, &relay.destination));
        match &relay.source {
            BodySource::Frame(body) => {
                lease.send(body);
                lease.end(&none());
            }
            BodySource::Client => lease.send(&relay.begun),
            BodySource::Spool(..) | BodySource::Sent => {}
        }
        self.expects = expects.then(|| Box::pin(tokio::time::sleep(EXPECT)));
        self.server_works();
        if let Some(slow) = self.relay.app.policy().slow_log {
            self.relay.exchange.deadlines().set_after(Wait::Slow, slow);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult> {
        loop {
            if self.tunnel.is_some() {
                return self.poll_tunnel(cx);
            }
            if let Some(verdict) = self.poll_response(cx) {
                return Poll::Ready(verdict);
            }
            if self.tunnel.is_some() {
                continue;
            }
            if self.relay.exchange.over() {
                return Poll::Ready(AttemptResult::Over);
            }
            if let Err(error) = self.poll_request(cx) {
                self.relay.refuse_body(error);
                return Poll::Ready(AttemptResult::Over);
            }
            match self.relay.exchange.poll_flush(cx) {
                Poll::Ready(Err(gone)) => return self.client_gone(gone),
                // What the client has taken makes room for more.
                Poll::Ready(Ok(())) if std::mem::take(&mut self.full) => continue,
                Poll::Ready(Ok(())) if !self.relay.response.is_empty() => match self.poll_kept(cx) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(error)) => return Poll::Ready(self.lose_kept(&error)),
                    Poll::Pending => {}
                },
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            if let Poll::Ready(gone) = self.relay.exchange.poll_gone(cx) {
                return self.client_gone(gone);
            }
            self.keep_time();
            if self.relay.exchange.deadlines().poll_passed(Wait::Slow, cx) {
                self.is_slow();
            }
            if self.relay.exchange.deadlines().poll_passed(Wait::Response, cx) {
                return Poll::Ready(self.time_is_over());
            }
            return Poll::Pending;
        }
    }

    /// From the server.
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Option<AttemptResult> {
        while !self.complete {
            match self.has_room(cx) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(self.lose_kept(&error)),
            }
            match self.poll_part(cx) {
                Step::Moved => {
                    self.server_works();
                    if self.tunnel.is_some() {
                        return None;
                    }
                }
                Step::Still => {}
                Step::Waiting => return None,
                Step::Refused => return Some(AttemptResult::Over),
                Step::Handed => {
                    self.leave_running();
                    return Some(AttemptResult::Over);
                }
                Step::Failed(error) => return Some(self.failed(&error)),
            }
        }
        None
    }

    /// Room for one more part of the response.
    fn has_room(&mut self, cx: &mut Context<'_>) -> Result<bool, SpoolError> {
        let relay = &mut *self.relay;
        let room = relay.response.poll_room(cx, relay.exchange)?;
        self.full = !room && relay.response.is_empty();
        Ok(room)
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Step {
        let Some(lease) = &mut self.lease else { return Step::Waiting };
        let relay = &mut *self.relay;
        match lease.poll_response(cx) {
            Poll::Pending => return Step::Waiting,
            Poll::Ready(Err(error)) => return Step::Failed(error),
            Poll::Ready(Ok(ResponsePart::Informational(head))) => {
                if head.status.as_u16() == 100 {
                    self.handle_continue();
                } else {
                    inform(relay.exchange, head);
                }
                return Step::Still;
            }
            Poll::Ready(Ok(ResponsePart::Head(_))) => return self.handle_head(),
            Poll::Ready(Ok(ResponsePart::Data(bytes))) => relay.response.data(relay.exchange, bytes),
            Poll::Ready(Ok(ResponsePart::Trailers(fields))) => self.trailers = Some(Box::new(fields.clone())),
            Poll::Ready(Ok(ResponsePart::End)) => self.handle_end(),
        }
        Step::Moved
    }

    /// `100 Continue`: the server wants the body. It is passed on to a client that waits for it; nobody else sees it.
    fn handle_continue(&mut self) {
        if self.expects.take().is_some() {
            self.relay.app.servers.expectation().handle_honoured();
        }
        self.relay.exchange.want_body();
    }

    fn handle_head(&mut self) -> Step {
        if self.expects.is_some() {
            // It answers without having asked for the body: that is a response to the expectation too.
            self.relay.app.servers.expectation().handle_honoured();
        }
        let Some(lease) = &mut self.lease else { return Step::Waiting };
        let relay = &mut *self.relay;
        if let Some(server) = self.slot.as_ref().and_then(|slot| slot.link.server.as_ref()) {
            server.handle_response();
        }
        // A body that is still to come would be that other request's. Then it is the client that is sent there.
        if relay.exchange.body_done()
            && let Some(local) = lease.codec().local_redirect()
        {
            relay.exchange.request_mut().notes.redirected = Some(local);
            return Step::Handed;
        }
        let head = lease.head();
        tell_mended(relay.app, head);
        if lease.head_came_in_pieces() {
            relay.exchange.request_mut().notes.stalls.insert(Stall::HeadInPieces);
        }
        let status = head.status.as_u16();
        let begun = match status {
            101 => Tunnel::switch(relay.exchange, head, None).map(|tunnel| self.tunnel = Some(tunnel)),
            _ => {
                // A script that wants its client to go; a server's connection is its own business.
                let close = C::BLOCKING && head.wants.close;
                let fields = C::response_fields(lease);
                match relay.exchange.hand_file(status, fields.clone()) {
                    Ok(true) => return Step::Handed,
                    Ok(false) => relay.exchange.head(status, None, close, fields).map(drop),
                    Err(bad) => Err(bad),
                }
            }
        };
        match begun {
            Ok(()) => Step::Moved,
            Err(bad) => {
                tracing::error!(app = %relay.app.name, id = %relay.id(), "{bad}");
                relay.fail(502, "bad_field", "The application's response has a header that cannot be sent.");
                Step::Refused
            }
        }
    }

    /// The server is free, though its client may not have it all.
    fn handle_end(&mut self) {
        self.complete = true;
        self.tell_words();
        if let (Some(lease), Some(slot)) = (self.lease.take(), self.slot.take()) {
            self.relay.call.abandon();
            behind::finish(lease, slot, (self.relay.request_timeout(), &self.relay.call.summary));
        }
        self.relay.ended = Some(Instant::now());
        self.relay.exchange.deadlines().set(Wait::Slow, None);
        self.relay.app.handle_response(&self.relay.call.summary);
        let trailers = self.trailers.take().unwrap_or_default();
        if self.relay.response.end(self.relay.exchange, trailers.iter()) {
            self.log_wrong_length();
        }
    }

    fn log_wrong_length(&self) {
        if self.relay.exchange.request().notes.reason == Some("body_too_short") {
            tracing::error!(app = %self.relay.app.name, id = %self.relay.id(), "the response body is shorter than announced");
        }
    }

    /// What the server said beside its response is the app's log.
    fn tell_words(&mut self) {
        if let (Some(lease), Some(slot)) = (&mut self.lease, &self.slot) {
            discard::tell(&slot.link.key, &lease.codec().take_words());
        }
    }

    /// Nobody wants the rest of the response. A server that works on one request at a time keeps its place until it has come to its end.
    fn leave_running(&mut self) {
        if let (true, Some(lease), Some(slot)) = (C::BLOCKING, self.lease.take(), self.slot.take()) {
            // The place is not the request's any more, whose end would give it back.
            self.relay.call.abandon();
            let source = std::mem::replace(&mut self.relay.source, BodySource::Sent);
            let summary = self.relay.call.summary.clone();
            discard::run_out(lease, slot, source, (self.relay.request_timeout(), summary));
        }
    }

    /// Moves what is kept to the client's buffer. Ready: some was, or that was the end.
    fn poll_kept(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SpoolError>> {
        if std::task::ready!(self.relay.response.poll_move(cx, self.relay.exchange))? == Moved::End {
            self.log_wrong_length();
        }
        Poll::Ready(Ok(()))
    }

    /// A part of the response is gone: its client must not take the rest for the whole.
    fn lose_kept(&mut self, error: &SpoolError) -> AttemptResult {
        tracing::error!(app = %self.relay.app.name, id = %self.relay.id(), %error, "response cut: the part that its client had not read is lost");
        self.relay.fail(500, "spool_failed", "The server could not store the response.");
        self.leave_running();
        AttemptResult::Over
    }

    /// To the server.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        self.starved = false;
        loop {
            let more = self.poll_block(cx)?;
            let Some(lease) = &mut self.lease else { return Ok(()) };
            if lease.poll_flush(cx).is_pending() || !more {
                return Ok(());
            }
        }
    }

    /// Takes a part of the body from where it is. `false`: there is none now.
    fn poll_block(&mut self, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        if !self.poll_expectation(cx) {
            return Ok(false);
        }
        let (relay, Some(lease)) = (&mut *self.relay, &mut self.lease) else { return Ok(false) };
        if lease.unsent() >= UNSENT_ENOUGH {
            return Ok(true);
        }
        self.block.clear();
        let read = match &mut relay.source {
            BodySource::Frame(_) | BodySource::Sent => return Ok(false),
            BodySource::Client => relay.exchange.poll_body(cx, &mut self.block, BLOCK),
            BodySource::Spool(spool, _) => match spool.poll_read(cx, &mut self.block, BLOCK) {
                Poll::Ready(Ok(_)) if spool.is_empty() => Poll::Ready(Ok(BodyProgress::Done)),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(BodyProgress::More)),
                Poll::Ready(Err(error)) => Poll::Ready(Err(spool_failed(relay.app, &error))),
                Poll::Pending => Poll::Pending,
            },
        };
        let Poll::Ready(progress) = read else {
            self.starved = true;
            return Ok(false);
        };
        let from_client = matches!(relay.source, BodySource::Client);
        let done = progress? == BodyProgress::Done || (from_client && relay.exchange.body_done());
        relay.body_used = true;
        lease.send(&self.block);
        if done {
            relay.source = BodySource::Sent;
            match from_client {
                true => lease.end(relay.exchange.trailers()),
                false => lease.end(&none()),
            }
        }
        Ok(true)
    }

    /// Whether the body may go out: the server wants it, the client does not wait for that, or the time is over.
    fn poll_expectation(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(timer) = &mut self.expects else { return true };
        if self.relay.exchange.poll_body_begun(cx).is_pending() {
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.relay.exchange.request_mut().notes.stalls.insert(Stall::ExpectationIgnored);
            self.relay.app.servers.expectation().handle_ignored(Instant::now().into_std());
        }
        self.expects = None;
        self.relay.exchange.want_body();
        true
    }

    fn failed(&mut self, error: &ClientError) -> AttemptResult {
        self.tell_words();
        let Some(mut lease) = self.lease.take() else { return AttemptResult::Over };
        let Some(slot) = self.slot.take() else {
            self.relay.hijacker_failed(error);
            return AttemptResult::Over;
        };
        if let Some(server) = &slot.link.server {
            server.note_lost(self.relay.call.summary.clone());
        }
        let child = lease.codec().child_guard().map(|line| Arc::clone(line.child()));
        if let Some(child) = &child {
            blame_if_dead(Arc::clone(child), Arc::clone(self.relay.app), self.relay.call.summary.clone());
        }
        let state = (lease.has_sent(), lease.idle().is_some());
        if let ClientError::NoResponse(_) = error
            && let Some(why) = self.relay.may_be_given_again(&slot.link, state, child.as_deref())
        {
            return AttemptResult::Again(why);
        }
        self.relay.response_failed(error, &slot);
        AttemptResult::Over
    }

    /// The connection to the server is closed with it: that is how HTTP/1 says so. A script that nobody can call off is left to end.
    pub(super) fn client_gone(&mut self, gone: Gone) -> Poll<AttemptResult> {
        self.relay.exchange.abort(gone.name());
        self.leave_running();
        Poll::Ready(AttemptResult::Over)
    }
}

/// Passes a 1xx response on, `103` to those alone who may get it from an app.
fn inform(exchange: &mut Exchange<'_>, head: &ResponseHead) {
    let status = head.status.as_u16();
    if status == 103 {
        let request = exchange.request();
        let mode = request.head.fields.first("sec-fetch-mode").unwrap_or_default();
        let wanted = match request.passing().early_hints {
            EarlyHints::Auto => mode.eq_ignore_ascii_case(b"navigate"),
            EarlyHints::Always => true,
            EarlyHints::Never => false,
        };
        if !wanted {
            return;
        }
    }
    pass_informational(exchange, head, None);
}

/// Faults of syntax that were mended: counted, and told once per app.
fn tell_mended(app: &App, head: &ResponseHead) {
    if !head.mended.any() {
        return;
    }
    let found: Vec<_> = head.mended.names().collect();
    for fault in &found {
        counters::MENDED.count(&app.name, fault);
    }
    if !app.servers.told_mended.swap(true, Ordering::Relaxed) {
        tracing::warn!(app = %app.name, mended = found.join(", "),
            "fixed syntax faults in the application's responses (logged once)");
    }
}
