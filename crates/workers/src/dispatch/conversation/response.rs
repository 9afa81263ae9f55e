//! What the worker says, on its way to the client.

use keepwarm_net::Socket;
use keepwarm_serve::Exchange;
use keepwarm_wire::frame::{OwnedStrings, ResetCode};
use tokio::time::Instant;

use super::super::call::Item;
use super::super::refusals;
use super::Conversation;

impl Conversation<'_, '_> {
    pub(super) fn handle_item(&mut self, item: Item) {
        match item {
            Item::Response { status, end, close, fields } => {
                self.begun = true;
                self.handle_response(status, end, close, &fields);
            }
            Item::Inform(status, fields) => {
                // Not a response, however many follow.
                if !std::mem::replace(&mut self.begun, true) {
                    self.application_works();
                }
                self.exchange.informational(status, fields.strings().pairs());
            }
            Item::Trailers(fields) => {
                self.begun = true;
                self.responded_to_end();
                self.response.end(self.exchange, fields.strings().pairs());
            }
            Item::Data { bytes, over } => self.handle_data(&bytes, over),
            Item::Want => {
                self.wanted = true;
                // Now: the next item may be the head of a response, and `100 Continue` cannot follow that.
                self.exchange.want_body();
            }
            Item::Reset { code, reason, unprocessed } => self.handle_reset(code, &reason, unprocessed),
            Item::Lost { unprocessed, kill_reason } => self.handle_lost(unprocessed, kill_reason),
            Item::Quarantined(time) => self.refuse_quarantined(time),
            Item::Refused(reason) => {
                self.over = true;
                refusals::APP_FAILED.about(&[&reason]).respond(self.exchange);
            }
            Item::Hijacked(socket) => self.handle_hijacked(socket),
            Item::Goodbye => self.end_stream(),
            // Only after a 101, which hands the conversation over.
            Item::Message { .. } | Item::Close(..) => {}
        }
    }

    /// The stream has ended, and the worker's place is free.
    fn handle_hijacked(&mut self, socket: Option<Socket>) {
        (self.complete, self.over) = (true, true);
        if socket.is_none() {
            self.forget_hijacked();
            tracing::error!(
                name: "hijack_failed",
                app = %self.app.name, id = %id(self.exchange),
                "the socket of rack.hijack could not be taken over"
            );
            refusals::HIJACK_FAILED.respond(self.exchange);
        }
        self.hijacked = socket;
    }

    fn forget_hijacked(&self) {
        if let Some((link, stream)) = self.call.last_given() {
            link.forget_hijacked(stream);
        }
    }

    /// Cuts a response that has begun and does not end: its application sees a cancelled request, its client an incomplete response.
    fn end_stream(&mut self) {
        if !self.exchange.responded() || self.complete {
            return;
        }
        self.over = true;
        if let Some((link, stream)) = self.call.given() {
            self.call.abandon();
            link.reset(stream, ResetCode::CANCELLED, "drain timeout reached");
        }
        let (app, id) = (&self.app.name, id(self.exchange));
        tracing::info!(
            name: "response_cut",
            app = %app, %id, reason = "draining",
            "response cut: not complete when its worker reached its drain timeout (drain_timeout)"
        );
        self.exchange.abort("draining");
    }

    fn handle_response(&mut self, status: u16, end: bool, close: bool, fields: &OwnedStrings) {
        let (fields, body) = (fields.strings(), fields.rest());
        match end {
            true => self.responded_to_end(),
            false => self.headed = Some(Instant::now()),
        }
        self.application_works();
        if status == 101 {
            return super::websocket::begin(self, fields);
        }
        if let Ok(true) = self.exchange.hand_file(status, fields.pairs()) {
            // The edge sends it, and the worker is free.
            self.stop_waiting();
            self.over = true;
            return;
        }
        let length = end.then_some(body.len() as u64);
        match self.exchange.head(status, length, close, fields.pairs()) {
            Ok(summary) => {
                if let Some(field) = summary.hop_by_hop {
                    self.app.warn_hop_by_hop(field);
                }
                if summary.is_stream && !end && !self.exchange.is_half_closed() {
                    self.stream = true;
                    self.application_works();
                }
                self.exchange.data(body);
                if end {
                    self.exchange.end();
                    self.log_wrong_length();
                }
            }
            Err(bad) => {
                tracing::error!(
                    name: "response_invalid",
                    app = %self.app.name, id = %id(self.exchange), "{bad}"
                );
                self.stop_waiting();
                refusals::BAD_FIELD.respond(self.exchange);
            }
        }
    }

    fn handle_data(&mut self, bytes: &[u8], over: bool) {
        if let Some((link, stream)) = self.call.given() {
            link.release(stream, bytes.len());
        }
        if over {
            self.responded_to_end();
        }
        self.application_works();
        self.response.data(self.exchange, bytes);
        if over && self.response.end(self.exchange, std::iter::empty()) {
            self.log_wrong_length();
        }
    }

    fn responded_to_end(&mut self) {
        self.completed();
        self.app.handle_response(&self.call.summary);
    }

    pub(super) fn log_wrong_length(&self) {
        if let Some(reason @ ("body_too_short" | "body_too_long")) = self.exchange.request().notes.reason {
            tracing::error!(name: "body_length_wrong", app = %self.app.name, id = %id(self.exchange), reason,
                "the length of the response body differs from its Content-Length");
        }
    }
}

/// The id of a request, for a log record.
pub(super) fn id(exchange: &Exchange<'_>) -> String {
    keepwarm_telemetry::RequestId::new(exchange.request().number()).to_string()
}
