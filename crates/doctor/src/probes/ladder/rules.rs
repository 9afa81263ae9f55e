//! The rules: from what each server of a row grants to findings.

use std::time::Duration;

use super::hops::{Hop, Idle};
use crate::finding::Finding;
use crate::report::time;
use crate::server::Server;
use crate::wire::Response;

pub(super) const HOPS: &str = "ladder.hops";
pub(super) const IDLE: &str = "ladder.idle";
pub(super) const RESPONSES: &str = "ladder.answers";

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
enum Keeps {
    /// So long, unless it is told otherwise.
    For(Duration),
    /// Until the other side closes them, unless it is told otherwise.
    Always,
    /// So long, if it is told to keep any.
    IfTold(Duration),
    /// In a way that is not known.
    Unknown,
}

/// Without other servers to ask.
pub(super) fn alone(first: &Response) -> Finding {
    let seen: Vec<String> =
        SIGNS.iter().filter_map(|name| Some(format!("{name}: {}", first.field(name)?))).collect();
    let advice = "pass --via URL for each server behind, outermost first";
    let words = match seen.is_empty() {
        true => format!("no server behind this one shows itself; if there is one, {advice}"),
        false => format!("there is more than one server ({}); {advice}", seen.join(", ")),
    };
    Finding::unknown(HOPS, words)
}

/// Does the inner server keep idle connections longer than the outer one keeps its own to it?
pub(super) fn idle(outer: &Hop, inner: &Hop) -> Finding {
    let evidence = format!("{} keeps an idle connection {}", inner.words(), inner.idle.words());
    let granted = match inner.idle {
        Idle::Never => {
            let words = format!("{evidence}: none that {} keeps can be closed under it", outer.words());
            return Finding::good(IDLE, words);
        }
        Idle::Untold => {
            return Finding::unknown(IDLE, format!("{evidence}; --slow measures it"));
        }
        Idle::Promised(granted) | Idle::Measured(granted) | Idle::Longer(granted) => granted,
    };
    let more = matches!(inner.idle, Idle::Longer(_));
    let (kept, how) = match keeps(outer.server) {
        Keeps::For(kept) => (kept, format!("{} keeps its own for {} by default", outer.words(), time(kept))),
        Keeps::Always => (Duration::MAX, format!("{} keeps its own until they are closed", outer.words())),
        Keeps::IfTold(kept) if kept >= granted => {
            return Finding::unknown(
                IDLE,
                format!(
                    "{evidence}; {} keeps none unless told to, and then for {}: too long",
                    outer.words(),
                    time(kept)
                ),
            );
        }
        Keeps::IfTold(kept) => {
            (kept, format!("{} keeps its own, if any, for {} by default", outer.words(), time(kept)))
        }
        Keeps::Unknown => match outer.idle {
            Idle::Promised(kept) | Idle::Measured(kept) => (
                kept,
                format!("{} grants its clients {}, and its own perhaps as much", outer.words(), time(kept)),
            ),
            _ => {
                return Finding::unknown(
                    IDLE,
                    format!("{evidence}; how long {} keeps its own is not known", outer.words()),
                );
            }
        },
    };
    match kept < granted {
        true => Finding::good(IDLE, format!("{evidence}; {how}")),
        false if more => Finding::unknown(IDLE, format!("{evidence}; {how}")),
        false => Finding::warning(IDLE, format!("{evidence}; {how}: a request may be sent on one that is being closed"))
            .costs("now and then a 502 for what may not be sent twice (POST), most often when there is little traffic"),
    }
}

/// Does the outer server wait longer for a response than the inner?
pub(super) fn responds(outer: &Hop, inner: &Hop) -> Finding {
    let evidence = format!(
        "{} responded with {} after {}, {} responded with {} after {}",
        outer.words(),
        outer.status,
        time(outer.took),
        inner.words(),
        inner.status,
        time(inner.took)
    );
    match (outer.status, inner.status) {
        (504, ..500) if inner.took > outer.took => {
            Finding::bad(RESPONSES, format!("{evidence}: the outer gives up while the inner still works"))
                .costs(format!(
                    "{} of work for nobody on every such request, and an error in place of a response",
                    time(inner.took)
                ))
        }
        (_, 503 | 504) if outer.status >= 500 && outer.took >= inner.took.mul_f64(0.9) => {
            Finding::good(RESPONSES, format!("{evidence}: the inner gives up first"))
        }
        _ => Finding::unknown(
            RESPONSES,
            format!(
                "{evidence}: none ran into a time-out; examine the URL of something slow, with a --timeout above theirs"
            ),
        ),
    }
}

/// The defaults of proxies, from their documentation.
fn keeps(server: Server) -> Keeps {
    match server {
        // ngx_http_upstream_module, keepalive_timeout; `keepalive` itself has to be set before 1.29.7.
        Server::Nginx => Keeps::IfTold(Duration::from_secs(60)),
        // common_http_protocol_options.idle_timeout
        Server::Envoy => Keeps::For(Duration::from_secs(3600)),
        // reverse_proxy, transport http, keepalive
        Server::Caddy => Keeps::For(Duration::from_secs(120)),
        // mod_proxy: `ttl` is not set.
        Server::Apache => Keeps::Always,
        _ => Keeps::Unknown,
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

impl Idle {
    fn words(self) -> String {
        match self {
            Self::Never => "not at all".to_owned(),
            Self::Promised(granted) => format!("for {}, so it says", time(granted)),
            Self::Measured(granted) => format!("for {}", time(granted)),
            Self::Longer(granted) => format!("for more than {}", time(granted)),
            Self::Untold => "for a time that it does not tell".to_owned(),
        }
    }
}
