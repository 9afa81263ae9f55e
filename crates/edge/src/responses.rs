//! Responses of the edge that are not errors, built with their route.

mod body;

use std::future::Future;
use std::pin::Pin;

use crate::pattern::PathPattern;
use crate::refusals;
use crate::template::{Template, TemplatePiece, Values, Variable};
use keepwarm_http1::{BadField, scan_app_fields};
use keepwarm_serve::{Exchange, FieldEdits, Handler};

use self::body::Body;
pub use self::body::ValueEscape;

/// A fixed response, or one whose body has values of the request.
#[derive(Debug, Clone)]
pub struct FixedResponse {
    status: u16,
    fields: Vec<Field>,
    body: Body,
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
        let body = Body::Fixed(body.as_bytes().into());
        Self::with_body(status, content_type, fields, body)
    }

    /// The same with a body that has values of the request, written by `escape`.
    ///
    /// # Errors
    /// The first field that cannot be sent.
    pub fn templated(
        status: u16,
        content_type: Option<&str>,
        fields: &[(String, String)],
        body: Template,
        escape: ValueEscape,
    ) -> Result<Self, BadField> {
        Self::with_body(status, content_type, fields, Body::Template(body, escape))
    }

    fn with_body(
        status: u16,
        content_type: Option<&str>,
        fields: &[(String, String)],
        body: Body,
    ) -> Result<Self, BadField> {
        let mut all: Vec<Field> = Vec::new();
        let mut push = |name: &str, value: &str| all.push((name.as_bytes().into(), value.as_bytes().into()));
        if let Some(content_type) = content_type {
            push("Content-Type", content_type);
        }
        fields.iter().for_each(|(name, value)| push(name, value));
        // As a field, not as a computed length: so it is in the response to HEAD as well.
        if let (Body::Fixed(body), false) = (&body, matches!(status, 204 | 205 | 304)) {
            push("Content-Length", &body.len().to_string());
        }
        scan_app_fields(pairs(&all))?;
        Ok(Self { status, fields: all, body })
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn edit(&mut self, edits: &FieldEdits) {
        self.fields = edited(&self.fields, edits);
    }

    pub(crate) fn uses_captures(&self) -> bool {
        matches!(&self.body, Body::Template(template, _) if template.uses_captures())
    }

    pub(crate) fn respond(&self, exchange: &mut Exchange<'_>, captures: &[Vec<u8>]) {
        let made = self.body.made(Values { request: exchange.request(), captures });
        let begun = match &made {
            None => exchange.head(self.status, None, false, pairs(&self.fields)),
            Some(body) => {
                let length = body.len().to_string();
                let length = std::iter::once((b"Content-Length".as_slice(), length.as_bytes()));
                exchange.head(self.status, None, false, pairs(&self.fields).chain(length))
            }
        };
        match begun {
            Ok(_) => {
                exchange.data(made.as_deref().unwrap_or(self.body.fixed()));
                exchange.end();
            }
            Err(bad) => respond_with_bad_field(exchange, &bad),
        }
    }
}

/// A fixed response behind checks; otherwise it responds without a future.
#[derive(Debug)]
pub(crate) struct CheckedResponse {
    pub(crate) response: FixedResponse,
    /// The route's, for what its `*` or groups stand for.
    pub(crate) path: PathPattern,
}

impl Handler for CheckedResponse {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let captures = match self.response.uses_captures() {
            true => self.path.captures(exchange.request().path()),
            false => Vec::new(),
        };
        self.response.respond(exchange, &captures);
        Box::pin(std::future::ready(()))
    }
}

/// A redirect behind checks.
#[derive(Debug)]
pub(crate) struct CheckedRedirect {
    pub(crate) redirect: Redirect,
    /// The route's, for what its `*` or groups stand for.
    pub(crate) path: PathPattern,
}

impl Handler for CheckedRedirect {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let captures = match self.redirect.uses_captures() {
            true => self.path.captures(exchange.request().path()),
            false => Vec::new(),
        };
        self.redirect.respond(exchange, &captures);
        Box::pin(std::future::ready(()))
    }
}

/// A response that sends the client elsewhere.
#[derive(Debug, Clone)]
pub struct Redirect {
    status: u16,
    to: Template,
    fields: Vec<Field>,
}

impl Redirect {
    /// `status` 301, 302, 303, 307 or 308, and `Location`.
    ///
    /// # Errors
    /// A text that cannot stand in a field.
    pub fn new(status: u16, to: Template) -> Result<Self, BadField> {
        for piece in &to.0 {
            if let TemplatePiece::Text(text) = piece {
                scan_app_fields(std::iter::once((b"Location".as_slice(), text.as_bytes())))?;
            }
        }
        Ok(Self { status, to, fields: Vec::new() })
    }

    pub(crate) fn edit(&mut self, edits: &FieldEdits) {
        self.fields = edited(&self.fields, edits);
    }

    pub(crate) fn uses_captures(&self) -> bool {
        self.to.uses_captures()
    }

    pub(crate) fn respond(&self, exchange: &mut Exchange<'_>, captures: &[Vec<u8>]) {
        let request = exchange.request();
        // Only HTTP/1.0 may name no host, or name it empty; a reference without one would be another.
        let needs_host = self.to.has(&Variable::Host) || self.to.has(&Variable::HostName);
        if needs_host && request.head.authority().is_empty() {
            return refusals::REDIRECT_WITHOUT_HOST.respond(exchange);
        }
        let location = self.to.reference(Values { request, captures });
        let ours: (&[u8], &[u8]) = (b"Location", &location);
        match exchange.head(self.status, Some(0), false, std::iter::once(ours).chain(pairs(&self.fields))) {
            Ok(_) => exchange.end(),
            Err(bad) => respond_with_bad_field(exchange, &bad),
        }
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
