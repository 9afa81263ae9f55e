//! One request from its head to the last byte of its answer, on the task of its client.
//!
//! ```text
//!   collect ──▶ submit ──▶ converse ──▶ over
//!   (body, for     ▲           │
//!    blocking      └── retry ──┘
//!    workers)
//! ```
//!
//! A worker that takes one request at a time gets it with its body already read, and is free as soon as it has produced its answer: what a
//! slow client sends and takes waits in a [`Spool`] (`http-rules` §7). Other workers stream, under credit.

mod answer;
pub(super) mod body;
mod websocket;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_net::{BodyError, Exchange, Gone, Spool, Wait, now, thread_index};
use keepwarm_wire::frame::ResetCode;
use tokio::time::Instant;

use super::app::{App, Expecting, Overload};
use super::call::{Call, Item, Place};
use super::queue::Job;
use super::request::{Opening, encode_request};
use body::Source;
use websocket::Messages;

/// Unsent bytes of an answer beyond which a streaming worker has to wait, and a blocking one's answer goes to the spool.
const UNSENT_ENOUGH: usize = 128 * 1024;
/// Memory of a spool, in bytes; beyond it a file is used.
const SPOOL_MEMORY: usize = 256 * 1024;
/// A worker that was told to read a body itself is not kept waiting longer than this (`http-rules` §2).
const EXPECTED_BODY: Duration = Duration::from_secs(30);
/// A request that workers refuse is given to one at most this often.
const GIVEN_AT_MOST: u8 = 3;

/// Serves one request.
pub(super) async fn hold(app: &Arc<App>, exchange: &mut Exchange<'_>) {
    exchange.request_mut().target = Some(Arc::clone(&app.name));
    if websocket::refuse(app, exchange) {
        return;
    }
    let mut talk = Conversation::new(app, exchange);
    if let Err(error) = talk.collect().await {
        return talk.refuse_body(error);
    }
    if talk.submit() {
        poll_fn(|cx| talk.poll(cx)).await;
    }
}

/// The state of one conversation.
pub(super) struct Conversation<'a, 'c> {
    app: &'a Arc<App>,
    exchange: &'a mut Exchange<'c>,
    call: Arc<Call>,
    source: Source,
    /// Holds one of the places for workers that wait for a client.
    expecting: Option<Expecting>,
    /// The application has asked for the body.
    wanted: bool,
    /// A byte of the body has been sent to a worker.
    body_sent: bool,
    /// The worker has shown that it works on the request.
    begun: bool,
    /// It was given again although its first worker may have begun with it.
    risked: bool,
    /// How often the request was given to a worker.
    given: u8,
    /// When it was last given, or left to wait.
    since: Instant,
    /// The answer is taken from the worker faster than the client takes it.
    buffers_answer: bool,
    /// The answer, as far as the client has not taken it.
    spool: Option<Spool>,
    /// There was no room for what the worker may have said.
    full: bool,
    /// The worker has said all of its answer.
    complete: bool,
    /// Nothing is left to tell a worker.
    over: bool,
    /// The request opens a WebSocket.
    websocket: bool,
    /// Of an accepted WebSocket.
    messages: Option<Messages>,
}

impl<'a, 'c> Conversation<'a, 'c> {
    fn new(app: &'a Arc<App>, exchange: &'a mut Exchange<'c>) -> Self {
        let wanted = exchange.request().passing.buffer_response;
        Self {
            app,
            buffers_answer: wanted.unwrap_or(app.is_blocking()),
            exchange,
            call: Arc::default(),
            source: Source::Client,
            expecting: None,
            wanted: false,
            body_sent: false,
            begun: false,
            risked: false,
            given: 0,
            since: now(),
            spool: None,
            full: false,
            complete: false,
            over: false,
            websocket: false,
            messages: None,
        }
    }

    /// Gives the request to a worker or the queue. `false`: it was refused, and answered.
    fn submit(&mut self) -> bool {
        self.websocket = !self.app.is_blocking() && websocket::is_opening(self.exchange);
        let opening = Opening {
            body: self.source.opening(),
            websocket: self.websocket,
            expects: self.exchange.awaits_continue(),
            cgi_names: self.app.builds_cgi_names(),
        };
        let mut frame = Vec::with_capacity(1024);
        match encode_request(&mut frame, self.exchange.request(), &opening) {
            Ok(()) => self.enqueue(frame),
            Err(error) => {
                tracing::warn!(app = %self.app.name, %error, "a request cannot be put on the wire");
                answer::fail(
                    self.exchange,
                    431,
                    "too_large_for_the_wire",
                    "The head of the request is too large.",
                );
                false
            }
        }
    }

    fn enqueue(&mut self, frame: Vec<u8>) -> bool {
        self.since = Instant::now();
        self.given = self.given.saturating_add(1);
        let job = Job {
            call: Arc::clone(&self.call),
            frame,
            websocket: self.websocket,
            thread: thread_index(),
            since: self.since,
        };
        match self.app.submit(job, self.given > 1) {
            Ok(()) => {
                let policy = self.app.policy();
                let wait = match self.call.is_in_work() {
                    true => policy.request_timeout,
                    // A worker may take it without our being woken: looked at soon enough to see its time run out.
                    false => policy.queue_timeout.min(policy.request_timeout),
                };
                self.exchange.deadlines().set_after(Wait::Answer, wait);
                true
            }
            Err(overload) => {
                self.over = true;
                self.refuse_overload(&overload);
                false
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.messages.is_some() {
                return self.poll_messages(cx);
            }
            self.poll_items(cx);
            if self.messages.is_some() {
                continue;
            }
            if self.exchange.over() || self.over {
                return Poll::Ready(());
            }
            self.poll_body(cx);
            if self.exchange.over() || self.over {
                return Poll::Ready(());
            }
            match self.exchange.poll_flush(cx) {
                Poll::Ready(Err(gone)) => return self.client_gone(gone),
                // What the client has taken makes room for more.
                Poll::Ready(Ok(())) if std::mem::take(&mut self.full) => continue,
                Poll::Ready(Ok(())) if self.spool_has_bytes() && self.poll_unspool(cx).is_ready() => continue,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            if let Poll::Ready(gone) = self.exchange.poll_gone(cx) {
                return self.client_gone(gone);
            }
            if self.exchange.deadlines().poll_passed(Wait::Answer, cx) && self.time_is_over() {
                return Poll::Ready(());
            }
            return Poll::Pending;
        }
    }

    /// The deadline has passed. `false`: it was an older one, and a new one is set.
    fn time_is_over(&mut self) -> bool {
        let given = self.call.given().filter(|_| self.call.is_in_work());
        let Some((link, stream)) = given else {
            let policy = self.app.policy();
            let now = Instant::now();
            if let Some(end) = self.since.checked_add(policy.queue_timeout).filter(|end| *end > now) {
                self.exchange.deadlines().set(Wait::Answer, Some(end.min(now + policy.request_timeout)));
                return false;
            }
            self.stop_waiting();
            let sentence = "No worker was free in time.";
            answer::fail_later(self.exchange, 503, "queue_timeout", sentence, 1);
            return true;
        };
        // Queued until a moment ago: the application's time began when a worker took it.
        let limit = match self.expecting {
            Some(_) => EXPECTED_BODY,
            None => self.app.policy().request_timeout,
        };
        if let Some(end) = self.call.in_work_since().and_then(|at| at.checked_add(limit))
            && end > Instant::now()
            && !self.begun
        {
            self.exchange.deadlines().set(Wait::Answer, Some(end));
            return false;
        }
        self.over = true;
        self.call.abandon();
        if self.expecting.is_some() {
            link.reset(stream, ResetCode::INCOMPLETE, "the body did not come in time");
            answer::fail(
                self.exchange,
                408,
                "body_too_slow",
                "The body of the request did not come in time.",
            );
            return true;
        }
        tracing::error!(app = %self.app.name, worker = link.key.number, pid = link.key.pid,
            id = %answer::id(self.exchange), limit = ?limit, "request timed out");
        link.reset(stream, ResetCode::TIMEOUT, "the request timed out");
        if self.app.is_blocking() {
            link.give_up("had a request that timed out");
        }
        match self.exchange.answered() {
            true => self.exchange.abort("request_timeout"),
            false => {
                let sentence = "The application did not answer in time.";
                answer::fail(self.exchange, 504, "request_timeout", sentence);
            }
        }
        true
    }

    fn client_gone(&mut self, gone: Gone) -> Poll<()> {
        self.exchange.abort(gone.name());
        self.stop_waiting();
        Poll::Ready(())
    }

    /// Nobody waits for the answer any more: whoever has the request is told.
    fn stop_waiting(&mut self) {
        if !std::mem::replace(&mut self.over, true) && !self.complete {
            match self.call.abandon() {
                Place::Given(link, stream) => link.reset(stream, ResetCode::CANCELLED, "the client has gone"),
                Place::Waiting => self.app.forget(&self.call),
                Place::Abandoned => {}
            }
        }
    }

    fn refuse_body(&mut self, error: BodyError) {
        self.stop_waiting();
        match error.refusal() {
            Some(refusal) if !self.exchange.answered() => {
                answer::fail(self.exchange, refusal.status, refusal.name, &refusal.detail);
            }
            Some(refusal) => self.exchange.abort(refusal.name),
            None => self.exchange.abort("client_closed"),
        }
    }

    fn refuse_overload(&mut self, overload: &Overload) {
        match overload {
            Overload::QueueFull => {
                let sentence = "Too many requests are waiting for this application.";
                answer::fail_later(self.exchange, 503, "queue_full", sentence, 1);
            }
            Overload::Failed(reason) => {
                let sentence = format!("The application is not running: {reason}.");
                answer::fail_later(self.exchange, 503, "app_failed", &sentence, 10);
            }
        }
    }

    /// Whether the request may go to another worker: it has not begun to be answered, and none of it is used up.
    fn may_be_given_again(&mut self, unprocessed: bool) -> bool {
        let whole = self.source.is_whole() && !self.body_sent;
        let safe = self.exchange.request().head.method.is_safe();
        if !whole || self.begun {
            return false;
        }
        // Certainly not begun: free, however many workers have died before it came to it. Perhaps begun, and harmless: once.
        unprocessed || (safe && !std::mem::replace(&mut self.risked, true) && self.app.may_retry())
    }

    /// Gives the request to another worker; without one that runs, that is answered.
    fn give_again(&mut self, why: &'static str) {
        tracing::warn!(app = %self.app.name, id = %answer::id(self.exchange), why, "the request is given to another worker");
        let frame = self.call.take_frame();
        self.enqueue(frame);
    }
}

impl Drop for Conversation<'_, '_> {
    /// However it ended: nobody listens to the call, and what is still in it has left memory.
    fn drop(&mut self) {
        self.stop_waiting();
        let given = self.call.last_given();
        let noop = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(item) = self.call.poll_item(&noop) {
            if let (Item::Data { bytes, .. } | Item::Message { bytes, .. }, Some((link, stream))) =
                (&item, &given)
            {
                link.release(*stream, bytes.len());
            }
        }
    }
}
