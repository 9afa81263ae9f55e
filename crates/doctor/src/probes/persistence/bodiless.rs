//! Responses without a body, whatever their fields say: to HEAD, and 304 (RFC 9112 §6.3). A body sent all the same is taken for the next response.

use keepwarm_http1::ResponseHead;

use super::{Series, light, patience, series};
use crate::client::{Outcome, Request, Response};
use crate::context::ProbeContext;
use crate::finding::Finding;

pub(super) const HEAD: &str = "persistence.head";
pub(super) const NOT_MODIFIED: &str = "persistence.not_modified";

const COST: &str = "on a persistent connection the next response is misread, or the connection is lost";

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    vec![head(context).await, not_modified(context).await]
}

async fn head(context: &ProbeContext) -> Finding {
    match asked(context, context.request_by("HEAD")).await {
        Ok(series) => judge(HEAD, "", &series),
        Err(why) => Finding::unknown(HEAD, why),
    }
}

async fn not_modified(context: &ProbeContext) -> Finding {
    if context.first.status() != Some(200) {
        let status = context.first.status().unwrap_or_default();
        return Finding::unknown(
            NOT_MODIFIED,
            format!("the page returns {status}, for which there is no 304"),
        );
    }
    let Some((name, value)) = condition(&context.first) else {
        return Finding::unknown(
            NOT_MODIFIED,
            "the page has neither ETag nor Last-Modified for a conditional request",
        );
    };
    let request = context.ordinary_request().field(name, &value);
    match asked(context, request).await {
        Ok(series) if series.responses.first().and_then(Response::status) != Some(304) => {
            let words = series.responses.first().map(Response::words).unwrap_or_default();
            Finding::unknown(NOT_MODIFIED, format!("{} with {name}: {words}, not 304", series.asked))
        }
        Ok(series) => judge(NOT_MODIFIED, &format!(" with {name}"), &series),
        Err(why) => Finding::unknown(NOT_MODIFIED, why),
    }
}

/// The field that makes the request conditional on the validator of the first response (RFC 9110 §13.1).
fn condition(first: &Response) -> Option<(&'static str, String)> {
    let etag = first.field("etag").map(|tag| ("If-None-Match", tag));
    etag.or_else(|| first.field("last-modified").map(|date| ("If-Modified-Since", date)))
}

/// The request, and an ordinary one after it.
async fn asked(context: &ProbeContext, request: Request) -> Result<Series, String> {
    let mut series = series(
        context,
        &[request, light(context)],
        ResponseHead::is_persistent,
        patience(context).min(super::PATIENCE),
    )
    .await
    .map_err(|failure| failure.to_string())?;
    // The second only shows whether anything stood between the two.
    if series.responses.len() > 1 && series.last().is_some_and(Response::is_complete) {
        series.behind = 0;
    }
    Ok(series)
}

/// It ends with its head, and nothing comes after it.
pub(super) fn judge(id: &'static str, with: &str, series: &Series) -> Finding {
    let Some(first) = series.responses.first() else { return Finding::unknown(id, series.asked.clone()) };
    let evidence = format!("{}{with}: {}", series.asked, first.words());
    if series.behind > 0 {
        let evidence = format!("{evidence}, followed by {} bytes of body", series.behind);
        return match first.head.as_ref().is_some_and(ResponseHead::is_persistent) {
            true => Finding::bad(id, evidence).costs(COST),
            // Nothing is read after the end of the connection.
            false => Finding::warning(id, format!("{evidence}, and then the connection ends")).costs(
                "bytes that no client reads; behind a proxy that keeps connections open, a misread response",
            ),
        };
    }
    match (&first.outcome, series.responses.get(1).map(|second| &second.outcome)) {
        (Outcome::Complete, Some(Outcome::Malformed(fault))) => {
            let evidence = format!("{evidence}; the next response on the connection is not valid ({fault})");
            Finding::bad(id, evidence).costs(COST)
        }
        (Outcome::Complete, Some(Outcome::Complete)) => {
            Finding::good(id, format!("{evidence}, no body, and the connection serves the next request"))
        }
        (Outcome::Complete, _) => Finding::good(id, format!("{evidence}, no body")),
        _ => Finding::unknown(id, evidence),
    }
}
