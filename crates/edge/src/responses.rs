//! Responses of the edge that are not errors, built with their route.

use std::future::Future;
use std::pin::Pin;

use crate::refusals;
use keepwarm_http1::{BadField, scan_app_fields};
use keepwarm_serve::{Exchange, FieldEdits, Handler, Request};

/// A fixed response.
#[derive(Debug, Clone)]
pub struct FixedResponse {
    status: u16,
    fields: Vec<Field>,
    body: Box<[u8]>,
}

type Field = (Box<[u8]>, Box<[u8]>);

impl FixedResponse {
    /// `status` (200 to 599), `fields` and a `body`, which is left out where the status has none.
    ///
    /// # Errors
    /// The first field that cannot be sent.
    pub fn new(
        status: u16,
        content_type: Option<&str>,
        fields: &[(String, String)],
        body: &str,
    ) -> Result<Self, BadField> {
        let mut all: Vec<Field> = Vec::new();
        let mut push = |name: &str, value: &str| all.push((name.as_bytes().into(), value.as_bytes().into()));
        if let Some(content_type) = content_type {
            push("Content-Type", content_type);
        }
        fields.iter().for_each(|(name, value)| push(name, value));
        // As a field, not as a computed length: so it is in the response to HEAD as well.
        if !matches!(status, 204 | 205 | 304) {
            push("Content-Length", &body.len().to_string());
        }
        scan_app_fields(pairs(&all))?;
        Ok(Self { status, fields: all, body: body.as_bytes().into() })
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn edit(&mut self, edits: &FieldEdits) {
        self.fields = edited(&self.fields, edits);
    }

    pub(crate) fn respond(&self, exchange: &mut Exchange<'_>) {
        match exchange.head(self.status, None, false, pairs(&self.fields)) {
            Ok(_) => {
                exchange.data(&self.body);
                exchange.end();
            }
            Err(bad) => respond_with_bad_field(exchange, &bad),
        }
    }
}

/// Behind checks; otherwise it responds without a future.
impl Handler for FixedResponse {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        self.respond(exchange);
        Box::pin(std::future::ready(()))
    }
}

impl Handler for Redirect {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        self.respond(exchange);
        Box::pin(std::future::ready(()))
    }
}

/// A response that sends the client elsewhere.
#[derive(Debug, Clone)]
pub struct Redirect {
    status: u16,
    to: Vec<LocationPiece>,
    fields: Vec<Field>,
}

/// A piece of `Location`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocationPiece {
    /// These bytes.
    Text(String),
    /// The request's host, with its port when it has one.
    Host,
    /// The request's path, normalized, with its first slash; without the prefix where the route strips it.
    Path,
    /// `?` and the query as received, or nothing when there is none.
    Query,
}

impl Redirect {
    /// `status` 301, 302, 303, 307 or 308, and the pieces of `Location`.
    ///
    /// # Errors
    /// A text that cannot stand in a field.
    pub fn new(status: u16, to: Vec<LocationPiece>) -> Result<Self, BadField> {
        for piece in &to {
            if let LocationPiece::Text(text) = piece {
                scan_app_fields(std::iter::once((b"Location".as_slice(), text.as_bytes())))?;
            }
        }
        Ok(Self { status, to, fields: Vec::new() })
    }

    pub(crate) fn edit(&mut self, edits: &FieldEdits) {
        self.fields = edited(&self.fields, edits);
    }

    pub(crate) fn respond(&self, exchange: &mut Exchange<'_>) {
        let request = exchange.request();
        // Only HTTP/1.0 may name no host, or name it empty; a reference without one would be another.
        if self.to.contains(&LocationPiece::Host) && request.head.authority().is_empty() {
            return refusals::REDIRECT_WITHOUT_HOST.respond(exchange);
        }
        let location = self.location(request);
        let ours: (&[u8], &[u8]) = (b"Location", &location);
        match exchange.head(self.status, Some(0), false, std::iter::once(ours).chain(pairs(&self.fields))) {
            Ok(_) => exchange.end(),
            Err(bad) => respond_with_bad_field(exchange, &bad),
        }
    }

    fn location(&self, request: &Request) -> Vec<u8> {
        let mut location = Vec::with_capacity(128);
        for piece in &self.to {
            match piece {
                LocationPiece::Text(text) => location.extend_from_slice(text.as_bytes()),
                LocationPiece::Host => push_reference(&mut location, request.head.authority()),
                LocationPiece::Path => {
                    let path = request.path().get(request.mount()..).unwrap_or_default();
                    push_path(&mut location, path);
                }
                LocationPiece::Query => {
                    if let Some(query) = request.head.query() {
                        location.push(b'?');
                        push_reference(&mut location, query);
                    }
                }
            }
        }
        location
    }
}

/// A path that stands first must not begin with `//`, which would be a host of the client's choice (RFC 3986 §4.2), and so an open redirect.
/// Browsers take `\` for `/`; it is encoded like every byte that a reference cannot hold.
pub(crate) fn push_path(location: &mut Vec<u8>, path: &[u8]) {
    let slashes = path.iter().take_while(|&&b| b == b'/').count();
    let skip = if location.is_empty() { slashes.saturating_sub(1) } else { 0 };
    push_reference(location, path.get(skip..).unwrap_or_default());
}

/// Bytes that a URI reference cannot hold are percent-encoded (RFC 3986 §2).
pub(crate) fn push_reference(location: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    for &byte in bytes {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | ..=b' ' | 0x7f.. => {
                location.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 0xf)]);
            }
            _ => location.push(byte),
        }
    }
}

/// Cannot happen, all fields being checked where they are made; should it, the client still gets a response.
fn respond_with_bad_field(exchange: &mut Exchange<'_>, bad: &BadField) {
    refusals::BAD_FIELD_CONFIGURED.about(&[bad]).respond(exchange);
}

fn pairs(fields: &[Field]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    fields.iter().map(|(name, value)| (&**name, &**value))
}

fn edited(fields: &[Field], edits: &FieldEdits) -> Vec<Field> {
    edits.apply(pairs(fields)).map(|(name, value)| (name.into(), value.into())).collect()
}
