//! What `[admin]` responds, and in which form.

use keepwarm_serve::{Exchange, Request};
use serde_json::{Value, json};

use super::health;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// A response that is whole.
pub(super) struct Response {
    status: u16,
    content_type: &'static str,
    body: String,
    field: Option<(&'static str, String)>,
}

impl Response {
    pub(super) fn new(status: u16, content_type: &'static str, body: String) -> Self {
        Self { status, content_type, body, field: None }
    }

    pub(super) fn json(status: u16, value: &Value) -> Self {
        Self::new(status, "application/json", format!("{value:#}\n"))
    }

    pub(super) fn health(health: &health::Health, list: &str, wants_json: bool) -> Self {
        let status = if health.good { 200 } else { 503 };
        match wants_json {
            true => Self::json(status, &health.json(list)),
            false => Self::new(status, TEXT, health.text()),
        }
    }

    pub(super) fn error(status: u16, reason: &str, sentence: &str, wants_json: bool) -> Self {
        match wants_json {
            true => Self::json(status, &json!({ "status": status, "reason": reason, "detail": sentence })),
            false => Self::new(status, TEXT, format!("{sentence}\n")),
        }
    }

    pub(super) fn with(mut self, field: Option<(&'static str, &str)>) -> Self {
        self.field = field.map(|(name, value)| (name, value.to_owned()));
        self
    }

    pub(super) fn write(self, exchange: &mut Exchange<'_>) {
        let fixed = [
            ("Content-Type", self.content_type),
            ("Cache-Control", "no-store"),
            // A browser on this machine must not take it for a page, nor for a script of another one.
            ("X-Content-Type-Options", "nosniff"),
        ];
        let more = self.field.as_ref().map(|(name, value)| (*name, value.as_str()));
        let fields = fixed.into_iter().chain(more).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        match exchange.head(self.status, Some(self.body.len() as u64), false, fields) {
            Ok(_) => {
                exchange.data(self.body.as_bytes());
                exchange.end();
            }
            Err(_) => exchange.abort("bad_field_in_response"),
        }
    }
}

/// Whether the client accepts JSON by name.
pub(super) fn wants_json(request: &Request) -> bool {
    accepts(request, "application/json")
}

/// Whether the client accepts a type by name.
pub(super) fn accepts(request: &Request, wanted: &str) -> bool {
    let is_wanted = |part: &[u8]| part.eq_ignore_ascii_case(wanted.as_bytes());
    request.head.fields.all("accept").any(|field| field.windows(wanted.len()).any(is_wanted))
}
