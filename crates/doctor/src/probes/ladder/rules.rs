//! The rules: from what each server of a row grants to findings.

use std::time::Duration;

use super::hops::{Hop, IdleTimeout};
use crate::client::Response;
use crate::finding::Finding;
use crate::report::time;
use crate::server::Server;

pub(super) const HOPS: &str = "ladder.hops";
pub(super) const IDLE: &str = "ladder.idle";
pub(super) const RESPONSES: &str = "ladder.responses";

/// Fields by which servers in front show themselves.
const SIGNS: &[&str] = &[
    "via",
    "x-cache",
    "x-served-by",
    "x-varnish",
    "cf-ray",
    "x-amz-cf-id",
    "x-envoy-upstream-service-time",
    "x-forwarded-server",
    "age",
];

/// How a server in front keeps its own idle connections.
enum ProxyKeepAlive {
    /// This long, unless configured otherwise.
    For(Duration),
    /// Until the other side closes them, unless configured otherwise.
    Always,
    /// This long, if configured to keep any.
    IfTold(Duration),
    /// In a way that is not known.
    Unknown,
}

/// Without other servers to ask.
pub(super) fn alone(first: &Response) -> Finding {
    let seen: Vec<String> =
        SIGNS.iter().filter_map(|name| Some(format!("{name}: {}", first.field(name)?))).collect();
    let advice = "pass --via URL for each inner server, outermost first";
    let words = match seen.is_empty() {
        true => format!("no sign of a server behind this one; if there is one, {advice}"),
        false => format!("there is more than one server ({}); {advice}", seen.join(", ")),
    };
    Finding::unknown(HOPS, words)
}

/// Does the inner server keep idle connections longer than the outer one keeps its own to it?
pub(super) fn idle(outer: &Hop, inner: &Hop) -> Finding {
    let evidence = format!("{} keeps idle connections {}", inner.words(), inner.idle.words());
    let granted = match inner.idle {
        IdleTimeout::Never => {
            let words = format!("{evidence}: none can close while {} keeps it", outer.words());
            return Finding::good(IDLE, words);
        }
        IdleTimeout::Untold => {
            return Finding::unknown(IDLE, format!("{evidence}; --slow measures it"));
        }
        IdleTimeout::Promised(granted) | IdleTimeout::Measured(granted) | IdleTimeout::Longer(granted) => {
            granted
        }
    };
    let more = matches!(inner.idle, IdleTimeout::Longer(_));
    let (kept, how) = match keeps(outer.server) {
        ProxyKeepAlive::For(kept) => {
            (kept, format!("{} keeps its upstream connections for {} by default", outer.words(), time(kept)))
        }
        ProxyKeepAlive::Always => {
            (Duration::MAX, format!("{} keeps its upstream connections until they are closed", outer.words()))
        }
        ProxyKeepAlive::IfTold(kept) if kept >= granted => {
            return Finding::unknown(
                IDLE,
                format!(
                    "{evidence}; {} keeps no upstream connections unless configured, and then for {}: too long",
                    outer.words(),
                    time(kept)
                ),
            );
        }
        ProxyKeepAlive::IfTold(kept) => (
            kept,
            format!(
                "{} keeps its upstream connections, if any, for {} by default",
                outer.words(),
                time(kept)
            ),
        ),
        ProxyKeepAlive::Unknown => match outer.idle {
            IdleTimeout::Promised(kept) | IdleTimeout::Measured(kept) => (
                kept,
                format!(
                    "{} keeps client connections for {}, and perhaps its upstream connections, too",
                    outer.words(),
                    time(kept)
                ),
            ),
            _ => {
                return Finding::unknown(
                    IDLE,
                    format!(
                        "{evidence}; how long {} keeps its upstream connections is not known",
                        outer.words()
                    ),
                );
            }
        },
    };
    match kept < granted {
        true => Finding::good(IDLE, format!("{evidence}; {how}")),
        false if more => Finding::unknown(IDLE, format!("{evidence}; {how}")),
        false => Finding::warning(IDLE, format!("{evidence}; {how}: a request may be sent on a connection that is closing"))
            .costs("now and then a 502 for a request that must not be sent twice (POST), most often when there is little traffic"),
    }
}

/// Does the outer server wait longer for a response than the inner?
pub(super) fn responds(outer: &Hop, inner: &Hop) -> Finding {
    let evidence = format!(
        "{} returned {} after {}, {} returned {} after {}",
        outer.words(),
        outer.status,
        time(outer.took),
        inner.words(),
        inner.status,
        time(inner.took)
    );
    match (outer.status, inner.status) {
        (504, ..500) if inner.took > outer.took => Finding::bad(
            RESPONSES,
            format!("{evidence}: the outer server gives up while the inner one still works"),
        )
        .costs(format!(
            "{} of wasted work on every such request, and an error instead of a response",
            time(inner.took)
        )),
        (_, 503 | 504) if outer.status >= 500 && outer.took >= inner.took.mul_f64(0.9) => {
            Finding::good(RESPONSES, format!("{evidence}: the inner server gives up first"))
        }
        _ => Finding::unknown(
            RESPONSES,
            format!(
                "{evidence}: neither timed out; check the URL of a slow resource, with a --timeout above theirs"
            ),
        ),
    }
}

/// The defaults of proxies, from their documentation.
fn keeps(server: Server) -> ProxyKeepAlive {
    match server {
        // ngx_http_upstream_module, keepalive_timeout; `keepalive` itself has to be set before 1.29.7.
        Server::Nginx => ProxyKeepAlive::IfTold(Duration::from_secs(60)),
        // common_http_protocol_options.idle_timeout
        Server::Envoy => ProxyKeepAlive::For(Duration::from_secs(3600)),
        // reverse_proxy, transport http, keepalive
        Server::Caddy => ProxyKeepAlive::For(Duration::from_secs(120)),
        // mod_proxy: `ttl` is not set.
        Server::Apache => ProxyKeepAlive::Always,
        _ => ProxyKeepAlive::Unknown,
    }
}

impl Hop {
    fn words(&self) -> String {
        match self.server {
            Server::Unknown => self.url.clone(),
            server => format!("{} ({})", self.url, server.name()),
        }
    }
}

impl IdleTimeout {
    fn words(self) -> String {
        match self {
            Self::Never => "for 0 s (it closes after each response)".to_owned(),
            Self::Promised(granted) => format!("for {}, as it announces", time(granted)),
            Self::Measured(granted) => format!("for {}", time(granted)),
            Self::Longer(granted) => format!("for more than {}", time(granted)),
            Self::Untold => "for an unknown time".to_owned(),
        }
    }
}
