//! Determines the client behind trusted proxies (`X-Forwarded-*`; RFC 7239).
//!
//! Anybody can write these fields, so they count only from a peer among the trusted proxies.
//!
//! * **Who.** Each proxy appends the address it was called from. Read from the right, the first address that is not a trusted proxy is the client: that client may
//!   have written everything to the left of it. If all are trusted, the leftmost is the client. Anything but an address (`unknown`, a hidden name) ends
//!   the search: the trusted proxy to the right of it is all that is known.
//! * **Which field.** `X-Forwarded-For` where there is one, else `Forwarded`. Most proxies write the first and pass the second on as their client wrote it;
//!   a proxy that writes `Forwarded` must remove the other.
//! * **Scheme and host.** `X-Forwarded-Proto`: the value at the client's position if the lists are of equal length, else the last, which our peer wrote.
//!   `X-Forwarded-Host`: the last. `Forwarded`: `proto` and `host` of the client's element.
//!
//! For the app, every such field from an untrusted peer is removed ([`Request::drops_field`]). A worker sees the result in its environment:
//! `REMOTE_ADDR` is the client, the scheme is the client's. The fields are set for every app, to that result and to one value each: so an app that trusts
//! one proxy reads the right address, whichever end it reads from.

use std::borrow::Cow;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use keepwarm_http1::Fields;
use keepwarm_net::Scheme;
use keepwarm_serve::{Forwarded, Request};

use crate::cidr::Cidr;

/// A client on a Unix socket counts as this one.
pub(crate) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What trusted proxies say about the client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForwardedInfo<'a> {
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The scheme the client used.
    pub scheme: Option<Scheme>,
    /// The host the client requested.
    pub host: Option<Cow<'a, [u8]>>,
}

/// Judges the fields of a request that a trusted peer sent.
pub fn resolve_forwarded(fields: &Fields, is_trusted: impl Fn(IpAddr) -> bool) -> ForwardedInfo<'_> {
    let hops: Vec<&[u8]> = members(fields, "x-forwarded-for").collect();
    if hops.is_empty() && fields.first("forwarded").is_some() {
        return resolve_elements(fields, is_trusted);
    }
    let client = find_client(hops.iter().map(|hop| parse_address(hop)), is_trusted);
    let schemes = members(fields, "x-forwarded-proto").count();
    let index = match client {
        Some((index, _)) if schemes == hops.len() => index,
        _ => schemes.saturating_sub(1),
    };
    ForwardedInfo {
        client: client.map(|(_, address)| address),
        scheme: members(fields, "x-forwarded-proto").nth(index).and_then(parse_scheme),
        host: members(fields, "x-forwarded-host").last().map(Cow::Borrowed),
    }
}

/// The same of `Forwarded`.
fn resolve_elements(fields: &Fields, is_trusted: impl Fn(IpAddr) -> bool) -> ForwardedInfo<'_> {
    let elements: Vec<&[u8]> = fields
        .all("forwarded")
        .flat_map(|line| split_unquoted(line, b','))
        .filter(|e| !e.is_empty())
        .collect();
    let addresses = elements.iter().map(|element| parse_address(&parameter(element, b"for")?));
    let client = find_client(addresses, is_trusted);
    let index = client.map_or(elements.len().saturating_sub(1), |(index, _)| index);
    let of_client = |name: &[u8]| parameter(elements.get(index)?, name);
    ForwardedInfo {
        client: client.map(|(_, address)| address),
        scheme: of_client(b"proto").and_then(|proto| parse_scheme(&proto)),
        host: of_client(b"host").filter(|host| !host.is_empty()),
    }
}

/// The client among the addresses that proxies appended, and its place among them.
fn find_client(
    hops: impl DoubleEndedIterator<Item = Option<IpAddr>> + ExactSizeIterator,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<(usize, IpAddr)> {
    let mut client = None;
    for (index, hop) in hops.enumerate().rev() {
        let Some(address) = hop else { break };
        client = Some((index, address));
        if !is_trusted(address) {
            break;
        }
    }
    client
}

/// Notes in the request what is believed about its client. `trusted` is not empty.
pub(crate) fn judge(request: &mut Request, trusted: &[Cidr]) {
    let is_trusted = |address| Cidr::any_contains(trusted, address);
    let peer = request.peer().client.map_or(LOCAL, |client| client.ip());
    request.notes.trusted_peer = is_trusted(peer);
    if !request.notes.trusted_peer {
        return;
    }
    let info = resolve_forwarded(&request.head.fields, is_trusted);
    if info.client.is_some() || info.scheme.is_some() {
        request.notes.forwarded = Some(Box::new(Forwarded {
            client: info.client.unwrap_or_else(|| peer.to_canonical()),
            scheme: info.scheme.unwrap_or(request.peer().scheme),
        }));
    }
}

/// Adds the fields for the app.
pub(crate) fn set_fields(request: &mut Request, trusted: &[Cidr]) {
    if !request.notes.trusted_peer {
        tell_of_unheard_proxy(request);
    }
    let client = request.client_address().unwrap_or(LOCAL).to_string();
    let scheme = request.scheme().as_str().as_bytes();
    let forwarded_host = match request.notes.trusted_peer {
        true => resolve_forwarded(&request.head.fields, |address| Cidr::any_contains(trusted, address)).host,
        false => None,
    };
    let host = forwarded_host.unwrap_or_else(|| Cow::Borrowed(request.head.authority()));

    let mut forwarded = Vec::with_capacity(64);
    // RFC 7239 §6: an IPv6 address is in brackets, and with its colons in quotes. Writing into memory cannot fail.
    let _ = match client.contains(':') {
        true => write!(forwarded, "for=\"[{client}]\""),
        false => write!(forwarded, "for={client}"),
    };
    if is_quotable(&host) && !host.is_empty() {
        forwarded.extend_from_slice(b";host=\"");
        forwarded.extend_from_slice(&host);
        forwarded.push(b'"');
    }
    forwarded.extend_from_slice(b";proto=");
    forwarded.extend_from_slice(scheme);

    let fields = &mut request.extra_fields;
    fields.push(b"x-forwarded-for", client.as_bytes());
    fields.push(b"x-forwarded-proto", scheme);
    if !host.is_empty() {
        fields.push(b"x-forwarded-host", &host);
    }
    fields.push(b"forwarded", &forwarded);
    if request.peer().tls.is_some() {
        set_client_certificate(request);
    }
}

/// Adds the fields about the certificate of the client, where clients are asked for one.
fn set_client_certificate(request: &mut Request) {
    let mut fields = Fields::new();
    match &request.peer().tls {
        Some(tls) if tls.asks_clients => match &tls.client {
            None => fields.push(b"x-client-cert-verify", b"NONE"),
            Some(client) => {
                fields.push(b"x-client-cert-verify", b"SUCCESS");
                fields.push(b"x-client-cert-subject", client.subject.as_bytes());
                fields.push(b"x-client-cert-issuer", client.issuer.as_bytes());
                fields.push(b"x-client-cert-serial", client.serial.as_bytes());
                fields.push(b"x-client-cert-fingerprint", client.fingerprint.as_bytes());
            }
        },
        Some(_) | None => return,
    }
    fields.iter().for_each(|(name, value)| request.extra_fields.push(name, value));
}

/// Behind a proxy that is not configured, an app takes every client for the proxy and `https` for `http`, and nothing fails: logged once per process,
/// and only for peers that can be such a proxy, since any client can send the field.
fn tell_of_unheard_proxy(request: &Request) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if TOLD.load(Ordering::Relaxed) || request.head.fields.first("x-forwarded-for").is_none() {
        return;
    }
    let peer = request.peer().client.map_or(LOCAL, |client| client.ip().to_canonical());
    let is_near = match peer {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback(),
    };
    if is_near && !TOLD.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            name: "forwarded_header_ignored",
            %peer,
            "X-Forwarded-For of an untrusted peer ignored; if the peer is your proxy, add it to server.trusted_proxies"
        );
    }
}

/// Whether it can stand between quotes as it is (RFC 9110 §5.6.4).
fn is_quotable(value: &[u8]) -> bool {
    !value.iter().any(|&b| b == b'"' || b == b'\\')
}

/// The members of a list field, all its lines together; empty ones count for nothing (RFC 9110 §5.6.1).
fn members<'a>(fields: &'a Fields, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let members = fields.all(name).flat_map(|line| line.split(|&b| b == b','));
    members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// `address`, `address:port`, `[v6]` or `[v6]:port`.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => text.parse::<SocketAddr>().ok()?.ip(),
    };
    Some(address.to_canonical())
}

fn parse_scheme(text: &[u8]) -> Option<Scheme> {
    match text {
        _ if text.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
        _ if text.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
        _ => None,
    }
}

/// The value of a parameter of an element of `Forwarded` (RFC 7239 §4), out of its quotes.
fn parameter<'a>(element: &'a [u8], name: &[u8]) -> Option<Cow<'a, [u8]>> {
    let value = split_unquoted(element, b';').find_map(|pair| {
        let (found, value) = pair.split_at_checked(name.len())?;
        found.eq_ignore_ascii_case(name).then(|| value.strip_prefix(b"="))?
    })?;
    match value {
        [b'"', inside @ .., b'"'] if is_quotable(inside) => Some(Cow::Borrowed(inside)),
        [b'"', inside @ .., b'"'] => Some(Cow::Owned(unescape(inside))),
        token => Some(Cow::Borrowed(token)),
    }
}

/// The inside of a quoted string, its quoted pairs resolved (RFC 9110 §5.6.4).
fn unescape(inside: &[u8]) -> Vec<u8> {
    let mut escaped = false;
    let mut out = Vec::with_capacity(inside.len());
    for &byte in inside {
        if byte == b'\\' && !escaped {
            escaped = true;
        } else {
            escaped = false;
            out.push(byte);
        }
    }
    out
}

/// Splits where `separator` stands outside of quotes; the parts trimmed.
fn split_unquoted(bytes: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    bytes
        .split(move |&byte| {
            let was_escaped = escaped;
            escaped = quoted && byte == b'\\' && !was_escaped;
            if byte == b'"' && !was_escaped {
                quoted = !quoted;
            }
            byte == separator && !quoted
        })
        .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests;
