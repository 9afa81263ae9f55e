//! The errors that any endpoint responds with, whatever it serves.

use std::net::IpAddr;

use keepwarm_http1::Refusal as HeadRefusal;
use keepwarm_net::Scheme;

use crate::{Exchange, Request};

crate::error_responses! {
    /// `CONNECT` to a listener that is not a forward proxy (RFC 9110 §9.3.6). `Allow` lists what is supported.
    CONNECT_REFUSED = 405 "connect_refused", "This method is not supported here.";

    /// `TRACE` (RFC 9110 §9.3.8), which would show a script the headers that it must not see. `Allow` lists what is supported.
    TRACE_REFUSED = 405 "trace_refused", "This method is not supported here.";

    /// `Expect` with anything but `100-continue` (RFC 9110 §10.1.1).
    UNKNOWN_EXPECTATION = 417 "unknown_expectation", "The only supported expectation is 100-continue.";

    /// The request target is an https address, and the request came in plaintext from a peer that is not in `server.trusted_proxies` (RFC 9110 §7.4).
    HTTPS_UNENCRYPTED = 421 "https_unencrypted",
        "The request is for an https address, but arrived over an unencrypted connection.";

    /// The client's connection was made for another host, whose certificate is not for this one: the client can repeat the request on a
    /// connection of its own (RFC 9110 §15.5.20). Add the host to the certificate, if one connection should serve both.
    MISDIRECTED = 421 "misdirected",
        "This connection was made for another host; the certificate it uses is not for this one.";

    /// The request head did not arrive within `limits.head_timeout`.
    HEAD_TIMEOUT = 408 "head_timeout", "The request headers did not arrive in time.";

    /// The body is larger than `limits.body`, or than `max_body` of the route (RFC 9110 §15.5.14).
    BODY_TOO_LARGE = 413 "body_too_large",
        "The request body is larger than the limit of {} (limits.body, or max_body of the route).";

    /// The body arrived more slowly than `limits.body_rate`.
    BODY_TOO_SLOW = 408 "body_too_slow", "The request body arrived too slowly.";

    /// A body that is read whole before the app gets it could not be written to its spill file; the log has the system's error.
    BODY_NOT_KEPT = 500 "spill_failed", "The server could not store the request body.";

    /// Spill files and buffers have reached `server.limits.spill`: raise it, or look for clients that are slow on purpose.
    SPILL_FULL = 503 "spill_full", "The server has no space for the request body at the moment.";

    /// A part of the response that waited for a slow client could not be written to its spill file or read back; the log has the system's error.
    RESPONSE_NOT_KEPT = 500 "spill_failed", "The server could not store the response.";

    /// A bug in Keepwarm ended the work on the request; the log has the stack. Please report it.
    PANICKED = 500 "panicked", "The server failed while it processed this request.";
}

/// Responds to a well-framed request that no endpoint takes (`spec/http.md` §2, §4). `allow`: the methods that are supported here.
pub fn respond_with_head_refusal(exchange: &mut Exchange<'_>, refusal: HeadRefusal, allow: &[u8]) {
    let method = match refusal {
        HeadRefusal::Expectation => return UNKNOWN_EXPECTATION.respond(exchange),
        HeadRefusal::Connect => &CONNECT_REFUSED,
        HeadRefusal::Trace => &TRACE_REFUSED,
    };
    // Bytes after a CONNECT were meant for a tunnel.
    exchange.close_after();
    method.about(&[]).field("Allow", allow).respond(exchange);
}

/// Responds to a request for an `https` address that came over an unencrypted connection, or over one of another host. `true`: it was one.
pub fn refuse_misdirected(exchange: &mut Exchange<'_>) -> bool {
    if is_misdirected(exchange.request()) {
        HTTPS_UNENCRYPTED.respond(exchange);
        return true;
    }
    let is_of_other = is_for_other_connection(exchange.request());
    if is_of_other {
        MISDIRECTED.respond(exchange);
    }
    is_of_other
}

/// Whether the certificate of the connection is not for the requested host. A client that requested the host in its handshake, and accepted
/// the certificate that it got, is where it wants to be; so is one that named an address, which it cannot name in a handshake (RFC 6066 §3).
fn is_for_other_connection(request: &Request) -> bool {
    let Some(tls) = &request.peer.tls else { return false };
    let Some(certificate) = &tls.certificate else { return false };
    let Ok(authority) = std::str::from_utf8(request.head.authority()) else { return true };
    let host = host_of(authority);
    if host.is_empty() || tls.server_name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(host)) {
        return false;
    }
    let is_address = host.parse::<IpAddr>().is_ok();
    !(is_address && tls.server_name.is_none()) && certificate.facts.covers(host).is_none()
}

/// Without the port, the brackets of an address, and the dot at the end of an absolute name.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.split(':').next().unwrap_or(authority).trim_end_matches('.'),
    }
}

/// RFC 9110 §7.4. A trusted proxy may have taken TLS off.
fn is_misdirected(request: &Request) -> bool {
    let scheme = request.head.absolute_scheme();
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https"))
        && request.peer.scheme == Scheme::Http
        && !request.notes.trusted_peer
}
