//! `ladder`: timeouts of chained servers.
//!
//! Two kinds, with opposite rules.
//!
//! * *Waiting for a response*: the outer server waits longer than the inner. Otherwise the inner works in vain, and its own error, which knows the reason,
//!   is never seen. It shows only on a resource that runs into a timeout: the outer responds with 504 while the inner, asked directly, responds later.
//! * *Keeping an idle connection*: between two servers, the side that sends requests must drop an idle connection before the side that responds does. A server
//!   that closes one at the moment when a request is on its way leaves the sender without knowing whether it was processed, so that it may not be sent again
//!   unless it is idempotent (RFC 9110 §9.2.2, RFC 9112 §9.3.1, §9.5); the client gets a 502. So each server keeps idle connections *longer* than the one in
//!   front of it keeps its own to it. The timeouts that two servers grant to *their clients* need no order between them.
//!
//! Visible: how long each server grants to its clients, promised by `Keep-Alive: timeout` or measured (`--slow`), here from the position of the server in front.
//! Not visible: how long the server in front keeps its own connections. Its defaults are known where it is recognized; otherwise the time it grants to its
//! clients is used, since many load balancers have one idle timeout for both sides.

mod hops;
mod rules;

#[cfg(test)]
mod tests;

use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::server::Server;

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    if context.settings.via.is_empty() {
        return vec![rules::alone(&context.first)];
    }
    let (hops, unreached) = hops::visit(context).await;
    let mut findings = unreached;
    for (outer, inner) in hops.iter().zip(hops.iter().skip(1)) {
        for mut finding in [rules::idle(outer, inner), rules::responds(outer, inner)] {
            if finding.verdict > Verdict::Unknown {
                // The one that is not the outermost is not the one examined.
                finding.fix = fix(finding.id, outer.server).map(str::to_owned);
            }
            findings.push(finding);
        }
    }
    findings
}

pub(super) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    match finding {
        rules::IDLE => Some(match server {
            Server::Nginx => {
                "Have the server behind it keep idle connections longer than nginx (60s, keepalive_timeout in the upstream block), or lower that time."
            }
            Server::Apache => {
                "Set ttl= in ProxyPass to a second less than the server behind it keeps idle connections, or set disablereuse=on."
            }
            Server::HaProxy => {
                "Lower pool-purge-delay, or have the server behind it keep idle connections longer (and set option redispatch, and retry-on all-retryable-errors for requests that may be sent again)."
            }
            Server::Envoy => {
                "Set common_http_protocol_options.idle_timeout of the cluster (1h by default) below the time that the server behind it keeps idle connections, or raise that time."
            }
            Server::Caddy => {
                "Set transport http { keepalive } of reverse_proxy (2m by default) below the time that the server behind it keeps idle connections, or raise that time."
            }
            _ => {
                "Have the inner server keep idle connections longer than the outer one does (Node: server.keepAliveTimeout; gunicorn: --keep-alive; Puma: persistent_timeout; uvicorn: --timeout-keep-alive)."
            }
        }),
        rules::RESPONSES => Some(match server {
            Server::Nginx => {
                "Raise proxy_read_timeout (fastcgi_read_timeout), or lower the timeout of the server behind it, so that the inner server gives up first."
            }
            Server::Apache => {
                "Raise ProxyTimeout, or lower the timeout of the server behind it, so that the inner server gives up first."
            }
            Server::HaProxy => {
                "Raise timeout server, or lower the timeout of the server behind it, so that the inner server gives up first."
            }
            Server::Envoy => {
                "Raise the route's timeout (15s by default), or lower the timeout of the server behind it, so that the inner server gives up first."
            }
            _ => {
                "Raise the timeout of the outer server, or lower that of the inner one, so that the inner server gives up first."
            }
        }),
        _ => None,
    }
}
