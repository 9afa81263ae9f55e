//! A WebSocket between a client and a worker: messages both ways (`spec/wire.md` §7).

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{RequestBody, Version};
use keepwarm_net::WaitKind;
use keepwarm_serve::{ClientLoss, Exchange, Message};
use keepwarm_wire::frame::{MAX_BODY, ResetCode, Strings, message_cost};

use super::super::app::App;
use super::super::call::Item;
use super::super::link::BodyKind;
use super::super::refusals;
use super::response::id;
use super::{Conversation, UNSENT_ENOUGH};

/// How long the closing handshake may take, from the first close.
const CLOSING: Duration = Duration::from_secs(5);

/// The state of an accepted WebSocket.
#[derive(Debug, Default)]
pub(super) struct WebSocketState {
    /// A part of a client's message on its way to the worker.
    incoming: Option<IncomingPart>,
    /// Bytes of the worker's message that have come so far.
    outgoing: usize,
    /// The client has closed, and the worker knows.
    client_closed: bool,
    /// Keepwarm has sent a close message to both.
    leaving: bool,
    /// The application does not take the client's message: its time for that is running.
    stalled: bool,
}

/// A part of a message from the client.
#[derive(Debug)]
struct IncomingPart {
    kind: BodyKind,
    bytes: Vec<u8>,
    /// The last of its message.
    end: bool,
    /// So much of it was sent.
    sent: usize,
}

/// What became of one turn from the worker to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Something came.
    Moved,
    /// Nothing was looked at: what came before has to leave first.
    Full,
    /// Nothing has come, or nothing will.
    Waiting,
}

/// Whether the request opens a WebSocket rightly (RFC 6455 §4.2.1).
pub(super) fn is_opening(exchange: &Exchange<'_>) -> bool {
    wants_websocket(exchange)
        && has_version_13(exchange)
        && has_key(exchange)
        && exchange.request().head.body == RequestBody::None
}

/// The one value of a field that may not occur twice in an opening (RFC 6455 §11.3.1, §11.3.5).
fn only<'e>(exchange: &'e Exchange<'_>, lower_name: &'e str) -> Option<&'e [u8]> {
    let mut values = exchange.request().head.fields.all(lower_name);
    values.next().filter(|_| values.next().is_none())
}

fn has_version_13(exchange: &Exchange<'_>) -> bool {
    only(exchange, "sec-websocket-version") == Some(b"13")
}

/// 16 bytes in base64.
fn has_key(exchange: &Exchange<'_>) -> bool {
    only(exchange, "sec-websocket-key").is_some_and(|key| {
        key.len() == 24
            && key.ends_with(b"==")
            && key.iter().take(22).all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
    })
}

/// Refuses an opening that is none, if the app could have taken it (RFC 6455 §4.2.2). `true`: it got an error response.
pub(super) fn refuse(app: &Arc<App>, exchange: &mut Exchange<'_>) -> bool {
    if !app.accepts_websockets()
        || !exchange.request().head.upgrade
        || !wants_websocket(exchange)
        || is_opening(exchange)
    {
        return false;
    }
    if !has_version_13(exchange) {
        let message = refusals::WEBSOCKET_VERSION.about(&[]);
        message.field("Upgrade", b"websocket").field("Sec-WebSocket-Version", b"13").respond(exchange);
    } else if !has_key(exchange) {
        refusals::WEBSOCKET_KEY.respond(exchange);
    } else {
        // Its bytes would stand where the first frame is expected.
        refusals::WEBSOCKET_BODY.respond(exchange);
    }
    true
}

fn wants_websocket(exchange: &Exchange<'_>) -> bool {
    let head = &exchange.request().head;
    head.method == Method::GET
        && head.version >= Version::Http11
        && head.upgrade_protocols().any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// Codes of a close that stand for something a peer may be told (RFC 6455 §7.4), and 1005: a close without a code.
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1005 | 1007..=1014 | 3000..=4999)
}

/// The worker has accepted.
pub(super) fn begin(conversation: &mut Conversation<'_, '_>, fields: Strings<'_>) {
    let limits = conversation.exchange.limits().websocket;
    match conversation.exchange.accept_websocket(fields.pairs(), limits) {
        Ok(()) => {
            conversation.exchange.deadlines().set(WaitKind::Response, None);
            conversation.messages = Some(WebSocketState::default());
            // It may never end.
            conversation.app.handle_response(&conversation.call.summary);
        }
        Err(bad) => {
            tracing::error!(
                name: "response_invalid",
                app = %conversation.app.name, id = %id(conversation.exchange), "{bad}"
            );
            conversation.stop_waiting();
            refusals::BAD_FIELD.respond(conversation.exchange);
        }
    }
}

impl Conversation<'_, '_> {
    /// Moves messages both ways until the WebSocket is over.
    pub(super) fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let outgoing = self.poll_outgoing(cx);
            let incoming = self.poll_incoming(cx);
            if let Poll::Ready(Err(gone)) = self.exchange.poll_flush(cx) {
                return self.socket_lost(gone);
            }
            if self.over {
                return Poll::Ready(());
            }
            self.keep_time_of_incoming(incoming);
            if self.exchange.websocket_turn_is_over(cx) {
                return Poll::Pending;
            }
            if outgoing == Flow::Moved || incoming {
                continue;
            }
            // Room that the write has made: nobody was asked for more while there was none, and so nobody wakes us.
            if outgoing == Flow::Full && self.exchange.unsent() < UNSENT_ENOUGH {
                continue;
            }
            if self.exchange.deadlines().poll_passed(WaitKind::Response, cx) {
                if !self.messages.as_ref().is_some_and(|messages| messages.stalled) {
                    return self.socket_lost(ClientLoss::Closed);
                }
                self.application_takes_nothing();
                continue;
            }
            return self.poll_lost(cx);
        }
    }

    /// While a message waits for credit nothing is read from the client: a reset would go unnoticed.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.messages {
            Some(WebSocketState { incoming: Some(_), .. }) => match self.exchange.poll_gone(cx) {
                Poll::Ready(gone) => self.socket_lost(gone),
                Poll::Pending => Poll::Pending,
            },
            _ => Poll::Pending,
        }
    }

    /// An application has as long for a client's message as a client may be silent.
    fn keep_time_of_incoming(&mut self, moved: bool) {
        let Some(messages) = &mut self.messages else { return };
        let (deadlines, waits) = (self.exchange.deadlines(), messages.incoming.is_some());
        if messages.stalled && (moved || !waits) {
            messages.stalled = false;
            // Unless it has become the time of the closing handshake.
            if !self.complete && !messages.leaving && !messages.client_closed {
                deadlines.set(WaitKind::Response, None);
            }
        }
        if waits && !moved && !messages.stalled {
            messages.stalled = true;
            deadlines.set_after(WaitKind::Response, self.exchange.limits().websocket.idle);
        }
    }

    fn application_takes_nothing(&mut self) {
        tracing::error!(
            name: "websocket_idle",
            app = %self.app.name, id = %id(self.exchange),
            "the application has not read a WebSocket message for limits.websocket_idle; closing the WebSocket"
        );
        self.stop_waiting_for(ResetCode::CANCELLED, "the client's message was not read in time");
        self.close_as_failed();
    }

    /// From the worker.
    fn poll_outgoing(&mut self, cx: &mut Context<'_>) -> Flow {
        if self.complete {
            return Flow::Waiting;
        }
        if self.exchange.unsent() >= UNSENT_ENOUGH {
            self.call.wake_on_item(cx);
            return Flow::Full;
        }
        match self.call.poll_item(cx) {
            Poll::Ready(Item::Message { text, bytes, end }) => self.handle_message(text, &bytes, end),
            Poll::Ready(Item::Close(code, reason)) => {
                self.completed();
                match may_be_sent(code) {
                    true => self.exchange.send_close(code, &reason),
                    false => {
                        tracing::error!(
                            name: "websocket_code_invalid",
                            app = %self.app.name, id = %id(self.exchange), code,
                            "the application closed a WebSocket with an invalid code"
                        );
                        self.exchange.send_close(1011, "");
                    }
                }
                self.exchange.deadlines().set_after(WaitKind::Response, CLOSING);
                // The client has said its close before: this was the response to it.
                self.over = self.messages.as_ref().is_some_and(|messages| messages.client_closed);
            }
            Poll::Ready(Item::Goodbye) => self.say_goodbye(),
            Poll::Ready(Item::Reset { .. } | Item::Lost { .. } | Item::Refused(_)) => {
                tracing::error!(
                    name: "websocket_dropped",
                    app = %self.app.name, id = %id(self.exchange), "the worker dropped a WebSocket"
                );
                self.completed();
                // RFC 6455 §7.4.1: 1001, going away; 1011, the server met something that it did not expect.
                match self.exchange.is_draining() {
                    true => self.exchange.send_close(1001, "the server is stopping"),
                    false => self.exchange.send_close(1011, "the application failed"),
                }
                self.exchange.deadlines().set_after(WaitKind::Response, CLOSING);
            }
            Poll::Ready(_) => {}
            Poll::Pending => return Flow::Waiting,
        }
        Flow::Moved
    }

    /// Closes it towards both sides (RFC 6455 §7.4.1: 1001, going away).
    fn say_goodbye(&mut self) {
        const REASON: &str = "the server is going away";
        let Some(messages) = &mut self.messages else { return };
        if messages.client_closed || std::mem::replace(&mut messages.leaving, true) {
            return;
        }
        messages.incoming = None;
        if let Some((link, stream)) = self.call.given() {
            link.send_close(stream, 1001, REASON);
        }
        self.exchange.send_close(1001, REASON);
        self.exchange.deadlines().set_after(WaitKind::Response, CLOSING);
    }

    fn handle_message(&mut self, text: bool, bytes: &[u8], end: bool) {
        if let Some((link, stream)) = self.call.given() {
            link.release(stream, message_cost(bytes.len()));
        }
        let Some(messages) = &mut self.messages else { return };
        messages.outgoing += bytes.len();
        let long = messages.outgoing > self.exchange.limits().websocket.message;
        if end {
            messages.outgoing = 0;
        }
        if long {
            tracing::error!(
                name: "websocket_message_too_large",
                app = %self.app.name, id = %id(self.exchange),
                "a message of the application exceeds limits.websocket_message"
            );
            self.stop_waiting_for(ResetCode::CANCELLED, "the message is too long");
            return self.close_as_failed();
        }
        if !self.exchange.send_part(text, bytes, end) {
            tracing::error!(
                name: "websocket_text_invalid",
                app = %self.app.name, id = %id(self.exchange),
                "a text message of the application is not UTF-8"
            );
            self.stop_waiting_for(ResetCode::CANCELLED, "the message is not UTF-8");
            self.close_as_failed();
        }
    }

    /// RFC 6455 §7.4.1: 1011, the server met something that it did not expect.
    fn close_as_failed(&mut self) {
        self.exchange.send_close(1011, "the application failed");
        self.exchange.deadlines().set_after(WaitKind::Response, CLOSING);
    }

    /// From the client. `true`: something moved.
    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(messages) = &mut self.messages else { return false };
        if self.complete {
            // Nobody takes it any more; what counts is the close behind it (RFC 6455 §7.1.1).
            messages.incoming = None;
        }
        if messages.incoming.is_some() {
            return self.send_incoming();
        }
        if messages.client_closed {
            return false;
        }
        let leaving = messages.leaving || self.complete;
        match self.exchange.poll_message(cx) {
            // Its last words: the application has closed.
            Poll::Ready(Ok(Message::Part { .. })) if leaving => {}
            Poll::Ready(Ok(Message::Part { text, bytes, end })) => {
                let kind = if text { BodyKind::Text } else { BodyKind::Binary };
                messages.incoming = Some(IncomingPart { kind, bytes, end, sent: 0 });
            }
            Poll::Ready(Ok(Message::Close(code, reason))) => {
                messages.client_closed = true;
                // After the worker's own close this is the client's response to it.
                self.over = self.complete;
                if let Some((link, stream)) = self.call.given().filter(|_| !self.complete && !leaving) {
                    link.send_close(stream, code, &reason);
                    self.exchange.deadlines().set_after(WaitKind::Response, CLOSING);
                }
            }
            Poll::Ready(Err(gone)) => {
                let _over = self.socket_lost(gone);
            }
            Poll::Pending => return false,
        }
        true
    }

    /// Sends of the client's message what the credit allows.
    fn send_incoming(&mut self) -> bool {
        let Some((link, stream)) = self.call.given().filter(|_| !self.complete) else { return false };
        let Some(messages) = &mut self.messages else { return false };
        let Some(incoming) = &mut messages.incoming else { return false };
        let left = incoming.bytes.get(incoming.sent..).unwrap_or_default();
        let Some(credit) = link.message_credit(stream) else { return false };
        let part = left.get(..credit.min(MAX_BODY)).unwrap_or(left);
        let all = part.len() == left.len();
        link.send_body(incoming.kind, stream, part, all && incoming.end);
        incoming.sent += part.len();
        if all {
            messages.incoming = None;
        }
        true
    }

    /// The client is gone without a close: the worker hears of it as 1006, unless it has got a CLOSE.
    fn socket_lost(&mut self, gone: ClientLoss) -> Poll<()> {
        self.exchange.request_mut().notes.reason.get_or_insert(gone.name());
        let closed =
            self.messages.as_ref().is_some_and(|messages| messages.leaving || messages.client_closed);
        if let Some((link, stream)) = self.call.given().filter(|_| !self.complete && !closed) {
            link.send_close(stream, 1006, gone.name());
        }
        self.stop_waiting();
        Poll::Ready(())
    }

    fn stop_waiting_for(&mut self, code: ResetCode, reason: &str) {
        if let Some((link, stream)) = self.call.given() {
            link.reset(stream, code, reason);
        }
        self.completed();
    }
}
