//! Texts with variables, read when the configuration is loaded, and filled in for a request.
//!
//! A value is written for the place where it goes: percent-encoded in a URL, without control characters in a header.

use std::io::Write;
use std::sync::Arc;

use keepwarm_serve::Request;
use keepwarm_telemetry::RequestId;

use crate::forwarding::LOCAL;
use crate::matcher::{arguments, cookies};
use crate::pattern::host_of;
use crate::responses::push_reference;
use crate::variable_map::VariableMap;

/// A text with variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template(pub Vec<TemplatePiece>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePiece {
    /// This text.
    Text(String),
    /// The value of a variable.
    Variable(Variable),
}

/// What a variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// The request's host, with its port when it has one.
    Host,
    /// The request's host without its port.
    HostName,
    /// The request's path, normalized, with its first slash; without the prefix where the route strips it.
    Path,
    /// `?` and the query as received, or nothing when there is none.
    Query,
    /// The query as received, without `?`.
    Args,
    /// The method.
    Method,
    /// The scheme that the client used.
    Scheme,
    /// The client's address.
    Client,
    /// The request's id.
    RequestId,
    /// What a `*` or a group of the route's path stands for, from 1.
    Capture(u8),
    /// The first line of that name, in lower case.
    Header(String),
    /// The first decoded value of that argument.
    Argument(String),
    /// The first value of that cookie.
    Cookie(String),
    /// The value of a map.
    Map(Arc<VariableMap>),
    /// The status; nothing when none was sent. As all that follow, only in an access log.
    Status,
    /// Bytes of the response's body.
    Bytes,
    /// How long the request took, with six places.
    Seconds,
    /// When it ended (RFC 3339).
    Time,
    /// The target as received.
    Target,
    /// Such as `HTTP/1.1`.
    Version,
    /// The app, or the kind of route.
    Route,
    /// Why it was refused, cut or retried.
    Reason,
    /// The user that the route has authenticated.
    User,
}

/// A request, and what the `*` and groups of its route's path stand for.
#[derive(Clone, Copy)]
pub(crate) struct Values<'r> {
    pub(crate) request: &'r Request,
    pub(crate) captures: &'r [Vec<u8>],
}

impl Template {
    /// Whether it is the same for every request: then this is its text.
    pub(crate) fn fixed(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [TemplatePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(crate) fn has(&self, variable: &Variable) -> bool {
        self.0.iter().any(|piece| match piece {
            TemplatePiece::Text(_) => false,
            TemplatePiece::Variable(Variable::Map(map)) => map.has(variable),
            TemplatePiece::Variable(found) => found == variable,
        })
    }

    pub(crate) fn uses_captures(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, TemplatePiece::Variable(Variable::Capture(_))))
    }

    /// A reference (RFC 3986 §4.1). A client's text neither ends the part of the URL that it is in, nor begins another host.
    pub(crate) fn reference(&self, values: Values<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        self.push_reference(values, &mut out, &mut false);
        // `//` at the beginning is a host of the client's choice (RFC 3986 §4.2), and so an open redirect.
        let slashes = out.iter().take_while(|&&byte| byte == b'/').count();
        out.drain(..slashes.saturating_sub(1));
        out
    }

    /// `in_query`: `&` and `=` separate.
    fn push_reference(&self, values: Values<'_>, out: &mut Vec<u8>, in_query: &mut bool) {
        for piece in &self.0 {
            let variable = match piece {
                TemplatePiece::Text(text) => {
                    *in_query |= text.contains('?');
                    // In a map, a text can have any bytes.
                    push_reference(out, text.as_bytes());
                    continue;
                }
                TemplatePiece::Variable(variable) => variable,
            };
            match variable {
                // Its own text is as good as ours, its variables are not.
                Variable::Map(map) => {
                    let (template, captures) = map.value(values.request);
                    template.push_reference(Values { captures: &captures, ..values }, out, in_query);
                }
                Variable::Host | Variable::HostName | Variable::Path | Variable::Args | Variable::Query => {
                    let mut value = Vec::new();
                    variable.push(values, &mut value);
                    push_reference(out, &value);
                    *in_query |= *variable == Variable::Query && !value.is_empty();
                }
                // Part of a path in normal form: its escapes stay.
                Variable::Capture(_) => {
                    let mut value = Vec::new();
                    variable.push(values, &mut value);
                    push_part(out, &value, *in_query);
                }
                _ => {
                    let mut value = Vec::new();
                    variable.push(values, &mut value);
                    push_encoded(out, &value);
                }
            }
        }
    }

    /// Appends the text with the values as they are.
    pub(crate) fn push(&self, values: Values<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePiece::Variable(variable) => variable.push(values, out),
            }
        }
    }

    /// A value of a field (RFC 9110 §5.5): every control character becomes a space.
    pub(crate) fn field_value(&self, values: Values<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.push(values, &mut out);
        out.iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
        out.trim_ascii().to_vec()
    }
}

impl Variable {
    /// Appends its value as it is. What only an access log knows is empty.
    pub(crate) fn push(&self, values: Values<'_>, out: &mut Vec<u8>) {
        let Values { request, captures } = values;
        let head = &request.head;
        let mut put = |value: &[u8]| out.extend_from_slice(value);
        match self {
            Self::Host => put(head.authority()),
            Self::HostName => put(host_of(head.authority())),
            Self::Path => put(request.path().get(request.mount()..).unwrap_or_default()),
            Self::Query => {
                if let Some(query) = head.query() {
                    put(b"?");
                    put(query);
                }
            }
            Self::Args => put(head.query().unwrap_or_default()),
            Self::Method => put(head.method.as_str().as_bytes()),
            Self::Scheme => put(request.scheme().as_str().as_bytes()),
            // Writing into memory cannot fail.
            Self::Client => _ = write!(out, "{}", request.client_address().unwrap_or(LOCAL)),
            Self::RequestId => put(&RequestId::new(request.number()).digits()),
            Self::Capture(number) => {
                let index = usize::from(*number).checked_sub(1);
                put(index.and_then(|index| captures.get(index)).map_or(b"", Vec::as_slice));
            }
            Self::Header(name) => put(head.fields.first(name).unwrap_or_default()),
            Self::Argument(name) => {
                let query = head.query().unwrap_or_default();
                let value = arguments(query, name.as_bytes()).next();
                put(&value.unwrap_or_default());
            }
            Self::Map(map) => {
                let (template, captures) = map.value(request);
                template.push(Values { captures: &captures, ..values }, out);
            }
            Self::Status
            | Self::Bytes
            | Self::Seconds
            | Self::Time
            | Self::Target
            | Self::Version
            | Self::Route
            | Self::Reason
            | Self::User => {}
            Self::Cookie(name) => put(cookies(&head.fields, name.as_bytes()).next().unwrap_or_default()),
        }
    }
}

/// A part of a path. In a query, what separates there is encoded too.
fn push_part(out: &mut Vec<u8>, part: &[u8], in_query: bool) {
    for byte in part {
        match byte {
            b'&' | b'=' | b'+' | b';' if in_query => push_escape(out, *byte),
            b'?' | b'#' => push_escape(out, *byte),
            byte => push_reference(out, std::slice::from_ref(byte)),
        }
    }
}

/// Everything but unreserved bytes encoded (RFC 3986 §2.3).
fn push_encoded(out: &mut Vec<u8>, value: &[u8]) {
    for &byte in value {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => out.push(byte),
            false => push_escape(out, byte),
        }
    }
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    // Writing into memory cannot fail.
    let _ = write!(out, "%{byte:02X}");
}
