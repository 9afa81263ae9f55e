//! One request from its head to the last byte of its response, on the task of its client.
//!
//! ```text
//!   collect ──▶ submit ──▶ converse ──▶ over
//!   (body, for     ▲           │
//!    blocking      └── retry ──┘
//!    workers)
//! ```
//!
//! A worker that takes one request at a time gets it with its body already read, and is free as soon as it has produced its response: what a
//! slow client sends and takes waits in a spool (`spec/http.md` §7). Other workers stream, under credit.

pub(super) mod body;
mod clock;
mod response;
mod retry;
mod websocket;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_net::{Socket, WaitKind, now, thread_index};
use keepwarm_serve::{
    Backend, BodyError, ClientEnd, ClientLoss, Exchange, PartResult, ResponseBuffer, UNSENT_ENOUGH,
    poll_pump, respond_with_body_error,
};
use keepwarm_telemetry::stalls::Stall;
use keepwarm_wire::frame::ResetCode;
use tokio::time::Instant;

use super::activity::RequestSummary;
use super::app::{App, ExpectationPermit};
use super::call::{Call, CallState, Item};
use super::kind::RequestKind;
use super::profile::Sampling;
use super::quarantine::QuarantineProbe;
use super::queue::QueuedRequest;
use super::refusals::{self, respond_not_submitted};
use super::relay;
use super::request::{RequestOptions, encode_request};
use body::BodySource;
use websocket::WebSocketState;

/// Memory of a spool, in bytes; beyond it a file is used.
const SPOOL_MEMORY: usize = 256 * 1024;
/// A worker that was told to read a body itself is not kept waiting longer than this (`spec/http.md` §2).
const EXPECTED_BODY: Duration = Duration::from_secs(30);
/// A request that workers refuse is given to one at most this often.
const GIVEN_AT_MOST: u8 = 3;

/// Serves one request.
pub(super) async fn hold(app: &Arc<App>, exchange: &mut Exchange<'_>) {
    exchange.request_mut().notes.target = Some(Arc::clone(&app.name));
    if websocket::refuse(app, exchange) {
        return;
    }
    let mut conversation = Conversation::new(app, exchange);
    if let Some(time) = app.quarantine.refuses(&conversation.call.summary) {
        return conversation.refuse_quarantined(time);
    }
    if let Err(error) = conversation.collect().await {
        return conversation.refuse_body(error);
    }
    if !conversation.submit() {
        return;
    }
    poll_fn(|cx| poll_pump(&mut conversation, cx)).await;
    let (hijacked, call) = (conversation.hijacked.take(), Arc::clone(&conversation.call));
    drop(conversation);
    if let Some(socket) = hijacked {
        relay::hold_hijacked(app, exchange, call, socket).await;
    }
}

/// The state of one conversation.
pub(super) struct Conversation<'a, 'c> {
    app: &'a Arc<App>,
    exchange: &'a mut Exchange<'c>,
    call: Arc<Call>,
    source: BodySource,
    /// Holds one of the places for workers that wait for a client.
    expecting: Option<ExpectationPermit>,
    /// The application has asked for the body.
    wanted: bool,
    /// A byte of the body has been sent to a worker.
    body_sent: bool,
    /// The worker has shown that it works on the request.
    begun: bool,
    /// It was given again although its first worker may have begun with it.
    risked: bool,
    /// It was let through to see whether its route still kills workers.
    probe: Option<QuarantineProbe>,
    /// How often the request was given to a worker.
    given: u8,
    /// When it was last given, or left to wait.
    since: Instant,
    /// When it was first.
    first_since: Option<Instant>,
    /// That it is slow is in the log.
    slow_said: bool,
    /// It takes longer than is usual.
    sampling: Option<Sampling>,
    response: ResponseBuffer,
    /// The client has not sent what the application may be waiting for.
    starved: bool,
    /// The worker has said all of its response.
    complete: bool,
    /// When it had.
    ended: Option<Instant>,
    /// When its response began, of one that did not come at once.
    headed: Option<Instant>,
    /// Its response has begun, and is a stream that may be silent for long.
    stream: bool,
    /// The worker knows that the client has closed its writing side.
    half_close_said: bool,
    /// Nothing is left to tell a worker.
    over: bool,
    /// The request opens a WebSocket.
    websocket: bool,
    /// Of an accepted WebSocket.
    messages: Option<WebSocketState>,
    /// The application responds by itself, on this socket.
    hijacked: Option<Socket>,
}

impl<'a, 'c> Conversation<'a, 'c> {
    fn new(app: &'a Arc<App>, exchange: &'a mut Exchange<'c>) -> Self {
        let wanted = exchange.request().passing().buffer_response;
        Self {
            app,
            response: ResponseBuffer::new(wanted.unwrap_or(app.is_blocking())),
            call: Call::new(RequestSummary::of(exchange.request())),
            exchange,
            source: BodySource::Client,
            expecting: None,
            wanted: false,
            body_sent: false,
            begun: false,
            risked: false,
            probe: None,
            given: 0,
            since: now(),
            first_since: None,
            slow_said: false,
            sampling: None,
            starved: false,
            complete: false,
            ended: None,
            headed: None,
            stream: false,
            half_close_said: false,
            over: false,
            websocket: false,
            messages: None,
            hijacked: None,
        }
    }

    /// Gives the request to a worker or the queue. `false`: it was refused, with an error response.
    fn submit(&mut self) -> bool {
        match QuarantineProbe::ask(self.app, &self.call.summary) {
            Ok(probe) => self.probe = probe,
            Err(time) => {
                self.refuse_quarantined(time);
                return false;
            }
        }
        // What the app speaks may be unknown yet: [`Link::give`] knows.
        self.websocket = self.exchange.request().head.upgrade && websocket::is_opening(self.exchange);
        let options = RequestOptions {
            body: self.source.options(),
            websocket: self.websocket,
            expects: self.exchange.awaits_continue(),
            cgi_names: self.app.builds_cgi_names(),
            user: self.app.takes_user(),
        };
        let mut frame = Vec::with_capacity(1024);
        match encode_request(&mut frame, self.exchange.request(), &options) {
            Ok(()) => self.enqueue(frame),
            Err(error) => {
                tracing::warn!(
                    name: "request_not_encoded",
                    app = %self.app.name, %error, "cannot encode a request for the wire"
                );
                refusals::TOO_LARGE_FOR_THE_WIRE.respond(self.exchange);
                false
            }
        }
    }

    fn enqueue(&mut self, frame: Vec<u8>) -> bool {
        self.since = Instant::now();
        self.first_since.get_or_insert(self.since);
        self.given = self.given.saturating_add(1);
        self.half_close_said = false;
        // Of the worker that had it before.
        self.sampling = None;
        let job = QueuedRequest {
            call: Arc::clone(&self.call),
            kind: RequestKind::Wire(frame),
            thread: thread_index(),
            session: self.exchange.request().notes.routed.session,
            avoid: None,
            since: self.since,
        };
        let policy = self.app.policy();
        if policy.slow_log.is_some() {
            self.call.measure();
        }
        match self.app.submit(job, self.given > 1) {
            Ok(()) => {
                let wait = match self.call.is_in_work() {
                    true => policy.request_timeout,
                    // A worker may take it without our being woken: looked at soon enough to see its time run out.
                    false => policy.queue_timeout.min(policy.request_timeout),
                };
                self.exchange.deadlines().set_after(WaitKind::Response, wait);
                if let Some(slow) = policy.slow_log.filter(|_| !self.slow_said) {
                    self.exchange.deadlines().set_after(WaitKind::Slow, slow.min(self.unusual()));
                }
                true
            }
            Err(overload) => {
                self.over = true;
                respond_not_submitted(self.exchange, &overload);
                false
            }
        }
    }

    fn client_gone(&mut self, gone: ClientLoss) {
        if self.exchange.responded() {
            // A stream without an end is responded to as far as possible.
            self.app.handle_response(&self.call.summary);
        }
        self.exchange.abandon(gone);
        self.keep_time_of_abandoned();
        self.stop_waiting();
    }

    /// The client has closed its writing side: an application that waits for its end is told, now or when a worker gets the request.
    fn say_half_close(&mut self) {
        let given = self.call.note_half_close();
        self.half_close_said = given.is_some();
        if let Some((link, stream)) = given.filter(|_| self.app.hears_half_close()) {
            link.half_close(stream);
        }
    }

    /// The client no longer waits for the response: resets the request at its worker.
    fn stop_waiting(&mut self) {
        if !std::mem::replace(&mut self.over, true) && !self.complete {
            match self.call.abandon() {
                CallState::Given(link, stream) => {
                    link.reset(stream, ResetCode::CANCELLED, "the client has gone")
                }
                CallState::Waiting => self.app.forget(&self.call),
                CallState::Abandoned => {}
            }
        }
    }

    fn refuse_body(&mut self, error: BodyError) {
        self.stop_waiting();
        respond_with_body_error(self.exchange, error);
    }
}

impl<'c> Backend<'c> for Conversation<'_, 'c> {
    type End = ();

    fn client(&mut self) -> (&mut Exchange<'c>, &mut ResponseBuffer) {
        (&mut *self.exchange, &mut self.response)
    }

    /// What stands behind a 101 is the WebSocket's.
    fn poll_switched(&mut self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        self.messages.is_some().then(|| self.poll_messages(cx))
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> PartResult<()> {
        match self.call.poll_item(cx) {
            Poll::Ready(item) => self.handle_item(item),
            Poll::Pending => return PartResult::Waiting,
        }
        match (self.messages.is_some(), self.over) {
            (true, _) => PartResult::Switched,
            (false, true) => PartResult::End(()),
            (false, false) => PartResult::Taken,
        }
    }

    fn wait_for_room(&mut self, cx: &Context<'_>) {
        self.call.wake_on_item(cx);
    }

    fn poll_request(&mut self, cx: &mut Context<'_>) -> Option<()> {
        self.poll_body(cx);
        (self.over || self.exchange.over()).then_some(())
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.exchange.is_half_closed() && !self.half_close_said {
            if std::mem::take(&mut self.stream) {
                // It may have left for good, which only writing would show.
                self.application_works();
            }
            self.say_half_close();
        }
        self.keep_time();
        if self.exchange.deadlines().poll_passed(WaitKind::Slow, cx) {
            self.is_slow();
        }
        match self.exchange.deadlines().poll_passed(WaitKind::Response, cx) && self.time_is_over() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn kept_sent(&mut self) {
        self.log_wrong_length();
    }

    fn client_ended(&mut self, end: ClientEnd<'_>) {
        match end {
            ClientEnd::Over => {}
            ClientEnd::ClientLost(gone) => self.client_gone(gone),
            ClientEnd::KeptLost(error) => {
                tracing::error!(
                    name: "response_lost",
                    app = %self.app.name, id = %response::id(self.exchange), %error,
                    "response cut: the part that its client had not read is lost"
                );
                self.stop_waiting();
            }
        }
    }
}

impl Drop for Conversation<'_, '_> {
    /// However it ended: nobody reads from the call any more, and its remaining items are released.
    fn drop(&mut self) {
        self.stop_waiting();
        let given = self.call.last_given();
        let times = self.times(given.as_ref().map(|(link, _)| &**link));
        let request = self.exchange.request_mut();
        request.notes.set_times(times);
        if request.notes.continued {
            // Its interface must lack 100 (Continue): any server of the app would have had to send it.
            request.notes.stalls.insert(Stall::ExpectationIgnored);
        }
        self.exchange.deadlines().set(WaitKind::Slow, None);
        self.finish_samples();
        let noop = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(item) = self.call.poll_item(&noop) {
            if let (Item::Hijacked(_), Some((link, stream))) = (&item, &given) {
                link.forget_hijacked(*stream);
            }
            if let Some((link, stream)) = given.as_ref().filter(|_| item.cost() > 0) {
                link.release(*stream, item.cost());
            }
        }
    }
}
