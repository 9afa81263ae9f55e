//! Which fields go no further than the next hop, or the head they stand in.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::bytes::members;
use crate::fields::Fields;

/// The fields of a message that end at this hop (RFC 9110 §7.6.1): the standard ones, and those its `Connection` names.
#[derive(Clone, Debug)]
pub struct HopByHop<'a> {
    /// What `Connection` names, in an order by which it is found: a head may have thousands of members, and of fields that are looked up. `None` where it names but
    /// options that nearly every one has, and that are no fields or standard ones: then only the standard ones are looked at.
    named: Option<Rc<[&'a [u8]]>>,
}

impl<'a> HopByHop<'a> {
    /// Of a message's fields.
    #[must_use]
    pub fn of(fields: &'a Fields) -> Self {
        let names_some = fields.all("connection").any(|value| !is_usual(value));
        let named = names_some.then(|| {
            let mut members: Vec<&[u8]> = fields.all("connection").flat_map(members).collect();
            members.sort_unstable_by(|a, b| compare(a, b));
            members.into()
        });
        Self { named }
    }

    /// Whether a field of that name is removed before the message goes on.
    #[must_use]
    pub fn removes(&self, lower_name: &[u8]) -> bool {
        is_hop_by_hop(lower_name) || self.named.as_ref().is_some_and(|named| names(named, lower_name))
    }
}

fn names(named: &[&[u8]], name: &[u8]) -> bool {
    !is_protected(name) && named.binary_search_by(|member| compare(member, name)).is_ok()
}

/// Without regard to case.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

/// Whether all that a `Connection` says is removed without it, or no field's name.
fn is_usual(connection: &[u8]) -> bool {
    connection.eq_ignore_ascii_case(b"keep-alive") || connection.eq_ignore_ascii_case(b"upgrade")
}

/// Whether a field of that name can become a CGI-style variable (`HTTP_…`): `_` and `.` would alias `-`, and `Proxy` would become
/// `HTTP_PROXY`, which programs take for their own configuration (httpoxy).
#[must_use]
pub fn cgi_safe_name(lower_name: &[u8]) -> bool {
    !lower_name.is_empty()
        && lower_name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'-')
        && lower_name != b"proxy"
}

/// Whether a field of that name may stand in a trailer section: none that frames, routes, modifies the request, authenticates, sets state, says how
/// the content is to be read, or carries forwarding data (RFC 9110 §6.5.1).
#[must_use]
pub fn trailer_allowed(lower_name: &[u8]) -> bool {
    let refused = is_hop_by_hop(lower_name)
        || is_protected(lower_name)
        || matches!(
            lower_name,
            b"trailer"
                | b"expect"
                | b"max-forwards"
                | b"range"
                | b"cache-control"
                | b"pragma"
                | b"content-encoding"
                | b"content-type"
                | b"content-range"
                | b"content-disposition"
                | b"content-location"
                | b"location"
                | b"retry-after"
                | b"vary"
                | b"age"
                | b"date"
                | b"expires"
                | b"warning"
                | b"origin"
                | b"referer"
                | b"accept"
                | b"accept-encoding"
                | b"set-cookie2"
                | b"method"
                | b"path"
                | b"status"
        )
        || lower_name.starts_with(b"if-")
        || lower_name.starts_with(b"x-http-method");
    !refused
}

/// The standard ones; RFC 2616's for proxy authentication among them, which is for the next hop alone (RFC 9110 §11.7), and h2c's settings.
pub(crate) fn is_hop_by_hop(lower_name: &[u8]) -> bool {
    matches!(
        lower_name,
        b"connection"
            | b"keep-alive"
            | b"proxy-connection"
            | b"te"
            | b"transfer-encoding"
            | b"upgrade"
            | b"http2-settings"
            | b"proxy-authenticate"
            | b"proxy-authorization"
    )
}

/// What `Connection` cannot remove: a client that names these wants a later hop to miss what an earlier one saw (RFC 9110 §7.6.1 says senders MUST
/// NOT list a field meant for all recipients). Known as "abusing hop-by-hop headers".
fn is_protected(lower_name: &[u8]) -> bool {
    matches!(
        lower_name,
        b"host"
            | b"content-length"
            | b"transfer-encoding"
            | b"trailer"
            | b"authorization"
            | b"www-authenticate"
            | b"proxy-authenticate"
            | b"proxy-authorization"
            | b"cookie"
            | b"set-cookie"
            | b"forwarded"
            | b"via"
            | b"x-real-ip"
            | b"true-client-ip"
            | b"cf-connecting-ip"
    ) || lower_name.starts_with(b"x-forwarded-")
}

#[cfg(test)]
mod tests;
