//! A client of HTTP/1.0, without `keep-alive` and with it.

use std::time::Duration;

use keepwarm_http1::{ResponseBody, ResponseHead, Version};

use super::{
    ConnectionState, Series, at_once, ends_by_close, patience, quickest_close, refuses_version, series,
};
use crate::client::{Failure, Outcome, Response};
use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::report::time;

/// Without `keep-alive`: the close is what such a client waits for.
pub(super) const PLAIN: &str = "persistence.http10";

/// With it: kept or not, the response has to say so.
pub(super) const KEPT: &str = "persistence.http10_keep_alive";

/// No chunks for a client that does not know them.
pub(super) const CHUNKED: &str = "persistence.http10_chunked";

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let plain = closing(context).await;
    let keep_alive = keeping(context).await;
    let prompt = at_once(context);
    // A refusal stalls as any other response does when its close does not come: Envoy's comes after a second.
    let refused = |series: &Series| {
        let closed = matches!(series.state, ConnectionState::Closed(after) if after <= prompt);
        refuses_version(series) && closed && !matches!(context.first.status(), Some(426 | 505))
    };
    let mut findings = match &plain {
        Ok(series) if refused(series) => vec![Finding::good(PLAIN, not_spoken(series))],
        Ok(series) => vec![without_keep_alive(series, prompt)],
        Err(failure) => vec![Finding::unknown(PLAIN, failure.to_string())],
    };
    findings.push(match &keep_alive {
        Ok(series) if refused(series) => Finding::good(KEPT, not_spoken(series)),
        Ok(series) => with_keep_alive(series, prompt),
        Err(failure) => Finding::unknown(KEPT, failure.to_string()),
    });
    findings.push(chunked(&[plain.as_ref().ok(), keep_alive.as_ref().ok()]));
    findings
}

/// The connection of a client that does not request `keep-alive`.
async fn closing(context: &ProbeContext) -> Result<Series, Failure> {
    quickest_close(context, &[context.ordinary_request().http10().without("Connection")], patience(context))
        .await
}

/// The connection of a client that requests `keep-alive`.
async fn keeping(context: &ProbeContext) -> Result<Series, Failure> {
    let request = context.ordinary_request().http10().field("Connection", "keep-alive");
    let asks = [request.clone(), request];
    let once = series(context, &asks, granted, patience(context)).await?;
    match with_keep_alive(&once, at_once(context)).verdict {
        Verdict::Bad if !context.settings.slow && !refuses_version(&once) => {
            series(context, &asks, granted, patience(context)).await
        }
        _ => Ok(once),
    }
}

fn not_spoken(series: &Series) -> String {
    let words = series.last().map(Response::words).unwrap_or_default();
    let then = match series.state {
        ConnectionState::Closed(after) => format!("closed {} later", time(after)),
        ConnectionState::Open(after) => format!("still open {} later", time(after)),
    };
    format!("{}: {words}, {then}; the server does not support HTTP/1.0", series.asked)
}

/// The server closes on a client of HTTP/1.0 that does not request `keep-alive`.
pub(super) fn without_keep_alive(series: &Series, prompt: Duration) -> Finding {
    let Some(response) = series.last() else { return Finding::unknown(PLAIN, series.asked.clone()) };
    let evidence = format!("{}: {}", series.asked, response.words());
    let stalls = |how: String, cost: String| {
        Finding::bad(PLAIN, format!("{evidence}{}, {how}", said(response)))
            .costs(format!("{cost} on every request of an HTTP/1.0 client without keep-alive"))
    };
    if series.behind > 0 {
        return Finding::unknown(PLAIN, behind(&evidence, series));
    }
    match (&response.outcome, series.state) {
        (Outcome::Complete, ConnectionState::Closed(after)) if after <= prompt => {
            Finding::good(PLAIN, format!("{evidence}, closed {} later", time(after)))
        }
        (Outcome::Complete, ConnectionState::Closed(after)) => {
            stalls(format!("and closed only {} later", time(after)), time(after))
        }
        (Outcome::Complete, ConnectionState::Open(after)) => {
            stalls(format!("and still open {} later", time(after)), format!("more than {}", time(after)))
        }
        // Everything but the close came; nothing else ends this body.
        (Outcome::Silence, ConnectionState::Open(after))
            if ends_by_close(response) && after >= prompt * 4 =>
        {
            stalls(
                format!("its body ends with the close, which did not happen within {}", time(after)),
                format!("more than {}", time(after)),
            )
        }
        _ => Finding::unknown(PLAIN, evidence),
    }
}

/// Bytes after a response hide whether the connection is kept.
fn behind(evidence: &str, series: &Series) -> String {
    format!("{evidence}, and {} bytes after its end", series.behind)
}

/// The response's words about the connection.
fn said(response: &Response) -> String {
    let version = match response.head.as_ref().map(|head| head.version) {
        Some(Version::Http10) => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    match response.field("connection") {
        Some(value) => format!(" ({version}, Connection: {value})"),
        None => format!(" ({version}, no Connection header)"),
    }
}

/// A client of HTTP/1.0 that requests `keep-alive` reads in the response whether it got it, and waits for the close if not.
pub(super) fn with_keep_alive(series: &Series, prompt: Duration) -> Finding {
    let Some(first) = series.responses.first() else { return Finding::unknown(KEPT, series.asked.clone()) };
    let Some(head) = first.head.as_ref().filter(|_| first.is_complete()) else {
        return Finding::unknown(KEPT, format!("{} with keep-alive: {}", series.asked, first.words()));
    };
    let evidence = format!("{} with keep-alive: {}{}", series.asked, first.words(), said(first));
    if series.behind > 0 {
        return Finding::unknown(KEPT, behind(&evidence, series));
    }
    if !granted(head) {
        return not_granted(series, prompt, &evidence);
    }
    let second = series.responses.get(1);
    match (second.map(|response| &response.outcome), series.state) {
        (None, ConnectionState::Closed(after)) => {
            Finding::bad(KEPT, format!("{evidence}, and closed {} later without announcement", time(after)))
                .costs("the next request of such a client meets a closed connection: an error, or a retry")
        }
        (Some(Outcome::Complete), _) => Finding::good(
            KEPT,
            format!("{evidence}; second request: {}", second.map(Response::words).unwrap_or_default()),
        ),
        (Some(Outcome::Silence | Outcome::Closed | Outcome::Reset), _) => Finding::bad(
            KEPT,
            format!("{evidence}; second request: {}", second.map(Response::words).unwrap_or_default()),
        )
        .costs("every second request on a persistent connection of such a client"),
        _ => Finding::unknown(KEPT, evidence),
    }
}

/// `keep-alive` was not granted: then the close is due.
fn not_granted(series: &Series, prompt: Duration, evidence: &str) -> Finding {
    match series.state {
        ConnectionState::Closed(after) if after <= prompt => {
            Finding::good(KEPT, format!("{evidence}, closed {} later", time(after)))
        }
        ConnectionState::Closed(after) => {
            Finding::bad(KEPT, format!("{evidence}, and closed only {} later", time(after)))
                .costs(format!("{} on every request of an HTTP/1.0 client with keep-alive", time(after)))
        }
        ConnectionState::Open(after) => {
            Finding::bad(KEPT, format!("{evidence}, and still open {} later", time(after)))
                .costs(format!("more than {} on every request of such a client", time(after)))
        }
    }
}

/// Whether a client of HTTP/1.0 may take the connection for kept: the response says so, and its end can be determined.
fn granted(head: &ResponseHead) -> bool {
    head.connection.keep_alive && !head.connection.close && head.body != ResponseBody::UntilClose
}

/// RFC 9112 §6.1: a server must not send a transfer coding to a client of HTTP/1.0.
fn chunked(asked: &[Option<&Series>]) -> Finding {
    let responses = asked
        .iter()
        .flatten()
        .flat_map(|series| series.responses.iter().map(move |response| (series, response)));
    let mut seen = None;
    for (series, response) in responses {
        let Some(head) = &response.head else { continue };
        if let Some(coding) = response.field("transfer-encoding") {
            return Finding::bad(
                CHUNKED,
                format!("{}: {}, with Transfer-Encoding: {coding}", series.asked, response.words()),
            )
            .costs("such a client reads the chunk sizes as content, and waits for the close");
        }
        seen = Some((series, head.status));
    }
    match seen {
        Some((series, status)) => Finding::good(
            CHUNKED,
            format!("{}: {}, without Transfer-Encoding", series.asked, status.as_u16()),
        ),
        None => Finding::unknown(CHUNKED, "no response to an HTTP/1.0 request"),
    }
}
