//! Several requests on one HTTP/1.1 connection: does each get a response, and is the last one announced?

use std::time::Duration;

use keepwarm_http1::{ResponseHead, Version};

use super::{ConnectionState, Series, patience, series};
use crate::client::{Failure, Outcome, Response};
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::report::time;

/// Whether a connection is kept, and what it costs if not.
pub(super) const REUSE: &str = "persistence.reuse";

/// Whether the server treats the connection as its responses announce.
pub(super) const ANNOUNCED: &str = "persistence.announced";

/// Requests sent on one connection.
const REQUESTS: usize = 3;

/// Opening a connection within a machine takes less than this. A higher cost is worth reporting.
const CHEAP: Duration = Duration::from_millis(1);

/// The findings about keep-alive, and the basis of later steps.
pub(super) struct KeepAlive {
    pub(super) findings: Vec<Finding>,
    /// Seconds of `Keep-Alive: timeout=`.
    pub(super) promised: Option<u64>,
    /// A second request gets nothing.
    pub(super) stalls: bool,
    /// Why the ordinary request itself got no response, the first one on its connection; nothing as a rule.
    pub(super) without_response: Option<String>,
    /// It got nothing within its time.
    pub(super) silent: bool,
}

pub(super) async fn examine(context: &ProbeContext) -> KeepAlive {
    let asks = vec![context.ordinary_request(); REQUESTS];
    let once = match asked(context, &asks).await {
        Ok(series) => series,
        Err(failure) => {
            let unknown = |id| Finding::unknown(id, failure.to_string());
            return KeepAlive {
                findings: vec![unknown(REUSE), unknown(ANNOUNCED)],
                promised: None,
                stalls: false,
                without_response: Some(failure.to_string()),
                silent: false,
            };
        }
    };
    let cheapest = cheapest(context, once.opening).await;
    let judged =
        |series: &Series| vec![reuse(series, cheapest, context.target.is_encrypted()), announced(series)];
    let mut findings = judged(&once);
    let is_bad = |finding: &Finding| finding.verdict == Verdict::Bad;
    if findings.iter().any(is_bad) {
        // A worker that is replaced closes a connection once; a fault of the server repeats.
        if let Ok(again) = asked(context, &asks).await {
            let again = judged(&again);
            if again.iter().zip(&findings).any(|(now, then)| is_bad(then) && !is_bad(now)) {
                findings = again;
            }
        }
    }
    let promised =
        once.responses.iter().filter_map(|response| response.head.as_ref()?.keep_alive_timeout()).next();
    let stalls = findings.iter().any(|finding| finding.id == REUSE && is_bad(finding));
    let without_response = match once.responses.as_slice() {
        [only] if !only.is_complete() => Some(format!("{}: {}", once.asked, only.words())),
        _ => None,
    };
    let silent =
        without_response.is_some() && once.last().is_some_and(|only| only.outcome == Outcome::Silence);
    KeepAlive { findings, promised, stalls, without_response, silent }
}

async fn asked(context: &ProbeContext, asks: &[crate::client::Request]) -> Result<Series, Failure> {
    series(context, asks, ResponseHead::is_persistent, patience(context)).await
}

/// The least time to open a connection: the quickest of three.
async fn cheapest(context: &ProbeContext, first: Duration) -> Duration {
    let mut cheapest = first;
    for _ in 0..2 {
        if let Ok(connection) = context.connect().await {
            cheapest = cheapest.min(connection.times.connect + connection.times.tls);
        }
    }
    cheapest
}

/// Is a connection good for more than one request, and what does it cost if not?
pub(super) fn reuse(series: &Series, opening: Duration, encrypted: bool) -> Finding {
    let times: Vec<String> = series.responses.iter().map(Response::words).collect();
    let evidence = format!("{}: {}", series.asked, times.join("; then on the same connection "));
    let Some(last) = series.last() else { return Finding::unknown(REUSE, evidence) };
    match (&last.outcome, series.responses.len()) {
        (Outcome::Complete, REQUESTS) => Finding::good(REUSE, evidence),
        (Outcome::Complete, _) if !series.is_kept() => never_kept(series, &evidence, opening, encrypted),
        (Outcome::Silence, 2..) => {
            Finding::bad(REUSE, evidence).costs("a client that reuses connections waits until it times out")
        }
        // The close is unannounced, or the bytes are not a response; other findings report both.
        _ => Finding::unknown(REUSE, evidence),
    }
}

/// Each call pays for a connection.
fn never_kept(series: &Series, evidence: &str, opening: Duration, encrypted: bool) -> Finding {
    let old = series.last().and_then(|response| response.head.as_ref());
    let old = old.is_some_and(|head| head.version == Version::Http10);
    let why = match series.last().and_then(|response| response.field("connection")) {
        Some(value) => format!("Connection: {value}"),
        None if old => "an HTTP/1.0 response without keep-alive".to_owned(),
        None => "a response without a length".to_owned(),
    };
    let count = match series.responses.len() {
        1 => "every response".to_owned(),
        count => format!("{count} responses"),
    };
    let evidence = format!("{evidence}; the connection closes after {count} ({why})");
    let what = if encrypted { "connection and TLS handshake" } else { "connection" };
    let cost = format!("a new {what} for every request: at least {} each from here", time(opening));
    match encrypted || opening >= CHEAP {
        true => Finding::warning(REUSE, evidence).costs(cost),
        false => Finding::good(REUSE, evidence).costs(cost),
    }
}

/// Whether the announcement holds: a kept connection is not closed after a response, and one announced to end does end.
pub(super) fn announced(series: &Series) -> Finding {
    let Some(last) = series.last() else { return Finding::unknown(ANNOUNCED, series.asked.clone()) };
    let evidence = format!("{}: {}", series.asked, last.words());
    let connection = last
        .field("connection")
        .map_or_else(|| "no Connection header".to_owned(), |value| format!("Connection: {value}"));
    match (&last.outcome, series.is_kept(), series.state) {
        (Outcome::Complete, true, ConnectionState::Closed(after)) => {
            Finding::bad(ANNOUNCED, format!("{evidence} ({connection}), but closed {} later", time(after)))
                .costs(
                    "the next request on such a connection is lost: an error, or a retry where one is safe",
                )
        }
        (Outcome::Complete, false, ConnectionState::Open(after)) => Finding::bad(
            ANNOUNCED,
            format!("{evidence} ({connection}), but still open {} later", time(after)),
        )
        .costs(format!("more than {} for every client that waits for the close", time(after))),
        (Outcome::Complete, true, ConnectionState::Open(_)) => {
            Finding::good(ANNOUNCED, format!("{evidence}, persistent and kept open"))
        }
        (Outcome::Complete, false, ConnectionState::Closed(after)) => {
            Finding::good(ANNOUNCED, format!("{evidence} ({connection}), closed {} later", time(after)))
        }
        // The second or third request met a close that came while it was under way.
        (Outcome::Closed | Outcome::Reset, _, _) if last.head.is_none() && series.responses.len() > 1 => {
            Finding::bad(
                ANNOUNCED,
                format!("{evidence}, although the previous response kept the connection open"),
            )
            .costs("the next request on such a connection is lost: an error, or a retry where one is safe")
        }
        _ => Finding::unknown(ANNOUNCED, evidence),
    }
}
