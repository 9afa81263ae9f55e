//! Fields that are not forwarded: hop-by-hop fields, and names that are not allowed in trailers or CGI variables.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::bytes::members;
use crate::fields::Fields;

/// The fields of a message that end at this hop (RFC 9110 §7.6.1): the standard ones, and those its `Connection` names.
#[derive(Clone, Debug)]
pub struct HopByHop<'a> {
    /// The members of `Connection`, sorted for binary search: a head may have thousands of them. `None` if it has only the
    /// usual options, which name no field or a standard one: then only the standard names are checked.
    named: Option<Rc<[&'a [u8]]>>,
}

impl<'a> HopByHop<'a> {
    /// The hop-by-hop fields of a message.
    #[must_use]
    pub fn of(fields: &'a Fields) -> Self {
        let has_names = fields.all("connection").any(|value| !is_usual(value));
        let named = has_names.then(|| {
            let mut members: Vec<&[u8]> = fields.all("connection").flat_map(members).collect();
            members.sort_unstable_by(|a, b| compare(a, b));
            members.into()
        });
        Self { named }
    }

    /// Whether a field of that name is removed before the message is forwarded.
    #[must_use]
    pub fn removes(&self, lower_name: &[u8]) -> bool {
        is_hop_by_hop(lower_name) || self.named.as_ref().is_some_and(|named| names(named, lower_name))
    }
}

fn names(named: &[&[u8]], name: &[u8]) -> bool {
    !is_protected(name) && named.binary_search_by(|member| compare(member, name)).is_ok()
}

/// Case-insensitive.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

/// Whether this `Connection` names no field beyond the standard ones.
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

/// Whether a field of that name is allowed in a trailer section: none that frames, routes, modifies the request, authenticates, sets state, describes how
/// to read the content, or carries forwarding data (RFC 9110 §6.5.1).
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

/// The standard names, those of RFC 2616 for proxy authentication included, which is for the next hop only (RFC 9110 §11.7), and the settings of h2c.
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

/// Fields that `Connection` cannot remove: a client that names these wants to hide from a later hop what an earlier one saw (RFC 9110 §7.6.1 says senders MUST
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
